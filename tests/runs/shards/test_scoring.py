"""Shards scored by each executor: the values of the whole set, going on after failures and kills, what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runs.shards.data import records, write_shards, write_tars
from tests.runs.shards.fatal import Fatal, FatalOnce

import captious
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.storage import Disk, Storage
from captious.metrics.registry import parse_all
from captious.models.store import get_cache_root, list_stores
from captious.options import Engine, Judging, Reading, Resampling, Runtime
from captious.runs import Run, open_run
from captious.runs.shards.scoring import ShardsFailed, score_shards
from captious.runs.shards.shard_plan import divide_limits, plan_shards
from captious.text.idf import DocumentFrequency

METRICS = "bleu,rouge,cider,vocab_size,distinct_n(n=2)"
MINI = "clipscore(weights=captious-mini)"
SERIAL, PROCESSES = Engine("serial"), Engine("processes", jobs=2)
FEW = Resampling(20)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def columns(folder: Path) -> dict[str, dict[str, list]]:
    """The columns of every shard's file."""
    return {path.stem: pq.read_table(path).to_pydict() for path in sorted((folder / "items").glob("*.parquet"))}


def values(folder: Path, metric: str) -> dict[str, float | None]:
    return {key: value for one in columns(folder).values() for key, value in zip(one["id"], one[metric], strict=True)}


def summed(folder: Path) -> list[tuple]:
    """Everything that the report is made of, save the time."""
    return [one.metrics for one in Run.at(folder).summaries()]


def whole(rows: list[dict]) -> CaptionSet:
    captions = {row["id"]: row["caption"] for row in rows}
    return CaptionSet.of(captions, {row["id"]: row["references"] for row in rows})


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict]]:
    """Scores of the serial executor."""
    folder = tmp_path_factory.mktemp("serial")
    rows = records(101)
    score_shards(write_shards(folder / "in", rows, 5), METRICS, out=folder / "scores", resampling=FEW, engine=SERIAL)
    return folder, rows


def test_values_are_those_of_the_whole_set(scored: tuple[Path, list[dict]]) -> None:
    folder, rows = scored
    report = captious.evaluate(whole(rows), METRICS, resampling=Resampling(0))
    for measurement in report:
        ours = values(folder / "scores", str(measurement.metric))
        expected = {key: None if np.isnan(value) else value for key, value in measurement.items.items()}
        assert ours == expected, str(measurement.metric)


def test_sums_and_distinct_things_give_the_corpus_values(scored: tuple[Path, list[dict]]) -> None:
    folder, rows = scored
    scores = Run.at(folder / "scores")
    summaries = scores.summaries()
    for measurement in captious.evaluate(whole(rows), METRICS, resampling=Resampling(0)):
        metric = str(measurement.metric)
        total = np.sum([one[metric].sums for one in summaries], axis=0)
        if summaries[0][metric].unites:
            total[0] = scores.count_distinct(metric)
        assert measurement.metric.aggregate(total[None])[0] == pytest.approx(measurement.corpus, rel=1e-14)
        merged = summaries[0][metric].signature
        for one in summaries[1:]:
            merged = merged.merge(one[metric].signature)
        assert merged == measurement.signature


def test_processes_give_the_same_bytes(scored: tuple[Path, list[dict]], tmp_path: Path) -> None:
    folder, _ = scored
    source = str(folder / "in" / "part-*.jsonl")
    score_shards(source, METRICS, out=tmp_path / "scores", resampling=FEW, engine=PROCESSES)
    assert columns(tmp_path / "scores") == columns(folder / "scores")
    assert summed(tmp_path / "scores") == summed(folder / "scores")


