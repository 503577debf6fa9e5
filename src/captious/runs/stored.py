"""Measurements of a run: with the rows of all items, or, if shards are resampled, from the sums of each part."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.types import Floats
from captious.errors import InputError
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement, Signature
from captious.metrics.registry import parse
from captious.metrics.statistic_rows import Rows, join_rows
from captious.runs.folder import Run
from captious.runs.run_tables import parse_reasons, parse_rows
from captious.runs.summary import WORST, Histogram, MetricSummary, PartSummary, Reason, WorstItem
from captious.stats.resampling import Statistic

if TYPE_CHECKING:
    import pyarrow as pa

NAN = float("nan")
# Largest relative difference between a value of the marker and the recomputed one.
TOLERANCE = 1e-9


class StoredMeasurement(Measurement):
    """One metric of a run whose units are shards. Ids, values and reasons of items are read on first use."""

    run: Run
    reason_counts: Mapping[str, Reason]
    """The reasons for missing values, with their number and the first ids; the most frequent first."""
    worst: tuple[WorstItem, ...]
    histogram: Histogram
    unites: bool
    """True if it counts distinct types, which are united over shards and cannot be resampled."""

    def __init__(self, run: Run, metric: Metric, parts: Sequence[MetricSummary]) -> None:
        """Merge the summaries of a metric on all parts with items, in their order."""
        signature = reduce(Signature.merge, (part.signature for part in parts))
        unites = parts[0].unites
        rows = np.array([part.sums for part in parts], dtype=np.float64)
        total = rows.sum(axis=0)
        if unites:
            total[0] = run.count_distinct(signature.metric)
        reasons: dict[str, Reason] = {}
        for part in parts:
            for text, reason in part.reasons.items():
                reasons[text] = reasons[text].merge(reason) if text in reasons else reason
        sign = 1 if metric.higher_is_better else -1
        items = (item for part in parts for item in part.worst)
        scored = signature.unscored < signature.items
        members: dict[str, Any] = {
            "run": run,
            "metric": metric,
            "signature": signature,
            "rows": rows,
            "corpus": float(metric.aggregate(total[None, :])[0]) if scored else NAN,
            "unites": unites,
            "reason_counts": dict(sorted(reasons.items(), key=lambda entry: -entry[1].count)),
            "worst": tuple(heapq.nsmallest(WORST, items, lambda item: sign * item.value)),
            "histogram": reduce(Histogram.merge, (part.histogram for part in parts)),
            "warnings": (),
            "notes": tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        }
        # The class is a frozen dataclass whose ids and values are read on first use, so its own __init__ does not fit.
        for name, value in members.items():
            object.__setattr__(self, name, value)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids of all items."""
        return tuple(key for table in self._read_tables("id") for key in table["id"].to_pylist())

    @cached_property
    def values(self) -> Floats:
        """One value per item in the order of ``ids``; NaN if ``reasons`` has an entry."""
        key = str(self.metric)
        columns = [np.asarray(table[key].to_numpy(), dtype=np.float64) for table in self._read_tables(key)]
        return np.concatenate([np.zeros(0), *columns])

    @cached_property
    def reasons(self) -> Mapping[str, str]:
        """The reason for each missing value, by id."""
        key, reasons = str(self.metric), dict[str, str]()
        for table in self._read_tables("id", "unscored") if self.signature.unscored else ():
            reasons |= collect_reasons(table, [key])[key]
        return reasons

    def _read_tables(self, *columns: str) -> Sequence[pa.Table]:
        return [self.run.table(part, columns) for part, items in self.run.marker.parts.items() if items]

    @property
    def additive(self) -> bool:
        """True if shards can be resampled."""
        return not self.unites

    @property
    def statistic(self) -> Statistic:
        """The statistic for resampling: one row per shard."""
        rows = np.asarray(self.rows)
        return Statistic(rows, self.metric.aggregate, rows.sum(axis=0), self.corpus)

    def merge(self, other: Measurement) -> Measurement:
        """Raise InputError: more shards are scored into the folder instead."""
        raise InputError(f"{self.metric}: a measurement of shards is not merged in memory; score them into one folder")

    def __repr__(self) -> str:
        return f"<Measurement {self.metric}: {self.corpus:.4f} over {self.signature.items} items>"


