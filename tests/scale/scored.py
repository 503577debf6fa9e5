"""Folders of scored shards, made without a run: every shard is measured alone."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from captious.io.shards import expand, read_shard
from captious.metrics.measurement import Measurement
from captious.metrics.registry import parse_all
from captious.scale.folder import Manifest, ShardFolder
from captious.scale.summary import MetricSummary, ShardSummary, ids_fingerprint


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


def scored(
    pattern: str, out: Path, metrics: str = "rouge", broken: Mapping[str, str] = MappingProxyType({})
) -> ShardFolder:
    """The folder of these shards, by metrics that need no corpus; ``broken`` items have a reason and no value."""
    shards = expand(pattern)
    chosen = parse_all(metrics)
    folder = ShardFolder.open(out, Manifest(tuple(map(str, chosen)), shards))
    for shard in shards:
        content = read_shard(shard, images=False)
        captions = content.captions
        measurements = [without(metric.measure(captions), broken) for metric in chosen] if len(captions) else []
        reasons: dict[str, dict[str, str]] = {}
        for one in measurements:
            for key, reason in one.reasons.items():
                reasons.setdefault(key, {})[str(one.metric)] = reason
        words = [min((len(text.split()) for text in texts), default=0) for texts in captions.candidates]
        table = pa.table(
            {
                "id": pa.array(captions.ids, pa.string()),
                "candidates": pa.array([list(texts) for texts in captions.candidates], pa.list_(pa.string())),
                "words": pa.array(words, pa.int32()),
                **{str(one.metric): pa.array(one.values, pa.float64(), from_pandas=True) for one in measurements},
                "unscored": pa.array(
                    [json.dumps(reasons[key]) if key in reasons else None for key in captions.ids], pa.string()
                ),
            }
        )
        summary = ShardSummary(
            shard.name,
            folder.manifest.digest,
            shard.size,
            len(captions),
            tuple(MetricSummary.of(one, captions) for one in measurements),
            candidates=len(captions.candidates.values),
            words=sum(words),
            ids=ids_fingerprint(captions.ids),
            faults=content.faults,
            examples=content.examples,
            seconds={"read": 0.25, "ROUGE-L": 0.75},
        )
        folder.write_shard(summary, table, {})
    return folder


def without(measurement: Measurement, broken: Mapping[str, str]) -> Measurement:
    """A measurement in which some items have a reason in place of a value."""
    reasons = {key: broken[key] for key in measurement.ids if key in broken}
    if not reasons:
        return measurement
    missing = np.array([key in reasons for key in measurement.ids])[:, None]
    rows = np.where(missing, np.nan, np.asarray(measurement.rows))
    signature = replace(measurement.signature, unscored=len(reasons))
    return replace(measurement, rows=rows, reasons=reasons, signature=signature)
