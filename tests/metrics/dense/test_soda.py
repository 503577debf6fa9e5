"""SODA, from the definition of Fujita et al. 2020."""

import itertools
import json

import numpy as np
import pytest

import captious
from captious.errors import InputError
from captious.io.formats import FileList
from captious.metrics.dense.soda import compute_largest_sums, find_matching
from captious.metrics.registry import parse

VALUES = ("precision", "recall", "f")


def percents(captions, options):
    return [100 * parse(f"soda({value},{options})").measure(captions).corpus for value in VALUES]


# Computed for the specification with Java METEOR. IoU by hand: S = .9 + 8/9, P = S/3, R = S/2, F = 2S/5.
SMALL = {
    "roles=paper": (35.8620, 53.7930, 43.0344),
    "roles=exchanged": (38.7513, 58.1269, 46.5015),
    "score=iou": (59.6296, 89.4444, 71.5556),
}


@pytest.mark.parametrize("options", SMALL)
def test_the_small_example(options, predicted, request):
    if options != "score=iou":
        request.getfixturevalue("meteor_home")
        request.getfixturevalue("compiled_meteor")
    assert percents(predicted, options) == pytest.approx(SMALL[options], abs=1e-4)


def test_a_video_without_predictions_counts_0(small, predicted):
    assert percents(small, "score=iou") == pytest.approx([one / 2 for one in percents(predicted, "score=iou")])


def sum_best_monotone(gains):
    """Try every monotone matching."""
    n, m = gains.shape
    best = 0.0
    for size in range(1, min(n, m) + 1):
        for rows in itertools.combinations(range(n), size):
            for columns in itertools.combinations(range(m), size):
                best = max(best, sum(gains[row, column] for row, column in zip(rows, columns, strict=True)))
    return best


def test_the_largest_sum_is_that_of_all_matchings_in_order():
    generator = np.random.default_rng(3)
    for n, m in ((1, 1), (1, 4), (3, 3), (4, 2), (4, 5)):
        gains = generator.random((n, m)) * (generator.random((n, m)) < 0.6)
        best = sum_best_monotone(gains)
        assert compute_largest_sums(gains)[-1, -1] == pytest.approx(best, abs=1e-12)
        pairs = find_matching(gains)
        assert sum(gains[pair] for pair in pairs) == pytest.approx(best, abs=1e-12)
        assert all(one[0] < other[0] and one[1] < other[1] for one, other in itertools.pairwise(pairs))


def read(predicted, referenced):
    predictions = {"v": [{"sentence": text, "timestamp": [start, end]} for start, end, text in predicted]}
    references = {"v": {"timestamps": [one[:2] for one in referenced], "sentences": [one[2] for one in referenced]}}
    return captious.read(predictions, references=references)


def test_pairs_that_cross_do_not_both_count():
    # The first prediction is said of the second reference, and the second of the first; all four overlap.
    captions = read([(0, 10, "a cat"), (1, 11, "a dog")], [(0, 10, "a dog"), (1, 11, "a cat")])
    # ROUGE-L of equal sentences is 1, of others 1/2; iou of [0, 10] and [1, 11] is 9/11, of equal ones 1.
    # In order: 1/2 + 1/2 = 1; only one of the crossing pairs: 9/11. So S = 1 and F = 2 · 1 / 4.
    assert percents(captions, "score=rouge")[2] == pytest.approx(50, abs=1e-5)


def test_equal_starts_keep_the_order_of_the_file():
    captions = read([(0, 10, "a dog"), (0, 10, "a cat")], [(0, 10, "a dog"), (0, 10, "a cat")])
    turned = read([(0, 10, "a cat"), (0, 10, "a dog")], [(0, 10, "a dog"), (0, 10, "a cat")])
    assert percents(captions, "score=rouge")[2] == pytest.approx(100, abs=1e-5)
    # in the other order 1/2 + 1/2, or one crossing pair of 1: S = 1 of 2
    assert percents(turned, "score=rouge")[2] == pytest.approx(50, abs=1e-5)


def test_exchanged_roles_change_nothing_for_a_symmetric_score(predicted):
    assert percents(predicted, "score=rouge_n(n=1)") == pytest.approx(
        percents(predicted, "score=rouge_n(n=1),roles=exchanged"), abs=1e-12
    )
    recall = 'score="rouge_n(n=1,value=recall)"'
    assert percents(predicted, recall)[2] != pytest.approx(percents(predicted, f"{recall},roles=exchanged")[2])


