"""Charts as SVG in the page's colors, without scripts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from captious.render.document import NAN, Chart, Phrase, Series, Span, is_local

# Number of colors; page.css defines them as `--s0` to `--s7`.
COLORS = 8
# Kinds of charts with a row per name or value, as wide as the page.
ROWS = ("intervals", "dots", "bars")
# Height of a row, and space above the first, in pixels.
STEP, TOP = 30, 26
# Height of each series in a row that several share, in pixels.
SLOT = 8
# Longest name in a legend in letters, width of an entry and of a letter in pixels.
LEGEND, ENTRY, LETTER = 24, 240, 6.5
# Bins of a scatter's trend, the dots a bin needs, and the largest shift of a dot in pixels.
BINS, CROWD, JITTER = 8, 5, 14
# Radius of the area of a linked dot that can be clicked, and the radius of dots that are too dense to have one.
REACH, DENSE = 9, 3
# Largest number of points of a line that are marked with dots.
LINE_DOTS = 60


class ChartLayout(NamedTuple):
    """Sizes of a chart, in pixels."""

    width: int
    """Width of a chart with a row per name."""
    left: int
    right: int
    """Margins left and right of the values of such a chart."""
    above: int
    """Height of the line above each row for its name and number; 0 if they are in the row."""
    name: int
    """Longest name of a row, in letters."""
    plane: int
    """Width of a chart with two axes."""
    x: tuple[int, int]
    y: tuple[int, int]
    """Pixels of such a chart's values from left to right, and from bottom to top."""
    ticks: int
    """Approximate number of ticks of an axis."""
    dots: int
    """Largest number of dots of a scatter that are drawn."""

    @property
    def text(self) -> float:
        """X position of a row's numbers: their right end on a phone, otherwise their left end."""
        return self.width - 4 if self.above else self.width - self.right + 14

    @property
    def anchor(self) -> str:
        """SVG text anchor of a row's numbers at ``text``."""
        return "end" if self.above else "start"


# The layout for screens and paper.
WIDE = ChartLayout(840, 240, 150, 0, 36, 540, (64, 526), (250, 14), 6, 3000)
# The layout for phones: names and numbers are above their row.
NARROW = ChartLayout(330, 14, 14, 20, 26, 330, (52, 318), (200, 14), 4, 600)


class Axis:
    """Scale from values to pixels, with round ticks."""

    def __init__(self, values: Sequence[float], start: float, end: float, ticks: int = 6) -> None:
        finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
        low, high = min(finite), max(finite)
        # The step is the smallest of 1, 2, 2.5 or 5 times a power of ten that gives about `ticks` ticks.
        rough = (high - low or abs(high) or 1.0) / ticks
        power = 10.0 ** math.floor(math.log10(rough))
        self.step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * 0.999)
        self.low = math.floor(low / self.step + 1e-9) * self.step
        self.high = max(math.ceil(high / self.step - 1e-9) * self.step, self.low + self.step)
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def ticks(self) -> list[float]:
        """Round values from end to end."""
        return [self.low + index * self.step for index in range(round((self.high - self.low) / self.step) + 1)]


def draw_chart(chart: Chart, layout: ChartLayout = WIDE) -> str:
    """Return the chart as an SVG element."""
    width = layout.width if chart.kind in ROWS else layout.plane
    body, height = _DRAWINGS[chart.kind](chart, layout)
    label = escape(" ".join(filter(None, (chart.title, chart.note))) or chart.kind)
    look = "chart" if layout is WIDE else "chart phone"
    return f'<svg class="{look}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{body}</svg>'


