"""Reports of several systems aligned to the same items or shards, for paired tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from captious.errors import InputError
from captious.metrics.measurement import Measurement
from captious.metrics.statistic_rows import TypeSets
from captious.options import Missing, Resampling
from captious.runs.report import Report, can_resample, compute_intervals
from captious.runs.source import MemoryItems, StoredItems
from captious.runs.stored import StoredMeasurement, load_measurements


def find_shared_metrics(reports: Mapping[str, Report], wanted: Sequence[str] | None = None) -> list[str]:
    """Return the metrics that all reports have, or those wanted; raise InputError if one is missing.

    Their settings must be equal: ``cider`` with another idf corpus, or a metric with another model, is not the same.
    """
    (first, base), *others = reports.items()
    for name, report in reports.items():
        if missing := [key for key in wanted or () if key not in report.measurements]:
            raise InputError(f"{name} has no {missing[0]}, only {', '.join(report.measurements)}")
    names = base.measurements if wanted is None else wanted
    shared = [key for key in names if all(key in report.measurements for report in reports.values())]
    if not shared:
        lists = "; ".join(f"{name} has {', '.join(report.measurements) or 'none'}" for name, report in reports.items())
        raise InputError(f"no metric is in all runs: {lists}")
    for key in shared:
        expected = base.measurements[key].signature.settings
        for name, report in others:
            found = report.measurements[key].signature.settings
            if expected != found:
                setting = next(one for one in {**expected, **found} if expected.get(one) != found.get(one))
                raise InputError(
                    f"{key}: {first} has {setting}:{expected.get(setting)}, {name} has {setting}:{found.get(setting)}; "
                    "expected the same settings"
                )
    return shared


def find_shared_ids(systems: Mapping[str, Sequence[str]], missing: Missing = "error") -> list[str]:
    """Return the ids that all systems have, in the order of the first; with ``error`` all must have the same ids."""
    (first, baseline), *others = systems.items()
    if baseline and all(ids == baseline for _, ids in others):
        return list(baseline)
    sets: dict[str, Collection[str]] = {name: set(ids) for name, ids in systems.items()}
    for name, ids in others if missing == "error" else ():
        only_first = [key for key in baseline if key not in sets[name]]
        extra = only_first + [key for key in ids if key not in sets[first]]
        if extra:
            raise InputError(
                f"{first} and {name} differ in {len(extra)} ids ({', '.join(extra[:5])}), expected the same items; "
                "pass missing='skip' to compare on those they share"
            )
    order = [key for key in baseline if all(key in sets[name] for name, _ in others)]
    if not order:
        raise InputError(f"{', '.join(systems)} have no item id in common")
    return order


def restrict_to_items(report: Report, metrics: Sequence[str], ids: Sequence[str], resampling: Resampling) -> Report:
    """Return a report with these metrics on these items; no value is computed again."""
    measurements = {key: report.measurements[key] for key in metrics}
    all_ids = next(iter(measurements.values())).ids
    if list(all_ids) != list(ids):
        positions = {key: index for index, key in enumerate(all_ids)}
        indices = [positions[key] for key in ids]
        captions = report.captions_at(indices)
        left_out = len(all_ids) - len(ids)
        captions = replace(captions, skipped=report.skipped + left_out)
        references = captions.references.counts
        facts: dict[str, object] = {}
        if left_out:  # otherwise keep the signature: the run may not have stored the references
            facts = {
                "items": len(ids),
                "references": (int(references.min()), int(references.max())),
                "fingerprint": captions.fingerprint,
                "skipped": captions.skipped,
            }
        measurements = {key: _take_items(one, indices, facts) for key, one in measurements.items()}
        report = replace(report, source=MemoryItems(captions))
    intervals = compute_intervals(measurements, resampling)
    return replace(report, measurements=measurements, intervals=intervals, resampling=resampling)


def _take_items(measurement: Measurement, indices: Sequence[int], facts: Mapping[str, object]) -> Measurement:
    """Restrict a measurement to the items at these positions; ``facts`` replace those of its signature."""
    rows, ids = measurement.rows, tuple(measurement.ids[index] for index in indices)
    reasons = {id: measurement.reasons[id] for id in ids if id in measurement.reasons}
    if isinstance(rows, TypeSets):
        rows = TypeSets(tuple(rows.types[index] for index in indices), rows.tokens[list(indices)])
    else:
        rows = rows[list(indices)]
    signature = replace(measurement.signature, unscored=len(reasons), **facts)  # type: ignore[arg-type]
    return replace(
        measurement,
        ids=ids,
        rows=rows,
        reasons=reasons,
        signature=signature,
    )


def load_statistics(report: Report) -> Report:
    """Return the report with the statistics of all its items in memory, for paired tests."""
    if not isinstance(report.source, StoredItems) or (report.unit == "item" and report.source.run.has_rows):
        return report
    run = report.source.run
    if not run.has_rows:
        raise InputError(
            f"{report.name}: has no statistics of its items, expected runs of the same shards; or score the captions "
            "again with store_rows=True"
        )
    # Once the statistics of items are loaded, items can be resampled, even if the run itself resamples shards.
    run = replace(run, marker=replace(run.marker, unit="item"))
    known = {key: one.metric for key, one in report.measurements.items()}
    measurements = load_measurements(run, report.parts, known)
    return replace(report, source=replace(report.source, run=run), measurements=measurements, intervals={})


def restrict_to_shards(report: Report, metrics: Sequence[str], shards: Sequence[str], resampling: Resampling) -> Report:
    """Return a report with these metrics on these shards, in this order, so that rows of systems are paired."""
    assert isinstance(report.source, StoredItems)
    by_name, before = {part.name: part for part in report.parts}, report.source.run
    parts = tuple(by_name[name] for name in shards)
    sizes = {part.name: part.items for part in parts}
    run = replace(before, marker=replace(before.marker, parts=sizes, items=sum(sizes.values())))
    measurements: dict[str, Measurement] = {}
    for key in metrics:
        metric = report.measurements[key].metric
        measurements[key] = StoredMeasurement(run, metric, [part[key] for part in parts if part.items])
    return replace(
        report,
        source=StoredItems(run, parts),
        measurements=measurements,
        intervals=compute_intervals(measurements, resampling) if can_resample(run, parts) else {},
        resampling=resampling,
    )


def find_shared_shards(reports: Mapping[str, Report], missing: Missing = "error") -> list[str]:
    """Return the shards that all systems have, in the order of the first; their ids must be the same.

    A shard that failed in one system is left out. One that a system never had is refused, or left out with ``skip``.
    """
    (first, base), *others = reports.items()
    base_parts, shared = {part.name: part for part in base.parts}, [part.name for part in base.parts]
    for name, report in others:
        other_parts = {part.name: part for part in report.parts}
        for shard in [*base_parts, *other_parts]:
            if shard not in base_parts or shard not in other_parts:
                absent_in, failed = (name, report.failed) if shard in base_parts else (first, base.failed)
                if shard not in failed and missing == "error":
                    raise InputError(f"{first} and {name}: {absent_in} has no shard {shard}, expected the same shards")
        shared = [shard for shard in shared if shard in other_parts]
        for shard in shared:
            if (base_parts[shard].items, base_parts[shard].ids) != (other_parts[shard].items, other_parts[shard].ids):
                keys = [_read_ids(one, shard) for one in (base, report)]
                key = min(keys[0] ^ keys[1], default="")
                raise InputError(
                    f"{first} and {name} differ in shard {shard}: only one of them has id {key!r}, expected the same"
                )
    if not any(base_parts[shard].items for shard in shared):
        raise InputError(f"{', '.join(reports)} have no shard with items in common")
    return shared


def _read_ids(report: Report, shard: str) -> set[str]:
    assert isinstance(report.source, StoredItems)
    return set(report.source.run.table(shard, ["id"])["id"].to_pylist())


def count_unpaired(baseline: Report, system: Report, metric: str) -> int:
    """Count the items of all shards that have a value in only one of two runs; such items cannot be paired."""
    unpaired = 0
    for first_part, second_part in zip(baseline.parts, system.parts, strict=True):
        if first_part.items and (first_part[metric].signature.unscored or second_part[metric].signature.unscored):
            tables = [
                report.source.run.table(first_part.name, ["id", metric]).sort_by("id")
                for report in (baseline, system)
                if isinstance(report.source, StoredItems)
            ]
            missing = [np.isnan(side[metric].to_numpy()) for side in tables]
            unpaired += int((missing[0] != missing[1]).sum())
    return unpaired