def test_two_events_that_do_not_overlap_and_are_right_have_100():
    events = [(0, 4, "a dog"), (5, 9, "a cat")]
    assert percents(read(events, events), "score=rouge") == pytest.approx([100] * 3, abs=1e-5)
    assert percents(read(events, events), "score=iou") == pytest.approx([100] * 3, abs=1e-5)


def test_several_files(tmp_path):
    first = {"v": {"timestamps": [[0, 10]], "sentences": ["x"]}, "w": {"timestamps": [[0, 10]], "sentences": ["x"]}}
    second = {"v": {"timestamps": [[0, 5], [5, 10]], "sentences": ["x", "y"]}}
    for name, content in (("one", first), ("two", second)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    predictions = {key: [{"sentence": "x", "timestamp": [0, 5]}] for key in "vw"}
    files = FileList(str(tmp_path / f"{name}.json") for name in ("one", "two"))
    captions = captious.read(predictions, references=files)
    # iou is 1/2 with [0, 10] and 1 with [0, 5]. First file: F = 2 · .5 / 2 of both videos. Second: v has 2 · 1 / 3.
    assert percents(captions, "score=iou,files=1")[2] == pytest.approx(50, abs=1e-5)
    assert percents(captions, "score=iou,files=2")[2] == pytest.approx(200 / 3, abs=1e-5)
    assert percents(captions, "score=iou")[2] == pytest.approx((50 + 200 / 3) / 2, abs=1e-5)
    assert percents(captions, "score=iou,files=best")[2] == pytest.approx((200 / 3 + 50) / 2, abs=1e-5)
    # merged: v has three references, of which one has a partner: 2 · 1 / 4
    assert percents(captions, "score=iou,files=merged")[2] == pytest.approx((50 + 50) / 2, abs=1e-5)


@pytest.mark.parametrize("form", ["score=rouge", "score=iou", "score=iou,value=precision", "score=rouge,files=merged"])
def test_the_parts_of_an_explanation_add_up(form, predicted):
    metric = parse(f"soda({form})")
    explanation = metric.explain(predicted, "v1")
    assert sum(part.adds for part in explanation.parts) == pytest.approx(explanation.value, abs=1e-12)
    assert explanation.parts[0].details["reference"] == "A man slices a tomato."
    assert explanation.parts[2].details["reference"] == "" and explanation.parts[2].adds == 0


def test_a_score_must_be_a_metric_of_a_caption_and_its_reference():
    for score in ("densecap", "clipscore(captious-mini)", "selfcider"):
        with pytest.raises(InputError, match="expected a metric of a caption and its reference, or iou"):
            parse(f"soda(score={score})")


@pytest.mark.shared_data
def test_mdvc_on_the_references_of_its_predictions(mdvc, meteor_home, compiled_meteor):
    captions = mdvc(1, (1,), "skip")
    assert len(captions) == 4483
    assert percents(captions, "roles=paper") == pytest.approx([11.0375] * 3, abs=2e-4)
    assert percents(captions, "roles=exchanged") == pytest.approx([11.1469] * 3, abs=2e-4)
    captions.forget()


@pytest.mark.shared_data
def test_mdvc_on_the_other_references(mdvc, meteor_home, compiled_meteor):
    captions = mdvc(1, (2,), "skip")
    assert percents(captions, "roles=paper") == pytest.approx([5.3102, 5.1266, 5.0463], abs=2e-4)
    assert percents(captions, "roles=exchanged") == pytest.approx([4.7233, 4.5535, 4.4817], abs=2e-4)
    assert percents(captions, "score=iou") == pytest.approx([45.6076, 43.7747, 43.1747], abs=2e-4)
    captions.forget()


@pytest.mark.shared_data
def test_mdvc_on_both_references(mdvc, meteor_home, compiled_meteor):
    captions = mdvc(1, (1, 2), "skip")
    assert percents(captions, "files=best") == pytest.approx([11.2982, 11.2917, 11.2773], abs=2e-4)
    assert percents(captions, "files=merged") == pytest.approx([11.9878, 5.8767, 7.8100], abs=2e-4)
    captions.forget()
