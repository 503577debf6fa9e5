"""CAPEval, VDC and AutoDQ: pooled verdicts, comparisons with the right answer, events both ways."""

import json
import math
import re

import numpy as np
import pytest
from tests.metrics.judges.answers import autodq, capeval, vdc
from tests.models.chat.stub import asked

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.judges.autodq import AutoDQ
from captious.metrics.judges.capeval import CapEval
from captious.metrics.judges.vdc import Vdc, read_comparison
from captious.metrics.registry import parse
from captious.models.chat.messages import Reply


def checklist(*things):
    return [
        {"question": f"Does the caption mention {one}?", "channel": "text" if one == "sign" else "x"} for one in things
    ]


@pytest.fixture
def captions():
    lists = [checklist("dog", "red", "cat", "sign"), checklist("ball")]
    return CaptionSet.of({"1": "a blue dog", "2": "a tree"}, columns={"questions": lists})


def test_capeval_is_pooled_over_questions(model, captions):
    stub = model(capeval)
    # 1: dog yes, red no (it is blue), cat and sign not mentioned; 2: ball not mentioned
    coverage = CapEval("m").measure(captions)
    assert coverage.items == {"1": 0.5, "2": 0.0} and coverage.corpus == pytest.approx(2 / 5)
    precision = CapEval("m", value="precision").measure(captions)
    assert precision.corpus == pytest.approx(1 / 2) and precision.reasons == {"2": "the caption answers no question"}
    f1 = CapEval("m", value="f1").measure(captions)
    assert f1.corpus == pytest.approx(2 * 0.4 * 0.5 / 0.9) and f1.items["2"] == 0.0
    assert CapEval("m", category="text").measure(captions).items["1"] == 0.0
    assert CapEval("m", category="text").measure(captions).reasons["2"] == "no questions of the category 'text'"
    assert len(stub.bodies) == 2, "one call a caption, whatever value and category"
    each = CapEval("m", ask="each").measure(captions)
    assert each.items == coverage.items and len(stub.bodies) == 2 + 5
    assert CapEval("m", ask="each", value="f1").plan_scoring(captions).stored == 5


def test_capeval_explains_every_question(model, captions):
    model(capeval)
    explanation = CapEval("m", value="precision").explain(captions, "1")
    assert [(part.details["verdict"], part.adds) for part in explanation.parts] == [
        ("right", 0.5),
        ("contradicted", 0.0),
        ("not mentioned", 0.0),
        ("not mentioned", 0.0),
    ]
    assert explanation.breakdown.summary == "1 right, 1 contradicted, 2 not mentioned"


def test_verdicts_of_a_column_need_no_model():
    # CAPability's numbers: 1 right, -1 wrong, 0 not mentioned
    columns = {
        "questions": [["a", "b", "c"], ["a", "b", "c"]],
        "answers": [[1, -1, 0], ["yes", "yes", "not_mentioned"]],
    }
    captions = CaptionSet.of({"1": "x", "2": "y"}, columns=columns)
    assert parse("capeval(answers=column,value=precision)").measure(captions).corpus == pytest.approx(3 / 4)
    assert parse("capeval(answers=column)").measure(captions).corpus == pytest.approx(4 / 6)


def test_an_odd_word_is_not_a_silent_zero(model, captions):
    model(lambda body: json.dumps({"1": "yes", "2": "perhaps", "3": "no", "4": "no"}))
    measured = CapEval("m").measure(captions.take([0]))
    assert math.isnan(measured.items["1"]) and "'perhaps' is none of yes, no, not_mentioned" in measured.reasons["1"]
    skipping = CapEval("m", value="precision", missing="skip").measure(captions.take([0]))
    assert skipping.items["1"] == pytest.approx(1 / 3) and "|skipped:1|" in str(skipping.signature)


VIDEO = [
    {"question": "Which animal?", "answer": "dog", "category": "main_object"},
    {"question": "Which other animal?", "answer": "cat", "category": "main_object"},
]


def test_vdc_asks_twice_and_averages_over_items(model):
    captions = CaptionSet.of({"1": "a dog", "2": "a tree"}, columns={"questions": [VIDEO, VIDEO[:1]]})
    stub = model(vdc)
    assert Vdc("m").plan_scoring(captions).calls == 6
    accuracy = Vdc("m").measure(captions)
    # 1: "dog" to both, so one of two; 2: "unknown" is wrong; a video that scores 0 stays in the mean
    assert accuracy.items == {"1": 0.5, "2": 0.0} and accuracy.corpus == 0.25 and len(stub.bodies) == 6
    score = Vdc("m", value="score").measure(captions)
    assert score.items == {"1": pytest.approx((5 + 1) / 2), "2": 1.0} and score.metric.range == (0.0, 5.0)
    assert (Vdc("m").plan_scoring(captions).calls, Vdc("m").plan_scoring(captions).stored) == (0, 6)
    part = Vdc("m").explain(captions, "1").parts[1]
    assert (part.details["answer"], part.details["gold"], part.details["reason"]) == ("dog", "cat", "1 of 5 points")


