"""RLAIF-V: facts as questions, yes against no, three ways to count, and nothing cut."""

import math

import pytest
from tests.metrics.judges.answers import rlaifv
from tests.models.chat.stub import asked, pictures

from captious.captions import CaptionSet
from captious.metrics.judges.rlaifv import RlaifV
from captious.metrics.registry import parse


@pytest.fixture
def captions(photos):
    images = [str(photos / name) for name in ("red.png", "green.png")]
    return CaptionSet.of({"1": "dog cat day", "2": ["cat", "dog ball"]}, columns={"image": images})


def test_a_fact_is_accepted_if_yes_is_likelier_than_no(model, captions):
    stub = model(rlaifv)
    measured = RlaifV("m").measure(captions)
    # dog, day and ball have p(yes) = .6 and p(no) = .2; cat has .2 and .6
    assert measured.items == {"1": pytest.approx(2 / 3), "2": pytest.approx((0 + 1) / 2)}
    assert "by_words" not in str(measured.signature)
    rejected = RlaifV("m", value="rejected").measure(captions)
    assert rejected.items == {"1": -1, "2": pytest.approx((-1 + 0) / 2)} and rejected.metric.range[1] == 0
    probability = RlaifV("m", value="probability").measure(captions)
    assert probability.items["1"] == pytest.approx((0.75 + 0.25 + 0.75) / 3)
    assert probability.items["2"] == pytest.approx((0.25 + 0.75) / 2)
    # facts and questions of three captions, the probe, six answers; the other two ways read the same replies
    assert len(stub.bodies) == 3 + 3 + 1 + 6
    assert {asked(body) for body in stub.bodies if pictures(body)} == {
        f"Is there a {word}? Answer with one word, yes or no." for word in ("dog", "cat", "day", "ball")
    }


def test_the_explanation_lists_facts_with_their_questions(model, captions):
    model(rlaifv)
    parts = RlaifV("m", value="rejected").explain(captions, "1").parts
    assert [(part.name, part.adds, part.details["verdict"]) for part in parts] == [
        ("There is a dog.", 0, "accepted"),
        ("There is a cat.", -1, "rejected"),
        ("There is a day.", 0, "accepted"),
    ]
    assert parts[1].details["question"] == "Is there a cat?"
    assert parts[1].details["probability"] == pytest.approx(0.25)


def test_without_probabilities_words_decide(model, captions):
    def answer(body):
        reply = rlaifv(body)
        return reply if isinstance(reply, str) else {**reply, "choices": [{**reply["choices"][0], "logprobs": None}]}

    model(answer)
    measured = RlaifV("m", value="probability").measure(captions)
    assert measured.items["1"] == pytest.approx(2 / 3) and "|by_words:3|" in str(measured.signature)


def test_a_long_caption_is_not_cut(model, photos):
    stub = model(rlaifv)
    text = " ".join(f"w{number}" for number in range(700))
    captions = CaptionSet.of({"1": text}, columns={"image": [str(photos / "red.png")]})
    assert RlaifV("m", value="rejected").measure(captions).items["1"] == -700
    assert asked(stub.bodies[0]).strip().endswith('w699"') and stub.bodies[0]["max_tokens"] > 5000


@pytest.mark.parametrize(
    ("key", "reply", "reason"),
    [
        ("Description:", "none", "no facts in the caption"),
        ("Description:", "A dog is there.", "unreadable reply: no list in 'A dog is there.'"),
        ("Now these:", "1. Is there a dog?", "unreadable reply: expected the numbers 1 to 3, each once"),
    ],
)
def test_what_cannot_be_read_has_no_value(model, captions, key, reply, reason):
    stub = model(lambda body: reply if key in asked(body) else rlaifv(body))
    measured = RlaifV("m").measure(captions.take([0]))
    assert math.isnan(measured.items["1"]) and measured.reasons["1"].startswith(reason)
    tries = [body for body in stub.bodies if key in asked(body)]
    assert len(tries) == (3 if "unreadable" in reason else 1)


def test_an_image_that_cannot_be_read_is_the_reason(model, captions, photos):
    model(rlaifv)
    broken = CaptionSet.of({"1": "dog", "2": "dog"}, columns={"image": [str(photos / "red.png"), "absent.png"]})
    measured = RlaifV("m").measure(broken)
    assert measured.items["1"] == 1 and "absent.png" in measured.reasons["2"]


def test_the_label_of_a_table_is_read_as_the_name():
    assert parse("RLAIF-V") == RlaifV()
