"""Krippendorff's alpha: do raters agree more than chance would have them, whatever ratings are missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from captious._typing import Floats
from captious.errors import InputError
from captious.options import LEVEL, SAMPLES, SEED
from captious.stats.resampling import bootstrap_weights
from captious.study.design import Rows
from captious.study.ratings import Ratings
from captious.study.resampling import Estimate, bootstrap, observed

Level = Literal["nominal", "ordinal", "interval", "ratio"]


@dataclass(frozen=True)
class Alpha:
    """Alpha with its interval, and what it was computed from."""

    estimate: Estimate
    level: Level
    units: int
    """Items with at least two ratings; the others say nothing about agreement."""
    ratings: int
    raters: int
    single: int
    """Items with one rating, left out."""


def alpha(
    ratings: Ratings,
    level: Level = "interval",
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
    confidence: float = LEVEL,
    constant: Literal["error", "one"] = "error",
) -> Alpha:
    """α = 1 − D_o / D_e, with a bootstrap interval over images.

    Each unit with m ≥ 2 ratings adds its ordered pairs, each 1/(m − 1), to the coincidences o; n_c is their margin.

        D_o = Σ o_ck δ²(c, k) / n        D_e = Σ n_c n_k δ²(c, k) / n(n − 1)

    δ²: nominal 0 or 1; interval (c − k)²; ratio ((c − k)/(c + k))²; ordinal (n_c/2 + n_between + n_k/2)². All ratings
    equal leaves it undefined: an error, or 1 with ``constant="one"``.

    >>> round(alpha(Ratings.of({"a": [1, 1], "b": [2, 2], "c": [1, 2]}), "nominal", samples=0).estimate.value, 6)
    0.444444
    """
    if ratings.values.shape[1] < 2:
        raise InputError(f"{ratings.name}: one rater only, agreement needs at least two")
    number = (~np.isnan(ratings.values)).sum(axis=1)
    pairable = number >= 2
    if not pairable.any():
        raise InputError(f"{ratings.name}: no item has two ratings, agreement needs at least one that does")
    kept = ratings.values[pairable]
    scale = np.unique(kept[~np.isnan(kept)])
    counts = np.stack([(kept == value).sum(axis=1) for value in scale], axis=1).astype(np.float64)
    cluster = np.unique(np.array(ratings.groups)[pairable], return_inverse=True)[1]
    if len(scale) == 1:
        if constant == "error":
            raise InputError(f"{ratings.name}: all ratings are {scale[0]:g}: alpha is undefined (0 / 0)")
        value, draws = 1.0, np.ones(samples)
    else:
        value = _alpha(counts, scale, level, np.ones(len(counts)))
        draws = np.array(
            [
                _alpha(counts, scale, level, weights[cluster])
                for block in (bootstrap_weights(int(cluster.max()) + 1, samples, seed) if samples else ())
                for weights in block
            ]
        )
    estimate = Estimate.of(value, draws, confidence) if samples else Estimate(value)
    used = int((~np.isnan(kept)).any(axis=0).sum())
    return Alpha(estimate, level, int(pairable.sum()), int(number[pairable].sum()), used, int((number == 1).sum()))


def _alpha(counts: Floats, scale: Floats, level: Level, weights: Floats) -> float:
    size = counts.sum(axis=1)
    coincidences = (counts * (weights / (size - 1))[:, None]).T @ counts
    coincidences -= np.diag((weights / (size - 1)) @ counts)
    margin = coincidences.sum(axis=0)
    n = margin.sum()
    delta = distances(scale, margin, level)
    expected = margin @ delta @ margin / (n * (n - 1))
    return 1 - float((coincidences * delta).sum() / n / expected) if expected > 0 else float("nan")


def distances(scale: Floats, margin: Floats, level: Level) -> Floats:
    """δ² between any two values of the scale."""
    c, k = scale[:, None], scale[None, :]
    if level == "nominal":
        return np.asarray(c != k, dtype=np.float64)
    if level == "interval":
        result: Floats = (c - k) ** 2
        return result
    if level == "ratio":
        if (scale < 0).any():
            raise InputError(f"a ratio scale has no negative values, found {scale.min():g}")
        below = np.where(c + k == 0, 1.0, c + k)
        return np.asarray(((c - k) / below) ** 2)
    upto = np.cumsum(margin)
    between = np.abs(upto[:, None] - upto[None, :])
    # From c to k the counts add up to |F(k) − F(c)| + n_min(c,k); half of both ends is taken off.
    lower = np.minimum.outer(np.arange(len(scale)), np.arange(len(scale)))
    ends = (margin[:, None] + margin[None, :]) / 2
    return np.asarray(np.where(c == k, 0.0, between + margin[lower] - ends) ** 2)


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


def raters(ratings: Ratings, level: Level = "interval") -> list[Rater]:
    """Diagnostics of every rater."""
    values, found = ratings.values, []
    names = ratings.raters or tuple(str(number + 1) for number in range(values.shape[1]))
    for column, name in enumerate(names):
        problem, own = _against_others(ratings, column)
        mine = values[:, column][~np.isnan(values[:, column])]
        others = replace(ratings, values=np.delete(values, column, axis=1))
        try:
            rest = alpha(others, level, samples=0, constant="one").estimate.value
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


def ceiling(ratings: Ratings, samples: int = SAMPLES, seed: int = SEED, level: float = LEVEL) -> Ceiling:
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
        drawn = bootstrap(statistics, problem.clusters, samples, seed) if samples else [{}, {}]
        for statistic, part in zip(statistics, drawn, strict=True):
            for name, value in observed(statistic, problem.clusters).items():
                if name in names:
                    values[name].append(value)
                    if samples:
                        draws[name].append(part[name])
    if not values["tau_b"]:
        raise InputError(f"{ratings.name}: no rater can be held against others, expected two who rated the same items")
    found = {
        name: Estimate.of(float(np.mean(values[name])), np.mean(draws[name], axis=0), level)
        if samples
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