def test_ray_with_one_node_and_with_two_gives_the_same_bytes(
    cluster: Any, scored: tuple[Path, list[dict]], tmp_path: Path
) -> None:
    folder, _ = scored
    texts = str(folder / "in" / "*.jsonl")
    score_shards(texts, METRICS, out=tmp_path / "one", resampling=FEW, engine=Engine("ray"))
    tars, _ = write_tars(tmp_path / "in", 3)
    runtime = Runtime(device="cpu", cache=False)
    score_shards(tars, MINI, out=tmp_path / "serial", resampling=FEW, runtime=runtime, engine=SERIAL)
    node = cluster.add_node(num_cpus=2, object_store_memory=100 * 2**20, include_dashboard=False)
    try:
        cluster.wait_for_nodes()
        score_shards(texts, METRICS, out=tmp_path / "two", resampling=FEW, engine=Engine("ray"))
        score_shards(tars, MINI, out=tmp_path / "images", resampling=FEW, runtime=runtime, engine=Engine("ray"))
    finally:
        cluster.remove_node(node)
    for one, other in (("one", folder / "scores"), ("two", folder / "scores"), ("images", tmp_path / "serial")):
        assert columns(tmp_path / one) == columns(other)
        assert summed(tmp_path / one) == summed(other)


@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_an_address_holds_the_same_scores(scored: tuple[Path, list[dict]], tmp_path: Path, scheme: str, monkeypatch):
    folder, rows = scored
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "captious.runs.stored_states.DOWNLOADED", 2
    )  # so that states of five shards are merged in four steps
    merged, merge_files = [], DocumentFrequency.merge_files
    monkeypatch.setattr(
        DocumentFrequency, "merge_files", lambda paths, out: merged.append(len(paths)) or merge_files(paths, out)
    )
    source = write_shards(tmp_path / "in", rows, 5)
    root = f"memory://{uuid.uuid4().hex}" if scheme == "memory" else tmp_path.as_uri()
    report = score_shards(source, METRICS, out=f"{root}/scores", resampling=FEW, engine=SERIAL)
    storage = Storage.at(f"{root}/scores")
    for path in sorted((folder / "scores" / "items").iterdir()):
        with storage.open(f"items/{path.name}") as file:
            assert pq.read_table(file) == pq.read_table(path)
    assert merged == ([2, 1, 2, 2, 2] if scheme == "memory" else [5])
    again, expected = open_run(f"{root}/scores"), open_run(folder / "scores")
    assert again["cider"].corpus == report["cider"].corpus == expected["cider"].corpus
    assert {path.name for path in tmp_path.iterdir()} <= {"in", "scores"}  # and no folder called memory: or file:
    with pytest.raises(InputError, match=r"scores: contains other scores: it has bleu.*, now it is rouge"):
        score_shards(source, "rouge", out=f"{root}/scores", resampling=FEW, engine=SERIAL)


def test_folders_of_states_are_not_listed_for_every_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": number, "caption": "a dog", "references": ["a dog"]} for number in range(24)]
    listed: list[str] = []
    original = Disk.sizes
    monkeypatch.setattr(Disk, "sizes", lambda self, folder="": listed.append(folder) or original(self, folder))
    numbers = []
    for shards in (3, 12):
        listed.clear()
        source = write_shards(tmp_path / f"in-{shards}", rows, shards)
        score_shards(source, "cider", out=tmp_path / f"out-{shards}", resampling=FEW, engine=SERIAL)
        numbers.append(sum(folder.startswith("states") for folder in listed))
    assert numbers[0] == numbers[1] > 0


def test_the_first_pass_reads_ids_and_captions_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{**row, "url": row["id"]} for row in records(20)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    read, read_file = [], pq.ParquetFile.read
    monkeypatch.setattr(
        pq.ParquetFile, "read", lambda file, *names, **options: read.append(names) or read_file(file, *names)
    )
    score_shards(str(tmp_path / "*.parquet"), "cider", out=tmp_path / "out", resampling=FEW, engine=SERIAL)
    assert read[:2] == [(["id", "caption", "references"],), (["id", "caption", "references", "url"],)]


