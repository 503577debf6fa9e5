"""GPT4-Eval: how reviews are read, real ones among them; scores, ratios and both orders by hand."""

import json
import math

import pytest
from tests.metrics.judges.answers import gpt4eval
from tests.models.chat.stub import asked

from captious.captions import CaptionSet
from captious.metrics.judges.gpt4eval import Gpt4Eval, parse_review
from captious.models.chat.messages import Reply

CAPTIONS = CaptionSet.of(
    {"1": ["a red dog runs", "dogs"], "2": "a cat"},
    {"1": ["a dog runs in the green park", "a dog"], "2": ["the cat sleeps here"]},
)


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        ("8 9\nBoth are good.", (8, 9)),
        ("8, 9", (8, 9)),
        ("8,9 ", (8, 9)),
        ("\n\n 8.5  9\n", (8.5, 9)),
        ("8/10 9/10", (8, 9)),
        ("8 and 9", (8, 9)),
        ("8 - 9", (8, 9)),
        ("**8 9**", (8, 9)),
        ("Scores: (8, 9)", (8, 9)),
        ("Assistant 1: 8, Assistant 2: 9", (8, 9)),
        ("Assistant 2: 9, Assistant 1: 8", (8, 9)),
        ("Assistant 1: 8\nAssistant 2: 9", (8, 9)),
        ("I compare.\n**Assistant 1:** 8/10\n**Assistant 2:** 9/10\n", (8, 9)),
        ("Assistant 1: 3\nNo.\nAssistant 1: 8 (right)\nAssistant 2: 9 (right)", (8, 9)),
        ("I compare 2 answers in 3 steps.\nSo the scores are (8, 9).", (8, 9)),
        ("2 answers, 3 steps", None),
        ("8", None),
        ("8 9 10", None),
        ("0 9", None),
        ("8 11", None),
        ("-1 -1", None),
        ("Assistant 1 has 2 errors, and assistant 2 has 3.", None),
        ("Both are good.", None),
        ("", None),
    ],
)
def test_a_review_is_read_or_refused(text, scores):
    if scores is None:
        with pytest.raises(ValueError):
            parse_review(Reply(text))
    else:
        assert parse_review(Reply(text))[:2] == scores


def test_the_value_is_the_score_of_the_caption_over_ten(model):
    stub = model(gpt4eval)
    measured = Gpt4Eval("m").measure(CAPTIONS)
    # as many points as words: 4 and 1 for the candidates of the first item, 2 for that of the second
    assert measured.items == {"1": pytest.approx(0.25), "2": pytest.approx(0.2)}
    assert measured.corpus == pytest.approx((0.4 + 0.1 + 0.2) / 3)
    body = next(body for body in stub.bodies if "red" in asked(body))
    assert [message["role"] for message in body["messages"]] == ["system", "user"] and body["temperature"] == 0.2
    text = asked(body)
    assert (
        text.index('- "a dog') < text.index('[Assistant 1]\n"a dog runs in') < text.index('[Assistant 2]\n"a red dog')
    )


def test_the_ratio_of_a_set_is_the_ratio_of_the_sums(model):
    model(gpt4eval)
    measured = Gpt4Eval("m", value="ratio").measure(CAPTIONS)
    # references of 7 and 4 words: (4 + 1) / (7 + 7) and 2 / 4, together 7 / 18
    assert measured.items == {"1": pytest.approx(5 / 14), "2": pytest.approx(0.5)}
    assert measured.corpus == pytest.approx(7 / 18)


def test_both_orders_are_averaged(model):
    """A judge that gives the first answer one point more than the second, whichever it is."""
    model(lambda body: "6 5\nThe first is better.")
    captions = CaptionSet.of({"1": "a red dog"}, {"1": ["a dog"]})
    once, twice = (Gpt4Eval("m", swap=swap).measure(captions) for swap in (False, True))
    assert once.items["1"] == 0.5 and twice.items["1"] == pytest.approx(0.55)
    assert Gpt4Eval("m", swap=True, value="ratio").measure(captions).items["1"] == pytest.approx(1.0)
    explanation = Gpt4Eval("m", swap=True).explain(captions, "1")
    assert [(part.name, part.adds) for part in explanation.parts] == [
        ("reference first", pytest.approx(0.25)),
        ("caption first", pytest.approx(0.3)),
    ]
    assert explanation.parts[1].details == {"caption": 6.0, "reference": 5.0, "reason": "The first is better."}


def test_a_failed_order_leaves_no_value(model):
    model(lambda body: "6 5" if '[Assistant 1]\n"a dog' in asked(body) else "Both are fine.")
    captions = CaptionSet.of({"1": "a red dog", "2": "a dog"}, {"1": ["a dog"], "2": ["a dog"]})
    measured = Gpt4Eval("m", swap=True).measure(captions)
    assert math.isnan(measured.items["1"]) and measured.items["2"] == pytest.approx(0.55)
    assert measured.reasons == {"1": "unreadable reply: no two scores in 'Both are fine.'"}


@pytest.mark.shared_data
def test_real_reviews_are_all_read(shared_data):
    """160 replies of GPT-4. The original rule (the first line at single spaces, two numbers) reads 154 of them."""
    replies = [
        json.loads(line)["reply"]
        for name in ("alpaca-13b", "bard")
        for line in (shared_data / "judges" / f"gpt4_reviews_{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    scores = [parse_review(Reply(text))[:2] for text in replies]
    original = [_original(text) for text in replies]
    assert len(scores) == 160 and sum(one is not None for one in original) == 154
    assert all(one in (None, ours) for one, ours in zip(original, scores, strict=True))
    # the six that the original scores −1, −1, as a person reads them
    others = [ours for one, ours in zip(original, scores, strict=True) if one is None]
    assert others == [(1, 8), (1, 3), (1, 5), (10, 4), (10, 1), (10, 4)]
    # the means of those that the original reads, as its authors' script prints them
    means = [[sum(one[side] for one in group) / 77 for side in (0, 1)] for group in _halves(original)]
    assert [[round(mean, 2) for mean in group] for group in means] == [[7.53, 8.94], [8.23, 8.42]]


def _original(text):
    pieces = text.split("\n")[0].replace(",", " ").split(" ")
    try:
        return tuple(map(float, pieces)) if len(pieces) == 2 else None
    except ValueError:
        return None


def _halves(scores):
    return [[one for one in scores[start : start + 80] if one is not None] for start in (0, 80)]
