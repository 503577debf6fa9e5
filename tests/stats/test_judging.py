"""Statistics of judges against arithmetic, scikit-learn, and simulations with known variances."""

import math

import numpy as np
import pytest

from captious.stats.judging import (
    JudgeRegressions,
    compare_decisions,
    compare_residuals,
    position_bias,
    split_variance,
    standardize_twice,
)


def test_position_by_hand():
    bias = position_bias(np.array([1, 1, 1, 0, 0.5, 1]), np.array([1, 0, 0.5, 0, 0.5, 0]))
    assert (bias.pairs, bias.same, bias.first, bias.second) == (6, 3, 3, 0)
    # (0 + 1 + ½ + 0 + 0 + 1) / 6 / 2; P(3 of 3) · 2 = ¼
    assert (bias.bias, bias.p) == (pytest.approx(0.208333, abs=1e-6), 0.25)
    assert position_bias(np.zeros(0), np.zeros(0)).p == 1 and math.isnan(position_bias(np.zeros(0), np.zeros(0)).bias)


def test_kappa_is_that_of_scikit_learn_and_rates_are_shares():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is an oracle of this test")
    generator = np.random.default_rng(1)
    truth = generator.random(200) < 0.3
    decided = truth ^ (generator.random(200) < 0.2)
    found = compare_decisions(decided, truth, np.arange(200) // 2)
    assert found.kappa.value == pytest.approx(metrics.cohen_kappa_score(truth, decided), abs=1e-12)
    assert found.true_yes.value == pytest.approx(decided[truth].mean())
    assert found.true_no.value == pytest.approx((~decided[~truth]).mean())


def test_the_error_of_a_rate_is_that_of_independent_clusters():
    truth = np.ones(50, dtype=bool)
    decided = np.arange(50) < 40
    found = compare_decisions(decided, truth, np.arange(50)).true_yes
    assert found.error == pytest.approx(math.sqrt(0.8 * 0.2 / 49))  # of a mean of 0 and 1: s / √n


def test_variance_is_split_by_hand_and_recovered():
    noise = split_variance(np.array([[1.0, 3.0], [5.0, 7.0]]))
    assert (noise.within, noise.between, noise.reliability) == (2.0, 7.0, pytest.approx(7 / 9))
    generator = np.random.default_rng(2)
    answers = generator.normal(0, 2, (4000, 1)) + generator.normal(0, 1, (4000, 4))
    answers[generator.random(answers.shape) < 0.2] = np.nan
    noise = split_variance(answers)
    assert noise.between == pytest.approx(4, rel=0.05) and noise.within == pytest.approx(1, rel=0.05)
    assert math.isnan(split_variance(np.array([[1.0], [2.0]])).within)
    assert split_variance(np.array([[1.0, 1.0], [2.0, 2.0]])).within == 0


def test_a_group_that_people_prefer_at_the_same_value_has_a_residual():
    image = np.repeat(np.arange(50), 2)
    group = np.tile([0, 1], 50)
    judge = np.random.default_rng(3).normal(size=100)
    rating = 3 + judge + 0.4 * group
    exact = JudgeRegressions(rating, judge, image)
    residuals = exact.residuals(group)
    assert [one.value for one in residuals.groups] == pytest.approx([-0.2, 0.2])
    biased = JudgeRegressions(rating, judge + 0.4 * group, image).residuals(group)
    assert compare_residuals(biased, residuals, 1).value == pytest.approx(-0.2)
    assert exact.covariate(group.astype(float)).value == pytest.approx(0.4)


def test_standardized_twice_by_hand():
    means = np.array([[1.0, 10.0, 5.0], [3.0, 30.0, 5.0]])
    # by column −1 −1 0 and 1 1 0; by row means ∓2/3 and sd √2/3: −1/√2 −1/√2 √2
    expected = [[-math.sqrt(0.5), -math.sqrt(0.5), math.sqrt(2)], [math.sqrt(0.5), math.sqrt(0.5), -math.sqrt(2)]]
    assert standardize_twice(means) == pytest.approx(np.array(expected))
