"""Vectors computed elsewhere: what is read, and what is said of files that are none."""

import numpy as np
import pytest

from captious.errors import InputError
from captious.models.features import read_features


def test_rows_come_by_id_and_scaled(tmp_path):
    np.savez(tmp_path / "a.npz", ids=["x", "y"], features=np.array([[1, 2], [3, 4]], np.int8), scale=np.array([0.5, 2]))
    ids, rows = read_features(tmp_path / "a.npz")
    assert ids == ["x", "y"] and rows.tolist() == [[0.5, 4.0], [1.5, 8.0]]


def test_files_that_are_none_are_one_line(tmp_path):
    np.savez(tmp_path / "whole.npz", ids=["x"], features=np.ones((1, 2)))
    whole = (tmp_path / "whole.npz").read_bytes()
    np.savez(tmp_path / "few.npz", ids=["x", "y"], features=np.ones((1, 2)))
    np.savez(tmp_path / "bare.npz", ids=["x"])
    for name, content in (("cut.npz", whole[: len(whole) // 2]), ("text.npz", b"hello"), ("empty.npz", b"")):
        (tmp_path / name).write_bytes(content)
    for name, said in (
        ("cut.npz", "not an .npz file"),
        ("text.npz", "not an .npz file"),
        ("empty.npz", "not an .npz file"),
        ("bare.npz", "contains ids, expected the arrays ids and features"),
        ("few.npz", "2 ids for features of shape"),
        ("none.npz", "no such file"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            read_features(tmp_path / name)
        assert name in str(caught.value) and "\n" not in str(caught.value)
