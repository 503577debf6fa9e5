"""The page of a report and of a comparison: every value, every item, captions as text only."""

import json
import re
from html.parser import HTMLParser

import pytest
from PIL import Image

from captious._compare import compare
from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.options import Resampling
from captious.render.html import render_page

NASTY = "<script>alert(1)</script></script><!-- data -->"
NO_INTERVALS = Resampling(samples=0)
CANDIDATES = {
    "good": "a brown dog runs on the grass",
    "fair": "a cat sits on a red chair",
    "bad": "zebra umbrella piano",
    "nasty": NASTY,
}
REFERENCES = {
    "good": ["a brown dog runs on the grass", "the dog is running on grass"],
    "fair": ["a cat is sleeping on a chair", "the cat on the red chair"],
    "bad": ["two men play tennis", "a tennis match between two men"],
    "nasty": ["a web page", "some <b>code</b> on a screen"],
}


class Reading(HTMLParser):
    """Tags with their attributes, the text of each script by id, and the text outside of scripts."""

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
            self.text += f" {data}"


def data_of(result):
    return json.loads(Reading(render_page(result.document())).scripts["data"], parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def report():
    captions = CaptionSet.of(CANDIDATES, REFERENCES, name="folder/preds.json")
    return evaluate(captions, "bleu,rouge,cider", resampling=Resampling(samples=50))


@pytest.fixture(scope="module")
def comparison():
    first = CaptionSet.of(CANDIDATES, REFERENCES)
    second = CaptionSet.of({**CANDIDATES, "good": "a dog", "bad": "two men"}, REFERENCES)
    return compare({"one": first, "two": second}, "rouge,cider", resampling=Resampling(samples=50), permutations=50)


def test_every_item_and_value_is_on_the_page(report):
    data = data_of(report)
    assert data["ids"] == list(CANDIDATES)
    assert data["candidates"] == [[[text] for text in CANDIDATES.values()]]
    assert data["references"] == list(REFERENCES.values())
    assert [metric["key"] for metric in data["metrics"]] == list(report.measurements)
    for column, measurement in zip(data["values"][0], report, strict=True):
        assert column == pytest.approx(measurement.values.tolist(), abs=5e-7)
    assert data["lengths"][0][:3] == [7, 7, 3]
    text = Reading(render_page(report.document())).text
    for key, measurement in report.measurements.items():
        interval = report.intervals[key]
        shown = f"{measurement.corpus:.4f} {interval.low:.4f} – {interval.high:.4f}"
        assert shown in text and report.label(key) in text
    assert "2 references per item" in text
    for line in report.signatures:
        assert line in text


def test_warnings_of_the_run_are_on_the_page(report):
    from dataclasses import replace

    assert "ids smell swapped" in Reading(render_page(replace(report, warnings=["ids smell swapped"]).document())).text


def test_folders_of_the_machine_stay_off_the_page(report):
    text = render_page(report.document())
    assert "preds.json: 4 items" in text and "folder/" not in text


def test_captions_cannot_become_markup(report, comparison):
    for result in (report, comparison):
        text = render_page(result.document())
        reading = Reading(text)
        assert set(reading.scripts) == {"data", "images", "code"}
        assert text.count("</script>") == 3 and "alert(1)</" not in text
        assert data_of(result)["candidates"][0][3] == [NASTY]


def test_names_cannot_become_markup():
    captions = CaptionSet.of(CANDIDATES, REFERENCES, name=NASTY)
    text = render_page(compare({NASTY: captions, "b": captions}, "rouge", permutations=10).document())
    assert text.count("</script>") == 3 and "alert(1)</" not in text and NASTY in Reading(text).text
    assert "alert(1)</" not in render_page(evaluate(captions, "rouge", resampling=NO_INTERVALS).document())


def test_nothing_is_fetched(comparison):
    text = render_page(comparison.document())
    assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]", text)
    for tag, attributes in Reading(text).tags:
        assert tag not in {"link", "iframe", "object", "base"}
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert "default-src 'none'" in text


def test_a_comparison_holds_systems_and_their_differences(comparison):
    data, text = data_of(comparison), Reading(render_page(comparison.document())).text
    assert [system["name"] for system in data["systems"]] == ["one", "two"]
    assert comparison.test in text
    for row in comparison.differences:
        assert f"{row.difference:+.4f} {row.low:+.4f} – {row.high:+.4f}" in text
        assert f"{row.p:.3f} {row.p_holm:.3f} {row.better or 'neither'}" in text


def test_systems_are_joined_by_id_whatever_their_order():
    whole = CaptionSet.of(CANDIDATES, REFERENCES)
    part = CaptionSet.of({key: CANDIDATES[key] for key in ("nasty", "good")}, REFERENCES)
    data = data_of(compare({"a": whole, "b": part}, "rouge", missing="skip", permutations=10))
    assert data["ids"] == ["good", "nasty"]
    assert data["candidates"][1] == data["candidates"][0] == [[CANDIDATES["good"]], [NASTY]]
    assert data["values"][0] == data["values"][1]


def test_unscored_items_are_null_with_their_reason():
    captions = CaptionSet.of({"1": "a dog", "2": "a cat"}, {"1": ["a dog"]})
    result = evaluate(captions, "rouge", resampling=NO_INTERVALS)
    data = data_of(result)
    assert data["values"] == [[[1.0, None]]]
    assert data["reasons"] == [[{"2": "no references"}]]
    assert '<a href="#sort=rouge&amp;unscored=1">1</a>' in render_page(result.document())
    assert 'title="1 × no references (id 2)"' in render_page(result.document())


def test_images_are_embedded_once_and_unreadable_ones_counted(tmp_path):
    Image.new("RGB", (640, 320), "red").save(tmp_path / "a.png")
    Image.new("RGBA", (10, 20), "blue").save(tmp_path / "b.png")
    (tmp_path / "c.png").write_text("not an image")
    paths = [str(tmp_path / name) for name in ("a.png", "b.png", "c.png", "a.png")]
    captions = CaptionSet.of(CANDIDATES, REFERENCES, columns={"image": paths, "style": ["plain"] * 4})
    result = compare({"x": captions, "y": captions}, "rouge", permutations=10)
    text = render_page(result.document())
    assert text.count("data:image/") == 2 and str(tmp_path) not in text
    data = data_of(result)
    assert data["pictures"] == [0, 1, None, 0] and data["unreadable"] == 1
    assert data["fields"][0] == {"style": "plain"}


def test_a_notebook_shows_the_table(report):
    text = report._repr_html_()
    assert f"{report['cider'].corpus:.4f}" in text and "<script" not in text


@pytest.mark.parametrize(
    ("address", "first"), [("", "bad"), ("#sort=rouge&order=best", "good"), ("#q=red+chair", "fair")]
)
def test_the_browser_lists_the_worst_first(report, drawn, address, first):
    text = drawn(render_page(report.document()), address)
    assert re.findall(r'<article [^>]*data-id="(\w+)"', text)[0] == first
    assert "<script>alert" not in text.partition('<script type="application/json"')[0]
