"""Which column is the caption, which the references; what was read is said, and a real choice is the user's."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import captious
from captious.errors import InputError
from captious.io.check import check
from captious.io.join import gather_references
from captious.io.read import read
from captious.options import Reading

WORDS = ["a red dog runs", "two cats sit there", "an old man reads", "the blue bus stops"]
PEOPLE = [[f"{text} fast", f"{text} slowly"] for text in WORDS]
IDS = ["7", "8", "9", "10"]


def put(folder, **columns):
    pq.write_table(pa.table({"id": IDS, **columns}), folder / "hf.parquet")
    return folder / "hf.parquet"


def refused(source, **options):
    with pytest.raises(InputError) as error:
        read(source, **options)
    return str(error.value)


@pytest.mark.parametrize("text", ["prediction", "text", "hypothesis"])
def test_a_list_beside_a_text_is_the_references(tmp_path, text):
    captions = read(put(tmp_path, caption=PEOPLE, **{text: WORDS}))
    assert list(captions.candidates.values) == WORDS
    assert captions["7"].references == tuple(PEOPLE[0])
    assert captions.origin_line == f"captions: `{text}`; references: `caption`, 2 per item"


def test_a_printed_list_is_a_list_too(tmp_path):
    path = tmp_path / "p.csv"
    rows = [f'{key},"{people}",{text}\n' for key, people, text in zip(IDS, PEOPLE, WORDS, strict=True)]
    path.write_text("id,caption,prediction\n" + "".join(rows))
    assert list(read(path).candidates.values) == WORDS and read(path)["7"].references == tuple(PEOPLE[0])


@pytest.mark.parametrize("rows", ["parquet", "records", "jsonl"])
def test_two_texts_stop_with_the_choice(tmp_path, rows):
    source = put(tmp_path, caption=WORDS, prediction=WORDS[::-1])
    if rows != "parquet":
        source = [
            {"id": key, "caption": one, "prediction": other}
            for key, one, other in zip(IDS, WORDS, WORDS[::-1], strict=True)
        ]
    if rows == "jsonl":
        (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in source))
        source = tmp_path / "p.jsonl"
    assert (
        "`caption` and `prediction` could be the caption to score; pass reading=Reading(candidate_column='caption') "
        "or reading=Reading(candidate_column='prediction'), and references_column=... for the other"
    ) in refused(source)
    with pytest.raises(InputError, match="could be the caption to score"):
        captious.evaluate(source, "distinct_n")
    assert any("could be the caption" in error.message for error in check(source).errors)
    captions = read(source, reading=Reading(candidate_column="prediction", references_column="caption"))
    assert list(captions.candidates.values) == WORDS[::-1] and captions["7"].references == (WORDS[0],)


def test_a_list_beside_prose_of_an_unknown_name_stops_too(tmp_path):
    path = put(tmp_path, captions=PEOPLE, model_output=WORDS, split=["test"] * 4)
    for options in ({}, {"references": dict(zip(IDS, PEOPLE, strict=True))}):
        assert "`captions` and `model_output` could be the caption to score" in refused(path, **options)
    captions = read(path, reading=Reading(candidate_column="model_output"))
    assert list(captions.candidates.values) == WORDS and captions["7"].references == tuple(PEOPLE[0])


def test_a_list_beside_outputs_in_lists_of_one_stops_too(tmp_path):
    path = put(tmp_path, captions=PEOPLE, model_output=[[text] for text in WORDS], tags=[["a dog runs", "x"]] * 4)
    assert "`captions` and `model_output` could be the caption to score" in refused(path)
    captions = read(path, reading=Reading(candidate_column="model_output"))
    assert list(captions.candidates.values) == WORDS and captions["7"].references == tuple(PEOPLE[0])


def test_a_list_alone_is_several_candidates(tmp_path):
    path = put(tmp_path, captions=PEOPLE, url=["http://x"] * 4, question=["What is in the picture?"] * 4)
    captions = read(path)
    assert captions["7"].candidates == tuple(PEOPLE[0])
    assert captions.origin_line == "captions: `captions`; references: none"


def test_the_first_row_may_be_without_references(tmp_path):
    rows = [{"id": 1, "caption": "a dog"}, {"id": 2, "caption": "a cat", "references": ["cats", "the cat"]}]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    captions = captious.read(path, reading=Reading(missing="skip"))
    assert captions.origin_line == "captions: `caption`; references: `references`, 2 per item"


def test_lists_of_a_model_beside_a_text_are_the_users_choice(tmp_path):
    assert "`caption` and `predictions` could be the caption" in refused(
        put(tmp_path, caption=WORDS, predictions=PEOPLE)
    )


def test_what_is_called_candidate_is_the_candidate(tmp_path):
    captions = read(put(tmp_path, candidate=WORDS, text=WORDS[::-1]))
    assert list(captions.candidates.values) == WORDS and captions.columns["text"] == tuple(WORDS[::-1])


def test_references_of_a_file_with_predictions_are_the_list(tmp_path):
    path = put(tmp_path, caption=PEOPLE, prediction=WORDS)
    captions = read(dict(zip(IDS, WORDS, strict=True)), references=path)
    assert captions["7"].references == tuple(PEOPLE[0])
    assert captions.origin_line == "captions: by id; references: `caption` of hf.parquet, 2 per item"
    rows = [{"id": "7", "caption": "a dog", "text": "a cat"}]
    with pytest.raises(InputError, match=r"could be the references; pass reading=Reading\(references_column='caption'"):
        gather_references(read_rows(rows))


def read_rows(rows):
    from captious.io.formats import read_rows

    return read_rows(rows)


def test_what_was_read_stays_in_the_report_and_in_a_run(tmp_path):
    (tmp_path / "photos").mkdir()
    for key in IDS:
        from PIL import Image

        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / f"{key}.png")
    line = "captions: `prediction`; references: `caption`, 2 per item; images: folder photos/"
    report = captious.evaluate(put(tmp_path, caption=PEOPLE, prediction=WORDS), "rouge", images=tmp_path / "photos")
    assert line in report.document().notes and report.data()["read"] == line
    report.save(tmp_path / "run")
    assert line in captious.open_run(tmp_path / "run").document().notes
    assert check(tmp_path / "hf.parquet").origin == "captions: `prediction`; references: `caption`, 2 per item"


@pytest.mark.parametrize(
    ("key", "file"),
    [
        ("COCO_val2014_000000001001.jpg", "COCO_val2014_000000001001.jpg"),
        ("photo 3.jpg", "val/photo 3.jpg"),
        ("images/photo 3.jpg", "photo 3.jpg"),
        ("photo 3", "photo 3.jpg"),
        ("COCO_val2014_000000001001.jpg", None),
    ],
)
def test_file_names_as_ids_find_the_references_of_coco(key, file):
    annotations = {
        "images": [{"id": 1001, **({"file_name": file} if file else {})}, {"id": 5, "file_name": "other.jpg"}],
        "annotations": [{"image_id": 1001, "caption": "a dog"}, {"image_id": 5, "caption": "a cat"}],
    }
    captions = read({key: "dogs", "other.jpg": "cats"}, references=annotations)
    assert captions.ids == (key, "other.jpg") and captions[key].references == ("a dog",)
    assert captions.origin.remarks == (f"ids are joined by file name: {key!r} is '1001' in references",)


def test_ids_that_match_nothing_are_told_so():
    message = refused(
        {"x.jpg": "dogs"}, references={"images": [], "annotations": [{"image_id": 5, "caption": "a cat"}]}
    )
    assert message.endswith("name other columns; no names of image files match either")


def test_a_dictionary_of_splits_names_them():
    datasets = pytest.importorskip("datasets")
    split = datasets.Dataset.from_dict({"id": IDS, "caption": WORDS})
    both = datasets.DatasetDict({"train": split, "test": split})
    assert refused(both) == (
        "captions: is a DatasetDict with the splits train, test; pass one of them, such as data['train']"
    )
    assert "references: is a DatasetDict" in refused(dict(zip(IDS, WORDS, strict=True)), references=both)
    assert list(read(both["test"]).candidates.values) == WORDS


def test_results_of_every_command_say_what_was_read(tmp_path):
    """The wrong column must be seen below the numbers of any command, not only of ``score``."""
    rows = [{"id": key, "caption": ["a dog", "the dog"], "prediction": f"a dog {key}"} for key in range(6)]
    line = "captions: `prediction`; references: `caption`, 2 per item"
    systems = {name: captious.read(rows) for name in ("a", "b")}
    assert line in captious.compare(systems, "rouge").document().notes
    assert line in captious.gate(systems["a"], systems["b"], "rouge", 0.1).document().notes
    captious.evaluate(systems["a"], "rouge").save(tmp_path / "run")
    assert line in captious.keep(tmp_path / "run", "rouge > 0.1").document().notes
    assert line in captious.open_run(tmp_path / "run").document().notes
    rated = [{"id": key, "text": f"a {key}", "human": key % 3, "model": "xy"[key % 2]} for key in range(8)]
    found = "ratings: `human`; captions: `text`; images: `id`; systems: `model`"
    assert found in captious.study.systems(rated).document().notes
