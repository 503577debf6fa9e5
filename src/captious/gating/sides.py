"""Base and new system of a gate on the same items: read, scored, and checked for equal signatures."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from captious._compare import StatisticPair, get_captions, group_by_system, open_report, pair_reports, pair_statistics
from captious._core.notation import split_specs
from captious._evaluate import Scoring, evaluate
from captious._version import __version__
from captious.errors import InputError
from captious.gating.lock import Lock, is_lock, read_lock, refuse_other_file, write_lock
from captious.io.formats import get_name, get_stem, name_files
from captious.io.read import read
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement, Signature
from captious.metrics.registry import DEFAULT, parse_all
from captious.metrics.requests import Specs, check_specs
from captious.options import Reading, Resampling, Runtime
from captious.runs.pairing import find_shared_metrics, load_statistics, restrict_to_items
from captious.runs.report import Report
from captious.stats.resampling import sort_ids


class BaseSide(NamedTuple):
    """Measurements of the base."""

    name: str
    measurements: Mapping[str, Measurement]
    report: Report | None
    """The report with the captions; None for a lock file."""


class NewSide(NamedTuple):
    """Measurements of the new system."""

    name: str
    report: Report

    @property
    def measurements(self) -> Mapping[str, Measurement]:
        """Measurements by the written form of the metric."""
        return self.report.measurements


@dataclass(frozen=True)
class PairedSides:
    """Base and new system on the same items, with the tested metrics."""

    base: BaseSide
    new: NewSide
    pairs: Mapping[str, StatisticPair]
    labels: Mapping[str, str]
    """Labels of the metrics by their written forms."""
    items: int
    units: int
    sharded: bool
    lock: Lock | None
    warnings: tuple[str, ...]

    @property
    def read(self) -> tuple[str, ...]:
        """The columns and files that were read; a lock file as base has none."""
        base = [] if self.base.report is None else [(self.base.name, self.base.report.read_notes)]
        return tuple(group_by_system(dict([*base, (self.new.name, self.new.report.read_notes)])))

    def get_metric(self, key: str) -> Metric:
        """Return a tested metric."""
        return self.new.measurements[key].metric

    @property
    def changed(self) -> float | None:
        """The share of items whose captions differ; None if that is unknown."""
        if self.sharded:
            return None
        captions = self.new.report.captions
        if self.lock is not None:
            changed = self.lock.find_changed(captions)
            return None if changed is None else sum(changed) / len(changed)
        assert self.base.report is not None
        before = self.base.report.captions.candidates
        return sum(ours != theirs for ours, theirs in zip(before, captions.candidates, strict=True)) / len(captions)


def read_sides(
    base: Any,
    new: Any,
    specs: Sequence[str | Metric] | None,
    scoring: Scoring,
) -> PairedSides:
    """Read and score both sides; raise InputError unless their signatures agree except for the captions."""
    names = name_sides(base, new)
    scoring = drop_intervals(scoring)  # only bounds of the difference are needed
    if isinstance(base, Lock) or is_lock(base):
        return _read_lock_sides(base, new, names, specs, scoring)
    paired = pair_reports(dict(zip(names, (base, new), strict=True)), specs, scoring, by_id=True)
    reports = [paired.reports[name] for name in names]
    keys, left_out = select_tested_metrics(list(reports[0]), specs)
    base_measurements, new_measurements = (report.measurements for report in reports)
    for key in keys:
        _check_signatures(base_measurements[key].signature, new_measurements[key].signature, names)
    if paired.sharded and paired.units < 2:
        raise InputError(f"{names[0]}: {paired.units} shard with items, expected at least two to resample")
    return PairedSides(
        BaseSide(names[0], base_measurements, reports[0]),
        NewSide(names[1], reports[1]),
        {key: paired.statistics(names[0], names[1], key) for key in keys},
        {key: reports[0].label(key) for key in keys},
        reports[0].size,
        paired.units,
        paired.sharded,
        None,
        (*paired.remarks, *left_out, *_warn_about_versions(names, reports)),
    )


def _read_lock_sides(
    base: Any,
    new: Any,
    names: Sequence[str],
    specs: Sequence[str | Metric] | None,
    scoring: Scoring,
) -> PairedSides:
    """Read the sides if the base is a lock file, with item statistics or only values."""
    lock = base if isinstance(base, Lock) else read_lock(base)
    wanted = list(map(str, parse_all(specs))) if specs else list(lock.metrics)
    if lacking := [key for key in wanted if key not in lock.metrics]:
        raise InputError(f"{lock.path}: has no {lacking[0]}, only {', '.join(lock.metrics)}")
    report = score_system(new, wanted, scoring)
    keys, left_out = select_tested_metrics([report.measurements[key] for key in wanted], specs)
    statistics: dict[str, StatisticPair] = {}
    measurements: dict[str, Measurement] = {}
    for key in keys:
        locked, measurement = lock.metrics[key], report.measurements[key]
        _check_signatures(locked.signature, measurement.signature, names)
        if locked.width:
            measurements[key] = locked.build_measurement(measurement.metric, measurement.ids, lock.path)
            statistics[key] = pair_statistics(measurements[key], measurement)
        else:
            own = measurement.statistic
            items = len(measurement.ids) - len(measurement.reasons)
            statistics[key] = StatisticPair(locked.build_statistic(len(own.rows)), own, items)
    remarks = list(left_out)
    if not all(lock.metrics[key].width for key in keys):
        remarks.append(
            f"{names[0]} has values without the statistics of items: nothing cancels out, and the bounds are wider "
            "than those of a paired test"
        )
    if lock.version != __version__:
        remarks.append(f"{names[0]} was written by captious {lock.version or '(unknown)'}; this is {__version__}")
    size = report.size
    return PairedSides(
        BaseSide(names[0], measurements, None),
        NewSide(names[1], report),
        statistics,
        {key: report.label(key) for key in keys},
        size,
        size,
        False,
        lock,
        tuple(remarks),
    )


def drop_intervals(scoring: Scoring) -> Scoring:
    """Return the scoring options without resamples."""
    return replace(scoring, resampling=replace(scoring.resampling, samples=0))


def score_system(system: Any, keys: Sequence[str | Metric] | None, scoring: Scoring) -> Report:
    """Return the report of one system with its items sorted by id; a run is not scored again."""
    written = None if keys is None else list(map(str, parse_all(keys)))
    report = open_report(system, written)
    if report is None:
        captions = read(get_captions(system), reading=scoring.reading)
        captions = captions.take(sort_ids(captions.ids))
        specs = DEFAULT if keys is None else keys
        return evaluate(
            captions, specs, resampling=scoring.resampling, runtime=scoring.runtime, progress=scoring.progress
        )
    report = load_statistics(report)
    ids = next(iter(report)).ids
    order = [ids[index] for index in sort_ids(ids)]
    return restrict_to_items(report, find_shared_metrics({report.name: report}, written), order, scoring.resampling)


def name_sides(base: Any, new: Any) -> list[str]:
    """Return the names of both sides: those of their files, or base and new."""
    sources = [
        one.path if isinstance(one, Lock) else one.name if isinstance(one, Report) else one for one in (base, new)
    ]
    if all(isinstance(one, (str, os.PathLike)) and str(one) != "-" for one in sources):
        return list(name_files([os.fspath(one) for one in sources]))
    names = [get_name(one) for one in sources]
    return [role if name == "captions" else get_stem(name) for name, role in zip(names, ("base", "new"), strict=True)]


def select_tested_metrics(
    measurements: Sequence[Measurement], specs: Sequence[str | Metric] | None
) -> tuple[list[str], list[str]]:
    """Return the metrics that a gate tests, and notes about those that it leaves out.

    A length or a count, such as CHAIR's words, has no better direction: it is tested only if it is named explicitly.
    Counts of distinct types over the whole set cannot be resampled.
    """
    asked = {str(spec) for spec in specs or ()}
    asked |= {str(one) for spec in specs or () if isinstance(spec, str) for one in _find_single_metrics(spec)}
    keys, lines = [], []
    for measurement in measurements:
        metric = measurement.metric
        if metric.decimals is not None and str(metric) not in asked:
            lines.append(f"{metric} is a length or a count and not tested; name it by itself to test it")
        elif not measurement.additive and specs is None:
            lines.append(f"{metric} counts distinct things over the whole set and cannot be tested")
        else:
            keys.append(str(metric))
    if not keys:
        raise InputError("no metric to test, expected one such as cider")
    return keys, lines


def _find_single_metrics(spec: str) -> list[Metric]:
    """Return the metrics of a written list that are named explicitly, not as one of several variants."""
    named = [parse_all(part) for part in split_specs(spec)]
    return [one for metrics in named if len(metrics) == 1 for one in metrics]


def _check_signatures(base: Signature, new: Signature, names: Sequence[str]) -> None:
    """Raise InputError if settings, items or references of the two sides differ."""
    facts = [
        (("metric", one.metric), *one.settings.items(), ("items", one.items), ("references", one.references))
        for one in (base, new)
    ]
    for first, second in zip(*facts, strict=False):
        if first != second:
            raise InputError(
                f"{base.metric}: {names[0]} has {first[0]}:{_format_value(first[1])}, {names[1]} has {second[0]}:"
                f"{_format_value(second[1])}; expected the same"
            )
    if len(facts[0]) != len(facts[1]) or base.fingerprint != new.fingerprint:
        raise InputError(
            f"{base.metric}: {names[0]} and {names[1]} are not scored on the same ids and references; expected the same"
        )


def _format_value(value: Any) -> str:
    return "-".join(map(str, dict.fromkeys(value))) if isinstance(value, tuple) else str(value)


def _warn_about_versions(names: Sequence[str], reports: Sequence[Report]) -> list[str]:
    versions = [report.source.version for report in reports]
    if versions[0] == versions[1]:
        return []
    return [f"{names[0]} was scored by captious {versions[0]}, {names[1]} by {versions[1]}"]


def lock_system(
    path: str | os.PathLike[str],
    new: Any,
    metrics: Specs | None = None,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    reading: Reading = Reading(),
    statistics: bool = True,
) -> Report:
    """Score a system, or open its run, write a lock file that expects its values, and return its report.

    Without ``metrics``, those of the lock file that already exists, or those of the run. ``statistics=False`` stores
    the values alone. The other arguments are those of ``gate``.
    """
    scoring = Scoring.of(resampling, runtime, progress, reading)
    refuse_other_file(path)
    known = list(read_lock(path).metrics) if metrics is None and is_lock(path) else None
    specs = check_specs(metrics) if metrics is not None else known
    report = score_system(new, specs, scoring)
    keys, _ = select_tested_metrics(list(report), specs)
    write_lock(path, report, keys, statistics=statistics)
    return report
