"""Entity recall: tasks for raters, and their scoring by hand."""

import json

import pytest

from captious.analyses.resampling import Resampling
from captious.errors import InputError
from captious.imagine.entities import entities, read_answers, recall, recall_finding, tasks

ROWS = [
    {"painter": "a", "text": "dog and tree", "rater": "x", "seen": {"dog": True, "tree": False}},
    {"painter": "a", "text": "dog and tree", "rater": "y", "seen": {"dog": True, "tree": True}},
    {"painter": "a", "text": "cat", "rater": "x", "seen": {"cat": True}},
    {"painter": "b", "text": "cat", "rater": "x", "seen": {"cat": False}},
]


def test_entities_are_nouns_of_things():
    assert entities(["A picture of a small dog near two trees", "running"]) == [["dog", "trees"], []]


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


def test_recall_is_the_share_of_things_seen():
    found = recall(ROWS, Resampling(samples=20))
    assert found["a"][0].value == pytest.approx(4 / 5) and found["a"][1:] == (5, 2)
    assert found["b"][0].value == 0.0
    finding = recall_finding("answers.jsonl", found, Resampling(samples=20))
    assert [row[0] for row in finding.grids[0].rows] == ["a", "b"] and finding.grids[0].rows[0][1] == "80.00"


@pytest.mark.parametrize(
    ("row", "message"),
    [({"seen": {"dog": None}}, "'dog' is answered None"), ({"text": "a"}, "no answers: expected seen")],
)
def test_answers_that_are_missing(tmp_path, row, message):
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"painter": "a", **row}) + "\n")
    with pytest.raises(InputError, match=message):
        read_answers([str(path)])
