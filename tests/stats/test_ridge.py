"""Ridge regression against scikit-learn and by hand; folds by cluster."""

import numpy as np
import pytest

from captious.stats.ridge import PENALTIES, choose_penalty, deal_folds, fit_ridge, fit_tuned_ridge


def make_rows(rows=120, columns=4, seed=1):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, columns)) * [1, 30, 0.01, 5][:columns] + [0, 100, 3, -2][:columns]
    y = x @ [0.5, 0.01, 40, 0][:columns] + generator.normal(size=rows)
    return x, y, np.arange(rows) // 3


def test_a_column_by_hand():
    # z = (x − 2.5) / √1.25, so Σz² = 4 and Σzy = 4.5 / √1.25; the slope is 4.5 / √1.25 / (4 + 1); at 5, z is
    # 2.5 / √1.25: 2.25 + 4.5 · 2.5 / 1.25 / 5 = 4.05
    ridge = fit_ridge(np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([1.0, 2.0, 2.0, 4.0]), 1.0)
    assert ridge.predict(np.array([[5.0]]))[0] == pytest.approx(4.05, abs=1e-12)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_predictions_are_those_of_scikit_learn(penalty):
    linear = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is an oracle of this test")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y, _ = make_rows()
    new = make_rows(seed=2)[0]
    expected = make_pipeline(StandardScaler(), linear.Ridge(alpha=penalty)).fit(x, y).predict(new)
    assert fit_ridge(x, y, penalty).predict(new) == pytest.approx(expected, abs=1e-12)


def test_the_penalty_is_that_of_scikit_learns_grid_search_over_the_same_folds():
    selection = pytest.importorskip("sklearn.model_selection", reason="scikit-learn is an oracle of this test")
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    for seed, noise in ((1, 1.0), (2, 8.0), (3, 40.0)):
        x, y, image = make_rows(seed=seed)
        y = y + np.random.default_rng(seed).normal(scale=noise, size=len(y))
        # 40 images in five folds of eight, so scikit-learn's mean over folds is the mean over rows.
        folds = selection.PredefinedSplit(deal_folds(40, 5, 12345)[image])
        search = selection.GridSearchCV(
            make_pipeline(StandardScaler(), Ridge()),
            {"ridge__alpha": PENALTIES},
            scoring="neg_mean_squared_error",
            cv=folds,
        ).fit(x, y)
        assert choose_penalty(x, y, image) == search.best_params_["ridge__alpha"]
        assert fit_tuned_ridge(x, y, image).predict(x) == pytest.approx(search.predict(x), abs=1e-12)


def test_a_constant_column_changes_nothing():
    x, y, _ = make_rows()
    with_constant = np.column_stack([x, np.full(len(y), 0.1)])
    ridge = fit_ridge(with_constant, y, 1.0)
    assert ridge.coefficients[-1] == 0
    assert ridge.predict(with_constant) == pytest.approx(fit_ridge(x, y, 1.0).predict(x), abs=1e-12)


def test_folds_have_nearly_the_same_size_and_depend_on_the_seed():
    folds = deal_folds(23, 5)
    assert sorted(np.bincount(folds).tolist()) == [4, 4, 5, 5, 5]
    assert folds.tolist() != deal_folds(23, 5, seed=7).tolist()


def test_the_numbers_of_clusters_may_have_gaps_and_one_cluster_takes_the_largest_penalty():
    x, y, image = make_rows()
    assert choose_penalty(x, y, 10 * image) == choose_penalty(x, y, image)
    assert choose_penalty(x, y, np.zeros(len(y), dtype=np.int64)) == PENALTIES[-1]
