"""The HTML report: one file that holds every value, shows captions as text only, and needs no network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from captious.captions import CaptionSet
from captious.comparison import Comparison, compare
from captious.evaluation import Report, evaluate
from captious.report.html import page
from captious.report.page.selection import select

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NASTY = "<script>alert(1)</script></script><!-- data -->"

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
    """Tags with their attributes, and the text of each script by id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = (dict(attrs).get("id") or "code") if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self.inside = None

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[self.inside] = self.scripts.get(self.inside, "") + data


def data_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Reading(text).scripts["data"])
    return found


@pytest.fixture(scope="module")
def report() -> Report:
    return evaluate(CaptionSet.of(CANDIDATES, REFERENCES, name="folder/preds.json"), "bleu,rouge,cider", samples=50)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    first = CaptionSet.of(CANDIDATES, REFERENCES)
    second = CaptionSet.of({**CANDIDATES, "good": "a dog", "bad": "two men"}, REFERENCES)
    return compare({"one": first, "two": second}, "rouge,cider", samples=50, shuffles=50)


def test_every_item_and_value_is_on_the_page(report: Report) -> None:
    data = data_of(page({"mine": report}))
    assert data["ids"] == list(CANDIDATES)
    assert data["candidates"] == [[[text] for text in CANDIDATES.values()]]
    assert data["references"] == list(REFERENCES.values())
    assert [metric["key"] for metric in data["metrics"]] == list(report.measurements)
    for column, measurement in zip(data["values"][0], report, strict=True):
        assert column == pytest.approx(measurement.values.tolist(), abs=5e-7)
    for entry, (key, measurement) in zip(data["systems"][0]["metrics"], report.measurements.items(), strict=True):
        assert entry["value"] == measurement.corpus
        assert (entry["low"], entry["high"]) == (report.intervals[key].low, report.intervals[key].high)
        assert entry["signature"] == report.signature(key)
    assert data["systems"][0]["references"] == [2, 2]
    assert data["lengths"][0][:3] == [7, 7, 3]


def test_warnings_of_the_run_are_on_the_page(report: Report) -> None:
    warned = replace(report, warnings=["ids smell swapped"])
    assert data_of(page({"mine": warned}))["systems"][0]["warnings"] == ["ids smell swapped"]


def test_folders_of_the_machine_stay_off_the_page(report: Report) -> None:
    text = page({"mine": report})
    assert data_of(text)["systems"][0]["source"] == "preds.json"
    assert "folder/" not in text


def test_captions_cannot_become_markup(report: Report) -> None:
    text = page({"mine": report}, title=NASTY)
    reading = Reading(text)
    assert set(reading.scripts) == {"data", "images", "code"}
    assert text.count("</script>") == 3
    assert "alert(1)</" not in text
    assert data_of(text)["candidates"][0][3] == [NASTY]
    assert "innerHTML" not in text and "insertAdjacentHTML" not in text and "document.write" not in text


def test_nothing_is_fetched(report: Report) -> None:
    text = page({"mine": report})
    assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]", text)
    for tag, attributes in Reading(text).tags:
        assert tag not in {"link", "iframe", "object", "base"}
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert "default-src 'none'" in text


def test_comparison_holds_systems_and_their_differences(comparison: Comparison) -> None:
    data = data_of(page(comparison.reports, comparison))
    assert [system["name"] for system in data["systems"]] == ["one", "two"]
    assert data["test"] == comparison.test
    for row, difference in zip(data["differences"], comparison.differences, strict=True):
        assert (row["metric"], row["baseline"], row["system"]) == (difference.metric, "one", "two")
        assert (row["difference"], row["p"], row["p_holm"]) == (difference.difference, difference.p, difference.p_holm)
        assert (row["low"], row["high"], row["better"]) == (difference.low, difference.high, difference.better)


def test_systems_are_joined_by_id_whatever_their_order() -> None:
    turned = dict(reversed(CANDIDATES.items()))
    reports = {
        "a": evaluate(CaptionSet.of(CANDIDATES, REFERENCES), "rouge", samples=0),
        "b": evaluate(CaptionSet.of({key: turned[key] for key in ("nasty", "good")}, REFERENCES), "rouge", samples=0),
    }
    data = data_of(page(reports))
    assert data["candidates"][1] == [[CANDIDATES["good"]], [], [], [NASTY]]
    first, second = data["values"]
    assert second[0] == [first[0][0], None, None, first[0][3]]


