"""Weighted linear regression whose errors are clustered: every cluster, such as an image, is left out once.

    y = X b + error          rows of one image, or of one rater, are not independent of each other
    M = X'WX, A = X'Wy       b = M⁻¹ A
    without cluster g        b₍g₎ = (M − M_g)⁻¹ (A − A_g), in closed form, without another pass over the rows

The delete-one-cluster jackknife covers its level with 20 clusters, where sandwich estimators are still too narrow
(Bell and McCaffrey 2002; MacKinnon, Nielsen and Webb 2023). The module knows only numbers: `survey` makes the mean
rating of systems from it, and the audit of a judge its slopes.

>>> fit = fit_clustered(np.array([1.0, 2.0, 4.0, 5.0]), np.ones((4, 1)), np.array([0, 1, 2, 3]))
>>> mean = fit.contrast([1.0])  # of independent rows: the mean, s / √n, and n − 1 degrees of freedom
>>> mean.value, round(mean.error, 6), mean.degrees
(3.0, 0.912871, 3.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from captious._core.types import Floats, Ints
from captious.errors import InputError
from captious.options import LEVEL
from captious.stats.tests import t_point, t_tail

# Largest number of floats in a block of X'WX matrices: 32 MB.
BLOCK = 1 << 22
# A column of the design whose sum of squares falls below this share when a cluster is left out is empty without it.
EMPTY = 1e-12


class Contrast(NamedTuple):
    """A linear combination of coefficients with its standard error; Student's t with ``degrees`` of freedom."""

    value: float
    error: float
    degrees: float

    @property
    def p(self) -> float:
        """The two-sided p-value against 0; 1 for 0 ± 0, and 0 for anything else without error."""
        if self.error == 0:
            return 1.0 if self.value == 0 else 0.0
        return min(1.0, 2 * t_tail(abs(self.value) / self.error, self.degrees))

    def interval(self, level: float = LEVEL, factor: float | None = None) -> tuple[float, float]:
        """Return value ± t · error; ``factor`` replaces t, for results that are looked at repeatedly.

        >>> low, high = Contrast(3.0, 1.0, 9).interval()
        >>> round(low, 4), round(high, 4)
        (0.7378, 5.2622)
        """
        width = (t_point(level, self.degrees) if factor is None else factor) * self.error
        return self.value - width, self.value + width


