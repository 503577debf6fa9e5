"""Draws of items, and paired tests from stored rows of statistics: nothing is computed again but sums.

Items are resampled, never captions or tokens. All numbers of a run share the same draws, so they and their differences
belong together. Draws belong to item ids, not to positions: the order of a file changes no interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from captious._core.types import Bools, Floats, Ints
from captious.options import LEVEL, SAMPLES, SEED, Interval

# Draws held in memory at a time, counted in items.
BLOCK = 1 << 22
# Items drawn at a time: this number is counted while it is in the processor's cache.
DRAWN = 1 << 17
# Items of shuffles that are converted to floats at a time.
CONVERTED = 1 << 20
# Bits of a float: whole numbers of no more bits are exact.
EXACT = 53
# Rows that BLAS multiplies together; of another number it adds up the last ones in another order.
ROWS = 8
Convention = Literal["two-sided", "sacrebleu"]


@dataclass(frozen=True, eq=False)
class Statistic:
    """A number over items that can be computed anew for any weighting of them."""

    rows: Floats
    """One row per item, in the order of `sort_ids`; zeros for an item without a value."""
    aggregate: Callable[[Floats], Floats]
    """One value per row of sums."""
    total: Floats
    """The sum of all rows."""
    value: float
    """The value of the whole set."""
    drawn: dict[Resamples, Floats] = field(default_factory=dict, repr=False)
    """The values in resamples that were asked for before."""


@dataclass(frozen=True)
class Resamples:
    """The weights of `bootstrap_weights`, a few resamples at a time, as a value: statistics remember it."""

    items: int
    samples: int = SAMPLES
    seed: int = SEED

    def __iter__(self) -> Iterator[Floats]:
        rows = min(_choose_rows_for_blas(self.items, DRAWN), max(1, BLOCK // max(self.items, 1)))
        return bootstrap_weights(self.items, self.samples, self.seed, rows * self.items)


def bootstrap_weights(
    items: int, samples: int = SAMPLES, seed: int = SEED, block: int | None = None
) -> Iterator[Floats]:
    """Draw how often each item occurs in each resample, block of resamples by block."""
    generator = np.random.default_rng(seed)
    for size in _split_blocks(items, samples, block):
        kind = np.int32 if items * size < 2**31 else np.int64
        weights, together = np.empty((size, items)), max(1, DRAWN // max(items, 1))
        for first in range(0, size, together):
            draws = generator.integers(0, items, size=(min(together, size - first), items), dtype=kind)
            for number, drawn in enumerate(draws, first):
                weights[number] = np.bincount(drawn, minlength=items)
        yield weights


def swap_masks(items: int, samples: int = SAMPLES, seed: int = SEED) -> Iterator[Bools]:
    """Draw which items change sides in each shuffle of approximate randomization, each with probability one half."""
    generator = np.random.default_rng(seed)
    for size in _split_blocks(items, samples):
        words = generator.integers(0, 2**64, size=(size, (items + 63) // 64), dtype=np.uint64)
        yield np.unpackbits(words.view(np.uint8), axis=1, count=items).view(np.bool_)


def _split_blocks(items: int, samples: int, block: int | None = None) -> list[int]:
    """Return the sizes of the blocks in which samples are drawn."""
    rows = max(1, (block or BLOCK) // max(items, 1))
    return [min(rows, samples - first) for first in range(0, samples, rows)]


def _choose_rows_for_blas(items: int, numbers: int) -> int:
    """Return how many rows of weights are multiplied at a time, so that they stay in the processor's cache.

    Of fewer than 24, or of a number that 24 does not divide, BLAS makes slower products with other last digits.
    """
    return 24 * max(1, numbers // (24 * max(items, 1)))


def sort_ids(ids: Sequence[str]) -> list[int]:
    """Return the indices that sort ids, shorter ones first: the same items get the same draws in whatever order they
    come.

    >>> sort_ids(["10", "9", "1"])
    [2, 1, 0]
    """
    order = sorted(range(len(ids)), key=ids.__getitem__)
    order.sort(key=list(map(len, ids)).__getitem__)
    return order


def sum_clusters(rows: Floats, cluster: Ints, clusters: int) -> Floats:
    """Sum the rows of each cluster, such as an image, which are drawn together.

    >>> sum_clusters(np.array([[1.0], [2.0], [4.0]]), np.array([0, 0, 1]), 2).ravel().tolist()
    [3.0, 4.0]
    """
    if not len(rows):
        return np.zeros((clusters, rows.shape[1]))
    return np.stack([np.bincount(cluster, weights=column, minlength=clusters) for column in rows.T], axis=1)


def resample_statistics(statistics: Sequence[Statistic], weights: Iterable[Floats]) -> list[Floats]:
    """Compute the value of each statistic under each row of weights, one matrix product per block.

    A column of the weights belongs to one item; items stand in the order of `sort_ids`. Values in `Resamples` are
    remembered: the intervals of systems and the tests between them need the same ones.
    """
    if not isinstance(weights, Resamples):
        return _compute_values_under(statistics, weights)
    new = [one for one in dict.fromkeys(statistics) if weights not in one.drawn]
    for one, values in zip(new, _compute_values_under(new, weights), strict=True):
        one.drawn[weights] = values
    return [one.drawn[weights] for one in statistics]


def _compute_values_under(statistics: Sequence[Statistic], weights: Iterable[Floats]) -> list[Floats]:
    if not statistics:
        return []
    together, columns = _find_distinct_columns([statistic.rows for statistic in statistics])
    lows, highs = np.full((2, len(together)), [[-np.inf], [np.inf]])
    if isinstance(weights, Resamples):
        # All draws may be of the item with the least number, or of that with the largest.
        lows, highs = weights.items * together.min(axis=1, initial=0), weights.items * together.max(axis=1, initial=0)
    sums = compute_weighted_sums(together, lows, highs, weights)
    return [statistic.aggregate(sums[own].T) for own, statistic in zip(columns, statistics, strict=True)]


def _find_distinct_columns(tables: Sequence[Floats]) -> tuple[Floats, list[list[int]]]:
    """Return the different columns of all tables, as rows, and the numbers of those that each table has.

    BLEU-1 to BLEU-4 share most of their columns, and means the column of ones.

    >>> rows = np.array([[1.0, 5.0], [1.0, 7.0]])
    >>> together, columns = _find_distinct_columns([rows, rows[:, 1:]])
    >>> together.tolist(), columns
    ([[1.0, 1.0], [5.0, 7.0]], [[0, 1], [1]])
    """
    by_sum: dict[float, list[int]] = {}
    distinct: list[Floats] = []
    columns: list[list[int]] = []
    for table in tables:
        columns.append([])
        rows = np.ascontiguousarray(table.T)
        for row, total in zip(rows, rows.sum(axis=1).tolist(), strict=True):
            alike = by_sum.setdefault(total, [])
            number = next((one for one in alike if np.array_equal(distinct[one], row)), len(distinct))
            if number == len(distinct):
                alike.append(number)
                distinct.append(row)
            columns[-1].append(number)
    return np.stack(distinct), columns


def resample_differences(pairs: Sequence[tuple[Statistic, Statistic]], weights: Iterable[Floats]) -> list[Floats]:
    """Compute system minus baseline in each resample, for each (baseline, system) pair; all pairs share the resamples.

    A resample that holds no item with a value is left out.
    """
    draws = resample_statistics([statistic for pair in pairs for statistic in pair], weights)
    gaps = [system - baseline for baseline, system in zip(draws[::2], draws[1::2], strict=True)]
    return [gap[~np.isnan(gap)] for gap in gaps]


def compute_influences(baseline: Statistic, system: Statistic) -> Floats:
    """Return what each item adds to the difference of two statistics, from leaving each item out once.

    Of n items, that is (n − 1) · (difference − difference without the item). For a mean it is the item's own gain, up
    to a constant; for a corpus metric such as BLEU it is the gain that the item causes. NaN where a value is undefined.

    >>> def mean(sums):
    ...     return sums[:, 0] / sums[:, 1]
    >>> sides = [np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([[0.5, 1.0], [1.0, 1.0]])]
    >>> compute_influences(*(Statistic(rows, mean, rows.sum(axis=0), rows[:, 0].mean()) for rows in sides)).tolist()
    [0.25, -0.25]
    """
    without = system.aggregate(system.total - system.rows) - baseline.aggregate(baseline.total - baseline.rows)
    influence: Floats = (len(without) - 1) * (system.value - baseline.value - without)
    return influence


def make_error_statistic(influence: Floats) -> Statistic:
    """Return the standard error of a difference as a statistic, so that each resample has its own."""
    units = len(influence)

    def error(sums: Floats) -> Floats:
        variance = sums[:, 1] / units - (sums[:, 0] / units) ** 2
        result: Floats = np.sqrt(np.maximum(variance, 0.0) / max(units - 1, 1))
        return result

    centered = influence - influence.mean()  # smaller squares lose fewer digits
    rows = np.stack([centered, centered**2], axis=1)
    total = rows.sum(axis=0)
    return Statistic(rows, error, total, float(error(total[None])[0]))


def find_percentile_ends(draws: Floats, level: float) -> tuple[float, float]:
    """Return the ends of the interval that contains the middle share of the draws: `numpy.percentile` to the last
    digit.

    It takes a sixth of the time, and does not import masked arrays.

    >>> find_percentile_ends(np.array([3.0, 1.0, 2.0, 5.0]), 0.5)  # a quarter and three quarters of the way from 1 to 5
    (1.75, 3.5)
    """
    ordered = np.sort(draws)
    ends = []
    for share in (50 * (1 - level) / 100, 50 * (1 + level) / 100):
        index = share * (len(ordered) - 1)
        below = min(math.floor(index), len(ordered) - 1)
        low, high = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)])
        part = index - below
        ends.append(high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part)
    return ends[0], ends[1]


def compute_interval_width(deviation: float, units: int, level: float) -> float:
    """Return half the width of a t interval, from the standard deviation of resamples of ``units`` units."""
    from scipy.special import stdtrit

    return float(stdtrit(units - 1, (1 + level) / 2)) * deviation * math.sqrt(units / (units - 1))


def paired_bootstrap(
    pairs: Sequence[tuple[Statistic, Statistic]],
    weights: Iterable[Floats],
    level: float = LEVEL,
    convention: Convention = "two-sided",
    interval: Interval = "percentile",
) -> list[tuple[float, float, float]]:
    """Compute the p-value and the interval of the difference of each (baseline, system) pair; all pairs share the
    resamples.

    With d the differences of the resamples and D the observed one, p = (1 + #{|d − mean d| ≥ |D|}) / (1 + resamples).
    ``sacrebleu`` counts |d| − mean |d| > |D| instead, as the Moses script it follows: for a clear difference that is
    one side only, so at p < 0.05 it errs about one time in ten.
    """
    results = []
    for (baseline, system), differences in zip(pairs, resample_differences(pairs, weights), strict=True):
        observed = abs(system.value - baseline.value)
        if np.isnan(observed) or not len(differences):
            results.append((float("nan"),) * 3)
            continue
        if convention == "two-sided":
            extreme = np.abs(differences - differences.mean()) >= observed
        else:
            extreme = np.abs(differences) - np.abs(differences).mean() > observed
        low, high = find_percentile_ends(differences, level)
        units = len(system.rows)
        if interval == "t" and units > 1 and len(differences) > 1:
            width = compute_interval_width(float(differences.std(ddof=1)), units, level)
            low, high = system.value - baseline.value - width, system.value - baseline.value + width
        results.append((float((1 + extreme.sum()) / (1 + len(differences))), low, high))
    return results


def paired_randomization(
    pairs: Sequence[tuple[Statistic, Statistic]], masks: Iterable[npt.NDArray[Any]]
) -> list[float]:
    """Compute the p-value of approximate randomization of each (baseline, system) pair; all pairs share the shuffles.

    In a shuffle every item swaps sides between the two systems with probability one half;
    p = (1 + #{shuffles with a difference at least as large as the observed one}) / (1 + shuffles). Counting equal
    differences makes p = 1 for two equal systems.
    """
    gap, columns = _find_distinct_columns([system.rows - baseline.rows for baseline, system in pairs])
    # Swapping an item moves nothing where all systems have the same rows. Leaving out a few takes longer than it saves.
    moving = np.flatnonzero(gap.any(axis=0))
    if 2 * len(moving) < gap.shape[1]:
        gap, masks = gap.take(moving, axis=1), (block.take(moving, axis=1) for block in masks)
    moved = _sum_moved(gap, masks)
    larger = np.empty(len(pairs), dtype=np.int64)
    for index, (baseline, system) in enumerate(pairs):
        part = moved[columns[index]].T
        shuffled = system.aggregate(system.total - part) - baseline.aggregate(baseline.total + part)
        # Shuffled sums are rounded differently from the observed ones; equal must still count as equal.
        observed = abs(system.value - baseline.value) * (1 - 1e-12)
        larger[index] = np.sum(np.abs(shuffled) >= observed)
    p_values = (1 + larger) / (1 + moved.shape[1])
    p_values[np.isnan([system.value - baseline.value for baseline, system in pairs])] = np.nan
    result: list[float] = p_values.tolist()
    return result


def _sum_moved(gap: Floats, masks: Iterable[npt.NDArray[Any]]) -> Floats:
    """Compute what each shuffle moves from one side to the other: gaps × shuffles."""
    rows = _choose_rows_for_blas(gap.shape[1], CONVERTED)
    parts = (block[first : first + rows] for block in masks for first in range(0, len(block), rows))
    return compute_weighted_sums(gap, np.minimum(gap, 0).sum(axis=1), np.maximum(gap, 0).sum(axis=1), parts)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values by Holm's step-down method over a family of tests; a test without a p-value is no member of it.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]  # 3 · .01; 2 · .03; then 1 · .04, raised to .06
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    members = np.flatnonzero(~np.isnan(p))
    order = members[np.argsort(p[members], kind="stable")]
    stepped = np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1))
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.minimum(stepped, 1.0)
    result: list[float] = adjusted.tolist()
    return result


# Sums of rows under many weightings are one matrix product, in which whole numbers share a row. BLEU's statistics are
# counts. Sums of counts need few of the 53 bits of a float, so several rows are multiplied as the digits of one, and
# every sum is exact. The number of rows that BLAS multiplies is always a multiple of eight: then the last digit of a
# sum does not depend on the other rows.


def compute_weighted_sums(table: Floats, lows: Floats, highs: Floats, weights: Iterable[npt.NDArray[Any]]) -> Floats:
    """Compute the sum of each row of a table (rows) under each weighting (columns); blocks of weights have one per row.

    Where weights are whole numbers, ``lows`` and ``highs`` are limits of the sums of each row, of those over a part of
    the columns too, so that 0 is between them. Where weights are not, they are infinite, and no rows are packed.

    >>> table = np.array([[1.0, -2.0, 3.0], [0.5, 0.5, 0.5]])
    >>> limits = np.array([-2.0, 0.0]), np.array([4.0, 1.5])
    >>> compute_weighted_sums(table, *limits, [np.array([[1, 1, 0], [0, 0, 1]])]).tolist()
    [[-1.0, 3.0], [1.0, 0.5]]
    """
    packs = _make_packs(table, lows, highs)
    packed = np.zeros((-(-len(packs) // ROWS) * ROWS, table.shape[1]))
    packed[: len(packs)] = [pack.pack_rows(table) for pack in packs]
    products = np.concatenate([packed @ block.astype(np.float64, copy=False).T for block in weights], axis=1)
    sums = np.empty((len(table), products.shape[1]))
    for pack, product in zip(packs, products, strict=False):
        sums[pack.rows] = pack.unpack(product)
    return sums


@dataclass(frozen=True, eq=False)
class _Pack:
    """Rows of whole numbers as the digits of one row; or a row of any numbers by itself."""

    rows: list[int]
    lows: Ints
    """The least sum of each row. Digits count from there, so that none is negative."""
    bits: Ints
    """The bits of each digit."""

    @property
    def _shifts(self) -> Ints:
        return np.cumsum(self.bits) - self.bits

    def pack_rows(self, table: Floats) -> Floats:
        """Return the rows of a table packed into one row."""
        row: Floats = np.ldexp(1.0, self._shifts) @ table.take(self.rows, axis=0)
        return row

    def unpack(self, sums: Floats) -> Floats:
        """Return the sums of each row, from those of the one row."""
        if len(self.rows) == 1:
            return sums[None]
        shifts = self._shifts[:, None]
        digits = (sums - np.ldexp(self.lows, self._shifts).sum()).astype(np.int64) >> shifts
        numbers: Floats = ((digits & ((1 << self.bits) - 1)[:, None]) + self.lows[:, None]).astype(np.float64)
        return numbers


def _make_packs(table: Floats, lows: Floats, highs: Floats) -> list[_Pack]:
    """Divide the rows of a table into few packs: rows of whole numbers share one as long as their sums fit."""
    is_exact = (highs - lows < 2**EXACT) & (table == np.rint(table)).all(axis=1)
    bits = [
        max(int(high - low).bit_length(), 1) if fits else EXACT
        for low, high, fits in zip(lows, highs, is_exact.tolist(), strict=True)
    ]
    packs, room = list[list[int]](), 0
    for row in sorted(range(len(table)), key=bits.__getitem__):
        if bits[row] > room:
            packs.append([])
            room = EXACT
        packs[-1].append(row)
        room -= bits[row]
    lows = np.where(is_exact, lows, 0.0)
    return [_Pack(rows, lows[rows].astype(np.int64), np.array([bits[row] for row in rows])) for rows in packs]


def join_parts(parts: Iterable[Mapping[str, Floats]]) -> dict[str, Floats]:
    """Join the named values of parts of the draws."""
    listed = list(parts)
    return {name: np.concatenate([part[name] for part in listed]) for name in listed[0]}
