"""What people really have in their folders: every kind of image opens with its colors, or says in one line why not."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from captious.errors import InputError
from captious.io import images
from captious.io.images import MAX_PIXELS, UnreadableImage, decode_image, open_image


@pytest.fixture
def drawn():
    """Red on the left, blue on the right, 6 × 4."""
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[:, :3], pixels[:, 3:] = (200, 10, 20), (10, 20, 200)
    return Image.fromarray(pixels)


def rgb(picture):
    return np.asarray(picture.convert("RGB")).astype(int)


def one_line(error):
    return "\n" not in str(error.value) and str(error.value)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(UnreadableImage, match="no such image") as error:
        open_image(tmp_path / "gone.jpg")
    assert "gone.jpg" in one_line(error)
    assert isinstance(error.value, InputError)


def test_folder_is_not_an_image(tmp_path):
    with pytest.raises(UnreadableImage, match="is a folder"):
        open_image(tmp_path)


@pytest.mark.parametrize("content", [b"just some words, not an image", b"<svg xmlns='x'></svg>"])
def test_text_is_not_an_image(tmp_path, content):
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(UnreadableImage, match="is not an image") as error:
        open_image(tmp_path / "a.jpg")
    assert "a.jpg" in one_line(error)


def test_empty_file(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(UnreadableImage, match="is empty"):
        open_image(tmp_path / "a.png")


@pytest.mark.parametrize("kind", ["jpg", "png", "webp", "gif", "bmp"])
def test_truncated_file(tmp_path, kind):
    noise = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    path = tmp_path / f"a.{kind}"
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UnreadableImage) as error:
        open_image(path)
    assert f"a.{kind}" in one_line(error)


def test_the_same_damage_has_the_same_reason_wherever_the_file_is_cut():
    noise = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "JPEG")
    content, reasons = buffer.getvalue(), set()
    for length in (2000, 2500, 3000):
        with pytest.raises(UnreadableImage) as error:
            decode_image(content[:length], "a.jpg")
        reasons.add(str(error.value))
    assert reasons == {"a.jpg: is truncated or damaged (image file is truncated (… bytes not processed))"}


def test_damage_inside_a_png(tmp_path, drawn):
    drawn.save(tmp_path / "a.png")
    content = bytearray((tmp_path / "a.png").read_bytes())
    start = content.index(b"IDAT") + 6
    content[start : start + 6] = b"\xff" * 6
    with pytest.raises(UnreadableImage, match="truncated or damaged"):
        decode_image(bytes(content), "a.png")


def claiming(width, height):
    """A PNG that claims so many pixels and holds none: decoding it would fail."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"")


@pytest.mark.parametrize(("width", "height"), [(10_000, 10_000), (12_000, 9_000), (60_000, 60_000)])
def test_bomb_is_refused_from_its_header(tmp_path, width, height, recwarn):
    (tmp_path / "bomb.png").write_bytes(claiming(width, height))
    with pytest.raises(UnreadableImage, match="100 million") as error:
        open_image(tmp_path / "bomb.png")
    assert "bomb.png" in one_line(error)
    assert width * height >= MAX_PIXELS


@pytest.mark.parametrize("width", [9_500, 10_001])
def test_pillow_does_not_warn_of_bombs_too(width, recwarn):
    """Of what it calls suspicious, some is allowed here and some refused; either way one line is enough."""
    images._silence_pillow.cache_clear()
    with pytest.raises(UnreadableImage, match=r"truncated|100\.01 million pixels, expected fewer than 100 million"):
        decode_image(claiming(width, 10_000), "a.png")
    assert not recwarn.list


def test_a_strip_that_resizing_would_blow_up(tmp_path):
    """One pixel wide and 3,000 high: the shorter side at 224 would make 150 million pixels."""
    Image.new("L", (1, 3000)).save(tmp_path / "strip.png")
    with pytest.raises(UnreadableImage, match=r"strip\.png: is 1 x 3000 pixels, too narrow"):
        open_image(tmp_path / "strip.png")
    Image.new("L", (3, 3000)).save(tmp_path / "narrow.png")
    assert open_image(tmp_path / "narrow.png").size == (3, 3000)


def test_greyscale_and_greyscale_with_alpha(tmp_path):
    grey = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10
    Image.fromarray(grey).save(tmp_path / "grey.png")
    Image.fromarray(np.dstack([grey, 255 - grey])).save(tmp_path / "alpha.png")
    assert (rgb(open_image(tmp_path / "grey.png")) == grey[..., None]).all()
    found = open_image(tmp_path / "alpha.png")
    assert found.mode == "LA"
    assert (rgb(found) == grey[..., None]).all()


def test_alpha_is_dropped_as_the_references_drop_it(tmp_path, drawn):
    seen = drawn.copy()
    seen.putalpha(0)
    seen.save(tmp_path / "a.png")
    assert (rgb(open_image(tmp_path / "a.png")) == rgb(drawn)).all()