def test_features_are_stored_only_if_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path / "home"))
    source, captions = write_tars(tmp_path / "in", 3)
    for engine, stored in ((SERIAL, 0), (replace(SERIAL, store_features=True), len(captions))):
        score_shards(source, MINI, out=tmp_path / f"{stored}", resampling=FEW, engine=engine)
        assert sum(info.rows for info in list_stores(get_cache_root()) if info.kind == "images") == stored


def test_tars_with_images(tmp_path: Path) -> None:
    source, captions = write_tars(tmp_path / "in", 3)
    runtime = Runtime(device="cpu", cache=False)
    for engine in (SERIAL, PROCESSES):
        out = tmp_path / str(engine.engine)
        score_shards(source, MINI, out=out, resampling=FEW, runtime=runtime, engine=engine)
        assert sum(one.images for one in Run.at(out).summaries()) == len(captions)
    assert columns(tmp_path / "processes") == columns(tmp_path / "serial")
    # An encoder's single-precision sums depend on how many images are in a batch.
    expected = dict(captious.evaluate(captions, MINI, resampling=Resampling(0), runtime=runtime)[MINI].items)
    assert values(tmp_path / "serial", MINI) == pytest.approx(expected, abs=1e-6)


def test_files_of_the_folder(scored: tuple[Path, list[dict]]) -> None:
    folder, _ = scored
    names = files(folder / "scores")
    digest = Run.at(folder / "scores").marker.digest
    assert [name for name in names if name.startswith("items/")] == [f"items/part-{n}.parquet" for n in range(5)]
    states = [name for name in names if name.startswith("states/cider-")]
    assert [Path(name).suffix for name in states] == [".json", ".merged"]
    assert all(Path(name).name.startswith(f"{digest}-") for name in states)
    assert not [name for name in names if name.endswith(".part")]


def test_columns_of_a_shard(tmp_path: Path) -> None:
    texts = {"1": ["a dog runs on grass", "the dog"], "2": ["a cat"]}
    rows = [{"id": key, "caption": text} for key, candidates in texts.items() for text in candidates]
    write_shards(tmp_path / "in", rows, 1)
    reading = Reading(several=True)
    score_shards([tmp_path / "in"], "mbleu", out=tmp_path / "scores", reading=reading, resampling=FEW, engine=SERIAL)
    (table,) = columns(tmp_path / "scores").values()
    assert table["candidates"] == list(texts.values())
    assert list(table) == ["id", "candidates", "references", "words", "characters", "mbleu(n=4)", "unscored"]
    assert (table["words"], table["characters"]) == ([3.5, 2.0], [13.0, 5.0])  # (5 + 2) / 2, (19 + 7) / 2
    assert [value is None for value in table["mbleu(n=4)"]] == [False, True]
    assert table["unscored"][0] is None
    assert json.loads(table["unscored"][1])["mbleu(n=4)"] == "one candidate, needs several"


def test_a_shard_that_fails_is_left_out_and_tried_again(tmp_path: Path) -> None:
    rows = records(40)
    source = write_shards(tmp_path / "in", rows, 4)
    broken = tmp_path / "in" / "part-2.jsonl"
    content = broken.read_text()
    broken.write_text(content + content.splitlines()[0] + "\n")  # an id twice
    report = score_shards(source, "rouge", out=tmp_path / "scores", resampling=FEW, engine=SERIAL)
    assert list(report.failed) == ["part-2"] and "i2" in report.failed["part-2"]
    assert any(line.startswith("1 of 4 shard is left out, such as part-2: ") for line in report.warnings)
    assert (tmp_path / "scores" / "failed-shards.txt").read_text() == f"{broken}\t{report.failed['part-2']}\n"
    others = whole([row for number, row in enumerate(rows) if number % 4 != 2])
    expected = captious.evaluate(others, "rouge", resampling=Resampling(0))["rouge"]
    assert report.size == 30 and report["rouge"].corpus == pytest.approx(expected.corpus, rel=1e-14)
    again = open_run(tmp_path / "scores")
    assert again.failed == report.failed and "part-2" in str(again)
    assert captious.keep(tmp_path / "scores", "words > 0").items == 30
    assert captious.compare({"a": tmp_path / "scores", "b": again}).differences[0].difference == 0
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "scores" / "items").iterdir()}
    broken.write_text(content)
    report = score_shards(source, "rouge", out=tmp_path / "scores", resampling=FEW, engine=SERIAL)
    assert {path: path.stat().st_mtime_ns for path in times} == times  # not scored again
    assert not report.failed and not (tmp_path / "scores" / "failed-shards.txt").exists()
    assert sorted(values(tmp_path / "scores", "rouge")) == sorted(row["id"] for row in rows)


