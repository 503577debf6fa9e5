"""Quantiles over parts equal those of the sorted whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious.scale import quantiles
from captious.scale.expression import Column, Quantile
from captious.scale.quantiles import exact_quantiles

VALUES = st.one_of(st.floats(allow_nan=True, allow_infinity=True, width=64), st.sampled_from([0.0, -0.0, 0.28]))


def rank(share, highest=False):
    return Quantile("", Column("x"), share, highest).rank


@given(
    st.lists(st.lists(VALUES, max_size=12), min_size=1, max_size=4),
    st.floats(0.01, 0.99),
    st.booleans(),
    st.sampled_from([0, 3, 1 << 20]),
)
def test_they_equal_the_sorted_values(parts, share, highest, gather):
    before, quantiles.GATHER = quantiles.GATHER, gather  # with 0 all 64 bits are searched
    try:
        (value,) = exact_quantiles(lambda: ([np.array(part)] for part in parts), [rank(share, highest)])
    finally:
        quantiles.GATHER = before
    present = np.sort(np.array([one for part in parts for one in part if one == one]))
    expected = present[rank(share, highest)(len(present))] if len(present) else np.nan
    np.testing.assert_equal(value, expected + 0.0)


def test_several_are_found_in_the_same_readings():
    readings = []

    def read():
        readings.append(1)
        values = np.arange(1000.0)
        return iter([[values, -values]])

    # The 300 highest of 0…999 begin at 700; a quarter of 0…-999 lies at or below the 250th lowest, -750.
    assert exact_quantiles(read, [rank(0.3, True), rank(0.25)]) == [700.0, -750.0]
    assert len(readings) == 2


@pytest.mark.parametrize("values", [[], [np.nan, np.nan]])
def test_without_values_there_is_none(values):
    assert np.isnan(exact_quantiles(lambda: iter([[np.array(values)]]), [rank(0.5)])[0])
