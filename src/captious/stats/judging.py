"""Statistics of judges: the biases of one rater (the judge) against another (people), with clusters such as images.

People's ratings y are regressed on the standardized values z of the judge and on something else, such as the length
of captions. The coefficient of the latter is how people rate differently *at the same judge value*: what the judge does
not see, or sees wrongly. Standard errors are from leaving out one cluster at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from captious._core.types import Bools, Floats, Ints
from captious.stats.regression import ClusteredFit, Contrast, fit_clustered
from captious.stats.resampling import holm, sum_clusters


def standardize(values: Floats) -> Floats:
    """Return values less their mean, over their standard deviation with divisor n."""
    result: Floats = (values - values.mean()) / values.std()
    return result


class Residuals(NamedTuple):
    """How people rate each group at the same judge value, around the mean of the groups."""

    groups: tuple[Contrast, ...]
    p_holm: tuple[float, ...]
    p: float
    """p-value of the joint test that no group differs (Wald's F)."""
    fit: ClusteredFit
    weights: Floats
    """Groups × coefficients: the contrast of each group."""


@dataclass(frozen=True, eq=False)
class JudgeRegressions:
    """Ratings of people against a judge: one row per rated caption."""

    rating: Floats
    judge: Floats
    cluster: Ints

    @property
    def standardized(self) -> Floats:
        """The judge with mean 0 and standard deviation 1."""
        return standardize(self.judge)

    def slope(self) -> Contrast:
        """Return how much higher people rate a caption whose judge value is a standard deviation higher."""
        return self._fit().contrast([0.0, 1.0])

    def curvature(self) -> Contrast:
        """Return the coefficient of z² in a regression on z and z²; it is 0 if the relation is linear."""
        return self._fit(self.standardized**2).contrast([0.0, 0.0, 1.0])

    def covariate(self, values: Floats) -> Contrast:
        """Return how much higher people rate a caption at the same judge value if a covariate is higher by 1."""
        return self._fit(values).contrast([0.0, 0.0, 1.0])

    def residuals(self, group: Ints) -> Residuals:
        """Return how people rate each group, such as a system, at the same judge value."""
        number = int(group.max()) + 1
        # One intercept per group instead of a common one. A contrast is the intercept less the mean of all intercepts;
        # these add up to 0, so the joint test leaves out the last one.
        dummies = (group[:, None] == np.arange(number)).astype(np.float64)
        fit = fit_clustered(self.rating, np.column_stack([self.standardized, dummies]), self.cluster)
        weights = np.column_stack([np.zeros(number), np.eye(number) - 1 / number])
        groups = tuple(fit.contrast(row) for row in weights)
        return Residuals(groups, tuple(holm([one.p for one in groups])), fit.joint_p(weights[:-1]), fit, weights)

    def _fit(self, *columns: Floats) -> ClusteredFit:
        ones = np.ones(len(self.rating))
        return fit_clustered(self.rating, np.column_stack([ones, self.standardized, *columns]), self.cluster)


def compare_residuals(one: Residuals, other: Residuals, group: int) -> Contrast:
    """Return the residual of a group under one judge minus that under another, for the same rows and clusters.

    It is negative if the first judge overrates the group, compared with people, more than the second judge does.
    """
    value = one.groups[group].value - other.groups[group].value
    deviations = one.fit.deviations @ one.weights[group] - other.fit.deviations @ other.weights[group]
    clusters = len(deviations)
    error = math.sqrt((clusters - 1) / clusters * float(deviations @ deviations))
    return Contrast(value, error, clusters - 1.0)


class PositionBias(NamedTuple):
    """The effect of the order in which two captions are shown, from a judge that saw both orders of each pair."""

    pairs: int
    same: int
    """Pairs with the same verdict in both orders."""
    first: int
    """Pairs in which a caption got a better result when it was shown first."""
    second: int
    bias: float
    """Half of the mean difference between a caption's results when shown first and second; ½ if the first always
    wins."""
    p: float
    """Exact binomial test of ``first`` against ``second``."""


def position_bias(shown_first: Floats, shown_second: Floats) -> PositionBias:
    """Compute the bias for the first position of a pair.

    Both arrays have one value per pair: the result of the same caption, a win (1), tie (½) or loss (0), when it was
    shown first and when it was shown second.

    >>> position_bias(np.array([1, 1, 1, 0, 0.5, 1]), np.array([1, 0, 0.5, 0, 0.5, 0]))
    PositionBias(pairs=6, same=3, first=3, second=0, bias=0.20833333333333334, p=0.25)
    """
    from scipy.stats import binomtest

    gaps = shown_first - shown_second
    first, second = int((gaps > 0).sum()), int((gaps < 0).sum())
    p = float(binomtest(first, first + second).pvalue) if first + second else 1.0
    bias = float(gaps.mean()) / 2 if len(gaps) else math.nan
    return PositionBias(len(gaps), int((gaps == 0).sum()), first, second, bias, p)


class Decisions(NamedTuple):
    """Agreement of yes/no decisions with the truth."""

    kappa: Contrast
    true_yes: Contrast
    """The true positive rate (sensitivity): the share of yes decisions among cases that are truly yes."""
    true_no: Contrast
    """The true negative rate (specificity): the share of no decisions among cases that are truly no."""


def compare_decisions(decisions: Bools, truth: Bools, cluster: Ints) -> Decisions:
    """Compute Cohen's kappa, TPR and TNR, with standard errors by leaving out one cluster at a time.

    >>> truth, image = np.array([True, True, False, False]), np.arange(4)
    >>> compare_decisions(np.array([True, False, False, False]), truth, image).kappa.value  # (.75 − .5) / .5
    0.5
    """
    _, index = np.unique(cluster, return_inverse=True)
    cells = np.column_stack([truth & decisions, truth & ~decisions, ~truth & decisions, ~truth & ~decisions]).astype(
        np.float64
    )
    sums = sum_clusters(cells, index.astype(np.int64), int(index.max()) + 1)
    statistics = (_compute_kappa, _compute_sensitivity, _compute_specificity)
    return Decisions(*(_jackknife(sums, statistic) for statistic in statistics))


def _compute_kappa(counts: Floats) -> Floats:
    """Compute Cohen's kappa of rows of counts: true positives, false negatives, false positives, true negatives."""
    tp, fn, fp, tn = counts.T
    number = counts.sum(axis=1)
    observed = (tp + tn) / number
    chance = ((tp + fn) * (tp + fp) + (tn + fn) * (tn + fp)) / number**2
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Floats = (observed - chance) / (1 - chance)
    return result


def _compute_sensitivity(counts: Floats) -> Floats:
    tp, fn, _, _ = counts.T
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Floats = tp / (tp + fn)
    return result


def _compute_specificity(counts: Floats) -> Floats:
    _, _, fp, tn = counts.T
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Floats = tn / (fp + tn)
    return result


def _jackknife(sums: Floats, statistic: Callable[[Floats], Floats]) -> Contrast:
    """Return a statistic of summed rows, one row per cluster, with its jackknife error."""
    total, clusters = sums.sum(axis=0), len(sums)
    value = float(statistic(total[None, :])[0])
    if clusters < 2:
        return Contrast(value, math.nan, math.nan)
    deviations = statistic(total - sums) - value
    return Contrast(value, math.sqrt((clusters - 1) / clusters * float(deviations @ deviations)), clusters - 1.0)


class RepeatNoise(NamedTuple):
    """Variance components of a judge that was asked several times about each caption."""

    between: float
    """Variance of the captions' true values; never below 0."""
    within: float
    """Variance of repeated answers to the same question."""
    captions: int
    repeats: float
    """Mean number of answers per caption."""

    @property
    def reliability(self) -> float:
        """The share of the variance of single answers that is due to captions (intraclass correlation, ICC(1))."""
        total = self.between + self.within
        return self.between / total if total > 0 else math.nan


def split_variance(answers: Floats) -> RepeatNoise:
    """Split the variance of answers into that between captions and that within captions.

    ``answers`` is captions × repeats, NaN for a missing answer; numbers of answers may differ. It is the one-way random
    effects model, estimated by the method of moments.

    >>> noise = split_variance(np.array([[1.0, 3.0], [5.0, 7.0]]))  # within 2; means 2 and 6: 8 − 2 / 2
    >>> noise.within, noise.between
    (2.0, 7.0)
    """
    sums = sum_answers(answers).sum(axis=0)
    between, within = split_sums(sums[None, :])
    captions, total = sums[:2]
    return RepeatNoise(float(between[0]), float(within[0]), int(captions), float(total / max(captions, 1)))


def sum_answers(answers: Floats) -> Floats:
    """Return a row per caption with an answer; `split_sums` computes the variances from the sum of these rows.

    The columns are 1, n, n², n · mean, n · mean², and the squared deviations from the mean, of n answers.
    """
    answers = answers[~np.isnan(answers).all(axis=1)]
    if not len(answers):
        return np.zeros((0, 6))
    number = (~np.isnan(answers)).sum(axis=1)
    # Differences from the first answer of the caption are exactly 0 if all answers are equal, and so is their variance.
    first = answers[np.arange(len(answers)), (~np.isnan(answers)).argmax(axis=1)]
    differences = answers - first[:, None]
    mean_difference = np.nanmean(differences, axis=1)
    means = first + mean_difference
    means -= means.mean()  # squares of large means would lose digits
    deviations = np.nansum((differences - mean_difference[:, None]) ** 2, axis=1)
    return np.stack([np.ones(len(number)), number, number**2, number * means, number * means**2, deviations], axis=1)


def split_sums(sums: Floats) -> tuple[Floats, Floats]:
    """Return the variances between and within captions from summed rows; NaN if there is nothing to compare."""
    captions, total, squares, values, values_squared, deviations = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        within = np.where(total > captions, deviations / (total - captions), np.nan)
        between_square = (values_squared - values**2 / total) / (captions - 1)
        # The number of answers per caption that enters the expected mean square; with equal numbers it is that number.
        effective_size = (total - squares / total) / (captions - 1)
        between = np.where(captions > 1, np.maximum((between_square - within) / effective_size, 0.0), np.nan)
    return between, np.where(captions > 1, within, np.nan)


def standardize_twice(means: Floats) -> Floats:
    """Standardize a matrix of generators × judges by column, then by row; leading axes are resamples.

    This removes the strictness of each judge and the quality of each generator. What remains in the cell of a judge and
    its own generator is self-preference. A column or row without differences becomes 0.
    """
    for axis in (-2, -1):
        spread = means.std(axis=axis, keepdims=True)
        means = np.where(
            spread > 1e-12, (means - means.mean(axis=axis, keepdims=True)) / np.maximum(spread, 1e-12), 0.0
        )
    return means
