"""The page: one file that shows captions as text only, runs no script but its own, and needs no network."""

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from captious.render import Column, Document, Entry, Evidence, Line, Phrase, Span, Table, Text, link, open_evidence
from captious.render.html import render_page
from captious.render.items import build_explorer_data, select_items


class Reading(HTMLParser):
    """Tags with their attributes, and the text of each script by id."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.inside, self.text = [], {}, None, ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = (dict(attrs).get("id") or "code") if tag == "script" else None

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.scripts[self.inside] = self.scripts.get(self.inside, "") + data
        else:
            self.text += data


def data_of(text):
    return json.loads(Reading(text).scripts["data"], parse_constant=pytest.fail)


def policy_of(text):
    return next(tag["content"] for name, tag in Reading(text).tags if "http-equiv" in tag)


def test_captions_cannot_become_markup(samples):
    sample = samples.everything()
    text = render_page(sample.document())
    reading = Reading(text)
    assert set(reading.scripts) == {"data", "images", "code"} and text.count("</script>") == 3
    assert not any("onclick" in attributes for _, attributes in reading.tags)
    assert "alert(1)</" not in text
    assert samples.NASTY in reading.text
    assert data_of(text)["candidates"][0][3] == [samples.NASTY]
    assert "innerHTML" not in text and "insertAdjacentHTML" not in text and "document.write" not in text


def test_nothing_is_fetched_and_only_the_pages_own_script_may_run(samples):
    text = render_page(samples.everything().document())
    assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]", text)
    reading = Reading(text)
    for tag, attributes in reading.tags:
        assert tag not in {"link", "iframe", "object", "base", "form"}
        assert (attributes.get("src") or "data:").startswith("data:")
        assert (attributes.get("href") or "#").startswith(("#", "pictures/"))
    own = b64encode(sha256(reading.scripts["code"].encode()).digest()).decode()
    expected = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{own}'"
    assert policy_of(text) == expected


def test_a_document_with_nothing_to_open_or_sort_has_no_script(samples):
    text = render_page(samples.Sample([samples.gallery(), *samples.charts()]).document())
    assert "<script" not in text and "script-src" not in policy_of(text)
    assert "noscript" not in text


def test_a_card_of_two_panels_is_on_the_page_once_and_escaped():
    card = Entry("<1>", [Line("</template><b>a dog")])
    links = Text([link("one", open_evidence("a")), link("both", open_evidence("b"))])
    panels = [Evidence("a", "<A>", [card]), Evidence("b", "B", [Entry("2", [Line("a cat")]), card], "a note")]
    text = render_page(Document("t", sections=[links, *panels]))
    assert text.count("</template>") == 2 and "&lt;/template&gt;&lt;b&gt;a dog" in text
    data = json.loads(Reading(text).scripts["evidence"])
    assert data == {
        "a": {"title": "<A>", "note": "", "cards": [0]},
        "b": {"title": "B", "note": "a note", "cards": [1, 0]},
    }
    assert 'href="#open=a"' in text and "s-B" not in text


def test_a_bar_is_green_only_where_more_is_better_than_nothing():
    """A difference has a good side; an amount has none; a share of faults is in the color of faults."""
    columns = ["x", Column("difference", bar=True), Column("amount", bar=True), Column("wrong", bar=True, fault=True)]
    text = render_page(Document("t", sections=[Table("t", "", columns, [("a", 1.0, 1.0, 1.0), ("b", -1.0, 2.0, 0.5)])]))
    kinds = re.findall(r'<i class="(plus|minus|amount|fault)"', text)
    assert kinds == ["plus", "amount", "fault", "minus", "amount", "fault"]


def test_tables_show_rounded_numbers_dashes_and_the_best(samples):
    text = render_page(samples.Sample([samples.scores(), samples.systems()]).document())
    assert '<td class="number best" data-label="value">0.3142</td>' in text
    assert '<td class="number" data-label="value, 95% interval">0.3000 – 0.3300</td>' in text
    assert "1,234" in text and "NaN" not in text and "nan" not in Reading(text).text.lower()
    assert '<td class="number best" data-label="CIDEr">1.1000 ± 0.0200<span class="mark">†</span></td>' in text
    assert '<td class="number best" data-label="mBLEU">0.4000</td>' in text
    assert '<td class="number" data-label="mBLEU">0.5000</td>' in text
    assert "&lt; 0.001" in text and re.search('<tr class=open><th class=""[^>]*>[*] τ-b', text)


def test_a_turned_table_has_its_rows_as_columns(samples):
    text = render_page(samples.Sample([replace(samples.systems(), turned=True)]).document())
    rows = [re.sub("<[^>]+>", " ", row).split() for row in re.findall("<tr>.*?</tr>", text)]
    assert rows[0] == ["a^b\\~", "[mini]", "&amp;", "50%_#{}$", "*", "τ-b"]
    assert " ".join(rows[1]) == "CIDEr ↑ 1.0200 ± 0.0200 1.1000 ± 0.0200 † —"
    label = 'data-label="[mini] &amp; 50%_#{}$"'
    assert f'<td class="best" {label} style="--bar:var(--s1)">1.1000 ± 0.0200' in text


def test_bars_are_on_the_scale_of_their_cells(samples):
    text = render_page(samples.Sample().document())
    bands = re.findall(r'class="band" style="left:([\d.]+)%;right:([\d.]+)%"', text)
    assert bands == [("30.0", "67.0"), ("9.8", "88.9")]  # 0.30 to 0.33 of 0 to 1; 0.98 to 1.11 of 0 to 10
    assert re.findall(r'class="dot" style="left:([\d.]+)%"', text) == ["31.42", "10.46"]


def test_columns_that_look_alike_keep_their_own_bars():
    column = Column("adds", bar=True)
    text = render_page(
        Document("t", sections=[Table("t", "t", ["n-gram", column, column], [("a", 1.0, 4.0), ("b", 2.0, 1.0)])])
    )
    assert re.findall(r'class="amount" style="left:0.0%;right:([\d.]+)%"', text) == ["50.0", "0.0", "0.0", "75.0"]


@pytest.mark.parametrize("href", ["javascript:alert(1)", "http://x.org", "//x.org", "/etc/passwd", "data:text/html,x"])
def test_a_link_stays_on_the_page(href):
    text = render_page(Document("t", sections=[Text([Phrase.of(Span("here", href=href))])]))
    assert [tag for tag, _ in Reading(text).tags].count("a") == 0 and "here" in text


def test_warnings_notes_and_signatures_are_shown(samples):
    text = render_page(samples.everything().document())
    assert text.count('class="warning"><strong>') == 7 and "3 more warnings" in text
    assert "<li>4 items</li>" in text and "<code>cider|idf:refs|captious:1</code>" in text


def test_every_item_and_value_reaches_the_explorer(samples):
    data = data_of(render_page(samples.Sample([samples.items()]).document()))
    assert data["ids"] == list(samples.IDS)
    assert data["candidates"] == [[[text] for text in samples.TEXTS]] * 2
    assert data["references"] == [list(texts) for texts in samples.REFERENCES]
    assert data["values"][0] == [[1.0, 0.5, 0.0, 0.2], [2.0, 1.0, 0.0, None]]
    assert data["reasons"][0] == [{}, {"nasty": "no references"}]
    assert data["metrics"][1] == {"key": "cider(idf=refs)", "label": "CIDEr", "higher": True, "range": [0.0, None]}
    assert data["lengths"][0][:3] == [7, 7, 3]
    assert data["fields"][0] == {"style": "plain"}


def test_items_without_references_reasons_images_and_fields(samples):
    bare = samples.items(references=(), reasons=(), fields={}, images=())
    data = data_of(render_page(samples.Sample([bare]).document()))
    assert data["references"] == [[]] * 4 and data["fields"] == [{}] * 4 and data["pictures"] == [None] * 4


def test_images_are_embedded_once_and_unreadable_ones_counted(samples, tmp_path):
    Image.new("RGB", (640, 320), "red").save(tmp_path / "a.png")
    Image.new("RGBA", (10, 20), "blue").save(tmp_path / "b.png")
    (tmp_path / "c.png").write_text("not an image")
    paths = [str(tmp_path / name) for name in ("a.png", "b.png", "c.png", "a.png")]
    text = render_page(samples.Sample([samples.items(images=paths)]).document())
    assert len(json.loads(Reading(text).scripts["images"])) == 2 and text.count("data:image/") == 2
    data = data_of(text)
    assert data["pictures"] == [0, 1, None, 0] and data["unreadable"] == 1
    assert str(tmp_path) not in text


def test_the_limit_keeps_worst_and_best_and_every_score(samples):
    values = np.arange(100.0) % 10
    many = samples.items(
        ids=[str(number) for number in range(100)],
        systems=["one"],
        metrics=samples.items().metrics[:1],
        values=[[values]],
        texts=[[("a",)] * 100],
        references=[("a",)] * 100,
        reasons=(),
        fields={},
        limit=20,
    )
    text = render_page(samples.Sample([many]).document())
    data = data_of(text)
    assert len(data["shown"]) == len(data["references"]) == 20
    assert len(data["ids"]) == len(data["values"][0][0]) == 100
    assert [index for index in data["shown"] if index % 10 == 0] == list(range(0, 100, 10))
    assert sum(index % 10 == 9 for index in data["shown"]) >= 5
    assert text == render_page(samples.Sample([many]).document())


def test_selection_takes_turns_between_metrics_and_ignores_unscored():
    first = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, np.nan])
    second = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.0, 0.1, 0.2])
    chosen = select_items([first, second], 8, 4)
    assert len(chosen) == 4
    assert {0, 5} <= set(chosen)  # the worst of each
    assert 6 in chosen  # then the best of the first


def test_a_lone_surrogate_does_not_stop_the_page(samples):
    assert "a ? b" in render_page(samples.Sample([Text(["a \ud800 b"])]).document())


@pytest.mark.parametrize(
    ("address", "first"), [("", "bad"), ("#sort=rouge&order=best", "good"), ("#q=red+chair", "fair")]
)
def test_the_browser_lists_items_as_the_address_says(samples, drawn, address, first):
    text = drawn(render_page(samples.everything().document()), address)
    assert re.findall(r'<article [^>]*data-id="(\w+)"', text)[0] == first
    assert "<script>alert" not in text.partition('<script type="application/json"')[0]


def test_a_page_of_very_many_items_holds_the_selected_and_a_random_remainder(samples, monkeypatch):
    monkeypatch.setattr("captious.render.items.ITEMS", 3)
    items = samples.items(limit=2)
    data, _ = build_explorer_data(items)
    assert data["whole"] == len(items.ids) == 4 and len(data["ids"]) == 3
    shown = [data["ids"][number] for number in data["shown"]]
    assert shown == [items.ids[index] for index in select_items([items.values[0][0]], 4, 2)]
    for number, key in enumerate(data["ids"]):
        value = items.values[0][0][items.ids.index(key)]
        assert data["values"][0][0][number] == pytest.approx(value, abs=1e-6, nan_ok=True)
    assert data["candidates"][0] == [items.texts[0][items.ids.index(key)] for key in shown]
    assert all(key in data["ids"] for system in data["reasons"] for why in system for key in why)


def test_the_browser_says_that_it_holds_a_part_of_very_many_items(samples, drawn, monkeypatch):
    monkeypatch.setattr("captious.render.items.ITEMS", 3)
    text = drawn(render_page(samples.Sample([samples.items(limit=2)]).document()))
    assert "This page contains 3 of 4 items, and captions of 2" in text


def test_the_browser_states_the_limit_and_marks_the_unscored(samples, drawn):
    part = drawn(render_page(samples.Sample([samples.items(limit=3)]).document()))
    assert "Captions of 3 of 4 items are on this page" in part
    whole = drawn(render_page(samples.Sample([samples.items()]).document()), "#unscored=1")
    assert re.findall(r'data-id="(\w+)"', whole) == ["nasty"]
    assert "not scored, no references" in whole and "—" in whole


def test_scripts_lose_comments_and_indentation_alone():
    from captious.render.html import SCRIPTS, join_scripts, read_asset

    code = join_scripts(map(read_asset, SCRIPTS))
    assert not re.search(r"^[ \t]|^//", code, re.MULTILINE)
    for name in SCRIPTS:
        for line in map(str.strip, read_asset(name).splitlines()):
            assert line.count("`") % 2 == 0, "a text over several lines would lose its indentation"
            assert line.startswith("//") or line in code
