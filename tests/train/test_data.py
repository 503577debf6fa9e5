"""Rows to examples: what is accepted, and what is said of what is not."""

import json

import pytest
from PIL import Image

from captious.errors import InputError
from captious.train._data import read_examples


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "images").mkdir()
    for name in ("7.png", "000000000012.jpg", "cat.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / "images" / name)
    return tmp_path


def read(folder, *rows, **options):
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_examples(folder / "rows.jsonl", folder / "images", **options)


def test_captions_of_one_image_come_together(folder):
    found, _ = read(
        folder,
        {"image_id": 7, "caption": "a dog"},
        {"id": 12, "references": ["two cats", "cats"]},
        {"image": "7.png", "captions": ["the dog", "a  dog"]},
        {"image": "photos/cat.png", "caption": "a cat"},
    )
    assert [(one.image.name, one.captions) for one in found] == [
        ("7.png", ("a dog", "the dog")),
        ("000000000012.jpg", ("two cats", "cats")),
        ("cat.png", ("a cat",)),
    ]


def test_long_captions_of_one_image_stay_apart(folder):
    row = {"id": 7, "units": ["a dog", "on grass"], "wrong_units": ["a cat", "on sand"]}
    found, _ = read(folder, row, row, merge=False)
    assert len(found) == 2 and found[0].captions == ("a dog on grass",)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"caption": "a dog"}, "row 1: has neither id nor image_id"),
        ({"id": 7, "captions": [1]}, "row 1: captions is list, expected text or a list of texts"),
        ({"id": 7, "units": ["a", "b"], "wrong_units": ["c"]}, "row 1: 1 wrong_units for 2 units"),
        ({"id": 7, "title": "x"}, "no row has a caption"),
        (
            {"id": 8, "caption": "x"},
            "images: contains no image of any item: looked for 8.jpg .*, found 3 images, such as 000000000012.jpg",
        ),
    ],
)
def test_bad_rows_are_named(folder, row, said):
    with pytest.raises(InputError, match=said):
        read(folder, row)


def test_missing_images_stop_or_are_left_out(folder):
    rows = ({"id": 7, "caption": "x"}, {"id": 8, "caption": "y"}, {"id": 9, "caption": "z"})
    with pytest.raises(InputError, match=r"row 2: no image .*8 \(and 1 more\); missing='skip' leaves"):
        read(folder, *rows)
    found, notes = read(folder, *rows, skip=True)
    assert [one.id for one in found] == ["7"] and notes == ["2 rows left out: their image is missing"]


def test_what_has_no_caption_is_counted(folder):
    rows = (
        {"id": 7, "captions": ["a dog", " "]},
        {"id": 12, "caption": ""},
        {"id": "cat", "units": ["a cat"]},
        {"id": 7},
    )
    found, notes = read(folder, *rows)
    assert [one.captions for one in found] == [("a dog",), ("a cat",)]
    assert notes == ["2 rows left out: they have no caption", "2 empty captions left out"]
