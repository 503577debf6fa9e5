"""Ridge regression, with its penalty chosen by cross-validation over clusters such as images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from captious._core.types import Floats, Ints
from captious.options import SEED

# Penalties to choose from: the columns are standardized, so their sums of squares are the number of rows.
PENALTIES = tuple(10.0**power for power in range(-2, 5))
INNER_FOLDS = 5


def deal_folds(clusters: int, folds: int, seed: int = SEED) -> Ints:
    """Return the fold of each cluster: at random, all folds of the same size or one cluster larger.

    Rows of one cluster, such as the captions of an image, share its fold. Number the clusters by their
    sorted names, and the order of the rows changes nothing.

    >>> np.bincount(deal_folds(7, 3)).tolist()
    [3, 2, 2]
    """
    fold: Ints = np.random.default_rng(seed).permutation(clusters) % folds
    return fold


@dataclass(frozen=True)
class Ridge:
    """A linear prediction: an intercept, and a coefficient for each standardized column."""

    intercept: float
    coefficients: tuple[float, ...]
    means: tuple[float, ...]
    sds: tuple[float, ...]
    """Standard deviations with divisor n; 1 for a constant column, whose coefficient is 0."""
    penalty: float

    def predict(self, x: Floats) -> Floats:
        """Predict one value per row; values outside those of the fit continue the line."""
        values: Floats = self.intercept + (x - np.array(self.means)) / np.array(self.sds) @ np.array(self.coefficients)
        return values


def fit_ridge(x: Floats, y: Floats, penalty: float) -> Ridge:
    """Minimize the sum of squared errors + ``penalty`` · the sum of squared coefficients of standardized columns.

    The intercept is not penalized. This is scikit-learn's ``Ridge(alpha=penalty)`` after its ``StandardScaler``.

    >>> round(float(fit_ridge(np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([1.0, 2.0, 2.0, 4.0]), 1.0)
    ...       .predict(np.array([[5.0]]))[0]), 9)
    4.05
    """
    (ridge,) = _fit_ridges(x, y, (penalty,))
    return ridge


def _fit_ridges(x: Floats, y: Floats, penalties: Sequence[float]) -> list[Ridge]:
    """Fit one ridge per penalty; the sums of products are made once."""
    # The mean and the sd of a constant column have rounding errors, so they are not computed.
    constant = np.ptp(x, axis=0) == 0
    means, sds = np.where(constant, x[0], x.mean(axis=0)), np.where(constant, 1.0, x.std(axis=0))
    z, center = (x - means) / sds, float(y.mean())
    products, moments, identity = z.T @ z, z.T @ (y - center), np.eye(x.shape[1])
    return [
        Ridge(
            center,
            tuple(np.linalg.solve(products + penalty * identity, moments).tolist()),
            tuple(means.tolist()),
            tuple(sds.tolist()),
            penalty,
        )
        for penalty in penalties
    ]


def choose_penalty(x: Floats, y: Floats, cluster: Ints, seed: int = SEED) -> float:
    """Choose the penalty with the smallest squared error out of fold; five folds of clusters, the larger of equals.

    With fewer than two clusters nothing can be left out, and the largest penalty is taken.
    """
    clusters, index = np.unique(cluster, return_inverse=True)
    folds = min(INNER_FOLDS, len(clusters))
    if folds < 2:
        return PENALTIES[-1]
    fold = deal_folds(len(clusters), folds, seed)[index]
    losses = np.zeros(len(PENALTIES))
    for number in range(folds):
        left_out = fold == number
        ridges = _fit_ridges(x[~left_out], y[~left_out], PENALTIES)
        losses += [float(((ridge.predict(x[left_out]) - y[left_out]) ** 2).sum()) for ridge in ridges]
    return PENALTIES[len(PENALTIES) - 1 - int(losses[::-1].argmin())]


def fit_tuned_ridge(x: Floats, y: Floats, cluster: Ints, seed: int = SEED) -> Ridge:
    """Fit a ridge with the penalty that `choose_penalty` chooses on the same rows."""
    return fit_ridge(x, y, choose_penalty(x, y, cluster, seed))
