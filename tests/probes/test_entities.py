"""Entity recall: tasks for raters, and their scoring by hand."""

import json

import numpy as np
import pytest

from captious.errors import InputError
from captious.options import Resampling
from captious.probes.entities import find_entities, measure_agreement, read_answers, recall, tasks

ROWS = [
    {"painter": "a", "text": "dog and tree", "rater": "x", "seen": {"dog": True, "tree": False}},
    {"painter": "a", "text": "dog and tree", "rater": "y", "seen": {"dog": True, "tree": True}},
    {"painter": "a", "text": "cat", "rater": "x", "seen": {"cat": True}},
    {"painter": "b", "text": "cat", "rater": "x", "seen": {"cat": False}},
]


def test_entities_are_nouns_of_things():
    assert find_entities(["A picture of a small dog near two trees", "running"]) == [["dog", "trees"], []]


def test_tasks_from_a_gallery(tmp_path):
    pictures = [
        {"text": "a dog", "seed": 0, "picture": "p/0.png"},
        {"text": "running", "seed": 0, "picture": "p/1.png"},
    ]
    (tmp_path / "gallery.json").write_text(json.dumps({"painter": "drawn", "pictures": pictures}))
    (row,) = tasks(tmp_path)
    assert row["entities"] == ["dog"] and row["seen"] == {"dog": None} and row["painter"] == "drawn"
    with pytest.raises(InputError, match=r"no gallery\.json"):
        tasks(tmp_path / "elsewhere")
    for damaged in (
        [{"text": "a dog", "seed": 0}],
        [{"text": ["a dog"], "picture": "p/0.png"}],
        {"text": "a dog"},
        "a",
    ):
        (tmp_path / "gallery.json").write_text(json.dumps({"painter": "drawn", "pictures": damaged}))
        with pytest.raises(InputError, match=r"no gallery\.json, or a damaged one, expected"):
            tasks(tmp_path)


def test_recall_is_the_share_of_things_seen():
    result = recall(ROWS, Resampling(samples=20))
    painters = result.painters
    assert painters["a"].recall.value == pytest.approx(4 / 5) and (painters["a"].answers, painters["a"].raters) == (
        5,
        2,
    )
    assert painters["b"].recall.value == 0.0
    assert result.document().answer_text.startswith("a shows 80.00 % (95% interval ")
    rows = [line.split() for line in str(result).splitlines()[6:8]]
    assert [row[0] for row in rows] == ["a", "b"] and rows[0][1] == "80.00"


def test_agreement_is_alpha_over_questions_that_raters_share():
    result = recall(ROWS, Resampling(samples=20))
    painters = result.painters
    # dog: yes yes; tree: no yes. D_o = 2/4, D_e = 2 · 3 · 1 / (4 · 3): alpha = 1 − 1 = 0.
    assert painters["a"].agreement.estimate.value == pytest.approx(0.0) and painters["a"].agreement.units == 2
    assert painters["b"].agreement is None, "one rater"
    printed = [" ".join(line.split()) for line in str(result).splitlines()[6:8]]
    assert " 2 0.000 " in printed[0] and " 1 not defined " in printed[1]
    data = result.document().data
    assert data["agreement"]["a"].ratings == 4 and data["agreement"]["b"] is None


def test_agreement_against_another_implementation_pictures_of_one_text_apart():
    krippendorff = pytest.importorskip("krippendorff")
    draws = np.random.default_rng(0)
    truth = draws.random((6, 2, 3)) < 0.6
    table, rows = np.full((4, 36), np.nan), []
    for rater in range(4):
        for number in np.ndindex(6, 2):
            if draws.random() < 0.3:
                continue
            seen = np.where(draws.random(3) < 0.2, ~truth[number], truth[number])
            table[rater, 6 * number[0] + 3 * number[1] : 6 * number[0] + 3 * number[1] + 3] = seen
            named = dict(zip("abc", seen.tolist(), strict=True))
            rows.append({"text": f"t{number[0]}", "seed": number[1], "rater": f"r{rater}", "seen": named})
    alpha = measure_agreement(rows, Resampling(samples=50))
    assert alpha.estimate.value == pytest.approx(krippendorff.alpha(table, level_of_measurement="nominal"))
    assert alpha.estimate.low < alpha.estimate.value < alpha.estimate.high


def test_equal_answers_leave_agreement_undefined():
    rows = [{"painter": "a", "text": "cat", "rater": rater, "seen": {"cat": True}} for rater in "xy"]
    assert recall(rows, Resampling(samples=0)).painters["a"].agreement is None


def test_a_rater_without_a_name_is_called_as_the_file(tmp_path):
    for name in ("x.jsonl", "y.jsonl"):
        (tmp_path / name).write_text(json.dumps({"painter": "a", "rater": None, "seen": {"dog": True}}) + "\n")
    read = read_answers([str(tmp_path / "x.jsonl"), str(tmp_path / "y.jsonl")])
    assert [row["rater"].rsplit("/", 1)[-1] for row in read] == ["x.jsonl", "y.jsonl"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"seen": {"dog": None}}, "'dog' is answered None"),
        ({"text": "a"}, "no answers: expected seen"),
        ({"seen": {"dog": True}, "entities": ["dog", "tree"]}, "row 1: answers for 'dog', expected the entities"),
        ({"seen": {"dgo": True}, "entities": ["dog"]}, "answers for 'dgo', expected the entities 'dog'"),
    ],
)
def test_answers_that_are_missing(tmp_path, row, message):
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"painter": "a", **row}) + "\n")
    with pytest.raises(InputError, match=message):
        read_answers([str(path)])


def test_a_rater_answers_a_picture_once(tmp_path):
    row = {"painter": "a", "text": "dog", "seed": 0, "picture": "p/0.png", "seen": {"dog": True}}
    for name, rater in (("x.jsonl", "me"), ("y.jsonl", "you"), ("z.jsonl", "me")):
        (tmp_path / name).write_text(json.dumps({**row, "rater": rater}) + "\n")
    one, two, again = (str(tmp_path / name) for name in ("x.jsonl", "y.jsonl", "z.jsonl"))
    assert len(read_answers([one, two])) == 2
    with pytest.raises(InputError, match=r"z\.jsonl: row 1: rater 'me' answered p/0\.png in .*x\.jsonl: row 1 already"):
        read_answers([one, again])
    with pytest.raises(InputError, match="already"):
        read_answers([one, one])
