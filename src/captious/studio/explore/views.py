"""Views: what is looked at, as the address holds it, and the items that it lists, in order.

An address names metrics by their written form and systems by their name, so that a link works on any computer with the
same runs. Orders and filters are computed once and kept for the pages that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from captious._typing import Bools, Floats, Ints32
from captious.errors import InputError
from captious.studio.explore.expression import matching
from captious.studio.explore.table import Joined, any_of, mean_over

T = TypeVar("T")
ORDERS = ("worst", "best", "gap", "between", "disagree", "raters", "shortest", "longest", "given")
"""``gap``: largest difference between systems. ``between``: one system right, another wrong. ``disagree``: largest
difference in rank between two metrics. ``raters``: largest difference between raters."""
CORNERS = 200
"""Of a lasso."""
DECIMALS = 6
"""Values that differ by less share their place: smoothing tells apart what is 0."""
KEPT = 64
"""Orders and filters that are kept."""


@dataclass(frozen=True)
class View:
    """What is looked at. Scores and systems are numbers of the table's."""

    score: int
    order: str = "worst"
    system: int | None = None
    """None: all systems, by their mean."""
    query: str = ""
    where: str = ""
    """The filter expression."""
    low: float | None = None
    high: float | None = None
    unscored: bool = False
    x: int = 0
    y: int = 0
    """The two scores that a chart sets against each other, and whose ranks ``disagree`` compares."""
    better: int = 0
    worse: int = 0
    """The systems that ``between`` compares."""
    lasso: tuple[tuple[float, float], ...] = ()
    """Corners of a polygon over the scores ``x`` and ``y``; at least three."""


def view_of(table: Joined, address: Mapping[str, str]) -> View:
    """The view of an address; names that the table lacks and numbers that are none are refused."""
    score = _score(table, address.get("sort"), _default_score(table))
    x, y = _first_pair(table, score)
    order = address.get("order") or "worst"
    if order not in ORDERS:
        raise InputError(f"order {order!r}, expected {', '.join(ORDERS)}")
    return View(
        score=score,
        order=order,
        system=_system(table, address.get("system")),
        query=address.get("q", ""),
        where=address.get("where", ""),
        low=_number(address, "min"),
        high=_number(address, "max"),
        unscored=address.get("unscored") == "1",
        x=_score(table, address.get("x"), x),
        y=_score(table, address.get("y"), y),
        better=_either(_system(table, address.get("better")), 0),
        worse=_either(_system(table, address.get("worse")), min(1, len(table.systems) - 1)),
        lasso=_polygon(address.get("lasso", "")),
    )


def _default_score(table: Joined) -> int:
    """The last metric: what people said is not what is judged."""
    return max(place for place, score in enumerate(table.scores) if score.kind == "metric")


def _first_pair(table: Joined, score: int) -> tuple[int, int]:
    """Two metrics against each other, or the score that sorts against what people said: as the page begins."""
    kinds = [one.kind for one in table.scores]
    if "rating" in kinds:
        return _default_score(table) if kinds[score] == "rating" else score, kinds.index("rating")
    return max(0, len(kinds) - 2), len(kinds) - 1


def _either(value: int | None, default: int) -> int:
    return default if value is None else value


def _score(table: Joined, key: str | None, default: int) -> int:
    if not key:
        return default
    keys = [score.key for score in table.scores]
    if key not in keys:
        raise InputError(f"no score {key!r}, expected {', '.join(keys)}")
    return keys.index(key)


def _system(table: Joined, name: str | None) -> int | None:
    if not name:
        return None
    if name not in table.systems:
        raise InputError(f"no system {name!r}, expected {', '.join(table.systems)}")
    return table.systems.index(name)


def _number(address: Mapping[str, str], key: str) -> float | None:
    text = address.get(key, "")
    try:
        value = float(text) if text else None
    except ValueError:
        raise InputError(f"{key}={text[:40]!r}, expected a number") from None
    if value is not None and not np.isfinite(value):
        raise InputError(f"{key}={text[:40]!r}, expected a finite number")
    return value


def _polygon(text: str) -> tuple[tuple[float, float], ...]:
    """Corners written as ``x,y;x,y;…``.

    >>> _polygon("0,1;2,3;4,0")
    ((0.0, 1.0), (2.0, 3.0), (4.0, 0.0))
    """
    if not text:
        return ()
    try:
        corners = tuple((float(x), float(y)) for x, y in (part.split(",") for part in text.split(";")))
    except ValueError:
        raise InputError("lasso: expected corners such as 0.1,2;0.4,3;0.2,5") from None
    if not 3 <= len(corners) <= CORNERS or not np.isfinite(corners).all():
        raise InputError(f"lasso: {len(corners)} corners, expected 3 to {CORNERS}, each two finite numbers")
    return corners


