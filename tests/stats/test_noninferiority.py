"""Bounds, decisions and sizes of a test of non-inferiority."""

import math

import numpy as np
import pytest
from scipy import stats

from captious.stats.noninferiority import (
    GainDraws,
    NonInferiority,
    compute_chance_to_pass,
    compute_span,
    make_decisions,
)


def drawn(gain, error, margin, samples=20_000):
    """The test with resamples that lie at the quantiles of a normal distribution."""
    draws = stats.norm.ppf((np.arange(samples) + 0.5) / samples, gain, error)
    return NonInferiority.of(gain, GainDraws(draws), margin, scale=1.0)


def test_bounds_are_one_sided_normal_bounds_for_normal_resamples():
    test = drawn(gain=-0.01, error=0.02, margin=0.05)
    assert test.low == pytest.approx(-0.01 - 1.644854 * 0.02, abs=1e-5)
    assert test.high == pytest.approx(-0.01 + 1.644854 * 0.02, abs=1e-5)
    # P(gain ≥ −.05) of a normal with mean −.01 and deviation .02 is Φ(2).
    assert test.p_worse == pytest.approx(stats.norm.cdf(2), abs=1e-3)
    assert test.smallest_margin == -test.low


def test_bounds_of_student_are_wider_for_few_units():
    """Ten differences: their mean ± t(.95, 9) · s / √10, and the p-value of a t-test against minus the margin."""
    values = np.array([0.1, -0.3, 0.2, 0.0, -0.5, 0.4, -0.1, -0.2, 0.3, -0.4])
    error = values.std(ddof=0) / math.sqrt(10)  # what resamples of ten items spread by
    draws = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000, values.mean(), error)
    test = NonInferiority.of(float(values.mean()), GainDraws(draws, units=10), 0.1, 1.0, bounds="t")
    width = 1.833113 * values.std(ddof=1) / math.sqrt(10)
    assert (test.low, test.high) == pytest.approx((values.mean() - width, values.mean() + width), abs=1e-4)
    assert test.p_worse == pytest.approx(stats.ttest_1samp(values, -0.1, alternative="less").pvalue, abs=1e-4)


def test_decisions_at_the_ends_of_the_bounds():
    """A standard error of 1 and a margin of 10: bounds reach 1.645 to both sides of the gain."""
    gains = {-8.36: "pass", -8.35: "pass", -8.34: "pass", -10.0: "undecided", -11.64: "undecided", -11.66: "worse"}
    gains[-8.36] = "undecided"  # −8.36 − 1.645 < −10
    for gain, expected in gains.items():
        assert make_decisions([drawn(gain, 1.0, 10.0)])[0][0] == expected, gain


def test_worse_is_corrected_over_the_metrics_and_pass_is_not():
    """p = .03 alone is worse; of two metrics its corrected p is .06, and it is undecided. Both still pass by bounds."""
    worse = drawn(gain=-10 - stats.norm.isf(0.03), error=1.0, margin=10.0)
    passing = drawn(gain=-10 + 1.66, error=1.0, margin=10.0)
    assert worse.p_worse == pytest.approx(0.03, abs=1e-3)
    assert [one for one, _ in make_decisions([worse])] == ["worse"]
    (first, p), (second, _) = make_decisions([worse, passing])
    assert (first, second) == ("undecided", "pass") and p == pytest.approx(0.06, abs=2e-3)
    assert [one for one, _ in make_decisions([passing] * 5)] == ["pass"] * 5


def test_equal_systems_pass_without_a_margin_and_rounding_is_no_loss():
    assert NonInferiority.of(0.0, GainDraws(np.zeros(100)), 0.0, 1.0).passes
    noise = NonInferiority.of(-1e-16, GainDraws(np.full(100, -1e-16)), 0.0, 1.0)
    assert noise.passes and noise.smallest_margin == 0 and noise.p_worse == 1
    assert not NonInferiority.of(-1e-9, GainDraws(np.full(100, -1e-9)), 0.0, 1.0).passes


def test_without_a_value_nothing_is_decided():
    test = NonInferiority.of(float("nan"), GainDraws(np.zeros(0)), 0.1, 1.0)
    assert make_decisions([test])[0][0] == "undecided" and test.items_to_decide(100) is None


def test_so_many_items_decide_four_times_in_five():
    """Simulated: the advised number of items passes about as often as it says."""
    deviation, margin, items = 0.7, 0.05, 100
    test = drawn(gain=0.0, error=deviation / math.sqrt(items), margin=margin)
    needed = test.items_to_decide(items)
    assert needed == pytest.approx(items * (compute_span() * 0.07 / 0.05) ** 2, rel=1e-3)
    means = np.random.default_rng(0).normal(0, deviation / math.sqrt(needed), 20_000)
    passed = means - stats.norm.isf(0.05) * deviation / math.sqrt(needed) >= -margin
    assert passed.mean() == pytest.approx(0.8, abs=0.01)
    assert compute_chance_to_pass(margin, deviation / math.sqrt(needed)) == pytest.approx(0.8, abs=1e-3)
    assert drawn(gain=-margin, error=0.07, margin=margin).items_to_decide(items) is None