def test_a_shard_that_fails_in_the_first_pass_counts_once_it_is_mended(tmp_path: Path) -> None:
    rows = records(40)
    source = write_shards(tmp_path / "in", rows, 4)
    (tmp_path / "in" / "part-1.jsonl").write_text("{\n")
    report = score_shards(source, "cider,rouge", out=tmp_path / "scores", resampling=FEW, engine=SERIAL)
    assert list(report.failed) == ["part-1"]
    others = whole([row for number, row in enumerate(rows) if number % 4 != 1])
    for kept in (others, whole(rows)):
        expected = captious.evaluate(kept, "cider", resampling=Resampling(0))["cider"]
        ours = {key: np.nan if one is None else one for key, one in values(tmp_path / "scores", "cider").items()}
        assert ours == pytest.approx(dict(expected.items), nan_ok=True, abs=0)
        assert report["cider"].signature == expected.signature  # with the idf of these shards
        write_shards(tmp_path / "in", rows, 4)
        report = score_shards(source, "cider,rouge", out=tmp_path / "scores", resampling=FEW, engine=SERIAL)


def test_where_no_shard_can_be_scored_it_is_an_error(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"part-{number}.jsonl").write_text("{\n")
    with pytest.raises(ShardsFailed, match=r"7 of 7 shards failed \(part-0, .*, …\); the same again") as error:
        score_shards(f"{tmp_path}/*.jsonl", "rouge", out=tmp_path / "scores", resampling=FEW, engine=SERIAL)
    assert len(error.value.failures) == 7 and str(error.value).endswith("and 2 more")
    assert not (tmp_path / "scores").exists()


def test_a_shard_that_kills_its_worker_is_named(tmp_path: Path) -> None:
    source = write_shards(tmp_path / "in", records(6), 3)
    report = score_shards(source, [Fatal()], out=tmp_path / "scores", resampling=FEW, engine=PROCESSES)
    assert report.failed == {"part-1": "the process that worked on it died 3 times (signal 9; out of memory?)"}
    assert sorted(Run.at(tmp_path / "scores").find_finished()) == ["part-0", "part-2"]


def test_a_shard_whose_worker_died_once_leaves_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path / "home"))
    source, lines = write_shards(tmp_path / "in", records(6), 3), list[str]()
    runtime, out = Runtime(log=lines.append), tmp_path / "scores"
    report = score_shards(source, [FatalOnce()], out=out, resampling=FEW, engine=PROCESSES, runtime=runtime)
    line = "begun again, because a worker process died (signal 9; out of memory?)"
    assert lines == [f"1 task was {line}"] and not report.failed
    assert report.history == (f"1 shard was {line}",) == open_run(out).history
    assert f"1 shard was {line}" in " ".join(str(open_run(out)).split())
    assert json.loads((out / "captious-run.json").read_text())["history"] == [f"1 shard was {line}"]


