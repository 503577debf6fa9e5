"""The code blocks of the documentation run, page by page, and print what the pages show.

A ``python`` or ``sh`` block after the line ``<!-- not run: reason -->`` is left alone; `NOT_RUN` counts these. A
``text`` block right after one that runs shows lines of its output.
"""

import contextlib
import csv
import doctest
import io
import json
import re
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from captious.cli.app import main
from captious.data import DEMO

ROOT = Path(__file__).resolve().parents[1]
# Without the cards of the metrics, whose examples are doctests of the code.
PAGES = [
    ROOT / "README.md",
    ROOT / "skills/captious/SKILL.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "metrics" or page.stem == "index"),
]

# Blocks that no test runs, by page. Each says on the line before it what it would need.
NOT_RUN = Counter(
    {
        "docs/guide/audio.md": 2,
        "docs/guide/bias.md": 1,
        "docs/guide/coming-from-evalscope.md": 2,
        "docs/guide/coming-from-pycocoevalcap.md": 2,
        "docs/guide/emscore.md": 2,
        "docs/guide/encoders.md": 1,
        "docs/guide/explore.md": 2,
        "docs/guide/gate.md": 1,
        "docs/guide/audit-a-judge.md": 2,
        "docs/guide/hallucination.md": 4,
        "docs/guide/harnesses.md": 2,
        "docs/guide/images.md": 2,
        "docs/guide/imagine.md": 4,
        "docs/guide/judges.md": 10,
        "docs/guide/language-models.md": 2,
        "docs/guide/languages.md": 1,
        "docs/guide/meteor.md": 1,
        "docs/guide/negatives.md": 1,
        "docs/guide/probes.md": 1,
        "docs/guide/raters.md": 6,
        "docs/guide/reproduce.md": 2,
        "docs/guide/rewards.md": 4,
        "docs/guide/questions.md": 1,
        "docs/guide/scale.md": 4,
        "docs/guide/specificity.md": 1,
        "docs/guide/spice.md": 5,
        "docs/guide/stress.md": 2,
        "docs/guide/study-file.md": 1,
        "docs/guide/studies.md": 6,
        "docs/guide/studio.md": 5,
        "docs/guide/studio-owner.md": 3,
        "docs/guide/style.md": 1,
        "docs/guide/train.md": 4,
        "docs/guide/trainers.md": 3,
        "docs/guide/training-loop.md": 1,
        "docs/guide/umic.md": 4,
        "docs/gallery.md": 3,
        "docs/index.md": 2,
        "docs/install.md": 1,
        "docs/reference/metrics/index.md": 1,
        "docs/results/captious-mini.md": 1,
        "docs/results/index.md": 1,
        "docs/results/negatives.md": 1,
        "docs/results/published-numbers.md": 8,
        "docs/results/stress.md": 2,
        "docs/results/style.md": 1,
    }
)


class Block(NamedTuple):
    """A fenced block."""

    reason: str | None
    """Why it is not run."""
    language: str
    code: str
    shown: str
    """The ``text`` block that follows at once."""


def blocks(page):
    text = page.read_text(encoding="utf-8")
    fence = r"^(?:<!-- not run: (.*?) -->\n)?```([a-z]*)\n(.*?)^```$(?=(?:\s*^```text\n(.*?)^```$)?)"
    return [Block(*match.groups(default=None)) for match in re.finditer(fence, text, re.DOTALL | re.MULTILINE)]


