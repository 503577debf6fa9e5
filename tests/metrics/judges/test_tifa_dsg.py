"""TIFA and DSG: arithmetic on stored answers, dependencies, what a model that sees is asked; and VQAScore."""

import gzip
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from tests.metrics.judges.answers import sighted, vqascore
from tests.models.chat.stub import asked, pictures

import captious
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.judges.dsg import Dsg
from captious.metrics.judges.tifa import Tifa
from captious.metrics.judges.vqascore import VqaScore
from captious.metrics.registry import parse
from captious.stats import Kendall

# Rows of j-min/DSG, vqa_answers_release/mplug_dsg.csv: question id, parents, answer.
MPLUG = {
    "midjourney_91": "1,0,yes 2,1,yes 3,1,yes 4,1,yes 5,1,yes 6,5,yes 7,1,yes 8,7,yes 9,7,yes 10,1,yes 11,0,no "
    "12,11,yes 13,11,yes 14,11,yes 15,1+11,yes",
    "midjourney_94": "1,0,no 2,1,yes",
    "midjourney_99": "1,0,yes 2,0,yes 3,0,no 4,2,yes 5,2,no 6,2,yes 7,2,yes",
}


@pytest.fixture
def answers(tmp_path):
    lines = ["dsg_prompt_split,qg_model,t2i_model,item_id,question,question_id,dependency_id,answer"]
    for item, rows in MPLUG.items():
        for row in rows.split():
            id, parents, answer = row.split(",")
            lines.append(f'midjourney,dsg,sd2dot1,{item},Is it {id}?,{id},"{parents.replace("+", ",")}",{answer}')
    (tmp_path / "mplug.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "mplug.csv"


def test_dsg_on_published_answers(answers):
    captions = CaptionSet.of(dict.fromkeys([*MPLUG, "unknown"], "a text"))
    measured = parse(f"dsg(answers={answers})").measure(captions)
    # 91: question 11 is no, and so are its children 12, 13, 14, 15: 10 of 15; 94: the child of a no; 99: two are no
    assert measured.items["midjourney_91"] == pytest.approx(10 / 15) and measured.items["midjourney_94"] == 0.0
    assert measured.items["midjourney_99"] == pytest.approx(5 / 7)
    assert measured.corpus == pytest.approx((10 / 15 + 0 + 5 / 7) / 3), "a mean over items"
    assert measured.reasons == {"unknown": "no stored answers"} and measured.metric.needs == ()
    without = parse(f"dsg(answers={answers},dependencies=no)").measure(captions)
    assert without.items["midjourney_91"] == pytest.approx(14 / 15) and without.items["midjourney_94"] == 0.5


@pytest.fixture
def pali(tmp_path):
    """Items of j-min/DSG, vqa_answers_release/pali17b_dsg.csv, in which PaLI gave no answer to some questions."""
    rows = {
        "midjourney_88": "1,0,yes 2,1,yes 3,1,yes 4,1,",
        "posescript_3": "1,0,yes 2,1,yes 3,1,yes 4,1,yes 5,1,",
        "made_up": "1,0, 2,1,yes 3,0,yes",  # a parent without an answer
        "midjourney_93": "1,0,yes 2,0,yes",
    }
    lines = ["dsg_prompt_split,qg_model,t2i_model,item_id,question,question_id,dependency_id,answer"]
    for item, cells in rows.items():
        for cell in cells.split(" "):
            id, parents, answer = cell.split(",")
            lines.append(f"midjourney,dsg,sd2dot1,{item},Is it {id}?,{id},{parents},{answer}")
    (tmp_path / "pali.csv").write_text("\n".join(lines) + "\n")
    return CaptionSet.of(dict.fromkeys([*rows, "tifa160_134"], "a text")), tmp_path / "pali.csv"


def test_dsg_without_an_answer_as_the_original(pali):
    """The original compares each answer with yes: none is 0 and takes the points of its children.

    An item without rows is one question with the answer "", so 0.
    """
    captions, path = pali
    measured = parse(f"dsg(answers={path},missing=wrong)").measure(captions)
    assert measured.values.tolist() == pytest.approx([3 / 4, 4 / 5, 1 / 3, 1, 0])
    assert "|taken_as_wrong:4|" in str(measured.signature) and "missing=wrong" in str(measured.signature)
    parts = parse(f"dsg(answers={path},missing=wrong)").explain(captions, "made_up").parts
    assert parts[1].details["reason"] == "question 1 has no readable answer: Is it 1?"
    strict = parse(f"dsg(answers={path})").measure(captions)
    assert np.isnan(strict.values).tolist() == [True, True, True, False, True]
    skipped = parse(f"dsg(answers={path},missing=skip)").measure(captions)
    assert skipped.values[:4].tolist() == [1, 1, 1, 1] and "|skipped:3|" in str(skipped.signature)


@pytest.mark.parametrize("stored", ["column", "file"])
def test_dsg_counts_every_question_of_an_item_without_stored_answers_as_wrong(tmp_path, stored):
    """Item ``b`` has three questions, from a column or a file of questions, and no stored answer to any of them."""
    questions = {"a": ["Is it 1?", "Is it 2?"], "b": ["Is it 1?", "Is it 2?", "Is it 3?"]}
    columns = {"questions": [[{"question": text} for text in own] for own in questions.values()]}
    source = "answers=column"
    if stored == "column":
        columns["answers"] = [["yes", "yes"], None]
    else:
        rows = [{"id": id, "question": text, "answer": "yes"} for id, own in questions.items() for text in own]
        for name, kept in (("questions", rows), ("answers", rows[:2])):
            (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
        source = f"questions={tmp_path / 'questions.jsonl'},answers={tmp_path / 'answers.jsonl'}"
        columns = {}
    captions = CaptionSet.of({"a": "x", "b": "y"}, columns=columns)
    metric = parse(f"dsg({source},missing=wrong)")
    measured = metric.measure(captions)
    assert measured.values.tolist() == [1, 0] and not measured.reasons
    assert "|taken_as_wrong:3|" in str(measured.signature)
    assert [part.name for part in metric.explain(captions, "b").parts] == questions["b"]
    for missing in ("nan", "skip"):
        measured = parse(f"dsg({source},missing={missing})").measure(captions)
        assert measured.values[0] == 1 and math.isnan(measured.values[1])
        assert measured.reasons["b"].startswith("no stored answers")


@pytest.mark.parametrize(
    ("parents", "value"),
    [(["1"], 1 / 3), ([["1"]], 1 / 3), (1.0, 1 / 3), ("1", 1 / 3), (["Q1"], None), ("7", None), ([["Q1"]], None)],
)
def test_parents_are_never_dropped_silently(parents, value):
    questions = [{"question": f"Is it {id}?", "parents": own} for id, own in enumerate(([], parents, []), 1)]
    columns = {"questions": [questions, [{"question": "Is it?"}]], "answers": [["no", "yes", "yes"], ["yes"]]}
    captions = CaptionSet.of({"a": "x", "b": "y"}, columns=columns)
    measured = parse("dsg(answers=column)").measure(captions)
    if value is not None:
        assert measured.items["a"] == pytest.approx(value)
    else:
        assert math.isnan(measured.items["a"]) and measured.items["b"] == 1
        reason = "a parent is not a question of the item: question 2 of item 'a' depends on "
        assert measured.reasons["a"].startswith(reason)
        assert parse("dsg(answers=column,dependencies=no)").measure(captions).items["a"] == pytest.approx(2 / 3)
        with pytest.raises(InputError, match=r"depends on .*dsg\(dependencies=no\)"):
            captious.evaluate(captions.take([0]), "dsg(answers=column)")


def test_parents_that_cannot_be_read_are_said(tmp_path):
    lines = ["item_id,question_id,question,dependency_id,answer,t2i_model"]
    lines += ["a,1,Is it?,0,no,m", "a,2,Is it so?,1 and 2,yes,m", "b,1,Is it?,0,yes,m"]
    (tmp_path / "odd.csv").write_text("\n".join(lines) + "\n")
    measured = parse(f"dsg(answers={tmp_path / 'odd.csv'})").measure(CaptionSet.of({"a": "x", "b": "y"}))
    assert measured.items == {"a": 0.5, "b": 1.0}
    assert measured.warnings == (
        "DSG: parents of 1 items cannot be read (a): none of their questions has any, as in the original",
    )


def test_dsg_names_the_parent_that_took_the_point(answers):
    captions = CaptionSet.of(dict.fromkeys(MPLUG, "a text"))
    parts = parse(f"dsg(answers={answers})").explain(captions, "midjourney_91").parts
    assert [part.details["verdict"] for part in parts].count("right") == 10
    assert parts[14].details["answer"] == "yes" and parts[14].details["verdict"] == "not counted"
    assert parts[14].details["reason"] == "question 11 is answered no: Is it 11?" and not parts[10].details["reason"]


def test_a_grandchild_of_a_no_under_a_yes_keeps_its_point():
    questions = [{"question": f"Is it {id}?", "parents": parents} for id, parents in enumerate(([], ["1"], ["2"]), 1)]
    captions = CaptionSet.of({"1": "x"}, columns={"questions": [questions], "answers": [["no", "yes", "yes"]]})
    assert parse("dsg(answers=column)").measure(captions).items["1"] == pytest.approx(1 / 3)


def test_dsg_asks_about_the_image(model, photos):
    questions = [
        {"question": "Is there a cat?", "category": "entity"},
        {"question": "Is the cat red?", "parents": ["1"]},
    ]
    columns = {"image": [str(photos / "red.png")], "questions": [questions]}
    stub = model(sighted)
    measured = Dsg("m").measure(CaptionSet.of({"1": ["a red cat", "another"]}, columns=columns))
    assert (
        measured.items["1"] == 0.0
        and Dsg("m", dependencies=False).measure(CaptionSet.of({"1": "a red cat"}, columns=columns)).items["1"] == 0.5
    )
    assert len(stub.bodies) == 3 and [len(pictures(body)) for body in stub.bodies] == [0, 1, 1]
    assert "Reply with one word, yes or no." in asked(stub.bodies[-1]) and "|by_words:1|" in str(measured.signature)


def test_a_proposition_is_answered_yes(photos):
    columns = {"image": [str(photos / "red.png")], "questions": [[{"question": "Is it?", "answer": "no"}]]}
    captions = CaptionSet.of({"1": "x"}, columns=columns)
    with pytest.raises(InputError, match="item '1': question 1: the right answer is 'no', expected yes"):
        Dsg("m").measure(captions)


def result_of(answers):
    """What TIFA's own tool writes: the choices, the right answer and that of the VQA model for each question."""
    return {
        "tifa_average": 0,
        "question_details": {
            item: {
                f"is it {number}?": {
                    "id": item,
                    "question": f"is it {number}?",
                    "choices": ["yes", "no"],
                    "answer": "yes",
                    "element_type": "object",
                    "multiple_choice_vqa": "yes" if right else "no",
                }
                for number, right in enumerate(own)
            }
            for item, own in answers.items()
        },
    }


def test_tifa_on_the_sample_of_its_authors(tmp_path):
    # sample_evaluation_result.json of Yushi-Hu/tifa: all 11 questions right, and 5 of 8; tifa_average .8125
    answers = {"coco_301091": [True] * 11, "drawbench_52": [True] * 5 + [False] * 3}
    (tmp_path / "result.json").write_text(json.dumps(result_of(answers)))
    captions = CaptionSet.of(dict.fromkeys(answers, "a text"))
    measured = parse(f"tifa(answers={tmp_path / 'result.json'})").measure(captions)
    assert measured.items == {"coco_301091": 1.0, "drawbench_52": 0.625} and measured.corpus == 0.8125


@pytest.mark.shared_data
def test_tifa160_has_the_correlations_of_its_notebook(shared_data, tmp_path):
    # Stored are shares of right answers, such as .75; as many questions as their denominator give the same shares.
    with gzip.open(shared_data / "tifa160" / "items.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    people = np.array([row["human_avg"] for row in rows])
    captions = CaptionSet.of({row["id"]: row["text"] for row in rows})
    expected = {"vilt": (0.4932, 0.3824), "blip2-flant5xl": (0.5590, 0.4360), "mplug-large": (0.5967, 0.4717)}
    for model, published in expected.items():
        shares = [Fraction(row[f"tifa_{model}"]).limit_denominator(60) for row in rows]
        answers = {
            row["id"]: [number < share.numerator for number in range(share.denominator)]
            for row, share in zip(rows, shares, strict=True)
        }
        (tmp_path / f"{model}.json").write_text(json.dumps(result_of(answers)))
        measured = parse(f"tifa(answers={tmp_path / f'{model}.json'})").measure(captions)
        assert measured.values == pytest.approx([row[f"tifa_{model}"] for row in rows])
        pearson = np.corrcoef(measured.values, people)[0, 1]
        (tau,) = Kendall.of(measured.values, people)(np.ones((len(rows), 1)))["tau_b"]
        assert (round(pearson, 4), round(tau, 4)) == published


def test_tifa_asks_for_a_choice(model, photos):
    questions = [
        {"question": "Is there a dog?", "choices": ["yes", "no"], "answer": "yes", "element_type": "animal"},
        {"question": "Which color?", "choices": ["red", "blue", "green"], "answer": "red", "element_type": "color"},
    ]
    columns = {"image": [str(photos / "red.png")], "questions": [questions]}
    stub = model(sighted)
    captions = CaptionSet.of({"1": "a dog"}, columns=columns)
    value = Tifa("m").measure(captions).items["1"]
    # both questions are under way at once, in no order
    (body,) = [body for body in stub.bodies if "Which color?" in asked(body)]
    first = next(line for line in asked(body).splitlines() if line.startswith("A. "))
    assert value == (1 + (first == "A. red")) / 2 and pictures(body)
    assert Tifa("m").plan_scoring(captions).calls == 0


def test_vqascore_is_the_probability_of_yes(model, photos):
    columns = {"image": [str(photos / "red.png")]}
    captions = CaptionSet.of({"1": "a red dog"}, columns=columns)
    stub = model(vqascore)
    # three words: p(yes) = 3/20, p(no) = .1
    assert VqaScore("m").measure(captions).items["1"] == pytest.approx(0.15)
    assert VqaScore("m", normalize=True).measure(captions).items["1"] == pytest.approx(0.15 / 0.25)
    assert len(stub.bodies) == 1 and stub.bodies[0]["max_tokens"] == 1 and stub.bodies[0]["top_logprobs"] == 20
    parts = VqaScore("m").explain(captions, "1").parts
    assert [(part.name, round(part.adds, 4), round(part.details["probability"], 4)) for part in parts] == [
        ("yes", 0.15, 0.15),
        ("no", 0.0, 0.1),
    ]


@pytest.mark.parametrize(
    ("alternatives", "reason"),
    [({"Maybe": 0.0}, "neither yes nor no among the likeliest beginnings"), (None, "the server sent no probabilities")],
)
def test_vqascore_without_probabilities_has_no_value(model, photos, alternatives, reason):
    from tests.models.chat.stub import response

    model(lambda body: response("Maybe", logprobs=[("Maybe", alternatives)] if alternatives else None))
    captions = CaptionSet.of({"1": "a red dog"}, columns={"image": [str(photos / "red.png")]})
    measured = VqaScore("m").measure(captions)
    assert math.isnan(measured.items["1"]) and reason in measured.reasons["1"]
