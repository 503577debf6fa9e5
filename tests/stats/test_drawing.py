"""Strata, allocation and order of a drawing: golden numbers of ../shared/spec/estimate.md section 5."""

import numpy as np
import pytest

from captious.errors import InputError
from captious.stats.drawing import allocate, cut_strata, order_randomly


def test_neyman_allocation():
    assert allocate([100, 200, 300], 60, [1, 2, 0.5]) == [9, 37, 14]
    assert allocate([1133, 1133, 1132, 1133, 1133], 100, [0.2, 0.31, 0.4, 0.52, 0.75]) == [9, 14, 18, 24, 35]


def test_allocation_keeps_two_of_each_and_at_most_all():
    assert allocate([100, 100], 20, [1, 0]) == [18, 2]
    assert allocate([3, 100], 50, [9, 1]) == [3, 47]
    with pytest.raises(InputError, match="5 images to draw, expected at most the 4"):
        allocate([2, 2], 5)


def test_strata_have_equal_sizes_and_order_is_fixed_by_the_seed():
    assert np.bincount(cut_strata(np.arange(22.0), 5)).tolist() == [5, 4, 5, 4, 4]
    names = [str(number) for number in range(30)]
    order = order_randomly(names, 1)
    assert order != order_randomly(names, 2) and sorted(order) == sorted(names)
    assert order_randomly(names[:20], 1) == [name for name in order if int(name) < 20]