@pytest.fixture
def files(tmp_path, monkeypatch, compiled_meteor):
    """A folder with the files that the pages mention, all from the demo set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    references = json.loads((DEMO / "references.json").read_text())
    rows = json.loads((DEMO / "predictions/solid.json").read_text())
    captioners = {"preds": "solid", "a": "parrot", "b": "sloppy", "c": "solid", "solid": "solid", "expert": "expert"}
    for name, captioner in captioners.items():
        shutil.copy(DEMO / "predictions" / f"{captioner}.json", f"{name}.json")
    shutil.copy(DEMO / "references.json", ".")
    shutil.copy(DEMO / "references.json", "refs.json")
    shutil.copytree(DEMO / "images", "photos")
    shutil.copytree(DEMO / "predictions", "predictions")
    shutil.copytree(ROOT / "docs" / "clips", "clips")
    for name in ("long.jsonl", "styles.jsonl", "ratings.jsonl", "objects.jsonl", "objects.txt"):
        shutil.copy(DEMO / name, ".")
    write_json("first.json", rows[:30])
    write_json("second.json", rows[30:])
    write_rows("captions.jsonl", [{"id": id, "caption": text} for id, texts in references.items() for text in texts])
    write_rows(
        "samples.jsonl", [{"id": row["image_id"], "caption": text} for row in rows for text in ("a cat", "a dog")]
    )
    write_csv("preds.csv", [("photo", "output"), *((row["image_id"], row["caption"]) for row in rows)])
    pairs = [(id, text) for id, texts in references.items() for text in texts]
    write_csv("refs.csv", [("photo", "gold"), *pairs])
    people = [json.loads(line) for line in (DEMO / "bias.jsonl").read_text().splitlines()]
    write_rows("preds.jsonl", [{"id": row["id"], "caption": row["caption"], "gender": row["label"]} for row in people])
    write_rows("humans.jsonl", [{"id": row["id"], "references": row["references"]} for row in people])
    styled = [json.loads(line) for line in (DEMO / "styles.jsonl").read_text().splitlines()]
    romantic = [row for row in styled if row["style"] == "romantic"]
    write_rows("styled.jsonl", romantic)
    write_json("styles.json", {row["id"]: [row["caption"]] for row in romantic})
    ratings = [json.loads(line) for line in (DEMO / "ratings.jsonl").read_text().splitlines()]
    lengths = [(row["id"], row["captioner"], len(row["caption"])) for row in ratings]
    write_csv("my_metric.csv", [("id", "system", "length"), *lengths])
    return tmp_path


def write_json(path, value):
    Path(path).write_text(json.dumps(value), encoding="utf-8")


def write_rows(path, rows):
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_csv(path, rows):
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def run_python(code, namespace):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if code.startswith(">>>"):
            example = doctest.DocTestParser().get_doctest(code, namespace, "example", None, 0)
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            failures = io.StringIO()
            runner.run(example, out=failures.write, clear_globs=False)
            namespace |= example.globs
            assert runner.failures == 0, failures.getvalue()
        else:
            exec(compile(code, "example", "exec"), namespace)
    return printed.getvalue()


MAKE_DEMO = re.search(r"^demo:.*\n\t\$\(BIN\)/(captious .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
"""What ``make demo`` runs once captious is installed."""


def run_commands(code, monkeypatch):
    """Run every ``captious`` command of a block; only ``cd`` and ``make demo`` are followed otherwise."""
    output = ""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        words = MAKE_DEMO if words == ["make", "demo"] else words
        if words[:1] == ["cd"]:
            monkeypatch.chdir(words[1])
        if words[:1] != ["captious"]:
            continue
        monkeypatch.setattr(sys, "argv", words)
        printed, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            status = 0
            try:
                main()
            except SystemExit as end:
                status = end.code or 0
        assert status == 0, f"{line}\n{errors.getvalue()}"
        output += printed.getvalue()
    return output


def words_of(line):
    """A line without borders of tables and without spacing."""
    return " ".join(re.sub(r"[\u2500-\u257f|]", " ", line).split())


def assert_shown(shown, output):
    lines = iter(words_of(line) for line in output.splitlines())
    for line in filter(None, map(words_of, shown.splitlines())):
        assert any(line in other for other in lines), f"not printed: {line}\n{output}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(page, files, monkeypatch):
    namespace = {"__name__": "page"}
    for block in blocks(page):
        if block.reason is not None:
            continue
        if block.language == "python":
            output = run_python(block.code, namespace)
        elif block.language == "sh":
            output = run_commands(block.code, monkeypatch)
        else:
            continue
        assert_shown(block.shown or "", output)


def test_blocks_that_do_not_run_are_counted():
    counts = Counter(
        str(page.relative_to(ROOT)) for page in PAGES for block in blocks(page) if block.reason is not None
    )
    assert counts == NOT_RUN


def test_commands_stand_in_blocks_that_run():
    unmarked = [
        f"{page.relative_to(ROOT)}: {block.code.splitlines()[0]}"
        for page in PAGES
        for block in blocks(page)
        if block.language not in ("sh", "text") and re.search(r"^captious [a-z]", block.code, re.MULTILINE)
    ]
    assert unmarked == []
