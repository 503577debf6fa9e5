"""The charts of a document that can be plotted, by name: its own charts, tables with values, and values per item."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from captious.errors import InputError, format_suggestion
from captious.render._cells import get_number, has_interval
from captious.render.document import NAN, Cell, Chart, Column, Document, Items, Series, Table

# The number of bins of a distribution.
BINS = 24
ITEMS = "items"


class Plot(NamedTuple):
    """Charts that are drawn together, each in a panel of its own."""

    charts: Sequence[Chart]
    title: str = ""
    note: str = ""
    across: int = 1
    """Panels in a line."""


def find_plot(document: Document, name: str | None = None) -> Plot:
    """Return the plot of this name, or the first of the document."""
    choices = list_plots(document)
    if not choices:
        raise InputError(f"{document.title}: contains nothing to plot")
    if name is None:
        return next(iter(choices.values()))()
    if name not in choices:
        raise InputError(f"no plot {name!r}, expected one of {', '.join(choices)}{format_suggestion(name, choices)}")
    return choices[name]()


def list_plots(document: Document) -> dict[str, Callable[[], Plot]]:
    """Return the available plots by name: tables with intervals or bars, charts by their kind, the values per item."""
    choices: dict[str, Callable[[], Plot]] = {}
    charts: dict[str, list[Chart]] = {}
    for section in document.walk():
        if isinstance(section, Table) and any(_has_values(section, index) for index in range(len(section.heads))):
            choices[section.key] = partial(_plot_table, section)
        elif isinstance(section, Chart):
            charts.setdefault(section.kind, []).append(section)
            choices.setdefault(section.kind, partial(_plot_charts, charts[section.kind]))
        elif isinstance(section, Items):
            choices[ITEMS] = partial(_plot_items, section)
    return choices


def _has_values(table: Table, index: int) -> bool:
    column = table.heads[index]
    return column.kind == "number" and (column.bar or any(has_interval(row[index]) for row in table.rows))


def _plot_charts(charts: Sequence[Chart]) -> Plot:
    beside = charts[0].kind in ("scatter", "lines", "histogram")
    return Plot(charts, across=_count_across(len(charts)) if beside else 1)


def _count_across(panels: int) -> int:
    """Return the number of panels in a line: three, or two if three would leave a single panel."""
    return panels if panels < 4 else 2 if panels == 4 else 3


def _plot_table(table: Table) -> Plot:
    """Plot values with intervals: a panel per column, or per first row name if each first name has its own scale.

    The first name is for example the metric of a difference. Such panels have a heading, and a color for each row.
    Otherwise the rows of one scale share a panel, in one color.
    """
    indices = [index for index in range(len(table.heads)) if _has_values(table, index)]
    column = table.heads[indices[0]]
    names = [[str(cell) for cell in row[: table.labels]] for row in table.rows]
    scales = [str(cell.limits) if isinstance(cell, Cell) else "" for cell in (row[indices[0]] for row in table.rows)]
    firsts = [name[0] for name in names]
    headed = table.labels > 1 and len({*scales}) == len({*firsts}) == len({*zip(firsts, scales, strict=True)}) > 1
    panels: dict[str, list[_Point]] = {}
    for index in indices:
        for row, name, scale in zip(table.rows, names, scales, strict=True):
            panel = table.heads[index].name if len(indices) > 1 else name[0] if headed else scale
            point = _Point.of(" · ".join(name[1:] if headed else name), table.heads[index], row[index])
            if np.isfinite(point.value):
                panels.setdefault(panel, []).append(point)
    small = headed or len(indices) > 1
    shared: dict[str, Any] = {"reference": 0.0 if column.signed else None, "decimals": column.decimals or 0}
    if not small:
        shared["x"] = f"{column.name} × 100" if column.scale == 100 and not column.unit else column.name
    charts = [
        Chart("intervals", _make_series(points, apart=small), title=panel if small else "", **shared)
        for panel, points in panels.items()
    ]
    marks = {point.mark for points in panels.values() for point in points} - {""}
    clauses = [one for one in re.split(r"; |\. ", table.note) if any(mark in one for mark in marks)]
    note = "; ".join(clauses)
    if len(charts) == 1 and not small:
        return Plot([replace(charts[0], title=table.title, note=note)])
    if not small:  # one title of the axis is enough for panels under one another
        charts[:-1] = [replace(chart, x="") for chart in charts[:-1]]
    return Plot(charts, table.title, note, _count_across(len(charts)) if small else 1)


class _Point(NamedTuple):
    name: str
    value: float
    low: float
    high: float
    mark: str

    @classmethod
    def of(cls, name: str, column: Column, cell: Any) -> _Point:
        low, high, mark = (cell.low, cell.high, cell.mark) if isinstance(cell, Cell) else (NAN, NAN, "")
        return cls(name, column.scale * get_number(cell), column.scale * low, column.scale * high, mark)


def _make_series(points: Sequence[_Point], apart: bool) -> list[Series]:
    """Make one series of all points, or one series, with its own color, for each point."""
    groups = [[point] for point in points] if apart else [points]
    series = []
    for group in groups:
        names, values, lows, highs, marks = zip(*group, strict=True)
        series.append(Series(names[0] if apart else "", names, values, lows, highs, names=marks if any(marks) else ()))
    return series


def _plot_items(items: Items) -> Plot:
    """Plot the distribution of item values, a panel per metric: a histogram, or quantiles of each system."""
    charts = []
    for index, metric in enumerate(items.metrics):
        columns = [np.asarray(system[index], dtype=np.float64) for system in items.values]
        columns = [values[np.isfinite(values)] for values in columns]
        if len(columns) == 1:
            counts, edges = np.histogram(columns[0], BINS)
            charts.append(Chart("histogram", [Series("", edges.tolist(), counts.tolist())], metric.label, y="items"))
        else:
            quantiles = {
                name: np.percentile(values, (25, 50, 75)).tolist()
                for name, values in zip(items.systems, columns, strict=True)
                if len(values)
            }
            series = [Series(name, [name], [half], [low], [high]) for name, (low, half, high) in quantiles.items()]
            charts.append(Chart("intervals", series, metric.label, decimals=4))
    note = "" if len(items.systems) == 1 else "Median and middle half"
    return Plot(charts, "Values per item", note, _count_across(len(charts)))
