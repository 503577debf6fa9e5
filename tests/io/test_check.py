"""The mistakes people really make, one file each."""

import json
import os
import zlib

import numpy as np
import pytest
from lab.toy import make
from PIL import Image

from captious.io.check import check
from captious.io.read import read
from captious.options import Reading


@pytest.fixture(scope="module")
def good():
    sample = make(items=20)
    predictions = {str(scene.id): sample.prediction_of(scene, "solid").text for scene in sample.scenes()}
    return predictions, {str(key): value for key, value in sample.references().items()}


def said(checked, level=None):
    return [finding.message for finding in checked.findings if level in (None, finding.level)]


def test_good_files_are_healthy(good):
    assert said(check_pair(good), "error") == [] == said(check_pair(good), "warning")


def check_pair(pair):
    predictions, references = pair
    return check(predictions, references=references)


def broken(kind, predictions, references):
    predictions, references = dict(predictions), dict(references)
    first, second, *_ = predictions
    if kind == "missing id":
        del references[first]
    elif kind == "swapped files":
        predictions, references = references, predictions
    elif kind == "shifted ids":
        predictions = dict(zip(predictions, [*list(predictions.values())[1:], predictions[first]], strict=True))
    elif kind == "string for a list":
        references = {key: str(np.array(value)) for key, value in references.items()}
    elif kind == "one word for all references":
        references = dict.fromkeys(references, "answer")
    elif kind == "references left in":
        predictions = {key: references[key][0] for key in predictions}
    elif kind == "empty caption":
        predictions[first] = "   "
    elif kind == "line break":
        predictions[second] = "a dog\nruns"
    elif kind == "control character":
        predictions[second] = "a dog\x07 runs"
    elif kind == "tokenized":
        predictions = {key: text.rstrip(".") + " ." for key, text in predictions.items()}
    elif kind == "several in one string":
        references = {key: [" ||| ".join(value)] for key, value in references.items()}
    elif kind == "one caption for all":
        predictions = dict.fromkeys(predictions, "a photo of something")
    elif kind == "not a string":
        predictions[first] = 7
    elif kind == "alike references":
        references = {key: [value[0]] * 5 for key, value in references.items()}
    elif kind == "very long":
        predictions[first] = "word " * 80
    return predictions, references


@pytest.mark.parametrize(
    ("kind", "level", "message"),
    [
        ("missing id", "error", "1 id (1001) without references"),
        ("swapped files", "error", "are the two files swapped?"),
        ("shifted ids", "warning", "do the ids belong together?"),
        ("string for a list", "error", "reference is a printed list (['"),
        ("one word for all references", "warning", "100% of the references are the same text, 'answer'"),
        ("references left in", "warning", "whose candidate is also one of its references"),
        ("empty caption", "warning", "1 empty candidate caption (id 1001)"),
        ("line break", "warning", "1 candidate caption (id 1002) with a line break inside"),
        ("control character", "warning", "control characters and halves of characters were removed from 1 text"),
        ("tokenized", "note", "tokenized already"),
        ("several in one string", "warning", "several captions in one string?"),
        ("one caption for all", "warning", "100% of the candidates are the same caption"),
        ("not a string", "error", "id '1001': caption is a number (7), expected a string"),
        (
            "alike references",
            "warning",
            "20 items (id 1001, 1002, 1003, 1004, 1005, …) whose references are all the same",
        ),
        ("very long", "note", "CLIP's encoder would cut them"),
    ],
)
def test_each_mistake_is_found(good, kind, level, message):
    assert any(message in text for text in said(check_pair(broken(kind, *good)), level))


