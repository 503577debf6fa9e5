"""Kendall's tau under weights, without sorting again for every draw.

A resample of images gives every row an integer weight. With x the metric and y the human rating,

    C − D = Σ over pairs of w_i w_j sign(x_i − x_j) sign(y_i − y_j)

is taken apart by the bits of y's rank. Two ratings differ first in one bit, so every pair with y_i > y_j is met once:
under the same higher bits, i having the bit and j not. Sorted by (higher bits, x), what such a row adds is the
cumulative weight of the rows without the bit below its x less that above it. The order of every bit is found once; a
draw costs a few passes over the rows for each of ⌈log₂ levels⌉ bits, and draws stand side by side in a matrix. All
sums are whole numbers below 2⁵³, so the result is exactly that of counting pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from captious.measurement import Floats
from captious.study.bits import Bit, Ints, bit_order
from captious.study.workbench import Workbench, accumulate, joined, narrow


@dataclass(frozen=True, eq=False)
class Kendall:
    """Tau-b and tau-c of one metric with one set of ratings, for any number of weightings of the clusters.

    Row r has the metric value of item ``item[r]`` and the human rating ``human[r]``; item i is drawn with its cluster
    ``cluster[i]``.

        τ-b = (C − D) / √((n₀ − n₁)(n₀ − n₂))        τ-c = 2 (C − D) / (n² (k − 1) / k)

    with n₀ = n (n − 1) / 2, n₁ and n₂ the pairs tied in the metric and in the ratings, k the smaller number of
    distinct values. The same as ``scipy.stats.kendalltau`` on the rows written out.

    >>> tau = Kendall.of(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0]))
    >>> tau(np.ones((4, 1)))["tau_b"].round(6).tolist()  # 5 pairs agree, 1 does not: 4 / 6
    [0.666667]
    """

    x: Ints
    """Rank of each item's value among the distinct ones."""
    cluster: Ints
    item: Ints
    level: Ints
    """Rank of each distinct (item, rating) pair's rating."""
    count: Floats
    """How often that pair occurs."""

    @classmethod
    def of(cls, values: Floats, human: Floats, item: Ints | None = None, cluster: Ints | None = None) -> Kendall:
        """From one value per item and one rating per row; without ``item`` and ``cluster`` every row is its own."""
        item = np.arange(len(values)) if item is None else item
        cluster = np.arange(len(values)) if cluster is None else cluster
        x = np.unique(values, return_inverse=True)[1].astype(np.int64)
        distinct, level = np.unique(human, return_inverse=True)
        pairs, count = np.unique(item * len(distinct) + level, return_counts=True)
        found, level = np.divmod(pairs, len(distinct))
        return cls(x, cluster, found, level, count.astype(np.float64))

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """Both taus under each column of ``weights`` (clusters × draws); NaN where a side is constant."""
        return joined([self.taus(part, self.surplus(part), self.tie_squares(part)) for part in narrow(weights)])

    def taus(self, weights: Floats, surplus: Floats, squares: Floats) -> dict[str, Floats]:
        """Both taus from C − D and the squares of the metric's tie groups."""
        total = self._per_level(weights)
        n = total.sum(axis=0)
        pairs = n * (n - 1) / 2
        tied_metric, tied_human = (squares - n) / 2, (total * (total - 1)).sum(axis=0) / 2
        k = self._distinct(weights, np.count_nonzero(total, axis=0))
        with np.errstate(invalid="ignore", divide="ignore"):
            # Two roots, as scipy takes them: the product of the counts may exceed 2⁵³.
            tau_b = surplus / np.sqrt(pairs - tied_metric) / np.sqrt(pairs - tied_human)
            tau_c = np.where(k > 1, 2 * surplus * k / (n * n * (k - 1)), np.nan)
        # The roots of a perfect tau may round to a little more than one.
        return {"tau_b": np.clip(np.where(np.isfinite(tau_b), tau_b, np.nan), -1, 1), "tau_c": np.clip(tau_c, -1, 1)}

    def surplus(self, weights: Floats) -> Floats:
        """C − D under each column of weights."""
        bench = Workbench(weights.shape[1])
        result = np.zeros(weights.shape[1])
        for bit in self.bits:
            running = bench.array("running", len(bit.without) + 1)
            running[0] = 0
            bench.take(weights, self.where[bit.without], running[1:])
            running[1:] *= self.count[bit.without, None]
            accumulate(running)
            having = bench.take(weights, self.where[bit.having], bench.array("having", len(bit.having)))
            having *= self.count[bit.having, None]
            ends = running[bit.first] + running[bit.last]
            result -= np.einsum("bd,bd->d", np.add.reduceat(having, bit.blocks, axis=0), ends)
            around = bench.array("around", len(bit.having))
            result += np.einsum("rd,rd->d", having, bench.take(running, bit.below, around))
            result += np.einsum("rd,rd->d", having, bench.take(running, bit.upto, around))
        return result

    def tie_squares(self, weights: Floats) -> Floats:
        """Rows with the same metric value, counted and squared, added up over values."""
        rows = self.rows_per_item
        alone, together, starts = self._tie_groups
        squares = np.bincount(self.cluster[alone], rows[alone] ** 2, minlength=len(weights)) @ weights**2
        if len(together):
            bench = Workbench(weights.shape[1])
            shared = bench.take(weights, self.cluster[together], bench.array("together", len(together)))
            shared *= rows[together, None]
            sums = np.add.reduceat(shared, starts, axis=0)
            squares += np.einsum("gd,gd->d", sums, sums)
        return np.asarray(squares, dtype=np.float64)

    def tie_rates(self) -> tuple[float, float]:
        """The share of row pairs tied in the metric, and that tied in the ratings."""
        ones = np.ones((int(self.cluster.max()) + 1, 1))
        total = self._per_level(ones)
        pairs = total.sum() * (total.sum() - 1) / 2
        metric, human = self.tie_squares(ones)[0], (total * total).sum()
        return float((metric - total.sum()) / 2 / pairs), float((human - total.sum()) / 2 / pairs)

    def _per_level(self, weights: Floats) -> Floats:
        result: Floats = self._level_table(len(weights)) @ weights
        return result

    def _level_table(self, clusters: int) -> Floats:
        levels = int(self.level.max()) + 1
        flat = np.bincount(self.level * clusters + self.where, self.count, levels * clusters)
        return np.asarray(flat, dtype=np.float64).reshape(levels, clusters)

    def _distinct(self, weights: Floats, levels: Ints) -> Floats:
        """The smaller number of distinct values drawn; metric values are counted only until they are the more."""
        order = self._by_value
        edges = np.flatnonzero(np.diff(self.x[order], prepend=-1))
        seen = np.zeros(weights.shape[1])
        for first in range(0, len(edges), 256):
            starts = edges[first : first + 256]
            end = edges[first + 256] if first + 256 < len(edges) else len(order)
            drawn = weights[self.cluster[order[starts[0] : end]]]
            seen += (np.add.reduceat(drawn, starts - starts[0], axis=0) > 0).sum(axis=0)
            if (seen >= levels).all():
                break
        return np.minimum(seen, levels.astype(np.float64))

    @cached_property
    def where(self) -> Ints:
        """The cluster of each (item, rating) pair."""
        return self.cluster[self.item]

    @cached_property
    def rows_per_item(self) -> Floats:
        """How many ratings each item has."""
        return np.asarray(np.bincount(self.item, self.count, minlength=len(self.x)), dtype=np.float64)

    @cached_property
    def _by_value(self) -> Ints:
        rated = np.flatnonzero(self.rows_per_item)
        return rated[np.argsort(self.x[rated], kind="stable")]

    @cached_property
    def _tie_groups(self) -> tuple[Ints, Ints, Ints]:
        """Items whose value is their own, those who share theirs in order of it, and where each such group begins."""
        order = self._by_value
        shared = np.bincount(self.x[order])[self.x[order]] > 1
        together = order[shared]
        return order[~shared], together, np.flatnonzero(np.diff(self.x[together], prepend=-1))

    @cached_property
    def bits(self) -> Sequence[Bit]:
        """The orders of all bits in which ratings differ."""
        x = self.x[self.item]
        top = int(self.level.max()).bit_length() if len(self.level) else 0
        return [found for bit in range(top) if (found := bit_order(x, self.level, bit)) is not None]
