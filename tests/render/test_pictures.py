"""Thumbnails: what cannot be read is left out at once, and grey levels of 16 bits are not white."""

import os
from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from captious.io.images import open_image
from captious.options import Runtime, using
from captious.render.items import make_thumbnail, make_thumbnails


def opened(uri):
    return Image.open(BytesIO(b64decode(uri.partition(",")[2]))).convert("RGB")


def test_a_thumbnail_has_at_most_224_pixels_a_side(tmp_path):
    Image.new("RGB", (640, 320), "red").save(tmp_path / "a.png")
    assert opened(make_thumbnail(str(tmp_path / "a.png"))).size == (224, 112)


def test_equal_paths_and_equal_pictures_are_kept_once(tmp_path):
    for name in "ab":
        Image.new("RGB", (8, 8), "red").save(tmp_path / f"{name}.png")
    uris, numbers = make_thumbnails([str(tmp_path / "a.png"), None, str(tmp_path / "b.png"), str(tmp_path / "a.png")])
    assert len(uris) == 1 and numbers == [0, None, 0, 0]


def test_a_named_pipe_a_folder_and_a_device_are_no_pictures(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    assert make_thumbnail(str(tmp_path / "pipe.png")) is None
    assert (
        make_thumbnail(str(tmp_path)) is None
        and make_thumbnail("/dev/zero") is None
        and make_thumbnail("nothing.png") is None
    )


def test_a_decompression_bomb_is_left_out(tmp_path, monkeypatch):
    Image.new("RGB", (64, 64)).save(tmp_path / "bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert make_thumbnail(str(tmp_path / "bomb.png")) is None


@pytest.mark.parametrize("level", [65535 // 4, 65535 // 2])
def test_grey_levels_of_16_bits_keep_their_brightness(tmp_path, level):
    Image.fromarray(np.full((32, 32), level, np.uint16)).save(tmp_path / "deep.png")
    grey = np.asarray(opened(make_thumbnail(str(tmp_path / "deep.png"))), dtype=float)
    assert grey.mean() == pytest.approx(level / 257, abs=3)


def test_pixels_and_transparency(tmp_path):
    pixels = np.full((300, 300, 3), (200, 30, 30), np.uint8)
    assert np.asarray(opened(make_thumbnail(pixels)))[5, 5] == pytest.approx((200, 30, 30), abs=6)
    Image.new("RGBA", (8, 8), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert np.asarray(opened(make_thumbnail(str(tmp_path / "clear.png")))).min() > 250


@pytest.mark.parametrize("upright", [False, True])
def test_a_thumbnail_is_turned_where_the_encoder_turns_the_image(tmp_path, upright):
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by a quarter
    Image.new("RGB", (60, 20), "red").save(tmp_path / "a.jpg", exif=exif)
    path = str(tmp_path / "a.jpg")
    with using(Runtime(upright=upright)):
        (uri,), _ = make_thumbnails([path])
        assert opened(make_thumbnail(path)).size == opened(uri).size == open_image(path, upright).size
