"""Buffers that are used again: asking for fresh memory at every step took longer than the arithmetic."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from captious.measurement import Floats

WIDTH = 32
"""Draws worked on side by side: few enough for a processor's cache."""

_kept = threading.local()


class Workbench:
    """Scratch arrays of one thread, by name; what they held before is lost."""

    def __init__(self, width: int) -> None:
        self.width = width

    def array(self, name: str, rows: int) -> Floats:
        """An array of so many rows, with anything in it."""
        size = rows * self.width
        found: Floats | None = getattr(_kept, name, None)
        if found is None or len(found) < size:
            found = np.empty(size)
            setattr(_kept, name, found)
        return found[:size].reshape(rows, self.width)

    @staticmethod
    def take(source: Floats, rows: npt.NDArray[np.int64], target: Floats) -> Floats:
        """Copy rows into the target."""
        # Without a mode that cannot fail, numpy buffers the output.
        np.take(source, rows, axis=0, out=target, mode="clip")
        return target


def accumulate(rows: Floats, step: int = 32) -> None:
    """Running sums down the columns, in place.

    The sums of each ``step`` rows first, whole rows at a time, then those of the steps: down a column one by one
    numpy takes four times as long.
    """
    whole = len(rows) // step * step
    parts = rows[:whole].reshape(-1, step, rows.shape[1])
    for row in range(1, step):
        parts[:, row] += parts[:, row - 1]
    if len(parts) > 1:
        before = np.cumsum(parts[:-1, -1], axis=0)
        parts[1:] += before[:, None, :]
    rest = rows[whole:]
    if len(rest):
        if whole:
            rest[0] += rows[whole - 1]
        np.cumsum(rest, axis=0, out=rest)


def narrow(weights: Floats) -> list[Floats]:
    """The draws in parts that fit the cache."""
    starts = range(0, weights.shape[1], WIDTH)
    return [np.ascontiguousarray(weights[:, first : first + WIDTH]) for first in starts]


def joined(parts: Iterable[Mapping[str, Floats]]) -> dict[str, Floats]:
    """Named values of parts of the draws as those of all."""
    listed = list(parts)
    return {name: np.concatenate([part[name] for part in listed]) for name in listed[0]}
