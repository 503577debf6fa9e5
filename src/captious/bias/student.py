"""Student's t without scipy: a small base install gives intervals too."""

from __future__ import annotations

import math

import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def t_tail(t: float, freedom: int) -> float:
    """P(|T| ≥ t) with so many degrees of freedom.

    With T = √ν·tan θ the density is cos^(ν−1) θ up to a constant, smooth on a bounded interval.

    >>> round(t_tail(2.262157, 9), 6), round(t_tail(12.7062, 1), 5)  # the textbook's 5 % points
    (0.05, 0.05)
    """
    constant = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    low = math.atan(abs(t) / math.sqrt(freedom))
    half = (math.pi / 2 - low) / 2
    angles = low + half * (1 + _NODES)
    return float(2 * constant * half * np.sum(_WEIGHTS * np.cos(angles) ** (freedom - 1)))


def t_point(level: float, freedom: int) -> float:
    """The t with P(|T| < t) = level.

    >>> round(t_point(0.95, 9), 4), round(t_point(0.99, 4), 4)
    (2.2622, 4.6041)
    """
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, freedom) > 1 - level else (low, middle)
    return (low + high) / 2
