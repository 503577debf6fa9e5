"""Features of a locked image tower from a file: found by name, checked against the tower, never taken blindly."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from captious.errors import InputError
from captious.train._data import load_image_features, read_features

ROWS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


class Towers:
    """A tower that gives image number n the row n."""

    locked = frozenset({"image"})

    def __init__(self, count=6):
        self.image_set = type(
            "TrainingImages", (), {"paths": [Path(f"photos/{number}.webp") for number in range(count)]}
        )()
        self.learnt = {}

    def below(self, rows):
        return torch.from_numpy(ROWS[rows])

    def add_image_features(self, rows, features):
        self.learnt.update(zip(rows, features.numpy(), strict=True))


def saved(path, ids, features, **more):
    np.savez(path, ids=np.array(ids), features=features, **more)
    return path


def test_features_are_found_by_name_and_scaled(tmp_path):
    ids = [f"{number}.jpg" for number in (4, 2, 9)]
    bytes_of = np.array([[2, 4, -6, 8], [1, 1, 1, 1], [0, 1, 2, 3]], np.int8)
    found = read_features(saved(tmp_path / "f.npz", ids, bytes_of, scale=np.full(4, 0.5, np.float32)))
    assert {name: row.tolist() for name, row in found.items()} == {
        "4": [1, 2, -3, 4],
        "2": [0.5] * 4,
        "9": [0, 0.5, 1, 1.5],
    }


def test_images_without_features_are_left_to_the_tower(tmp_path):
    towers = Towers()
    file = saved(tmp_path / "f.npz", ["5.jpg", "1.jpg", "77.jpg"], ROWS[[5, 1, 0]])
    assert "2 of 6 images" in load_image_features(towers, file)
    assert sorted(towers.learnt) == [1, 5]
    np.testing.assert_array_equal(towers.learnt[5], ROWS[5])


@pytest.mark.parametrize(
    ("ids", "features", "says"),
    [
        (["a", "b"], ROWS[:2], "has no features of the images, such as 0.webp"),
        (["0", "1"], ROWS[:2, :3], "3 numbers an image, the image tower gives 4"),
        (["0", "1"], -ROWS[:2], "not this tower's: mean cosine -1.00 on 2 images"),
        (["0"], ROWS[:2], "1 ids for features of shape"),
    ],
)
def test_features_of_something_else_are_refused(tmp_path, ids, features, says):
    with pytest.raises(InputError, match=says):
        load_image_features(Towers(), saved(tmp_path / "f.npz", ids, features))


def test_only_a_locked_tower_has_features_that_stay(tmp_path):
    towers = Towers()
    towers.locked = frozenset({"text"})
    with pytest.raises(InputError, match="add lock='image'"):
        load_image_features(towers, saved(tmp_path / "f.npz", ["0"], ROWS[:1]))
    (tmp_path / "bad.npz").write_bytes(b"no")
    with pytest.raises(InputError, match=r"bad\.npz: expected an \.npz file with ids and features"):
        read_features(tmp_path / "bad.npz")
