"""Metric values to hold against ratings: measured here, from a report, or from a file computed elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from captious._typing import Floats
from captious._written import split
from captious.errors import InputError, one_line
from captious.evaluation import Report, disambiguate_labels
from captious.io.columns import GROUP_COLUMNS, ITEM_COLUMNS, SYSTEM_COLUMNS
from captious.io.formats import name_of, rows_of
from captious.metrics.contract import Measurement
from captious.metrics.registry import ALL, parse_all
from captious.options import Missing
from captious.study.ratings import Preferences, Ratings, number


@dataclass(frozen=True, eq=False)
class Scores:
    """One metric on the rated items, in their order; NaN where it has no value."""

    key: str
    label: str
    values: Floats
    higher_is_better: bool = True
    signature: str = ""
    remarks: tuple[str, ...] = ()
    """What a person should know of these values, such as captions that were cut."""
    named: bool = True
    """Whether the metric was named; one that ``all`` brought is left out where it is constant."""

    @property
    def oriented(self) -> Floats:
        """Higher is better, whatever the metric's own direction."""
        return self.values if self.higher_is_better else -self.values


def measure(
    ratings: Ratings | Preferences,
    metrics: str | Iterable[str],
    progress: Callable[[str], None] | None = None,
    *,
    seeds: int | None = None,
    by_seed: bool = False,
) -> list[Scores]:
    """Metrics on the captions that were rated.

    With ``by_seed`` a metric that depends on a seed has one entry for each, called ``name@1``, ``name@2``, …;
    ``seeds`` sets how many, for the metrics that have any.
    """
    if ratings.captions is None:
        raise InputError(f"{ratings.name}: ratings without captions; give measurements instead of names of metrics")
    wanted = parse_all(metrics, [ratings.captions])
    parts = [part for text in ([metrics] if isinstance(metrics, str) else metrics) for part in split(text)]
    named = [part for part in parts if part.lower() != ALL]
    keys = {str(metric) for metric in parse_all(named)} if named else set()
    if seeds is not None:
        seeded = [metric for metric in wanted if any(field.name == "seeds" for field in fields(metric))]
        if not seeded:
            raise InputError(f"seeds={seeds}: none of {', '.join(map(str, wanted))} depends on a seed")
        wanted = [replace(metric, seeds=seeds) if metric in seeded else metric for metric in wanted]  # type: ignore[call-arg]
    measured = []
    for metric in wanted:
        if progress:
            progress(metric.label)
        measured.append(metric.measure(ratings.captions))
        metric.refuse_empty(measured[-1], ratings.name)
    scores: list[Scores] = []
    for measurement, score in zip(measured, scores_of(measured, ratings.ids, ratings.name), strict=True):
        whole = replace(score, remarks=measurement.warnings, named=len(named) == len(parts) or score.key in keys)
        seed_values = measurement.metric.seed_values(measurement) if by_seed else None
        if seed_values is None:
            scores.append(whole)
            continue
        columns = seed_values[ratings.captions.positions(ratings.ids)]
        scores += [
            replace(whole, key=f"{whole.key}@{number}", values=values) for number, values in enumerate(columns.T, 1)
        ]
    return scores


def scores_of(measurements: Any, ids: Sequence[str], name: str = "ratings", missing: Missing = "error") -> list[Scores]:
    """Scores of a report, measurements, or ``{name: {id: value}}``, joined to item ids."""
    if isinstance(measurements, Report):
        measurements = measurements.measurements
    if isinstance(measurements, Measurement):
        measurements = [measurements]
    if isinstance(measurements, (list, tuple)) and all(isinstance(one, Measurement) for one in measurements):
        measurements = {str(one.metric): one for one in measurements}
    if not isinstance(measurements, Mapping):
        raise InputError(
            f"measurements: {type(measurements).__name__}, expected written metrics such as 'bleu,cider', a report, or "
            "{name: {id: value}}"
        )
    if not measurements:
        raise InputError("no metric to study")
    scores = [_join(str(key), one, ids, name, missing) for key, one in measurements.items()]
    labels = disambiguate_labels({score.key: score.label for score in scores})
    return [replace(score, label=labels[score.key]) for score in scores]


def read_scores(path: Any, ids: Sequence[str], name: str, missing: Missing = "error") -> list[Scores]:
    """Every column of numbers in a file whose rows have the id of an item, or its image and system."""
    columns: dict[str, dict[str, float]] = {}
    rated = {*ids}
    naming = {*ITEM_COLUMNS, *GROUP_COLUMNS, *SYSTEM_COLUMNS}
    for row in rows_of(path, role="scores"):
        key = next((row.fields[column] for column in ITEM_COLUMNS + GROUP_COLUMNS if column in row.fields), None)
        if key is None:
            raise InputError(f"{row.where}: no id: found columns {', '.join(row.fields)}, expected one named id")
        system = next((row.fields[column] for column in SYSTEM_COLUMNS if column in row.fields), None)
        item = str(key) if str(key) in rated or system is None else f"{key}/{system}"
        for column, cell in row.fields.items():
            if column in naming or isinstance(cell, (list, dict)):
                continue
            try:
                value = number(cell, row.where, column)
            except InputError:
                continue
            values = columns.setdefault(column, {})
            if item in values:
                raise InputError(f"{row.where}: {item} has a second value of {column}, expected one row per item")
            values[item] = np.nan if value is None else value
    if not columns:
        raise InputError(f"{name_of(path, 'scores')}: no column of numbers beside the ids")
    return scores_of(columns, ids, f"{name} and {name_of(path, 'scores')}", missing)


def _join(key: str, values: Any, ids: Sequence[str], name: str, missing: Missing) -> Scores:
    """The values of one metric in the order of the rated items."""
    measured = isinstance(values, Measurement)
    if not measured and not (isinstance(values, Mapping) or hasattr(values, "to_dict")):
        raise InputError(f"measurements: {key} is {type(values).__name__}, expected {{id: value}}")
    by_item = values.items if measured else {str(item): value for item, value in values.items()}
    lacking = [item for item in ids if item not in by_item]
    if lacking and (missing == "error" or len(lacking) == len(ids)):
        rated = {*ids}
        unused = [item for item in by_item if item not in rated]
        raise InputError(
            f"{name}: {len(lacking)} of {len(ids)} rated items ({_some(lacking)}) have no {key}, and {len(unused)} of "
            f"{len(by_item)} values ({_some(unused)}) no rated item"
            + ("; pass missing='skip' to go on with those that join" if len(lacking) < len(ids) else "")
        )
    try:
        array = np.array([by_item.get(item, np.nan) for item in ids], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"measurements: {key} has a value that is no number ({one_line(error)})") from None
    if measured:
        metric = values.metric
        return Scores(key, metric.label, array, metric.higher_is_better, str(values.signature))
    return Scores(key, key, array, True, f"{key}|computed elsewhere")


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "") if ids else "none"
