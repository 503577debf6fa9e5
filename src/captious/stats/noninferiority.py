"""Whether a new system is no worse than a base by more than a margin: bounds, p-values, decisions and sizes.

A gain is new minus base, with its sign turned where lower values are better. The null hypothesis is never equality: a
gain of minus the margin is the boundary between the two claims *not worse by more than the margin* and *worse*.

Percentiles of resamples, and Student's t, are too optimistic for a gate: if few captions change and most of these lose,
gains are skewed to the side of the losses, and a loss of the margin passes in 10 to 20 % where 5 % are meant. Therefore
the default takes the wider of two bounds on each side (``lab/benchmarks/gate_shapes.py`` compares them):

* the studentized bootstrap (bootstrap-t): each resample is divided by its own standard error, so the bounds follow the
  skew of the gains;
* Student's t with the degrees of freedom of the *changed* items: 7 changed captions among 50 are 7 observations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from captious._core.types import Floats
from captious.options import LEVEL, Bounds
from captious.stats.resampling import compute_interval_width, holm
from captious.stats.tests import normal_point, normal_tail, t_point, t_tail

Decision = Literal["pass", "worse", "undecided"]
# Probability that a system equal to the base passes, for recommended margins and numbers of items.
POWER = 0.8
# Two sums of the same numbers in another order differ by less than this share of the value.
ROUNDING = 1e-12
MOST_ITEMS = 10**9


@dataclass(frozen=True, eq=False)
class GainDraws:
    """The gains of one metric in bootstrap resamples, with the numbers that bounds are computed from."""

    gains: Floats
    units: int = 0
    """Items, or shards, that were resampled."""
    error: float = math.nan
    """The standard error of the observed gain, for studentized bounds."""
    errors: Floats = field(default_factory=lambda: np.zeros(0))
    """The standard error of the gain in each resample, computed in the same way."""
    changed: int = 0
    """Units whose statistics differ between the two sides."""


@dataclass(frozen=True)
class NonInferiority:
    """The gain of one metric, its one-sided bounds, and the p-value of the claim that the system is worse."""

    gain: float
    margin: float
    low: float
    """One-sided bound: the gain is at least this, with the confidence of the level. ``high`` is one-sided, too."""
    high: float
    error: float
    """Standard error of the gain: the standard deviation of its resamples, or `GainDraws.error` if studentized."""
    p_worse: float
    """The p-value of the null hypothesis that the loss is at most the margin."""
    slack: float = 0.0
    """Tolerance for rounding errors, in the unit of the gain."""

    @classmethod
    def of(
        cls,
        gain: float,
        draws: GainDraws,
        margin: float,
        scale: float,
        level: float = LEVEL,
        bounds: Bounds = "percentile",
    ) -> NonInferiority:
        """Compute the bounds and the p-value of an observed gain from its resamples.

        ``scale`` is the larger of the two compared values; the tolerance for rounding is proportional to it.
        With ``bounds="t"``, bounds and p-value are those of Student's t for the number of resampled units.

        >>> draws = GainDraws(np.zeros(1000))  # identical systems
        >>> test = NonInferiority.of(0.0, draws, margin=0.0, scale=1.0)
        >>> test.passes, test.p_worse
        (True, 1.0)
        """
        slack, gains, units = ROUNDING * scale, draws.gains, draws.units
        if math.isnan(gain) or len(gains) < 2:
            nan = float("nan")
            return cls(gain, margin, nan, nan, nan, nan, slack)
        error = float(gains.std(ddof=1))
        if bounds == "studentized" and draws.error > slack:
            return cls(gain, margin, *_compute_studentized(gain, draws, margin, slack, level), slack)
        # Also for studentized bounds without a standard error: a corpus value is undefined without one of its items.
        if bounds != "percentile" and units > 1 and error > slack:
            width = compute_interval_width(error, units, 2 * level - 1)
            distance = (gain + margin) / (error * math.sqrt(units / (units - 1)))
            return cls(gain, margin, gain - width, gain + width, error, t_tail(-distance, units - 1), slack)
        low, high = np.percentile(gains, [100 * (1 - level), 100 * level])
        within_margin = int(np.sum(gains >= -margin - slack))
        return cls(gain, margin, float(low), float(high), error, (1 + within_margin) / (1 + len(gains)), slack)

    @property
    def passes(self) -> bool:
        """Whether a loss of more than the margin is ruled out."""
        return self.low >= -self.margin - self.slack

    @property
    def smallest_margin(self) -> float:
        """The smallest margin with which these very results pass."""
        return 0.0 if -self.low <= self.slack else -self.low

    def items_to_decide(self, items: int, level: float = LEVEL) -> int | None:
        """Return how many items would decide with power 0.8, if gain and spread stay; None if no number would.

        A decision needs a distance of 1.645 + 0.842 standard errors (see `compute_span`) between the gain and minus the
        margin; the standard error shrinks with the square root of the number of items.

        >>> test = NonInferiority(gain=0.0, margin=0.01, low=-0.05, high=0.05, error=0.03, p_worse=0.6)
        >>> test.items_to_decide(500)  # 500 · (2.4865 · .03 / .01)²
        27822
        """
        distance = abs(self.gain + self.margin)
        if math.isnan(self.error) or distance <= self.slack:
            return None
        needed = items * (compute_span(level) * self.error / distance) ** 2
        return math.ceil(needed) if needed < MOST_ITEMS else None


def _compute_studentized(
    gain: float, draws: GainDraws, margin: float, slack: float, level: float
) -> tuple[float, float, float, float]:
    """Return lower bound, upper bound, standard error and p-value of *worse*: the more cautious of two methods."""
    deviations = draws.gains - gain
    # A resample of equal gains has a standard error of 0: the ratio is infinite, or 0 if it does not deviate.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(np.abs(deviations) <= slack, 0.0, deviations / draws.errors)
    ordered = np.sort(ratios)
    rank = min(math.ceil(level * (len(ordered) + 1)), len(ordered))  # of 1,000 resamples at 95 %, the 951st
    degrees = max(draws.changed - 1, 1)
    student = t_point(2 * level - 1, degrees)
    # Standard errors from the gain to its lower and its upper bound: the wider of bootstrap-t and Student's t.
    down = max(float(ordered[rank - 1]), student)
    up = max(-float(ordered[-rank]), student)
    distance = (gain + margin) / draws.error
    p_bootstrap = (1 + int(np.sum(ratios <= distance))) / (1 + len(ratios))
    p = max(p_bootstrap, t_tail(-distance, degrees))
    return gain - down * draws.error, gain + up * draws.error, draws.error, p


def make_decisions(tests: Sequence[NonInferiority], level: float = LEVEL) -> list[tuple[Decision, float]]:
    """Return the decision on each metric, and the p-value of *worse* after Holm's correction over the metrics.

    The gate passes only if every metric passes: an intersection–union test, which needs no correction. It fails if any
    metric is worse, so each metric adds a chance of a false alarm: these p-values are corrected.
    """
    adjusted = holm([test.p_worse for test in tests])
    return [
        ("pass" if test.passes else "worse" if p < 1 - level else "undecided", p)
        for test, p in zip(tests, adjusted, strict=True)
    ]


def compute_span(level: float = LEVEL, power: float = POWER) -> float:
    """Return the margin, in standard errors of the gain, at which a system equal to the base passes with this power.

    >>> round(compute_span(), 4)  # the 95 % point of the normal distribution, 1.6449, and its 80 % point, 0.8416
    2.4865
    """
    return normal_point(level) + normal_point(power)


def compute_chance_to_pass(margin: float, error: float, level: float = LEVEL) -> float:
    """Return the probability that a system equal to the base passes; ``error`` is the standard error of the gain.

    >>> round(compute_chance_to_pass(2.4865, 1.0), 3)
    0.8
    """
    if error <= 0:
        return 1.0
    return 1 - normal_tail(margin / error - normal_point(level))
