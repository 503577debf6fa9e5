"""``captious score`` on shards: what it prints, what it refuses, and its end when a shard fails."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.runs.shards.data import records, write_shards

from captious.io.storage import Storage


@pytest.fixture
def source(tmp_path: Path) -> str:
    return write_shards(tmp_path / "in", records(60), 3)


def test_shards_are_scored_into_a_folder(run, source: str, tmp_path: Path) -> None:
    out = str(tmp_path / "scores")
    line = ("score", source, "-m", "rouge,cider", "--engine", "serial", "--samples", "20", "--out", out)
    code, printed, errors = run(*line, "--keep", "cider > 4 and words > 5", "--worst", "2")
    assert code == 0
    for text in ("60 items in 3 shards", "CIDEr-D", "items pass", "worst 2 by CIDEr-D"):
        assert text in printed
    read = "captions: `caption`; references: `references`, 2 per item"
    assert read in printed.splitlines()
    assert f"written: {out}/report.html" in errors
    assert read in run("score", out)[1].splitlines() and json.loads(run("score", out, "--json")[1])["read"] == read
    assert read in run("view", out, "--out", str(tmp_path / "site"))[2].splitlines()
    assert (tmp_path / "scores" / "report.html").exists()
    kept = pq.read_table(tmp_path / "scores" / "kept.parquet")
    _, printed, _ = run(*line, "--json", "--keep", "cider > 4 and words > 5")
    data = json.loads(printed)
    assert [one["metric"] for one in data["metrics"]] == ["rouge", "cider"]
    assert data["kept"]["passing"] == len(kept)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "shards are scored into a folder; pass --out, such as --out scores"),
        (("--out", "scores.csv"), "scores.csv: is the name of a file, expected that of a folder"),
        (("--out", "scores", "--keep", "cidr > 1"), "cidr"),
        (("--out", "scores", "--metrics", "bleuu"), "unknown metric 'bleuu'"),
    ],
)
def test_what_has_no_meaning_with_shards_is_refused(
    run, source: str, words: tuple, message: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, errors = run("score", source, *words)
    assert code == 2
    assert message in errors
    assert len(errors.strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


@pytest.mark.parametrize("words", [("--jobs", "2"), ("--gpus", "0.5"), ("--keep", "words > 3")])
def test_options_of_shards_are_refused_for_one_file(run, words: tuple, tmp_path: Path) -> None:
    write_shards(tmp_path / "in", records(20), 1)
    code, _, errors = run("score", str(tmp_path / "in" / "part-0.jsonl"), *words)
    assert code == 2
    assert f"{words[0]} {words[1]} is for shards; name several, or pass --engine" in errors


def test_a_pattern_that_the_shell_expanded_is_asked_for_in_quotes(run, source: str, tmp_path: Path) -> None:
    code, _, errors = run("score", *sorted((tmp_path / "in").iterdir()), "-m", "rouge", "--out", tmp_path / "scores")
    assert code == 2
    assert "part-1.jsonl; of 3 shards write the pattern in quotes, such as '*.jsonl'; see: captious score -h" in errors


def test_an_empty_argument_is_named_as_the_help_does(run) -> None:
    assert run("keep", "scores", "")[2] == "captious: FILTER is empty, expected a text\n"


def test_failed_shards_are_named(run, source: str, tmp_path: Path) -> None:
    (tmp_path / "in" / "part-1.jsonl").write_text("{\n")
    line = ("score", source, "-m", "rouge", "--engine", "serial", "--samples", "0", "--out", str(tmp_path / "scores"))
    code, printed, errors = run(*line)
    assert code == 3 and "40 items in 2 shards" in printed
    first, *_, last = errors.strip().splitlines()
    assert first.startswith("part-1: ")
    listed = tmp_path / "scores" / "failed-shards.txt"
    assert last == (
        f"captious: 1 of 3 shards failed (part-1), left out and listed in {listed}; the same command again tries them "
        "again"
    )
    assert listed.read_text().startswith(f"{tmp_path / 'in' / 'part-1.jsonl'}\t")
    (tmp_path / "in" / "part-1.jsonl").unlink()
    write_shards(tmp_path / "in", records(60), 3)
    assert run(*line)[0] == 0 and not listed.exists()


def test_scores_go_to_an_address(run, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store, serial = f"memory://{uuid.uuid4().hex}", ("--engine", "serial")
    line = ("score", source, "-m", "rouge", "--samples", "0", "--out", f"{store}/scores", "--keep", "words > 4")
    code, _, errors = run(*line, *serial)
    assert (code, errors.splitlines()[-1]) == (
        0,
        f"written: {store}/scores/report.html, {store}/scores/kept.parquet",
    )
    assert Storage.at(f"{store}/scores").exists("kept.parquet")
    assert run("keep", f"{store}/scores", "words > 4", "--out", f"{store}/ids.txt")[0] == 0
    assert run("keep", f"{store}/scores", "words > 4", "--write", "shards", "--out", f"{store}/kept", *serial)[0] == 0
    assert {"part-0.jsonl", "part-1.jsonl", "part-2.jsonl"} < set(Storage.at(f"{store}/kept").names())
    assert run("compare", f"a={store}/scores", f"b={store}/scores")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_one_file_is_not_scored_into_an_address(run, source: str, tmp_path: Path) -> None:
    code, _, errors = run("score", str(tmp_path / "in" / "part-0.jsonl"), "-m", "rouge", "--out", "memory://store/run")
    expected = "memory://store/run: only scores of shards are written to an address, expected a path"
    assert (code, errors.strip()) == (2, f"captious: {expected}")


@pytest.fixture
def scores(run, source: str, tmp_path: Path) -> str:
    """A folder of scores of 60 items in three shards."""
    out = str(tmp_path / "scores")
    code, _, _ = run("score", source, "-m", "rouge", "--engine", "serial", "--samples", "0", "--out", out)
    assert code == 0
    return out


def test_keep_counts_and_writes(run, scores: str, tmp_path: Path) -> None:
    code, printed, errors = run("keep", scores, "words > 5 and rouge > 0.5", "--out", str(tmp_path / "kept.txt"))
    assert code == 0 and "items pass" in printed
    assert errors == f"written: {tmp_path / 'kept.txt'}\n"
    _, printed, _ = run("keep", scores, "words > 5 and rouge > 0.5", "--json")
    data = json.loads(printed)
    assert data["passing"] == len((tmp_path / "kept.txt").read_text().splitlines())
    assert data["items"] == 60 and [one["text"] for one in data["clauses"]] == ["words > 5", "rouge > 0.5"]
    out = tmp_path / "kept"
    line = ("keep", scores, "words > 5", "--out", str(out), "--write", "shards", "--engine", "serial")
    assert run(*line)[0] == 0
    lengths = [len(json.loads(row)["caption"].split()) for path in out.glob("*.jsonl") for row in path.open()]
    assert lengths and min(lengths) > 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("words >",), "filter, character"),
        (
            ("cidr > 1",),
            "no metric or column 'cidr'; did you mean 'id'? There are rouge, words, characters, candidates, caption",
        ),
        (("words > 1", "--out", "kept.csv"), "ends in .parquet, .jsonl, .txt; or --write shards for a folder"),
        (("words > 1", "--write", "shards"), "--write shards needs --out, the folder to write them to"),
    ],
)
def test_keep_says_what_is_wrong_in_one_line(run, scores: str, words: tuple, message: str) -> None:
    code, printed, errors = run("keep", scores, *words)
    assert (code, printed) == (2, "")
    assert message in errors and errors.count("\n") == 1


def test_folders_of_scores_are_compared(run, scores: str, source: str, tmp_path: Path) -> None:
    code, printed, errors = run("compare", f"a={scores}", f"b={scores}", "--samples", "20", "--permutations", "50")
    assert code == 0 and "2 systems, 60 items" in printed and "neither" in printed
    assert "of shards" not in printed and "the tests compare" not in errors  # items change sides, as those of a file
    code, _, errors = run("compare", f"a={scores}", f"b={scores}", "--references", "refs.json")
    assert code == 2 and "--references is for captions; folders of runs are compared as they are" in errors
    code, _, errors = run("compare", f"a={scores}", f"b={tmp_path / 'in' / 'part-0.jsonl'}")
    assert code == 2 and "a and b differ in 40 ids" in errors  # b is one of the three shards


def test_an_item_of_shards_is_explained(run, scores: str, source: str) -> None:
    code, printed, _ = run("score", source, "-m", "rouge", "--samples", "0", "--out", scores, "--explain", "i1")
    assert code == 0 and "of i1" in printed and "sum: " in printed
    code, _, errors = run("score", source, "-m", "rouge", "--samples", "0", "--out", scores, "--explain", "nobody")
    assert code == 2 and "no item with id 'nobody'" in errors
