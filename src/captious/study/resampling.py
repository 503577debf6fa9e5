"""Bootstrap over images and permutation between metrics, both by weights; draws are shared by everything in a study."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from captious._typing import Floats
from captious.errors import InputError
from captious.options import LEVEL, SAMPLES, SEED
from captious.stats.kendall import Halves, Kendall, joined
from captious.stats.resampling import bootstrap_weights, swap_masks
from captious.study.design import Problem, Statistic


@dataclass(frozen=True)
class Estimate:
    """A value with its percentile interval, standard error, and the draws that left it undefined."""

    value: float
    low: float = float("nan")
    high: float = float("nan")
    error: float = float("nan")
    undefined: int = 0

    @classmethod
    def of(cls, value: float, draws: Floats, level: float = LEVEL) -> Estimate:
        """From the value and its draws."""
        known = draws[~np.isnan(draws)]
        if len(known) < 2:
            return cls(value, undefined=len(draws) - len(known))
        low, high = np.percentile(known, [50 * (1 - level), 50 * (1 + level)])
        return cls(value, float(low), float(high), float(known.std(ddof=1)), len(draws) - len(known))


def observed(statistic: Statistic, clusters: int) -> dict[str, float]:
    """The values on the data as they are."""
    return {name: float(found[0]) for name, found in statistic(np.ones((clusters, 1))).items()}


def bootstrap(
    statistics: Sequence[Statistic], clusters: int, samples: int = SAMPLES, seed: int = SEED
) -> list[dict[str, Floats]]:
    """Every statistic on resampled images; all of them see the same draws."""
    blocks = [_spread(statistics, block.T) for block in bootstrap_weights(clusters, samples, seed)]
    return [joined([block[place] for block in blocks]) for place in range(len(statistics))]


def permuted(
    problem: Problem,
    contests: Sequence[tuple[Floats, Floats]],
    name: str,
    permutations: int = SAMPLES,
    seed: int = SEED,
) -> list[tuple[float, Floats]]:
    """PERM-BOTH (Deutsch et al. 2021): the observed difference of each two metrics, and those under permutation.

    Both metrics are standardized; in a permutation every image swaps its values between them with probability one half
    and the statistic is computed again for both. All contests share the permutations.
    """
    double, family = problem.doubled(), problem.families[name]
    statistics = [
        double.family(family, np.concatenate([standardized(one), standardized(other)])) for one, other in contests
    ]
    clusters = problem.clusters
    keep = np.repeat(np.array([[1.0, 0.0], [0.0, 1.0]]), clusters, axis=0)
    seen = [(value := statistic(keep)[name])[0] - value[1] for statistic in statistics]
    found: list[list[Floats]] = [[] for _ in contests]
    halves = [_gaps(statistic, name) for statistic in statistics]
    for masks in swap_masks(clusters, permutations, seed):
        swap = masks.T
        for place, values in enumerate(_spread(halves, np.concatenate([1 - swap, swap]))):
            found[place].append(values[name])
    return [(float(value), np.concatenate(parts)) for value, parts in zip(seen, found, strict=True)]


def standardized(values: Floats) -> Floats:
    """Mean 0 and standard deviation 1."""
    spread = values.std()
    if spread == 0:
        raise InputError("a metric is constant on the data and cannot be standardized")
    result: Floats = (values - values.mean()) / spread
    return result


def _gaps(statistic: Statistic, name: str) -> Statistic:
    """The difference between the statistic of what is drawn and that of what is not."""
    if isinstance(statistic, Kendall):
        halves = Halves.of(statistic)

        def taus(weights: Floats) -> dict[str, Floats]:
            drawn, rest = halves(weights)
            return {name: drawn[name] - rest[name]}

        return taus
    return lambda weights: {name: statistic(weights)[name] - statistic(1 - weights)[name]}


def _spread(statistics: Sequence[Statistic], weights: Floats) -> list[dict[str, Floats]]:
    """Statistics under weights, the draws divided between threads: NumPy computes without holding Python's lock."""
    threads = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 8)
    parts = [np.ascontiguousarray(part) for part in np.array_split(weights, min(threads, weights.shape[1]), axis=1)]
    with ThreadPoolExecutor(threads) as pool:
        jobs = [[pool.submit(statistic, part) for part in parts] for statistic in statistics]
        return [joined([job.result() for job in row]) for row in jobs]
