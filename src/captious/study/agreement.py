"""Krippendorff's alpha: do raters agree more than chance would have them, whatever ratings are missing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from captious._typing import Floats
from captious.errors import InputError
from captious.options import Resampling
from captious.stats.agreement import Alpha, Measurement, krippendorff
from captious.stats.bootstrap import Estimate, bootstrap, observed
from captious.study.design import Rows
from captious.study.ratings import Ratings


def alpha(ratings: Ratings, measurement: Measurement, resampling: Resampling) -> Alpha:
    """Krippendorff's alpha of the ratings, with a bootstrap interval over images."""
    return krippendorff(ratings.values, measurement, resampling, ratings.groups, name=ratings.name)


@dataclass(frozen=True)
class Rater:
    """One column of ratings against the other columns, on the items that both rated."""

    name: str
    ratings: int
    shared: int
    """Items that others rated too."""
    mean: float
    spread: float
    bias: float
    """Mean of the rater's ratings less those of the others on the same items."""
    pearson: float
    """Consistency: correlation with the mean of the others."""
    tau_b: float
    tau_c: float
    """The rater in the place of a metric, every rating of the others being a row."""
    alpha_without: float
    """Agreement of the others alone: above that of all, the rater is the odd one out."""
    constant: bool = False


@dataclass(frozen=True)
class Ceiling:
    """What a person reaches in the place of a metric, averaged over raters left out one at a time."""

    tau_b: Estimate
    tau_c: Estimate
    pearson: Estimate
    raters: int


def raters(ratings: Ratings, measurement: Measurement = "interval") -> list[Rater]:
    """Diagnostics of every rater."""
    values, found = ratings.values, []
    names = ratings.raters or tuple(str(number + 1) for number in range(values.shape[1]))
    for column, name in enumerate(names):
        problem, own = _against_others(ratings, column)
        mine = values[:, column][~np.isnan(values[:, column])]
        others = np.delete(values, column, axis=1)
        try:
            rest = krippendorff(others, measurement, Resampling(samples=0), constant="one").estimate.value
        except InputError:
            rest = float("nan")
        if problem is None or np.ptp(own) == 0 or np.ptp(problem.human) == 0:
            shared = 0 if problem is None else problem.items
            bias = float("nan") if problem is None else float((own - problem.mean).mean())
            nan = float("nan")
            found.append(
                Rater(
                    name,
                    len(mine),
                    shared,
                    float(mine.mean()) if len(mine) else nan,
                    float(mine.std()) if len(mine) else nan,
                    bias,
                    nan,
                    nan,
                    nan,
                    rest,
                    True,
                )
            )
            continue
        taus = observed(problem.family("kendall", own), problem.clusters)
        means = replace(problem, human=problem.mean, item=np.arange(problem.items))
        r = observed(means.family("moments", own), problem.clusters)["pearson"]
        bias = float((own - problem.mean).mean())
        found.append(
            Rater(
                name,
                len(mine),
                problem.items,
                float(mine.mean()),
                float(mine.std()),
                bias,
                r,
                taus["tau_b"],
                taus["tau_c"],
                rest,
            )
        )
    return found


def ceiling(ratings: Ratings, resampling: Resampling) -> Ceiling:
    """The human ceiling: each rater against the others, then the mean; its interval from the same image draws.

    Columns need not be persons: where every caption was rated by whoever came, a column is "a first rating", and the
    ceiling is that of a single rating.
    """
    names = ("tau_b", "tau_c", "pearson")
    images = np.unique(np.array(ratings.groups))
    values: dict[str, list[float]] = {name: [] for name in names}
    draws: dict[str, list[Floats]] = {name: [] for name in names}
    for column in range(ratings.values.shape[1]):
        problem, own = _against_others(ratings, column, images)
        if problem is None or np.ptp(own) == 0 or np.ptp(problem.human) == 0:
            continue
        means = replace(problem, human=problem.mean, item=np.arange(problem.items))
        statistics = [problem.family("kendall", own), means.family("moments", own)]
        drawn = bootstrap(statistics, problem.clusters, resampling) if resampling.samples else [{}, {}]
        for statistic, part in zip(statistics, drawn, strict=True):
            for name, value in observed(statistic, problem.clusters).items():
                if name in names:
                    values[name].append(value)
                    if resampling.samples:
                        draws[name].append(part[name])
    if not values["tau_b"]:
        raise InputError(f"{ratings.name}: no rater can be held against others, expected two who rated the same items")
    found = {
        name: Estimate.of(float(np.mean(values[name])), np.mean(draws[name], axis=0), resampling.level)
        if resampling.samples
        else Estimate(float(np.mean(values[name])))
        for name in names
    }
    return Ceiling(found["tau_b"], found["tau_c"], found["pearson"], len(values["tau_b"]))


def _against_others(ratings: Ratings, column: int, images: object = None) -> tuple[Rows | None, Floats]:
    """The others' ratings as a problem, and the rater's own as the values of a metric."""
    others = np.delete(ratings.values, column, axis=1)
    own = ratings.values[:, column]
    shared = np.flatnonzero(~np.isnan(own) & ~np.isnan(others).all(axis=1))
    if len(shared) < 3:
        return None, own
    values = others[shared]
    item, rater = np.nonzero(~np.isnan(values))
    known = np.unique(np.array(ratings.groups)) if images is None else np.asarray(images)
    cluster = np.searchsorted(known, np.array(ratings.groups)[shared])
    return Rows(values[item, rater], item, cluster, len(known), np.nanmean(values, axis=1)), own[shared]


def ordered(ratings: Ratings) -> bool:
    """Whether every item's ratings stand in ascending order: then columns are ranks of ratings, not raters."""
    values = ratings.values
    whole = values[~np.isnan(values).any(axis=1)]
    differ = whole[np.ptp(whole, axis=1) > 0] if len(whole) and values.shape[1] > 1 else whole[:0]
    return len(differ) >= 10 and bool((np.diff(differ, axis=1) >= 0).all())