def collect_reasons(table: pa.Table, metrics: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the reason for each missing value, by metric and id, from the columns ``id`` and ``unscored``."""
    import pyarrow.compute as pc

    reasons: dict[str, dict[str, str]] = {key: {} for key in metrics}
    missing = table.filter(pc.is_valid(table["unscored"]))
    for id, text in zip(missing["id"].to_pylist(), missing["unscored"].to_pylist(), strict=True):
        for key, reason in parse_reasons(text).items():
            if key in reasons:
                reasons[key][id] = reason
    return reasons


def load_measurements(run: Run, parts: Sequence[PartSummary], metrics: Mapping[str, Metric]) -> dict[str, Measurement]:
    """Return the measurements of a run by some of its metrics, by written form."""
    if run.marker.unit == "item" and run.has_rows:
        return _load_item_measurements(run, parts, metrics)
    full = [part for part in parts if part.items]
    return {
        key: StoredMeasurement(run, metric, [part[key] for part in full]) for key, metric in metrics.items() if full
    }


def _load_item_measurements(
    run: Run, parts: Sequence[PartSummary], metrics: Mapping[str, Metric]
) -> dict[str, Measurement]:
    """Return the measurements of a run whose units are items, equal to those that were written."""
    ids: list[str] = []
    reasons: dict[str, dict[str, str]] = {key: {} for key in metrics}
    rows: dict[str, list[Rows]] = {key: [] for key in metrics}
    for part in (name for name in run.names if run.marker.parts[name]):
        table = run.table(part, ("id", "unscored"))
        ids += table["id"].to_pylist()
        for key, part_reasons in collect_reasons(table, list(metrics)).items():
            reasons[key] |= part_reasons
        statistics, where = run.rows(part, list(metrics)), run.storage.get_address(run.rows_name(part))
        for key in metrics:
            rows[key].append(parse_rows(statistics, key, where))
    if not ids or not any(part.items for part in parts):
        raise InputError(f"{run.address}: names no part with an item, expected at least one; score the captions again")
    if len(set(ids)) != len(ids):
        raise InputError(f"{run.address}: an id occurs twice, expected one row per item")
    measurements = {}
    for key, metric in metrics.items():
        summaries = [part[key] for part in parts if part.items]
        measurements[key] = Measurement(
            metric,
            tuple(ids),
            join_rows(rows[key]),
            reduce(Signature.merge, (one.signature for one in summaries)),
            reasons[key],
            tuple(dict.fromkeys(line for one in summaries for line in one.warnings)),
            tuple(line for one in summaries for line in one.notes),
        )
    return measurements


def refuse_contradictions(run: Run, measurements: Mapping[str, Measurement]) -> None:
    """Raise InputError if the stored items do not give the value in the marker: one of the two was changed.

    The tolerance allows for rounding that differs between versions of NumPy; a changed item moves more than the ninth
    digit.
    """
    for key, measurement in measurements.items():
        stated, corpus = run.facts[key].value, measurement.corpus
        if stated is None or np.isnan(stated) or np.isnan(corpus):
            continue
        if abs(corpus - stated) > TOLERANCE * max(abs(corpus), abs(stated), TOLERANCE):
            raise InputError(
                f"{run.address}: {key} is {corpus:.6g} over the stored items, the marker says {stated:.6g}; it was "
                "changed or damaged after it was written, score the captions again"
            )


def find_known_metrics(run: Run) -> dict[str, Metric]:
    """Return the metrics of a run that are installed, by written form."""
    metrics = {}
    for key in run.metrics:
        try:
            metric = parse(key)
        except InputError:  # of a package that is not installed, or of another version
            continue
        if str(metric) == key:
            metrics[key] = metric
    return metrics
