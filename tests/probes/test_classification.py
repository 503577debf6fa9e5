"""Zero-shot classification by hand: see `ColorEncoder` in conftest.py for the vectors."""

import json

import numpy as np
import pytest

from captious.errors import InputError
from captious.options import Resampling
from captious.probes.classification import (
    Classification,
    encode_classes,
    measure_accuracy,
    read_labeled,
    read_templates,
)

ONCE = Resampling(samples=0)


@pytest.fixture
def labels(tmp_path):
    rows = [("red", "red"), ("green", "green"), ("blue", "red"), ("broken", "blue")]
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps({"image": f"{name}.png", "label": label}) + "\n" for name, label in rows))
    return path


def test_the_nearest_class_name_wins(labels, photos, colors):
    data = read_labeled(labels, photos)
    assert data.classes == ("blue", "green", "red")
    accuracy = measure_accuracy(data, colors(), ONCE)
    assert accuracy.images == 3 and accuracy.faults == 1
    assert accuracy.accuracy[0].value == pytest.approx(2 / 3) and len(accuracy.accuracy) == 1  # three classes: no top 5
    assert accuracy.by_class == {"blue": (0, 0.0), "green": (1, 1.0), "red": (2, 0.5)}
    assert accuracy.confused == (("red", "blue", 1),)
    document = Classification(data.name, ONCE, [accuracy], 3, ["a photo of a {}."]).document()
    assert document.tables["mistakes"].rows == [("colors", "red", "blue", 1)] and "chance is 33.3" in document.about


def test_a_class_is_the_mean_direction_of_its_templates(colors):
    (vector,) = encode_classes(colors(), ["red"], ["{}", "a {}"])
    mean = (np.array([1, 0, 0, 0]) + np.array([1, 0, 0, 1]) / np.sqrt(2)) / 2
    assert vector == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)


def test_classes_and_templates_from_files(labels, photos, tmp_path):
    (tmp_path / "classes.txt").write_text("red\ngreen\n")
    with pytest.raises(InputError, match=r"1 labels are not in .*classes.txt, such as 'blue'"):
        read_labeled(labels, photos, tmp_path / "classes.txt")
    (tmp_path / "t.txt").write_text("a {} thing\n\na photo of a {}.\n")
    assert read_templates(tmp_path / "t.txt") == ["a {} thing", "a photo of a {}."]
    (tmp_path / "t.txt").write_text("a thing\n")
    with pytest.raises(InputError, match=r"has no \{\} for the class name"):
        read_templates(tmp_path / "t.txt")
    with pytest.raises(InputError, match="row 1: no label: found image, label, expected breed"):
        read_labeled(labels, photos, column="breed")
