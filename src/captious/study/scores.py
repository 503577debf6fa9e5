"""Metric values to hold against ratings: from measurements, from a report, from a file computed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from captious._typing import Floats
from captious.errors import InputError
from captious.evaluation import Report, disambiguate_labels
from captious.io.columns import GROUP_COLUMNS, ITEM_COLUMNS, SYSTEM_COLUMNS
from captious.io.formats import name_of, rows_of
from captious.metrics.contract import Measurement
from captious.study.ratings import number

Missing = Literal["error", "skip"]


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

    @property
    def oriented(self) -> Floats:
        """Higher is better, whatever the metric's own direction."""
        return self.values if self.higher_is_better else -self.values


def scores_of(given: Any, ids: Sequence[str], name: str = "ratings", missing: Missing = "error") -> list[Scores]:
    """Scores of a report, measurements, or ``{name: {id: value}}``, joined to item ids."""
    if isinstance(given, Report):
        given = given.measurements
    if isinstance(given, Measurement):
        given = [given]
    named = given if isinstance(given, Mapping) else {str(one.metric): one for one in given}
    if not named:
        raise InputError("no metric to study")
    found = [_scores(str(key), one, ids, name, missing) for key, one in named.items()]
    labels = disambiguate_labels({score.key: score.label for score in found})
    return [replace(score, label=labels[score.key]) for score in found]


def read_scores(path: str | Path, ids: Sequence[str], name: str, missing: Missing = "error") -> list[Scores]:
    """Every column of numbers in a file whose rows have the id of an item, or its image and system."""
    columns: dict[str, dict[str, float]] = {}
    known = {*ids}
    for row in rows_of(path):
        key = next((row.fields[column] for column in ITEM_COLUMNS + GROUP_COLUMNS if column in row.fields), None)
        if key is None:
            raise InputError(f"{row.where}: no id: found columns {', '.join(row.fields)}, expected one named id")
        system = next((row.fields[column] for column in SYSTEM_COLUMNS if column in row.fields), None)
        item = str(key) if str(key) in known or system is None else f"{key}/{system}"
        for column, value in row.fields.items():
            if column in ITEM_COLUMNS + GROUP_COLUMNS + SYSTEM_COLUMNS or isinstance(value, (list, dict)):
                continue
            try:
                found = number(value, row.where, column)
            except InputError:
                continue
            values = columns.setdefault(column, {})
            if item in values:
                raise InputError(f"{row.where}: {item} has a second value of {column}, expected one row per item")
            values[item] = np.nan if found is None else found
    if not columns:
        raise InputError(f"{path}: no column of numbers beside the ids")
    return scores_of(columns, ids, f"{name} and {name_of(path)}", missing)


def _scores(key: str, given: Any, ids: Sequence[str], name: str, missing: Missing) -> Scores:
    items = given.items if isinstance(given, Measurement) else {str(item): value for item, value in given.items()}
    lacking = [item for item in ids if item not in items]
    if lacking and (missing == "error" or len(lacking) == len(ids)):
        known = {*ids}
        unused = [item for item in items if item not in known]
        raise InputError(
            f"{name}: {len(lacking)} of {len(ids)} rated items ({_some(lacking)}) have no {key}, and {len(unused)} of "
            f"{len(items)} values ({_some(unused)}) no rated item"
            + ("; use --missing skip to go on with those that join" if len(lacking) < len(ids) else "")
        )
    values = np.array([items.get(item, np.nan) for item in ids], dtype=np.float64)
    if isinstance(given, Measurement):
        metric = given.metric
        return Scores(key, metric.label, values, metric.higher_is_better, str(given.signature))
    return Scores(key, key, values, True, f"{key}|computed elsewhere")


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "") if ids else "none"
