"""The weighted bootstrap: statistics as functions of how often each group is drawn, and estimates from their draws.

A statistic is a function of weights, an array of groups × draws. It returns values by name, an array of one value per
draw, which is NaN if the draw leaves the value undefined. Statistics that are estimated together get the same draws, so
differences between them are paired.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from captious._core.types import Floats, Ints
from captious.options import LEVEL, Resampling
from captious.stats.resampling import (
    Resamples,
    Statistic,
    bootstrap_weights,
    compute_interval_width,
    find_percentile_ends,
    join_parts,
    resample_statistics,
    sum_clusters,
)

WeightedStatistic: TypeAlias = Callable[[Floats], dict[str, Floats]]
# With fewer items or groups, percentile intervals cover clearly less than their level: 87 to 93 % instead of 95 %.
FEW = 50
# Largest number of threads, and the size of weights below which starting threads takes longer than the work.
THREADS, SMALL = 8, 1 << 17
NAN = float("nan")


@dataclass(frozen=True)
class Estimate:
    """A value with its percentile interval, its standard error, and how many draws left it undefined."""

    value: float
    low: float = NAN
    high: float = NAN
    error: float = NAN
    undefined: int = 0

    def __str__(self) -> str:
        return f"{self.value:.4f}" + (f" [{self.low:.4f}, {self.high:.4f}]" if self.low == self.low else "")

    @classmethod
    def under(cls, value: float, draws: Floats, resampling: Resampling, units: int) -> Estimate:
        """Make an estimate with the kind of interval that ``resampling`` requests.

        ``units`` is the number n of items or groups that were drawn. The interval ``t`` is value ± t · s · √(n / (n −
        1)), with s the standard deviation of the draws and t with n − 1 degrees of freedom. The root corrects s, which
        is too small for few units: a bootstrap draws from a sample, whose variance has the divisor n, not n − 1.

        >>> draws = np.array([0.0, 1.0])  # s = √½, √(2 / 1) · s = 1, and t of 1 degree of freedom at 50 % is 1
        >>> round(Estimate.under(0.5, draws, Resampling(level=0.5, interval="t"), 2).high, 9)
        1.5
        """
        estimate = cls.of(value, draws, resampling.level)
        if resampling.interval == "percentile" or units < 2 or math.isnan(estimate.error):
            return estimate
        width = compute_interval_width(estimate.error, units, resampling.level)
        return replace(estimate, low=value - width, high=value + width)

    @classmethod
    def of(cls, value: float, draws: Floats, level: float = LEVEL) -> Estimate:
        """Make an estimate from a value and its draws; without two defined draws there is no interval.

        >>> Estimate.of(0.5, np.array([0.0, 1.0, np.nan]), 0.5)
        Estimate(value=0.5, low=0.25, high=0.75, error=0.7071067811865476, undefined=1)
        """
        defined = draws[~np.isnan(draws)]
        if len(defined) < 2:
            return cls(value, undefined=len(draws) - len(defined))
        low, high = find_percentile_ends(defined, level)
        return cls(value, low, high, float(defined.std(ddof=1)), len(draws) - len(defined))


def warn_few_units(units: int, resampling: Resampling, what: str = "items") -> list[str]:
    """Return a note on intervals of few units, which percentiles make too narrow (docs/guide/intervals-and-tests.md).

    >>> warn_few_units(15, Resampling(), "images")
    ['intervals of fewer than 50 images are too narrow; interval=t makes them wider']
    """
    if not resampling.samples or resampling.interval != "percentile" or units >= FEW:
        return []
    return [f"intervals of fewer than {FEW} {what} are too narrow; interval=t makes them wider"]


def bootstrap(statistics: Mapping[str, Statistic], resampling: Resampling = Resampling()) -> dict[str, Estimate]:
    """Estimate each statistic with its interval, from stored rows of the same items; empty without resamples."""
    if not statistics or not resampling.samples:
        return {}
    items = len(next(iter(statistics.values())).rows)
    draws = resample_statistics(list(statistics.values()), Resamples(items, resampling.samples, resampling.seed))
    return {
        key: Estimate.under(statistic.value, values, resampling, items)
        for (key, statistic), values in zip(statistics.items(), draws, strict=True)
    }


def compute_observed(statistic: WeightedStatistic, groups: int) -> dict[str, float]:
    """Compute the values of a statistic on the observed data, in which every group counts once."""
    return {name: float(values[0]) for name, values in statistic(np.ones((groups, 1))).items()}


def draw_bootstrap(
    statistics: Sequence[WeightedStatistic], groups: int, resampling: Resampling
) -> list[dict[str, Floats]]:
    """Compute every statistic on resampled groups; all statistics see the same draws."""
    blocks = [
        compute_in_threads(statistics, block.T)
        for block in bootstrap_weights(groups, resampling.samples, resampling.seed)
    ]
    return [join_parts([block[index] for block in blocks]) for index in range(len(statistics))]


def estimate(statistic: WeightedStatistic, groups: int, resampling: Resampling) -> dict[str, Estimate]:
    """Estimate every value of a statistic with its interval; without resamples there is no interval."""
    values = compute_observed(statistic, groups)
    if not resampling.samples:
        return {name: Estimate(value) for name, value in values.items()}
    (draws,) = draw_bootstrap([statistic], groups, resampling)
    return {name: Estimate.under(value, draws[name], resampling, groups) for name, value in values.items()}


def draw_crossed(
    aggregate: Callable[[Floats], dict[str, Floats]], rows: Floats, ways: Sequence[Ints], resampling: Resampling
) -> dict[str, Floats]:
    """Draw bootstrap values of statistics of summed rows, clustered in one way (images) or two (images and raters).

    ``ways`` has the cluster of each row, once per way. With one way, clusters are drawn with replacement. With two,
    images are drawn with all their raters, raters with all their images, and the deviations of both from the observed
    value are added. The variance of a mean is then the sum of both clustered variances (the two-term estimator of
    MacKinnon, Nielsen and Webb 2021). It is conservative, because noise that belongs to neither image nor rater counts
    twice. There may be few raters: the deviations of n clusters are widened by √(n / (n − 1)), and their sum by the
    ratio of Student's t, with Satterthwaite's degrees of freedom, to the normal quantile.
    """
    observed_values = {name: float(values[0]) for name, values in aggregate(rows.sum(axis=0, keepdims=True)).items()}
    draws_by_way, sizes = [], []
    for way, cluster in enumerate(ways):
        sizes.append(int(cluster.max()) + 1)
        sums = sum_clusters(rows, cluster, sizes[-1])
        blocks = bootstrap_weights(sizes[-1], resampling.samples, resampling.seed + way)
        draws_by_way.append(join_parts([aggregate(block @ sums) for block in blocks]))
    if len(ways) == 1:
        return draws_by_way[0]
    return {
        name: value + _widen_deviations([one[name] - value for one in draws_by_way], sizes, resampling.level)
        for name, value in observed_values.items()
    }


def _widen_deviations(deviations: Sequence[Floats], sizes: Sequence[int], level: float) -> Floats:
    """Add the deviations of several ways of clustering, widened for small numbers of clusters; see `draw_crossed`."""
    scaled = [one * np.sqrt(size / (size - 1)) for one, size in zip(deviations, sizes, strict=True)]
    total: Floats = np.sum(scaled, axis=0)
    defined = ~np.isnan(total)
    variances = np.array([one[defined].var() for one in scaled]) if defined.any() else np.zeros(len(scaled))
    if not variances.sum() > 0:
        return total
    from captious.stats.tests import normal_point, t_point

    degrees = variances.sum() ** 2 / (variances**2 / (np.array(sizes) - 1)).sum()
    return total * (t_point(level, float(degrees)) / normal_point((1 + level) / 2))


def compute_in_threads(statistics: Sequence[WeightedStatistic], weights: Floats) -> list[dict[str, Floats]]:
    """Compute statistics under weights in threads, each with a part of the draws: NumPy releases Python's lock."""
    if weights.size < SMALL:
        return [statistic(weights) for statistic in statistics]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = min(cores, THREADS)
    parts = [np.ascontiguousarray(part) for part in np.array_split(weights, min(threads, weights.shape[1]), axis=1)]
    with ThreadPoolExecutor(threads) as pool:
        jobs = [[pool.submit(statistic, part) for part in parts] for statistic in statistics]
        return [join_parts([job.result() for job in row]) for row in jobs]
