import json

import pytest

from captious.bias.corpus import AuditedCaptioner, list_captioner_files, read_subjects
from captious.errors import InputError
from captious.options import Reading

LABELS = {str(n): "ab"[n % 2] for n in range(40)}
CAPTIONS = {key: f"caption {key}" for key in LABELS}
HUMANS = {key: [f"{key} said {n}" for n in range(5)] for key in LABELS}


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_images_without_a_label_are_left_out_and_counted():
    result = AuditedCaptioner.of("m", {**LABELS, "3": None, "5": ""}, CAPTIONS, HUMANS)
    assert len(result.ids) == 38
    assert result.notes == ("2 images (3, 5) without a label left out",)


def test_unequal_numbers_of_human_captions_are_counted():
    result = AuditedCaptioner.of("m", LABELS, CAPTIONS, {**HUMANS, "1": HUMANS["1"][:3], "2": [*HUMANS["2"], "sixth"]})
    assert {len(texts) for texts in result.humans} == {3}
    assert result.notes == (
        "images have unequal numbers of human captions (1 × 3, 38 × 5, 1 × 6); the first 3 are used",
    )


def test_a_number_of_human_captions_leaves_out_images_with_fewer():
    result = AuditedCaptioner.of("m", LABELS, CAPTIONS, {**HUMANS, "1": HUMANS["1"][:3]}, number=5)
    assert len(result.ids) == 39 and "fewer than 5 human captions" in result.notes[0]


def test_images_without_human_captions_are_an_error():
    with pytest.raises(InputError, match=r"m: 1 image \(7\) without human captions"):
        AuditedCaptioner.of("m", LABELS, CAPTIONS, {key: texts for key, texts in HUMANS.items() if key != "7"})


def test_labels_may_stand_with_the_people_and_the_people_may_be_more(tmp_path):
    preds = write(tmp_path / "sat.jsonl", [{"id": key, "caption": text} for key, text in CAPTIONS.items()])
    rows = [{"id": key, "references": HUMANS[key], "age": LABELS[key]} for key in LABELS]
    people = write(tmp_path / "humans.jsonl", [*rows, {"id": "99", "references": ["unused"], "age": "a"}])
    result = read_subjects([preds], "age", Reading(references=people))[0]
    assert (result.name, result.labels[:2], len(result.ids)) == ("sat", ("a", "b"), 40)


def test_several_caption_columns_are_several_captioners(tmp_path):
    rows = [{"id": k, "references": HUMANS[k], "label": LABELS[k], "x": "one", "y": "two"} for k in LABELS]
    result = read_subjects([write(tmp_path / "all.jsonl", rows)], "label", Reading(candidate_column="x, y"))
    assert [(subject.name, subject.captions[0]) for subject in result] == [("x", "one"), ("y", "two")]


def test_an_absent_label_column_names_those_there_are(tmp_path):
    rows = [{"id": key, "caption": "x", "references": ["y"], "gender": LABELS[key]} for key in LABELS]
    with pytest.raises(InputError, match="no column 'gendr' for the labels, found gender; did you mean 'gender'"):
        read_subjects([write(tmp_path / "p.jsonl", rows)], "gendr")


def test_two_captioners_of_one_name_are_refused(tmp_path):
    rows = [{"id": key, "caption": "x", "references": ["y"], "label": LABELS[key]} for key in LABELS]
    (tmp_path / "b").mkdir()
    files = [write(tmp_path / "p.jsonl", rows), write(tmp_path / "b" / "p.jsonl", rows)]
    with pytest.raises(InputError, match="two captioners are called 'p'"):
        read_subjects(files, "label")
    assert [one.name for one in read_subjects(dict(zip("ab", files, strict=True)), "label")] == ["a", "b"]


def test_captioners_are_called_as_their_files_or_their_columns(tmp_path):
    rows = [{"id": key, "x": "x", "z": "z", "references": ["y"], "label": LABELS[key]} for key in LABELS]
    files = [write(tmp_path / f"model-0.{version}.jsonl", rows) for version in (2, 3)]

    def names(files, columns):
        return [one.name for one in read_subjects(files, "label", Reading(candidate_column=columns))]

    assert names(files, "x") == ["model-0.2", "model-0.3"]
    assert names(files[:1], "x,z") == ["x", "z"]
    assert names(files, "x,z") == ["model-0.2-x", "model-0.2-z", "model-0.3-x", "model-0.3-z"]


def test_labels_may_stand_in_a_file_of_their_own(tmp_path):
    rows = [{"id": key, "caption": "x", "references": ["y"], "age": "z"} for key in LABELS]
    preds = write(tmp_path / "sat.jsonl", rows)
    labels = [{"id": key, "age": None if key == "4" else LABELS[key], "age_votes": {"r1": "a"}} for key in LABELS]
    file = write(tmp_path / "humans.jsonl", [*labels, {"id": "99", "age": "a"}])
    (subject,) = read_subjects([preds], "age", labels=file)
    assert len(subject.ids) == 39 and {*subject.labels} == {"a", "b"}
    assert subject.notes == ("1 image (4) without a label left out",)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "1", "gender": "a"}], "row 1: no label: found columns id, gender, expected 'age'"),
        ([{"id": "1", "age": ["a"]}], "row 1: age is a list"),
        ([{"id": "1", "age": "a"}, {"id": "1", "age": "b"}], "row 2: age of id '1' is 'b', an earlier row says 'a'"),
        ([{"id": "99", "age": "a"}], "no id has a label: found ids such as 0, 1, 2, and labels of 99"),
    ],
)
def test_a_file_of_labels_that_cannot_be_used(tmp_path, rows, message):
    preds = write(tmp_path / "sat.jsonl", [{"id": key, "caption": "x", "references": ["y"]} for key in LABELS])
    with pytest.raises(InputError, match=message):
        read_subjects([preds], "age", labels=write(tmp_path / "labels.jsonl", rows))


def test_a_folder_is_its_files_of_captions(tmp_path):
    for name in ("sat.jsonl.gz", "nic.jsonl", "notes.md"):
        (tmp_path / name).touch()
    found = list_captioner_files([str(tmp_path), "other.json"])
    assert found == [str(tmp_path / "nic.jsonl"), str(tmp_path / "sat.jsonl.gz"), "other.json"]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="a folder without files of captions"):
        list_captioner_files([str(empty)])