def describe_single(chart: Chart) -> Phrase | None:
    """Say in words what a chart shows whose lines have one point each, or which has one dot; None if it has more.

    >>> str(describe_single(Chart("lines", [Series("CIDEr-D", ["16"], [1.5], [1.0], [2.0])], x="words")))
    'One value, so no line: CIDEr-D, words 16: 1.5 [1.0, 2.0].'
    """
    points = [(one, point) for one in chart.series for point, value in enumerate(one.y) if math.isfinite(value)]
    if chart.kind == "histogram" or not points:
        return None
    if len({id(one) for one, _ in points}) < len(points) or (chart.kind != "lines" and len(points) > 1):
        return None
    begin = {"lines": "One value, so no line", "scatter": "One dot, so no trend"}.get(chart.kind, "One value")
    if len(points) > 1:
        begin = "One value each, so no lines"
    spans = [Span(f"{begin}: ")]
    for number, (one, point) in enumerate(points):
        where = f"{chart.x} {one.x[point]}".strip()
        names = [*([one.name] if one.name != where and one.name not in chart.x else []), where]
        text = f"{', '.join(filter(None, names))}: {one.y[point]:.{chart.decimals}f}"
        if len(one.low) and math.isfinite(one.low[point]) and math.isfinite(one.high[point]):
            text += f" [{one.low[point]:.{chart.decimals}f}, {one.high[point]:.{chart.decimals}f}]"
        spans.append(Span(text, href=one.hrefs[point] if one.hrefs else ""))
        spans.append(Span("; " if number + 1 < len(points) else "."))
    return Phrase(tuple(spans))


def cut_name(name: str, most: int) -> str:
    """Cut out the middle of a long name: names often differ at the end.

    >>> cut_name("captious-mini-specs, image → caption", 24)
    'captious-mi…ge → caption'
    """
    if len(name) <= most:
        return name
    head = (most - 1) // 2
    return f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"


def _get_color(index: int) -> str:
    return f"var(--s{index % COLORS})"


