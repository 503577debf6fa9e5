"""A page of every kind of result: nothing is cut off on a phone or on paper, and what looks clickable opens."""

import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.test_arena import Referee, reply

import captious
from captious.cli.app import main
from captious.data import DEMO
from captious.options import Judging, Resampling, Runtime
from captious.rewarding import read_drift

ITEMS = 8
# The pixels between the margins that a browser leaves by default.
PAPER = {"A4": 718, "Letter": 740}
CUT_OFF = """() => {
  const edge = document.documentElement.clientWidth + 1;
  const wide = [...document.querySelectorAll("body *")].filter(one => one.getBoundingClientRect().right > edge);
  const frames = [...document.querySelectorAll(".scroll, figure")];
  const scrolled = frames.filter(one => one.scrollWidth > one.clientWidth + 1);
  return [document.documentElement.scrollWidth, ...[...wide, ...scrolled].map(one => one.outerHTML.slice(0, 120))];
}"""
NAMED = """() => [...document.querySelectorAll("table.shown")].map(table => {
  const named = [...table.tHead.rows[0].cells].map(one => one.textContent.replace(/[↑↓]/, "").trim());
  const labels = [...table.tBodies[0].rows[0].cells].map(one => one.dataset.label || "");
  return table.tHead.offsetHeight || named.every(name => labels.some(label => label.includes(name)));
})"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of each kind of result, by name, made of a few items of the sample in a folder of this machine."""
    folder = tmp_path_factory.mktemp("secret")
    ids = [row["image_id"] for row in json.loads((DEMO / "predictions/solid.json").read_text())][:ITEMS]
    for name in ("expert", "solid", "sloppy"):
        rows = json.loads((DEMO / "predictions" / f"{name}.json").read_text())[:ITEMS]
        (folder / f"{name}.json").write_text(json.dumps(rows))
    references = json.loads((DEMO / "references.json").read_text())
    references = {str(key): references[str(key)] for key in ids}
    (folder / "refs.json").write_text(json.dumps(references))
    for name in ("ratings", "long"):
        rows = [json.loads(line) for line in (DEMO / f"{name}.jsonl").read_text().splitlines()]
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows if row["id"] in ids))
    rows = [{"id": key, "caption": f"a {key} dog", "references": references[str(key)]} for key in ids]
    for part in range(2):
        (folder / f"part{part}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows[part::2]))
    for name in ("objects.jsonl", "objects.txt", "bias.jsonl"):
        shutil.copy(DEMO / name, folder)
    made = {name: _by_command(folder, name, line) for name, line in COMMANDS.items()}
    return made | {"arena": _arena(folder, references), "rewards": _rewards(folder)}


METRICS = "--metrics bleu,rouge,cider --samples 20"
COMMANDS = {
    "score": f"score F/solid.json -r F/refs.json --images {DEMO}/images {METRICS}",
    "compare": f"compare F/sloppy.json F/solid.json F/expert.json -r F/refs.json {METRICS}",
    "shards": f"score F/part*.jsonl {METRICS}",
    "study": f"study run F/ratings.jsonl -r F/refs.json --system captioner --permutations 20 {METRICS}",
    "systems": "study systems F/ratings.jsonl --system captioner --samples 20",
    "bias": "bias lic F/bias.jsonl --label label --mask gender --seeds 2",
    "stress": f"probe stress F/expert.json -r F/refs.json --items 4 {METRICS}",
    "specificity": "probe specificity F/long.jsonl -r F/refs.json --metrics rouge,cider --samples 20",
    "hallucination": "probe hallucination F/sloppy.json F/expert.json "
    "--metric chair(objects=F/objects.jsonl,vocabulary=F/objects.txt) --samples 20",
    "gate": "gate F/sloppy.json F/solid.json -r F/refs.json --metrics rouge,cider --margin 0.02",
}


def _by_command(folder, name, line):
    words = [word.replace("F/", f"{folder}/") for word in line.split()]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as exit:
        patch.setattr(sys, "argv", ["captious", *words, "--out", str(folder / name)])
        main()
    assert exit.value.code in (None, 0, 1, 3), name  # a gate says no with 1 and 3
    (page,) = (folder / name).glob("*.html")
    return page


def _arena(folder, references):
    captions = {
        name: [
            {"id": row["image_id"], "caption": row["caption"]}
            for row in json.loads((folder / f"{name}.json").read_text())
        ]
        for name in ("expert", "solid", "sloppy")
    }
    with pytest.MonkeyPatch.context() as patch:
        Referee(lambda body: reply("first")).install(patch)
        runtime = Runtime(judging=Judging(replies=folder / "replies.db"))
        captious.arena(captions, "m", resampling=Resampling(20), runtime=runtime, references=references).save(
            folder / "arena.html"
        )
    return folder / "arena.html"


def _rewards(folder):
    references = json.loads((folder / "refs.json").read_text())
    (reward,) = captious.rewards("rouge", references=references, watch="cider, distinct_n", every=1, out=folder / "log")
    for step in range(4):
        captions = [f"a dog of {key}" for key in references]
        reward(completions=captions, id=list(references), trainer_state=SimpleNamespace(global_step=step))
    read_drift(folder / "log").save(folder / "rewards.html")
    return folder / "rewards.html"


def test_nothing_is_cut_off_on_a_phone_or_on_paper(pages, chromium):
    faults = {}
    tab = chromium.new_page()
    for name, path in pages.items():
        tab.goto(path.as_uri())
        tab.evaluate("document.querySelectorAll('main > details').forEach(one => one.open = true)")
        for medium, width in (("screen", 360), *(("print", width) for width in PAPER.values())):
            tab.emulate_media(media=medium)
            tab.set_viewport_size({"width": width, "height": 900})
            found = tab.evaluate(CUT_OFF)
            if found != [width] or not all(tab.evaluate(NAMED)):
                faults[name, medium, width] = found
    tab.close()
    assert not faults, "\n".join(f"{where}: {str(found)[:400]}" for where, found in faults.items())


def test_numbers_of_a_chart_are_large_enough_to_read_on_a_phone(pages, chromium):
    """Text of 12.5 units in a drawing of 330 units, on 360 pixels less margins: 10 pixels and more."""
    tab = chromium.new_page(viewport={"width": 360, "height": 900})
    for name in ("study", "stress", "bias", "rewards"):
        tab.goto(pages[name].as_uri())
        sizes = tab.evaluate(
            "[...document.querySelectorAll('svg.chart')].filter(one => one.clientWidth)"
            ".map(one => 12.5 * one.clientWidth / one.viewBox.baseVal.width)"
        )
        assert sizes and min(sizes) >= 10, name
    tab.close()


def test_a_number_that_rounds_to_zero_has_no_sign(chromium):
    script = (Path(captious.__file__).parent / "render/page/base.js").read_text(encoding="utf-8")
    function = re.search(r"^function show\(.*?^}", script, re.DOTALL | re.MULTILINE)[0]
    tab = chromium.new_page()
    shown = tab.evaluate(f"() => {{ {function} return [show(-0.001, 2), show(-0.01, 2), show(0.001, 2)]; }}")
    assert shown == ["0.00", "−0.01", "0.00"]
    tab.close()


def test_items_that_are_not_printed_are_counted_on_paper(chromium, tmp_path):
    """Paper has no buttons to turn the pages of items."""
    captions = {str(number): f"a dog {number}" for number in range(60)}
    report = captious.evaluate(captions, "rouge", resampling=Resampling(0), references=captions)
    report.save(tmp_path / "many.html")
    tab = chromium.new_page()
    tab.goto((tmp_path / "many.html").as_uri())
    tab.emulate_media(media="print")
    shown = "one => one.offsetHeight"
    assert tab.evaluate(f"[...document.querySelectorAll('.card')].filter({shown}).length") == 10
    assert tab.locator("#printed").inner_text() == "Printed: 10 of 60 items. The page on a screen lists all of them."
    assert not tab.locator("#pager").is_visible()
    tab.close()


def test_a_report_of_60_items_is_printed_on_at_most_12_pages(chromium, tmp_path):
    """The worst items with their images and references, not all 60; a PDF has one object of the type Page per page."""
    demo = captious.demo()
    whole = {"score": demo.systems["solid"], "compare": dict(demo.systems)}
    tab = chromium.new_page()
    for name, captions in whole.items():
        run = captious.evaluate if name == "score" else captious.compare
        result = run(captions, "bleu,rouge,cider", resampling=Resampling(20))
        result.save(tmp_path / f"{name}.html")
        tab.goto((tmp_path / f"{name}.html").as_uri())
        assert tab.locator(".card").count() == 50 and tab.locator(".card img").count() == 50
        for paper in PAPER:
            pages = len(re.findall(rb"/Type\s*/Page\b", tab.pdf(format=paper, print_background=True)))
            assert 3 <= pages <= 12, (name, paper, pages)
    tab.close()


PAGE_TITLES = {
    "score": "CIDEr-D and 5 more on solid.json",
    "compare": "CIDEr-D and 5 more of sloppy, solid, expert",
    "shards": "CIDEr-D and 5 more on shards",
    "study": "Agreement with people: {best} and 5 more on ratings.jsonl",
    "systems": "ratings.jsonl: which system people prefer",
    "bias": "Bias audit of bias: LIC for female, male",
    "stress": "Stress card of CIDEr-D and 5 more on expert.json",
    "specificity": "Specificity Rate: long.jsonl",
    "hallucination": "Invented objects of sloppy, expert",
    "gate": "Gate: solid against sloppy by ROUGE-L and CIDEr-D",
    "arena": "Arena of expert, solid, sloppy",
    "rewards": "Reward drift of log",
}


def test_the_title_of_a_tab_says_what_the_page_is(pages):
    """A browser shows it in the tab, in bookmarks, and as the name of a PDF."""
    texts = {name: path.read_text(encoding="utf-8") for name, path in pages.items()}
    found = {name: re.search(r"<title>(.*?)</title>", text)[1] for name, text in texts.items()}
    best = re.search(r"<h2[^>]*>Where (.*?) and people disagree most</h2>", texts["study"])[1]
    assert found == PAGE_TITLES | {"study": PAGE_TITLES["study"].format(best=best)}
    for name, title in found.items():  # the page says it too
        assert f'<p id="kind">{title}</p>' in texts[name] or f"<h1>{title}</h1>" in texts[name]


def test_a_chart_of_one_dot_says_so_in_words(pages, tab, tmp_path):
    """Whole captions only: no caption of the sample is longer than the first step of 16 words."""
    text = pages["hallucination"].read_text(encoding="utf-8")
    assert re.search(
        r"One value each, so no lines: sloppy, words all: [\d.]+ \[[\d.]+, [\d.]+\]; expert, words all: ", text
    )
    captious.evaluate({"1": "a dog"}, "rouge,cider", references={"1": "a dog runs"}).save(tmp_path / "one.html")
    tab.goto((tmp_path / "one.html").as_uri())
    for figure in ("scatter", "lengths"):
        assert tab.locator(f"#{figure} .note").inner_text().startswith("One dot: one caption has a value")


def test_titles_anchors_and_links_are_there_once_and_no_folder_of_the_machine(pages):
    for name, path in pages.items():
        text = path.read_text(encoding="utf-8")
        title = re.findall(r"<h1>(.*?)</h1>", text)
        headings = [*title, *re.findall(r"<(?:h2|summary)[^>]*>(.*?)</(?:h2|summary)>", text)]
        links = re.findall(r'<a href="(#s-.*?)"', text.split("</nav>")[0])
        for once in (headings, links, re.findall(r' id="(.*?)"', text)):
            assert [one for one, count in Counter(once).items() if count > 1] == [], name
        assert str(path.parent) not in text and "secret" not in text, name
        assert not re.search(r'class="field">[^<]*\de-\d', text), name


# What a reader clicks on each page, the text in it, and the texts that the panel must show then.
CLICKS = {
    "hallucination": ("#s-objects-that-are-invented-most ~ div tbody a", "in the image: "),
    "stress": (".chart a:has(.name)", "edited"),
    "gate": ("tbody a", "CIDEr-D"),
    "bias": (".notes a", "[GENDERWORD]"),
    "rewards": (".chart a:has(circle)", "reward"),
    "study": ("figure.wide .chart a:has(.name)", "mean rating"),
}


@pytest.fixture
def tab(chromium):
    """A tab in which an error of a script fails the test."""
    tab = chromium.new_page(viewport={"width": 1400, "height": 900})
    errors = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    yield tab
    tab.close()
    assert errors == []


def _first_visible(tab, selector):
    return tab.locator(selector).locator("visible=true").first


@pytest.mark.parametrize("name", CLICKS)
def test_what_looks_clickable_opens_by_mouse_and_by_keyboard(pages, tab, name):
    selector, shown = CLICKS[name]
    tab.goto(pages[name].as_uri())
    panel, link = tab.locator("dialog#panel"), _first_visible(tab, selector)
    link.click()
    panel.wait_for()  # the address changes after the click
    assert shown in panel.inner_text() and panel.locator(".card").count() > 0
    assert "#open=" in tab.url
    tab.keyboard.press("Escape")
    panel.wait_for(state="hidden")
    tab.wait_for_function("() => !location.hash.includes('open=')")
    link.focus()
    tab.keyboard.press("Enter")
    panel.wait_for()
    assert tab.evaluate("document.activeElement.closest('dialog') !== null")
    tab.get_by_role("button", name="Close").click()
    panel.wait_for(state="hidden")
    assert link.evaluate("one => one === document.activeElement")
    link.click()
    panel.wait_for()
    tab.go_back()
    tab.wait_for_function("() => !document.getElementById('panel').open")


def test_every_link_into_a_panel_has_one_and_every_panel_has_cards(pages, tab):
    opened = set()
    for name, path in pages.items():
        tab.goto(path.as_uri())
        keys = tab.evaluate(
            "[...document.querySelectorAll('a[href^=\"#open=\"]')].map(a => a.getAttribute('href').slice(6))"
        )
        panels = json.loads(tab.evaluate("document.getElementById('evidence')?.textContent || '{}'"))
        assert set(keys) == set(panels), name
        assert all(panel["cards"] and panel["title"] for panel in panels.values()), name
        anchors = tab.evaluate("[...document.querySelectorAll('a[href^=\"#s-\"]')].map(a => a.getAttribute('href'))")
        assert all(tab.locator(anchor).count() == 1 for anchor in anchors), name
        opened |= {name} if panels else set()
    assert opened == set(CLICKS)


def test_an_invented_object_opens_the_captions_that_invent_it(pages, tab):
    tab.goto(pages["hallucination"].as_uri())
    row = tab.locator("#s-objects-that-are-invented-most ~ div tbody tr").first
    word, wrong = row.locator("th").inner_text(), int(row.locator("td").nth(0).inner_text())
    row.locator("a").click()
    tab.locator("#panel").wait_for()
    assert tab.locator("#panel h2").inner_text().startswith(f"{word}: ")
    assert tab.locator("#panel .tone-bad").count() == wrong + int(row.locator("td").nth(5).inner_text())
    for fact in tab.locator("#panel .field").all_inner_texts():
        assert word not in fact.removeprefix("in the image: ").split(", ")


def test_a_dot_of_a_study_opens_its_item_and_arrows_go_from_dot_to_dot(pages, tab):
    tab.goto(pages["study"].as_uri())
    dot = _first_visible(tab, "figure:not(.wide) .chart a:has(circle)")
    name = dot.locator("title").text_content()
    dot.focus()
    tab.keyboard.press("ArrowRight")
    other = tab.evaluate("document.activeElement.querySelector('title').textContent")
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("Enter")
    tab.locator("#panel").wait_for()
    assert other != name and tab.locator("#panel .card code").all_inner_texts() == [name]
    assert "mean rating" in tab.locator("#panel").inner_text()


def test_an_id_of_the_gate_opens_both_captions_and_all_references(pages, tab):
    tab.goto(pages["gate"].as_uri())
    row = tab.locator(
        "#s-captions-that-lost-most-by-cider-d ~ div tbody tr, section:has(a[href='#open=item-0']) tbody tr"
    ).first
    cells = row.locator("th, td").all_inner_texts()
    row.locator("a").click()
    tab.locator("#panel").wait_for()
    text = tab.locator("#panel").inner_text()
    assert cells[3] in text and cells[4] in text
    assert tab.locator("#panel .references li").count() == 5


def test_names_of_systems_and_metrics_open_the_items(pages, tab):
    tab.goto(pages["compare"].as_uri())
    heads = tab.locator("#s-systems ~ div thead a")
    assert heads.all_inner_texts() == ["sloppy", "solid", "expert"]
    heads.nth(1).click()
    tab.locator("#lens button[aria-pressed=true]", has_text="solid").wait_for()
    tab.locator("#s-systems ~ div tbody th a", has_text="ROUGE-L").click()
    tab.locator("#lens button[aria-pressed=true]", has_text="ROUGE-L").wait_for()
    assert tab.locator("#lens").evaluate("one => Math.abs(one.getBoundingClientRect().top) < 200")  # scrolled to


def test_a_heading_sorts_its_table_both_ways_and_back(pages, tab):
    tab.goto(pages["study"].as_uri())
    table = tab.locator("table.sorts").first
    given = table.locator("tbody tr").all_inner_texts()
    heading = table.locator("thead th.number .sort").first
    column = heading.evaluate("one => one.closest('th').cellIndex")

    def numbers():
        cells = table.locator(f"tbody tr > :nth-child({column + 1})").all_inner_texts()
        return [float(re.search(r"-?[\d.]+", cell.replace("−", "-"))[0]) for cell in cells]

    heading.click()
    assert numbers() == sorted(numbers(), reverse=True)
    heading.focus()
    tab.keyboard.press("Enter")
    assert numbers() == sorted(numbers())
    assert heading.evaluate("one => one.closest('th').ariaSort") == "ascending"
    heading.click()
    assert table.locator("tbody tr").all_inner_texts() == given


def test_a_panel_fits_a_phone(pages, chromium):
    tab = chromium.new_page(viewport={"width": 360, "height": 740})
    for name, (selector, _) in CLICKS.items():
        tab.goto(pages[name].as_uri())
        _first_visible(tab, selector).click()
        tab.locator("#panel").wait_for()
        box = tab.locator("#panel").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360 and box["height"] <= 740, name
        assert tab.evaluate("(one => one.scrollWidth <= one.clientWidth)(document.getElementById('panel'))"), name
    tab.close()
