"""Two metrics against the same people, by every test there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from captious._core.types import Floats
from captious.errors import InputError
from captious.stats.bootstrap import NAN, WeightedStatistic, compute_in_threads
from captious.stats.correlation import pearson
from captious.stats.kendall import Kendall, SplitKendall
from captious.stats.resampling import swap_masks
from captious.stats.tests import Test, williams
from captious.study._design import Design, RatingRows

TestName: TypeAlias = Literal["permutation", "bootstrap", "williams"]


@dataclass(frozen=True)
class MetricContest:
    """Two metrics against the same people; differences are the first minus the second."""

    first: str
    second: str
    statistic: str
    difference: float
    low: float
    high: float
    p_permutation: float
    p_permutation_greater: float
    p_bootstrap: float
    williams: Test | None
    """Williams' test on item means and Pearson's r; None for pairs."""
    p: float
    """The two-sided p-value of the study's test."""
    p_holm: float = NAN
    """The p-value, adjusted over all pairs of metrics in the study."""


def permute_differences(
    design: Design, sides: Sequence[tuple[Floats, Floats]], name: str, permutations: int, seed: int
) -> list[tuple[float, Floats]]:
    """Compute the observed difference of each two metrics, and those under permutation: PERM-BOTH (Deutsch et al.
    2021).

    Both metrics are standardized; in a permutation every image swaps its values between them with probability one half
    and the statistic is computed again for both. All pairs of metrics share the permutations.
    """
    if not sides:
        return []
    double, family, groups = design.repeat_rows(), design.families[name], design.clusters
    statistics = [double.family(family, np.concatenate([standardize(one), standardize(other)])) for one, other in sides]
    unswapped = np.repeat(np.array([[1.0, 0.0], [0.0, 1.0]]), groups, axis=0)
    observed = [(value := statistic(unswapped)[name])[0] - value[1] for statistic in statistics]
    differences = [_make_difference(statistic, name) for statistic in statistics]
    draws: list[list[Floats]] = [[] for _ in sides]
    for masks in swap_masks(groups, permutations, seed):
        swap = masks.T.astype(np.float64)
        for index, values in enumerate(compute_in_threads(differences, np.concatenate([1 - swap, swap]))):
            draws[index].append(values[name])
    return [(float(value), np.concatenate(parts)) for value, parts in zip(observed, draws, strict=True)]


def standardize(values: Floats) -> Floats:
    """Scale values to mean 0 and standard deviation 1."""
    spread = values.std()
    if spread == 0:
        raise InputError("a metric is constant on the data and cannot be standardized")
    result: Floats = (values - values.mean()) / spread
    return result


def _make_difference(statistic: WeightedStatistic, name: str) -> WeightedStatistic:
    """Return the statistic of what is drawn minus that of what is not."""
    if isinstance(statistic, Kendall):
        halves = SplitKendall.of(statistic)

        def taus(weights: Floats) -> dict[str, Floats]:
            drawn, rest = halves(weights)
            return {name: drawn[name] - rest[name]}

        return taus
    return lambda weights: {name: statistic(weights)[name] - statistic(1 - weights)[name]}


def run_williams_test(design: Design, one: Floats, other: Floats) -> Test | None:
    """Run Williams' test of two metrics on mean ratings; None for pairs, few items or constant ratings."""
    if not isinstance(design, RatingRows) or len(one) < 4 or np.ptp(design.mean) == 0:
        return None
    return williams(pearson(design.mean, one), pearson(design.mean, other), pearson(one, other), len(one))
