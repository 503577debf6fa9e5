import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious.captions import CaptionSet
from captious.metrics.rouge import _count_ones, compute_lcs_lengths
from captious.text.ngram_tables import TextTable

CAPTION = st.lists(st.sampled_from("abcde"), max_size=90)
ITEM = st.tuples(st.lists(CAPTION, max_size=3), st.lists(CAPTION, max_size=3))


def by_dynamic_programming(a, b):
    row = [0] * (len(b) + 1)
    for x in a:
        diagonal = 0
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], diagonal + 1 if x == y else max(row[j], row[j - 1])
    return row[-1]


@given(st.lists(ITEM, min_size=1, max_size=4))
def test_lengths_are_those_of_dynamic_programming(items):
    captions = CaptionSet.of(
        {str(i): [" ".join(text) for text in candidates] for i, (candidates, _) in enumerate(items)},
        {str(i): [" ".join(text) for text in references] for i, (_, references) in enumerate(items)},
    )
    expected = [
        by_dynamic_programming(a, b) for candidates, references in items for a in candidates for b in references
    ]
    assert compute_lcs_lengths(TextTable.of(captions, "whitespace")).tolist() == expected


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_set_bits_are_counted(words):
    assert _count_ones(np.array(words, dtype=np.uint64)).tolist() == [word.bit_count() for word in words]


@pytest.mark.parametrize("length", [1, 8, 63, 64, 65, 200])
def test_at_the_ends_of_machine_words(length):
    text = " ".join(map(str, range(length)))
    assert compute_lcs_lengths(TextTable.of(CaptionSet.of({"1": text}, {"1": [text]}), "whitespace")).tolist() == [
        length
    ]