def test_a_resumed_run_says_what_was_there(tmp_path: Path) -> None:
    source, out = write_shards(tmp_path / "in", records(40), 4), tmp_path / "scores"
    killed = subprocess.run([sys.executable, "-c", DRIVER, "write_part", "3", source, str(out)])
    assert killed.returncode == -signal.SIGKILL
    lines: list[str] = []
    options = {"out": out, "resampling": FEW, "engine": SERIAL, "runtime": Runtime(log=lines.append)}
    report = score_shards(source, "bleu,cider,vocab_size", **options)
    line = "resumed: 2 of 4 shards were already scored"
    assert lines == [f"{out}: {line}"] and report.history == (line,) == open_run(out).history
    lines.clear()
    again = score_shards(source, "bleu,cider,vocab_size", **options)  # nothing is left, and the record stays
    assert not lines and again.history == (line,)


def test_a_run_stopped_twice_keeps_both_lines(tmp_path: Path) -> None:
    source, out = write_shards(tmp_path / "in", records(40), 4), tmp_path / "scores"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", DRIVER, "write_part", "2", source, str(out)])
    report = score_shards(source, "bleu,cider,vocab_size", out=out, resampling=FEW, engine=SERIAL)
    assert report.history == tuple(f"resumed: {number} of 4 shards were already scored" for number in (1, 2))


def test_an_input_that_all_shards_lack_is_said_after_the_first(tmp_path: Path) -> None:
    rows = [{"id": str(n), "caption": "a dog"} for n in range(30)]
    source = write_shards(tmp_path / "in", rows, 30)
    steps: list[str] = []
    for metric in ("rouge", "cider", "clipscore(weights=captious-mini)"):
        with pytest.raises(InputError, match=r"part-0\.jsonl: no (references|image); pass (references|images)="):
            score_shards(source, metric, out=tmp_path / "scores", engine=SERIAL, progress=steps.append)
        assert files(tmp_path) == sorted(f"in/part-{n}.jsonl" for n in range(30))
    assert not [step for step in steps if step.startswith("2 of")]


@pytest.mark.parametrize("metric", ["rouge", "cider", "vocab_size"])
def test_shards_without_an_item(tmp_path: Path, metric: str) -> None:
    source = write_shards(tmp_path / "in", [], 3)
    with pytest.raises(InputError, match="shards: none of them contains an item"):
        score_shards(source, metric, out=tmp_path / "scores", engine=SERIAL)
    assert not (tmp_path / "scores").exists()
    rows = records(10)
    write_shards(tmp_path / "in", rows, 2)  # one of the three stays empty
    score_shards(source, metric, out=tmp_path / "scores", resampling=FEW, engine=SERIAL)
    assert len(values(tmp_path / "scores", metric)) == len(rows)


def test_a_run_that_can_do_nothing_leaves_no_folder(tmp_path: Path) -> None:
    source = write_shards(tmp_path / "in", records(10), 3)
    for metric in ("clipscore(weights=/nowhere)", "cider(idf=/nowhere)"):
        with pytest.raises(InputError, match="/nowhere"):
            score_shards(source, metric, out=tmp_path / "scores", engine=SERIAL)
        assert not (tmp_path / "scores").exists()


def test_another_model_is_not_mixed_in(tmp_path: Path) -> None:
    source = write_shards(tmp_path / "in", records(40), 2)
    idf = tmp_path / "corpus.idf"
    make = [sys.executable, "-m", "captious", "make", "idf", "--out", str(idf), "--overwrite"]
    subprocess.run([*make, str(tmp_path / "in" / "part-0.jsonl")], check=True)
    metric = f"cider(idf={idf})"
    score_shards(source, metric, out=tmp_path / "scores", resampling=FEW, engine=SERIAL)
    (tmp_path / "scores" / "items" / "part-1.parquet").unlink()
    subprocess.run([*make, str(tmp_path / "in" / "part-1.jsonl")], check=True)
    with pytest.raises(InputError, match=r"cider\(.*was computed with idf:.*, now it is idf:.*overwrite=True"):
        score_shards(source, metric, out=tmp_path / "scores", resampling=FEW, engine=SERIAL)
    assert not (tmp_path / "scores" / "items" / "part-1.parquet").exists()


