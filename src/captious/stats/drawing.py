"""Stratified sampling of what to rate next: strata of equal size, the number drawn from each, and a seeded order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from captious._core.types import Floats, Ints
from captious.errors import InputError
from captious.options import SEED

# Default number of strata, which are quantiles of an auxiliary metric.
STRATA = 5
# Fewest draws from a stratum: the spread of a single one cannot be estimated.
LEAST = 2


def cut_strata(values: Floats, strata: int = STRATA) -> Ints:
    """Divide values into strata of equal size by their order; return the stratum of each value, 0 for the smallest.

    Equal values are divided by their position.

    >>> cut_strata(np.array([0.3, 0.1, 0.2, 0.4]), 2).tolist()
    [1, 0, 0, 1]
    """
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    result: Ints = ranks * strata // len(values)
    return result


def allocate(sizes: Sequence[int], number: int, spreads: Sequence[float] | None = None) -> list[int]:
    """Divide a number of draws among strata, proportionally to their sizes or to size × spread (Neyman 1934).

    Fractions are rounded by the largest remainder. Every stratum gets at least two draws if there are enough, and never
    more than its size.

    >>> allocate([100, 200, 300], 60), allocate([100, 200, 300], 60, [1, 2, 0.5])
    ([10, 20, 30], [9, 37, 14])
    """
    total = np.array(sizes, dtype=np.int64)
    if number > total.sum():
        raise InputError(f"{number} images to draw, expected at most the {total.sum()} there are")
    weights = total * np.ones(len(total)) if spreads is None else total * np.array(spreads, dtype=np.float64)
    weights = total.astype(np.float64) if not weights.sum() > 0 else weights
    shares = weights / weights.sum() * number
    least = np.minimum(total, LEAST if number >= LEAST * len(total) else 0)
    draws = np.clip(np.floor(shares).astype(np.int64), least, total)
    # Largest remainder: draws that are left go to the strata whose share was rounded down most. If the minimum of two
    # used too many, draws are taken from those that were rounded up most.
    while draws.sum() < number:
        remainders = np.where(draws < total, shares - draws, -np.inf)
        draws[int(remainders.argmax())] += 1
    while draws.sum() > number:
        remainders = np.where(draws > least, shares - draws, np.inf)
        draws[int(remainders.argmin())] -= 1
    return [int(one) for one in draws]


def shrink_spreads(spreads: Floats) -> Floats:
    """Shrink noisy spreads of a pilot study half way to their root mean square.

    >>> shrink_spreads(np.array([1.0, 7.0])).tolist()  # √((1 + 49) / 2) = 5
    [3.0, 6.0]
    """
    result: Floats = (spreads + np.sqrt((spreads**2).mean())) / 2
    return result


def order_randomly(names: Sequence[str], seed: int = SEED) -> list[str]:
    """Return names in a random order that depends only on each name and the seed.

    Names keep their relative order if others are added or removed, so a later batch continues where the last one ended.

    >>> order_randomly(["a", "b", "c"]) == order_randomly(["c", "a", "b"])
    True
    """
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())