def _format_tag(tag: str, content: str = "", /, **attributes: object) -> str:
    """Format an SVG element; in attribute names, a trailing underscore is dropped and inner ones become hyphens."""
    parts = "".join(f' {name.rstrip("_").replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f"<{tag}{parts}>{content}</{tag}>" if content else f"<{tag}{parts}/>"


def _draw_text(text: str, x: float, y: float, class_: str = "tick", anchor: str = "start", **further: str) -> str:
    return _format_tag("text", escape(text), x=x, y=y, class_=class_, text_anchor=anchor, **further)


def _link(drawing: str, href: str | None, reach: str = "", tab: int | None = None) -> str:
    """Wrap a drawing in a link, with a transparent ``reach`` around it that is easier to hit."""
    if not href or not is_local(href):
        return drawing
    stop = "" if tab is None else f' tabindex="{tab}"'
    return f'<a href="{escape(href)}"{stop}>{reach}{drawing}</a>'


def _draw_linked_dot(title: str, href: str | None, tab: int, **look: Any) -> str:
    """Draw a dot with its text, and a link if there is one; a small dot gets a larger transparent one to click on."""
    text = _format_tag("title", escape(title)) if title else ""
    reach = _format_tag("circle", cx=look["cx"], cy=look["cy"], r=REACH, fill="transparent")
    return _link(_format_tag("circle", text, **look), href, reach if look["r"] > DENSE else "", tab)


def _get_dot_style(index: int, series: Series, point: int) -> dict[str, str]:
    """Return the attributes of a dot: filled, or a ring."""
    hollow = bool(series.hollow) and series.hollow[point]
    return {"class_": "hollow", "stroke": _get_color(index)} if hollow else {"fill": _get_color(index)}


def _collect_values(chart: Chart) -> list[float]:
    """Return all numbers that the value axis must include."""
    ends = [value for one in chart.series for part in (one.y, one.low, one.high) for value in part]
    ends += chart.bounds
    return ends if chart.reference is None else [*ends, chart.reference]


def _draw_legend(series: Sequence[Series], x: float, y: float, across: int = 1) -> str:
    """Draw a swatch and a name for each of several series, ``across`` in a line; nothing for a single series."""
    parts = []
    for index, one in enumerate(series if len(series) > 1 else ()):
        left, top = x + ENTRY * (index % across), y + 18 * (index // across)
        parts.append(_format_tag("rect", x=left, y=top, width=10, height=10, rx=2, fill=_get_color(index)))
        parts.append(_draw_text(cut_name(one.name, LEGEND), left + 16, top + 9, "name"))
    return "".join(parts)


def _draw_row_legend(chart: Chart, layout: ChartLayout, height: int, beside: int = 14) -> tuple[str, int]:
    """Draw the legend of a chart of rows, at its right or, on a phone, below; return it and the total height."""
    lines = 18 * len(chart.series) if len(chart.series) > 1 else 0
    if layout.above:
        return _draw_legend(chart.series, 4, height + 4), height + lines
    return _draw_legend(chart.series, layout.width - layout.right + beside, TOP), max(height, TOP + lines)


def _iterate_rows(chart: Chart, layout: ChartLayout) -> Iterator[tuple[int, Series, int, float, float]]:
    """Yield each finite value of a chart with one row per value: color, series, index in it, value, top of the row."""
    row = 0
    for color, series in enumerate(chart.series):
        for point, value in enumerate(series.y):
            if math.isfinite(value):
                yield color, series, point, value, TOP + row * (STEP + layout.above)
            row += 1


def _make_row_axis(values: Sequence[float], layout: ChartLayout) -> Axis:
    return Axis(values, layout.left, layout.width - layout.right, layout.ticks)


def _draw_row_frame(
    chart: Chart, axis: Axis, names: Sequence[str], layout: ChartLayout, step: int = STEP
) -> tuple[list[str], int]:
    """Draw shades, ticks, the reference and the names of a chart of rows; return them and the height with the axis."""
    height = step + layout.above
    bottom = TOP + len(names) * height
    parts = [
        _format_tag("rect", class_="band", x=0, y=TOP + row * height, width=layout.width, height=height)
        for row, band in enumerate(chart.bands)
        if band % 2
    ]
    for value in axis.ticks:
        parts.append(_format_tag("line", class_="rule", x1=axis(value), x2=axis(value), y1=TOP - 8, y2=bottom))
        parts.append(_draw_text(f"{value:.6g}", axis(value), bottom + 17, anchor="middle"))
    if chart.reference is not None:
        x, half = axis(chart.reference), LETTER * len(chart.reference_name) / 2
        parts.append(_format_tag("line", class_="reference", x1=x, x2=x, y1=TOP - 8, y2=bottom))
        parts.append(
            _draw_text(chart.reference_name, min(max(x, half), layout.width - half), TOP - 12, anchor="middle")
        )
    for value in chart.bounds:
        parts.append(_format_tag("line", class_="reference", x1=axis(value), x2=axis(value), y1=TOP - 8, y2=bottom))
    baseline = 15 if layout.above else step / 2 + 5
    parts += [
        _link(_draw_text(cut_name(name, layout.name), 8, TOP + row * height + baseline, "name"), chart.hrefs.get(name))
        for row, name in enumerate(names)
    ]
    if chart.x:
        middle = (layout.left + layout.width - layout.right) / 2
        parts.append(_draw_text(chart.x, middle, bottom + 35, "name", "middle"))
    return parts, bottom + (44 if chart.x else 26)


def _draw_intervals(chart: Chart, layout: ChartLayout) -> tuple[str, int]:
    axis = _make_row_axis(_collect_values(chart), layout)
    parts, height = _draw_row_frame(chart, axis, [str(name) for one in chart.series for name in one.x], layout)
    for index, one, point, value, top in _iterate_rows(chart, layout):
        y = top + layout.above + STEP / 2
        low, high = (part[point] if part else NAN for part in (one.low, one.high))
        text = f"{value:.{chart.decimals}f}"
        if math.isfinite(low) and math.isfinite(high):
            line = {"x1": axis(low), "x2": axis(high), "y1": y, "y2": y, "stroke": _get_color(index)}
            parts.append(_format_tag("line", **line, stroke_width=3, stroke_linecap="round"))
            text += f"  [{low:.{chart.decimals}f}, {high:.{chart.decimals}f}]"
        text += f" {one.names[point]}" if one.names else ""
        dot = {"cx": axis(value), "cy": y, "r": 5, **_get_dot_style(index, one, point)}
        parts.append(_draw_linked_dot("", chart.hrefs.get(str(one.x[point])), -1, **dot))
        parts.append(_draw_text(text, layout.text, top + 15 if layout.above else y + 4, anchor=layout.anchor))
    return "".join(parts), height


def _draw_interval_dots(chart: Chart, names: Sequence[str], layout: ChartLayout) -> tuple[str, int]:
    """Draw a row per name, with a dot and an interval for each series, one below another."""
    axis, step = _make_row_axis(_collect_values(chart), layout), max(STEP, 12 + SLOT * len(chart.series))
    parts, height = _draw_row_frame(chart, axis, names, layout, step)
    for index, one in enumerate(chart.series):
        shift = SLOT * (index - (len(chart.series) - 1) / 2) + step / 2 + layout.above
        for point, (name, value, low, high) in enumerate(zip(one.x, one.y, one.low, one.high, strict=True)):
            if not math.isfinite(value):
                continue
            y = TOP + (step + layout.above) * names.index(str(name)) + shift
            text = f"{one.name}, {name}: {value:.{chart.decimals}f}"
            if math.isfinite(low) and math.isfinite(high):
                line = {"x1": axis(low), "x2": axis(high), "y1": y, "y2": y, "stroke": _get_color(index)}
                parts.append(_format_tag("line", **line, stroke_width=2, stroke_linecap="round"))
                text += f" [{low:.{chart.decimals}f}, {high:.{chart.decimals}f}]"
            dot = {"cx": axis(value), "cy": y, "r": 4, **_get_dot_style(index, one, point)}
            parts.append(_draw_linked_dot(text, chart.hrefs.get(str(name)), -1, **dot))
    legend, height = _draw_row_legend(chart, layout, height)
    return "".join(parts) + legend, height


def _draw_dots(chart: Chart, layout: ChartLayout) -> tuple[str, int]:
    names = list(dict.fromkeys(str(name) for one in chart.series for name in one.x))
    if any(len(one.low) for one in chart.series):
        return _draw_interval_dots(chart, names, layout)
    axis = _make_row_axis(_collect_values(chart), layout)
    parts, height = _draw_row_frame(chart, axis, names, layout)
    for index, one in enumerate(chart.series):
        shift = 12 * ((index + 0.5) / len(chart.series) - 0.5) + STEP / 2 + layout.above
        by_name: dict[str, list[float]] = {}
        for name, value in zip(one.x, one.y, strict=True):
            if value == value:  # a missing value has no dot
                by_name.setdefault(str(name), []).append(value)
        for name, values in by_name.items():
            y = TOP + (STEP + layout.above) * names.index(name) + shift
            for value in values:
                parts.append(_format_tag("circle", cx=axis(value), cy=y, r=4, fill=_get_color(index), opacity=0.45))
            mean = axis(sum(values) / len(values))
            parts.append(
                _format_tag("line", x1=mean, x2=mean, y1=y - 6, y2=y + 6, stroke=_get_color(index), stroke_width=3)
            )
    legend, height = _draw_row_legend(chart, layout, height)
    return "".join(parts) + legend, height


def _draw_bars(chart: Chart, layout: ChartLayout) -> tuple[str, int]:
    axis = _make_row_axis([0.0, *_collect_values(chart)], layout)
    parts, height = _draw_row_frame(chart, axis, [str(name) for one in chart.series for name in one.x], layout)
    for index, one, point, value, top in _iterate_rows(chart, layout):
        start, end = sorted((axis(0.0), axis(value)))
        box = {"x": start, "y": top + layout.above + 7, "width": round(end - start, 1), "height": STEP - 14, "rx": 2}
        parts.append(
            _link(_format_tag("rect", **box, fill=_get_color(index)), chart.hrefs.get(str(one.x[point])), tab=-1)
        )
        label = one.labels[point] if one.labels else f"{value:.{chart.decimals}f}"
        parts.append(_draw_text(label, layout.text, top + (15 if layout.above else 20), anchor=layout.anchor))
    legend, height = _draw_row_legend(chart, layout, height, beside=80)
    return "".join(parts) + legend, height


def _draw_axes(chart: Chart, x: Axis | Sequence[str], y: Axis, layout: ChartLayout) -> list[str]:
    """Draw ticks and titles of a chart with two axes."""
    (left, right), (bottom, top) = layout.x, layout.y
    parts = []
    for value in y.ticks:
        parts.append(_format_tag("line", class_="rule", x1=left, x2=right, y1=y(value), y2=y(value)))
        parts.append(_draw_text(f"{value:.6g}", left - 7, y(value) + 4, anchor="end"))
    if chart.reference is not None:
        at = y(chart.reference)
        parts.append(_format_tag("line", class_="reference", x1=left, x2=right, y1=at, y2=at))
        parts.append(_draw_text(chart.reference_name, right, at - 4, anchor="end"))
    if isinstance(x, Axis):
        parts += [_draw_text(f"{value:.6g}", x(value), bottom + 17, anchor="middle") for value in x.ticks]
    else:
        every = math.ceil(len(x) / (2 * layout.ticks))
        letters = min(14, max(5, int(every * (right - left) / (LETTER * max(len(x), 1)))))
        parts += [
            _draw_text(cut_name(name, letters), _place_tick(index, len(x), layout), bottom + 17, anchor="middle")
            for index, name in enumerate(x)
            if index % every == 0
        ]
    middle = (bottom + top) / 2
    parts.append(_draw_text(chart.x, (left + right) / 2, bottom + 36, "name", "middle"))
    if chart.y:
        parts.append(_draw_text(chart.y, 12, middle, "name", "middle", transform=f"rotate(-90 12 {middle})"))
    return parts


def _place_tick(index: float, ticks: int, layout: ChartLayout) -> float:
    left, right = layout.x
    return round(left + (index + 0.5) * (right - left) / max(ticks, 1), 1)


def _add_legend(chart: Chart, parts: Sequence[str], layout: ChartLayout) -> tuple[str, int]:
    left, bottom, across = layout.x[0], layout.y[0] + 46, max(1, layout.plane // ENTRY)
    lines = math.ceil(len(chart.series) / across) if len(chart.series) > 1 else 0
    return "".join(parts) + _draw_legend(chart.series, left, bottom, across), bottom + 18 * lines


def _draw_lines(chart: Chart, layout: ChartLayout) -> tuple[str, int]:
    y = Axis(_collect_values(chart), *layout.y, ticks=5)
    has_names = any(isinstance(value, str) for one in chart.series for value in one.x)
    ticks = list(dict.fromkeys(str(value) for one in chart.series for value in one.x)) if has_names else []
    across = Axis(
        [] if has_names else [float(value) for one in chart.series for value in one.x], *layout.x, layout.ticks
    )
    parts = _draw_axes(chart, ticks if has_names else across, y, layout)
    for index, one in enumerate(chart.series):
        shift = (index - (len(chart.series) - 1) / 2) * 0.06 if one.low else 0.0
        points = []
        for point, value in enumerate(one.y):
            if not math.isfinite(value):
                continue
            at = one.x[point]
            x = _place_tick(ticks.index(str(at)) + shift, len(ticks), layout) if has_names else across(float(at))
            points.append((x, y(value), point))
            if one.low and math.isfinite(one.low[point]):
                ends = {"y1": y(one.low[point]), "y2": y(one.high[point])}
                parts.append(_format_tag("line", x1=x, x2=x, **ends, stroke=_get_color(index)))
        path = " ".join(f"{x},{height}" for x, height, _ in points)
        parts.append(_format_tag("polyline", points=path, fill="none", stroke=_get_color(index), stroke_width=1.8))
        if len(points) <= LINE_DOTS or one.hrefs:
            for order, (x, height, point) in enumerate(points):
                look = {"cx": x, "cy": height, "r": 3.5, **_get_dot_style(index, one, point)}
                text = f"{chart.x} {one.x[point]}: {one.y[point]:.{chart.decimals + 2}f}".strip() if one.hrefs else ""
                parts.append(_draw_linked_dot(text, (one.hrefs or [""] * len(one.y))[point], order and -1, **look))
    return _add_legend(chart, parts, layout)


def _draw_scatter(chart: Chart, layout: ChartLayout) -> tuple[str, int]:
    start, end = layout.x
    x = Axis([float(value) for one in chart.series for value in one.x], start + JITTER, end - JITTER, layout.ticks)
    y = Axis(_collect_values(chart), *layout.y, ticks=5)
    parts = _draw_axes(chart, x, y, layout)
    look = {"r": 2.2, "opacity": 0.3} if chart.trend else {"r": 4.5, "opacity": 0.65}
    for index, one in enumerate(chart.series):
        across, up = np.array(one.x, dtype=np.float64), np.array(one.y, dtype=np.float64)
        valid = np.flatnonzero(np.isfinite(across) & np.isfinite(up))
        dots = pick_dots(valid, layout.dots)
        shifts = nudge(dots) * (JITTER if chart.trend else 0)
        for order, (point, shift) in enumerate(zip(dots.tolist(), shifts.tolist(), strict=True)):
            label = one.labels[point] if one.labels else ""
            at = {"cx": round(x(across[point]) + shift, 1), "cy": y(up[point])}
            href = one.hrefs[point] if one.hrefs else None
            parts.append(_draw_linked_dot(label, href, order and -1, **at, **look, fill=_get_color(index)))
            if one.names:
                left = at["cx"] > end - 40  # too close to the right edge
                side, anchor = (-7, "end") if left else (7, "start")
                parts.append(_draw_text(one.names[point], at["cx"] + side, at["cy"] + 4, anchor=anchor))
        if chart.trend:
            parts.append(_draw_trend(across[valid], up[valid], x, y))
    return _add_legend(chart, parts, layout)


def pick_dots(valid: np.ndarray, most: int) -> np.ndarray:
    """Return the indices of the dots to draw: all, or a random subset of ``most`` with a fixed seed."""
    return valid if len(valid) <= most else np.sort(np.random.default_rng(0).permutation(valid)[:most])


def nudge(indices: np.ndarray) -> np.ndarray:
    """Return a fixed shift from -0.5 to 0.5 for each dot, so that equal ratings do not hide each other."""
    # Multiplying by a prime modulo another prime spreads neighbors evenly, without random numbers.
    shifts: np.ndarray = (indices * 7919) % 101 / 101 - 0.5
    return shifts


def compute_trend(across: np.ndarray, up: np.ndarray) -> list[tuple[float, float]]:
    """Compute the mean of y in bins of x that have enough points.

    >>> compute_trend(np.repeat([0.0, 1.0], 50), np.repeat([2.0, 4.0], 50))
    [(0.0, 2.0), (1.0, 4.0)]
    """
    if not len(across) or np.ptp(across) == 0:
        return []
    step = np.minimum(BINS - 1, (BINS * (across - across.min()) / np.ptp(across)).astype(int))
    groups = [step == one for one in range(BINS) if (step == one).sum() >= CROWD]
    return [(float(across[one].mean()), float(up[one].mean())) for one in groups]


def _draw_trend(across: np.ndarray, up: np.ndarray, x: Axis, y: Axis) -> str:
    points = " ".join(f"{x(one)},{y(other)}" for one, other in compute_trend(across, up))
    if not points:
        return ""
    return _format_tag("polyline", points=points, fill="none", stroke="var(--s1)", stroke_width=2.5)


def _draw_histogram(chart: Chart, layout: ChartLayout) -> tuple[str, int]:
    x = Axis([float(edge) for one in chart.series for edge in one.x], *layout.x, layout.ticks)
    y = Axis([0.0, *_collect_values(chart)], *layout.y, ticks=5)
    parts = _draw_axes(chart, x, y, layout)
    for index, one in enumerate(chart.series):
        for point, value in enumerate(one.y):
            if not math.isfinite(value):
                continue
            left, right = x(float(one.x[point])), x(float(one.x[point + 1]))
            label = one.labels[point] if one.labels else f"{value:.{chart.decimals}f}"
            gap = 1.0 if right - left > 4 else 0.0
            size = {"width": round(right - left - gap, 1), "height": round(y(0.0) - y(value), 1)}
            parts.append(
                _format_tag(
                    "rect", _format_tag("title", escape(label)), x=left, y=y(value), **size, fill=_get_color(index)
                )
            )
    return _add_legend(chart, parts, layout)


# Functions that draw each kind of chart; they return the SVG and its height.
_DRAWINGS: dict[str, Callable[[Chart, ChartLayout], tuple[str, int]]] = {
    "intervals": _draw_intervals,
    "dots": _draw_dots,
    "bars": _draw_bars,
    "lines": _draw_lines,
    "scatter": _draw_scatter,
    "histogram": _draw_histogram,
}