def test_vdc_refuses_a_question_without_an_answer_and_bad_comparisons():
    captions = CaptionSet.of({"1": "a dog"}, columns={"questions": [[{"question": "Which animal?"}]]})
    with pytest.raises(InputError, match="item '1': question 1: has no answer, expected the right one"):
        Vdc("m").measure(captions)
    for reply in ('{"same": "maybe", "score": 3}', '{"same": "yes", "score": 9}', "yes, 5"):
        with pytest.raises(ValueError, match=r"expected yes or no|is not from 0 to 5|no JSON"):
            read_comparison(Reply(reply))


def test_stored_comparisons():
    columns = {"questions": [VIDEO, VIDEO], "answers": [["yes", "no"], ["4.5", "odd"]]}
    captions = CaptionSet.of({"1": "x", "2": "y"}, columns=columns)
    assert parse("vdc(answers=column)").measure(captions).items["1"] == 0.5
    score = parse("vdc(answers=column,value=score,missing=skip)").measure(captions)
    assert score.items["2"] == 4.5 and score.reasons["1"].startswith("unreadable answer: score 'yes' is not a number")


@pytest.fixture
def videos():
    references = {"1": ["dog runs"], "2": ["cat sits fine"]}
    events = [["The dog moves.", "The ball moves."], None]
    return CaptionSet.of({"1": "dog ball tree", "2": "cat"}, references, columns={"events": events})


def test_autodq_takes_events_both_ways(model, videos):
    stub = model(autodq)
    # 1: both given events are in the caption; of dog, ball and tree the reference has dog.
    # 2: of cat, sits and fine, which the model lists, the caption has cat; the reference has the caption's cat.
    recall, precision = (2 / 2 + 1 / 3) / 2, (1 / 3 + 1) / 2
    assert AutoDQ("m", value="recall").measure(videos).corpus == pytest.approx(recall)
    assert AutoDQ("m", value="precision").measure(videos).corpus == pytest.approx(precision)
    measured = AutoDQ("m").measure(videos)
    assert measured.corpus == pytest.approx(2 * recall * precision / (recall + precision)), "F1 of means"
    assert measured.items["1"] == pytest.approx(2 * (1 / 3) / (4 / 3))
    # events of two captions and one reference, two checks a caption
    assert len(stub.bodies) == 3 + 4
    parts = AutoDQ("m").explain(videos, "2").parts
    assert [(part.details["side"], part.details["verdict"]) for part in parts] == [
        ("reference", "entailment"),
        ("reference", "neutral"),
        ("reference", "contradiction"),
        ("caption", "entailment"),
    ]
    assert sum(part.adds for part in parts) == pytest.approx(measured.items["2"])


def test_a_reference_without_events_has_no_recall(model):
    videos = CaptionSet.of(
        {"1": "dog", "2": "dog"}, {"1": "dog", "2": "dog"}, columns={"events": [[], ["The dog moves."]]}
    )
    model(autodq)
    measured = AutoDQ("m", value="recall").measure(videos)
    assert measured.reasons == {"1": "no events in the reference"} and measured.items["2"] == 1.0
    original = AutoDQ("m", value="recall", empty="one")
    assert original.measure(videos).items["1"] == 1.0 and original.explain(videos, "1").parts[0].adds == 1.0


def test_the_printed_tables_of_dream():
    # Recall and precision of the five subsets, as tarsier's README prints them; subsets are of one size.
    recap = [(0.355, 0.374), (0.448, 0.437), (0.379, 0.486), (0.471, 0.439), (0.323, 0.365)]
    tarsier2 = [(0.412, 0.384), (0.466, 0.432), (0.401, 0.476), (0.468, 0.457), (0.339, 0.364)]
    for table, printed in ((recap, (0.395, 0.420, 0.4073)), (tarsier2, (0.417, 0.423, 0.4199))):
        row = np.sum([(*both, 1.0) for both in table], axis=0)
        values = [float(AutoDQ("m", value=value).aggregate(row)) for value in ("recall", "precision", "f1")]
        assert values[:2] == pytest.approx(printed[:2], abs=5.1e-4) and round(values[2], 4) == printed[2]


def test_autodq_plans_three_or_four_calls_a_caption(model, videos):
    stub = model(autodq)
    assert AutoDQ("m").plan_scoring(videos).calls == 3 + 4 and not stub.bodies
    AutoDQ("m").measure(videos)
    assert AutoDQ("m").plan_scoring(videos).calls == 0


def test_an_unreadable_check_leaves_no_value(model, videos):
    model(lambda body: "no idea" if "Events:" in asked(body) else autodq(body))
    measured = AutoDQ("m").measure(videos)
    assert set(measured.reasons) == {"1", "2"} and measured.reasons["1"].startswith("unreadable reply")


@pytest.mark.shared_data
def test_the_human_references_of_dream_as_captions(model, shared_data):
    """A model that finds every event in its text gives the references a recall of 1, where they have events."""
    from captious import read
    from captious.options import Reading

    path = shared_data / "dream1k" / "references.jsonl.gz"
    captions = read(path, references=path, reading=Reading(candidate_column="reference")).take(range(60))
    model(lambda body: json.dumps(dict.fromkeys(re.findall(r"^(\d+)\. ", asked(body), re.MULTILINE), "entailment")))
    metric = parse(f"autodq(m,value=recall,questions={path})")
    numbers = {one: len(events) for one, events in zip(captions.ids, captions.columns["events"], strict=True)}
    measured = metric.measure(captions)
    unscored = {one for one, number in numbers.items() if not number}
    assert set(measured.reasons) == unscored and measured.corpus == 1.0
