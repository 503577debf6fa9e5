"""Ratings from Label Studio's and potato's exports, read by the one reader of rating files.

The fixtures are written by hand from public facts. Label Studio: the raw JSON structure of its page "Label Studio Task
Format" (id, data, annotations with result, was_cancelled, lead_time, completed_by; a result has from_name and value).
Potato: columns user, instance_id, displayed_text and SCHEMA:::LABEL of annotated_instances.tsv as public analysis
scripts read them, and label_annotations of annotated_instances.jsonl as its API reference shows it.
"""

import json

import pytest

from captious.errors import InputError
from captious.options import Reading
from captious.study import load_ratings
from captious.study.study_options import StudyInput


def annotation(person, stars, **others):
    result = [{"id": "x", "from_name": "quality", "to_name": "img", "type": "rating", "value": {"rating": stars}}]
    return {"id": 1, "completed_by": person, "result": result, "was_cancelled": False, "lead_time": 4.5, **others}


@pytest.fixture
def label_studio(tmp_path):
    tasks = [
        {
            "id": 11 + item,
            "data": {"image": f"im{item}.jpg", "caption": f"a dog number {item}", "system": "sat"},
            "annotations": [annotation(10, 1 + item), annotation({"id": 7, "email": "ann@example.org"}, 2 + item)],
            "predictions": [],
        }
        for item in range(3)
    ]
    tasks[0]["annotations"].append(annotation(12, 5, was_cancelled=True))
    (tmp_path / "project.json").write_text(json.dumps(tasks), encoding="utf-8")
    return tmp_path / "project.json"


def load(path, **options):
    return load_ratings(StudyInput(source=str(path), **options), Reading())[0]


def test_label_studio(label_studio, run):
    code, printed, error = run("study", "agreement", label_studio, "--json")
    assert code == 0, error
    facts = json.loads(printed)
    assert {one["name"]: one["mean"] for one in facts["raters"]} == {
        "10": 2,
        "ann@example.org": 3,
    }  # 1, 2, 3 and 2, 3, 4
    assert facts["alpha"]["ratings"] == 6  # the cancelled annotation is left out
    assert load(label_studio).captions is not None


def test_choices_with_numbers_are_ratings_and_their_column_is_named(label_studio, run):
    tasks = json.loads(label_studio.read_text())
    for task in tasks:
        for one in task["annotations"]:
            stars = str(one["result"][0]["value"].pop("rating"))
            one["result"][0]["value"]["choices"] = [stars]
            one["result"].append({"from_name": "why", "type": "textarea", "value": {"text": ["it is blurred"]}})
    label_studio.write_text(json.dumps(tasks))
    assert run("study", "agreement", label_studio, "--rating", "quality")[0] == 0


@pytest.fixture
def potato(tmp_path):
    lines = ["user\tinstance_id\tdisplayed_text\tquality:::scale_1\tquality:::scale_2\tquality:::scale_3"]
    for item in range(3):
        for user, stars in (("ann", 1 + item), ("bob", min(3, 2 + item))):
            cells = [str(stars) if point == stars else "" for point in (1, 2, 3)]
            lines.append("\t".join([user, f"im{item}", f"a dog number {item}", *cells]))
    (tmp_path / "annotated_instances.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "annotated_instances.tsv"


def as_jsonl(path):
    """The same answers as potato's JSONL has them."""
    header, *rows = [line.split("\t") for line in path.read_text().splitlines()]
    out = path.with_suffix(".jsonl")
    with out.open("w", encoding="utf-8") as file:
        for user, item, text, *cells in rows:
            chosen = {name.partition(":::")[2]: cell for name, cell in zip(header[3:], cells, strict=True) if cell}
            row = {"user_id": user, "instance_id": item, "displayed_text": text, "span_annotations": []}
            file.write(json.dumps({**row, "label_annotations": {"quality": chosen}}) + "\n")
    return out


def test_potato_in_both_of_its_forms(potato, run):
    results = [run("study", "agreement", path, "--json") for path in (potato, as_jsonl(potato))]
    assert [code for code, _, _ in results] == [0, 0], results[0][2]
    first, second = (json.loads(printed) for _, printed, _ in results)
    # Ratings of ann 1, 2, 3 and of bob 2, 3, 3. Interval alpha by hand: the squared distances within the three items
    # are 1, 1 and 0, so Do = 2/3. Among all 15 pairs of 1, 2, 2, 3, 3, 3 they are 1 (twice, 1 and 2), 4 (three times,
    # 1 and 3) and 1 (six times, 2 and 3), in sum 2 + 12 + 6 = 20, so De = 20/15 = 4/3, and
    # alpha = 1 - (2/3)/(4/3) = 1/2.
    assert [facts["alpha"]["estimate"]["value"] for facts in (first, second)] == [pytest.approx(0.5)] * 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": 1, "data": {"caption": "a"}, "annotations": [{"completed_by": 1}]}], "annotation without result"),
        (
            [{"id": 1, "data": {"caption": "a"}, "annotations": []}, {"id": 2, "data": 3}],
            "expected a task of",
        ),
        ([{"instance_id": "a", "label_annotations": {"quality": 3}}], "label_annotations without scales"),
    ],
)
def test_a_broken_export_is_one_line(rows, message, tmp_path):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(rows))
    with pytest.raises(InputError, match=message):
        load(path)
