"""Tail probabilities of Student's t and the normal distribution, so that the base install needs no scipy."""

from __future__ import annotations

import math


def t_tail(t: float, degrees: float) -> float:
    """P(T ≥ t) of Student's t.

    >>> round(t_tail(2.228138851986274, 10), 12)  # the 97.5 % point for 10 degrees of freedom
    0.025
    """
    half = 0.5 * incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))
    return half if t >= 0 else 1.0 - half


def t_point(level: float, degrees: float) -> float:
    """The t with P(|T| < t) = level, by bisection.

    >>> round(t_point(0.95, 9), 4), round(t_point(0.99, 4), 4)
    (2.2622, 4.6041)
    """
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if 2 * t_tail(middle, degrees) > 1 - level else (low, middle)
    return (low + high) / 2


def normal_tail(z: float) -> float:
    """P(Z ≥ z) of the standard normal distribution."""
    return 0.5 * math.erfc(z / math.sqrt(2))


def normal_point(p: float) -> float:
    """The z with P(Z ≤ z) = p.

    >>> round(normal_point(0.975), 6)
    1.959964
    """
    from statistics import NormalDist

    return NormalDist().inv_cdf(p)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    tiny, c, d = 1e-300, 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return front * value / a
