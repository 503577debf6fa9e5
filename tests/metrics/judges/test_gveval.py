"""G-VEval: what is asked, the expectation over whole numbers by hand, and replies that have none."""

import math

import numpy as np
import pytest
from tests.metrics.judges.answers import gveval
from tests.metrics.judges.test_fleur import reply
from tests.models.chat.stub import asked, pictures

from captious.captions import CaptionSet, ImageData
from captious.errors import InputError
from captious.metrics.judges.gveval import GVEval, find_rating

RED = ImageData(np.full((4, 4, 3), (255, 0, 0), np.uint8))
CAPTIONS = CaptionSet.of({"1": "a red dog"}, {"1": ["a dog", "the dog"]}, {"image": [RED]})


@pytest.mark.parametrize(
    ("tokens", "value", "counted"),
    [
        # 0.5 × 85 + 0.3 × 80 + 0.1 × 9, over 0.9; a number beyond 100 and a word do not count
        (
            ["Good. $", ("85", {"85": 0.5, "80": 0.3, "9": 0.1, "850": 0.05, "so": 0.05}), "$"],
            0.674 / 0.9,
            (),
        ),
        # the dollar sign is in the token of the number
        (["Good. ", ("$85", {"$85": 0.5, "$80": 0.5}), "$"], 0.825, ()),
        # a token for each digit: tens 0.6 × 8 + 0.2 × 7 over 0.8, ones 0.5 × 5 + 0.5 × 1
        (
            ["$", ("8", {"8": 0.6, "7": 0.2, "x": 0.2}), ("5", {"5": 0.4, "1": 0.4, "$": 0.2}), "$"],
            (0.62 / 0.8) + 0.03,
            ("split_numbers",),
        ),
        (["$", ("1", {"1": 0.6, "9": 0.4}), "0", "0", "$"], 1.0, ("split_numbers",)),
        (["$", ("7", {"7": 0.5, "9": 0.5}), "$"], 0.08, ()),
    ],
)
def test_the_score_is_the_expectation_over_whole_numbers(tokens, value, counted):
    verdict = GVEval("m").smooth(reply(*tokens))
    assert verdict.value == pytest.approx(value, abs=1e-12) and tuple(verdict.counted) == counted
    assert sum(part.adds for part in verdict.parts) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Fine. $85$", "85"),
        ("Fine. $ 85 $ ", "85"),
        ("A $5 bill, and $20$ of another. So: $85$", "85"),
        ("Fine. $85/100$", "85"),
        ("Fine. $85", "85"),
        ("$100$", "100"),
        ("$850$", None),
        ("It costs $5 here.", None),
        ("85", None),
        ("", None),
    ],
)
def test_a_rating_is_read_or_refused(text, number):
    if number is None:
        with pytest.raises(ValueError):
            find_rating(text)
    else:
        assert find_rating(text)[1] == number


def test_the_mode_says_what_the_judge_sees(model):
    stub = model(gveval)
    for mode, images, references in (("both", 1, True), ("image", 1, False), ("references", 0, True)):
        # three words: (0.5 × 30 + 0.25 × 25) / 0.75
        measured = GVEval("m", mode=mode).measure(CAPTIONS)
        assert measured.items["1"] == pytest.approx(0.2125 / 0.75)
        assert len(pictures(stub.bodies[-1])) == images and ('- "the dog"\n' in asked(stub.bodies[-1])) == references
        assert stub.bodies[-1]["temperature"] == 1.0 and stub.bodies[-1]["top_logprobs"] == 5
    part = next(part for part in stub.bodies[1]["messages"][0]["content"] if part["type"] == "image_url")
    assert part["image_url"]["detail"] == "low"


def test_a_failed_item_stays_in_its_place(model):
    model(lambda body: "No number." if "cat" in asked(body) else gveval(body))
    captions = CaptionSet.of({"1": "a cat", "2": "a red dog"}, {"1": ["a dog"], "2": ["a dog"]})
    measured = GVEval("m", mode="references").measure(captions)
    assert math.isnan(measured.items["1"]) and measured.items["2"] == pytest.approx(0.2125 / 0.75)
    assert measured.reasons == {"1": "unreadable reply: no whole number between dollar signs in 'No number.'"}


def test_the_evaluation_is_the_reason_and_the_numbers_add_up(model):
    model(gveval)
    explanation = GVEval("m").explain(CAPTIONS, "1")
    assert [part.name for part in explanation.parts] == ["30", "25"]
    assert sum(part.details["probability"] for part in explanation.parts) == pytest.approx(1)
    assert explanation.breakdown.notes == ["the judge: Fine."]


def test_without_probabilities_samples_are_averaged(model):
    model(lambda body: f"$ {10 * body['seed']} $")
    measured = GVEval("m", samples=3).measure(CAPTIONS)
    assert measured.items["1"] == pytest.approx(0.2) and "|sampled:1|" in str(measured.signature)


def test_a_prompt_without_its_fields_is_refused(tmp_path):
    (tmp_path / "ours.txt").write_text("Rate {caption}")
    GVEval("m", mode="image", prompt=str(tmp_path / "ours.txt")).prepare(CAPTIONS)
    with pytest.raises(InputError, match=r"has no \{references\}"):
        GVEval("m", prompt=str(tmp_path / "ours.txt")).prepare(CAPTIONS)
