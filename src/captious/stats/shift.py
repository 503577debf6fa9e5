"""The shift of a mean between two samples of groups, such as the prompts of two steps of a training."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from captious._core.types import Floats
from captious.options import Resampling
from captious.stats.bootstrap import Estimate
from captious.stats.resampling import bootstrap_weights


@dataclass(frozen=True)
class Shift:
    """The mean of a later sample less that of an earlier one, by a bootstrap of the groups of both."""

    before: float
    after: Estimate
    """The later mean with its interval."""
    difference: Estimate
    p_down: float
    """p-value against "it has not fallen": (1 + resamples with a difference of at least 0) / (1 + resamples)."""
    p_up: float

    @property
    def ratio(self) -> float:
        """The later mean over the earlier one; NaN if that is 0."""
        return self.after.value / self.before if self.before else float("nan")


def mean_estimate(values: Floats, resampling: Resampling) -> Estimate:
    """Estimate the mean of groups with its interval; NaN marks a group without a value.

    >>> mean_estimate(np.array([1.0, 3.0, np.nan]), Resampling(samples=100)).value
    2.0
    """
    defined = values[~np.isnan(values)]
    if not len(defined):
        return Estimate(float("nan"))
    return Estimate.under(float(defined.mean()), _draw_means(defined, resampling, 0), resampling, len(defined))


def mean_shift(before: Floats, after: Floats, resampling: Resampling, *, paired: bool = False) -> Shift:
    """Estimate the shift of a mean between two independent samples of groups, or ``paired`` between two values of each
    group.

    >>> shift = mean_shift(np.zeros(8), np.ones(8), Resampling(samples=99))
    >>> shift.difference.value, shift.p_up, shift.p_down
    (1.0, 0.01, 1.0)
    >>> mean_shift(np.array([1.0, 5.0]), np.array([2.0, 6.0]), Resampling(samples=99), paired=True).p_up
    0.01
    """
    has_before, has_after = ~np.isnan(before), ~np.isnan(after)
    if paired:
        has_before = has_after = has_before & has_after
    first, second = before[has_before], after[has_after]
    if not len(first) or not len(second):
        nan = float("nan")
        return Shift(nan, Estimate(nan), Estimate(nan), nan, nan)
    start, draws = float(first.mean()), _draw_means(second, resampling, 1)
    differences = draws - _draw_means(first, resampling, 1 if paired else 0)
    gap, groups = float(second.mean()) - start, min(len(first), len(second))
    if groups < 2:
        nan = float("nan")
        return Shift(start, Estimate(float(second.mean())), Estimate(gap), nan, nan)
    # Draws of n groups from n vary too little, by √((n − 1) / n).
    differences = gap + (differences - gap) * math.sqrt(groups / (groups - 1))
    number = 1 + len(differences)
    return Shift(
        start,
        Estimate.under(float(second.mean()), draws, resampling, len(second)),
        Estimate.under(gap, differences, resampling, groups),
        float(1 + (differences >= 0).sum()) / number,
        float(1 + (differences <= 0).sum()) / number,
    )


def _draw_means(values: Floats, resampling: Resampling, stream: int) -> Floats:
    """Draw means of resampled groups."""
    blocks = bootstrap_weights(len(values), resampling.samples, resampling.seed + stream)
    draws: Floats = np.concatenate([block @ values for block in blocks]) / len(values)
    return draws
