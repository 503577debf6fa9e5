"""Krippendorff's alpha, the human ceiling, and raters one by one."""

import krippendorff
import numpy as np
import pytest

from captious.errors import InputError
from captious.study.agreement import alpha, ceiling, ordered, raters
from captious.study.ratings import Ratings

NAN = np.nan
# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section C: 12 units, 4 observers, missing data.
PUBLISHED = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T


def as_ratings(values):
    ids = tuple(map(str, range(len(values))))
    return Ratings(ids, np.asarray(values, dtype=float), ids)


@pytest.mark.parametrize(
    ("level", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]
)
def test_the_published_example(level, expected):
    found = alpha(as_ratings(PUBLISHED), level, samples=200)
    assert round(found.estimate.value, 3) == expected
    assert (found.units, found.ratings, found.single) == (11, 40, 1)
    assert found.estimate.low < found.estimate.value < found.estimate.high


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval", "ratio"])
def test_the_package_agrees_on_any_data(level):
    rng = np.random.default_rng(12)
    for _ in range(30):
        values = rng.integers(0, rng.integers(3, 8), (rng.integers(4, 25), rng.integers(2, 6))).astype(float)
        values[rng.random(values.shape) < 0.25] = NAN
        expected = krippendorff.alpha(reliability_data=values.T, level_of_measurement=level)
        assert alpha(as_ratings(values), level, samples=0).estimate.value == pytest.approx(expected, abs=1e-12)


def test_by_hand():
    # Units (1,1) (2,2) (1,2): o_11 = 2, o_22 = 2, o_12 = o_21 = 1, n = 6, n_1 = n_2 = 3.
    # D_o = 2/6, D_e = 2 * 9 / 30; alpha = 1 - (1/3) / (3/5) = 4/9.
    assert alpha(as_ratings([[1, 1], [2, 2], [1, 2]]), samples=0).estimate.value == pytest.approx(4 / 9, abs=1e-12)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1], [2], [3]], "one rater only"),
        ([[1, NAN], [NAN, 2]], "no item has two ratings"),
        ([[3, 3], [3, 3]], "all ratings are 3: alpha is undefined"),
    ],
)
def test_what_cannot_be_computed_is_said(values, message):
    with pytest.raises(InputError, match=message):
        alpha(as_ratings(values))


def test_all_equal_by_flag():
    assert alpha(as_ratings([[3, 3], [3, 3]]), constant="one").estimate.value == 1.0


def test_a_ratio_scale_is_not_negative():
    with pytest.raises(InputError, match="negative"):
        alpha(as_ratings([[-1, 2], [1, 2]]), "ratio")


def panel():
    """Three raters see the same quality; the second is harsh by one point, the third answers at random."""
    rng = np.random.default_rng(13)
    quality = rng.integers(2, 6, 200)
    columns = [quality + rng.integers(0, 2, 200), quality - 1, rng.integers(1, 6, 200)]
    return as_ratings(np.stack(columns, axis=1))


def test_raters_show_their_bias_and_their_inconsistency():
    first, harsh, random = raters(panel())
    assert harsh.bias < 0 < first.bias
    assert random.pearson < 0.3 < first.pearson
    others = alpha(as_ratings(panel().values[:, :2]), samples=0).estimate.value
    assert random.alpha_without == pytest.approx(others)
    assert random.alpha_without > max(first.alpha_without, harsh.alpha_without)


def test_the_ceiling_is_the_mean_of_raters_in_the_place_of_a_metric():
    people = panel()
    top = ceiling(people, samples=100)
    each = raters(people)
    assert top.tau_b.value == pytest.approx(np.mean([one.tau_b for one in each]))
    assert top.pearson.value == pytest.approx(np.mean([one.pearson for one in each]))
    assert top.tau_c.low < top.tau_c.value < top.tau_c.high
    with pytest.raises(InputError, match="no rater"):
        ceiling(as_ratings([[1, NAN], [NAN, 2], [1, NAN], [NAN, 2]]))


def test_sorted_ratings_are_noticed():
    assert ordered(as_ratings(np.sort(panel().values, axis=1)))
    assert not ordered(panel())
