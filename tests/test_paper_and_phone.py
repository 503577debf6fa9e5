"""A page of every kind of result, on a phone of 360 pixels and on paper: nothing is cut off or named twice."""

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
PAPER = {"A4": 718, "Letter": 740}
"""The pixels between the margins that a browser leaves by default."""
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
    shown = "one => getComputedStyle(one).display !== 'none'"
    assert tab.evaluate(f"[...document.querySelectorAll('#pager *')].filter({shown}).map(one => one.textContent)") == [
        "Page 1 of 2"
    ]
    tab.close()


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
