"""Summaries of the parts of a run: all that a report needs except the values of the items.

A part is a shard, or a file. Its summary is JSON in the schema metadata of its Parquet file. Numbers are written so
that they are read back to the last digit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.hashing import hash_texts
from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.metrics.measurement import Measurement, Signature
from captious.metrics.rows import TypeSets
from captious.runs._histogram import Histogram
from captious.text.tables import count_words

if TYPE_CHECKING:
    from captious.runs.folder import Run

# Number of worst items in a summary, for each metric.
WORST = 50
# Number of ids in a summary, for each reason.
EXAMPLES = 5


@dataclass(frozen=True)
class Reason:
    """The number of items without a value for one reason, and the ids of the first."""

    count: int
    ids: tuple[str, ...]

    def merge(self, other: Reason) -> Reason:
        """Return the reason over both parts."""
        return Reason(self.count + other.count, (*self.ids, *other.ids)[:EXAMPLES])


@dataclass(frozen=True)
class WorstItem:
    """An item with one of the worst values."""

    id: str
    value: float
    candidate: str
    reference: str
    """The first reference, or an empty string."""


@dataclass(frozen=True)
class MetricSummary:
    """The summary of one metric on one part."""

    signature: Signature
    """The settings, items, unscored items, counts, range of references and fingerprint; those of shards merge."""
    sums: tuple[float, ...]
    """Rows of statistics added up over the scored items; for distinct types, the numbers of types and of tokens."""
    unites: bool = False
    """True if the metric counts distinct types; their hashes are in a separate file and are united over shards."""
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    worst: tuple[WorstItem, ...] = ()
    """The worst items, at most `WORST`, the very worst first."""
    histogram: Histogram = field(default_factory=Histogram)
    """The histogram of the items' values."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    corpus: str = ""
    """The fingerprint of the shards whose corpus statistics the values depend on; empty if they depend on none."""

    @property
    def metric(self) -> str:
        """The written form of the metric."""
        return self.signature.metric

    @property
    def items(self) -> int:
        """The number of items of the part."""
        return self.signature.items

    @property
    def scored(self) -> int:
        """The number of items with a value."""
        return self.signature.items - self.signature.unscored

    @classmethod
    def of(cls, measurement: Measurement, captions: CaptionSet, corpus: str = "", spread: bool = True) -> MetricSummary:
        """Summarize a measurement of these captions; ``spread`` adds the worst items and the histogram."""
        return cls(
            signature=measurement.signature,
            sums=tuple(_sum_rows(measurement).tolist()),
            unites=isinstance(measurement.rows, TypeSets),
            reasons=_group_reasons(measurement.reasons),
            worst=tuple(_find_worst(measurement, captions)) if spread else (),
            histogram=Histogram.of(measurement.values) if spread else Histogram(),
            warnings=measurement.warnings,
            notes=measurement.notes,
            corpus=corpus,
        )

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> MetricSummary:
        """Parse a summary from its JSON value."""
        return cls(
            signature=_parse_signature(record["signature"]),
            sums=tuple(map(float, record["sums"])),
            unites=bool(record["unites"]),
            reasons={
                str(text): Reason(int(one["count"]), tuple(map(str, one["ids"])))
                for text, one in record["reasons"].items()
            },
            worst=tuple(_parse_worst_item(one) for one in record["worst"]),
            histogram=Histogram.of_record(record["histogram"]),
            warnings=tuple(map(str, record["warnings"])),
            notes=tuple(map(str, record["notes"])),
            corpus=str(record["corpus"]),
        )


