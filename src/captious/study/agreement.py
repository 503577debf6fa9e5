"""Krippendorff's alpha: do raters agree more than chance would have them, whatever ratings are missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from captious.defaults import LEVEL, SAMPLES, SEED
from captious.errors import InputError
from captious.measurement import Floats
from captious.statistics import bootstrap_weights
from captious.study.rated import Ratings
from captious.study.resampling import Estimate

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
