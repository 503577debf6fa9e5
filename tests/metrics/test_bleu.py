import math

import pytest

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.bleu import Bleu


def test_the_closest_of_two_equally_close_lengths_is_the_shorter():
    captions = CaptionSet.of({"1": "a b c"}, {"1": ["a b", "a b c d"]})
    rows = Bleu(n=1).measure(captions).rows
    assert rows[0].tolist() == [3, 2, 3, 3]  # length, reference length, matches, unigrams


def test_the_corpus_value_comes_from_summed_statistics():
    captions = CaptionSet.of({"1": "a a", "2": "b c d e f g"}, {"1": ["a x"], "2": ["b c d e f g"]})
    # matches 1 + 6 of 2 + 6 unigrams; no brevity penalty
    assert Bleu(n=1).measure(captions).corpus == pytest.approx(7 / 8)


def test_several_candidates_of_an_item_add_up():
    captions = CaptionSet.of({"1": ["a b", "x y z w"]}, {"1": ["a b", "x y"]})
    # "a b": 2 of 2, reference length 2; "x y z w": 2 of 4, closest length 2
    assert Bleu(n=1).measure(captions).items["1"] == pytest.approx(4 / 6)


def test_an_empty_candidate_scores_practically_0_and_is_kept():
    measured = Bleu(n=1).measure(CaptionSet.of({"1": "", "2": "a"}, {"1": ["a"], "2": ["a"]}))
    assert measured.items["1"] < 1e-6
    # matches 1, unigrams 1; length 1 against reference length 2: exp(1 - 2)
    assert measured.corpus == pytest.approx(math.exp(-1), rel=1e-6)


def test_orders_outside_1_to_4_are_refused():
    with pytest.raises(InputError, match=r"bleu\(n=5\): expected n from 1 to 4"):
        Bleu(n=5)
