"""The report of scored shards: corpus values, what has no value and why, the worst items, the spread, the pace.

It is made of the summaries of the shards. The values of all items are never in memory together.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._typing import Floats
from captious.evaluation import Scores, join_signatures, on_scale, score_column
from captious.metrics.contract import Metric
from captious.metrics.measurement import Signature
from captious.metrics.registry import parse
from captious.options import Resampling
from captious.render import Chart, Column, Document, Group, Section, Series, Table, Text
from captious.scale.folder import ShardFolder
from captious.scale.histogram import Histogram
from captious.scale.ids import repeated_ids
from captious.scale.summary import WORST as LISTED
from captious.scale.summary import MetricSummary, Reason, ShardSummary, WorstItem
from captious.stats.bootstrap import Estimate, bootstrap
from captious.stats.resampling import Statistic

if TYPE_CHECKING:
    import pyarrow as pa

FEW = 20
"""Shards below which an interval is rough."""
WORST, SLOWEST, BARS = 20, 50, 40
"""Items and shards that the page lists, and bars of a histogram."""
ITEMS, SHARDS = "items", "shards"
NAN = float("nan")


@dataclass(frozen=True, eq=False)
class ShardedMeasurement:
    """One metric over all shards."""

    metric: Metric
    signature: Signature
    rows: Floats
    """Rows of statistics added up over each shard that holds items, in the order of the shards."""
    corpus: float
    unites: bool = False
    """Whether it counts distinct things, which unite over shards and cannot be resampled."""
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """Why items have no value, with their number and the first ids; the most frequent first."""
    worst: tuple[WorstItem, ...] = ()
    histogram: Histogram = field(default_factory=Histogram)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: ShardFolder, parts: Sequence[MetricSummary]) -> ShardedMeasurement:
        """From the summaries of a metric on every shard, in their order."""
        signature = reduce(Signature.merge, (part.signature for part in parts))
        metric, unites = parse(signature.metric), parts[0].unites
        rows = np.array([part.sums for part in parts], dtype=np.float64)
        total = rows.sum(axis=0)
        if unites:
            total[0] = folder.distinct(signature.metric)
        reasons: dict[str, Reason] = {}
        for part in parts:
            for text, reason in part.reasons.items():
                reasons[text] = reasons[text].merge(reason) if text in reasons else reason
        sign = 1 if metric.higher_is_better else -1
        worst = heapq.nsmallest(LISTED, (item for part in parts for item in part.worst), lambda item: sign * item.value)
        return cls(
            metric,
            signature,
            rows,
            float(metric.aggregate(total[None, :])[0]) if signature.unscored < signature.items else NAN,
            unites,
            dict(sorted(reasons.items(), key=lambda entry: -entry[1].count)),
            tuple(worst),
            reduce(Histogram.merge, (part.histogram for part in parts)),
            tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        )

    @property
    def additive(self) -> bool:
        """Whether shards can be resampled."""
        return not self.unites

    @property
    def statistic(self) -> Statistic:
        """The corpus value as resampling wants it: one row per shard."""
        return Statistic(self.rows, self.metric.aggregate, self.rows.sum(axis=0), self.corpus)


@dataclass(frozen=True, eq=False, repr=False)
class ShardReport(Scores[ShardedMeasurement]):
    """Scores of shards, by the written form of their metric. The values of the items are read from the folder."""

    folder: ShardFolder
    shards: tuple[ShardSummary, ...]
    measurements: Mapping[str, ShardedMeasurement]
    intervals: Mapping[str, Estimate] = field(default_factory=dict)
    resampling: Resampling = Resampling()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: ShardFolder, resampling: Resampling = Resampling()) -> ShardReport:
        """The report of a folder whose shards are all finished."""
        shards = tuple(folder.summaries())
        full = [shard for shard in shards if shard.items]
        measurements = {}
        for metric in folder.manifest.metrics if full else ():
            measurements[metric] = ShardedMeasurement.of(folder, [shard[metric] for shard in full])
        statistics = {key: one.statistic for key, one in measurements.items() if one.additive}
        intervals = bootstrap(statistics, resampling) if len(full) > 1 else {}
        warnings = _warnings(folder, shards, intervals)
        return cls(folder, shards, measurements, intervals, resampling, tuple(warnings))

    @classmethod
    def read(cls, path: str, resampling: Resampling = Resampling()) -> ShardReport:
        """The report of a folder that ``score_shards`` wrote."""
        return cls.of(ShardFolder.read(path), resampling)

    def __len__(self) -> int:
        return sum(shard.items for shard in self.shards)

    @property
    def title(self) -> str:
        """How many items and shards they are."""
        return f"{len(self):,} items in {len(self.shards):,} shard{'' if len(self.shards) == 1 else 's'}"

    def signature(self, key: str) -> str:
        """The signature of a number with that of its interval."""
        interval = f"|ci:{self.resampling.signature('shards')}" if key in self.intervals else ""
        return f"{self.measurements[key].signature}{interval}"

    @property
    def signatures(self) -> list[str]:
        """Every signature; those that differ in the parameters of the metric alone share a line."""
        return join_signatures(map(self.signature, self.measurements))

    @property
    def notes(self) -> list[str]:
        """What the metrics say of their computation, such as what it cost."""
        return list(dict.fromkeys(note for one in self for note in one.notes))

    def items(self) -> Iterator[pa.Table]:
        """The items shard by shard: id, candidates, words, a column per metric, why one is empty, and the shard."""
        import pyarrow as pa

        for shard in self.shards:
            table = self.folder.table(shard.shard).replace_schema_metadata()
            yield table.append_column("shard", pa.array([shard.shard] * len(table), pa.string()))

    @property
    def seconds(self) -> dict[str, float]:
        """Of all shards by step: read, the label of each metric, write. Workers beside each other add up."""
        seconds: Counter[str] = Counter()
        for shard in self.shards:
            seconds.update(shard.seconds)
        return dict(seconds)

    def document(self) -> Document:
        """Values with intervals, what has none, how values are spread, the worst items, and the pace."""
        captions = sum(shard.candidates for shard in self.shards)
        words = sum(shard.words for shard in self.shards) / captions if captions else NAN
        sections: list[Section] = [self._scores(), *self._unscored(), *self._faults(), *self._histograms()]
        if self.measurements:
            sections.append(Group("Worst items", list(self._worst())))
        sections.append(Group("Time and shards", [self._steps(), self._shard_table()]))
        return Document(
            self.title,
            f"{self.folder.address}; {words:.1f} words per caption" if captions else self.folder.address,
            sections,
            warnings=self.warnings,
            notes=self.notes,
            signatures=self.signatures,
            data=self.data(),
        )

    def _scores(self) -> Table:
        columns: list[Column | str] = [
            "metric",
            Column("value", percent=1, level=self.resampling.level if self.intervals else None, bold=True, bar=True),
        ]
        if lower := any(not one.metric.higher_is_better for one in self):
            columns.append(Column("better", "text", latex=None))
        columns.append(Column("scored", latex=None))
        if unscored := any(one.reasons for one in self):
            columns.append(Column("unscored", latex=None))
        rows: list[list[Any]] = []
        for key, one in self.measurements.items():
            row: list[Any] = [self.label(key), on_scale([self], key)[0]]
            row += ["higher" if one.metric.higher_is_better else "lower"] if lower else []
            row.append(one.signature.items - one.signature.unscored)
            row += [one.signature.unscored] if unscored else []
            rows.append(row)
        note = f"Intervals: {self.resampling.samples:,} resamples of {self._full} shards" if self.intervals else ""
        return Table("scores", "Scores", columns, rows, note)

    @property
    def _full(self) -> int:
        return sum(1 for shard in self.shards if shard.items)

    def _unscored(self) -> list[Table]:
        rows: list[Sequence[Any]] = []
        starts: list[int] = []
        for key, one in self.measurements.items():
            starts += [len(rows)] if one.reasons and rows else []
            for text, reason in one.reasons.items():
                share = reason.count / one.signature.items
                rows.append((self.label(key), text, reason.count, share, ", ".join(reason.ids)))
        columns = ("metric", "reason", Column("items"), _share("of all"), "such as")
        return [Table("unscored", "Without a value", columns, rows, breaks=starts)] if rows else []

    def _faults(self) -> list[Table]:
        counts: Counter[str] = Counter()
        shards: Counter[str] = Counter()
        examples: dict[str, str] = {}
        for shard in self.shards:
            counts.update(shard.faults)
            shards.update(shard.faults.keys())
            examples = {**shard.examples, **examples}
        rows = [(reason, number, shards[reason], examples.get(reason, "")) for reason, number in counts.most_common()]
        columns = ("reason", Column("times"), Column("shards"), "such as")
        return [Table("faults", "Left out when reading", columns, rows)] if rows else []

    def _histograms(self) -> list[Section]:
        charts: list[Section] = []
        for key, one in self.measurements.items():
            edges, counts = _bars(one)
            if len(counts) > 1:
                labels = [
                    f"{low:.4g} to {high:.4g}: {count:,} items"
                    for low, high, count in zip(edges, edges[1:], counts, strict=False)
                ]
                series = Series(self.label(key), edges, counts, labels=labels)
                charts.append(Chart("histogram", [series], self.label(key), y="items"))
        heading = Text(["How many items have which value."], "Distributions", detail=True)
        return [heading, *charts] if charts else []

    def worst(self, number: int = 10, metric: str | None = None) -> Document:
        """The items with the worst value of a metric, the last one unless named; a summary lists at most 50."""
        key = str(self[metric].metric) if metric else list(self.measurements)[-1]
        table = self._worst_table(key, number)
        return Document(table.title, sections=[table])

    def _worst(self) -> Iterator[Table]:
        for key in self.measurements:
            yield self._worst_table(key, WORST)

    def _worst_table(self, key: str, number: int) -> Table:
        one = self.measurements[key]
        shown = 4 if any(item.reference for item in one.worst) else 3
        columns = ("id", score_column(self.label(key), one.metric), "candidate", "first reference")
        rows = [(item.id, item.value, item.candidate, item.reference)[:shown] for item in one.worst[:number]]
        return Table(f"worst_{key}", f"Worst by {self.label(key)}", columns[:shown], rows)

    def _steps(self) -> Table:
        seconds, items = self.seconds, len(self)
        total = sum(seconds.values())
        rows = [
            (step, spent, spent / total if total else NAN, _rate(items, spent))
            for step, spent in sorted(seconds.items(), key=lambda entry: -entry[1])
        ]
        rows.append(("all", total, 1.0 if total else NAN, _rate(items, total)))
        columns = ("step", Column("seconds", decimals=1), _share("of all"), Column("items/s", key="rate"))
        note = "Seconds of all workers together; items/s is the rate of one worker"
        return Table("steps", "Time", columns, rows, note, breaks=[len(rows) - 1], detail=True)

    def _shard_table(self) -> Table:
        spent = {shard.shard: sum(shard.seconds.values()) for shard in self.shards}
        slowest = sorted(self.shards, key=lambda shard: -spent[shard.shard])
        rows = []
        for shard in slowest[:SLOWEST]:
            unscored = [one.signature.unscored for one in shard.metrics]
            seconds = spent[shard.shard]
            rate = _rate(shard.items, seconds)
            faults = sum(shard.faults.values())
            rows.append((shard.shard, shard.items, seconds, rate, max(unscored, default=0), faults))
        rest = len(self.shards) - len(rows)
        columns = (
            "shard",
            Column("items"),
            Column("seconds", decimals=2),
            Column("items/s", key="rate"),
            Column("unscored"),
            Column("left out", key="faults"),
        )
        note = "The slowest first; “unscored” is that of the metric with the most"
        note += f". {rest:,} faster ones are in shards.csv" if rest else ""
        return Table(SHARDS, "Shards", columns, rows, note, detail=True)

    def data(self) -> dict[str, Any]:
        """The numbers with everything that moves them, as JSON holds them."""
        faults: Counter[str] = Counter()
        for shard in self.shards:
            faults.update(shard.faults)
        return {
            "name": self.folder.address,
            "items": len(self),
            "shards": len(self.shards),
            "metrics": [self._metric_data(key) for key in self.measurements],
            "faults": dict(faults),
            "seconds": self.seconds,
            "warnings": list(self.warnings),
        }

    def _metric_data(self, key: str) -> dict[str, Any]:
        one, interval = self.measurements[key], self.intervals.get(key)
        spread = {name: getattr(interval, name) if interval else None for name in ("low", "high", "error")}
        edges, counts = _bars(one)
        return {
            "metric": key,
            "label": self.label(key),
            "value": one.corpus,
            **spread,
            "level": self.resampling.level if interval else None,
            "higher_is_better": one.metric.higher_is_better,
            "range": one.metric.range,
            "decimals": one.metric.decimals,
            "unscored": one.signature.unscored,
            "reasons": {reason: found.count for reason, found in one.reasons.items()},
            "histogram": {"edges": edges, "counts": counts},
            "signature": self.signature(key),
        }

    def to_pandas(self, table: str | None = None) -> Any:
        """One row per shard, with the value of each metric; or a table of the document, or ``items``, which are all."""
        return super().to_pandas(table or SHARDS)

    def to_arrow(self, table: str | None = None) -> Any:
        """One row per shard, as ``to_pandas``. Of ``items`` all are read into memory; ``items()`` reads by shard."""
        if table == ITEMS:
            import pyarrow as pa

            return pa.concat_tables(self.items())
        return super().to_arrow(table or SHARDS)

    def _columns(self, table: str | None) -> Mapping[str, Sequence[Any]]:
        if table == ITEMS:
            columns: Mapping[str, Sequence[Any]] = self.to_arrow(ITEMS).to_pydict()
            return columns
        if table != SHARDS:
            return super()._columns(table)
        return {
            "shard": [shard.shard for shard in self.shards],
            "items": [shard.items for shard in self.shards],
            **{key: self._by_shard(key) for key in self.measurements},
            **{f"{key}_unscored": self._unscored_by_shard(key) for key in self.measurements},
            "faults": [sum(shard.faults.values()) for shard in self.shards],
            "seconds": [sum(shard.seconds.values()) for shard in self.shards],
        }

    def _by_shard(self, key: str) -> list[float | None]:
        """The value of a metric on each shard; None where it has none."""
        one = self.measurements[key]
        values = iter(one.metric.aggregate(one.rows).tolist())
        scored = {shard.shard: next(values) for shard in self.shards if shard.items}
        by_shard = [scored[shard.shard] if shard.items and shard[key].scored else NAN for shard in self.shards]
        return [value if math.isfinite(value) else None for value in by_shard]

    def _unscored_by_shard(self, key: str) -> list[int]:
        return [shard[key].signature.unscored if shard.items else 0 for shard in self.shards]

    def write(self, percent: bool = False) -> None:
        """Write the report into the folder of the scores: the page, JSON, text, LaTeX, and a CSV file per table."""
        from captious.render import html, latex, tables, terminal

        document = self.in_percent() if percent else self.document()
        texts = {f"{key}.csv": tables.csv_text(table) for key, table in document.tables.items() if _plain(key)}
        texts |= {
            f"{SHARDS}.csv": tables.csv_text(self._columns(SHARDS)),
            "report.txt": terminal.plain_text(document, terminal.WIDE, signatures=True) + "\n",
            "report.tex": latex.document(document),
            "report.json": self.to_json(),
            "report.html": html.page(document),
        }
        for name, text in texts.items():
            self.folder.storage.write(name, text.encode("utf-8", "replace"))


def _plain(key: str) -> bool:
    """Whether a table has a file of its own; the worst items stand on the page."""
    return not key.startswith("worst_")


def _rate(items: int, seconds: float) -> int | None:
    """Items a second."""
    return round(items / seconds) if seconds else None


def _share(name: str) -> Column:
    return Column(name, decimals=1, scale=100.0, unit=" %", key="share")


def _bars(measurement: ShardedMeasurement) -> tuple[list[float], list[int]]:
    """Edges and counts of at most `BARS` bins; the highest value possible has no bin of its own."""
    histogram, highest = measurement.histogram, measurement.metric.range[1]
    while len(histogram.counts) > BARS + 1:
        histogram = histogram.coarser(histogram.exponent + 1)
    edges, counts = histogram.edges.tolist(), list(histogram.counts)
    if len(counts) > 1 and edges[-2] >= highest:
        counts[-2:] = [counts[-2] + counts[-1]]
        edges.pop()
    return edges, counts


def _warnings(
    folder: ShardFolder,
    shards: Sequence[ShardSummary],
    intervals: Mapping[str, Estimate],
) -> list[str]:
    """What a person should know before trusting these numbers."""
    full = sum(1 for shard in shards if shard.items)
    warnings = []
    repeated, examples = repeated_ids(folder)
    if repeated:
        such = f"such as {examples[0]}"
        occur, their = ("id occurs", "its") if repeated == 1 else ("ids occur", "their")
        warnings.append(f"{repeated:,} {occur} more than once over the shards, {such}: {their} items count twice")
    if empty := [shard.shard for shard in shards if not shard.items]:
        warnings.append(f"{len(empty):,} of {len(shards):,} shards hold no item, such as {empty[0]}")
    if intervals and full < FEW:
        warnings.append(f"intervals resample {full} shards; below {FEW} they are rough, and often too narrow")
    texts = [(shard.shard, text) for shard in shards for text in (*shard.warnings, *_said_by_metrics(shard))]
    return [*warnings, *_alike(texts)]


def _said_by_metrics(shard: ShardSummary) -> Iterator[str]:
    return (warning for one in shard.metrics for warning in one.warnings)


_VARYING = re.compile(r" \([^()]*\)|,? \d+% of all|\d[\d.,]*%?|s\b")
"""Ids, shares, numbers, and whether a word is plural."""


def _alike(texts: Sequence[tuple[str, str]]) -> list[str]:
    """Warnings of shards, those that differ in numbers and ids alone as one: the first, and how many shards have it."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, text in texts:
        alike.setdefault(_VARYING.sub("", text), []).append((name, text))
    lines = []
    for same in alike.values():
        (name, text), shards = same[0], len({name for name, _ in same})
        lines.append(f"{name}: {text}" if shards == 1 else f"{shards:,} shards, such as {name}: {text}")
    return lines
