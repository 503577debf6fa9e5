"""The LIC score: how confidently and correctly a classifier predicts an attribute that captions should not reveal."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from captious._core.types import Floats, Ints
from captious.options import Resampling
from captious.stats.tests import normal_point, normal_tail, t_point, t_tail

# Scores are reported in points, as published.
POINTS = 100.0


def score_items(probabilities: Floats, truth: Ints) -> Floats:
    """Score each test caption: the probability of the true class if it is the largest, otherwise 0 (equation 2).

    >>> score_items(np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]]), np.array([0, 0, 1])).tolist()
    [0.9, 0.0, 0.7]
    """
    correct = probabilities.argmax(axis=1) == truth
    return np.where(correct, probabilities[np.arange(len(truth)), truth], 0.0)


def chance(classes: int) -> float:
    """Compute the score of a classifier that knows nothing, in points: it is right once in K, with probability 1/K.

    >>> chance(2), round(chance(3), 2)
    (25.0, 11.11)
    """
    return POINTS / classes**2


@dataclass(frozen=True, eq=False)
class Lic:
    """LIC = LIC_M − LIC_D of one captioner and classifier, in points.

    LIC_M is the mean score of classifiers trained and tested on the model's captions, one per seed. LIC_D is the mean
    score of classifiers trained and tested on human captions, one per seed and index of the human caption.

    Seeds re-split the same images, so their values are not independent, and sd/√seeds is too small an error. The
    interval uses the corrected variance of repeated splits (Nadeau & Bengio 2003), (1/seeds + tested/trained)·sd², with
    sd that of the seeds' differences (ddof 1) and Student's t. With one seed it is a normal interval over the tested
    images, valid only for that one training.

    >>> lic = Lic(np.array([48.0, 50.0]), np.array([[41.0, 43.0], [43.0, 45.0]]), ratio=1 / 9)
    >>> lic.lic_m, lic.lic_d, lic.lic, lic.sd_m
    (49.0, 43.0, 6.0, 1.0)
    """

    model: Floats
    """One value per seed."""
    human: Floats
    """One value per seed and index of the human caption."""
    ratio: float
    """The number of test images divided by that of training images."""
    ddof: int = 0
    level: float = Resampling.level
    item_error: float = math.nan
    """Standard error of the difference over tested images, for a single seed."""

    @property
    def lic_m(self) -> float:
        """Leakage of the model's captions."""
        return float(self.model.mean())

    @property
    def lic_d(self) -> float:
        """Leakage of the human captions."""
        return float(self.human.mean())

    @property
    def lic(self) -> float:
        """The difference of the model's and the human leakage."""
        return self.lic_m - self.lic_d

    @property
    def sd_m(self) -> float:
        """Standard deviation of LIC_M over seeds."""
        return _compute_sd(self.model, self.ddof)

    @property
    def sd_d(self) -> float:
        """Standard deviation of LIC_D over seeds, each seed being the mean over human caption indices."""
        return _compute_sd(self.human.mean(axis=1), self.ddof)

    @property
    def by_seed(self) -> Floats:
        """LIC of each seed."""
        differences: Floats = self.model - self.human.mean(axis=1)
        return differences

    @property
    def error(self) -> float:
        """Standard error of LIC: corrected for repeated splits if there are several seeds, else over tested images."""
        seeds = len(self.model)
        if seeds < 2:
            return self.item_error
        return float(math.sqrt(1 / seeds + self.ratio) * self.by_seed.std(ddof=1))

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of LIC."""
        seeds = len(self.model)
        quantile = t_point(self.level, seeds - 1) if seeds > 1 else normal_point(0.5 + self.level / 2)
        return self.lic - quantile * self.error, self.lic + quantile * self.error

    @property
    def p_value(self) -> float:
        """Two-sided p-value of the hypothesis LIC = 0; if the error is 0, it is 1 for LIC = 0 and otherwise 0."""
        if not self.error > 0:  # 0 or NaN
            return math.nan if math.isnan(self.error) else float(self.lic == 0)
        statistic, seeds = abs(self.lic / self.error), len(self.model)
        return 2 * (t_tail(statistic, seeds - 1) if seeds > 1 else normal_tail(statistic))

    @property
    def p_above(self) -> float:
        """One-sided p-value of the hypothesis that LIC is not above 0."""
        p = self.p_value
        return p / 2 if self.lic > 0 else 1 - p / 2

    @property
    def differs(self) -> bool:
        """Whether 0 is outside the interval."""
        low, high = self.interval
        return low > 0 or high < 0


def _compute_sd(values: Floats, ddof: int) -> float:
    """Compute the standard deviation; NaN if there are too few values for this ddof."""
    return float(values.std(ddof=ddof)) if len(values) > ddof else math.nan
