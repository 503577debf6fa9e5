"""Clustered regression: against refits without each cluster, and textbook formulas."""

import numpy as np
import pytest
from scipy import stats

from captious.errors import InputError
from captious.stats.regression import Contrast, fit_clustered


def make_data(rows=60, columns=4, clusters=12, seed=3):
    random = np.random.default_rng(seed)
    design = np.concatenate([np.ones((rows, 1)), random.normal(size=(rows, columns - 1))], axis=1)
    return random.normal(size=rows), design, random.integers(0, clusters, rows), random.uniform(0.2, 3, rows)


def refit(y, design, weights):
    root = np.sqrt(weights)
    return np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0]


def test_deviations_equal_refits_without_each_cluster():
    y, design, cluster, weights = make_data()
    fit = fit_clustered(y, design, cluster, weights)
    whole = refit(y, design, weights)
    without = [refit(y[cluster != g], design[cluster != g], weights[cluster != g]) - whole for g in np.unique(cluster)]
    np.testing.assert_allclose(fit.coefficients, whole, atol=1e-12)
    np.testing.assert_allclose(fit.deviations, without, atol=1e-12)
    groups = len(without)
    covariance = (groups - 1) / groups * np.stack(without).T @ np.stack(without)
    np.testing.assert_allclose(fit.covariance, covariance, atol=1e-12)
    np.testing.assert_allclose(fit.residuals, y - design @ whole, atol=1e-12)
    assert fit.degrees == groups - 1


def test_many_columns_are_computed_in_blocks(monkeypatch):
    y, design, cluster, weights = make_data()
    fit = fit_clustered(y, design, cluster, weights)
    monkeypatch.setattr("captious.stats.regression.BLOCK", 3 * 16)
    np.testing.assert_allclose(fit_clustered(y, design, cluster, weights).deviations, fit.deviations, atol=1e-13)


def test_order_of_rows_changes_nothing():
    y, design, cluster, weights = make_data()
    order = np.random.default_rng(1).permutation(len(y))
    first, second = (
        fit_clustered(y, design, cluster, weights),
        fit_clustered(y[order], design[order], cluster[order] * 7, weights[order]),
    )
    np.testing.assert_allclose(first.coefficients, second.coefficients, atol=1e-12)
    np.testing.assert_allclose(first.covariance, second.covariance, atol=1e-12)


def test_the_only_cluster_of_a_column_counts_by_its_score():
    """Two dummies, the second of one image only, with a slope: −M⁻¹ (A_g − M_g b) · G / (G − 1)."""
    design = np.array([[1, 0, 1.0], [1, 0, 2], [1, 0, 4], [0, 1, 1], [0, 1, 3]])
    y, cluster = np.array([1.0, 3, 4, 2, 5]), np.array([0, 1, 2, 3, 3])
    fit = fit_clustered(y, design, cluster)
    chosen = design[cluster == 3]
    score = chosen.T @ y[cluster == 3] - chosen.T @ chosen @ fit.coefficients
    np.testing.assert_allclose(fit.deviations[3], -np.linalg.inv(design.T @ design) @ score * 4 / 3, atol=1e-12)
    without = refit(y[cluster != 0], design[cluster != 0], np.ones(4))
    np.testing.assert_allclose(fit.deviations[0], without - fit.coefficients, atol=1e-12)


def test_contrast_is_a_t_test():
    """The mean of independent rows: scipy's one-sample t test has the same p, interval and error."""
    y = np.array([0.3, -0.1, 0.8, 0.4, 0.2, 0.9])
    mean = fit_clustered(y, np.ones((6, 1)), np.arange(6)).contrast([1])
    test = stats.ttest_1samp(y, 0)
    assert mean.p == pytest.approx(test.pvalue, abs=1e-12)
    assert mean.interval() == pytest.approx((test.confidence_interval().low, test.confidence_interval().high))
    assert mean.interval(factor=2.0) == pytest.approx((mean.value - 2 * mean.error, mean.value + 2 * mean.error))
    assert (Contrast(0.0, 0.0, 3).p, Contrast(0.1, 0.0, 3).p) == (1.0, 0.0)


def test_joint_test_is_the_wald_f_test():
    y, design, cluster, _ = make_data()
    fit = fit_clustered(y, design, cluster)
    rows = np.eye(4)[1:3]
    b, v = rows @ fit.coefficients, rows @ fit.covariance @ rows.T
    assert fit.joint_p(rows) == pytest.approx(stats.f.sf(b @ np.linalg.inv(v) @ b / 2, 2, fit.degrees), abs=1e-12)


@pytest.mark.parametrize(
    ("design", "cluster", "message"),
    [
        (np.ones((3, 1)), np.zeros(3, dtype=int), "has 1 of them, expected at least 2"),
        (np.ones((3, 2)), np.arange(3), "a combination of others"),
        (np.array([[1.0, 0], [1, 0], [1, 0]]), np.arange(3), "constant or a combination"),
    ],
)
def test_what_cannot_be_fitted_is_refused(design, cluster, message):
    with pytest.raises(InputError, match=message):
        fit_clustered(np.arange(3.0), design, cluster)
