"""Histograms whose bins are shared between shards, so that they can be added exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import frexp, ldexp
from typing import Any

import numpy as np

from captious._core.types import Floats

# Largest number of bins.
BINS = 256
# Bins are not narrower than 2**-40 of the largest value.
FINEST = 40


@dataclass(frozen=True)
class Histogram:
    """Counts of values in bins whose width is a power of two and whose edges are its multiples.

    The width is the smallest at which `BINS` bins reach from the lowest to the highest value. Two histograms of
    different widths therefore add up exactly, in any order.

    >>> Histogram.of(np.array([0.0, 0.25, 0.25, 1.0])).quantile(0.5)
    0.25
    """

    exponent: int = 0
    """The width of a bin is ``2 ** exponent``."""
    first: int = 0
    """The first bin begins at ``first * width``."""
    counts: tuple[int, ...] = ()

    @classmethod
    def of(cls, values: Floats) -> Histogram:
        """Return the histogram of all finite values."""
        values = values[np.isfinite(values)]
        if not len(values):
            return cls()
        largest = frexp(float(np.abs(values).max()))[1]
        exponent = max(largest - FINEST, -1000)
        indices = np.floor(values / ldexp(1.0, exponent)).astype(np.int64)
        low = int(indices.min())
        # Halve the indices until they fit: a shift merges two bins, also for negative indices.
        while int(indices.max()) - low >= BINS:
            indices, low, exponent = indices >> 1, low >> 1, exponent + 1
        return cls(exponent, low, tuple(np.bincount(indices - low).tolist()))

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Histogram:
        """Parse a histogram from its JSON value; raise ValueError if its numbers are impossible."""
        exponent, first, counts = int(record["exponent"]), int(record["first"]), tuple(map(int, record["counts"]))
        if not -1000 <= exponent <= 1000 or abs(first) >= 2**62 or len(counts) > BINS or min(counts, default=0) < 0:
            raise ValueError("no histogram has such bins")
        return cls(exponent, first, counts)

    @property
    def width(self) -> float:
        """The width of a bin."""
        return ldexp(1.0, self.exponent)

    @property
    def edges(self) -> Floats:
        """The lower edge of each bin, and the upper edge of the last one."""
        edges: Floats = np.arange(self.first, self.first + len(self.counts) + 1, dtype=np.float64) * self.width
        return edges

    def merge(self, other: Histogram) -> Histogram:
        """Return the histogram of the values of both."""
        if not self.counts or not other.counts:
            return self if self.counts else other
        # Start with the wider bins of the two, and widen both until all values fit into `BINS` bins.
        exponent = max(self.exponent, other.exponent)
        while True:
            parts = [one.coarsen(exponent) for one in (self, other)]
            low = min(part.first for part in parts)
            bins = max(part.first + len(part.counts) for part in parts) - low
            if bins <= BINS:
                break
            exponent += 1
        counts = np.zeros(bins, dtype=np.int64)
        for part in parts:
            counts[part.first - low : part.first - low + len(part.counts)] += part.counts
        return Histogram(exponent, low, tuple(counts.tolist()))

    def coarsen(self, exponent: int) -> Histogram:
        """Return the same values in bins of width ``2 ** exponent``, which must not be narrower."""
        indices = (self.first + np.arange(len(self.counts))) >> (exponent - self.exponent)
        low = int(indices[0])
        counts = np.bincount(indices - low, weights=self.counts).astype(np.int64)
        return Histogram(exponent, low, tuple(counts.tolist()))

    def quantile(self, part: float) -> float:
        """Return the lower edge of the bin that contains this quantile; NaN without values."""
        if not self.counts:
            return float("nan")
        below = np.cumsum(self.counts)
        return float(self.edges[int(np.searchsorted(below, part * below[-1]))])
