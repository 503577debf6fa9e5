"""FaithScore: sub-sentences, facts, questions; the share of true facts on facts that people labelled."""

import json
import math
import re

import numpy as np
import pytest
from tests.metrics.judges.answers import faithscore, last_text, numbered_lines
from tests.models.chat.stub import asked, pictures, response

from captious.captions import CaptionSet, ImageData
from captious.metrics.judges.faithscore import (
    AtomicFact,
    FaithScore,
    judge_sentences,
    read_facts,
    read_labels,
    split_sub_sentences,
)
from captious.models.chat.messages import Reply, make_data_url


@pytest.fixture
def captions(photos):
    images = [str(photos / name) for name in ("red.png", "green.png")]
    return CaptionSet.of({"1": "a red cat, fine dog.", "2": ["ball.", "cat dog."]}, columns={"image": images})


def test_the_score_is_the_share_of_true_facts(model, captions):
    stub = model(faithscore)
    measured = FaithScore("m").measure(captions)
    # 1: "fine dog." is analytical; of a, red, cat the cat is false. 2: ball is true; of cat and dog one is.
    assert measured.items == {"1": pytest.approx(2 / 3), "2": pytest.approx((1 + 1 / 2) / 2)}
    assert measured.corpus == pytest.approx((2 / 3 + 1 + 1 / 2) / 3)  # the mean over captions
    assert "|by_words:3|" in str(measured.signature)
    # a call for the labels and one for the facts of each caption, one for logprobs, one for each fact
    assert len(stub.bodies) == 3 + 3 + 1 + 6
    with_images = [body for body in stub.bodies if pictures(body)]
    assert len(with_images) == 6 and all("Statement:" in asked(body) for body in with_images)


def test_probabilities_decide_where_the_server_sends_them(model, captions):
    def answer(body):
        if not body.get("logprobs"):
            return faithscore(body)
        cat = "cat" in asked(body)
        top = {"yes": math.log(0.4 if cat else 0.6), "no": math.log(0.5 if cat else 0.2)}
        return response("yes", logprobs=[("yes", top)])  # what was sampled does not count

    model(answer)
    measured = FaithScore("m").measure(captions)
    assert measured.items["1"] == pytest.approx(2 / 3) and "by_words" not in str(measured.signature)
    parts = FaithScore("m").explain(captions, "1").parts
    assert [(part.name, part.details["verdict"]) for part in parts] == [
        ("There is a a.", "true"),
        ("There is a red.", "true"),
        ("There is a cat.", "false"),
    ]
    assert [part.details["probability"] for part in parts] == pytest.approx([0.75, 0.75, 4 / 9])
    assert {part.details["category"] for part in parts} == {"entities"}


def test_explaining_asks_nothing_anew(model, captions):
    stub = model(faithscore)
    FaithScore("m").measure(captions)
    sent = len(stub.bodies)
    explanation = FaithScore("m").explain(captions, "2")
    assert len(stub.bodies) == sent
    assert [(part.name, part.adds, part.candidate) for part in explanation.parts] == [
        ("There is a ball.", pytest.approx(1 / 2), 0),
        ("There is a cat.", 0, 1),
        ("There is a dog.", pytest.approx(1 / 4), 1),
    ]
    table = explanation.document().sections[0]
    assert [column.name for column in table.columns] == ["fact", "adds", "verdict", "category", "p(yes)", "candidate"]
    assert tuple(map(str, table.rows[1][2:])) == ("false", "entities", "0.0", "2")


@pytest.mark.parametrize(
    ("caption", "replies", "reason"),
    [
        ("fine.", {}, "no facts: nothing in the caption describes the image"),
        ("dog.", {"Now this one": "Entities:\nColors: None\n"}, "no facts in the caption"),
        ("dog.", {"Now label": "All of it is descriptive."}, "unreadable reply: expected the numbers 1 to 1"),
        ("dog.", {"Now this one": "I see a dog."}, "unreadable reply: none of the lines entities, relations"),
        ("dog.", {"Statement": "Perhaps."}, "unreadable reply: neither yes nor no in 'Perhaps.'"),
    ],
)
def test_a_caption_without_facts_or_readable_replies_has_no_value(model, captions, caption, replies, reason):
    def answer(body):
        return next((reply for key, reply in replies.items() if key in asked(body)), None) or faithscore(body)

    model(answer)
    one = CaptionSet.of({"1": caption}, columns={"image": captions.columns["image"][:1]})
    measured = FaithScore("m").measure(one)
    assert math.isnan(measured.items["1"]) and measured.reasons["1"].startswith(reason)


def test_sub_sentences_end_at_commas_and_stops():
    assert split_sub_sentences("A cat, 1.5 m long, sleeps.  It is 3,000 days old; black!") == [
        "A cat,", "1.5 m long,", "sleeps.", "It is 3,000 days old;", "black!"
    ]  # fmt: skip
    assert split_sub_sentences("...") == ["..."] and split_sub_sentences("a dog\nruns") == ["a dog runs"]
    assert split_sub_sentences("\u4e00\u53ea\u72d7\uff0c\u5728\u8dd1\u3002") == [
        "\u4e00\u53ea\u72d7\uff0c",
        "\u5728\u8dd1\u3002",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "1 D\n2 A\n3 D",
        "1. D\n2. A\n3. D",
        "Labels:\n[1]: D\n[2]: A\n[3]: D",
        "3 - descriptive\n1: D\n2 is A",
        "1. A Dane eats, D\n2. perhaps, [A]\n3. Danish. **D**",
        "1. D: it says what is seen\n2. Analytical (a guess)\n3. D - an adjective",
    ],
)
def test_labels_are_numbers_and_letters_not_capitals_in_the_text(text):
    assert read_labels(Reply(text), ["A Dane eats,", "perhaps,", "Danish."]).sentences == ("A Dane eats,", "Danish.")


