"""Auxiliary values for `survey`: their transformation, chosen without ratings, and a prediction from several."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from captious._core.types import Floats, Ints
from captious.options import SEED
from captious.stats.correlation import mid_ranks
from captious.stats.ridge import deal_folds
from captious.stats.survey import center_by

Form: TypeAlias = Literal["auto", "values", "ranks", "monotone"]
# With a larger |skewness|, ranks replace values: otherwise a few extreme values would decide the slope.
SKEWED = 2.0
# Number of folds of the cross-fit.
FOLDS = 5
Fit: TypeAlias = Callable[[Floats, Floats, Ints], Callable[[Floats], Floats]]
# Quantiles at which values are clipped.
CLIP = (0.01, 0.99)


def skewness(values: Floats) -> float:
    """Return the third standardized moment, m₃ / m₂^1.5; 0 for constant values.

    >>> round(skewness(np.array([0.0, 0, 0, 1])), 4)  # m₂ = 3 / 16, m₃ = 3 / 32
    1.1547
    """
    deviations = values - values.mean()
    variance = float((deviations**2).mean())
    return float((deviations**3).mean()) / variance**1.5 if variance > 0 else 0.0


def choose_form(values: Floats) -> Literal["values", "ranks"]:
    """Return ``ranks`` for values that are very skewed, such as BLEU of single captions, and ``values`` otherwise.

    >>> choose_form(np.array([0.0] * 9 + [1])), choose_form(np.array([0.0, 1, 2]))
    ('ranks', 'values')
    """
    return "ranks" if abs(skewness(values)) > SKEWED else "values"


def shape_values(values: Floats, form: Literal["values", "ranks"]) -> Floats:
    """Return values clipped to their 1st and 99th percentile, or their mid-ranks / n.

    >>> shape_values(np.array([5.0, 7, 7, 9]), "ranks").tolist()
    [0.25, 0.625, 0.625, 1.0]
    """
    if form == "ranks":
        result: Floats = mid_ranks(values) / len(values)
        return result
    low, high = np.quantile(values, CLIP)
    clipped: Floats = np.clip(values, low, high)
    return clipped


def fill_missing(values: Floats) -> tuple[Floats, Floats | None]:
    """Replace NaN by the mean; return the values and a 0/1 column that marks the replaced ones, None if there are none.

    >>> fill_missing(np.array([1.0, np.nan, 3.0]))
    (array([1., 2., 3.]), array([0., 1., 0.]))
    """
    missing = np.isnan(values)
    if not missing.any():
        return values, None
    return np.where(missing, values[~missing].mean(), values), missing.astype(np.float64)


def cross_fit(fit: Fit, values: Floats, image: Ints, rated: Ints, rating: Floats, seed: int = SEED) -> Floats:
    """Predict the rating of every caption without the ratings of its own image.

    ``rated`` are the captions with a rating, and ``rating`` their mean ratings. ``fit`` takes values, ratings and
    images of some captions and returns a function of values. Rated captions are predicted by the fit to the other
    folds, all others by the mean of the five fits.
    """
    images, image_index = np.unique(image[rated], return_inverse=True)
    folds = min(FOLDS, len(images))
    fold = deal_folds(len(images), folds, seed)
    fold_of_image = np.full(int(image.max()) + 1, -1)  # −1 for images without ratings
    fold_of_image[images] = fold
    fold_of_caption = fold_of_image[image]
    predictions = np.stack(
        [
            fit(values[rated[chosen]], rating[chosen], image_index[chosen])(values)
            for chosen in (fold[image_index] != number for number in range(folds))
        ]
    )
    result: Floats = np.where(
        fold_of_caption >= 0,
        predictions[np.maximum(fold_of_caption, 0), np.arange(len(values))],
        predictions.mean(axis=0),
    )
    return result


def shrink_prediction(predicted: Floats, rating: Floats, group: Ints) -> float:
    """Return the slope of ratings on their prediction within groups, such as systems, clipped to between 0 and 1.

    >>> shrink_prediction(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.5, 2.0]), np.zeros(3, int))
    0.5
    """
    x, y = (center_by(one[:, None], group)[:, 0] for one in (predicted, rating))
    square = float(x @ x)
    return float(np.clip(x @ y / square, 0.0, 1.0)) if square > 0 else 0.0


def gain_range(gain: float, images: int) -> tuple[float, float]:
    """Return the 90 % interval of a gain 1 / (1 − r²), the ratio of two variances, by the delta method.

    >>> [round(end, 2) for end in gain_range(1.4, 100)]
    [1.17, 1.67]
    """
    # The logarithm of a gain has the standard error 2r / √n, and 3.29 is 2 · 1.645.
    width = 3.29 * math.sqrt(max(1 - 1 / gain, 0.0) / images)
    return gain * math.exp(-width), gain * math.exp(width)


def effective_number(weights: Floats) -> float:
    """Return Kish's effective sample size (Σ w)² / Σ w²: the number of equal weights with the same variance.

    >>> round(effective_number(np.array([1.0, 1, 2])), 4)
    2.6667
    """
    return float(weights.sum() ** 2 / (weights**2).sum())


def count_by(groups: Ints) -> Floats:
    """Count how often each distinct number occurs, in increasing order of the numbers.

    >>> count_by(np.array([3, 3, 7])).tolist()
    [2.0, 1.0]
    """
    return np.unique(groups, return_counts=True)[1].astype(np.float64)
