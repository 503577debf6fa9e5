"""The log as a page of curves: one small SVG per number, in a file that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from captious._files import whole_file
from captious.train.loop import read

FILE = "curves.html"
WIDTH, HEIGHT, LEFT, BOTTOM = 520, 220, 64, 26
POINTS = 600
"""A longer curve shows the mean of neighbors."""

_STYLE = """
:root { --ink: #1c1e21; --soft: #6b7078; --line: #e3e5e8; --paper: #fff; --curve: #2b6cb0; --best: #b7791f }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --soft: #9aa0a6; --line: #33363b; --paper: #17181a; --curve: #7ab8f5; --best: #f0b95b } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 1120px; padding: 0 1rem }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(330px, 1fr)); gap: 1.5rem }
figure { margin: 0 } figcaption { font-weight: 600 } svg { width: 100%; height: auto } p { color: var(--soft) }
"""


def write(folder: Path, title: str, settings: Mapping[str, Any]) -> None:
    """Draw the log that is in the folder."""
    rows = read(folder)
    steps = [row for row in rows if "loss" in row]
    checks = [row for row in rows if "validation" in row]
    names = list(dict.fromkeys(key for row in steps for key in row if key not in ("step", "epoch")))
    figures = [
        _figure(f"validation: {name}", [(row["step"], row["validation"][name]) for row in checks], dots=True)
        for name in (checks[0]["validation"] if checks else ())
    ]
    figures += [_figure(name, _thinned([(row["step"], row[name]) for row in steps if name in row])) for name in names]
    told = ", ".join(f"{key} {value}" for key, value in settings.items())
    page = (
        f'<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>"
        f"<p>{len(steps)} steps. {escape(told)}</p><main>{''.join(figures)}</main>\n"
    )
    with whole_file(folder / FILE) as draft:
        draft.write_text(page, encoding="utf-8")


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    size = math.ceil(len(points) / POINTS)
    groups = [points[at : at + size] for at in range(0, len(points), max(size, 1))]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]


def _figure(name: str, points: Sequence[tuple[float, float]], dots: bool = False) -> str:
    points = [point for point in points if math.isfinite(point[1])]
    if not points:
        return ""
    low, high = min(y for _, y in points), max(y for _, y in points)
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    last = max(max(x for x, _ in points), 1)

    def at(point: tuple[float, float]) -> tuple[float, float]:
        x = LEFT + point[0] / last * (WIDTH - LEFT - 8)
        return round(x, 1), round(8 + (high - point[1]) / (high - low) * (HEIGHT - BOTTOM - 16), 1)

    parts = []
    for share in (0.0, 0.5, 1.0):
        value = low + share * (high - low)
        _, y = at((0, value))
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 8}" y1="{y}" y2="{y}" stroke="var(--line)"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end" fill="var(--soft)">{value:.4g}</text>')
    places = [at(point) for point in points]
    path = " ".join(f"{x},{y}" for x, y in places)
    parts.append(f'<polyline points="{path}" fill="none" stroke="var(--curve)" stroke-width="1.5"/>')
    if dots:
        best = max(range(len(points)), key=lambda number: points[number][1])
        for number, (x, y) in enumerate(places):
            color = "var(--best)" if number == best else "var(--curve)"
            parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{color}"/>')
    parts.append(f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end" fill="var(--soft)">step {last:g}</text>')
    label = escape(f"{name}: {points[0][1]:.4g} at first, {points[-1][1]:.4g} at last")
    return (
        f'<figure><figcaption>{escape(name)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{label}" font-size="12">{"".join(parts)}</svg></figure>'
    )