def test_references_of_a_file(tmp_path: Path) -> None:
    rows = records(30)
    references = tmp_path / "references.json"
    references.write_text(json.dumps({row["id"]: row["references"] for row in rows}))
    source = write_shards(tmp_path / "in", [{"id": row["id"], "caption": row["caption"]} for row in rows], 3)
    reading = Reading(references=str(references))
    score_shards(source, "cider", out=tmp_path / "scores", reading=reading, resampling=FEW, engine=SERIAL)
    expected = captious.evaluate(whole(rows), "cider", resampling=Resampling(0))["cider"].items
    ours = values(tmp_path / "scores", "cider")
    assert ours == {key: None if np.isnan(value) else value for key, value in expected.items()}
    references.write_text(references.read_text() + " ")
    with pytest.raises(InputError, match="contains other scores: it was read with references="):
        score_shards(source, "cider", out=tmp_path / "scores", reading=reading, resampling=FEW, engine=SERIAL)
    with pytest.raises(InputError, match="references: dict, expected a path that every worker can read"):
        score_shards(source, "cider", out=tmp_path / "new", reading=Reading(references={"1": ["a"]}), engine=SERIAL)


def test_all_metrics_are_those_that_the_first_shard_allows(tmp_path: Path) -> None:
    rows = [{"id": str(number), "caption": "a dog runs"} for number in range(4)]
    score_shards([write_shards(tmp_path / "in", rows, 2)], "all", out=tmp_path / "scores", engine=SERIAL)
    metrics = Run.at(tmp_path / "scores").metrics
    assert "vocab_size" in metrics
    assert not {"rouge", "mbleu(n=4)"}.intersection(metrics)  # no references, one candidate an item


