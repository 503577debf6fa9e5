"""Combination studies: what another metric adds to a metric, before and after, over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from captious.defaults import LEVEL, SAMPLES, SEED
from captious.errors import InputError
from captious.measurement import Floats
from captious.study.problem import Problem
from captious.study.resampling import Estimate, bootstrap, observed
from captious.study.scores import Scores
from captious.study.significance import bootstrap_p


@dataclass(frozen=True)
class Combination:
    """One metric before and after adding λ times another; over seeds, the mean and standard deviation."""

    metric: str
    other: str
    weight: float
    statistic: str
    before: float
    after: float
    spread: float
    """Standard deviation over seeds (divisor seeds − 1); NaN with one seed."""
    seeds: int
    gain: Estimate
    """After − before, the mean over seeds, with an interval over images."""
    p: float = float("nan")
    """Of the gain: two-sided, paired bootstrap over images; NaN without resamples."""


def combine(
    problem: Problem,
    metrics: Sequence[Scores],
    others: Mapping[str, Sequence[Floats]],
    *,
    weights: Sequence[float] = (1.0,),
    statistic: str = "pearson",
    samples: int = SAMPLES,
    seed: int = SEED,
    level: float = LEVEL,
) -> list[Combination]:
    """Metric + λ · other for every metric, every other and every λ, as in ImaginE's Tables 1 to 3.

    ``others`` holds one array of values per seed. Values are added as they are, item by item, on their own scales: the
    paper's CIDEr, far above 1, hardly moves when something between 0 and 1 is added. The paper's statistic is Pearson
    over examples, its spread that of the seeds.

    >>> from captious.study.problem import Rows
    >>> people = np.array([1.0, 2.0, 3.0, 4.0])
    >>> rows = Rows(people, np.arange(4), np.arange(4), 4, people)
    >>> metric, other = Scores("m", "m", np.array([1.0, 0.0, 0.0, 1.0])), np.array([0.0, 1.0, 2.0, 2.0])
    >>> made = combine(rows, [metric], {"o": [other]}, samples=0)[0]  # 1 1 2 3 against 1 2 3 4: 3.5 / √(5 · 2.75)
    >>> round(abs(made.before), 6), round(made.after, 6)
    (0.0, 0.94388)
    """
    if statistic not in problem.families:
        raise InputError(f"{statistic}: no such statistic of these data, there are {', '.join(problem.families)}")
    family = problem.families[statistic]
    found = []
    for metric in metrics:
        base = problem.family(family, metric.oriented)
        before = observed(base, problem.clusters)[statistic]
        for other, seeds in others.items():
            for weight in weights:
                added = [problem.family(family, metric.oriented + weight * values) for values in seeds]
                after = np.array([observed(one, problem.clusters)[statistic] for one in added])
                gain, p = Estimate(float(after.mean() - before)), float("nan")
                if samples:
                    drawn = bootstrap([base, *added], problem.clusters, samples, seed)
                    mean = np.mean([part[statistic] for part in drawn[1:]], axis=0)
                    gain = Estimate.of(gain.value, mean - drawn[0][statistic], level)
                    p = bootstrap_p(gain.value, mean - drawn[0][statistic])
                spread = float(after.std(ddof=1)) if len(after) > 1 else float("nan")
                found.append(
                    Combination(
                        metric.key, other, weight, statistic, before, float(after.mean()), spread, len(after), gain, p
                    )
                )
    return found


def by_seed(scores: Sequence[Scores]) -> dict[str, list[Floats]]:
    """Columns ``name@seed`` gathered by name: the seeds of one metric.

    >>> list(by_seed([Scores("ie@1", "", np.zeros(1)), Scores("ie@2", "", np.ones(1)), Scores("b", "", np.ones(1))]))
    ['ie', 'b']
    """
    gathered: dict[str, list[Floats]] = {}
    for score in scores:
        gathered.setdefault(score.key.rsplit("@", 1)[0], []).append(score.values)
    return gathered
