"""DCScore: its arithmetic by hand and against a second implementation on real lists of facts, and its replies."""

import json
import math
import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from tests.metrics.judges.answers import dcscore, numbered_lines
from tests.models.chat.stub import asked, pictures

from captious.captions import CaptionSet, ImageData
from captious.errors import InputError
from captious.metrics.judges.dcscore import (
    DCScore,
    FactLists,
    MatchedFact,
    read_checks,
    read_facts,
    read_item_facts,
    read_matches,
    score,
)
from captious.models.chat.messages import Reply, make_data_url


@pytest.fixture
def captions(photos):
    images = [str(photos / name) for name in ("red.png", "green.png")]
    columns = {"image": images, "facts": [None, ["There is a dog.", "There is a hat.", "There is a sea."]]}
    return CaptionSet.of(
        {"1": "red dog dog fine cat", "2": "dog dog"}, {"1": ["dog cat a"], "2": ["a dog in a hat"]}, columns
    )


def test_precision_recall_and_f1_by_hand():
    true, matches = (True, True, False, True), (0, 0, 0, None)
    scores = score(true, matches, 3)
    # three of four are true; two of three with match 0 are: 2/3; one more is true and has no match
    precision, recall = 3 / 4, (1 / 3 + 1 / 3 + 1) / (3 + 1)
    assert (scores.precision, scores.recall) == pytest.approx((precision, recall))
    assert scores.f1 == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-7)
    for name in ("precision", "recall", "f1"):
        assert sum(scores.adds[name]) == pytest.approx(getattr(scores, name))
    assert score((False, False), (0, None), 2)[:3] == (0, 0, 0)


def test_relevant_facts_share_a_match_among_themselves_or_as_the_original_has_it():
    true, matches, relevant = (True, True, True), (0, 0, 1), (True, False, True)
    # facts 1 and 2 have the same match; 2 is not relevant, so 1 has the whole point
    assert score(true, matches, 4, relevant).recall == pytest.approx((1 + 1) / 4)
    assert score(true, matches, 4, relevant, "all").recall == pytest.approx((1 / 2 + 1) / 4)
    assert score(true, matches, 4, relevant).precision == 1  # of the two relevant ones


def test_the_score_is_the_mean_over_nine_combinations_and_both_kinds_of_facts(model, captions):
    stub = model(dcscore)
    measured = DCScore("m").measure(captions)
    # 2: two equal facts share the match 1 of the column's three; sample 1 takes the second for false.
    two = 2 * 1 * (1 / 3) / (1 + 1 / 3)  # both true: precision 1, recall (1/2 + 1/2) / 3
    one = 2 * (1 / 2) * (1 / 6) / (1 / 2 + 1 / 6)
    assert measured.items["2"] == pytest.approx((two + one + two) / 3, abs=1e-7)
    # 1: red, dog, dog, fine, cat; dog matches 1 and cat 2 of the reference's dog, cat, a. Red and dog are true in all
    # samples: precision 3/5, over relevant ones 3/4; recall (1 + 1/2 + 1/2) / (3 + 1)
    over_all, relevant = (2 * p * 0.5 / (p + 0.5) for p in (3 / 5, 3 / 4))
    assert measured.items["1"] == pytest.approx((over_all + relevant) / 2, abs=1e-7)
    assert "|oracle_lists:1|" in str(measured.signature)
    # facts of two captions and of one reference; three matchings and three checks for each caption
    assert len(stub.bodies) == 3 + 2 * (3 + 3)
    checks = [body for body in stub.bodies if pictures(body)]
    assert len(checks) == 6 and {body["seed"] for body in checks} == {0, 1, 2}
    assert {body["temperature"] for body in checks} == {0.3}
    assert all(body["messages"][-1]["content"][0]["image_url"]["detail"] == "high" for body in checks)
    precision, recall = (DCScore("m", value=value).measure(captions).items["1"] for value in ("precision", "recall"))
    assert (precision, recall) == pytest.approx(((3 / 5 + 3 / 4) / 2, 0.5)) and len(stub.bodies) == 15


