"""Summaries of the parts of a run: all that a report needs except the values of the items.

A part is a shard, or a file. Its summary is JSON in the schema metadata of its Parquet file. Numbers are written so
that they are read back to the last digit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import frexp, ldexp
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.hashing import hash_texts
from captious._core.types import Floats
from captious.captions import CaptionSet, format_origin
from captious.metrics.measurement import Measurement, Signature
from captious.metrics.statistic_rows import TypeSets
from captious.render.answers import join_names
from captious.text.ngram_tables import count_words

if TYPE_CHECKING:
    from captious.runs.folder import Run

# Number of worst items in a summary, for each metric.
WORST = 50
# Number of ids in a summary, for each reason.
EXAMPLES = 5
# Largest number of bins of a histogram.
BINS = 256
# Bins are not narrower than 2**-40 of the largest value.
FINEST = 40


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
class Histogram:
    """Counts of values in bins whose width is a power of two and whose edges are its multiples.

    The width is the smallest at which `BINS` bins reach from the lowest to the highest value. Two histograms of
    different widths therefore add up exactly, in any order.

    >>> Histogram.of(np.array([0.0, 0.25, 0.25, 1.0])).quantile(0.5)
    0.25
    """

    exponent: int = 0
    """The width of a bin is ``2 ** exponent``."""
    first: int = 0
    """The first bin begins at ``first * width``."""
    counts: tuple[int, ...] = ()

    @classmethod
    def of(cls, values: Floats) -> Histogram:
        """Return the histogram of all finite values."""
        values = values[np.isfinite(values)]
        if not len(values):
            return cls()
        largest = frexp(float(np.abs(values).max()))[1]
        exponent = max(largest - FINEST, -1000)
        indices = np.floor(values / ldexp(1.0, exponent)).astype(np.int64)
        low = int(indices.min())
        # Halve the indices until they fit: a shift merges two bins, also for negative indices.
        while int(indices.max()) - low >= BINS:
            indices, low, exponent = indices >> 1, low >> 1, exponent + 1
        return cls(exponent, low, tuple(np.bincount(indices - low).tolist()))

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Histogram:
        """Parse a histogram from its JSON value; raise ValueError if its numbers are impossible."""
        exponent, first, counts = int(record["exponent"]), int(record["first"]), tuple(map(int, record["counts"]))
        if not -1000 <= exponent <= 1000 or abs(first) >= 2**62 or len(counts) > BINS or min(counts, default=0) < 0:
            raise ValueError("no histogram has such bins")
        return cls(exponent, first, counts)

    @property
    def width(self) -> float:
        """The width of a bin."""
        return ldexp(1.0, self.exponent)

    @property
    def edges(self) -> Floats:
        """The lower edge of each bin, and the upper edge of the last one."""
        edges: Floats = np.arange(self.first, self.first + len(self.counts) + 1, dtype=np.float64) * self.width
        return edges

    def merge(self, other: Histogram) -> Histogram:
        """Return the histogram of the values of both."""
        if not self.counts or not other.counts:
            return self if self.counts else other
        # Start with the wider bins of the two, and widen both until all values fit into `BINS` bins.
        exponent = max(self.exponent, other.exponent)
        while True:
            parts = [one.coarsen(exponent) for one in (self, other)]
            low = min(part.first for part in parts)
            bins = max(part.first + len(part.counts) for part in parts) - low
            if bins <= BINS:
                break
            exponent += 1
        counts = np.zeros(bins, dtype=np.int64)
        for part in parts:
            counts[part.first - low : part.first - low + len(part.counts)] += part.counts
        return Histogram(exponent, low, tuple(counts.tolist()))

    def coarsen(self, exponent: int) -> Histogram:
        """Return the same values in bins of width ``2 ** exponent``, which must not be narrower."""
        indices = (self.first + np.arange(len(self.counts))) >> (exponent - self.exponent)
        low = int(indices[0])
        counts = np.bincount(indices - low, weights=self.counts).astype(np.int64)
        return Histogram(exponent, low, tuple(counts.tolist()))

    def quantile(self, part: float) -> float:
        """Return the lower edge of the bin that contains this quantile; NaN without values."""
        if not self.counts:
            return float("nan")
        below = np.cumsum(self.counts)
        return float(self.edges[int(np.searchsorted(below, part * below[-1]))])


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
    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns and files that were read from a shard; see `CaptionSet.origin_columns`."""
    references: tuple[int, int] = (0, 0)
    """The smallest and the largest number of references of an item of a shard."""
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
        low, high = map(int, record.get("references", (0, 0)))
        numbers = ("size", "items", "skipped", "candidates", "words", "images", "ids")
        return cls(
            name=str(record["name"]),
            marker=str(record["marker"]),
            metrics=tuple(MetricSummary.of_record(one) for one in record["metrics"]),
            columns={str(name): str(column) for name, column in record.get("columns", {}).items()},
            references=(low, high),
            faults={str(reason): int(number) for reason, number in record["faults"].items()},
            examples={str(reason): str(line) for reason, line in record["examples"].items()},
            warnings=tuple(map(str, record["warnings"])),
            seconds={str(step): float(number) for step, number in record["seconds"].items()},
            **{name: int(record[name]) for name in numbers},
        )


def merge_origins(parts: Iterable[PartSummary]) -> str:
    """Return the line of the columns that most shards were read from, and how the other shards differ."""
    groups: dict[tuple[tuple[str, str], ...], list[PartSummary]] = {}
    for part in parts:
        if part.columns:
            groups.setdefault(tuple(sorted(part.columns.items())), []).append(part)
    if not groups:
        return ""
    most, *others = sorted(groups.values(), key=len, reverse=True)
    ranges = [part.references for part in most]
    usual = most[0].columns
    line = format_origin(usual, (min(low for low, _ in ranges), max(high for _, high in ranges)))
    if not others:
        return line
    number, total = sum(map(len, others)), sum(map(len, groups.values()))
    differences = []
    for group in others:
        columns = group[0].columns
        names = [name for name in {**usual, **columns} if columns.get(name) != usual.get(name)]
        different = "; ".join(f"{name}: {columns.get(name, 'none')}" for name in names)
        differences.append(f"{join_names([part.name for part in group])} ({different})")
    verb = "differs" if number == 1 else "differ"
    return f"{line}; {number:,} of {total:,} shards {verb}: {', '.join(differences)}"


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
