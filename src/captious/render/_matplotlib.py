"""Charts drawn by matplotlib, for papers and notebooks, in the look of the SVG charts of `_charts`.

Every function draws one kind of `Chart` into matplotlib axes; names of systems and metrics are never parsed as TeX.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from captious.errors import InputError, require
from captious.render._charts import ROWS, WIDE, compute_trend, cut_name, nudge, pick_dots
from captious.render._plots import Plot
from captious.render.document import NAN, Chart
from captious.render.notebook import COLORS

# Inches: width of a single panel and of one of several in a line, height of a row, of an axis with its title, and of a
# panel with two axes.
WIDTH, PANEL, ROW, FRAME, PLANE = 6.4, 2.6, 0.27, 0.75, 2.4
# Size of small text in points, and its letters per inch.
SMALL, LETTERS = 8.0, 14
PLAIN = {"parse_math": False}
GRAY, PALE = "#6b7280", "#e5e7eb"


def draw_plot(plot: Plot, ax: Any = None) -> Any:
    """Draw a plot into a new figure, into axes, or into as many axes as it has panels; return the figure."""
    panels = _make_axes(plot) if ax is None else _get_user_axes(plot, ax)
    for index, (chart, axes) in enumerate(zip(plot.charts, panels, strict=True)):
        beside = plot.across > 1
        _DRAWINGS[chart.kind](axes, chart, not beside)
        if chart.kind in ROWS and index % plot.across:
            axes.tick_params(labelleft=False)  # rows have the same names as in the panel before
        _add_decorations(axes, chart, PANEL if beside else WIDTH)
    figure = panels[0].figure
    if ax is None and plot.title:
        figure.suptitle(plot.title, x=0.02, ha="left", fontsize="large", **PLAIN)
    if ax is None and plot.note:
        text = textwrap.fill(plot.note, int(figure.get_figwidth() * LETTERS))
        figure.supxlabel(text, x=0.02, ha="left", fontsize=SMALL, color=GRAY, **PLAIN)
    return figure


def _make_axes(plot: Plot) -> list[Any]:
    """Make a new figure and return its axes, one for each panel."""
    pyplot = require("matplotlib.pyplot", "plot")
    lines = math.ceil(len(plot.charts) / plot.across)
    heights = [max(map(_compute_height, plot.charts[line * plot.across :][: plot.across])) for line in range(lines)]
    names = max((min(len(name), WIDE.name) for chart in plot.charts[:1] for name in _list_row_names(chart)), default=0)
    width = WIDTH if plot.across == 1 else plot.across * PANEL + names / LETTERS
    figure = pyplot.figure(figsize=(width, sum(heights) + 0.35 * bool(plot.title)), layout="constrained")
    if "inline" in pyplot.get_backend():
        pyplot.close(figure)  # a notebook shows what a cell returns; an open figure would be shown a second time
    grid = figure.subplots(lines, plot.across, squeeze=False, gridspec_kw={"height_ratios": heights})
    axes = list(grid.ravel())
    for unused in axes[len(plot.charts) :]:
        unused.remove()
    return axes[: len(plot.charts)]


def _get_user_axes(plot: Plot, ax: Any) -> list[Any]:
    """Return the user's axes for the panels; a single one is divided."""
    number = len(plot.charts)
    axes = list(np.ravel(ax))
    if len(axes) == number:
        return axes
    if len(axes) != 1:
        raise InputError(f"{len(axes)} axes for a plot of {number} panels, expected one or {number}")
    axes[0].set_axis_off()
    if plot.title:
        axes[0].set_title(plot.title, loc="left", pad=18, **PLAIN)
    width, height = 1 / plot.across, 1 / math.ceil(number / plot.across)
    # Each panel takes three fifths of its height; the rest is for its axis and heading.
    corners = [(index % plot.across * width, 1 - (index // plot.across + 0.85) * height) for index in range(number)]
    reserved = 0.0 if plot.across > 1 else max(map(_estimate_number_width, plot.charts))
    inches = axes[0].get_position().width * axes[0].figure.get_figwidth()
    drawn = max(0.9 * width - reserved / inches, 0.3 * width)
    return [axes[0].inset_axes((*corner, drawn, 0.6 * height)) for corner in corners]


def _estimate_number_width(chart: Chart) -> float:
    """Return the inches that the numbers on the right of rows need, so that they stay inside the axes of the user."""
    if chart.kind not in ("intervals", "bars"):
        return 0.0
    digits = chart.decimals + 2
    has_intervals = chart.kind == "intervals" and any(len(series.low) for series in chart.series)
    return (3 * digits + 6 if has_intervals else digits) / LETTERS + 8 / 72


def _compute_height(chart: Chart) -> float:
    rows = len(_list_row_names(chart)) * max(ROW, 0.08 * len(chart.series) if chart.kind == "dots" else 0)
    titles = 0.25 * bool(chart.title) + 0.15 * len(_wrap_note(chart, WIDTH))
    return titles + (rows + FRAME if chart.kind in ROWS else PLANE)


def _list_row_names(chart: Chart) -> list[str]:
    """Return the names of the rows: one per value, for dots one per name."""
    names = [str(name) for series in chart.series for name in series.x] if chart.kind in ROWS else []
    return list(dict.fromkeys(names)) if chart.kind == "dots" else names


def _wrap_note(chart: Chart, width: float) -> list[str]:
    return textwrap.wrap(chart.note, int(width * LETTERS))


def _add_decorations(axes: Any, chart: Chart, width: float) -> None:
    """Add the parts of every kind: title, note, axis titles, dashed lines, a light grid, a legend of several series."""
    upright = chart.kind in ROWS
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0, labelcolor=GRAY, labelsize=SMALL)
    if upright:
        axes.tick_params(axis="y", labelcolor="black", labelsize=9)
    axes.grid(axis="x" if upright else "y", color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(chart.x, fontsize=9, **PLAIN)
    axes.set_ylabel(chart.y, fontsize=9, **PLAIN)
    dashed = {"color": GRAY, "linestyle": (0, (4, 3)), "linewidth": 1.0, "zorder": 1.5}
    for value in (*chart.bounds, *(() if chart.reference is None else (chart.reference,))):
        (axes.axvline if upright else axes.axhline)(value, **dashed)
    has_reference_name = chart.reference is not None and bool(chart.reference_name)
    if has_reference_name:
        at, where = (
            ((chart.reference, 1), axes.get_xaxis_transform())
            if upright
            else ((1, chart.reference), axes.get_yaxis_transform())
        )
        _write(axes, chart.reference_name, at, where, (0, 3), ha="center" if upright else "right", va="bottom")
    lines = _wrap_note(chart, width)
    above = 3 + 11 * (has_reference_name and upright)
    if lines:
        _write(axes, "\n".join(lines), (0, 1), axes.transAxes, (0, above), ha="left", va="bottom")
    if chart.title:
        axes.set_title(
            chart.title, loc="left", fontsize=10, fontweight="bold", pad=above + 11 * len(lines) + 3, **PLAIN
        )
    if len(chart.series) > 1 and chart.kind != "intervals":
        handles, labels = axes.get_legend_handles_labels()
        where = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.5 / max(1, _compute_height(chart) - FRAME))}
        legend = axes.legend(handles, labels, **where, ncols=2, frameon=False, fontsize=SMALL)
        for text in legend.get_texts():
            text.set_parse_math(False)


def _write(axes: Any, text: str, at: tuple[Any, Any], where: Any, shift: tuple[float, float], **options: Any) -> None:
    """Write small text at a position, shifted by some points."""
    axes.annotate(
        text,
        at,
        xycoords=where,
        xytext=shift,
        textcoords="offset points",
        color=GRAY,
        fontsize=SMALL,
        annotation_clip=False,
        **options,
        **PLAIN,
    )


def _get_color(index: int) -> str:
    return COLORS[index % len(COLORS)]


def _label_rows(axes: Any, chart: Chart) -> list[str]:
    """Name the rows, the first at the top, and shade every second group of rows."""
    names = _list_row_names(chart)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [cut_name(name, WIDE.name) for name in names], **PLAIN)
    for row, band in enumerate(chart.bands):
        if band % 2:
            axes.axhspan(row - 0.5, row + 0.5, color="black", alpha=0.05, linewidth=0)
    return names


