"""Repeated looks at a growing study: boundaries that keep the error of all looks together, and sizes of studies.

A 95 % interval that is read after every ten ratings is wrong at least once in every fourth study. Two remedies:

- Looks that are planned: `look_boundaries` spends the error over the looks (Lan and DeMets 1983), little at first
  (O'Brien and Fleming 1979), or evenly (Pocock 1977). Times of looks may be chosen freely, but not by the results.
- Looks at any time: `anytime_factor`, an asymptotic confidence sequence (Waudby-Smith et al. 2024). It is 1.5 times as
  wide, which costs 2.4 times the ratings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from captious._core.types import Floats
from captious.errors import InputError
from captious.options import LEVEL
from captious.stats.tests import normal_point, normal_tail, t_point

Spending: TypeAlias = Literal["obrien-fleming", "pocock"]
# Number of points of the integral between two boundaries; odd, for Simpson's rule.
POINTS = 801
# Number of ratings at which a confidence sequence is tightest.
TIGHTEST = 200
# Largest number of rated captions that a plan considers.
MAX_RATED = 10_000_000


def spend(time: float, level: float = LEVEL, kind: Spending = "obrien-fleming") -> float:
    """Return the one-sided error that may be spent up to a time: the share of the planned images that are rated.

    >>> round(spend(1.0), 6), round(spend(1.0, kind="pocock"), 6)
    (0.025, 0.025)
    """
    error = 1 - level
    if kind == "pocock":
        return error / 2 * math.log(1 + (math.e - 1) * time)
    return 2 * normal_tail(normal_point(1 - error / 4) / math.sqrt(time))


def look_boundaries(times: Sequence[float], level: float = LEVEL, kind: Spending = "obrien-fleming") -> list[float]:
    """Return the factor of the standard error at each look, in place of the 1.96 of a single look.

    ``times`` are the shares of the planned images that are rated at each look, in increasing order, up to 1.

    >>> [round(point, 4) for point in look_boundaries([0.2, 0.4, 0.6, 0.8, 1.0])]
    [4.8769, 3.357, 2.6803, 2.2898, 2.031]
    """
    if any(not 0 < time <= 1 for time in times) or any(a >= b for a, b in pairwise(times)):
        raise InputError(f"looks at {', '.join(f'{time:g}' for time in times)}: expected increasing shares up to 1")
    boundaries: list[float] = []
    spent = before = 0.0
    # The density of the sum, a Brownian motion that has not crossed a boundary yet, at the previous look.
    sums, density = np.zeros(1), np.ones(1)
    for time in times:
        step = math.sqrt(time - before)
        wanted = spend(time, level, kind) - spent
        edge = _find_edge(sums, density, step, wanted, math.sqrt(time))
        boundaries.append(edge / math.sqrt(time))
        next_sums = np.linspace(-edge, edge, POINTS)
        jumps = (next_sums[:, None] - sums[None, :]) / step
        values = np.exp(-(jumps**2) / 2) / (step * math.sqrt(2 * math.pi)) @ density
        sums, density = next_sums, values * _simpson_weights(next_sums)
        spent, before = spent + wanted, time
    return boundaries


def _find_edge(sums: Floats, density: Floats, step: float, wanted: float, unit: float) -> float:
    """Return the boundary that the sum exceeds at this look with the wanted probability."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    def surplus(edge: float) -> float:
        return float(ndtr((sums - edge) / step) @ density) - wanted

    return float(brentq(surplus, 0.0, 12 * unit, xtol=1e-12))


def _simpson_weights(places: Floats) -> Floats:
    weights = np.ones(len(places))
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    result: Floats = weights * (places[1] - places[0]) / 3
    return result


def look_factor(boundary: float, degrees: float) -> float:
    """Convert a boundary of the normal distribution to Student's t at the same probability, for few images.

    >>> round(look_factor(1.959964, 9), 4)
    2.2622
    """
    return t_point(1 - 2 * normal_tail(boundary), degrees)


def anytime_factor(number: int, level: float = LEVEL, tightest: int = TIGHTEST) -> float:
    """Return the factor of the standard error that is valid at every look; ``tightest`` is where it is smallest.

    >>> [round(anytime_factor(number), 3) for number in (20, 200, 400)]
    [3.763, 3.035, 3.069]
    """
    error = 1 - level
    square = (-2 * math.log(error) + math.log(-2 * math.log(error)) + 1) / tightest
    times = number * square
    return math.sqrt(2 * (times + 1) / times * math.log(math.sqrt(times + 1) / error))


def find_size(sd: float, half_width: float, r2: float = 0.0, slopes: int = 0, level: float = LEVEL) -> int:
    """Return how many captions must be rated for a mean ± ``half_width``, each of another image.

    ``sd`` is that of the ratings, ``r2`` the share of their variance that auxiliary metrics explain with ``slopes``
    slopes.

    >>> find_size(1, 0.2), find_size(1, 0.2, r2=0.36, slopes=1)
    (99, 65)
    """

    def is_enough(number: int) -> bool:
        if number <= slopes + 2:
            return False
        lost = 1 + slopes / (number - slopes - 2)
        return t_point(level, number - 1 - slopes) * sd * math.sqrt((1 - r2) * lost / number) <= half_width

    return find_smallest(is_enough, 2)


def find_smallest(is_enough: Callable[[int], bool], start: int) -> int:
    """Return the smallest number from ``start`` on that is enough, by doubling and halving.

    >>> find_smallest(lambda number: number**2 > 50, 1)
    8
    """
    low, high = start - 1, start
    while not is_enough(high):
        if high > MAX_RATED:
            raise InputError(f"more than {MAX_RATED:,} captions would be needed, expected a wider interval")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