def test_the_explanation_lists_every_fact_equal_ones_too(model, captions):
    model(dcscore)
    explanation = DCScore("m").explain(captions, "2")
    assert [part.name for part in explanation.parts] == ["There is a dog.", "There is a dog."]
    first, second = (part.details for part in explanation.parts)
    assert (first["true"], second["true"]) == (1, pytest.approx(2 / 3))
    assert first["matched"] == 1 and first["oracle_fact"] == "There is a dog." and first["relevant"] == "yes"
    factors = explanation.breakdown.factors
    assert factors["precision_all"] == factors["precision_relevant"] == pytest.approx((1 + 1 / 2 + 1) / 3)


@pytest.mark.parametrize(
    ("key", "reply", "reason"),
    [
        ('Description: "dog dog', "[]", "no facts in the caption"),
        ('Description: "dog cat', "[]", "no facts in the references"),
        ('Description: "dog dog', '[{"fact": "x", "relevance": 0}]', "no facts in the caption describe the image"),
        ('Description: "dog dog', "- a dog", "unreadable reply: no JSON list"),
        ("First list:", '[{"fact": 1, "match": 1}]', "unreadable reply: expected the numbers 1 to 2, each once"),
        ("Facts:", '[{"fact": 1, "true": 1}, {"fact": 2, "true": 2}]', "unreadable reply: true '2' is neither 1 nor 0"),
    ],
)
def test_what_cannot_be_read_has_no_value(model, photos, key, reply, reason):
    model(lambda body: reply if key in asked(body) else dcscore(body))
    columns = {"image": [str(photos / "red.png")]}
    measured = DCScore("m").measure(CaptionSet.of({"1": "dog dog"}, {"1": ["dog cat"]}, columns))
    assert math.isnan(measured.items["1"]) and measured.reasons["1"].startswith(reason)


def test_replies_are_read_by_numbers():
    lists = FactLists([MatchedFact("a dog"), MatchedFact("a dog")], ["a dog", "a cat"])
    reply = Reply('[{"fact": 2, "match": "2"}, {"fact": "1", "match": "None"}]')
    assert read_matches(reply, lists) == (None, 1)
    assert read_checks(Reply('[{"fact": 2, "true": false}, {"fact": 1, "true": "1"}]'), lists) == (True, False)
    for text in (
        '[{"fact": 1, "match": 1}, {"fact": 2, "match": 3}]',  # there are two oracle facts
        '[{"fact": 1, "match": 0}, {"fact": 2, "match": 1}]',
        '[{"fact": 1, "match": 1}, {"fact": 1, "match": 1}]',
        '[{"fact": 1, "match": 1}, {"fact": "two", "match": 1}]',
    ):
        with pytest.raises(ValueError):
            read_matches(Reply(text), lists)
    assert read_facts(Reply('[{"fact": "It is wet."}]')) == [MatchedFact("It is wet.", "", True)]
    with pytest.raises(ValueError, match="no fact in"):
        read_facts(Reply('[{"facts": "It is wet."}]'))


def test_the_column_of_facts_is_a_list_of_texts(model, captions):
    stub = model(dcscore)
    for value in (5, 1.5, ["a", 5], "a dog", {"a": 1}, [""]):
        wrong = CaptionSet.of({"7": "a"}, {"7": ["b"]}, {"image": captions.columns["image"][:1], "facts": [value]})
        with pytest.raises(InputError, match=r"^7: facts are .*, expected a list of texts$"):
            DCScore("m").measure(wrong)
    assert not stub.bodies
    for value, facts in ((np.array(["a", "b"]), ["a", "b"]), ('["a"]', ["a"]), ("", []), (float("nan"), []), ([], [])):
        one = CaptionSet.of({"7": "a"}, columns={"facts": [value]})
        assert read_item_facts(one["7"]) == facts
    with pytest.raises(InputError, match=r"dcscore\(samples=0\): expected at least 1"):
        DCScore("m", samples=0)


