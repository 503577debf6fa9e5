"""Training data of drawn scenes: whole, the same from any number of processes, readable by the training."""

from __future__ import annotations

import json

import numpy as np
import pytest
from lab.toy.captions import facts_in, judge
from lab.toy.scenes import scenes
from lab.toy.training import OPENING, row_of, write_training
from PIL import Image

from captious.errors import InputError


def everything(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_from_one_process_and_two(tmp_path):
    one = everything(write_training(tmp_path / "one", 201, seed=3, size=32, workers=1))
    two = everything(write_training(tmp_path / "two", 201, seed=3, size=32, workers=2))
    assert one == two and len(one) == 202


def test_rows_and_pictures(tmp_path):
    folder = write_training(tmp_path / "drawn", 4, seed=3, size=48)
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [1001, 1002, 1003, 1004]
    for row in rows:
        assert row["caption"] == " ".join(row["units"])
        assert len(row["units"]) == len(row["wrong_units"])
        assert all(right != wrong for right, wrong in zip(row["units"], row["wrong_units"], strict=True))
        picture = Image.open(folder / "images" / f"{row['id']}.png")
        assert picture.size == (48, 48) and np.asarray(picture).std() > 10


def test_half_of_the_short_captions_have_the_opening_and_none_lies():
    for scene in scenes(30, seed=8):
        short = row_of(scene, seed=8)["captions"][3:]
        assert [text.startswith(OPENING) for text in short] == [False, True] * 3
        for text in short:
            assert judge(facts_in(text.removeprefix(f"{OPENING} ")), scene).wrong == 0


def test_no_items_is_refused(tmp_path):
    with pytest.raises(InputError, match="items is 0"):
        write_training(tmp_path / "none", 0, seed=1)
    assert not (tmp_path / "none").exists()


def test_the_command(tmp_path):
    from click.testing import CliRunner
    from lab.toy.__main__ import app

    out = tmp_path / "drawn"
    done = CliRunner().invoke(app, ["training", "--items", "2", "--size", "32", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert f"written: {out}" in done.output and "next: captious train clip" in done.output
    assert sorted(path.name for path in (out / "images").iterdir()) == ["1001.png", "1002.png"]
