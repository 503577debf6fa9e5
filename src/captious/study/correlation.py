"""Pearson, Spearman and coefficients of determination under weights, over rows or between systems."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from captious.measurement import Floats
from captious.study.bits import Ints
from captious.study.kendall import Kendall
from captious.study.workbench import narrow


@dataclass(frozen=True, eq=False)
class Moments:
    """Everything that first and second moments give, from seven sums per image.

    With m the metric and h the ratings, brought to 0..1 by their scale (by the lowest and highest where none is
    declared):

        pearson                       r2 = 1 − Σ(h − m)² / Σ(h − h̄)²
        one_minus_r2 = Σ(m − h)² / Σ(m − m̄)²      r2_fitted = pearson², the r2 after the best straight line

    ``one_minus_r2`` is what the SPECS table prints: only a total sum of squares of the *metric* gives its values.

    >>> two = Moments.of(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0]), np.arange(3), 3)(np.ones((3, 1)))
    >>> round(float(two["pearson"][0]), 6), round(float(two["one_minus_r2"][0]), 6)  # Σ(m−h)² = 1, Σ(m−m̄)² = 2/3
    (0.5, 1.5)
    """

    sums: Floats
    """Seven rows over images: number, x, y, xx, xy, yy about the means, and the squared difference m − h."""

    @classmethod
    def of(
        cls, values: Floats, human: Floats, cluster: Ints, clusters: int, scale: tuple[float, float] | None = None
    ) -> Moments:
        """From one value and one rating per row."""
        low, high = scale or (float(human.min()), float(human.max()))
        unit = (human - low) / ((high - low) or 1.0)
        x, y = values - values.mean(), unit - unit.mean()
        parts = [np.ones(len(x)), x, y, x * x, x * y, y * y, (values - unit) ** 2]
        return cls(np.stack([np.bincount(cluster, part, minlength=clusters) for part in parts]))

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """All four under each column of weights; NaN where a side is constant."""
        n, x, y, xx, xy, yy, gap = self.sums @ weights
        with np.errstate(invalid="ignore", divide="ignore"):
            # What is left of a constant vector is rounding: a share of the sum of squares far below any real spread.
            spread_x, spread_y = xx - x * x / n, yy - y * y / n
            spread_x = np.where(spread_x > 1e-12 * (xx + 1e-300), spread_x, np.nan)
            spread_y = np.where(spread_y > 1e-12 * (yy + 1e-300), spread_y, np.nan)
            r = (xy - x * y / n) / np.sqrt(spread_x * spread_y)
            return {"pearson": r, "r2": 1 - gap / spread_y, "one_minus_r2": gap / spread_x, "r2_fitted": r * r}


@dataclass(frozen=True, eq=False)
class Spearman:
    """Pearson's correlation of ranks, equal values sharing the mean of theirs; ranks are those within each draw.

    >>> tau = Kendall.of(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0]))
    >>> Spearman(tau)(np.ones((4, 1)))["spearman"].tolist()  # 1 − 6 · 2 / (4 · 15)
    [0.8]
    """

    rows: Kendall

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """Under each column of weights; NaN where a side is constant."""
        return {"spearman": np.concatenate([self._chunk(part) for part in narrow(weights)])}

    def _chunk(self, weights: Floats) -> Floats:
        rows = self.rows
        drawn = weights[rows.cluster[rows.item]] * rows.count[:, None]
        n = drawn.sum(axis=0)
        order, starts, group = self._by_value
        x, x_squares = _mid_ranks(np.add.reduceat(drawn[order], starts, axis=0), n)
        order, starts, level = self._by_level
        y, y_squares = _mid_ranks(np.add.reduceat(drawn[order], starts, axis=0), n)
        with np.errstate(invalid="ignore", divide="ignore"):
            products = np.einsum("rd,rd,rd->d", drawn, x[group], y[level])
            found = products / np.sqrt(x_squares * y_squares)
        return np.where((x_squares > 0) & (y_squares > 0), found, np.nan)

    @cached_property
    def _by_value(self) -> tuple[Ints, Ints, Ints]:
        return _groups(self.rows.x[self.rows.item])

    @cached_property
    def _by_level(self) -> tuple[Ints, Ints, Ints]:
        return _groups(self.rows.level)


def _groups(keys: Ints) -> tuple[Ints, Ints, Ints]:
    """The order by key, where each key begins in it, and the place of every row's key among the keys."""
    order = np.argsort(keys, kind="stable")
    place = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    return order, np.flatnonzero(np.diff(keys[order], prepend=-1)), place


def _mid_ranks(sizes: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Mid-ranks of groups about their mean, and their sum of squares over rows."""
    ranks = np.cumsum(sizes, axis=0) - (sizes - 1) / 2 - (n + 1) / 2
    return ranks, np.einsum("gd,gd,gd->d", sizes, ranks, ranks)


@dataclass(frozen=True, eq=False)
class Systems:
    """Between systems: the correlation of their mean metric values and mean ratings (`system_tau` is tau-b)."""

    values: Floats
    human: Floats
    cluster: Ints
    clusters: int
    system: Ints

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """Under each column of weights; NaN where systems tie throughout or one was not drawn."""
        key, number = self.system * self.clusters + self.cluster, int(self.system.max()) + 1
        n, x, y = (
            np.bincount(key, part, minlength=number * self.clusters).reshape(number, -1) @ weights
            for part in (np.ones(len(key)), self.values, self.human)
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            x, y = x / n, y / n
            one, other = np.triu_indices(number, 1)
            signs = np.sign(np.round(x[one] - x[other], 12)), np.sign(np.round(y[one] - y[other], 12))
            both = np.sqrt((signs[0] ** 2).sum(axis=0) * (signs[1] ** 2).sum(axis=0))
            tau = (signs[0] * signs[1]).sum(axis=0) / both
            x, y = x - x.mean(axis=0), y - y.mean(axis=0)
            pearson = (x * y).sum(axis=0) / np.sqrt((x * x).sum(axis=0) * (y * y).sum(axis=0))
        return {"system_tau": tau, "system_pearson": pearson}