def test_workers_share_the_limits_of_chat_models(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Judging(concurrency=8, most_tokens=1000, prices=(1.0, 1.0), most_cost=6.0)
    clair = parse_all("clair(model=m)")
    three = divide_limits(limits, clair, Engine("processes", jobs=3), 10)
    assert (three.concurrency, three.most_tokens, three.most_cost) == (2, 333, 2.0)
    two = divide_limits(limits, clair, Engine("ray", jobs=3), 2)  # a third worker would find no shard
    assert (two.concurrency, two.most_tokens, two.most_cost) == (4, 500, 3.0)
    assert divide_limits(limits, clair, Engine("processes", jobs=20), 20).concurrency == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert divide_limits(limits, clair, Engine("processes", gpus=0.5), 20).concurrency == 2  # 2 GPUs hold 4 workers
    unlimited = divide_limits(Judging(), clair, Engine("processes", jobs=2), 2)
    assert (unlimited.most_tokens, unlimited.most_cost) == (None, None)
    assert divide_limits(limits, clair, SERIAL, 10) == limits
    assert divide_limits(limits, parse_all("rouge"), Engine("ray"), 10) == limits
    with pytest.raises(InputError, match=r"pass jobs=\.\.\., their number"):
        divide_limits(limits, clair, Engine("ray"), 10)


@pytest.mark.parametrize(
    ("metric", "message"), [("clair(model=m)", r"pass jobs=\.\.\."), ("rouge", r"pip install 'captious\[ray\]'")]
)
def test_an_engine_that_cannot_work_replaces_no_scores(tmp_path: Path, monkeypatch, metric: str, message: str) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    source = write_shards(tmp_path / "in", records(6), 2)
    with pytest.raises(InputError, match=message):
        score_shards(source, metric, out=tmp_path / "new", resampling=FEW, engine=Engine("ray"))
    assert not (tmp_path / "new").exists()
    score_shards(source, "bleu", out=tmp_path / "scores", resampling=FEW, engine=SERIAL)
    before = files(tmp_path / "scores")
    with pytest.raises(InputError, match=message):
        score_shards(source, metric, out=tmp_path / "scores", resampling=FEW, engine=Engine("ray"), overwrite=True)
    assert files(tmp_path / "scores") == before


def test_a_plan_counts_the_calls_of_all_shards(tmp_path: Path) -> None:
    rows = [row for row in records(30) if row["caption"]]
    source = write_shards(tmp_path / "in", rows, 3)
    (tmp_path / "in" / "part-3.jsonl").write_text("")
    steps: list[str] = []
    plan = plan_shards(str(tmp_path / "in"), "clair(model=m),rouge", progress=steps.append)
    assert {key: calls.calls for key, calls in plan.plans.items()} == {("4 shards", "clair(model=m)"): len(rows)}
    assert steps == [f"shard {number} of 4" for number in (1, 2, 3, 4)]
    one = write_shards(tmp_path / "one", rows, 1)
    assert plan.total == plan_shards(one, "clair(model=m)").total
    with pytest.raises(InputError, match="none of these metrics asks a chat model"):
        plan_shards(source, "rouge")


DRIVER = """
import sys
from captious.options import Engine, Resampling
from captious.runs.shards import scoring
from captious.runs.folder import Run
from captious.runs.stored_states import CorpusStates
import os, signal

moment, count, source, out = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
room = Run if hasattr(Run, moment) else CorpusStates
original = getattr(room, moment)
calls = 0

def dying(self, *arguments):
    global calls
    calls += 1
    if calls == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(self, *arguments)

setattr(room, moment, dying)
scoring.score_shards(source, "bleu,cider,vocab_size", out=out, resampling=Resampling(20), engine=Engine("serial"))
"""


@pytest.mark.parametrize(
    ("moment", "count"),
    [("save", 2), ("merge", 1), ("write_part", 1), ("write_part", 3), ("tidy", 1), ("write_marker", 2)],
)
def test_a_killed_run_is_followed_by_the_same_again(tmp_path: Path, moment: str, count: int) -> None:
    rows = records(40)
    source = write_shards(tmp_path / "in", rows, 4)
    out = tmp_path / "scores"
    killed = subprocess.run([sys.executable, "-c", DRIVER, moment, str(count), source, str(out)])
    assert killed.returncode == -signal.SIGKILL
    score_shards(source, "bleu,cider,vocab_size", out=out, resampling=FEW, engine=SERIAL)
    ids = [key for one in columns(out).values() for key in one["id"]]
    assert sorted(ids) == sorted(row["id"] for row in rows)
    assert not [name for name in files(out) if name.endswith((".part", ".old"))]


def test_a_driver_killed_in_the_midst_of_its_workers_writing(tmp_path: Path) -> None:
    rows = records(4000)
    source = write_shards(tmp_path / "in", rows, 8)
    out = tmp_path / "scores"
    program = (
        "import sys; from captious.options import Engine; from captious.runs.shards.scoring import score_shards;"
        "score_shards(sys.argv[1], 'bleu,cider', out=sys.argv[2], engine=Engine('processes', jobs=2))"
    )
    driver = subprocess.Popen([sys.executable, "-c", program, source, str(out)])
    while not list(out.glob("items/*.parquet")) and driver.poll() is None:
        time.sleep(0.005)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    score_shards(source, "bleu,cider", out=out, resampling=FEW, engine=PROCESSES)
    ids = [key for one in columns(out).values() for key in one["id"]]
    assert sorted(ids) == sorted(row["id"] for row in rows)
    assert not [name for name in files(out) if name.endswith((".part", ".old"))]


def test_metrics_and_shards_are_added_to_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = records(60)
    source, out = write_shards(tmp_path / "in", rows, 4), tmp_path / "scores"
    (tmp_path / "in" / "part-3.jsonl").rename(tmp_path / "late.jsonl")
    some = str(tmp_path / "in" / "*.jsonl")
    score_shards(some, "rouge,vocab_size", out=out, resampling=FEW, engine=SERIAL)
    monkeypatch.setattr("captious.metrics.rouge.Rouge.score_candidates", lambda *one: pytest.fail("computed again"))
    score_shards(some, out=out, resampling=FEW, engine=SERIAL, add="cider,distinct_n(n=2)")
    monkeypatch.undo()
    (tmp_path / "late.jsonl").rename(tmp_path / "in" / "part-3.jsonl")
    metrics = "rouge,vocab_size,cider,distinct_n(n=2)"
    report = score_shards(source, metrics, out=out, resampling=FEW, engine=PROCESSES)
    score_shards(source, metrics, out=tmp_path / "once", resampling=FEW, engine=SERIAL)
    assert columns(out) == columns(tmp_path / "once") and summed(out) == summed(tmp_path / "once")
    once = open_run(tmp_path / "once")
    for key in report.measurements:
        assert report[key].corpus == once[key].corpus and report.intervals.get(key) == once.intervals.get(key)


def test_a_folder_stays_whole_while_a_metric_is_added(tmp_path: Path) -> None:
    source, out = write_shards(tmp_path / "in", records(30), 3), tmp_path / "scores"
    score_shards(source, "rouge", out=out, resampling=FEW, engine=SERIAL)
    before = (out / "captious-run.json").read_bytes()
    program = DRIVER.replace('"bleu,cider,vocab_size", out=out', '"rouge", out=out, add="bleu(n=1)"')
    killed = subprocess.run([sys.executable, "-c", program, "write_part", "2", source, str(out)])
    assert killed.returncode == -signal.SIGKILL
    assert (out / "captious-run.json").read_bytes() == before and open_run(out).size == 30
    report = score_shards(source, out=out, resampling=FEW, engine=SERIAL, add="bleu(n=1)")
    assert list(report.measurements) == ["rouge", "bleu(n=1)"] and not report.failed


def test_further_columns_and_references_of_shards(tmp_path: Path) -> None:
    rows = [
        {"uid": row["id"], "caption": row["caption"], "references": row["references"], "width": number, "lang": "en"}
        for number, row in enumerate(records(20))
    ]
    source = write_shards(tmp_path / "in", rows, 2)
    for stored in (True, False):
        out = tmp_path / f"scores-{stored}"
        report = score_shards(source, "cider", out=out, resampling=FEW, engine=SERIAL, store_references=stored)
        (first, _) = report.items()
        counts = ["words", "characters"]
        names = ["id", "candidates", *(["references"] if stored else []), *counts, "uid", "width", "lang"]
        assert first.column_names == [*names, "cider", "unscored", "shard"]
        assert first["width"].to_pylist() == [row["width"] for row in rows[::2]] and str(first["width"].type) == "int64"
        assert sorted(report.captions.ids) == sorted(row["uid"] for row in rows)
        if stored:
            why = report.explain("i3")["cider"]
            assert sum(part.adds for part in why.parts) == pytest.approx(report["cider"].items["i3"], abs=1e-12)
        else:
            with pytest.raises(InputError, match="contains no references, which explaining cider needs"):
                report.explain("i3")


def test_ctrl_c_says_what_is_done_and_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = write_shards(tmp_path / "in", records(30), 3), tmp_path / "scores"
    lines: list[str] = []
    written: list[int] = []
    write = Run.write_part

    def interrupted(self: Run, *parts: Any) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(1)
        write(self, *parts)

    monkeypatch.setattr(Run, "write_part", interrupted)
    with pytest.raises(KeyboardInterrupt):
        score_shards(source, "rouge", out=out, engine=SERIAL, runtime=Runtime(log=lines.append))
    assert lines == [f"{out}: stopped, 1 of 3 shards are scored; run the same again to resume"]
