"""The two pictures of the page, as SVG: intervals of LIC, and every seed's LIC_M and LIC_D."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from captious.report.plot import STEP, WIDTH, Axis, label, svg


def intervals(results: Sequence[Mapping[str, Any]]) -> str:
    """A point and a line per row, and the line of no difference."""
    ends = [row[key] for row in results for key in ("low", "high", "lic") if row[key] is not None]
    axis = Axis(min(0.0, *ends), max(0.0, *ends))
    parts = [f'<line x1="{axis.at(0)}" x2="{axis.at(0)}" y1="8" y2="{_bottom(results)}" stroke="var(--ink)"/>']
    for number, row in enumerate(results):
        y = 26 + number * STEP
        color = "var(--model)" if row["lic"] > 0 else "var(--human)"
        filled = color if row["differs_from_0"] else "var(--paper)"
        parts.append(_label(row, y))
        if row["low"] is not None:
            parts.append(
                f'<line x1="{axis.at(row["low"])}" x2="{axis.at(row["high"])}" y1="{y}" y2="{y}" stroke="{color}" '
                'stroke-width="3" stroke-linecap="round"/>'
            )
        parts.append(
            f'<circle cx="{axis.at(row["lic"])}" cy="{y}" r="6" fill="{filled}" stroke="{color}" stroke-width="2"/>'
            f'<text x="{WIDTH}" y="{y + 4}" text-anchor="end" fill="var(--ink)">{row["lic"]:+.1f}</text>'
        )
    return svg("LIC and its intervals", [*axis.ticks(_bottom(results)), *parts], _bottom(results) + 26)


def seeds(results: Sequence[Mapping[str, Any]], chance: float) -> str:
    """One dot per seed, a bar at the mean; model above, people below."""
    values = [seed[key] for row in results for seed in row["seeds"] for key in ("lic_m", "lic_d")]
    axis = Axis(min(chance, *values), max(chance, *values))
    bottom, x = _bottom(results), axis.at(chance)
    parts = [
        f'<line x1="{x}" x2="{x}" y1="8" y2="{bottom}" stroke="var(--soft)" stroke-dasharray="4 3"/>'
        f'<text x="{x + 5}" y="14" fill="var(--soft)">chance</text>'
        f'<text x="{WIDTH - 150}" y="14" fill="var(--model)">● model</text>'
        f'<text x="{WIDTH - 80}" y="14" fill="var(--human)">● people</text>'
    ]
    for number, row in enumerate(results):
        y = 26 + number * STEP
        parts.append(_label(row, y))
        for key, color, shift in (("lic_m", "var(--model)", -6), ("lic_d", "var(--human)", 6)):
            dots = "".join(
                f'<circle cx="{axis.at(seed[key])}" cy="{y + shift}" r="4" fill="{color}" opacity=".45"/>'
                for seed in row["seeds"]
            )
            mean = axis.at(row[key])
            parts.append(
                f'{dots}<line x1="{mean}" x2="{mean}" y1="{y + shift - 6}" y2="{y + shift + 6}" stroke="{color}" '
                'stroke-width="3"/>'
            )
    return svg("LIC_M and LIC_D of every seed", [*axis.ticks(bottom), *parts], bottom + 26)


def _bottom(results: Sequence[Any]) -> int:
    return 26 + len(results) * STEP


def _label(row: Mapping[str, Any], y: int) -> str:
    return label(f"{row['model']} · {row['classifier']}", y)