def test_all_mistakes_are_listed_at_once_and_repeated_ones_counted(tmp_path):
    rows = [
        {"id": 1, "caption": "a"},
        *({"id": 1, "caption": "a"} for _ in range(9)),
        {"id": 2, "caption": 3},
        {"caption": "b"},
    ]
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + '\n{"id": 9, "cap')
    found = said(check(path), "error")
    assert sum(f"occurs more than once (first at {path}: row 1)" in text for text in found) == 5
    assert any(text.startswith("… and 4 more like:") for text in found)
    assert any("row 11: caption is a number (3)" in text for text in found)
    assert any("row 12: no id" in text for text in found)
    assert any("row 13: not valid JSON" in text for text in found)


def test_complaints_of_one_kind_are_counted_whatever_they_quote(tmp_path):
    """Flickr8k.token.txt has five rows for each image, so 32,368 of its rows repeat an id."""
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"id": f"{number // 2}.jpg", "caption": "a"}) + "\n" for number in range(20)))
    found = said(check(path), "error")
    assert len(found) == 6 and found[-1] == "… and 5 more like: id … occurs more than once"


def test_images_that_do_not_open_or_exist(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "1.png")
    (tmp_path / "2.png").write_bytes(b"no image")
    found = said(check({"1": "a", "2": "b", "3": "c"}, images=tmp_path))
    assert "1 image (id 2): is not an image, or of a kind that Pillow does not read" in found
    assert "1 image (id 3): no such file" in found


def test_an_image_of_nine_hundred_million_pixels_is_a_finding(tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "1.png")
    content = bytearray((tmp_path / "1.png").read_bytes())
    content[16:24] = (30_000).to_bytes(4, "big") * 2  # width and height, in the header
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    (tmp_path / "1.png").write_bytes(content)
    (finding,) = said(check({"1": "a"}, images=tmp_path), "error")
    assert finding.startswith("1 image (id 1): is far larger than 100 million pixels")


def test_images_are_found_by_name_by_stem_by_id_and_in_cocos_way(tmp_path):
    for name in ("one.jpg", "two.webp", "3.png", "000000000004.jpg"):
        (tmp_path / name).write_bytes(b"")
    rows = {"1": {"caption": "a", "image": "one.jpg"}, "2": {"caption": "b", "image": "x/two.jpg"}, "3": "c", "4": "d"}
    images = read(rows, images=tmp_path).columns["image"]
    assert [path.rsplit("/", 1)[-1] for path in images] == ["one.jpg", "two.webp", "3.png", "000000000004.jpg"]


def test_a_folder_without_any_of_the_images_is_an_error(tmp_path):
    (tmp_path / "other.png").write_bytes(b"")
    assert any(
        "contains no image of any item: looked for 1.jpg" in text for text in said(check({"1": "a"}, images=tmp_path))
    )


def test_a_check_is_a_result(good):
    predictions, references = good
    result = check({**predictions, "x": "a dog"}, references=references)
    assert "error: captions: 1 id (x) without references" in str(result)
    assert json.loads(result.to_json())["findings"][0]["level"] == "error" and len(result.errors) == 1
    assert "nothing wrong found" in str(check_pair(good))


def test_an_image_that_is_a_named_pipe_is_called_so(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "1.png")
    os.mkfifo(tmp_path / "2.png")
    checked = check({"1": "a dog", "2": "a cat"}, images=tmp_path)
    assert "1 image (id 2): is a named pipe, expected a regular file" in said(checked, "error")


def test_videos_that_are_missing(tmp_path):
    (tmp_path / "a.mp4").write_bytes(b"never decoded")
    rows = [{"id": name, "caption": f"{name} dog", "video": str(tmp_path / f"{name}.mp4")} for name in "ab"]
    messages = [finding.message for finding in check(rows).findings]
    assert [message for message in messages if "video" in message] == ["1 video (id b): no such file or folder"]
    assert not any("video" in finding.message for finding in check(rows[1:]).findings)  # a run would refuse this
    parts = [{**rows[0], "start": 3, "end": 1}]
    for reading in (Reading(), Reading(frames="all")):  # joining reports it in the second case
        messages = [finding.message for finding in check(parts, reading=reading).findings]
        assert len([message for message in messages if "ends (1) before it starts (3)" in message]) == 1
