import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious.text.lcs import lcs_lengths

SEQUENCE = st.lists(st.integers(0, 4), max_size=90)


def by_dynamic_programming(a, b):
    row = [0] * (len(b) + 1)
    for x in a:
        diagonal = 0
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], diagonal + 1 if x == y else max(row[j], row[j - 1])
    return row[-1]


@given(st.lists(st.tuples(SEQUENCE, SEQUENCE), min_size=1, max_size=6))
def test_lengths_are_those_of_dynamic_programming(pairs):
    sequences = [sequence for pair in pairs for sequence in pair]
    tokens = np.array([token for sequence in sequences for token in sequence], dtype=np.int32)
    starts = np.cumsum([0, *map(len, sequences)])
    left, right = np.arange(0, len(sequences), 2), np.arange(1, len(sequences), 2)
    expected = [by_dynamic_programming(a, b) for a, b in pairs]
    assert lcs_lengths(tokens, starts, left, right).tolist() == expected


@pytest.mark.parametrize("length", [8, 16, 32, 63, 64, 65])
def test_word_boundaries(length):
    tokens = np.arange(2 * length, dtype=np.int32) % length
    starts = np.array([0, length, 2 * length])
    assert lcs_lengths(tokens, starts, np.array([0]), np.array([1])).tolist() == [length]
