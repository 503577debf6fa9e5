"""Sums of rows of numbers under many weightings: one matrix product, in which whole numbers share a row.

BLEU's statistics are counts. Sums of counts need few of the 53 bits of a float, so several rows are multiplied as the
digits of one, and every sum is exact. The number of rows that BLAS multiplies is always a multiple of eight: then the
last digit of a sum does not depend on the other rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._core.types import Floats, Ints

EXACT = 53
"""Bits of a float: whole numbers of no more bits are exact."""
ROWS = 8
"""Rows that BLAS multiplies together; of another number it adds up the last ones in another order."""


def weighted_sums(table: Floats, lows: Floats, highs: Floats, weights: Iterable[npt.NDArray[Any]]) -> Floats:
    """The sum of each row of a table (rows) under each weighting (columns); blocks of weights have one per row.

    Where weights are whole numbers, ``lows`` and ``highs`` are limits of the sums of each row, of those over a part of
    the columns too, so that 0 is between them. Where weights are not, they are infinite, and no rows are packed.

    >>> table = np.array([[1.0, -2.0, 3.0], [0.5, 0.5, 0.5]])
    >>> limits = np.array([-2.0, 0.0]), np.array([4.0, 1.5])
    >>> weighted_sums(table, *limits, [np.array([[1, 1, 0], [0, 0, 1]])]).tolist()
    [[-1.0, 3.0], [1.0, 0.5]]
    """
    packs = _packs(table, lows, highs)
    packed = np.zeros((-(-len(packs) // ROWS) * ROWS, table.shape[1]))
    packed[: len(packs)] = [pack.packed(table) for pack in packs]
    products = np.concatenate([packed @ block.astype(np.float64, copy=False).T for block in weights], axis=1)
    sums = np.empty((len(table), products.shape[1]))
    for pack, product in zip(packs, products, strict=False):
        sums[pack.rows] = pack.unpacked(product)
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

    def packed(self, table: Floats) -> Floats:
        """The one row."""
        row: Floats = np.ldexp(1.0, self._shifts) @ table.take(self.rows, axis=0)
        return row

    def unpacked(self, sums: Floats) -> Floats:
        """The sums of each row, from those of the one row."""
        if len(self.rows) == 1:
            return sums[None]
        shifts = self._shifts[:, None]
        digits = (sums - np.ldexp(self.lows, self._shifts).sum()).astype(np.int64) >> shifts
        whole: Floats = ((digits & ((1 << self.bits) - 1)[:, None]) + self.lows[:, None]).astype(np.float64)
        return whole


def _packs(table: Floats, lows: Floats, highs: Floats) -> list[_Pack]:
    """The rows of a table in few packs: rows of whole numbers share one as long as their sums fit."""
    whole = (highs - lows < 2**EXACT) & (table == np.rint(table)).all(axis=1)
    bits = [
        max(int(high - low).bit_length(), 1) if fits else EXACT
        for low, high, fits in zip(lows, highs, whole.tolist(), strict=True)
    ]
    packs, room = list[list[int]](), 0
    for row in sorted(range(len(table)), key=bits.__getitem__):
        if bits[row] > room:
            packs.append([])
            room = EXACT
        packs[-1].append(row)
        room -= bits[row]
    lows = np.where(whole, lows, 0.0)
    return [_Pack(rows, lows[rows].astype(np.int64), np.array([bits[row] for row in rows])) for rows in packs]
