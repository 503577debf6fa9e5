"""Points and tails of t and normal distributions, power, tests of correlations, and p-values from resamples."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from captious._core.types import Floats
from captious.errors import InputError


def t_tail(t: float, degrees: float) -> float:
    """Return P(T ≥ t) of Student's t.

    >>> round(t_tail(2.228138851986274, 10), 12)  # the 97.5 % point for 10 degrees of freedom
    0.025
    """
    from scipy.special import stdtr

    return float(stdtr(degrees, -t))


def t_point(level: float, degrees: float) -> float:
    """Return the t with P(|T| < t) = level: two-sided, unlike `normal_point`.

    >>> round(t_point(0.95, 9), 4), round(t_point(0.99, 4), 4)
    (2.2622, 4.6041)
    """
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + level) / 2))


def normal_tail(z: float) -> float:
    """Return P(Z ≥ z) of the standard normal distribution."""
    from scipy.special import ndtr

    return float(ndtr(-z))


def normal_point(p: float) -> float:
    """Return the z with P(Z ≤ z) = p.

    >>> round(normal_point(0.975), 6)
    1.959964
    """
    from scipy.special import ndtri

    return float(ndtri(p))


def compute_power(difference: float, error: float, level: float) -> float:
    """Return the probability that a two-sided z test at significance 1 − ``level`` detects a difference.

    >>> round(compute_power(0.28, 0.1, 0.95), 3), round(compute_power(0.0, 0.1, 0.95), 3)
    (0.8, 0.05)
    """
    point, ratio = normal_point((1 + level) / 2), abs(difference) / error
    return normal_tail(point - ratio) + normal_tail(point + ratio)


def find_detectable(error: float, level: float, power: float = 0.8) -> float:
    """Return the difference that the test of `compute_power` detects with this power (the far tail is ignored).

    >>> round(find_detectable(0.1, 0.95), 4)  # (1.95996 + 0.84162) · 0.1
    0.2802
    """
    return (normal_point((1 + level) / 2) + normal_point(power)) * error


def count_needed(difference: float, error: float, items: int, level: float, power: float = 0.8) -> int:
    """Return how many items the test of `compute_power` needs for a difference that has this error on ``items``.

    >>> count_needed(0.1, 0.1, 100, 0.95)  # 100 · (2.80159 · 0.1 / 0.1)²
    785
    """
    return math.ceil(items * (find_detectable(error, level, power) / abs(difference)) ** 2)


class Test(NamedTuple):
    """A test statistic, its degrees of freedom where it has any, and its p-values."""

    statistic: float
    degrees: float
    p: float
    """The two-sided p-value."""
    p_greater: float
    """One-sided: the correlation is above zero, or the first is above the second."""


def correlation_test(r: float, n: int) -> Test:
    """Test whether a Pearson or Spearman correlation is zero: t = r √((n − 2) / (1 − r²)) of n − 2 degrees (as UMIC).

    >>> test = correlation_test(0.5, 27)  # t = .5 · √(25 / .75)
    >>> round(test.statistic, 6), round(test.p, 6)
    (2.886751, 0.007913)
    """
    if n < 3:
        raise InputError(f"a test of a correlation needs at least 3 items, found {n}")
    t = math.copysign(math.inf, r) if abs(r) >= 1 else r * math.sqrt((n - 2) / (1 - r * r))
    upper = t_tail(t, n - 2)
    return Test(t, n - 2, 2 * min(upper, 1 - upper), upper)


def kendall_test(surplus: float, metric: Floats, human: Floats) -> Test:
    """Test whether Kendall's tau is zero: C − D over its standard deviation under independence, with ties.

    ``surplus`` is C − D, concordant minus discordant pairs. With t and u the sizes of tie groups of the metric and of
    the human ratings, the variance is [n(n−1)(2n+5) − Σt(t−1)(2t+5) − Σu(u−1)(2u+5)] / 18 + Σt(t−1) Σu(u−1) / 2n(n−1) +
    Σt(t−1)(t−2) Σu(u−1)(u−2) / 9n(n−1)(n−2). The test assumes independent rows, but several ratings of one caption are
    dependent: trust the bootstrap interval instead.
    """
    n = len(metric)
    if n < 3:
        raise InputError(f"a test of tau needs at least 3 rows, found {n}")
    t, u = (np.unique(side, return_counts=True)[1].astype(np.float64) for side in (metric, human))
    without_ties = n * (n - 1.0) * (2 * n + 5)
    variance = (without_ties - (t * (t - 1) * (2 * t + 5)).sum() - (u * (u - 1) * (2 * u + 5)).sum()) / 18
    variance += (t * (t - 1)).sum() * (u * (u - 1)).sum() / (2.0 * n * (n - 1))
    variance += (t * (t - 1) * (t - 2)).sum() * (u * (u - 1) * (u - 2)).sum() / (9.0 * n * (n - 1) * (n - 2))
    z = surplus / math.sqrt(variance)
    return Test(z, math.inf, 2 * normal_tail(abs(z)), normal_tail(z))


def williams(r12: float, r13: float, r23: float, n: int) -> Test:
    """Test whether two correlations with a shared variable differ (Williams): people (1) with metrics 2 and 3.

        K = 1 − r12² − r13² − r23² + 2 r12 r13 r23
        t = (r12 − r13) √((n − 1)(1 + r23)) / √(2K (n − 1)/(n − 3) + r̄² (1 − r23)³),  n − 3 degrees of freedom

    The help page of psych::r.test in R has this example, with t = -0.89 and p = 0.37.

    >>> test = williams(0.4, 0.5, 0.1, 103)
    >>> round(test.statistic, 4), round(test.p, 4)
    (-0.8913, 0.3749)
    """
    if n < 4:
        raise InputError(f"Williams' test needs at least 4 items, found {n}")
    k = 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23
    mean = (r12 + r13) / 2
    denominator = 2 * (n - 1) / (n - 3) * k + mean**2 * (1 - r23) ** 3
    if denominator <= 1e-15:
        # The two metrics are the same up to scale, so their correlations do not differ.
        return Test(0.0, n - 3, 1.0, 0.5)
    t = (r12 - r13) * math.sqrt((n - 1) * (1 + r23) / denominator)
    upper = t_tail(t, n - 3)
    return Test(t, n - 3, 2 * min(upper, 1 - upper), upper)


def compute_permutation_p(difference: float, shuffled: Floats) -> tuple[float, float]:
    """Return the two-sided and the one-sided p-value of a permutation test: (1 + draws as extreme) / (1 + draws).

    An undefined draw counts as extreme, so that it never makes a p-value smaller.

    >>> compute_permutation_p(0.3, np.array([0.1, -0.3, 0.3, 0.2]))
    (0.6, 0.4)
    """
    # Permuted sums are rounded differently from the observed ones; equal must still count as equal.
    tolerance, undefined = 1e-12, np.isnan(shuffled)
    two = (np.abs(shuffled) >= abs(difference) - tolerance) | undefined
    one = (shuffled >= difference - tolerance) | undefined
    return float((1 + two.sum()) / (1 + len(shuffled))), float((1 + one.sum()) / (1 + len(shuffled)))


def compute_bootstrap_p(difference: float, draws: Floats) -> float:
    """Return the two-sided p-value of the paired bootstrap: (1 + draws as extreme) / (1 + draws).

    A draw is extreme if it is at least ``difference`` away from the mean of the draws: shifted by their mean, the draws
    follow the null hypothesis. Undefined draws count as extreme.

    >>> compute_bootstrap_p(0.2, np.array([0.1, 0.2, 0.3, 0.6]))  # mean .3: |.6 − .3| and |.1 − .3| reach .2
    0.6
    """
    defined = draws[~np.isnan(draws)]
    if not len(defined):
        return 1.0
    extreme = np.abs(defined - defined.mean()) >= abs(difference) - 1e-12
    return float((1 + extreme.sum() + len(draws) - len(defined)) / (1 + len(draws)))
