"""The line that says which columns and files were read: of shards, over all of them, and of those that differ."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runs.shards.data import records, write_shards

import captious
from captious.captions import CaptionSet
from captious.options import Engine, Reading, Resampling, Runtime
from captious.runs import Run, open_run
from captious.runs.shards.scoring import score_shards
from captious.runs.summary import PartSummary, merge_origins

FEW = Resampling(20)
ENGINES = [Engine("serial"), Engine("processes", jobs=2)]
LINE = "captions: `caption`; references: `references`, 2 per item"


def rename_column(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace(f'"{old}"', f'"{new}"'), encoding="utf-8")


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.engine)
def test_equal_shards_have_the_line_of_a_file(tmp_path: Path, engine: Engine) -> None:
    source = write_shards(tmp_path / "in", records(30), 3)
    report = score_shards(source, "rouge,cider", out=tmp_path / "run", resampling=FEW, engine=engine)
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records(30)))
    assert captious.evaluate(tmp_path / "all.jsonl", "rouge", resampling=FEW).origin_line == LINE
    for one in (report, open_run(tmp_path / "run")):
        assert one.origin_line == one.data()["read"] == LINE
        assert LINE in one.document().notes
    assert json.loads((tmp_path / "run" / "report.json").read_text())["read"] == LINE
    assert LINE in (tmp_path / "run" / "report.txt").read_text()


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.engine)
def test_shards_with_other_columns_are_named(tmp_path: Path, engine: Engine) -> None:
    rows = records(40)
    rows[1]["references"] = rows[1]["references"][:1]  # in part-1
    source = write_shards(tmp_path / "in", rows, 4)
    rename_column(tmp_path / "in" / "part-2.jsonl", "caption", "text")
    score_shards(source, "rouge", out=tmp_path / "run", resampling=FEW, engine=engine)
    line = "captions: `caption`; references: `references`, 1–2 per item"
    line += "; 1 of 4 shards differs: part-2 (captions: `text`)"
    assert open_run(tmp_path / "run").origin_line == line


def test_a_file_of_references_is_named(tmp_path: Path) -> None:
    rows = records(20)
    table = [{"id": row["id"], "caption": text} for row in rows for text in row.pop("references")]
    (tmp_path / "refs.json").write_text(json.dumps(table))
    source = write_shards(tmp_path / "in", rows, 2)
    reading = Reading(references=tmp_path / "refs.json")
    report = score_shards(source, "rouge", out=tmp_path / "run", reading=reading, resampling=FEW, engine=ENGINES[0])
    assert report.origin_line == "captions: `caption`; references: `caption` of refs.json, 2 per item"
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert captious.read(tmp_path / "all.jsonl", reading=reading).origin_line == report.origin_line


def test_a_resumed_run_keeps_the_lines_of_finished_shards(tmp_path: Path) -> None:
    rows = [{"id": row["id"], "hypothesis": row["caption"], "references": row["references"]} for row in records(30)]
    source = write_shards(tmp_path / "in", rows, 3)
    late = (tmp_path / "in" / "part-2.jsonl").rename(tmp_path / "late")
    some, run = str(tmp_path / "in" / "*.jsonl"), tmp_path / "run"
    score_shards(some, "rouge", out=run, resampling=FEW, engine=ENGINES[0])
    digest = Run.at(run).marker.digest
    # A shard of the same size is not read again: the line says what was read when it was scored.
    rename_column(tmp_path / "in" / "part-0.jsonl", "hypothesis", "prediction")
    late.rename(tmp_path / "in" / "part-2.jsonl")
    rename_column(tmp_path / "in" / "part-2.jsonl", "hypothesis", "text")
    marker = Run.at(run).marker
    (run / "captious-run.json").write_text(replace(marker, complete=False).to_json())  # as if it had been killed
    resumed = score_shards(source, "rouge", out=run, resampling=FEW, engine=ENGINES[1])
    line = "captions: `hypothesis`; references: `references`, 2 per item"
    line += "; 1 of 3 shards differs: part-2 (captions: `text`)"
    assert resumed.origin_line == open_run(run).origin_line == line
    assert resumed.history == ("resumed: 2 of 3 shards were already scored",)
    # The line is a result: states and parts of the run stay valid.
    assert Run.at(run).marker.digest == digest
    assert score_shards(source, "rouge", out=run, resampling=FEW, engine=ENGINES[0]).origin_line == line


def test_an_added_metric_keeps_what_the_first_one_read(tmp_path: Path) -> None:
    captions = captious.demo().systems["sloppy"].take(range(6))
    rows = [{"id": item.id, "caption": item.candidate, "image": Path(str(image)).name} for item, image in zip(
        captions, captions.images, strict=True)]  # fmt: skip
    source = write_shards(tmp_path / "in", rows, 2)
    images = Path(str(captions.images[0])).parent
    options = {"reading": Reading(images=images), "resampling": FEW, "engine": ENGINES[0]}
    runtime, line = Runtime(device="cpu", cache=False), "captions: `caption`; references: none"
    score_shards(source, "distinct_n(n=2)", out=tmp_path / "run", **options)
    assert open_run(tmp_path / "run").origin_line == line  # images are read only for metrics that need them
    clip = "clipscore(weights=captious-mini)"
    score_shards(source, out=tmp_path / "run", add=clip, runtime=runtime, **options)
    line += f"; images: folder {images.name}/"
    assert open_run(tmp_path / "run").origin_line == line
    score_shards(source, out=tmp_path / "run", add="vocab_size", runtime=runtime, **options)
    assert open_run(tmp_path / "run").origin_line == line


def test_lines_of_shards_are_merged() -> None:
    part = PartSummary("a", "", 1, 1, (), columns={"captions": "`text`", "references": "`refs`"}, references=(5, 5))
    empty = replace(part, name="empty", columns={}, references=(0, 0))
    many = [replace(part, name=f"b-{number}", columns={"captions": "`caption`"}) for number in range(7)]
    media = replace(part, name="c", columns={**part.columns, "images": "folder photos/"})
    usual = [replace(part, name=f"a-{number}", references=(4 + number % 2, 6)) for number in range(9)]
    assert merge_origins([]) == merge_origins([empty]) == ""
    assert merge_origins([part, empty]) == "captions: `text`; references: `refs`, 5 per item"
    assert merge_origins([*many, media, empty, *usual]) == (
        "captions: `text`; references: `refs`, 4–6 per item; 8 of 17 shards differ: "
        "b-0, b-1, b-2, b-3 and 3 more (captions: `caption`; references: none), c (images: folder photos/)"
    )
    assert PartSummary.from_json(media.to_json()) == media


def test_captions_in_memory_have_no_columns() -> None:
    captions = CaptionSet.of({"1": "a"}, {"1": ["b", "c"]})
    assert (captions.origin_columns, captions.origin_line, captions.reference_range) == ({}, "", (2, 2))
