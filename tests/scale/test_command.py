"""``captious score`` on shards: what it prints, what it refuses, and its end when a shard fails."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.scale.data import records, write_shards


@pytest.fixture
def source(tmp_path: Path) -> str:
    return write_shards(tmp_path / "in", records(60), 3)


def test_shards_are_scored_into_a_folder(run, source: str, tmp_path: Path) -> None:
    out = str(tmp_path / "scores")
    line = ("score", source, "-m", "rouge,cider", "--engine", "serial", "--samples", "20", "--out", out)
    code, printed, errors = run(*line, "--keep", "cider > 4 and words > 5", "--worst", "2")
    assert code == 0
    for text in ("60 items in 3 shards", "CIDEr-D", "items pass", "Worst by CIDEr-D"):
        assert text in printed
    assert f"written: {out}/report.html" in errors
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
        (("--out", "scores", "--explain", "1"), "--explain 1 is not for shards; score the file that holds the item"),
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


def test_failed_shards_are_named(run, source: str, tmp_path: Path) -> None:
    (tmp_path / "in" / "part-1.jsonl").write_text("{\n")
    code, _, errors = run("score", source, "-m", "rouge", "--engine", "serial", "--out", str(tmp_path / "scores"))
    assert code == 2
    first, last = errors.strip().splitlines()
    assert first.startswith("part-1: ")
    assert last.endswith("scores: 1 of 3 shards failed; the same again goes on with them")
