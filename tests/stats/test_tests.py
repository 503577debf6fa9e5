"""Tests of correlations against scipy, published examples and hand arithmetic."""

import math

import numpy as np
import pytest
from scipy import stats

from captious.errors import InputError
from captious.stats.kendall import Kendall
from captious.stats.tests import (
    compute_bootstrap_p,
    compute_permutation_p,
    correlation_test,
    kendall_test,
    normal_tail,
    t_point,
    t_tail,
    williams,
)


@pytest.mark.parametrize("degrees", [1, 2, 5, 30, 997, 16990])
@pytest.mark.parametrize("t", [-3.0, -0.5, 0.0, 0.1, 1.96, 5.0, 40.0])
def test_tails_are_scipys(t, degrees):
    assert t_tail(t, degrees) == pytest.approx(stats.t.sf(t, degrees), rel=1e-12, abs=1e-300)
    assert normal_tail(t) == pytest.approx(stats.norm.sf(t), rel=1e-12)
    assert t_point(0.95, degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-12)


def test_a_correlation_against_zero_is_scipys():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 40))
    r, p = stats.pearsonr(x, y)
    assert correlation_test(r, 40).p == pytest.approx(p, rel=1e-9)


def test_tau_against_zero_is_scipys_with_ties():
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 8, 200).astype(float), rng.integers(1, 5, 200).astype(float)
    surplus = float(Kendall.of(x, y).surplus(np.ones((200, 1)))[0])
    for sign in (1, -1):
        expected = stats.kendalltau(sign * x, y, method="asymptotic").pvalue
        assert kendall_test(sign * surplus, x, y).p == pytest.approx(expected, rel=1e-9)


def test_williams_by_hand():
    # r12 = .6, r13 = .4, r23 = .5, n = 53: K = 1 - .36 - .16 - .25 + 2 * .12 = .47, mean .5,
    # t = .2 * sqrt(52 * 1.5) / sqrt(2 * 52/50 * .47 + .25 * .125) = 1.7663521732655695 / 1.0081666...
    below = 2 * 52 / 50 * 0.47 + 0.25 * 0.125
    t = 0.2 * math.sqrt(78) / math.sqrt(below)
    result = williams(0.6, 0.4, 0.5, 53)
    assert result.statistic == pytest.approx(t, rel=1e-12)
    assert result.degrees == 50
    assert result.p_greater == pytest.approx(stats.t.sf(t, 50), rel=1e-9)
    assert result.p == pytest.approx(2 * stats.t.sf(t, 50), rel=1e-9)


def test_williams_on_the_example_of_psych():
    """The help page of psych::r.test in R: r.test(103, .4, .5, .1) has t = -0.89, p = 0.37."""
    result = williams(0.4, 0.5, 0.1, 103)
    assert (round(result.statistic, 2), round(result.p, 2)) == (-0.89, 0.37)


def test_williams_needs_four_items_and_takes_equal_metrics():
    with pytest.raises(InputError, match="at least 4 items, found 3"):
        williams(0.5, 0.4, 0.3, 3)
    assert williams(0.5, 0.5, 1.0, 20).p == 1.0


def test_p_values_count_the_observed_one_and_undefined_draws():
    assert compute_permutation_p(0.3, np.array([0.1, -0.3, np.nan, 0.2])) == (0.6, 0.4)
    assert compute_bootstrap_p(0.5, np.array([0.4, 0.6, np.nan])) == pytest.approx(2 / 4)