@dataclass(frozen=True, eq=False)
class ClusteredFit:
    """Coefficients of a weighted regression, and how they change if each cluster is left out."""

    coefficients: Floats
    deviations: Floats
    """Clusters × coefficients: the coefficients without the cluster less those of all rows."""
    residuals: Floats
    """y − X b of each row."""

    @property
    def clusters(self) -> int:
        """The number of clusters."""
        return len(self.deviations)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of a t test: clusters − 1."""
        return float(self.clusters - 1)

    @property
    def covariance(self) -> Floats:
        """The jackknife covariance of the coefficients: (G − 1) / G · Σ of d dᵀ."""
        shrink = (self.clusters - 1) / self.clusters
        result: Floats = shrink * self.deviations.T @ self.deviations
        return result

    def contrast(self, weights: npt.ArrayLike) -> Contrast:
        """Estimate Σ of weight · coefficient, such as [0, 1, −1] for the difference of the last two."""
        chosen = np.asarray(weights, dtype=np.float64)
        variance = float(chosen @ self.covariance @ chosen)
        return Contrast(float(chosen @ self.coefficients), math.sqrt(max(variance, 0.0)), self.degrees)

    def joint_p(self, weights: npt.ArrayLike) -> float:
        """Test that several contrasts, one per row, are all 0: Wald's F with (rows, clusters − 1) degrees of freedom.

        >>> y, x = np.array([1.0, 2.0, 4.0, 5.0, 4.0]), np.array([[1.0, 0], [1, 1], [1, 2], [1, 3], [1, 4]])
        >>> fit = fit_clustered(y, x, np.arange(5))
        >>> bool(np.isclose(fit.joint_p([[0, 1]]), fit.contrast([0, 1]).p))  # F of one contrast is t²
        True
        """
        from scipy.special import fdtrc

        rows = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        values, covariance = rows @ self.coefficients, rows @ self.covariance @ rows.T
        wald = float(values @ np.linalg.pinv(covariance) @ values) / len(rows)
        return float(fdtrc(len(rows), self.degrees, wald))


def fit_clustered(y: Floats, design: Floats, cluster: Ints, weights: Floats | None = None) -> ClusteredFit:
    """Fit ``y`` on the columns of ``design`` by weighted least squares, and leave out each cluster once.

    A cluster without which a column would be empty, such as the only image of a system, has no fit of the rest. It is
    represented by its score: −M⁻¹ (A_g − M_g b) · G / (G − 1).

    Parameters
    ----------
    y, design
        One number per row, and rows × columns. A constant is a column of ones; nothing is added.
    cluster
        The cluster of each row, such as the number of its image. Numbers may have gaps.
    weights
        One per row; 1 for all by default.

    Raises
    ------
    InputError
        If a column of the design is a combination of others, or there are fewer than two clusters.

    >>> line = np.stack([np.ones(4), np.array([1.0, 2, 3, 4])], axis=1)
    >>> fit = fit_clustered(np.array([2.0, 3, 3, 5]), line, np.arange(4))
    >>> fit.coefficients.round(6).tolist()  # slope Σ(x − 2.5) y / Σ(x − 2.5)² = 4.5 / 5
    [1.0, 0.9]
    """
    number, columns = design.shape
    rows = np.ones(number) if weights is None else weights
    _, place = np.unique(cluster, return_inverse=True)
    groups = int(place.max()) + 1 if number else 0
    if groups < 2:
        raise InputError(f"a regression over clusters has {groups} of them, expected at least 2")
    weighted = design * rows[:, None]
    total, products = weighted.T @ design, weighted.T @ y
    scale = np.sqrt(np.diag(total))
    if not scale.all() or np.linalg.cond(total / np.outer(scale, scale)) > 1e12:
        raise InputError("a column of the regression is constant or a combination of others")
    coefficients: Floats = np.linalg.solve(total, products)
    residuals: Floats = y - design @ coefficients
    deviations = np.empty((groups, columns))
    # (M − M_g) d = −(A_g − M_g b): the right side is the sum of residuals, so d has no cancellation.
    scores = sum_by_cluster(weighted * residuals[:, None], place, groups)
    for block, squares in _iterate_squares(design, weighted, place, groups):
        deviations[block] = _leave_out(total, squares, scores[block], groups)
    return ClusteredFit(coefficients, deviations, residuals)


def sum_by_cluster(rows: Floats, cluster: Ints, clusters: int) -> Floats:
    """Sum rows by cluster; unlike `resampling.sum_clusters` in one pass, for many columns.

    >>> sum_by_cluster(np.array([[1.0], [2.0], [4.0]]), np.array([1, 0, 1]), 2).ravel().tolist()
    [2.0, 5.0]
    """
    from scipy.sparse import csr_matrix

    number = len(cluster)
    choice = csr_matrix((np.ones(number), (cluster, np.arange(number))), shape=(clusters, number))
    result: Floats = choice @ rows
    return result


def _iterate_squares(design: Floats, weighted: Floats, cluster: Ints, clusters: int) -> Iterator[tuple[slice, Floats]]:
    """Yield X'WX of each cluster, a block of clusters at a time, so that memory is bounded."""
    columns = design.shape[1]
    order = np.argsort(cluster, kind="stable")
    ends = np.searchsorted(cluster[order], np.arange(clusters + 1))
    step = max(1, BLOCK // (columns * columns))
    first = 0
    while first < clusters:
        # As many clusters as have at most `step` rows together, but at least one.
        last = int(np.searchsorted(ends, ends[first] + step, side="right")) - 1
        last = min(max(last, first + 1), first + step, clusters)
        rows = order[ends[first] : ends[last]]
        products = weighted[rows][:, :, None] * design[rows][:, None, :]
        sums = np.add.reduceat(products.reshape(len(rows), -1), ends[first:last] - ends[first], axis=0)
        yield slice(first, last), sums.reshape(last - first, columns, columns)
        first = last


def _leave_out(total: Floats, squares: Floats, scores: Floats, groups: int) -> Floats:
    """Return the change of the coefficients if each of these clusters is left out."""
    rest = total - squares
    diagonal = np.einsum("gkk->gk", rest)
    empty = (diagonal <= EMPTY * np.diag(total)).any(axis=1)
    rest[empty] = total  # without the cluster a column is empty: use its score, as `fit_clustered` explains
    scores = np.where(empty[:, None], scores * (groups / (groups - 1)), scores)
    try:
        return (-np.linalg.solve(rest, scores[:, :, None])[:, :, 0]).astype(np.float64)
    except np.linalg.LinAlgError:
        # Rare: the rows without some cluster are collinear although no column is empty.
        result: Floats = -np.einsum("gkl,gl->gk", np.linalg.pinv(rest, hermitian=True), scores)
        return result