def plain_dcscore(facts, oracle, matchings, checks):
    """DCScore once more, as its definition reads, with fractions; the 1e-8 of F1 is left out."""
    values = []
    for matching, check in product(matchings, checks):
        for subset in (range(len(facts)), [i for i, (_, relevant) in enumerate(facts) if relevant]):
            verified = [i for i in subset if check[i]]
            precision = Fraction(len(verified), len(subset))
            points, extra = Fraction(0), 0
            for i in verified:
                if matching[i] is None:
                    points, extra = points + 1, extra + 1
                else:
                    points += Fraction(1, len([j for j in subset if matching[j] == matching[i]]))
            recall = points / (len(oracle) + extra)
            values.append(2 * precision * recall / (precision + recall) if precision + recall else Fraction(0))
    return float(sum(values) / len(values))


@pytest.mark.shared_data
def test_real_lists_of_facts_against_a_second_implementation(model, shared_data):
    """200 images and 10,673 facts of people; captions are drawn from them, and so are the verdicts, under a seed."""
    lines = (shared_data / "judges" / "decapbench_oracle_facts.jsonl").read_text().splitlines()
    entries, draw = [json.loads(line) for line in lines], np.random.default_rng(0)
    cases, images = {}, []
    for number, entry in enumerate(entries):
        oracle = entry["oracle_facts"]
        picked = draw.choice(len(oracle), size=draw.integers(3, len(oracle) + 1)).tolist()  # some of them twice
        facts = [(" ".join(oracle[index].split()), bool(draw.random() < 0.8)) for index in picked]
        facts += [(f"Detail {rank} is added.", rank % 2 == 0) for rank in range(draw.integers(1, 9))]
        matchings = [
            [int(draw.integers(len(oracle))) if draw.random() < 0.7 else None for _ in facts] for _ in range(3)
        ]
        checks = [[bool(draw.random() < 0.75) for _ in facts] for _ in range(3)]
        cases[f"caption {number}"] = facts, oracle, matchings, checks
        images.append(ImageData(np.full((1, 1, 3), number, np.uint8)))
    by_image = {make_data_url(image): case for image, case in zip(images, cases.values(), strict=True)}
    by_list = {tuple(text for text, _ in facts): case for case in cases.values() for facts in [case[0]]}

    def simulated(body):
        text = asked(body)
        if pictures(body):
            check = by_image[pictures(body)[0]][3][body["seed"]]
            return json.dumps([{"fact": number, "true": int(true)} for number, true in enumerate(check, 1)])
        if "First list:" in text:
            first = text.rpartition("First list:")[2].partition("Second list:")[0]
            matching = by_list[tuple(fact for _, fact in numbered_lines(first))][2][body["seed"]]
            numbers = [None if match is None else match + 1 for match in matching]
            return json.dumps([{"fact": number, "match": match} for number, match in enumerate(numbers, 1)])
        facts = cases[re.search(r'Description: "(caption \d+)"\s*$', text)[1]][0]
        return json.dumps([{"fact": fact, "identifier": "it", "relevance": int(relevant)} for fact, relevant in facts])

    model(simulated)
    captions = CaptionSet.of(
        {str(number): caption for number, caption in enumerate(cases)},
        {str(number): entry["oracle_caption"] for number, entry in enumerate(entries)},
        {"image": images, "facts": [entry["oracle_facts"] for entry in entries]},
    )
    measured = DCScore("people").measure(captions)
    expected = [plain_dcscore(*case) for case in cases.values()]
    repeated = sum(len(case[0]) - len({fact for fact, _ in case[0]}) for case in cases.values())
    print(
        f"{len(cases)} captions, {sum(len(case[0]) for case in cases.values()):,} facts ({repeated:,} repeated), "
        f"{sum(len(case[1]) for case in cases.values()):,} oracle facts: DCScore {measured.corpus:.6f}, "
        f"plain {np.mean(expected):.6f}, largest difference {np.abs(measured.values - expected).max():.1e}"
    )
    assert repeated > 100 and not measured.reasons
    assert np.allclose(measured.values, expected, rtol=0, atol=2e-8)
