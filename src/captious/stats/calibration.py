"""Calibration of one variable by another: monotone curves, errors by cross-validation, and prediction intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from captious._core.types import Floats, Ints
from captious.options import SEED
from captious.stats.regression import Contrast, fit_clustered
from captious.stats.ridge import deal_folds

# Number of folds of the reported error.
FOLDS = 10
# Fewest rows in the first and last block of a monotone curve; otherwise a single row could determine an end.
END = 10
# Fewest clusters for a prediction interval.
LEAST_CLUSTERS = 30
Predict = Callable[[Floats], Floats]
CurveForm = Literal["line", "isotonic"]


@dataclass(frozen=True)
class Curve:
    """A curve through knots: linear between them, and constant outside."""

    x: tuple[float, ...]
    y: tuple[float, ...]

    def predict(self, x: Floats) -> Floats:
        """Return the value of the curve at each x."""
        return np.interp(x, self.x, self.y)


def fit_line(x: Floats, y: Floats) -> Curve:
    """Fit the line of least squares, which ends at the smallest and the largest x.

    >>> fit_line(np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 4.0])).y
    (0.5, 3.5)
    """
    low, high = float(x.min()), float(x.max())
    center, mean = float(x.mean()), float(y.mean())
    if low == high:
        return Curve((low,), (mean,))
    spread = x - center
    slope = float(spread @ (y - mean) / (spread @ spread))
    return Curve((low, high), (mean + slope * (low - center), mean + slope * (high - center)))


def fit_isotonic(x: Floats, y: Floats, end: int = END) -> Curve:
    """Fit the nondecreasing curve of least squares; an end block of fewer than ``end`` rows joins its neighbor.

    Rows with the same x count as their mean. The knots are the first and the last x of each block.
    """
    distinct, index = np.unique(x, return_inverse=True)
    weights = np.bincount(index).astype(np.float64)
    values = pool_adjacent_violators(np.bincount(index, y) / weights, weights, end)
    inner = np.zeros(len(values), dtype=np.bool_)
    inner[1:-1] = (values[1:-1] == values[:-2]) & (values[1:-1] == values[2:])
    return Curve(tuple(distinct[~inner].tolist()), tuple(values[~inner].tolist()))


def pool_adjacent_violators(values: Floats, weights: Floats, end: float = 0) -> Floats:
    """Return the nondecreasing sequence that is closest to the values in weighted squares.

    A first or last block whose weight is below ``end`` is then merged with its neighbor.

    >>> pool_adjacent_violators(np.array([1.0, 3.0, 2.0, 4.0, 3.0]), np.ones(5)).tolist()
    [1.0, 2.5, 2.5, 3.5, 3.5]
    >>> pool_adjacent_violators(np.array([1.0, 3.0, 2.0, 4.0, 3.0]), np.ones(5), end=2).tolist()
    [2.0, 2.0, 2.0, 3.5, 3.5]
    """
    blocks: list[tuple[float, float, int]] = []  # the sum of weights · values, the weight, the number of values
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        block = (weight * value, weight, 1)
        while blocks and blocks[-1][0] / blocks[-1][1] >= block[0] / block[1]:
            block = _merge_blocks(blocks.pop(), block)
        blocks.append(block)
    while len(blocks) > 1 and blocks[0][1] < end:
        blocks[:2] = [_merge_blocks(blocks[0], blocks[1])]
    while len(blocks) > 1 and blocks[-1][1] < end:
        blocks[-2:] = [_merge_blocks(blocks[-2], blocks[-1])]
    return np.repeat([total / weight for total, weight, _ in blocks], [number for _, _, number in blocks])


def _merge_blocks(one: tuple[float, float, int], other: tuple[float, float, int]) -> tuple[float, float, int]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def predict_out_of_fold(
    fit: Callable[[Floats, Floats, Ints], Predict], x: Floats, y: Floats, cluster: Ints, seed: int = SEED
) -> Floats:
    """Predict each row by a fit to the other folds; rows of one cluster, such as an image, are left out together.

    ``fit`` takes x, y and the clusters of some rows, and returns a function of x. There are ten folds, or one for each
    cluster if there are fewer. With one cluster nothing can be left out: the predictions are NaN.
    """
    clusters, index = np.unique(cluster, return_inverse=True)
    folds = min(FOLDS, len(clusters))
    predicted = np.full(len(y), np.nan)
    if folds < 2:
        return predicted
    fold = deal_folds(len(clusters), folds, seed)[index]
    for number in range(folds):
        left_out = fold == number
        predicted[left_out] = fit(x[~left_out], y[~left_out], index[~left_out])(x[left_out])
    return predicted


class ChosenCurve(NamedTuple):
    """The line or the monotone curve, and what both predict out of fold."""

    form: CurveForm
    curve: Curve
    predicted: Mapping[CurveForm, Floats]


def choose_curve(
    x: Floats, y: Floats, cluster: Ints, scale: tuple[float, float], rises: bool = True, seed: int = SEED
) -> ChosenCurve:
    """Fit the line and the monotone curve, and choose the curve only if its error out of fold is clearly lower.

    Predictions are kept on the scale of y. The curve never falls; with ``rises=False`` it never rises.
    """
    # `fit_isotonic` fits a curve that never falls, so the sign of x is changed if y falls with it.
    sign = 1.0 if rises else -1.0
    fits: dict[CurveForm, Callable[[Floats, Floats], Curve]] = {"line": fit_line, "isotonic": fit_isotonic}
    predicted = {
        form: np.clip(
            predict_out_of_fold(lambda a, b, _, fit=fit: fit(a, b).predict, sign * x, y, cluster, seed),  # type: ignore[misc]
            *scale,
        )
        for form, fit in fits.items()
    }
    gain = cluster_mean((predicted["line"] - y) ** 2 - (predicted["isotonic"] - y) ** 2, cluster)
    form: CurveForm = "isotonic" if gain.value > gain.error else "line"
    curve = fits[form](sign * x, y)
    if not rises:
        curve = Curve(tuple(-x for x in reversed(curve.x)), tuple(reversed(curve.y)))
    return ChosenCurve(form, curve, predicted)


def cluster_mean(values: Floats, cluster: Ints) -> Contrast:
    """Return the mean over rows with its standard error over clusters, by the jackknife.

    >>> cluster_mean(np.array([1.0, 3.0]), np.array([0, 1]))[:2]
    (2.0, 1.0)
    """
    if len(np.unique(cluster)) < 2:
        return Contrast(float(values.mean()), math.nan, math.nan)
    return fit_clustered(values, np.ones((len(values), 1)), cluster).contrast([1.0])


class CurvePart(NamedTuple):
    """Rows with neighboring values of x: their mean of x, their number, and their mean of y over clusters."""

    x: float
    rows: int
    y: Contrast


def split_curve(x: Floats, y: Floats, cluster: Ints, parts: int = 5) -> list[CurvePart]:
    """Return the mean of y in parts of about the same number of rows, by x; equal values of x stay together."""
    cuts = np.unique(np.quantile(x, np.arange(1, parts) / parts))
    part = np.searchsorted(cuts, x, side="left")
    masks = [part == number for number in np.unique(part)]
    return [CurvePart(float(x[rows].mean()), int(rows.sum()), cluster_mean(y[rows], cluster[rows])) for rows in masks]


def conformal_half_width(errors: Floats, cluster: Ints, level: float) -> float:
    """Return the half width of a prediction interval from errors out of fold (cross-conformal).

    It is the smallest r such that errors of at most r make up the share ``level`` of all clusters, counting one more
    cluster whose error is unknown: that of the new prediction. Each cluster has the weight 1, divided among its rows.
    The result is infinite if there are too few clusters.

    >>> conformal_half_width(np.arange(1, 11) / 10, np.arange(10), 0.9)
    1.0
    """
    _, index = np.unique(cluster, return_inverse=True)
    sizes = np.bincount(index)
    order = np.argsort(np.abs(errors), kind="stable")
    share = np.cumsum(1 / sizes[index[order]]) / (len(sizes) + 1)
    reached = np.flatnonzero(share >= level - 1e-12)  # sums of thirds are not exact
    return float(np.abs(errors)[order[reached[0]]]) if len(reached) else math.inf


@dataclass(frozen=True)
class Errors:
    """The error of predictions."""

    rmse: float
    mae: float
    r2: float
    """1 − the mean squared error / the variance; below 0 if the mean of all would be a better prediction."""
    pearson: float


def compute_errors(predicted: Floats, y: Floats) -> Errors:
    """Compute how far predictions are from the truth.

    >>> errors = compute_errors(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))
    >>> round(errors.rmse, 4), round(errors.mae, 4), round(errors.r2, 4)
    (0.5774, 0.3333, 0.7857)
    """
    gaps, variance = predicted - y, float(y.var())
    constant = np.ptp(predicted) == 0 or variance == 0
    return Errors(
        math.sqrt(float((gaps**2).mean())),
        float(np.abs(gaps).mean()),
        1 - float((gaps**2).mean()) / variance if variance else math.nan,
        math.nan if constant else float(np.corrcoef(predicted, y)[0, 1]),
    )


def best_possible_r2(values: Floats) -> float:
    """Return the R² of a perfect prediction of noisy ratings: 1 − the noise of an item's mean / the variance of means.

    ``values`` has a row per item and a column per rater, NaN if there is no rating. The noise is that of the items with
    two ratings or more; NaN if there is none.

    >>> best_possible_r2(np.array([[1.0, 3.0], [4.0, 4.0]]))  # noise (2 + 0) / 2 / 2; variance of 2 and 4: 2
    0.75
    """
    number = (~np.isnan(values)).sum(axis=1)
    several = values[number > 1]
    variance = float(np.nanmean(values[number > 0], axis=1).var(ddof=1)) if len(values) > 1 else 0.0
    if not len(several) or variance == 0:
        return math.nan
    within = float(np.nanvar(several, axis=1, ddof=1).mean())
    return 1 - within * float((1 / number[number > 0]).mean()) / variance
