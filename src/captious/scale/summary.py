"""What is known of a shard once it is scored, besides the values of its items: enough for the report of all shards.

A summary stands as JSON in the schema metadata of the shard's Parquet file. Numbers are written so that they are read
back to the last digit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from captious._hashing import text_hashes
from captious._typing import Floats
from captious.captions import CaptionSet
from captious.metrics.measurement import Measurement, Signature
from captious.metrics.rows import TypeSets
from captious.scale.histogram import Histogram

WORST = 50
"""Items that a summary lists for each metric."""
EXAMPLES = 5
"""Ids that a summary names for each reason."""


@dataclass(frozen=True)
class Reason:
    """How many items of a shard have no value for one reason, and the first of them."""

    count: int
    ids: tuple[str, ...]

    def merge(self, other: Reason) -> Reason:
        """Of two shards."""
        return Reason(self.count + other.count, (*self.ids, *other.ids)[:EXAMPLES])


@dataclass(frozen=True)
class WorstItem:
    """An item with a low value, or a high one where lower is better."""

    id: str
    value: float
    candidate: str
    reference: str
    """The first; empty where there is none."""


@dataclass(frozen=True)
class MetricSummary:
    """One metric on one shard."""

    signature: Signature
    """Its settings, items, unscored items, counts, range of references and fingerprint; those of shards merge."""
    sums: tuple[float, ...]
    """Rows of statistics added up over the scored items; of distinct things, their number here and the tokens."""
    unites: bool = False
    """Whether the metric counts distinct things, whose hashes stand in a file beside and unite over shards."""
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    worst: tuple[WorstItem, ...] = ()
    """From the worst on, at most `WORST`."""
    histogram: Histogram = field(default_factory=Histogram)
    """Of the items' values."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def metric(self) -> str:
        """The written form of the metric."""
        return self.signature.metric

    @property
    def items(self) -> int:
        """Of the shard."""
        return self.signature.items

    @property
    def scored(self) -> int:
        """Items with a value."""
        return self.signature.items - self.signature.unscored

    @classmethod
    def of(cls, measurement: Measurement, captions: CaptionSet) -> MetricSummary:
        """The summary of a measurement of these captions."""
        return cls(
            signature=measurement.signature,
            sums=tuple(_total(measurement).tolist()),
            unites=isinstance(measurement.rows, TypeSets),
            reasons=_reasons(measurement.reasons),
            worst=tuple(_worst(measurement, captions)),
            histogram=Histogram.of(measurement.values),
            warnings=measurement.warnings,
            notes=measurement.notes,
        )

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> MetricSummary:
        """The summary again from its JSON value."""
        signature = record["signature"]
        histogram = record["histogram"]
        return cls(
            signature=Signature(**{**signature, "references": tuple(signature["references"])}),
            sums=tuple(record["sums"]),
            unites=record["unites"],
            reasons={text: Reason(one["count"], tuple(one["ids"])) for text, one in record["reasons"].items()},
            worst=tuple(WorstItem(**one) for one in record["worst"]),
            histogram=Histogram(**{**histogram, "counts": tuple(histogram["counts"])}),
            warnings=tuple(record["warnings"]),
            notes=tuple(record["notes"]),
        )


@dataclass(frozen=True)
class ShardSummary:
    """A scored shard: what was read, what each metric gave, and how long that took."""

    shard: str
    """Its name in the manifest."""
    manifest: str
    """Digest of the manifest that it was scored under."""
    size: int
    """Of the shard in bytes when it was scored."""
    items: int
    metrics: tuple[MetricSummary, ...]
    """In the order of the manifest; none where the shard has no item."""
    candidates: int = 0
    """Captions; an item may have several."""
    words: int = 0
    """Of all candidates."""
    images: int = 0
    """Items that have one."""
    ids: int = 0
    """Sum of the hashes of the ids modulo 2**64: the same ids in any order give the same one."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """What could not be read, such as members of a truncated tar, by reason."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """The first fault of each reason in full."""
    warnings: tuple[str, ...] = ()
    """On the captions, whatever the metric."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By step: read, the label of each metric, write."""

    def __getitem__(self, metric: str) -> MetricSummary:
        """The summary of a metric by its written form."""
        return next(one for one in self.metrics if one.metric == metric)

    def to_json(self) -> str:
        """On one line; floats in the shortest form that is read back exactly."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> ShardSummary:
        """The summary again; a ValueError, KeyError or TypeError where it is none."""
        record = json.loads(text)
        metrics = tuple(MetricSummary.of_record(one) for one in record["metrics"])
        return cls(**{**record, "metrics": metrics, "warnings": tuple(record["warnings"])})


def ids_fingerprint(ids: Iterable[str]) -> int:
    """Of ids in any order; those of shards add up modulo 2**64.

    >>> ids_fingerprint(["1", "2"]) == (ids_fingerprint(["2"]) + ids_fingerprint(["1"])) % 2**64
    True
    """
    return int(text_hashes(ids).sum(dtype=np.uint64))


def _total(measurement: Measurement) -> Floats:
    """The rows of the scored items, added up."""
    rows = measurement.rows
    if isinstance(rows, TypeSets):
        return rows.total()
    total: Floats = np.where(np.isnan(rows).any(axis=1, keepdims=True), 0.0, rows).sum(axis=0)
    return total


def _reasons(reasons: Mapping[str, str]) -> dict[str, Reason]:
    ids: dict[str, list[str]] = {}
    for key, reason in reasons.items():
        ids.setdefault(reason, []).append(key)
    return {reason: Reason(len(keys), tuple(keys[:EXAMPLES])) for reason, keys in ids.items()}


def _worst(measurement: Measurement, captions: CaptionSet) -> list[WorstItem]:
    sign = 1 if measurement.metric.higher_is_better else -1
    values = sign * measurement.values
    order: Sequence[int] = np.argsort(values, kind="stable")[: min(WORST, int((~np.isnan(values)).sum()))].tolist()
    items = [(captions.item(index), float(measurement.values[index])) for index in order]
    return [WorstItem(item.id, value, item.candidate, (*item.references, "")[0]) for item, value in items]
