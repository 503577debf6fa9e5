"""The report of shards as a document: corpus values, what has none and why, the spread, the worst items, the pace.

It is made of the summaries of the shards. The values of all items are never in memory together.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from captious.metrics.measurement import Measurement
from captious.render import Chart, Column, Document, Group, Section, Series, Table, Text
from captious.runs.stored import StoredMeasurement
from captious.runs.summary import PartSummary

if TYPE_CHECKING:
    from captious.runs.report import Report

FEW = 20
"""Shards below which an interval is rough."""
WORST, SLOWEST, BARS = 20, 50, 40
"""Items and shards that the page lists, and bars of a histogram."""
NAN = float("nan")


def stored(measurement: Measurement) -> StoredMeasurement:
    """A measurement of shards."""
    assert isinstance(measurement, StoredMeasurement)
    return measurement


def shards_document(report: Report) -> Document:
    """Values with intervals, what has none, how values are spread, the worst items, and the pace."""
    captions = sum(part.candidates for part in report.parts)
    words = sum(part.words for part in report.parts) / captions if captions else NAN
    sections: list[Section] = [_scores(report), *_unscored(report), *_faults(report), *_failed(report)]
    sections += _histograms(report)
    if report.measurements:
        sections.append(Group("Worst items", [_worst_table(report, key) for key in report.measurements]))
    sections.append(Group("Time and shards", [_steps(report), _shard_table(report)]))
    explained = report.explanations and report.explanations.document()
    return Document(
        report.title,
        f"{report.name}; {words:.1f} words per caption" if captions else report.name,
        [*sections[:1], *(explained.sections if explained else ()), *sections[1:]],
        warnings=report.warnings,
        notes=[*report.notes, *(explained.notes if explained else ())],
        signatures=report.signatures,
        data=report.data(),
    )


def _scores(report: Report) -> Table:
    from captious.runs.report import on_scale

    level = report.resampling.level if report.intervals else None
    columns: list[Column | str] = ["metric", Column("value", percent=1, level=level, bold=True, bar=True)]
    if lower := any(not one.metric.higher_is_better for one in report):
        columns.append(Column("better", "text", latex=None))
    columns.append(Column("scored", latex=None))
    if unscored := any(one.signature.unscored for one in report):
        columns.append(Column("unscored", latex=None))
    rows: list[list[Any]] = []
    for key, one in report.measurements.items():
        row: list[Any] = [report.label(key), on_scale([report], key)[0]]
        row += ["higher" if one.metric.higher_is_better else "lower"] if lower else []
        row.append(one.signature.items - one.signature.unscored)
        row += [one.signature.unscored] if unscored else []
        rows.append(row)
    full = sum(1 for part in report.parts if part.items)
    note = f"Intervals: {report.resampling.samples:,} resamples of {full} shards" if report.intervals else ""
    return Table("scores", "Scores", columns, rows, note)


def _unscored(report: Report) -> list[Table]:
    rows: list[Sequence[Any]] = []
    starts: list[int] = []
    for key, one in report.measurements.items():
        reasons = stored(one).reason_counts
        starts += [len(rows)] if reasons and rows else []
        for text, reason in reasons.items():
            share = reason.count / one.signature.items
            rows.append((report.label(key), text, reason.count, share, ", ".join(reason.ids)))
    columns = ("metric", "reason", Column("items"), _share("of all"), "such as")
    return [Table("unscored", "Without a value", columns, rows, breaks=starts)] if rows else []


def _faults(report: Report) -> list[Table]:
    counts: Counter[str] = Counter()
    shards: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for part in report.parts:
        counts.update(part.faults)
        shards.update(part.faults.keys())
        examples = {**part.examples, **examples}
    rows = [(reason, number, shards[reason], examples.get(reason, "")) for reason, number in counts.most_common()]
    columns = ("reason", Column("times"), Column("shards"), "such as")
    return [Table("faults", "Left out when reading", columns, rows)] if rows else []


def _failed(report: Report) -> list[Table]:
    rows = list(report.failed.items())
    rest = len(rows) - SLOWEST
    note = f"{rest:,} more are in failed-shards.txt" if rest > 0 else ""
    columns = ("shard", "why")
    return [Table("failed", "Shards that failed and are left out", columns, rows[:SLOWEST], note)] if rows else []


def _histograms(report: Report) -> list[Section]:
    charts: list[Section] = []
    for key, one in report.measurements.items():
        edges, counts = _bars(stored(one))
        if len(counts) > 1:
            labels = [
                f"{low:.4g} to {high:.4g}: {count:,} items"
                for low, high, count in zip(edges, edges[1:], counts, strict=False)
            ]
            series = Series(report.label(key), edges, counts, labels=labels)
            charts.append(Chart("histogram", [series], report.label(key), y="items"))
    heading = Text(["How many items have which value."], "Distributions", detail=True)
    return [heading, *charts] if charts else []


def _worst_table(report: Report, key: str) -> Table:
    from captious.runs.report import score_column

    one = stored(report.measurements[key])
    shown = 4 if any(item.reference for item in one.worst) else 3
    columns = ("id", score_column(report.label(key), one.metric), "candidate", "first reference")
    rows = [(item.id, item.value, item.candidate, item.reference)[:shown] for item in one.worst[:WORST]]
    return Table(f"worst_{key}", f"Worst by {report.label(key)}", columns[:shown], rows)


def _steps(report: Report) -> Table:
    seconds, items = seconds_by_step(report), report.size
    total = sum(seconds.values())
    rows = [
        (step, spent, spent / total if total else NAN, _rate(items, spent))
        for step, spent in sorted(seconds.items(), key=lambda entry: -entry[1])
    ]
    rows.append(("all", total, 1.0 if total else NAN, _rate(items, total)))
    columns = ("step", Column("seconds", decimals=1), _share("of all"), Column("items/s", key="rate"))
    note = "Seconds of all workers together; items/s is the rate of one worker"
    return Table("steps", "Time", columns, rows, note, breaks=[len(rows) - 1], detail=True)


def seconds_by_step(report: Report) -> dict[str, float]:
    """Seconds of all shards by step: read, the label of each metric, write. Workers beside each other add up."""
    seconds: Counter[str] = Counter()
    for part in report.parts:
        seconds.update(part.seconds)
    return dict(seconds)


def _shard_table(report: Report) -> Table:
    spent = {part.name: sum(part.seconds.values()) for part in report.parts}
    slowest = sorted(report.parts, key=lambda part: -spent[part.name])
    rows = []
    for part in slowest[:SLOWEST]:
        unscored = [one.signature.unscored for one in part.metrics]
        seconds = spent[part.name]
        rate = _rate(part.items, seconds)
        faults = sum(part.faults.values())
        rows.append((part.name, part.items, seconds, rate, max(unscored, default=0), faults))
    rest = len(report.parts) - len(rows)
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
    return Table("shards", "Shards", columns, rows, note, detail=True)


def shards_data(report: Report) -> dict[str, Any]:
    """The numbers with everything that moves them, as JSON holds them."""
    faults: Counter[str] = Counter()
    for part in report.parts:
        faults.update(part.faults)
    return {
        "name": report.name,
        "items": report.size,
        "shards": len(report.parts),
        "metrics": [_metric_data(report, key) for key in report.measurements],
        "faults": dict(faults),
        "failed": dict(report.failed),
        "seconds": seconds_by_step(report),
        "warnings": list(report.warnings),
        **({"explanations": report.explanations.data()} if report.explanations else {}),
    }


def _metric_data(report: Report, key: str) -> dict[str, Any]:
    one = stored(report.measurements[key])
    edges, counts = _bars(one)
    return {
        **vars(report.facts(key)),
        "reasons": {reason: found.count for reason, found in one.reason_counts.items()},
        "histogram": {"edges": edges, "counts": counts},
    }


def shard_columns(report: Report) -> Mapping[str, Sequence[Any]]:
    """One row per shard: items, the value of each metric, how many items have none, faults, seconds."""
    parts = report.parts
    return {
        "shard": [part.name for part in parts],
        "items": [part.items for part in parts],
        **{key: _by_shard(report, key) for key in report.measurements},
        **{
            f"{key}_unscored": [part[key].signature.unscored if part.items else 0 for part in parts]
            for key in report.measurements
        },
        "faults": [sum(part.faults.values()) for part in parts],
        "seconds": [sum(part.seconds.values()) for part in parts],
    }


def _by_shard(report: Report, key: str) -> list[float | None]:
    """The value of a metric on each shard; None where it has none."""
    one = stored(report.measurements[key])
    values = iter(one.metric.aggregate(np.asarray(one.rows)).tolist())
    scored = {part.name: next(values) for part in report.parts if part.items}
    by_shard = [scored[part.name] if part.items and part[key].scored else NAN for part in report.parts]
    return [value if math.isfinite(value) else None for value in by_shard]


def _rate(items: int, seconds: float) -> int | None:
    """Items a second."""
    return round(items / seconds) if seconds else None


def _share(name: str) -> Column:
    return Column(name, decimals=1, scale=100.0, unit=" %", key="share")


def _bars(measurement: StoredMeasurement) -> tuple[list[float], list[int]]:
    """Edges and counts of at most `BARS` bins; the highest value possible has no bin of its own."""
    histogram, highest = measurement.histogram, measurement.metric.range[1]
    while len(histogram.counts) > BARS + 1:
        histogram = histogram.coarser(histogram.exponent + 1)
    edges, counts = histogram.edges.tolist(), list(histogram.counts)
    if len(counts) > 1 and edges[-2] >= highest:
        counts[-2:] = [counts[-2] + counts[-1]]
        edges.pop()
    return edges, counts


def shard_warnings(
    parts: Sequence[PartSummary], failed: Mapping[str, str], repeated: tuple[int, Sequence[str]], intervals: bool
) -> list[str]:
    """What a person should know before trusting the numbers of shards.

    ``repeated`` is how many ids occur more than once, and lines that name some.
    """
    full = sum(1 for part in parts if part.items)
    warnings = []
    if failed:
        name, why = next(iter(failed.items()))
        are = "shard is" if len(failed) == 1 else "shards are"
        warnings.append(f"{len(failed):,} of {len(failed) + len(parts):,} {are} left out, such as {name}: {why}")
    number, examples = repeated
    if number:
        such = f"such as {examples[0]}"
        occur, their = ("id occurs", "its") if number == 1 else ("ids occur", "their")
        warnings.append(f"{number:,} {occur} more than once over the shards, {such}: {their} items count twice")
    if empty := [part.name for part in parts if not part.items]:
        warnings.append(f"{len(empty):,} of {len(parts):,} shards hold no item, such as {empty[0]}")
    if intervals and full < FEW:
        warnings.append(f"intervals resample {full} shards; below {FEW} they are rough, and often too narrow")
    texts = [(part.name, text) for part in parts for text in (*part.warnings, *_said_by_metrics(part))]
    return [*warnings, *_alike(texts)]


def _said_by_metrics(part: PartSummary) -> Iterator[str]:
    return (warning for one in part.metrics for warning in one.warnings)


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