def test_unscored_items_are_null_with_their_reason() -> None:
    captions = CaptionSet.of({"1": "a dog", "2": "a cat"}, {"1": ["a dog"]})
    data = data_of(page({"mine": evaluate(captions, "rouge", samples=0)}))
    assert data["values"] == [[[1.0, None]]]
    assert data["reasons"] == [[{"2": "no references"}]]


def test_images_are_embedded_once_and_unreadable_ones_counted(tmp_path: Path) -> None:
    Image.new("RGB", (640, 320), "red").save(tmp_path / "a.png")
    Image.new("RGBA", (10, 20), "blue").save(tmp_path / "b.png")
    (tmp_path / "c.png").write_text("not an image")
    paths = [str(tmp_path / name) for name in ("a.png", "b.png", "c.png", "a.png")]
    captions = CaptionSet.of(CANDIDATES, REFERENCES, columns={"image": paths})
    one = evaluate(captions, "rouge", samples=0)
    text = page({"x": one, "y": one})
    images = json.loads(Reading(text).scripts["images"])
    assert len(images) == 2 and text.count("data:image/") == 2
    data = data_of(text)
    assert data["pictures"] == [0, 1, None, 0]
    assert data["unreadable"] == 1
    assert str(tmp_path) not in text
    with Image.open(_bytes(images[0])) as picture:
        assert picture.size == (224, 112)


def test_limit_keeps_worst_and_best_and_every_score() -> None:
    candidates = {str(number): "a b c d e f g h i j"[: 2 * (number % 10) + 1] for number in range(100)}
    captions = CaptionSet.of(candidates, {key: ["a b c d e f g h i j"] for key in candidates})
    report = evaluate(captions, "rouge", samples=0)
    text = page({"mine": report}, item_limit=20)
    data = data_of(text)
    assert len(data["shown"]) == len(data["references"]) == 20
    assert len(data["ids"]) == len(data["values"][0][0]) == 100
    assert [index for index in data["shown"] if index % 10 == 0] == list(range(0, 100, 10))
    assert sum(index % 10 == 9 for index in data["shown"]) >= 5
    assert text == page({"mine": report}, item_limit=20)


def test_selection_takes_turns_between_metrics_and_ignores_unscored() -> None:
    first = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, np.nan])
    second = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.0, 0.1, 0.2])
    chosen = select([first, second], 8, 4)
    assert len(chosen) == 4
    assert {0, 5} <= set(chosen)  # the worst of each
    assert 6 in chosen  # then the best of the first


def _bytes(uri: str) -> Any:
    from base64 import b64decode
    from io import BytesIO

    return BytesIO(b64decode(uri.partition(",")[2]))


def _rendered(text: str, folder: Path, address: str = "") -> str:
    file = folder / "report.html"
    file.write_text(text, encoding="utf-8")
    quiet = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", *quiet]
    command += [f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"{file.as_uri()}{address}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to draw the page with")
@pytest.mark.parametrize(
    ("address", "first"), [("", "bad"), ("#sort=rouge&order=best", "good"), ("#q=red+chair", "fair")]
)
def test_browser_lists_worst_first(report: Report, tmp_path: Path, address: str, first: str) -> None:
    drawn = _rendered(page({"mine": report}), tmp_path, address)
    cards = re.findall(r'<article [^>]*data-id="(\w+)"', drawn)
    assert cards[0] == first
    assert "<script>alert" not in drawn.partition('<script type="application/json"')[0]


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to draw the page with")
def test_browser_states_the_limit_and_marks_the_unscored(tmp_path: Path) -> None:
    captions = CaptionSet.of({str(number): "a dog" for number in range(9)}, {str(n): ["a dog"] for n in range(1, 9)})
    drawn = _rendered(page({"mine": evaluate(captions, "rouge", samples=0)}, item_limit=8), tmp_path)
    assert "Captions of 8 of 9 items are on this page" in drawn
    whole = _rendered(page({"mine": evaluate(captions, "rouge", samples=0)}), tmp_path, "#unscored=1")
    assert re.findall(r'data-id="(\w+)"', whole) == ["0"]
    assert "not scored, no references" in whole and "—" in whole
