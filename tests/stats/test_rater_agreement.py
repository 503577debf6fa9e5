"""Krippendorff's alpha against the published example, the package krippendorff, and hand arithmetic."""

import krippendorff as package
import numpy as np
import pytest

from captious.errors import InputError
from captious.options import Resampling
from captious.stats.rater_agreement import krippendorff

ONCE = Resampling(samples=0)
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


@pytest.mark.parametrize(
    ("level", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]
)
def test_the_published_example(level, expected):
    alpha = krippendorff(PUBLISHED, level, Resampling(200))
    assert round(alpha.estimate.value, 3) == expected
    assert (alpha.units, alpha.ratings, alpha.single) == (11, 40, 1)
    assert alpha.estimate.low < alpha.estimate.value < alpha.estimate.high


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval", "ratio"])
def test_the_package_agrees_on_any_data(level):
    rng = np.random.default_rng(12)
    for _ in range(30):
        values = rng.integers(0, rng.integers(3, 8), (rng.integers(4, 25), rng.integers(2, 6))).astype(float)
        values[rng.random(values.shape) < 0.25] = NAN
        expected = package.alpha(reliability_data=values.T, level_of_measurement=level)
        assert krippendorff(values, level, ONCE).estimate.value == pytest.approx(expected, abs=1e-12)


def test_by_hand():
    # Units (1,1) (2,2) (1,2): o_11 = 2, o_22 = 2, o_12 = o_21 = 1, n = 6, n_1 = n_2 = 3.
    # D_o = 2/6, D_e = 2 * 9 / 30; alpha = 1 - (1/3) / (3/5) = 4/9.
    assert krippendorff(
        np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 2.0]]), "interval", ONCE
    ).estimate.value == pytest.approx(4 / 9, abs=1e-12)


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
        krippendorff(np.array(values, dtype=float), "interval", ONCE)


def test_all_equal_by_flag():
    assert krippendorff(np.full((2, 2), 3.0), "interval", ONCE, constant="one").estimate.value == 1.0


def test_a_ratio_scale_is_not_negative():
    with pytest.raises(InputError, match="negative"):
        krippendorff(np.array([[-1.0, 2.0], [1.0, 2.0]]), "ratio", ONCE)
