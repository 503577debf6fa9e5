"""Statistics in words and digits, the same in every output."""

from __future__ import annotations

import math

from captious.stats.bootstrap import Estimate

NAMES = {
    "tau_b": "τ-b",
    "tau_c": "τ-c",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "sample_tau": "sample τ",
    "accuracy": "pair acc.",
    "accuracy_eq": "acc. eq",
    "system_tau": "system τ",
    "system_pearson": "system r",
    "r2": "R²",
    "one_minus_r2": "1−R²",
    "r2_fitted": "R² fitted",
    "mean": "mean",
    "strict": "strict mean",
}
UNSCALED = ("r2", "one_minus_r2", "r2_fitted")
"""Printed as they are; everything else times 100."""


def value(number: float, name: str) -> str:
    """A statistic as it is printed: times 100, two digits; coefficients of determination as they are.

    >>> value(0.43891, "tau_c"), value(float("nan"), "tau_b"), value(33000000.0, "one_minus_r2")
    ('43.89', '—', '3.3e+07')
    """
    if math.isnan(number):
        return "—"
    if name in UNSCALED:
        return f"{number:.2f}" if abs(number) < 1e4 else f"{number:.1e}"
    return f"{100 * number:.2f}"


def interval(estimate: Estimate, name: str) -> str:
    """Low and high as they are printed."""
    return "—" if math.isnan(estimate.low) else f"{value(estimate.low, name)} – {value(estimate.high, name)}"


def p_value(p: float) -> str:
    """A p-value as people read it."""
    return "—" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"
