"""Documents as Altair charts, which a notebook shows and a user can go on changing.

The numbers are in the chart itself, so a saved one needs no other file.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from captious._core.types import Floats
from captious.errors import InputError, format_suggestion, require
from captious.render._cells import has_interval, number, numeric
from captious.render._charts import trend
from captious.render.document import Cell, Chart, Column, Document, Items, Series, Table
from captious.render.notebook import COLORS
from captious.render.tables import finite

WIDTH, PANEL, STEP = 420, 240, 22
"""Pixels: the width of a chart, of one of several beside each other, and the height of a row."""
BINS, SUBTITLE = 24, 100
"""The number of bins of a distribution, and of letters in a line of the note."""
QUANTILES = {"p5": 5, "p25": 25, "p50": 50, "p75": 75, "p95": 95}
ITEMS = "items"


def plot(document: Document, name: str | None = None) -> Any:
    """The chart of this name, or the first of the document; ``drawings`` says which there are."""
    choices = drawings(document)
    if not choices:
        raise InputError(f"{document.title}: contains nothing to plot")
    if name is None:
        return next(iter(choices.values()))()
    if name not in choices:
        raise InputError(f"no plot {name!r}, expected one of {', '.join(choices)}{format_suggestion(name, choices)}")
    return choices[name]()


def drawings(document: Document) -> dict[str, Callable[[], Any]]:
    """What can be drawn, by name: tables with intervals or bars, charts by their kind, and the values per item."""
    choices: dict[str, Callable[[], Any]] = {}
    charts: dict[str, list[Chart]] = {}
    for section in document.walk():
        if isinstance(section, Table) and any(_drawn(section, index) for index in range(len(section.heads))):
            choices[section.key] = partial(_table, section)
        elif isinstance(section, Chart):
            charts.setdefault(section.kind, []).append(section)
            choices.setdefault(section.kind, partial(_charts, charts[section.kind]))
        elif isinstance(section, Items):
            choices[ITEMS] = partial(_items, section)
    return choices


def _drawn(table: Table, index: int) -> bool:
    column = table.heads[index]
    return column.kind == "number" and (column.bar or any(has_interval(row[index]) for row in table.rows))


def _table(table: Table) -> Any:
    """Values with intervals, in panels of one scale: small ones beside each other, or wide ones without a heading."""
    alt = require("altair", "plot")
    indices = [index for index in range(len(table.heads)) if _drawn(table, index)]
    points, small = _placed(table, indices)
    order, panels = (list(dict.fromkeys(point[name] for point in points)) for name in ("row", "panel"))
    column = table.heads[indices[0]]
    title = f"{column.name} × 100" if column.scale == 100 and not column.unit else column.name
    color = alt.Color("row:N", sort=order, legend=None, scale=alt.Scale(domain=order, range=list(COLORS)))
    base = alt.Chart().encode(
        y=alt.Y("row:N", sort=order, title=None, axis=alt.Axis(labelLimit=280)),
        color=color if small else alt.value(COLORS[0]),
        tooltip=[*(["panel:N"] if small else []), "row:N", "text:N"],
    )
    zero = not small or column.signed
    x = alt.X(
        "value:Q",
        title=None if small else title,
        scale=alt.Scale(zero=zero),
        axis=alt.Axis(tickCount=4 if small else 6),
    )
    layers = [
        base.mark_rule(strokeWidth=3, opacity=0.45).encode(x=alt.X("low:Q"), x2="high:Q"),
        base.mark_point(filled=True, size=60, opacity=1).encode(x=x),
    ]
    marks = {point["mark"] for point in points} - {""}
    if marks:
        layers.append(base.mark_text(dy=-8, fontSize=12).encode(x="value:Q", text="mark:N"))
    if column.signed:
        layers.append(alt.Chart().mark_rule(strokeDash=[4, 3], opacity=0.5).encode(x=alt.datum(0)))
    size = {"width": PANEL if small else WIDTH, "height": alt.Step(STEP)}
    chart = alt.layer(*layers, data=alt.Data(values=points)).properties(**size)
    if small:
        facet = alt.Facet("panel:N", sort=panels, header=alt.Header(title=None, labelFontWeight="bold"))
        chart = chart.facet(facet, columns=_across(len(panels))).resolve_scale(x="independent")
    elif len(panels) > 1:
        row = alt.Row("panel:N", sort=panels, header=alt.Header(title=None, labels=False))
        chart = chart.facet(row=row, spacing=10).resolve_scale(x="independent", y="independent")
    clauses = re.split(r"; |\. ", table.note)
    return chart.properties(
        title=_title(alt, table.title, [one for one in clauses if any(mark in one for mark in marks)])
    )


def _placed(table: Table, indices: Sequence[int]) -> tuple[list[dict[str, Any]], bool]:
    """The values with the names of their row and panel, and whether panels have a heading.

    Several columns have a panel each. So has each first name of a row where it alone decides the scale, such as the
    metric of a difference. Otherwise rows of one scale share a panel.
    """
    names = [[str(cell) for cell in row[: table.labels]] for row in table.rows]
    scales = [str(cell.limits) if isinstance(cell, Cell) else "" for cell in (row[indices[0]] for row in table.rows)]
    firsts = [name[0] for name in names]
    headed = table.labels > 1 and len({*scales}) == len({*firsts}) == len({*zip(firsts, scales, strict=True)}) > 1
    points = []
    for index in indices:
        for row, name, scale in zip(table.rows, names, scales, strict=True):
            panel = table.heads[index].name if len(indices) > 1 else name[0] if headed else scale
            label = " · ".join(name[1:] if headed else name)
            points.append({**_point(table.heads[index], row[index]), "row": label, "panel": panel})
    return [point for point in points if point["value"] is not None], headed or len(indices) > 1


def _point(column: Column, cell: Any) -> dict[str, Any]:
    low, high = (cell.low, cell.high) if isinstance(cell, Cell) else (np.nan, np.nan)
    value = numeric(cell)
    text = number(value, column)
    if has_interval(cell):
        text += f" [{number(low, column)}, {number(high, column)}]"
    ends = {name: end * column.scale for name, end in (("value", value), ("low", low), ("high", high))}
    return {**finite(ends), "text": text, "mark": cell.mark if isinstance(cell, Cell) else ""}


def _title(alt: Any, title: str, notes: Sequence[str] = ()) -> Any:
    lines = [line for note in notes for line in textwrap.wrap(note, SUBTITLE)]
    # Vega draws no subtitle below an empty title.
    return alt.Title(title or " ", subtitle=lines, anchor="start", subtitleColor="gray")


def _items(items: Items) -> Any:
    """How the values of the items are distributed, a panel for each metric: a histogram, or a box for each system."""
    alt = require("altair", "plot")
    several, labels, systems = len(items.systems) > 1, [metric.label for metric in items.metrics], list(items.systems)
    points: list[dict[str, Any]] = []
    for index, label in enumerate(labels):
        for name, system in zip(systems, items.values, strict=True):
            values = np.asarray(system[index], dtype=np.float64)
            values = values[np.isfinite(values)]
            summary = _boxes(values) if several else _bins(values)
            points += [{"metric": label, "system": name, **finite(one)} for one in summary]
    data = alt.Data(values=points)
    if several:
        color = alt.Color("system:N", sort=systems, legend=None, scale=alt.Scale(domain=systems, range=list(COLORS)))
        shown = [alt.Tooltip(f"{name}:Q", format=".4f") for name in QUANTILES]
        base = alt.Chart().encode(
            y=alt.Y("system:N", sort=systems, title=None), color=color, tooltip=["metric:N", "system:N", *shown]
        )
        axis = {"title": None, "scale": alt.Scale(zero=False), "axis": alt.Axis(tickCount=4)}
        layers = [
            base.mark_rule().encode(x=alt.X("p5:Q", **axis), x2="p95:Q"),
            base.mark_bar(size=12, opacity=0.6).encode(x=alt.X("p25:Q", **axis), x2="p75:Q"),
            base.mark_tick(size=16, thickness=3).encode(x=alt.X("p50:Q", **axis)),
        ]
        chart = alt.layer(*layers, data=data).properties(width=PANEL, height=alt.Step(STEP))
        title = _title(alt, "Values per item", ["Median, middle half, and 5th to 95th percentile"])
    else:
        ends = [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("low", "high")]
        chart = alt.Chart(data, width=PANEL, height=110).mark_bar(color=COLORS[0])
        chart = chart.encode(
            x=alt.X("low:Q", title=None, bin="binned", axis=alt.Axis(tickCount=6)),
            x2="high:Q",
            y=alt.Y("items:Q", title="items"),
            tooltip=["metric:N", "items:Q", *ends],
        )
        title = _title(alt, "Values per item")
    facet = alt.Facet("metric:N", sort=labels, header=alt.Header(title=None, labelFontWeight="bold"))
    y = "shared" if several else "independent"
    chart = chart.facet(facet, columns=_across(len(labels))).resolve_scale(x="independent", y=y)
    return chart.properties(title=title)


def _boxes(values: Floats) -> list[dict[str, float]]:
    if not len(values):
        return []
    quantiles = np.percentile(values, list(QUANTILES.values())).tolist()
    return [dict(zip(QUANTILES, quantiles, strict=True))]


def _bins(values: Floats) -> list[dict[str, float]]:
    counts, edges = np.histogram(values, BINS)
    return [
        {"items": count, "low": low, "high": high}
        for count, low, high in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]


def _charts(charts: Sequence[Chart]) -> Any:
    drawn = [_DRAWINGS[chart.kind](chart) for chart in charts]
    if len(drawn) == 1:
        return drawn[0]
    alt = require("altair", "plot")
    return alt.concat(*drawn, columns=_across(len(drawn)) if charts[0].kind in ("scatter", "lines", "histogram") else 1)


def _across(panels: int) -> int:
    """Panels in a line: three, or two where that leaves no single one behind."""
    return 2 if panels in (2, 4) else 3


def _points(chart: Chart) -> list[dict[str, Any]]:
    """Every finite value with what belongs to it."""
    points = []
    for series in chart.series:
        for index, y in enumerate(series.y):
            x: Any = series.x[index]
            point = {"series": series.name, "x": x, "y": y, **_parts(series, index)}
            if math.isfinite(y) and (isinstance(x, str) or math.isfinite(x)):
                points.append(finite(point))
    return points


def _parts(series: Series, index: int) -> Mapping[str, Any]:
    parts = {"low": series.low, "high": series.high, "hollow": series.hollow, "label": series.labels}
    return {name: part[index] for name, part in parts.items() if len(part)}


def _rows(chart: Chart) -> Any:
    """A row per name: values with intervals, bars from zero, or a dot per value."""
    alt = require("altair", "plot")
    order = list(dict.fromkeys(str(x) for series in chart.series for x in series.x))
    row = alt.Y("x:N", sort=order, title=chart.y or None, axis=alt.Axis(labelLimit=280))
    means = _colored(alt, chart).encode(y=row)
    base = means.encode(tooltip=["x:N", "series:N", alt.Tooltip("y:Q", format=f".{chart.decimals}f")])
    x = alt.X("y:Q", title=chart.x or None)
    if chart.kind == "bars":
        layers = [base.mark_bar().encode(x=x)]
    elif chart.kind == "dots" and not any(len(series.low) for series in chart.series):
        layers = [base.mark_point(filled=True, opacity=0.5, size=50).encode(x=x.scale(zero=False))]
        # Without the tooltip: a mean is taken over all values that have the same encodings.
        layers.append(means.mark_tick(thickness=3, size=16).encode(x="mean(y):Q"))
    else:
        hollow = any(any(series.hollow) for series in chart.series)
        fill = {"fillOpacity": alt.condition("datum.hollow", alt.value(0), alt.value(1))} if hollow else {}
        layers = [
            base.mark_rule(strokeWidth=3, opacity=0.45).encode(x=alt.X("low:Q"), x2="high:Q"),
            base.mark_point(filled=True, size=60, opacity=1, strokeWidth=2).encode(x=x.scale(zero=False), **fill),
        ]
    return _finished(alt, chart, layers, "x", {"width": WIDTH, "height": alt.Step(STEP)})


def _plane(chart: Chart) -> Any:
    """Two axes: lines over ticks or numbers with whiskers, or a dot per pair."""
    alt = require("altair", "plot")
    named = any(isinstance(x, str) for series in chart.series for x in series.x)
    across = alt.X("x:N", sort=None) if named else alt.X("x:Q", scale=alt.Scale(zero=False, nice=True))
    across = across.title(chart.x or None)
    up = alt.Y("y:Q", title=chart.y or None, scale=alt.Scale(zero=False))
    base = _colored(alt, chart).encode(x=across)
    if chart.kind == "scatter":
        layers = [base.mark_circle(opacity=0.4, size=24).encode(y=up, tooltip=["label:N", "x:Q", "y:Q"])]
        layers += _trends(alt, chart)
    else:
        layers = [base.mark_line(point=True).encode(y=up, tooltip=["series:N", "x:N" if named else "x:Q", "y:Q"])]
        if any(len(series.low) for series in chart.series):
            layers.append(base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q"), y2="high:Q"))
    return _finished(alt, chart, layers, "y", {"width": PANEL, "height": 200})


def _trends(alt: Any, chart: Chart) -> list[Any]:
    """The mean of y in steps of x, a line for each series."""
    if not chart.trend:
        return []
    lines = []
    for series in chart.series:
        x, y = (np.asarray(part, dtype=np.float64) for part in (series.x, series.y))
        valid = np.isfinite(x) & np.isfinite(y)
        means = [{"x": one, "y": other} for one, other in trend(x[valid], y[valid])]
        if means:
            line = alt.Chart(alt.Data(values=means)).mark_line(color=COLORS[1 % len(COLORS)], strokeWidth=2.5)
            lines.append(line.encode(x="x:Q", y="y:Q"))
    return lines


def _histogram(chart: Chart) -> Any:
    """A bar from edge to edge of each bin."""
    alt = require("altair", "plot")
    bins = [
        {"series": one.name, "low": one.x[index], "high": one.x[index + 1], "y": value}
        for one in chart.series
        for index, value in enumerate(one.y)
    ]
    bars = (
        _colored(alt, chart)
        .mark_bar()
        .encode(
            x=alt.X("low:Q", title=chart.x or None, scale=alt.Scale(zero=False)),
            x2="high:Q",
            y=alt.Y("y:Q", title=chart.y or None),
            tooltip=["low:Q", "high:Q", "y:Q"],
        )
    )
    size = {"width": PANEL, "height": 200}
    drawn = alt.layer(bars, data=alt.Data(values=finite(bins))).properties(**size)
    return drawn.properties(title=_title(alt, chart.title, [chart.note]))


def _colored(alt: Any, chart: Chart) -> Any:
    names = [series.name for series in chart.series]
    color = alt.Color("series:N", title=None, sort=names, scale=alt.Scale(domain=names, range=list(COLORS)))
    return alt.Chart().encode(color=color if len(names) > 1 else alt.value(COLORS[0]))


def _finished(alt: Any, chart: Chart, layers: list[Any], axis: str, size: Mapping[str, Any]) -> Any:
    dashed = alt.Chart().mark_rule(strokeDash=[4, 3], opacity=0.6)
    layers += [dashed.encode(**{axis: alt.datum(value)}) for value in chart.bounds]
    if chart.reference is not None:
        layers.append(dashed.encode(**{axis: alt.datum(chart.reference)}))
        if chart.reference_name:
            # The name stands at the top of an upright line, and at the right end of a level one.
            at = {"y": alt.value(-6)} if axis == "x" else {"x": alt.value("width")}
            words = {"align": "center"} if axis == "x" else {"align": "right", "dy": -6}
            name = alt.Chart().mark_text(text=chart.reference_name, opacity=0.6, **words)
            layers.append(name.encode(**{axis: alt.datum(chart.reference)}, **at))
    drawn = alt.layer(*layers, data=alt.Data(values=_points(chart))).properties(**size)
    return drawn.properties(title=_title(alt, chart.title, [chart.note]))


_DRAWINGS: dict[str, Callable[[Chart], Any]] = {
    "intervals": _rows,
    "bars": _rows,
    "dots": _rows,
    "lines": _plane,
    "scatter": _plane,
    "histogram": _histogram,
}
