"""One table of column names: a file that one command reads is read by all."""

import json

import pytest
from PIL import Image

from captious.io.columns import CAPTION_COLUMNS, IMAGE_COLUMNS
from captious.io.read import read
from captious.probes.compositionality import read_contests
from captious.probes.specificity import read_details
from captious.study.judgments import open_ratings
from captious.train._data import read_examples

TEXTS = ["There is a red car. It stands on a road.", "There is a blue car. It stands on a road."]


@pytest.fixture
def images(tmp_path):
    for name, color in (("red", (255, 0, 0)), ("blue", (0, 0, 255))):
        Image.new("RGB", (8, 6), color).save(tmp_path / f"{name}.png")
    return tmp_path


def rows(folder, image, caption, **more):
    path = folder / "rows.jsonl"
    named = zip(("red.png", "blue.png"), TEXTS, strict=True)
    path.write_text("".join(json.dumps({image: name, caption: text, **more}) + "\n" for name, text in named))
    return path


@pytest.mark.parametrize("image", IMAGE_COLUMNS)
@pytest.mark.parametrize("caption", CAPTION_COLUMNS)
def test_a_file_is_read_by_score_train_study_and_the_probes_alike(images, image, caption):
    path = rows(images, image, caption, ratings=[3, 4])
    files = [images / "red.png", images / "blue.png"]
    scored = read(path, images=images)
    assert list(scored.candidates.values) == TEXTS and scored.images == [str(file) for file in files]
    learnt = read_examples(path, images)[0]
    assert [example.captions[0] for example in learnt] == TEXTS and [example.image for example in learnt] == files
    rated = open_ratings(path).captions
    assert rated is not None and list(rated.candidates.values) == TEXTS
    assert [contest.image for contest in read_contests([path], images).contests] == ["red.png", "blue.png"]
    assert set(read_details(path, images).paths) == {"red.png", "blue.png"}


@pytest.mark.parametrize("image", IMAGE_COLUMNS)
def test_a_caption_set_calls_the_image_by_one_name_and_keeps_what_else_there_is(tmp_path, image):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"id": 1, "caption": "a dog", image: "x.png", "split": "test"}) + "\n")
    assert read(path).columns == {"image": ("x.png",), "split": ("test",)}
