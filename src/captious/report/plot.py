"""Small pictures for pages, as SVG that follows the page's colors: intervals, lines, bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

LEFT, RIGHT, WIDTH, STEP = 230, 60, 1000, 34
LEGEND = 38
"""Letters that fit beside a picture of lines."""
COLORS = ("#2f6fb2", "#d9730d", "#168a64", "#b04a91", "#7a6a00", "#3aa0c9", "#c2403a", "#6b7280")


class Axis:
    """Values to pixels from left to right, with round ticks."""

    def __init__(self, low: float, high: float) -> None:
        rough = max(high - low, 1e-9) / 6
        power = 10.0 ** math.floor(math.log10(rough))
        self.step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough)
        self.low = math.floor(low / self.step) * self.step
        self.high = math.ceil(high / self.step) * self.step

    def at(self, value: float) -> float:
        """The place of a value."""
        share = (value - self.low) / (self.high - self.low or 1.0)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def ticks(self, bottom: int) -> list[str]:
        """Lines with numbers beneath."""
        places = [self.low + step * self.step for step in range(round((self.high - self.low) / self.step) + 1)]
        return [
            f'<line x1="{self.at(value)}" x2="{self.at(value)}" y1="8" y2="{bottom}" stroke="var(--line)"/>'
            f'<text x="{self.at(value)}" y="{bottom + 18}" text-anchor="middle" fill="var(--soft)">{value:g}</text>'
            for value in places
        ]


def svg(title: str, parts: Sequence[str], height: int) -> str:
    """A picture as wide as the page."""
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


def label(name: str, y: float) -> str:
    """The name of a row, shortened where it is long."""
    return f'<text x="0" y="{y + 4}" fill="var(--ink)">{escape(shortened(name, 32))}</text>'


def shortened(name: str, most: int) -> str:
    """A long name without its middle: what tells rows apart often stands at the end.

    >>> shortened("captious-mini-specs, image → caption", 24)
    'captious-mi…ge → caption'
    """
    if len(name) <= most:
        return name
    head = (most - 1) // 2
    return f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"


class Mark(NamedTuple):
    """A value with its interval; NaN where there is none."""

    name: str
    value: float
    low: float = float("nan")
    high: float = float("nan")


def intervals(groups: Mapping[str, Sequence[Mark]], title: str, reference: float | None = None) -> str:
    """A point and a line per row, a color per group; the reference, such as chance, is a dashed line."""
    marks = [mark for group in groups.values() for mark in group]
    ends = [end for mark in marks for end in (mark.value, mark.low, mark.high) if not math.isnan(end)]
    ends += [] if reference is None else [reference]
    axis = Axis(min(ends, default=0.0), max(ends, default=1.0))
    bottom = 30 + len(marks) * STEP
    parts = axis.ticks(bottom)
    if reference is not None:
        x = axis.at(reference)
        parts.append(
            f'<line x1="{x}" x2="{x}" y1="8" y2="{bottom}" stroke="var(--soft)" stroke-dasharray="4 3"/>'
            f'<text x="{x + 5}" y="14" fill="var(--soft)">chance</text>'
        )
    y = 30.0
    for number, group in enumerate(groups.values()):
        color = COLORS[number % len(COLORS)]
        for mark in group:
            parts.append(label(mark.name, y))
            if math.isnan(mark.value):
                y += STEP
                continue
            if not math.isnan(mark.low):
                parts.append(
                    f'<line x1="{axis.at(mark.low)}" x2="{axis.at(mark.high)}" y1="{y}" y2="{y}" stroke="{color}" '
                    'stroke-width="3" stroke-linecap="round"/>'
                )
            parts.append(
                f'<circle cx="{axis.at(mark.value)}" cy="{y}" r="6" fill="{color}"/>'
                f'<text x="{WIDTH}" y="{y + 4}" text-anchor="end" fill="var(--ink)">{mark.value:.1f}</text>'
            )
            y += STEP
    return svg(title, parts, bottom + 26)


def lines(
    series: Mapping[str, Sequence[float]], places: Sequence[str], title: str, reference: float | None = None
) -> str:
    """One line per series over named places; a gap where a value is NaN."""
    known = [value for values in series.values() for value in values if not math.isnan(value)]
    known += [] if reference is None else [reference]
    axis, top, bottom = Axis(min(known, default=0.0), max(known, default=1.0)), 16, 260
    left, right = 60, 690

    def x(place: int) -> float:
        return round(left + (place + 0.5) * (right - left) / max(len(places), 1), 1)

    def y(value: float) -> float:
        return round(bottom - (value - axis.low) / (axis.high - axis.low or 1.0) * (bottom - top), 1)

    parts = []
    for step in range(round((axis.high - axis.low) / axis.step) + 1):
        value = axis.low + step * axis.step
        parts.append(
            f'<line x1="{left}" x2="{right}" y1="{y(value)}" y2="{y(value)}" stroke="var(--line)"/>'
            f'<text x="{left - 8}" y="{y(value) + 4}" text-anchor="end" fill="var(--soft)">{value:g}</text>'
        )
    if reference is not None:
        parts.append(
            f'<line x1="{left}" x2="{right}" y1="{y(reference)}" y2="{y(reference)}" '
            'stroke="var(--soft)" stroke-dasharray="4 3"/>'
        )
    parts += [
        f'<text x="{x(place)}" y="{bottom + 20}" text-anchor="middle" fill="var(--soft)">{escape(name)}</text>'
        for place, name in enumerate(places)
    ]
    for number, (name, values) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        points = [f"{x(place)},{y(value)}" for place, value in enumerate(values) if not math.isnan(value)]
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="3.5" fill="{color}"/>' for p in points]
        parts.append(
            f'<rect x="{right + 20}" y="{16 + 20 * number}" width="10" height="10" rx="2" fill="{color}"/>'
            f'<text x="{right + 36}" y="{25 + 20 * number}" fill="var(--ink)">{escape(shortened(name, LEGEND))}</text>'
        )
    return svg(title, parts, max(bottom + 34, 24 + 20 * len(series)))
