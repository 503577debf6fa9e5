"""Two metrics against the same people, by every test there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from captious._typing import Floats
from captious.errors import InputError
from captious.stats.bootstrap import Estimate, Statistic, in_threads
from captious.stats.kendall import Halves, Kendall
from captious.stats.resampling import swap_masks
from captious.stats.tests import Test, bootstrap_p, permutation_p, williams
from captious.study.design import Problem, Rows

if TYPE_CHECKING:
    from captious.study.study import Study


@dataclass(frozen=True)
class Contest:
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
    """On item means and Pearson's r; None for pairs."""
    p: float
    """Of the study's test, two-sided."""
    p_holm: float = float("nan")
    """Adjusted over all pairs of metrics in the study."""


def contests(study: Study, pairs: Sequence[tuple[str, str]]) -> list[Contest]:
    """Each pair of metrics, by their keys; p-values are not adjusted."""
    if not pairs:
        return []
    o, values = study.options, {score.key: score.oriented for score in study.scores}
    study.progress("permutations")
    sides = [(values[one], values[other]) for one, other in pairs]
    found = []
    for (one, other), (seen, shuffled) in zip(
        pairs, permuted(study.problem, sides, o.statistic, o.permutations, o.seed), strict=True
    ):
        p, greater = permutation_p(seen, shuffled)
        low = high = p_bootstrap = float("nan")
        if o.samples:
            gaps = study.draws[one][o.statistic] - study.draws[other][o.statistic]
            interval = Estimate.of(seen, gaps, o.level)
            low, high, p_bootstrap = interval.low, interval.high, bootstrap_p(seen, gaps)
        by_williams = _williams(study.problem, values[one], values[other])
        final = {"permutation": p, "bootstrap": p_bootstrap, "williams": by_williams.p if by_williams else p}[o.test]
        found.append(Contest(one, other, o.statistic, seen, low, high, p, greater, p_bootstrap, by_williams, final))
    return found


def _williams(problem: Problem, one: Floats, other: Floats) -> Test | None:
    if not isinstance(problem, Rows) or len(one) < 4 or np.ptp(problem.mean) == 0:
        return None
    r = np.asarray(np.corrcoef(np.stack([problem.mean, one, other])))
    return williams(float(r[0, 1]), float(r[0, 2]), float(r[1, 2]), len(one))


def permuted(
    problem: Problem,
    contests: Sequence[tuple[Floats, Floats]],
    name: str,
    permutations: int,
    seed: int,
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
        for place, values in enumerate(in_threads(halves, np.concatenate([1 - swap, swap]))):
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
