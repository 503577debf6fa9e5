"""Folders of scored shards without statistics of items, made without a run: every shard is measured alone."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import MappingProxyType

import numpy as np

from captious.captions import CaptionSet
from captious.io.shards import Shard, expand, read_shard
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement
from captious.metrics.registry import parse_all
from captious.options import Resampling
from captious.runs import Run
from captious.runs.run_tables import hash_types, make_items_table
from captious.runs.shards.scoring import _finish
from captious.runs.shards.shard_plan import claim_folder
from captious.runs.summary import summarize_part


def write_lines(folder: Path, shards: Mapping[str, Sequence[Mapping]]) -> str:
    """JSONL shards by name; gives the pattern that means them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in shards.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "*.jsonl")


def write_tar(path: Path, members: Mapping[str, bytes], format: int = tarfile.PAX_FORMAT) -> None:
    """A tar of these files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=format) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, BytesIO(content))


def scored(pattern: str, out: Path, metrics: str = "rouge", broken: Mapping[str, str] = MappingProxyType({})) -> Run:
    """The run of these shards, by metrics that need no corpus; ``broken`` items have a reason and no value."""
    shards, chosen = expand(pattern), parse_all(metrics)
    run = claim_folder(out, chosen, shards, {"store_rows": False})
    for shard in shards:
        content = read_shard(shard, images=False)
        captions = content.captions
        measured = [without(metric.measure(captions), broken) for metric in chosen] if len(captions) else []
        write_part(run, shard, captions, measured, faults=content.faults, examples=content.examples)
    return finish(run, chosen)


def write_part(run: Run, shard: Shard, captions: CaptionSet, measured: Sequence[Measurement] = (), **facts) -> None:
    """The part of a shard, as a worker writes it."""
    measurements = {str(one.metric): one for one in measured}
    summary = summarize_part(
        shard.name, run, captions, measurements, size=shard.size, seconds={"read": 0.25, "ROUGE-L": 0.75}, **facts
    )
    run.write_part(summary, make_items_table(captions, measurements, run.metrics), hash_types(measurements))


def finish(run: Run, metrics: Sequence[Metric]) -> Run:
    """The run with a marker that says what its parts hold, and with the warnings of its report."""
    return _finish(run, metrics, Resampling(), {}).source.run


def without(measurement: Measurement, broken: Mapping[str, str]) -> Measurement:
    """A measurement in which some items have a reason in place of a value."""
    reasons = {key: broken[key] for key in measurement.ids if key in broken}
    if not reasons:
        return measurement
    missing = np.array([key in reasons for key in measurement.ids])[:, None]
    rows = np.where(missing, np.nan, np.asarray(measurement.rows))
    signature = replace(measurement.signature, unscored=len(reasons))
    return replace(measurement, rows=rows, reasons=reasons, signature=signature)
