"""Krippendorff's alpha: agreement of raters beyond chance; any ratings may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from captious._core.types import Floats, Ints
from captious.errors import InputError
from captious.options import Resampling
from captious.stats.bootstrap import NAN, Estimate
from captious.stats.resampling import bootstrap_weights

# Level of measurement of the ratings: what a difference between two of them means.
Measurement: TypeAlias = Literal["nominal", "ordinal", "interval", "ratio"]
# Decimals of alpha wherever it is shown.
ALPHA_DECIMALS = 3


@dataclass(frozen=True)
class Alpha:
    """Alpha with its interval, and what it was computed from."""

    estimate: Estimate
    measurement: Measurement
    units: int
    """Units with at least two ratings; the others say nothing about agreement."""
    ratings: int
    raters: int
    single: int
    """Units with one rating, left out."""


# Landis and Koch (1977): the highest value of each word. They wrote it for kappa.
_WORDS = {"slight": 0.2, "fair": 0.4, "moderate": 0.6, "substantial": 0.8, "almost perfect": 1.0}


def name_agreement(value: float) -> str:
    """Return the word that Landis and Koch's guideline for kappa has for a value; nothing for NaN.

    >>> [name_agreement(value) for value in (-0.1, 0.0, 0.2, 0.37, 0.633, 0.9)]
    ['poor', 'slight', 'slight', 'fair', 'substantial', 'almost perfect']
    """
    if value != value:
        return ""
    return "poor" if value < 0 else next(word for word, highest in _WORDS.items() if value <= highest)


def krippendorff(
    values: Floats,
    measurement: Measurement,
    resampling: Resampling,
    groups: Sequence[str] | None = None,
    *,
    constant: Literal["error", "one"] = "error",
    name: str = "ratings",
) -> Alpha:
    """Compute α = 1 − D_o / D_e of units × raters (NaN: not rated), with a bootstrap interval over groups of units.

    The coincidences o_ck count ordered pairs of ratings c and k of the same unit; in a unit with m ≥ 2 ratings a pair
    counts 1/(m − 1). n_c = Σ_k o_ck is the number of ratings c in such units, and n = Σ n_c.

        D_o = Σ o_ck δ²(c, k) / n        D_e = Σ n_c n_k δ²(c, k) / n(n − 1)

    δ²: nominal 0 or 1; interval (c − k)²; ratio ((c − k)/(c + k))²; ordinal (n_c/2 + n_between + n_k/2)².

    If all ratings are equal, alpha is undefined: raise InputError, or return 1 with ``constant="one"``. ``groups`` has
    the group of each unit; the bootstrap draws groups, by default single units.

    >>> ratings = np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 2.0]])
    >>> round(krippendorff(ratings, "nominal", Resampling(samples=0)).estimate.value, 6)
    0.444444
    """
    if values.shape[1] < 2:
        raise InputError(f"{name}: one rater only, agreement needs at least two")
    number = (~np.isnan(values)).sum(axis=1)
    pairable = number >= 2
    if not pairable.any():
        raise InputError(f"{name}: no item has two ratings, agreement needs at least one that does")
    used = values[pairable]
    scale = np.unique(used[~np.isnan(used)])
    counts = np.stack([(used == value).sum(axis=1) for value in scale], axis=1).astype(np.float64)
    names = np.arange(len(values)) if groups is None else np.array(groups)
    group = np.unique(names[pairable], return_inverse=True)[1]
    if len(scale) == 1:
        if constant == "error":
            raise InputError(f"{name}: all ratings are {scale[0]:g}: alpha is undefined (0 / 0)")
        value, draws = 1.0, np.ones(resampling.samples)
    else:
        value = _compute_alpha(counts, scale, measurement, np.ones(len(counts)))
        draws = np.array(
            [
                _compute_alpha(counts, scale, measurement, weights[group])
                for block in bootstrap_weights(int(group.max()) + 1, resampling.samples, resampling.seed)
                for weights in block
            ]
        )
    return Alpha(
        Estimate.under(value, draws, resampling, int(group.max()) + 1),
        measurement,
        int(pairable.sum()),
        int(number[pairable].sum()),
        int((~np.isnan(used)).any(axis=0).sum()),
        int((number == 1).sum()),
    )


def compute_alpha_without(values: Floats, rater: int, measurement: Measurement) -> float:
    """Compute the alpha of the other raters; NaN if they have no unit in common.

    >>> compute_alpha_without(np.array([[1.0, 1, 2], [2, 2, 1], [1, 1, 1]]), 2, "nominal")
    1.0
    """
    try:
        others = krippendorff(np.delete(values, rater, axis=1), measurement, Resampling(samples=0), constant="one")
    except InputError:
        return NAN
    return others.estimate.value


def measure_disagreements(unit: Ints, value: Floats, measurement: Measurement) -> Floats:
    """Measure the mean distance of each rating from the others of its unit, divided by that expected by chance.

    ``unit`` and ``value`` are those of each rating. Alpha is 1 minus the mean of the result; 1 minus the mean over one
    rater's ratings says how well that rater agrees with the others. NaN for the only rating of a unit, and everywhere
    if all ratings are equal.

    >>> distance = measure_disagreements(np.array([0, 0, 1, 1, 2, 2]), np.array([1.0, 1, 2, 2, 1, 2]), "nominal")
    >>> distance.round(6).tolist(), round(1 - float(distance.mean()), 6)
    ([0.0, 0.0, 0.0, 0.0, 1.666667, 1.666667], 0.444444)
    """
    if not len(unit):
        return np.zeros(0)
    scale, level = np.unique(value, return_inverse=True)
    counts = np.zeros((int(unit.max()) + 1, len(scale)))
    np.add.at(counts, (unit, level), 1.0)
    others = counts.sum(axis=1)[unit] - 1
    margin = np.bincount(level[others > 0], minlength=len(scale)).astype(np.float64)
    n = margin.sum()
    delta = _compute_distances(scale, margin, measurement)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = margin @ delta @ margin / (n * (n - 1))
        mean = (counts @ delta)[unit, level] / others
        return np.where((others > 0) & (expected > 0), mean / expected, np.nan)


def _compute_alpha(counts: Floats, scale: Floats, measurement: Measurement, weights: Floats) -> float:
    """Compute alpha from counts, units × values of the scale; a unit counts as often as ``weights`` says."""
    pair_weights = weights / (counts.sum(axis=1) - 1)
    # The product pairs every rating with itself too; the diagonal takes these pairs away.
    coincidences = (counts * pair_weights[:, None]).T @ counts - np.diag(pair_weights @ counts)
    margin = coincidences.sum(axis=0)
    n = margin.sum()
    delta = _compute_distances(scale, margin, measurement)
    expected = margin @ delta @ margin / (n * (n - 1))
    return 1 - float((coincidences * delta).sum() / n / expected) if expected > 0 else float("nan")


def _compute_distances(scale: Floats, margin: Floats, measurement: Measurement) -> Floats:
    """Compute δ² between any two values of the scale; ``margin`` is the number of ratings with each value."""
    c, k = scale[:, None], scale[None, :]
    if measurement == "nominal":
        return np.asarray(c != k, dtype=np.float64)
    if measurement == "interval":
        return np.asarray((c - k) ** 2)
    if measurement == "ratio":
        if (scale < 0).any():
            raise InputError(f"a ratio scale has no negative values, found {scale.min():g}")
        return np.asarray(((c - k) / np.where(c + k == 0, 1.0, c + k)) ** 2)
    # Ordinal: the number of ratings from c to k, both included, minus half of those at either end. With cumulative
    # counts F, the number is |F(k) − F(c)| plus the count of the lower one of both.
    cumulative = np.cumsum(margin)
    between = np.abs(cumulative[:, None] - cumulative[None, :])
    lower = np.minimum.outer(np.arange(len(scale)), np.arange(len(scale)))
    ends = (margin[:, None] + margin[None, :]) / 2
    return np.asarray(np.where(c == k, 0.0, between + margin[lower] - ends) ** 2)
