"""The folder of scored shards: what is finished, what goes on, what is refused, what is removed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.shards import Shard
from captious.metrics.registry import parse
from captious.scale.folder import Manifest, ShardFolder, count_distinct
from captious.scale.histogram import Histogram
from captious.scale.summary import MetricSummary, ShardSummary, ids_fingerprint

MANIFEST = Manifest(("rouge",), (Shard("a", "in/a.jsonl", 10), Shard("b", "in/b.jsonl", 20)))


def summary_of(folder: ShardFolder, shard: str) -> ShardSummary:
    captions = CaptionSet.of({"1": "a cat", "2": ""}, {"1": ["the cat", "a dog"], "2": ["x"]})
    measurement = parse("rouge").measure(captions)
    (size,) = (one.size for one in folder.manifest.shards if one.name == shard)
    metrics = (MetricSummary.of(measurement, captions),)
    return ShardSummary(shard, folder.manifest.digest, size, 2, metrics, ids=ids_fingerprint(captions.ids))


def write(folder: ShardFolder, shard: str) -> ShardSummary:
    summary = summary_of(folder, shard)
    folder.write_shard(summary, pa.table({"id": ["1", "2"], "rouge": [0.1, 0.2]}), {})
    return summary


def test_a_summary_is_read_back_to_the_last_digit(tmp_path: Path) -> None:
    folder = ShardFolder.open(tmp_path / "scores", MANIFEST)
    summary = write(folder, "b")
    summary = replace(summary, seconds={"read": 0.1 + 0.2}, faults={"truncated": 3}, ids=2**64 - 1)
    assert ShardSummary.from_json(summary.to_json()) == summary
    assert folder.table("b", ["rouge"])["rouge"].to_pylist() == [0.1, 0.2]


def test_a_folder_goes_on(tmp_path: Path) -> None:
    folder = ShardFolder.open(tmp_path / "scores", MANIFEST)
    assert folder.finished() == {}
    summary = write(folder, "b")
    again = ShardFolder.open(tmp_path / "scores", MANIFEST)
    assert again.finished() == {"b": summary}
    with pytest.raises(InputError, match="1 of 2 shards is not scored yet, such as a; score the same shards again"):
        again.summaries()
    write(folder, "a")
    assert [one.shard for one in again.summaries()] == ["a", "b"]


def test_moved_shards_are_the_same(tmp_path: Path) -> None:
    folder = ShardFolder.open(tmp_path / "scores", MANIFEST)
    write(folder, "a")
    moved = replace(MANIFEST, shards=tuple(replace(one, address=f"/new/{one.name}") for one in MANIFEST.shards))
    assert list(ShardFolder.open(tmp_path / "scores", moved).finished()) == ["a"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (replace(MANIFEST, metrics=("cider",)), "it holds rouge, now it is cider"),
        (replace(MANIFEST, shards=MANIFEST.shards[:1]), "of its 2 shards 1 is no longer there, such as b"),
        (replace(MANIFEST, shards=(*MANIFEST.shards, Shard("c", "", 1))), "of its 2 shards 1 is new, such as c"),
        (replace(MANIFEST, shards=MANIFEST.shards[::-1]), "its shards have another order"),
        (replace(MANIFEST, reading={"several": True}), r"it was read with no several=\.\.\., now it is several=True"),
        (replace(MANIFEST, version="9"), "it is of captious .*, this is 9"),
    ],
)
def test_other_scores_are_refused(tmp_path: Path, other: Manifest, message: str) -> None:
    folder = ShardFolder.open(tmp_path / "scores", MANIFEST)
    write(folder, "a")
    assert other.digest != MANIFEST.digest
    with pytest.raises(InputError, match=f"holds other scores: {message}; pass overwrite=True"):
        ShardFolder.open(tmp_path / "scores", other)
    assert list(folder.finished()) == ["a"]


def test_a_shard_that_changed_is_scored_as_it_is_now_and_refused_if_it_was_scored(tmp_path: Path) -> None:
    folder = ShardFolder.open(tmp_path / "scores", MANIFEST)
    write(folder, "a")
    mended = replace(MANIFEST, shards=(MANIFEST.shards[0], Shard("b", "", 2000)))
    assert list(ShardFolder.open(tmp_path / "scores", mended).finished()) == ["a"]
    write(ShardFolder.read(tmp_path / "scores"), "b")
    assert len(ShardFolder.read(tmp_path / "scores").summaries()) == 2
    message = r"of its 2 shards 1 changed since they were scored, such as b \(2,000 bytes, now 20\)"
    with pytest.raises(InputError, match=message):
        ShardFolder.open(tmp_path / "scores", MANIFEST)


def test_overwrite_removes_what_captious_wrote_alone(tmp_path: Path) -> None:
    folder = ShardFolder.open(tmp_path / "scores", MANIFEST)
    write(folder, "a")
    mine = tmp_path / "scores" / "items" / "notes.txt"
    mine.write_text("mine")
    again = ShardFolder.open(tmp_path / "scores", replace(MANIFEST, metrics=("cider",)), overwrite=True)
    assert again.finished() == {}
    assert not (tmp_path / "scores" / folder.items_name("a")).exists()
    assert mine.read_text() == "mine"


def test_scores_of_another_manifest_are_not_finished(tmp_path: Path) -> None:
    folder = ShardFolder.open(tmp_path / "scores", MANIFEST)
    late = replace(folder, manifest=replace(MANIFEST, metrics=("rouge", "cider")))
    write(late, "a")  # a worker of a run whose folder was overwritten meanwhile
    assert folder.finished() == {}


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"x")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"not written by captious from shards \(no captious-shards.json\)"):
            ShardFolder.open(tmp_path / "photos", MANIFEST, overwrite)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file, expected the name of a folder"):
        ShardFolder.open(tmp_path / "file", MANIFEST)


def test_reading_what_is_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no captious-shards.json, expected a folder that captious score wrote"):
        ShardFolder.read(tmp_path)
    (tmp_path / "captious-shards.json").write_text("[]")
    with pytest.raises(InputError, match=r"captious-shards.json: cannot be read"):
        ShardFolder.read(tmp_path)


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    folder = ShardFolder.open(tmp_path / "scores", MANIFEST)
    write(folder, "a")
    (tmp_path / "scores" / folder.items_name("a")).write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"a.parquet: is damaged, expected the scores of a shard; remove it"):
        folder.finished()


def test_distinct_hashes_over_shards() -> None:
    random = np.random.default_rng(1)
    arrays = [np.unique(random.integers(0, 2**64, 1000, dtype=np.uint64)) for _ in range(3)]
    arrays.append(arrays[0][::2])
    assert count_distinct(arrays) == len({value for array in arrays for value in array.tolist()})


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