def _draw_dot(axes: Any, chart: Chart, index: int, point: int, y: float, size: float = 6.5, width: float = 3.0) -> str:
    """Draw a value of a row with its interval; return both as text."""
    series = chart.series[index]
    value, (low, high) = series.y[point], (part[point] if len(part) else NAN for part in (series.low, series.high))
    text = f"{value:.{chart.decimals}f}"
    if math.isfinite(low) and math.isfinite(high):
        axes.plot([low, high], [y, y], color=_get_color(index), linewidth=width, alpha=0.6, solid_capstyle="round")
        text += f"  [{low:.{chart.decimals}f}, {high:.{chart.decimals}f}]"
    hollow = len(series.hollow) > 0 and series.hollow[point]
    fill = axes.get_facecolor() if hollow else _get_color(index)
    axes.plot([value], [y], "o", markersize=size, color=_get_color(index), markerfacecolor=fill, zorder=3)
    return text


def _draw_intervals(axes: Any, chart: Chart, numbers: bool) -> None:
    """Draw a row per value with its interval, and its number on the right; a mark above its dot."""
    _label_rows(axes, chart)
    row = 0
    for index, series in enumerate(chart.series):
        for point, value in enumerate(series.y):
            if math.isfinite(value):
                text = _draw_dot(axes, chart, index, point, row)
                if numbers:
                    _write(axes, text, (1, row), axes.get_yaxis_transform(), (8, 0), va="center")
                if len(series.names):
                    _write(axes, series.names[point], (value, row), axes.transData, (0, 3), ha="center", va="bottom")
            row += 1


