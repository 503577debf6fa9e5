"""Rewards are clipped and scaled as asked for, by numbers that hand arithmetic gives."""

import math
import pickle

import numpy as np
import pytest

import captious
from captious import InputError, Scorer

REFERENCES = {
    "1": ["a b c d", "a b c d e"],
    "2": ["a b", "c d"],
    "3": ["x y z", "x y w"],
    "4": ["one alone"],
}


def _values(metric, texts, ids, **options):
    return captious.rewards(metric, references=REFERENCES, **options)[0](completions=texts, id=ids)


def test_values_are_clipped_in_the_unit_of_the_metric_before_they_are_scaled():
    texts, ids = ["a b c d", "a x", "q"], ["1", "2", "1"]  # unigram precision 1, 1/2, 0
    metric = "bleu(n=1)"
    plain = _values(metric, texts, ids)
    assert plain[1] == pytest.approx(0.5) and plain[2] == pytest.approx(0, abs=1e-9)
    assert _values(metric, texts, ids, clip=(0.25, 0.4)) == [0.4, 0.4, 0.25]
    clipped = _values(metric, texts, ids, clip={"bleu": (None, 0.4)}, scale={"bleu": 0.2})
    assert clipped == pytest.approx([2.0, 2.0, plain[2] / 0.2])


def test_the_reward_of_an_empty_caption_is_within_the_bounds_too():
    rewards = captious.rewards("rouge", references=REFERENCES, clip=(0.2, 1), scale={"ROUGE-L": 4})
    assert rewards[0](completions=["", "a b c d"], id=["1", "1"]) == [0.05, 0.25]
    assert rewards[0].floor == 0.05
    assert repr(rewards[0]) == "<Reward captious/rouge: rouge clipped to 0.2 … 1 / 4>"


def test_a_metric_for_which_lower_is_better_is_negated_after_clipping():
    rewards = captious.rewards("chair", clip=(0, 0.5), scale={"chair": 0.25})
    columns = {"references": [["a dog"]] * 2, "objects": [["dog"]] * 2}
    assert rewards[0](completions=["a dog and a cat", "a dog"], **columns) == [-2.0, 0.0]


def test_the_spread_over_references_by_hand():
    """ROUGE-1 precision and recall of each first reference against the second, items with two references only.

    "a b c d" against "a b c d e": precision 1, recall 4/5, F1 = 8/9. "a b" against "c d": 0. "x y z" against "x y w":
    2/3. Their mean is 14/27, the squared distances are 100/729, 196/729 and 16/729: the deviation is √(312/2187).
    """
    values = np.array([8 / 9, 0, 2 / 3])
    assert values.std() == pytest.approx(math.sqrt(312 / 2187))
    rewards = captious.rewards("rouge_n(n=1)", references=REFERENCES, scale="references")
    assert rewards[0].scaling.scale == 0.3777  # √(312/2187) = 0.37770…, to four digits
    assert rewards[0](completions=["a b"], id=["2"]) == [1 / 0.3777]


def test_scaled_rewards_of_references_have_a_spread_of_one_and_document_frequencies_of_all_references():
    demo = captious.demo()
    rewards = captious.rewards(
        "cider, clipscore(captious-mini)", references=demo.references, images=demo.images, scale="references"
    )
    ids = [str(key) for key in Scorer("cider", references=demo.references).ids]
    by_id = {str(item.id): item for item in demo.systems["solid"]}
    first = [by_id[key].references[0] for key in ids]
    looking = rewards[1](completions=first, id=ids)  # an encoder does not read the references
    assert np.std(looking) == pytest.approx(1, abs=1e-3)
    others = {key: list(by_id[key].references[1:]) for key in ids}
    whole = Scorer("cider", references=demo.references)
    expected = whole.with_items(Scorer("rouge", references=others).take(ids))(ids, first)["cider"].std()
    assert rewards[0].scaling.scale == pytest.approx(expected, rel=1e-3)
    assert rewards[0].scaling.scale > 5 * rewards[1].scaling.scale  # CIDEr-D's numbers are the larger ones


def test_a_metric_of_images_needs_one_reference_of_an_item():
    demo = captious.demo()
    single = {item.id: [item.references[0]] for item in demo.systems["solid"]}
    rewards = captious.rewards("clipscore(captious-mini)", references=single, images=demo.images, scale="references")
    values = rewards[0](completions=[texts[0] for texts in single.values()], id=list(single))
    assert np.std(values) == pytest.approx(1, abs=1e-3)


def test_a_weighted_sum_is_of_scaled_values_and_names_the_plain_ones():
    one = captious.rewards(
        "0.5*rouge + 2*bleu(n=1)", references=REFERENCES, clip={"bleu": (0, 0.5)}, scale={"rouge": 0.1}
    ).sum
    one = pickle.loads(pickle.dumps(one))
    assert one(completions=["a b c d"], id=["1"]) == [0.5 * 1 / 0.1 + 2 * 0.5]
    told = one.compute_score(solution_str="a b c d", extra_info={"id": "1"})
    assert told["score"] == 6.0 and told["captious/rouge"] == 1.0 and told["captious/bleu_1"] > 0.99
    assert repr(one) == "<Reward captious/reward: 0.5*rouge / 0.1 + 2*bleu(n=1) clipped to 0 … 0.5>"


@pytest.mark.parametrize(
    ("metrics", "arguments", "message"),
    [
        ("rouge", {"clip": (1, 0)}, r"clip: \(1, 0\) for rouge, expected a lower bound below the upper one"),
        ("rouge", {"clip": 3}, r"clip: 3 for rouge, expected two bounds such as \(0, 3\)"),
        ("rouge", {"clip": {"rouge": (0, math.nan)}}, r"clip: \(0, nan\) for rouge"),
        ("rouge", {"clip": {"cider": (0, 1)}}, "^clip: no metric 'cider'"),
        ("rouge", {"scale": "running"}, "scale: 'running', expected 'references', or numbers"),
        ("rouge", {"scale": {"rouge": 0}}, "scale: 0 for rouge, expected a number above 0"),
        ("rouge", {"scale": {"cider": 1}}, "^scale: no metric 'cider'"),
        ("clair(model=m)", {"scale": "references"}, r"clair\(model=m\) would ask a chat model .*'clair': 1.0"),
    ],
)
def test_bounds_and_scales_that_cannot_be_meant_are_refused(metrics, arguments, message):
    judging = captious.Judging(most_tokens=1)
    with pytest.raises(InputError, match=message):
        captious.rewards(metrics, references=REFERENCES, runtime=captious.Runtime(judging=judging), **arguments)


def test_a_scale_that_references_cannot_give_is_refused():
    with pytest.raises(InputError, match=r"scale='references' needs references=... by id; pass numbers"):
        captious.rewards("rouge", scale="references")
    with pytest.raises(InputError, match="rouge does not vary over the 0 first references"):
        captious.rewards("rouge", references={"1": ["a dog"], "2": ["a cat"]}, scale="references")
    with pytest.raises(InputError, match="rouge does not vary over the 2 first references"):
        captious.rewards("rouge", references={"1": ["a dog", "a dog"], "2": ["a cat", "a cat"]}, scale="references")
