"""Two metrics against the same people, by every test there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from captious._typing import Floats
from captious.stats.tests import Test, bootstrap_p, permutation_p, williams
from captious.study.design import Problem, Rows
from captious.study.resampling import Estimate, permuted

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
