"""The folder of a run of shards: what is finished, what goes on, what is added, what is refused, what is removed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.runs.shards.scored import finish, write_part

from captious._core.files import RUN
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.shards import Shard
from captious.metrics.registry import parse_all
from captious.runs.folder import Run, count_unique
from captious.runs.marker import Marker
from captious.runs.shards.shard_plan import claim_folder
from captious.runs.summary import Histogram, PartSummary

SHARDS = (Shard("a", "in/a.jsonl", 10), Shard("b", "in/b.jsonl", 20))
ROUGE = parse_all("rouge")
CAPTIONS = CaptionSet.of({"1": "a cat", "2": ""}, {"1": ["the cat", "a dog"], "2": ["x"]})


def begin(folder: Path, metrics=ROUGE, shards=SHARDS, reading=None, **options) -> Run:
    return claim_folder(folder / "scores", metrics, shards, reading or {}, **options)


def write(run: Run, name: str) -> PartSummary:
    (shard,) = (one for one in run.marker.shards if one.name == name)
    write_part(run, shard, CAPTIONS, [metric.measure(CAPTIONS) for metric in parse_all(run.metrics)])
    return run.summary(name)


def test_a_summary_is_read_back_to_the_last_digit(tmp_path: Path) -> None:
    run = begin(tmp_path)
    summary = write(run, "b")
    summary = replace(summary, seconds={"read": 0.1 + 0.2}, faults={"truncated": 3}, ids=2**64 - 1)
    assert PartSummary.from_json(summary.to_json()) == summary
    assert run.table("b", ["rouge"])["rouge"].to_pylist() == ROUGE[0].measure(CAPTIONS).values.tolist()


def test_a_marker_is_read_back(tmp_path: Path) -> None:
    run = begin(tmp_path)
    write(run, "a")
    write(run, "b")
    marker = finish(run, ROUGE).marker
    assert Marker.from_json(marker.to_json(), "x") == marker
    assert Run.at(tmp_path / "scores").marker == marker
    assert (marker.items, marker.parts, marker.unit) == (4, {"a": 2, "b": 2}, "shard")


def test_a_folder_goes_on(tmp_path: Path) -> None:
    run = begin(tmp_path)
    assert run.find_finished() == {}
    summary = write(run, "b")
    again = begin(tmp_path)
    assert again.find_finished() == {"b": summary}
    with pytest.raises(InputError, match="1 of 2 shards is not scored yet, such as a; score the same shards again"):
        Run.at(tmp_path / "scores").parts()
    write(run, "a")
    assert list(again.find_finished()) == ["a", "b"]


def test_moved_shards_are_the_same(tmp_path: Path) -> None:
    write(begin(tmp_path), "a")
    moved = tuple(replace(one, address=f"/new/{one.name}") for one in SHARDS)
    assert list(begin(tmp_path, shards=moved).find_finished()) == ["a"]


def test_more_shards_are_added_and_keep_their_names(tmp_path: Path) -> None:
    write(begin(tmp_path), "a")
    # The names of shards depend on what other shards there are: beside other/a.jsonl, in/a.jsonl is called in-a.
    more = (Shard("in-a", "in/a.jsonl", 10), Shard("b", "in/b.jsonl", 20), Shard("a", "other/a.jsonl", 30))
    run = begin(tmp_path, shards=more)
    names = [shard.name for shard in run.marker.shards]
    assert names[:2] == ["a", "b"] and names[2].startswith("a-")
    assert list(run.find_finished()) == ["a"]


def test_metrics_are_added_where_that_is_asked_for(tmp_path: Path) -> None:
    write(begin(tmp_path), "a")
    with pytest.raises(InputError, match=r"it has rouge, now it is rouge, rouge_n\(n=2\); pass add=\.\.\. for metrics"):
        begin(tmp_path, parse_all("rouge,rouge_n(n=2)"))
    assert begin(tmp_path, parse_all("rouge_n(n=2)"), add=True).metrics == ("rouge", "rouge_n(n=2)")
    with pytest.raises(InputError, match=f"no {RUN}, expected a run to add metrics to"):
        claim_folder(tmp_path / "other", ROUGE, SHARDS, {}, add=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": parse_all("cider")}, "it has rouge, now it is cider"),
        ({"shards": SHARDS[:1]}, "of its 2 shards 1 is no longer there, such as b"),
        ({"reading": {"several": True}}, r"it was read with no several=\.\.\., now it is several=True"),
    ],
)
def test_other_scores_are_refused(tmp_path: Path, change: dict, message: str) -> None:
    run = begin(tmp_path)
    write(run, "a")
    with pytest.raises(InputError, match=f"contains other scores: {message}; pass overwrite=True"):
        begin(tmp_path, **change)
    assert list(run.find_finished()) == ["a"]


def test_scores_of_another_version_are_refused(tmp_path: Path) -> None:
    write(begin(tmp_path), "a")
    path = tmp_path / "scores" / RUN
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": "9"}))
    with pytest.raises(InputError, match=r"it is of captious 9, this is 0\."):
        begin(tmp_path)


def test_a_shard_that_changed_is_scored_as_it_is_now_and_refused_if_it_was_scored(tmp_path: Path) -> None:
    write(begin(tmp_path), "a")
    mended = (SHARDS[0], Shard("b", "in/b.jsonl", 2000))
    run = begin(tmp_path, shards=mended)
    assert list(run.find_finished()) == ["a"]
    write(run, "b")
    message = r"of its 2 shards 1 changed since they were scored, such as b \(2,000 bytes, now 20\)"
    with pytest.raises(InputError, match=message):
        begin(tmp_path)


def test_overwrite_removes_what_captious_wrote_alone(tmp_path: Path) -> None:
    run = begin(tmp_path)
    write(run, "a")
    mine = tmp_path / "scores" / "items" / "notes.txt"
    mine.write_text("mine")
    assert begin(tmp_path, parse_all("cider"), overwrite=True).find_finished() == {}
    assert not (tmp_path / "scores" / run.items_name("a")).exists()
    assert mine.read_text() == "mine"


def test_parts_that_were_read_otherwise_are_not_finished(tmp_path: Path) -> None:
    run = begin(tmp_path)
    late = replace(run, marker=replace(run.marker, reading={"several": True}))
    write(late, "a")  # a worker of a run whose folder was overwritten meanwhile
    assert run.find_finished() == {}


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scores").mkdir()
    (tmp_path / "scores" / "a.jpg").write_bytes(b"x")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=f"not written by captious \\(no {RUN}\\)"):
            begin(tmp_path, overwrite=overwrite)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file, expected the name of a folder"):
        claim_folder(tmp_path / "file", ROUGE, SHARDS, {})


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    run = begin(tmp_path)
    write(run, "a")
    (tmp_path / "scores" / run.items_name("a")).write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"a.parquet: is damaged, expected the scores of captious; remove it"):
        run.find_finished()


def test_distinct_hashes_over_shards() -> None:
    random = np.random.default_rng(1)
    arrays = [np.unique(random.integers(0, 2**64, 1000, dtype=np.uint64)) for _ in range(3)]
    arrays.append(arrays[0][::2])
    assert count_unique(arrays) == len({value for array in arrays for value in array.tolist()})


def test_histograms_of_shards_add_up() -> None:
    random = np.random.default_rng(1)
    values = np.concatenate([random.random(500), 30 * random.random(20), -random.random(10)])
    whole = Histogram.of(values)
    assert sum(whole.counts) == len(values)
    parts = [Histogram.of(part) for part in np.split(values, [100, 499, 510])]
    merged = Histogram()
    for part in parts[::-1]:
        merged = merged.merge(part)
    assert merged == whole
    expected = np.histogram(values, whole.edges)[0]
    assert whole.counts == tuple(expected.tolist())
    assert abs(whole.quantile(0.5) - np.median(values)) <= whole.width
    assert Histogram.of(np.array([np.nan])) == Histogram()
