"""``captious.compare_shards``: paired tests between systems whose shards were scored into folders of their own.

Shards are the units: they are resampled for intervals, and change sides in the randomization test.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from captious.comparison import Comparison, Difference, PairedTest, StatisticPair, Test, system_folders
from captious.errors import InputError
from captious.evaluation import Specs, metric_specs, settings_of
from captious.io.storage import Storage
from captious.metrics.registry import parse_all
from captious.options import PERMUTATIONS, Resampling
from captious.render import Phrase, Section
from captious.render.tables import write_csv
from captious.scale.folder import MANIFEST, ShardFolder
from captious.scale.report import FEW, SHARDS, ShardReport
from captious.scale.summary import ShardSummary
from captious.stats.resampling import Convention


@dataclass(frozen=True, eq=False, repr=False)
class ShardComparison(Comparison):
    """Reports of several systems on the same shards, and the paired tests between them."""

    reports: Mapping[str, ShardReport]  # type: ignore[assignment]

    @property
    def _items(self) -> int:
        return len(next(iter(self.reports.values())))

    def _explorer(self) -> Sequence[Section]:
        return []

    def _metric(self, key: str) -> Phrase:
        return Phrase.of(next(iter(self.reports.values())).label(key))

    def write_files(self, folder: Path) -> None:
        """Write the values of every shard, those of each system in a folder of its own."""
        for name, inner in system_folders(self.reports).items():
            (folder / inner).mkdir()
            write_csv(self.reports[name]._columns(SHARDS), folder / inner / f"{SHARDS}.csv")


def is_scored(path: Any) -> bool:
    """Whether a path is a folder that ``score_shards`` wrote."""
    return isinstance(path, (str, os.PathLike)) and Storage.at(path).exists(MANIFEST)


def compare_shards(
    systems: Mapping[str, str | os.PathLike[str]],
    metrics: Specs | None = None,
    resampling: Resampling = Resampling(),
    progress: Callable[[str], None] | None = None,
    *,
    test: Test = "randomization",
    permutations: int = PERMUTATIONS,
    every_pair: bool = False,
    convention: Convention = "two-sided",
) -> ShardComparison:
    """Test every system against the first, or every pair, on every metric that all folders hold.

    Parameters
    ----------
    systems
        Folders that ``score_shards`` wrote, by the name of the system. They hold the same shards and the same ids.
    metrics
        Those to compare on; without it, all that the folders share.
    resampling, test, permutations, every_pair, convention
        As in ``compare``, with shards in place of items.
    progress
        Called with the name of each step as it begins.
    """
    resampling, _ = settings_of(resampling, None, progress)
    tests = PairedTest(resampling, test, permutations, every_pair, convention)
    if len(systems) < 2:
        raise InputError(f"{len(systems)} system given, expected at least two to compare")
    folders = {name: ShardFolder.read(path) for name, path in systems.items()}
    _refuse_other_items(folders)
    reports = {}
    for name, folder in folders.items():
        if progress:
            progress(name)
        reports[name] = ShardReport.of(folder, resampling)
    reports = _on_shared_metrics(reports, metrics)

    def paired(baseline: str, system: str, key: str) -> StatisticPair:
        ours, theirs = (reports[name].measurements[key] for name in (baseline, system))
        scored = min(one.signature.items - one.signature.unscored for one in (ours, theirs))
        return StatisticPair(ours.statistic, theirs.statistic, scored)

    units = sum(1 for shard in next(iter(reports.values())).shards if shard.items)
    differences = tests.differences(reports, paired, progress) if units > 1 else []
    remarks = _remarks(reports, differences, units)
    return ShardComparison(reports, tuple(differences), f"{tests.name} of shards", remarks, resampling.level)


def _refuse_other_items(folders: Mapping[str, ShardFolder]) -> None:
    """Systems whose shards or ids differ."""
    (first, base), *others = folders.items()
    ours = {summary.shard: summary for summary in base.summaries()}
    for name, folder in others:
        theirs = {summary.shard: summary for summary in folder.summaries()}
        for shard in [*ours, *theirs]:
            if shard not in ours or shard not in theirs:
                lacking = name if shard in ours else first
                raise InputError(f"{first} and {name}: {lacking} has no shard {shard}, expected the same shards")
        for shard in ours:
            if _facts(ours[shard]) != _facts(theirs[shard]):
                key = _differing_id(base, folder, shard)
                raise InputError(
                    f"{first} and {name} differ in shard {shard}: only one of them has id {key!r}, expected the same"
                )


def _facts(summary: ShardSummary) -> tuple[int, int]:
    return (summary.items, summary.ids)


def _differing_id(one: ShardFolder, other: ShardFolder, shard: str) -> str:
    ours, theirs = (set(folder.table(shard, ["id"])["id"].to_pylist()) for folder in (one, other))
    return min(ours ^ theirs, default="")


def _on_shared_metrics(reports: Mapping[str, ShardReport], metrics: Specs | None) -> dict[str, ShardReport]:
    """The reports with the metrics that all have, or with those asked for; different settings are refused."""
    (first, base), *others = reports.items()
    wanted = list(base.measurements) if metrics is None else list(map(str, parse_all(metric_specs(metrics))))
    shared = [key for key in wanted if all(key in report.measurements for report in reports.values())]
    for name, report in reports.items() if metrics is not None else ():
        if lacking := [key for key in wanted if key not in report.measurements]:
            raise InputError(f"{name} has no {lacking[0]}, only {', '.join(report.measurements)}")
    if not shared:
        held = "; ".join(f"{name} holds {', '.join(report.measurements) or 'none'}" for name, report in reports.items())
        raise InputError(f"no metric is in all folders: {held}")
    for key in shared:
        ours = base.measurements[key].signature.settings
        for name, report in others:
            theirs = report.measurements[key].signature.settings
            if ours != theirs:
                setting = next(one for one in {**ours, **theirs} if ours.get(one) != theirs.get(one))
                raise InputError(
                    f"{key}: {first} has {setting}:{ours.get(setting)}, {name} has {setting}:{theirs.get(setting)}; "
                    "expected the same settings"
                )
    return {name: _reduced(report, shared, base.shards) for name, report in reports.items()}


def _reduced(report: ShardReport, metrics: Sequence[str], shards: Sequence[ShardSummary]) -> ShardReport:
    """A report with these metrics, its shards in this order, so that the rows of systems belong together."""
    by_name = {shard.shard: shard for shard in report.shards}
    rows = {shard.shard: row for row, shard in enumerate(shard for shard in report.shards if shard.items)}
    order = [rows[shard.shard] for shard in shards if shard.items]
    measurements = {key: report.measurements[key] for key in metrics}
    return replace(
        report,
        shards=tuple(by_name[shard.shard] for shard in shards),
        measurements={key: replace(one, rows=one.rows[order]) for key, one in measurements.items()},
        intervals={key: report.intervals[key] for key in metrics if key in report.intervals},
    )


def _remarks(reports: Mapping[str, ShardReport], differences: Sequence[Difference], units: int) -> tuple[str, ...]:
    """What a reader of the tests should know."""
    remarks = []
    if units < 2:
        remarks.append(f"{units} shard with items: nothing can be tested, expected at least two shards")
    elif units < FEW:
        remarks.append(f"the tests compare {units} shards; below {FEW} they are rough")
    first = next(iter(reports.values()))
    for key, one in first.measurements.items():
        if any(
            other.measurements[key].signature.fingerprint != one.signature.fingerprint for other in reports.values()
        ):
            remarks.append("the systems are scored against different references: their values do not compare")
            break
    for row in differences:
        if alone := _scored_once(reports[row.baseline], reports[row.system], row.metric):
            remarks.append(f"{row.metric}: {alone:,} items have a value of only one of {row.baseline} and {row.system}")
    return tuple(remarks)


def _scored_once(baseline: ShardReport, system: ShardReport, metric: str) -> int:
    """Items that one of two systems has no value for."""
    alone = 0
    for ours, theirs in zip(baseline.shards, system.shards, strict=True):
        if ours.items and (ours[metric].signature.unscored or theirs[metric].signature.unscored):
            sides = [report.folder.table(ours.shard, ["id", metric]).sort_by("id") for report in (baseline, system)]
            missing = [np.isnan(side[metric].to_numpy()) for side in sides]
            alone += int((missing[0] != missing[1]).sum())
    return alone