def test_palette_with_transparency(tmp_path, drawn):
    palette = drawn.convert("P", palette=Image.Palette.ADAPTIVE, colors=2)
    palette.save(tmp_path / "a.png", transparency=0)
    found = open_image(tmp_path / "a.png")
    assert found.mode == "P"
    assert (rgb(found) == rgb(drawn)).all()


def test_cmyk(tmp_path, drawn):
    drawn.convert("CMYK").save(tmp_path / "a.tif")
    assert open_image(tmp_path / "a.tif").mode == "CMYK"
    assert np.abs(rgb(open_image(tmp_path / "a.tif")) - rgb(drawn)).max() <= 1


def test_sixteen_bits_keep_their_greys(tmp_path):
    """Pillow alone turns every value over 255, here nearly all, to white."""
    deep = (np.arange(24, dtype=np.uint16).reshape(4, 6) * 2560) + 77
    Image.fromarray(deep).save(tmp_path / "a.png")
    assert (rgb(open_image(tmp_path / "a.png")) == (deep // 256)[..., None]).all()
    Image.fromarray(deep.astype(np.int32)).save(tmp_path / "b.tif")
    assert (rgb(open_image(tmp_path / "b.tif")) == (deep // 256)[..., None]).all()


def test_floating_point_image(tmp_path):
    Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32)).save(tmp_path / "a.tif")
    assert rgb(open_image(tmp_path / "a.tif"))[0, :, 0].tolist() == [0, 128, 255]


@pytest.mark.parametrize("kind", ["gif", "webp", "png"])
def test_animation_gives_its_first_frame(tmp_path, kind, drawn):
    later = Image.new("RGB", drawn.size, (0, 255, 0))
    lossless = {"lossless": True} if kind == "webp" else {}
    drawn.save(tmp_path / f"a.{kind}", save_all=True, append_images=[later, later], **lossless)
    found = rgb(open_image(tmp_path / f"a.{kind}"))
    assert np.abs(found - rgb(drawn)).max() <= 2


def test_exif_is_left_alone_unless_upright_is_asked(tmp_path, drawn):
    """6 means: turn a quarter clockwise to see it upright; the left column becomes the top row."""
    exif = Image.Exif()
    exif[0x0112] = 6
    drawn.save(tmp_path / "a.png", exif=exif)
    assert open_image(tmp_path / "a.png").size == (6, 4)
    turned = open_image(tmp_path / "a.png", upright=True)
    assert turned.size == (4, 6)
    assert (rgb(turned) == np.rot90(rgb(drawn), k=-1)).all()


def test_upright_leaves_an_image_without_the_tag(tmp_path, drawn):
    drawn.save(tmp_path / "a.png")
    assert (rgb(open_image(tmp_path / "a.png", upright=True)) == rgb(drawn)).all()


def test_an_image_of_32_bits_keeps_its_levels(tmp_path):
    # Levels of 20 bits: 2^20 − 1 is white, a quarter of it is 63.
    levels = np.array([[0, 2**18, 2**20 - 1]], np.int32)
    Image.fromarray(levels).save(tmp_path / "deep.tif")
    assert np.asarray(open_image(tmp_path / "deep.tif")).tolist() == [[0, 64, 255]]


@pytest.mark.parametrize(
    ("file", "key", "name"),
    [
        ("COCO_val2014_000000001000.webp", "1000", None),
        ("000000001000.jpg", "1000", None),
        ("COCO_train2014_000000001000.jpg", "7", "1000"),
        ("1000.png", "1000", None),
        ("dog.png", "x", "somewhere/dog.jpg"),
        ("val/dog.png", "x", "val/dog.png"),
    ],
)
def test_names_by_which_an_image_is_found(tmp_path, file, key, name):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    (tmp_path / "other_000000002000.jpg").touch()
    assert images.find_images(tmp_path, [key], [name]) == (str(tmp_path / file),)


def test_a_folder_without_the_images_says_what_was_tried_and_what_it_holds(tmp_path):
    tried = "looked for 11.jpg (.png, .webp, …), 000000000011.jpg, COCO_…_000000000011.jpg, found"

    def message(key):
        with pytest.raises(InputError) as error:
            images.find_images(tmp_path, [key])
        return one_line(error)

    assert message("11").endswith(f"contains no image of any item: {tried} nothing")
    (tmp_path / "notes.txt").touch()
    assert message("11").endswith("found no image, but 1 other file, such as notes.txt")
    (tmp_path / "val2014").mkdir()
    assert message("11").endswith("found no image itself, but 1 folder, such as val2014: name one of them")
    for name in ("b.jpg", "c.jpg"):
        (tmp_path / name).touch()
    assert message("dog.jpg").endswith("looked for dog.jpg, found 2 images, such as b.jpg")
