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

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from captious._core.types import Bools, Floats, Ints
from captious.stats.resampling import join_parts

# Draws worked on side by side: few enough for a processor's cache.
WIDTH = 32


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
    """The number of times that the pair occurs."""

    @classmethod
    def of(cls, values: Floats, human: Floats, item: Ints | None = None, cluster: Ints | None = None) -> Kendall:
        """Make the statistic of one value per item and one rating per row.

        Without ``item`` and ``cluster`` every row is its own.
        """
        item = np.arange(len(values)) if item is None else item
        cluster = np.arange(len(values)) if cluster is None else cluster
        x = np.unique(values, return_inverse=True)[1].astype(np.int64)
        distinct, level = np.unique(human, return_inverse=True)
        pairs, count = np.unique(item * len(distinct) + level, return_counts=True)
        rated, level = np.divmod(pairs, len(distinct))
        return cls(x, cluster, rated, level, count.astype(np.float64))

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """Compute both taus under each column of ``weights`` (clusters × draws); NaN if a side is constant."""
        return join_parts(
            [self.taus(part, self.surplus(part), self.tie_squares(part)) for part in split_draws(weights)]
        )

    def taus(self, weights: Floats, surplus: Floats, squares: Floats) -> dict[str, Floats]:
        """Compute both taus from C − D and the squares of the metric's tie groups."""
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
        """Compute C − D under each column of weights."""
        width = weights.shape[1]
        result = np.zeros(width)
        for bit in self.bits:
            running = _get_scratch("running", len(bit.without) + 1, width)
            running[0] = 0
            _copy_rows(weights, self.where[bit.without], running[1:])
            running[1:] *= self.count[bit.without, None]
            add_up_rows(running)
            having = _copy_rows(weights, self.where[bit.having], _get_scratch("having", len(bit.having), width))
            having *= self.count[bit.having, None]
            ends = running[bit.first] + running[bit.last]
            result -= np.einsum("bd,bd->d", np.add.reduceat(having, bit.blocks, axis=0), ends)
            around = _get_scratch("around", len(bit.having), width)
            result += np.einsum("rd,rd->d", having, _copy_rows(running, bit.below, around))
            result += np.einsum("rd,rd->d", having, _copy_rows(running, bit.upto, around))
        return result

    def tie_squares(self, weights: Floats) -> Floats:
        """Count the rows with the same metric value, square the counts, and add them up over values."""
        rows = self.rows_per_item
        alone, together, starts = self._tie_groups
        squares = np.bincount(self.cluster[alone], rows[alone] ** 2, minlength=len(weights)) @ weights**2
        if len(together):
            shared = _get_scratch("together", len(together), weights.shape[1])
            _copy_rows(weights, self.cluster[together], shared)
            shared *= rows[together, None]
            sums = np.add.reduceat(shared, starts, axis=0)
            squares += np.einsum("gd,gd->d", sums, sums)
        return np.asarray(squares, dtype=np.float64)

    def tie_rates(self) -> tuple[float, float]:
        """Return the share of row pairs tied in the metric, and of those tied in the ratings."""
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
        """Return the smaller number of distinct values drawn; metric values are counted until they are the more."""
        order = self._by_value
        edges = np.flatnonzero(np.diff(self.x[order], prepend=-1))
        distinct = np.zeros(weights.shape[1])
        for first in range(0, len(edges), 256):
            starts = edges[first : first + 256]
            end = edges[first + 256] if first + 256 < len(edges) else len(order)
            drawn = weights[self.cluster[order[starts[0] : end]]]
            distinct += (np.add.reduceat(drawn, starts - starts[0], axis=0) > 0).sum(axis=0)
            if (distinct >= levels).all():
                break
        return np.minimum(distinct, levels.astype(np.float64))

    @cached_property
    def where(self) -> Ints:
        """The cluster of each (item, rating) pair."""
        return self.cluster[self.item]

    @cached_property
    def rows_per_item(self) -> Floats:
        """The number of ratings of each item."""
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
    def bits(self) -> Sequence[RankBit]:
        """The orders of all bits in which ratings differ."""
        x = self.x[self.item]
        top = int(self.level.max()).bit_length() if len(self.level) else 0
        return [order for bit in range(top) if (order := _sort_by_bit(x, self.level, bit)) is not None]


