"""Exact quantiles of more values than fit into memory.

A float is a number of 64 bits that sorts as the float does. One reading of all values counts those of equal first 16
bits; that says where the quantile lies. Once few enough values remain, the next reading gathers and sorts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._typing import Floats

Keys = npt.NDArray[np.uint64]
GATHER = 1 << 20
"""Values that are sorted in memory, for each quantile."""
BITS = 16
SIGN = np.uint64(1 << 63)


@dataclass
class Search:
    """Where one quantile can lie: among the values whose first bits are known, at a rank."""

    rank: Callable[[int], int]
    """Its index among so many values in ascending order."""
    size: int = -1
    """Values that remain; -1 before they are counted."""
    index: int = 0
    bits: int = 0
    prefix: int = 0
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1 << BITS, np.int64))
    gathered: list[Keys] = field(default_factory=list)
    value: float | None = None

    @property
    def sorts(self) -> bool:
        """Whether the remaining values fit into memory."""
        return 0 <= self.size <= GATHER

    def add(self, keys: Keys) -> None:
        """Look at more values."""
        if self.bits:
            keys = keys[keys >> np.uint64(64 - self.bits) == np.uint64(self.prefix)]
        if self.sorts:
            self.gathered.append(keys)
        else:
            following = (keys >> np.uint64(64 - self.bits - BITS)) & np.uint64((1 << BITS) - 1)
            self.counts += np.bincount(following.astype(np.int64), minlength=1 << BITS)

    def finish_reading(self) -> None:
        """All values were looked at once more."""
        if self.sorts:
            keys = np.sort(np.concatenate(self.gathered))
            self.value = float(_floats(keys[self.index : self.index + 1])[0])
            return
        if self.size < 0:
            self.size = int(self.counts.sum())
            if not self.size:
                self.value = float("nan")
                return
            self.index = self.rank(self.size)
        below = np.cumsum(self.counts)
        bin = int(np.searchsorted(below, self.index, side="right"))
        self.index -= int(below[bin] - self.counts[bin])
        self.size, self.prefix, self.bits = int(self.counts[bin]), self.prefix << BITS | bin, self.bits + BITS
        self.counts = np.zeros(1 << BITS, np.int64)
        if self.bits == 64:
            self.value = float(_floats(np.array([self.prefix], dtype=np.uint64))[0])


def exact_quantiles(
    read: Callable[[], Iterator[Sequence[Floats]]], ranks: Sequence[Callable[[int], int]]
) -> list[float]:
    """One value for each rank; NaN where there are no values.

    ``read`` begins anew: it yields, part by part, the values for each rank. NaN are no values.

    >>> parts = [np.array([3.0, 1.0]), np.array([np.nan, 2.0])]
    >>> exact_quantiles(lambda: ([part] for part in parts), [lambda items: items - 1])
    [3.0]
    """
    searches = [Search(rank) for rank in ranks]
    while open := [(index, one) for index, one in enumerate(searches) if one.value is None]:
        for part in read():
            for index, one in open:
                one.add(_keys(part[index]))
        for _, one in open:
            one.finish_reading()
    return [float("nan") if one.value is None else one.value for one in searches]


def _keys(values: Floats) -> Keys:
    """Numbers that sort as the values do; NaN are left out, and a negative zero is zero."""
    bits: Keys = (np.asarray(values, dtype=np.float64)[~np.isnan(values)] + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def _floats(keys: Keys) -> Any:
    return np.where(keys & SIGN, keys ^ SIGN, ~keys).view(np.float64)
