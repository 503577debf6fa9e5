"""Pearson, Spearman, determination and system-level correlation under weights."""

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from captious.stats.correlation import Moments, Spearman, SystemMeans
from captious.stats.kendall import Kendall


@pytest.fixture
def data():
    rng = np.random.default_rng(4)
    human = rng.integers(1, 6, 90).astype(float)
    values = np.round(human + rng.normal(0, 2, 90), 1)
    cluster = rng.integers(0, 15, 90)
    weights = rng.multinomial(15, np.ones(15) / 15, size=8).T.astype(float)
    return values, human, cluster, weights


def test_pearson_and_spearman_are_scipys_on_the_drawn_rows(data):
    values, human, cluster, weights = data
    pearson = Moments.of(values, human, cluster, 15)(weights)["pearson"]
    spearman = Spearman(Kendall.of(values, human, None, cluster))(weights)["spearman"]
    for draw in range(8):
        times = weights[cluster, draw].astype(int)
        x, y = np.repeat(values, times), np.repeat(human, times)
        assert pearson[draw] == pytest.approx(pearsonr(x, y).statistic, abs=1e-12)
        assert spearman[draw] == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)


def test_determination_by_hand():
    # Ratings 1 3 5 on a scale of 1 to 5 are 0 .5 1; the metric says .1 .4 .7.
    # sum (m - h)^2 = .01 + .01 + .09 = .11; sum (h - .5)^2 = .5; sum (m - .4)^2 = .18; they lie on a line.
    statistics = Moments.of(np.array([0.1, 0.4, 0.7]), np.array([1.0, 3.0, 5.0]), np.arange(3), 3, (1, 5))(
        np.ones((3, 1))
    )
    assert statistics["r2"][0] == pytest.approx(1 - 0.11 / 0.5)
    assert statistics["one_minus_r2"][0] == pytest.approx(0.11 / 0.18)
    assert statistics["r2_fitted"][0] == pytest.approx(1.0)


def test_a_metric_far_too_small_has_a_huge_one_minus_r2():
    """Why the SPECS table has 3.3e7 for CIDEr: the total sum of squares is the metric's own."""
    rng = np.random.default_rng(5)
    human = rng.integers(1, 6, 500).astype(float)
    tiny = 1e-4 * rng.normal(size=500)
    ratio = Moments.of(tiny, human, np.arange(500), 500, (1, 5))(np.ones((500, 1)))["one_minus_r2"][0]
    assert 1e7 < ratio < 1e8


def test_constant_draws_are_not_a_number(data):
    values, human, cluster, _ = data
    one = np.zeros((15, 1))
    one[3] = 1
    constant = np.where(cluster == 3, 7.0, values)
    assert np.isnan(Moments.of(constant, human, cluster, 15)(one)["pearson"][0])
    assert np.isnan(Spearman(Kendall.of(constant, human, None, cluster))(one)["spearman"][0])
    taus = Kendall.of(constant, human, None, cluster)(one)
    assert np.isnan(taus["tau_b"][0]) and np.isnan(taus["tau_c"][0])


def test_between_systems(data):
    rng = np.random.default_rng(6)
    system, cluster = np.tile(np.arange(5), 12), np.repeat(np.arange(12), 5)
    values, human = rng.normal(size=60) + system, rng.normal(size=60) + system
    statistics = SystemMeans(values, human, cluster, 12, system)(np.ones((12, 1)))
    means = [[part[system == one].mean() for one in range(5)] for part in (values, human)]
    assert statistics["system_pearson"][0] == pytest.approx(pearsonr(*means).statistic)
    assert statistics["system_tau"][0] == pytest.approx(kendalltau(*means).statistic)
