"""The factor of what is added, chosen on some images and judged on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from captious.defaults import SEED
from captious.errors import InputError
from captious.measurement import Floats
from captious.study.problem import Problem, Statistic
from captious.study.scores import Scores

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