@dataclass(eq=False)
class Explorer:
    """A table with the orders and filters that have been asked for."""

    table: Joined
    _kept: dict[Any, Any] = field(default_factory=dict)
    _facts: dict[Any, Any] = field(default_factory=dict)
    """What does not depend on the view."""
    _lock: Lock = field(default_factory=Lock)

    def selection(self, view: View) -> Ints32:
        """The items that a view lists, in its order."""
        mask = self.mask(view)
        order = self.order(view)
        return order if mask is None else order[mask[order]]

    def systems(self, view: View) -> list[int]:
        """The systems that a view considers."""
        return list(range(len(self.table.systems))) if view.system is None else [view.system]

    def order(self, view: View) -> Ints32:
        """All items in the order of a view; those without the value that sorts them come last."""
        higher = self.table.scores[view.score].higher
        ascending = view.order in ("shortest", "given") or view.order == ("worst" if higher else "best")
        key = ("order", *_sorted_by(view))
        return self._once(key, lambda: sorted_items(self.sort_values(view) * (1 if ascending else -1)))

    def sort_values(self, view: View) -> Floats:
        """The number that a view sorts each item by, such as the difference between its raters."""
        return self._once(("values", *_sorted_by(view)), lambda: self._sort_values(view))

    def _sort_values(self, view: View) -> Floats:
        table, systems = self.table, self.systems(view)
        if view.order in ("worst", "best"):
            return table.values_of(view.score, systems)
        if view.order == "gap":
            return _spread([values[view.score] for values in table.values])
        if view.order == "between":
            sign = 1.0 if table.scores[view.score].higher else -1.0
            return sign * (table.values[view.better][view.score] - table.values[view.worse][view.score])
        if view.order == "disagree":
            return mean_over([self.rank_gap(system, view.x, view.y) for system in systems])
        if view.order == "raters":
            return _largest([table.gaps[system] for system in systems] if table.gaps else [np.full(len(table), np.nan)])
        if view.order in ("shortest", "longest"):
            return mean_over([table.words[system] for system in systems])
        return np.zeros(len(table))

    def rank_gap(self, system: int, x: int, y: int) -> Floats:
        """How far apart the ranks of an item by two scores are, as a share of all; NaN without both."""
        return self._once(("ranks", system, x, y), lambda: self._rank_gap(system, x, y))

    def _rank_gap(self, system: int, x: int, y: int) -> Floats:
        columns = [
            self.table.values[system][score] * (1 if self.table.scores[score].higher else -1) for score in (x, y)
        ]
        both = ~(np.isnan(columns[0]) | np.isnan(columns[1]))
        result = np.full(len(self.table), np.nan)
        if both.sum() > 1:
            first, second = (mid_ranks(column[both]) for column in columns)
            result[both] = np.abs(first - second) / (both.sum() - 1)
        return result

    def rho(self, system: int, x: int, y: int) -> float | None:
        """Spearman's rho between two scores of a system."""
        x, y = sorted((x, y))
        values = self.table.values[system]
        if (system, x, y) not in self._facts:
            self._facts[system, x, y] = spearman(values[x], values[y])
        rho: float | None = self._facts[system, x, y]
        return rho

    def agreement(self) -> list[list[list[float | None]]]:
        """For each system Spearman's rho between all scores."""
        scores = range(len(self.table.scores))
        return [
            [[1.0 if x == y else self.rho(system, x, y) for y in scores] for x in scores]
            for system in range(len(self.table.systems))
        ]

    def share_below(self, system: int, score: int, value: float) -> float:
        """The share of items, in per cent, whose value is smaller."""
        if (system, score) not in self._facts:
            self._facts[system, score] = np.sort(_present(self.table.values[system][score]).round(DECIMALS))
        ordered = self._facts[system, score]
        return 100 * float(np.searchsorted(ordered, round(value, DECIMALS))) / max(1, len(ordered))

    def mask(self, view: View) -> Bools | None:
        """Which items pass the filters of a view; None where it has none."""
        masks = [self._once(("term", term), partial(self._mentions, term)) for term in view.query.lower().split()[:20]]
        if captions := self.captions(view):
            masks.append(np.logical_or.reduce(list(captions.values())))
        return np.logical_and.reduce(masks) if masks else None

    def captions(self, view: View) -> dict[int, Bools]:
        """By system, of which items its caption passes all filters on captions; empty where there is no such filter."""
        masks = {system: self._caption_masks(view, system) for system in self.systems(view)}
        return {system: np.logical_and.reduce(own) for system, own in masks.items() if own}

    def _caption_masks(self, view: View, system: int) -> list[Bools]:
        table, values, masks = self.table, self.table.values[system], []
        if where := view.where.strip():
            masks.append(self._once(("where", where, system), partial(matching, table, where, system)))
        if view.low is not None or view.high is not None:
            low = -np.inf if view.low is None else view.low
            high = np.inf if view.high is None else view.high
            masks.append((values[view.score] >= low) & (values[view.score] <= high))
        if view.unscored:
            metrics = [place for place, score in enumerate(table.scores) if score.kind == "metric"]
            masks.append(np.logical_or.reduce([np.isnan(values[metric]) for metric in metrics]))
        if view.lasso:
            key = ("lasso", view.lasso, view.x, view.y, system)
            masks.append(self._once(key, partial(inside, values[view.x], values[view.y], view.lasso)))
        return masks

    def _mentions(self, term: str) -> Bools:
        """Which items have a word in their id, a caption or a reference."""
        import pyarrow as pa
        import pyarrow.compute as pc

        def matches(texts: Any) -> Bools:
            found: Bools = pc.fill_null(pc.match_substring(texts, term, ignore_case=True), False).to_numpy(False)
            return found

        table = self.table
        result = matches(pa.array(table.ids, pa.string()))
        for column in (*table.captions, table.references):
            result = result | any_of(column, matches(column.flatten()))
        return result

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        """What ``make`` returns; the results that were used last are kept."""
        with self._lock:
            known = key in self._kept
            value: Any = self._kept.pop(key, None)
        value = value if known else make()
        with self._lock:
            self._kept[key] = value
            while len(self._kept) > KEPT:
                self._kept.pop(next(iter(self._kept)))
        result: T = value
        return result