@dataclass(frozen=True, eq=False)
class SplitKendall:
    """The taus under weights of 0 and 1, and those of the clusters that they leave out.

    C − D and the squares of tie groups are quadratic forms Q in the weights, so Q(1 − w) = Q(1) − w · ∇Q(1) + Q(w): the
    second half comes almost free.

    >>> tau = Kendall.of(np.array([1.0, 2.0, 4.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    >>> drawn, rest = SplitKendall.of(tau)(np.array([[1.0], [1.0], [0.0], [0.0]]))
    >>> drawn["tau_b"].tolist(), rest["tau_b"].tolist()
    ([1.0], [-1.0])
    """

    tau: Kendall
    pull: Floats
    """∇Q(1) of C − D: for each cluster the signs of its rows' pairs with all rows, added up."""
    tied: Floats
    """∇Q(1) of the squares of tie groups."""

    @classmethod
    def of(cls, tau: Kendall) -> SplitKendall:
        """Find both gradients."""
        shared = np.bincount(tau.x, tau.rows_per_item)[tau.x]
        clusters = int(tau.cluster.max()) + 1
        tied = np.bincount(tau.cluster, 2 * tau.rows_per_item * shared, clusters)
        pull = np.bincount(tau.where, _compute_surplus_by_row(tau) * tau.count, clusters)
        return cls(tau, np.asarray(pull, dtype=np.float64), np.asarray(tied, dtype=np.float64))

    def __call__(self, weights: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Compute both halves under each column of weights."""
        drawn, rest = [], []
        for part in split_draws(weights):
            surplus, squares = self.tau.surplus(part), self.tau.tie_squares(part)
            drawn.append(self.tau.taus(part, surplus, squares))
            left = surplus + (self.pull.sum() / 2 - self.pull @ part)
            rest.append(self.tau.taus(1 - part, left, squares + (self.tied.sum() / 2 - self.tied @ part)))
        return join_parts(drawn), join_parts(rest)


def _compute_surplus_by_row(tau: Kendall) -> Floats:
    """Count concordant less discordant pairs of each row with all rows."""
    top = 2 ** int(tau.level.max()).bit_length() - 1
    # Turned about, rows without a bit have it, so the second pass meets every pair from its other side.
    turned = replace(tau, x=int(tau.x.max()) - tau.x, level=top - tau.level)
    rows = np.zeros(len(tau.level))
    for side in (tau, turned):
        for bit in side.bits:
            running = np.append(0.0, np.cumsum(tau.count[bit.without]))
            sizes = np.diff(np.append(bit.blocks, len(bit.having)))
            ends = np.repeat(running[bit.first] + running[bit.last], sizes)
            rows[bit.having] += running[bit.below] + running[bit.upto] - ends
    return rows


class RankBit(NamedTuple):
    """One bit of the human rank: rows without it, rows with it, and indices of the latter into the running sum."""

    without: Ints
    having: Ints
    below: Ints
    """How many rows without the bit lie below the row's x, over all blocks so far."""
    upto: Ints
    """The same, counting those of equal x."""
    blocks: Ints
    """First row of each block of equal higher bits among those having the bit."""
    first: Ints
    last: Ints
    """Where each block begins and ends in the running sum."""


def _sort_by_bit(x: Ints, level: Ints, bit: int) -> RankBit | None:
    """Sort the rows by one bit, for all draws; None if no two rows differ in it."""
    order = np.lexsort((x, level >> (bit + 1)))
    block, has = level[order] >> (bit + 1), (level[order] >> bit) & 1 == 1
    indices = np.append(0, np.cumsum(~has))
    new_block = np.diff(block, prepend=-1) != 0
    first, last = _find_edges(new_block)
    group_first, group_last = _find_edges(new_block | (np.diff(x[order], prepend=-1) != 0))
    mine = block[has]
    if not len(mine) or has.all():
        return None
    starts = np.flatnonzero(np.diff(mine, prepend=-1))
    here = np.flatnonzero(has)[starts]
    return RankBit(
        order[~has],
        order[has],
        indices[group_first[has]],
        indices[group_last[has]],
        starts,
        indices[first[here]],
        indices[last[here]],
    )


def _find_edges(new: Bools) -> tuple[Ints, Ints]:
    """Return the first row of every row's run, and the one after its last."""
    starts = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    return starts[run], np.append(starts[1:], len(new))[run]


_buffers = threading.local()


def _get_scratch(name: str, rows: int, width: int) -> Floats:
    """Return an uninitialized array of this thread: asking for fresh memory at every step took longer than the sums."""
    size = rows * width
    buffer: Floats | None = getattr(_buffers, name, None)
    if buffer is None or len(buffer) < size:
        buffer = np.empty(size)
        setattr(_buffers, name, buffer)
    return buffer[:size].reshape(rows, width)


def _copy_rows(source: Floats, rows: Ints, target: Floats) -> Floats:
    """Copy rows into the target."""
    # Without a mode that cannot fail, numpy buffers the output.
    np.take(source, rows, axis=0, out=target, mode="clip")
    return target


def add_up_rows(rows: Floats, step: int = 32) -> None:
    """Replace rows by their running sums down the columns, in place.

    The sums of each ``step`` rows first, whole rows at a time, then those of the steps: down a column one by one
    numpy takes four times as long.
    """
    complete = len(rows) // step * step
    parts = rows[:complete].reshape(-1, step, rows.shape[1])
    for row in range(1, step):
        parts[:, row] += parts[:, row - 1]
    if len(parts) > 1:
        before = np.cumsum(parts[:-1, -1], axis=0)
        parts[1:] += before[:, None, :]
    rest = rows[complete:]
    if len(rest):
        if complete:
            rest[0] += rows[complete - 1]
        np.cumsum(rest, axis=0, out=rest)


def split_draws(weights: Floats) -> list[Floats]:
    """Split the draws into parts that fit the processor's cache."""
    starts = range(0, weights.shape[1], WIDTH)
    return [np.ascontiguousarray(weights[:, first : first + WIDTH]) for first in starts]
