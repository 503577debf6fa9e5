"""Kendall's tau under weights against scipy on the rows written out."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from captious.stats.kendall import Kendall, SplitKendall, add_up_rows


def written_out(x, y, item, cluster, weight):
    times = weight[cluster[item]].astype(int)
    return np.repeat(x[item], times), np.repeat(y, times)


def scipys(x, y, variant):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kendalltau(x, y, variant=variant).statistic if len(x) else np.nan


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_any_rows_under_any_weights(seed):
    rng = np.random.default_rng(seed)
    n, clusters = rng.integers(1, 25), rng.integers(1, 6)
    x = rng.integers(0, rng.integers(1, 15), n).astype(float)
    item = np.repeat(np.arange(n), rng.integers(1, 4, n))
    y = rng.integers(0, rng.integers(1, 12), len(item)).astype(float)
    cluster = rng.integers(0, clusters, n)
    weights = rng.integers(0, 4, (clusters, 5)).astype(float)
    taus = Kendall.of(x, y, item, cluster)(weights)
    for draw in range(5):
        rows = written_out(x, y, item, cluster, weights[:, draw])
        for variant in "bc":
            assert taus[f"tau_{variant}"][draw] == pytest.approx(scipys(*rows, variant), abs=1e-12, nan_ok=True)


def test_many_draws_and_continuous_ratings():
    rng = np.random.default_rng(1)
    y = rng.normal(size=400)
    x = np.round(y + rng.normal(size=400), 1)
    cluster = rng.integers(0, 60, 400)
    weights = rng.multinomial(60, np.ones(60) / 60, size=70).T.astype(float)
    taus = Kendall.of(x, y, None, cluster)(weights)
    for draw in (0, 33, 69):
        rows = written_out(x, y, np.arange(400), cluster, weights[:, draw])
        assert taus["tau_b"][draw] == pytest.approx(scipys(*rows, "b"), abs=1e-12)
        assert taus["tau_c"][draw] == pytest.approx(scipys(*rows, "c"), abs=1e-12)


def test_by_hand():
    # x 1 2 2 3 against y 1 1 2 2: of 6 pairs, x ties one (2, 2), y two; (1,1)-(2,2), (1,1)-(3,2) and (2,1)-(3,2)
    # agree, none disagrees. tau-b = 3 / sqrt((6 - 1)(6 - 2)); tau-c with k = 2: 2 * 3 / (16 * 1/2).
    kendall = Kendall.of(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0, 2.0]))
    taus = kendall(np.ones((4, 1)))
    assert taus["tau_b"][0] == pytest.approx(3 / np.sqrt(20))
    assert taus["tau_c"][0] == pytest.approx(6 / 8)
    assert kendall.tie_rates() == pytest.approx((1 / 6, 2 / 6))


def test_the_rest_of_a_split_is_what_its_weights_give():
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 9, 120).astype(float), rng.integers(1, 5, 120).astype(float)
    tau = Kendall.of(x, y, None, rng.integers(0, 20, 120))
    mask = rng.integers(0, 2, (20, 50)).astype(float)
    drawn, rest = SplitKendall.of(tau)(mask)
    for name in ("tau_b", "tau_c"):
        np.testing.assert_allclose(drawn[name], tau(mask)[name], rtol=0, atol=1e-13)
        np.testing.assert_allclose(rest[name], tau(1 - mask)[name], rtol=0, atol=1e-13)


def test_score_smoothing_wins_on_one_variant_and_loses_on_the_other():
    """Why both variants are printed: breaking ties can win on tau-c and lose on tau-b."""
    rng = np.random.default_rng(3)
    quality = rng.normal(size=2000)
    human = np.clip(np.round(quality + rng.normal(0, 0.5, 2000)), -1, 2)
    coarse = np.clip(np.round(quality + rng.normal(0, 0.3, 2000)), -2, 3)
    smooth = coarse + 0.2 * (quality + rng.normal(size=2000))
    taus = [Kendall.of(values, human)(np.ones((2000, 1))) for values in (coarse, smooth)]
    assert taus[0]["tau_b"][0] > taus[1]["tau_b"][0]
    assert taus[0]["tau_c"][0] < taus[1]["tau_c"][0]


@pytest.mark.parametrize("rows", [1, 5, 31, 32, 33, 100])
def test_running_sums(rows):
    values = np.arange(rows * 3, dtype=float).reshape(rows, 3)
    sums = values.copy()
    add_up_rows(sums)
    np.testing.assert_array_equal(sums, np.cumsum(values, axis=0))