def _draw_dots(axes: Any, chart: Chart, numbers: bool) -> None:
    """Draw a row per name: a dot with its interval for each series, or a dot per value and a bar at their mean."""
    names = _label_rows(axes, chart)
    for index, series in enumerate(chart.series):
        shift = 0.7 * ((index + 0.5) / len(chart.series) - 0.5)
        rows = np.array([names.index(str(name)) for name in series.x], dtype=np.float64) + shift
        if len(series.low):
            for point in np.flatnonzero(np.isfinite(series.y)):
                _draw_dot(axes, chart, index, int(point), float(rows[point]), 5, 2)
            axes.plot([], [], "o", color=_get_color(index), label=series.name)
            continue
        values = np.asarray(series.y, dtype=np.float64)
        axes.plot(
            values, rows, "o", color=_get_color(index), alpha=0.45, markersize=5, markeredgewidth=0, label=series.name
        )
        for y in np.unique(rows):
            own = values[(rows == y) & np.isfinite(values)]
            if len(own):
                axes.plot([own.mean()] * 2, [y - 0.2, y + 0.2], color=_get_color(index), linewidth=3)


def _draw_bars(axes: Any, chart: Chart, numbers: bool) -> None:
    """Draw a bar from zero per row, and its number on the right."""
    _label_rows(axes, chart)
    row = 0
    for index, series in enumerate(chart.series):
        rows = range(row, row + len(series.y))
        axes.barh(rows, series.y, height=0.55, color=_get_color(index), label=series.name)
        for point, value in enumerate(series.y):
            label = series.labels[point] if len(series.labels) else f"{value:.{chart.decimals}f}"
            if numbers and math.isfinite(value):
                _write(axes, label, (1, row + point), axes.get_yaxis_transform(), (8, 0), va="center")
        row += len(series.y)


def _draw_lines(axes: Any, chart: Chart, numbers: bool) -> None:
    """Draw lines over named ticks or numbers, with whiskers for intervals."""
    has_names = any(isinstance(x, str) for series in chart.series for x in series.x)
    ticks = list(dict.fromkeys(str(x) for series in chart.series for x in series.x)) if has_names else []
    for index, series in enumerate(chart.series):
        shift = (index - (len(chart.series) - 1) / 2) * 0.06 if has_names and len(series.low) else 0.0
        x = np.array([ticks.index(str(at)) + shift if has_names else float(at) for at in series.x], dtype=np.float64)
        y = np.asarray(series.y, dtype=np.float64)
        valid = np.isfinite(y)
        axes.plot(x[valid], y[valid], color=_get_color(index), linewidth=1.6, label=series.name)
        if len(series.low):
            axes.vlines(
                x[valid],
                np.asarray(series.low)[valid],
                np.asarray(series.high)[valid],
                color=_get_color(index),
                linewidth=1,
            )
        if valid.sum() <= 60:
            hollow = np.asarray(series.hollow, dtype=bool) if len(series.hollow) else np.zeros(len(y), dtype=bool)
            for chosen, fill in ((valid & ~hollow, _get_color(index)), (valid & hollow, axes.get_facecolor())):
                axes.plot(
                    x[chosen], y[chosen], "o", color=_get_color(index), markerfacecolor=fill, markersize=4.5, zorder=3
                )
    if has_names:
        every = max(1, math.ceil(len(ticks) / (2 * WIDE.ticks)))
        axes.set_xticks(range(0, len(ticks), every), [cut_name(name, 14) for name in ticks[::every]], **PLAIN)


def _draw_scatter(axes: Any, chart: Chart, numbers: bool) -> None:
    """Draw a dot per pair, and the mean of y in steps of x."""
    for index, series in enumerate(chart.series):
        x, y = (np.asarray(part, dtype=np.float64) for part in (series.x, series.y))
        valid = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        dots = pick_dots(valid, WIDE.dots)
        shift = nudge(dots) * 0.03 * (np.ptp(x[valid]) if len(valid) else 0) if chart.trend else 0.0
        look = {"s": 8, "alpha": 0.3} if chart.trend else {"s": 32, "alpha": 0.65}
        axes.scatter(x[dots] + shift, y[dots], color=_get_color(index), linewidths=0, label=series.name, **look)
        for point in dots if len(series.names) else ():
            _write(axes, series.names[point], (x[point], y[point]), axes.transData, (5, 0), va="center")
        means = compute_trend(x[valid], y[valid]) if chart.trend else []
        if means:
            axes.plot(*zip(*means, strict=True), color=_get_color(1), linewidth=2.2)


def _draw_histogram(axes: Any, chart: Chart, numbers: bool) -> None:
    """Draw a bar from edge to edge of each bin."""
    for index, series in enumerate(chart.series):
        edges = np.asarray(series.x, dtype=np.float64)
        axes.bar(
            edges[:-1],
            series.y,
            np.diff(edges),
            align="edge",
            color=_get_color(index),
            edgecolor="white",
            linewidth=0.4,
            label=series.name,
        )
    if all(float(value).is_integer() for series in chart.series for value in series.y):
        axes.yaxis.get_major_locator().set_params(integer=True)


_DRAWINGS: dict[str, Callable[[Any, Chart, bool], None]] = {
    "intervals": _draw_intervals,
    "dots": _draw_dots,
    "bars": _draw_bars,
    "lines": _draw_lines,
    "scatter": _draw_scatter,
    "histogram": _draw_histogram,
}
