"""Combination studies: what another metric adds to a metric, before and after, over seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from captious._typing import Floats
from captious.errors import InputError
from captious.metrics.registry import parse_all
from captious.options import LEVEL, SAMPLES, SEED, Resampling
from captious.stats.bootstrap import Estimate, Statistic, bootstrap, observed
from captious.stats.tests import bootstrap_p
from captious.study.design import Problem
from captious.study.ratings import Preferences, Ratings
from captious.study.scores import Scores, scores_of


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

    >>> from captious.study.design import Rows
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
                    drawn = bootstrap([base, *added], problem.clusters, Resampling(samples, seed, level))
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


GRID = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
FOLDS = 5


@dataclass(frozen=True)
class Chosen:
    """One metric with another added by the λ that was best on the rest of the images."""

    metric: str
    other: str
    statistic: str
    weight: float
    """Best on all images: what one would use, its value there being too good."""
    weights: tuple[float, ...]
    """Best on the rest of the images, by fold."""
    before: float
    """Of the metric alone: the mean over folds of the value on the images left out."""
    after: float
    """The same with the chosen λ, the mean over seeds: the honest value."""
    spread: float
    """Standard deviation over seeds; NaN with one seed."""
    seeds: int


def cross_validate(
    problem: Problem,
    metrics: Sequence[Scores],
    others: Mapping[str, Sequence[Floats]],
    *,
    grid: Sequence[float] = GRID,
    folds: int = FOLDS,
    statistic: str = "pearson",
    seed: int = SEED,
) -> list[Chosen]:
    """The best λ of ``grid`` for every metric and every other, by the mean over seeds, with its held-out value.

    Images are dealt into folds, so captions of one image never stand on both sides. A λ is chosen on the other folds
    and judged on its own; values are averaged over folds, before and after alike. Of equal λ the smallest is taken.
    """
    if statistic not in problem.families:
        raise InputError(f"{statistic}: no such statistic of these data, there are {', '.join(problem.families)}")
    if not 2 <= folds <= problem.clusters:
        raise InputError(f"--folds {folds}: expected 2 to {problem.clusters}, the number of images or groups")
    fold = np.random.default_rng(seed).permutation(problem.clusters) % folds
    own = (fold[:, None] == np.arange(folds)).astype(np.float64)
    weights = np.concatenate([own, 1 - own, np.ones((problem.clusters, 1))], axis=1)  # left out, rest, all
    family, order = problem.families[statistic], sorted(set(grid))
    found = []
    for metric in metrics:
        base = _values(problem.family(family, metric.oriented), weights, statistic)
        for other, seeds in others.items():
            table = np.array(
                [
                    [
                        _values(problem.family(family, metric.oriented + factor * one), weights, statistic)
                        for one in seeds
                    ]
                    for factor in order
                ]
            )  # λ × seeds × (left out, rest, all)
            mean = np.nan_to_num(table.mean(axis=1), nan=-np.inf)
            best = mean.argmax(axis=0)
            after = np.mean([table[best[folds + place], :, place] for place in range(folds)], axis=0)
            found.append(
                Chosen(
                    metric.key,
                    other,
                    statistic,
                    order[int(best[-1])],
                    tuple(order[int(best[folds + place])] for place in range(folds)),
                    float(base[:folds].mean()),
                    float(after.mean()),
                    float(after.std(ddof=1)) if len(seeds) > 1 else float("nan"),
                    len(seeds),
                )
            )
    return found


def _values(statistic: Statistic, weights: Floats, name: str) -> Floats:
    return statistic(weights)[name]


def seeded(
    ratings: Ratings | Preferences,
    metrics: str,
    seeds: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[Scores]:
    """Metrics on the captions that were rated; those with seeds once for each, called ``name@1``, ``name@2``, …

    ``seeds`` sets how many, for the metrics that have any.
    """
    if ratings.captions is None:
        raise InputError(f"{ratings.name}: ratings without captions; give a file of what is added instead")
    found: list[Scores] = []
    wanted = parse_all(metrics)
    having = [metric for metric in wanted if any(field.name == "seeds" for field in fields(metric))]
    if seeds is not None and not having:
        raise InputError(f"--seeds {seeds}: none of {', '.join(map(str, wanted))} depends on a seed")
    for metric in wanted:
        chosen = replace(metric, seeds=seeds) if seeds is not None and metric in having else metric  # type: ignore[call-arg]
        if progress:
            progress(chosen.label)
        measured = chosen.measure(ratings.captions)
        chosen.refuse_empty(measured, ratings.name)
        whole = scores_of([measured], ratings.ids, ratings.name)[0]
        whole = replace(whole, remarks=measured.warnings)
        by_seed = chosen.seed_values(measured)
        if by_seed is None:
            found.append(whole)
            continue
        columns = by_seed[ratings.captions.positions(ratings.ids)]
        found += [
            replace(whole, key=f"{whole.key}@{number}", values=columns[:, number - 1])
            for number in range(1, columns.shape[1] + 1)
        ]
    return found