@dataclass(frozen=True)
class PartSummary:
    """The summary of a scored part: input, result of each metric, and timing."""

    name: str
    marker: str
    """Digest of the marker that it was scored under."""
    size: int
    """The size of the shard in bytes when it was scored; 0 if it is not a shard."""
    items: int
    metrics: tuple[MetricSummary, ...]
    """The metrics in the order of the marker; empty if the part has no item."""
    skipped: int = 0
    """The number of ids that were left out at reading because captions or references were missing."""
    candidates: int = 0
    """The number of captions; an item may have several."""
    words: int = 0
    """The words of all candidates."""
    images: int = 0
    """The number of items with an image."""
    ids: int = 0
    """Sum of the hashes of the ids modulo 2**64: the same ids in any order give the same one."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """The number of faults of reading, such as members of a truncated tar, by reason."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """The first fault of each reason in full."""
    warnings: tuple[str, ...] = ()
    """Warnings about the captions, whatever the metric."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds by step: read, the label of each metric, write."""

    def __getitem__(self, metric: str) -> MetricSummary:
        """Return the summary of a metric by its written form."""
        return next(one for one in self.metrics if one.metric == metric)

    def to_json(self) -> str:
        """Return the summary on one line; floats have the shortest form that is read back exactly."""
        return json.dumps(self, default=_convert_to_record, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> PartSummary:
        """Parse a summary; raise ValueError, KeyError, TypeError or AttributeError if it is malformed."""
        record = json.loads(text)
        numbers = ("size", "items", "skipped", "candidates", "words", "images", "ids")
        return cls(
            name=str(record["name"]),
            marker=str(record["marker"]),
            metrics=tuple(MetricSummary.of_record(one) for one in record["metrics"]),
            faults={str(reason): int(number) for reason, number in record["faults"].items()},
            examples={str(reason): str(line) for reason, line in record["examples"].items()},
            warnings=tuple(map(str, record["warnings"])),
            seconds={str(step): float(number) for step, number in record["seconds"].items()},
            **{name: int(record[name]) for name in numbers},
        )


def summarize_part(
    name: str, run: Run, captions: CaptionSet, measurements: Mapping[str, Measurement], **facts: Any
) -> PartSummary:
    """Summarize the captions and measurements of a part."""
    corpora, spread = facts.pop("corpora", {}), facts.pop("spread", True)
    return PartSummary(
        name=name,
        marker=run.marker.digest,
        size=facts.pop("size", 0),
        items=len(captions),
        metrics=tuple(
            MetricSummary.of(one, captions, corpora.get(key, ""), spread) for key, one in measurements.items()
        ),
        candidates=len(captions.candidates.values),
        words=sum(count_words(captions.candidates.values, captions.language)),
        images=sum(image is not None for image in captions.images),
        ids=hash_ids(captions.ids),
        **facts,
    )


def _convert_to_record(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as a dict. `dataclasses.asdict` would copy every text and number in it."""
    return {one.name: getattr(value, one.name) for one in fields(value)}


def _parse_signature(record: Mapping[str, Any]) -> Signature:
    low, high = map(int, record["references"])
    return Signature(
        metric=str(record["metric"]),
        settings={str(name): str(value) for name, value in record["settings"].items()},
        references=(low, high),
        counts={str(name): int(number) for name, number in record["counts"].items()},
        **{name: int(record[name]) for name in ("items", "fingerprint", "skipped", "unscored")},
    )


def _parse_worst_item(record: Mapping[str, Any]) -> WorstItem:
    texts = {name: str(record[name]) for name in ("id", "candidate", "reference")}
    return WorstItem(value=float(record["value"]), **texts)


def hash_ids(ids: Iterable[str]) -> int:
    """Return the fingerprint of ids in any order; fingerprints of shards add up modulo 2**64.

    >>> hash_ids(["1", "2"]) == (hash_ids(["2"]) + hash_ids(["1"])) % 2**64
    True
    """
    return int(hash_texts(ids).sum(dtype=np.uint64))


def _sum_rows(measurement: Measurement) -> Floats:
    """Return the sum of the rows of the scored items."""
    rows = measurement.rows
    if isinstance(rows, TypeSets):
        return rows.total()
    total: Floats = np.where(np.isnan(rows).any(axis=1, keepdims=True), 0.0, rows).sum(axis=0)
    return total


def _group_reasons(reasons: Mapping[str, str]) -> dict[str, Reason]:
    ids: dict[str, list[str]] = {}
    for key, reason in reasons.items():
        ids.setdefault(reason, []).append(key)
    return {reason: Reason(len(keys), tuple(keys[:EXAMPLES])) for reason, keys in ids.items()}


def _find_worst(measurement: Measurement, captions: CaptionSet) -> list[WorstItem]:
    sign = 1 if measurement.metric.higher_is_better else -1
    values = sign * measurement.values
    order: Sequence[int] = np.argsort(values, kind="stable")[: min(WORST, int((~np.isnan(values)).sum()))].tolist()
    items = [(captions.item(index), float(measurement.values[index])) for index in order]
    return [WorstItem(item.id, value, item.candidate, (*item.references, "")[0]) for item, value in items]
