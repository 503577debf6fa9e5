import pytest

from captious.captions import CaptionSet
from captious.metrics.rouge import Rouge, RougeN

CAPTIONS = CaptionSet.of({"1": "a b c d"}, {"1": ["a b", "a x y z b c w v"]})


def test_precision_and_recall_may_come_from_different_references():
    """First reference: LCS 2, P 2/4, R 2/2. Second: LCS a b c = 3, P 3/4, R 3/8. Taken apart: P 3/4, R 1."""
    p, r, b2 = 3 / 4, 1.0, 1.44
    assert Rouge().measure(CAPTIONS).corpus == pytest.approx((1 + b2) * p * r / (r + b2 * p), abs=1e-12)


def test_the_best_single_reference_is_an_option():
    b2 = 1.44
    f = [(1 + b2) * p * r / (r + b2 * p) for p, r in ((2 / 4, 2 / 2), (3 / 4, 3 / 8))]
    assert Rouge(best="f").measure(CAPTIONS).corpus == pytest.approx(max(f), abs=1e-12)


def test_empty_captions():
    captions = CaptionSet.of({"1": "", "2": "", "3": "a"}, {"1": ["a"], "2": [""], "3": [""]})
    assert Rouge().measure(captions).values.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("n", "value", "expected"),
    [
        # unigrams: first reference shares 2 (P 2/4, R 2/2), second 3 (P 3/4, R 3/8)
        (1, "precision", 3 / 4),
        (1, "recall", 1.0),
        (1, "f", 2 * 0.5 * 1 / 1.5),
        # bigrams a-b b-c c-d: first shares 1 (P 1/3, R 1/1), second b-c 1 (P 1/3, R 1/7)
        (2, "precision", 1 / 3),
        (2, "recall", 1.0),
        (2, "f", 2 * (1 / 3) / (4 / 3)),
    ],
)
def test_rouge_n_takes_the_best_reference_by_the_value_asked_for(n, value, expected):
    assert RougeN(n=n, value=value).measure(CAPTIONS).corpus == pytest.approx(expected, abs=1e-12)


def test_rouge_n_mean_over_references():
    assert RougeN(n=1, value="recall", over="mean").measure(CAPTIONS).corpus == pytest.approx((1 + 3 / 8) / 2)


def test_rouge_n_with_several_candidates():
    captions = CaptionSet.of({"1": ["a b", "c"]}, {"1": ["a b", "c d"]})
    assert RougeN(n=1, value="recall").measure(captions).corpus == pytest.approx((1 + 1 / 2) / 2)
