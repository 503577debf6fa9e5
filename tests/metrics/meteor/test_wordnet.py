"""Base words and shared synsets, on tables a reader can check: `conftest.SYNSETS` and `conftest.EXCEPTIONS`."""

import pytest

from captious.metrics.meteor._compiled_tables import find_synsets


def related(one, other, tables):
    ours, theirs = find_synsets([one, other], tables)
    return not ours.isdisjoint(theirs)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("dog", "hound", True),
        ("dog", "cat", False),
        ("photo", "image", False),  # each shares a synset with picture, not with the other
        ("dogs", "hounds", True),  # s -> nothing
        ("men", "guy", True),  # irregular
        ("ran", "jog", True),
        ("sat", "sitting", True),
        ("runner", "jog", False),  # er -> nothing gives runn
        ("larger", "big", True),  # er -> e, after er -> nothing gave no word
        ("largest", "biggest", False),  # est -> e; biggest: est -> nothing gives bigg
        ("jogs", "running", False),  # ing -> nothing gives runn: METEOR's rules do not undouble
        ("bird", "birds", False),  # unknown words
        ("dogss", "dog", False),
    ],
)
def test_synonyms(tiny, one, other, expected):
    assert related(one, other, tiny) is expected
    assert related(other, one, tiny) is expected


def test_no_words_have_no_synsets(tiny):
    assert find_synsets([], tiny) == []