def test_a_sub_sentence_without_its_letter_is_no_label():
    with pytest.raises(ValueError, match="the numbers 1 to 2"):
        read_labels(Reply("1. A Dane eats,\n2. D"), ["A Dane eats,", "perhaps"])


def test_facts_are_read_from_five_lines_or_from_bullets_under_them():
    facts = [AtomicFact("There is a dog.", "entities"), AtomicFact("The dog is 1.5 m tall.", "other attributes")]
    line = (
        "Entities: There is a dog.\nRelations:\nColors: None.\nCounting: N/A\nOther attributes: The dog is 1.5 m tall."
    )
    bullets = "**Entities:**\n- There is a dog.\n\n**Other attributes:**\n- The dog is 1.5 m tall.\n"
    assert read_facts(Reply(line)) == read_facts(Reply(bullets)) == facts
    with pytest.raises(ValueError, match="cut off after 99 tokens"):
        read_facts(Reply(line, finish="length", reply_tokens=99))


def test_a_sub_sentence_is_wrong_if_an_entity_in_it_belongs_to_a_false_fact(model, captions):
    sentences = ("Two dogs sleep,", "a cat eats", "and a red ball lies there.")
    facts = [
        AtomicFact("There are dogs.", "entities"),
        AtomicFact("There is a cat.", "entities"),
        AtomicFact("There is a ball.", "entities"),
        AtomicFact("The cat eats.", "relations"),
        AtomicFact("The ball is red.", "colors"),
        AtomicFact("It is cloudy.", "other attributes"),  # mentions no entity
    ]
    verdict = judge_sentences(sentences, facts, [True, True, True, True, False, False])
    assert verdict.value == pytest.approx(2 / 3)
    assert [part.details["false_facts"] for part in verdict.parts] == ["", "", "The ball is red."]
    assert judge_sentences(sentences, facts, [False, True, True, False, False, True]).value == 0
    model(faithscore)
    # the entity "cat" of "a red cat," is false; "ball." is right; "cat dog." is wrong
    measured = FaithScore("m", level="sentence").measure(captions)
    assert measured.items == {"1": 0, "2": 0.5} and measured.metric.label == "FaithScore-S"


@pytest.mark.shared_data
def test_the_share_of_true_facts_that_people_labelled(model, shared_data):
    """90 answers about 30 images; people labelled them. 78 answers have facts, 587 of 716 are true."""
    lines = (shared_data / "judges" / "faithscore_facts.jsonl").read_text().splitlines()
    answers = {str(number): json.loads(line) for number, line in enumerate(lines)}
    images = [ImageData(np.full((1, 1, 3), int(number), np.uint8)) for number in answers]
    by_image = {make_data_url(image): answer for image, answer in zip(images, answers.values(), strict=True)}
    by_text = {" ".join(answer["answer"].split()): answer for answer in answers.values()}

    def people(body):
        text = asked(body)
        if pictures(body):
            return "yes" if by_image[pictures(body)[0]]["facts"][last_text(text, "Statement: ")] else "no"
        if "Now label these parts:" in text:
            parts = numbered_lines(text.partition("Now label these parts:")[2])
            answer = by_text[" ".join(part for _, part in parts)]
            return "\n".join(f"{number} {'D' if answer['facts'] else 'A'}" for number, _ in parts)
        if "Now this one:" in text:
            return "Entities: " + " ".join(by_text[last_text(text, "Text: ")]["facts"])
        return "1"

    model(people)
    captions = CaptionSet.of({key: one["answer"] for key, one in answers.items()}, columns={"image": images})
    measured = FaithScore("people").measure(captions)
    shares = [sum(one["facts"].values()) / len(one["facts"]) for one in answers.values() if one["facts"]]
    print(f"{len(shares)} of {len(answers)} answers have facts, mean share true {measured.corpus:.4f}")
    assert len(measured.reasons) == 12 and len(shares) == 78
    assert set(measured.reasons.values()) == {"no facts: nothing in the caption describes the image"}
    assert measured.corpus == pytest.approx(sum(shares) / 78, abs=1e-12) == pytest.approx(0.8671, abs=5e-5)
    for key, answer in answers.items():
        if answer["facts"]:
            assert measured.items[key] == pytest.approx(sum(answer["facts"].values()) / len(answer["facts"]))


@pytest.mark.shared_data
def test_sub_sentences_are_those_that_people_labelled(shared_data):
    """The original cuts at commas and stops too. What a sub-sentence ends with does not count."""
    lines = (shared_data / "judges" / "faithscore_facts.jsonl").read_text().splitlines()
    same = 0
    for answer in map(json.loads, lines):
        theirs = [text.strip() for text in answer["descriptive"] if text.strip()]
        same += list(dict.fromkeys(re.sub(r"\W+$", "", piece) for piece in split_sub_sentences(answer["answer"]))) == [
            re.sub(r"\W+$", "", text) for text in theirs
        ]
    print(f"{same} of {len(lines)} answers have the same sub-sentences")
    assert same == len(lines) == 90
