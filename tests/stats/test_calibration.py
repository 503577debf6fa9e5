"""Curves against scikit-learn, and errors and intervals against arithmetic."""

import math

import numpy as np
import pytest

from captious.stats.calibration import (
    best_possible_r2,
    cluster_mean,
    conformal_half_width,
    fit_isotonic,
    fit_line,
    pool_adjacent_violators,
    predict_out_of_fold,
    split_curve,
)


@pytest.mark.parametrize("digits", [1, 2, 15])
def test_the_curve_is_that_of_scikit_learn(digits):
    isotonic = pytest.importorskip("sklearn.isotonic", reason="scikit-learn is an oracle of this test")
    generator = np.random.default_rng(digits)
    x = generator.normal(size=400).round(digits)  # few digits: many equal values
    y = np.tanh(x) + generator.normal(size=400)
    new = np.linspace(-4, 4, 200)
    expected = isotonic.IsotonicRegression(out_of_bounds="clip").fit(x, y)
    curve = fit_isotonic(x, y, end=0)
    assert curve.predict(new) == pytest.approx(expected.predict(new), abs=1e-12)
    assert len(curve.x) == len(expected.X_thresholds_)


def test_adjacent_violators_are_pooled_by_hand():
    values = np.array([1.0, 3.0, 2.0, 4.0, 3.0])
    assert pool_adjacent_violators(values, np.ones(5)).tolist() == [1, 2.5, 2.5, 3.5, 3.5]
    # The first block has one value: (1 + 3 + 2) / 3 = 2.
    assert pool_adjacent_violators(values, np.ones(5), end=2).tolist() == [2, 2, 2, 3.5, 3.5]
    # Weights: (3 · 3 + 1 · 2) / 4 = 2.75.
    assert pool_adjacent_violators(np.array([3.0, 2.0]), np.array([3.0, 1.0])).tolist() == [2.75, 2.75]


def test_small_ends_are_merged_until_they_are_large():
    rising = np.arange(6.0)
    assert pool_adjacent_violators(rising, np.ones(6), end=3).tolist() == [1, 1, 1, 4, 4, 4]
    assert pool_adjacent_violators(rising, np.ones(6), end=7).tolist() == [2.5] * 6


def test_the_line_ends_at_the_values_seen():
    line = fit_line(np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 4.0]))
    assert line.predict(np.array([-5.0, 0.0, 2.0, 9.0])).tolist() == [0.5, 0.5, 3.5, 3.5]
    assert fit_line(np.ones(3), np.array([1.0, 2.0, 3.0])).predict(np.array([7.0])).tolist() == [2.0]


def test_half_widths_by_hand():
    # Ten images with the errors .1 to 1: nine tenths of eleven need 9.9, so all ten.
    assert conformal_half_width(np.arange(1, 11) / 10, np.arange(10), 0.9) == 1.0
    assert conformal_half_width(np.arange(1, 11) / 10, np.arange(10), 0.5) == 0.6  # 5.5 of 11: six
    assert conformal_half_width(np.arange(1, 9) / 10, np.arange(8), 0.9) == math.inf
    # An image of three captions has the weight of one: of errors 1 2 3 | 9, half of three images is 1.5: 1 + ½ need 9.
    assert conformal_half_width(np.array([1.0, -2.0, 3.0, 9.0]), np.array([0, 0, 0, 1]), 0.3) == 3.0
    assert conformal_half_width(np.array([1.0, -2.0, 3.0, 9.0]), np.array([0, 0, 0, 1]), 0.5) == 9.0


def test_predictions_do_not_see_their_own_image():
    image = np.repeat(np.arange(12), 3)
    seen = []

    def fit(x, y, cluster):
        seen.append({*y.tolist()})
        return lambda new: np.full(len(new), len(seen) - 1.0)

    fold = predict_out_of_fold(fit, np.zeros(36), image.astype(float), image).astype(int)
    assert len(seen) == 10
    for row, number in enumerate(fold):
        assert image[row] not in seen[number]


def test_a_mean_over_clusters_has_the_error_of_their_means():
    # Three images of two captions: means 1, 2, 6; se = √(var / 3) = √(7 / 3).
    mean = cluster_mean(np.array([0.0, 2.0, 2.0, 2.0, 5.0, 7.0]), np.repeat(np.arange(3), 2))
    assert (mean.value, mean.error) == (3.0, pytest.approx(math.sqrt(7 / 3)))


def test_fifths_keep_equal_values_together():
    x = np.array([0.0] * 6 + [1.0, 2.0, 3.0, 4.0])
    parts = split_curve(x, x, np.arange(10))
    assert [(part.x, part.rows) for part in parts] == [(0.0, 6), (1.5, 2), (3.5, 2)]


def test_the_best_possible_r2_by_hand():
    # Variances of the ratings 2 and 0: mean 1, of a mean of two ½. The means 2 and 4 have the variance 2: 1 − ½ / 2.
    assert best_possible_r2(np.array([[1.0, 3.0], [4.0, 4.0]])) == 0.75
    assert math.isnan(best_possible_r2(np.array([[1.0], [2.0]])))
