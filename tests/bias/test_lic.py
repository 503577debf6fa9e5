import math

import numpy as np
import pytest
from scipy import stats

from captious.bias.lic import Lic, chance, score_items
from captious.stats.tests import t_point, t_tail


def test_score_is_confidence_where_right_over_all_captions():
    # Right at .9 and .6, wrong at .8: (.9 + .6 + 0) / 3 = .5
    shares = np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]])
    assert score_items(shares, np.array([0, 1, 1])).mean() == pytest.approx(0.5)


def test_three_classes():
    assert score_items(np.array([[0.2, 0.3, 0.5]]), np.array([2])).tolist() == [0.5]
    assert chance(3) == pytest.approx(100 / 9)


def test_sd_error_and_interval_by_hand():
    # Differences 48 − 42 = 6 and 52 − 44 = 8: mean 7, sample sd √2; corrected variance (1/2 + 1/9)·2 = 11/9.
    lic = Lic(np.array([48.0, 52.0]), np.array([[41.0, 43.0], [43.0, 45.0]]), ratio=1 / 9)
    assert (lic.sd_m, lic.sd_d, lic.lic) == (2.0, 1.0, 7.0)
    assert lic.error == pytest.approx(math.sqrt(11 / 9))
    # Student's t with one degree of freedom at 97.5 %: 12.7062
    assert lic.interval == pytest.approx((7 - 12.7062 * math.sqrt(11 / 9), 7 + 12.7062 * math.sqrt(11 / 9)), rel=1e-5)
    assert not lic.differs


def test_sample_sd_is_an_option():
    assert Lic(np.array([48.0, 52.0]), np.ones((2, 1)), 0.1, ddof=1).sd_m == pytest.approx(math.sqrt(8))


def test_one_seed_uses_the_tested_images():
    lic = Lic(np.array([50.0]), np.array([[45.0]]), ratio=1 / 9, item_error=2.0)
    assert lic.interval == pytest.approx((5 - 1.959964 * 2, 5 + 1.959964 * 2))
    assert lic.differs and lic.p_value == pytest.approx(2 * stats.norm.sf(2.5))


def test_equal_captions_do_not_differ():
    lic = Lic(np.array([40.0, 41.0]), np.array([[40.0], [41.0]]), ratio=1 / 9)
    assert lic.p_value == 1.0 and not lic.differs


@pytest.mark.parametrize("freedom", [1, 2, 9, 40, 300])
def test_student_agrees_with_scipy(freedom):
    for t in (0.0, 0.5, 2.0, 6.0):
        assert t_tail(t, freedom) == pytest.approx(stats.t.sf(t, freedom), rel=1e-9, abs=1e-15)
    assert t_point(0.99, freedom) == pytest.approx(stats.t.ppf(0.995, freedom), rel=1e-9)


def test_the_p_value_is_two_sided_whichever_is_larger():
    more = Lic(np.array([44.0, 45.0, 43.0]), np.array([[40.0], [41.5], [40.0]]), ratio=1 / 9)
    less = Lic(np.array([40.0, 41.5, 40.0]), np.array([[44.0], [45.0], [43.0]]), ratio=1 / 9)
    assert less.p_value == pytest.approx(more.p_value)
    assert 0 < more.p_value < 1
