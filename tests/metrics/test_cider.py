import math

import pytest

import captious
from captious import Resampling
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
    monkeypatch.setattr("captious.text.ngram_tables.SMALL", 0)
    assert metric.measure(captions[1]).values.tolist() == pytest.approx(together, abs=0, nan_ok=True)


def test_labels_say_which_cider():
    assert Cider().label == "CIDEr-D"
    assert Cider(variant="plain").label == "CIDEr"
    assert Cider(idf="coco").label == "CIDEr-D (coco)"


def long_captions(words, reference_words, items=20):
    """Captions of so many words beside references of the same words, of which they have another number."""
    vocabulary = [f"w{number}" for number in range(300)]
    texts = {str(item): " ".join([f"i{item}", *vocabulary[: words - 1]]) for item in range(items)}
    references = {str(item): [" ".join([f"i{item}", *vocabulary[: reference_words - 1]])] for item in range(items)}
    return CaptionSet.of(texts, references)


def test_a_length_penalty_that_erases_everything_is_said():
    """231 words against 173: exp(−58²/72) is 5e-21, and CIDEr-D prints 0.0000 although most n-grams match."""
    captions = long_captions(231, 173)
    measured = Cider().measure(captions)
    assert measured.corpus == pytest.approx(0, abs=1e-9) and Cider(variant="plain").measure(captions).corpus > 1
    (line,) = (line for line in measured.warnings if "penalty" in line)
    assert "cut 100% of the captions by more than 90%: captions have 231 words, references 173 (medians)" in line
    assert "cider(variant=plain)" in line
    assert not any("penalty" in line for line in Cider(variant="plain").measure(captions).warnings)
    assert line in captious.evaluate(captions, "cider", resampling=Resampling(0)).warnings


@pytest.mark.parametrize(("words", "cut"), [(172, False), (161, False), (160, True), (186, True), (185, False)])
def test_thirteen_words_leave_less_than_a_tenth(words, cut):
    """exp(−13²/72) = .0957 and exp(−12²/72) = .135, of captions that are longer or shorter."""
    warnings = Cider().measure(long_captions(words, 173)).warnings
    assert any("length penalty cut 100%" in line for line in warnings) == cut


def test_one_near_reference_or_few_long_captions_are_no_reason_to_warn():
    texts = {str(number): "a dog runs" if number else "dog " * 100 for number in range(11)}
    references = {key: ["the dog runs", "dog " * 60] for key in texts}
    assert not any("penalty" in line for line in Cider().measure(CaptionSet.of(texts, references)).warnings)


def test_usual_captions_are_not_tokenized_for_the_lengths(monkeypatch):
    """Characters are counted first: of captions as long as their references no table is made."""
    captions = CaptionSet.of({"1": "a dog runs", "2": "a cat"}, {"1": ["the dog is running"], "2": ["one cat"]})
    monkeypatch.setattr(Cider, "table", None)
    assert Cider().length_warnings(captions) == []


def test_lengths_are_those_of_the_whole_set_and_of_each_system():
    """Systems that are compared are scored together, and a set in chunks; a warning is about one system as a whole."""
    near, far = long_captions(20, 20), long_captions(90, 20)
    compared = captious.compare({"near": near, "far": far}, "cider", resampling=Resampling(0), permutations=10)
    lines = [line for line in compared.document().warnings if "penalty" in line]
    assert len(lines) == 1 and lines[0].startswith("far: CIDEr-D's length penalty cut 100%")
