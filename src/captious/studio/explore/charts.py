"""What the charts draw, for every system: counts, dots, means by length, and how well scores agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from captious.studio.explore.table import Joined
from captious.studio.explore.views import Explorer

DOTS = 8000
"""Dots of one system; all items are counted."""
BINS = 200
"""Most bars of a histogram."""
DIGITS = 5
"""Significant digits of what is drawn."""


def bounds(table: Joined, score: int) -> tuple[float, float] | None:
    """The smallest and the largest value of a score over all systems."""
    values = [column[score][~np.isnan(column[score])] for column in table.values]
    whole = np.concatenate(values)
    return (float(whole.min()), float(whole.max())) if len(whole) else None


def distribution(table: Joined, score: int, low: float, high: float, bins: int) -> list[dict[str, Any]]:
    """For each system how many items fall into each of the bins, and its mean."""
    result = []
    for columns in table.values:
        values = columns[score][~np.isnan(columns[score])]
        place = np.floor((values - low) / ((high - low) / bins) + 1e-9).astype(np.int64).clip(0, bins - 1)
        counts = np.bincount(place, minlength=bins)
        result.append({"counts": counts.tolist(), "mean": float(values.mean()) if len(values) else None})
    return result


def points(explorer: Explorer, x: int, y: int) -> list[dict[str, Any]]:
    """For each system the items by two scores, a part of them where they are many, and Spearman's rho over all."""
    table, result = explorer.table, []
    for system, columns in enumerate(table.values):
        both = np.flatnonzero(~(np.isnan(columns[x]) | np.isnan(columns[y])))
        shown = _thin(both)
        dots = [[table.ids[item], _short(columns[x][item]), _short(columns[y][item])] for item in shown.tolist()]
        result.append({"rho": explorer.rho(system, x, y), "dots": dots})
    return result


def _thin(items: Any) -> Any:
    """At most so many as are drawn, evenly spaced."""
    return items if len(items) <= DOTS else items[np.linspace(0, len(items) - 1, DOTS).astype(np.int64)]


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def lengths(table: Joined, score: int) -> dict[str, Any]:
    """A score by the number of words: the mean and the middle half of each length, and dots."""
    every = np.concatenate([words[~np.isnan(words)] for words in table.words])
    low, high = (0.0, 1.0)
    if len(every):
        most, usual = float(every.max()), float(np.quantile(every, 0.995))
        low = max(0.0, np.floor(every.min()) - 1)
        high = np.ceil(usual if most > 1.5 * usual else most) + 1
    size = max(1, int(np.ceil((high - low) / 18)))
    systems = [_by_length(table, system, score, high, size) for system in range(len(table.systems))]
    return {"domain": [low, high], "size": size, "systems": systems}


def _by_length(table: Joined, system: int, score: int, high: float, size: int) -> dict[str, Any]:
    words, values = table.words[system], table.values[system][score]
    present = ~(np.isnan(words) | np.isnan(values))
    short = present & (words <= high - 1)
    items = np.flatnonzero(short)
    bins = (words[items] // size).astype(np.int64)
    steps = []
    for place in np.unique(bins).tolist():
        own = values[items[bins == place]]
        quarter, three = np.quantile(own, (0.25, 0.75)).tolist()
        steps.append({"bin": place, "number": len(own), "center": float(own.mean()), "low": quarter, "high": three})
    shown = _thin(items).tolist()
    dots = [[table.ids[item], _short(words[item]), _short(values[item])] for item in shown]
    return {"beyond": int(present.sum() - short.sum()), "steps": steps, "dots": dots}