def _sorted_by(view: View) -> tuple[Any, ...]:
    """All that an order depends on."""
    pair = {"between": (view.better, view.worse), "disagree": (view.x, view.y)}
    return view.order, view.score, view.system, *pair.get(view.order, ())


def _present(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def sorted_items(keys: Floats) -> Ints32:
    """Items by their key, the smallest first; equal ones in the order given, those without a key last.

    >>> sorted_items(np.array([2.0, np.nan, 1.0, 2.0])).tolist()
    [2, 0, 3, 1]
    """
    return np.argsort(keys, kind="stable").astype(np.int32)


def mid_ranks(values: Floats) -> Floats:
    """Ranks from 0; equal values share the mean of theirs.

    >>> mid_ranks(np.array([5.0, 1.0, 5.0, 9.0])).tolist()
    [1.5, 0.0, 1.5, 3.0]
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle: Floats = np.cumsum(counts) - (counts + 1) / 2
    return middle[inverse]


def spearman(x: Floats, y: Floats) -> float | None:
    """Spearman's rho of two columns over the items that both have; None where one is constant.

    >>> round(spearman(np.array([1.0, 2.0, 3.0, np.nan]), np.array([1.0, 3.0, 2.0, 5.0])), 3)
    0.5
    """
    both = ~(np.isnan(x) | np.isnan(y))
    if both.sum() < 2:
        return None
    first, second = mid_ranks(x[both]), mid_ranks(y[both])
    first, second = first - first.mean(), second - second.mean()
    scale = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / scale if scale else None


def _largest(columns: Sequence[Floats]) -> Floats:
    stacked = np.stack(columns)
    return np.where(np.isnan(stacked).all(axis=0), np.nan, np.nan_to_num(stacked, nan=-np.inf).max(axis=0))


def _spread(columns: Sequence[Floats]) -> Floats:
    """The largest minus the smallest value of each item; NaN where fewer than two have one."""
    stacked = np.stack(columns)
    high = np.nan_to_num(stacked, nan=-np.inf).max(axis=0)
    low = np.nan_to_num(stacked, nan=np.inf).min(axis=0)
    several = (~np.isnan(stacked)).sum(axis=0) > 1
    return np.where(several, high - np.where(several, low, 0.0), np.nan)


def inside(x: Floats, y: Floats, corners: Sequence[tuple[float, float]]) -> Bools:
    """Which points lie in a polygon: a ray from one crosses its edges an odd number of times.

    >>> inside(np.array([1.0, 3.0, np.nan]), np.array([1.0, 1.0, 1.0]), [(0, 0), (2, 0), (2, 2), (0, 2)]).tolist()
    [True, False, False]
    """
    result = np.zeros(len(x), dtype=np.bool_)
    for (x1, y1), (x2, y2) in zip(corners, [*corners[1:], corners[0]], strict=True):
        if y1 == y2:
            continue
        crosses = ((y1 > y) != (y2 > y)) & (x < (x2 - x1) * (y - y1) / (y2 - y1) + x1)
        result ^= crosses
    return result & ~np.isnan(x) & ~np.isnan(y)
