import math

import pytest

from captious.captions import CaptionSet
from captious.metrics.cider import Cider
from captious.metrics.diversity import SelfCider

CAPTIONS = CaptionSet.of({"1": "a dog a dog", "2": "b"}, {"1": ["a dog"], "2": ["b"]})


def test_clipping_and_length_penalty_by_hand():
    """Item 1: log N = log 2 =: w, every n-gram of item 1 has df 1, so weight w times its count.

    n = 1: h = (2w, 2w), r = (w, w): sum min(h, r) r = 2w2; norms w sqrt(8), w sqrt(2): 2 / 4 = 1/2
    n = 2: h has a-dog 2, dog-a 1; r has a-dog 1: 1 / (sqrt 5 * 1)
    n = 3, 4: the reference has none: 0. Difference of bigram counts 3 - 1 = 2: exp(-4 / 72).
    """
    expected = 10 * math.exp(-4 / 72) * (1 / 2 + 1 / math.sqrt(5)) / 4
    assert Cider().measure(CAPTIONS).items["1"] == pytest.approx(expected, abs=1e-12)


def test_plain_cider_neither_clips_nor_penalizes_length():
    """n = 1: h.r = 4w2, over norms 4w2: 1. n = 2: 2 / sqrt 5."""
    expected = 10 * (1 + 2 / math.sqrt(5)) / 4
    assert Cider(variant="plain").measure(CAPTIONS).items["1"] == pytest.approx(expected, abs=1e-12)


def test_a_set_of_one_item_scores_0():
    assert Cider().measure(CaptionSet.of({"1": "a dog"}, {"1": ["a dog"]})).corpus == 0


def test_several_candidates_are_averaged():
    captions = CaptionSet.of({"1": ["a red dog runs", "x"], "2": "b"}, {"1": ["a red dog runs"], "2": ["b"]})
    measured = Cider().measure(captions)
    assert measured.items["1"] == pytest.approx((10 + 0) / 2)
    # over all three candidates: "b" has only order 1: 10/4
    assert measured.corpus == pytest.approx((10 + 0 + 2.5) / 3)


@pytest.mark.parametrize("metric", [Cider(), Cider(variant="plain"), SelfCider()])
def test_orders_looked_at_together_give_the_values_of_each_alone(metric, monkeypatch):
    """Bit for bit: small batches in training, and large sets. Item 3 has no references, item 4 an empty caption."""
    candidates = {"1": ["a dog a dog runs", "a red dog"], "2": ["a cat", "a dog"], "3": ["a", "b"], "4": ["", "a b"]}
    references = {"1": ["a dog runs", "the red dog runs"], "2": ["one cat", "a cat a cat"], "4": ["a b"]}
    captions = [CaptionSet.of(candidates, references) for _ in range(2)]
    together = metric.measure(captions[0]).values.tolist()
    monkeypatch.setattr("captious.text.tables.SMALL", 0)
    assert metric.measure(captions[1]).values.tolist() == pytest.approx(together, abs=0, nan_ok=True)


def test_labels_say_which_cider():
    assert Cider().label == "CIDEr-D"
    assert Cider(variant="plain").label == "CIDEr"
    assert Cider(idf="coco").label == "CIDEr-D (coco)"
