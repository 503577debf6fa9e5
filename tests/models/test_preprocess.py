"""Pixels as the references prepare them: torchvision's rounding written out, and transformers' own processor."""

import json

import numpy as np
import pytest
from PIL import Image

from captious.errors import InputError
from captious.models._preprocess import CLIP_MEAN, CLIP_STD, ImagePreprocessing

SIZES = [
    (640, 427),
    (427, 640),
    (333, 500),
    (225, 226),
    (226, 225),
    (224, 224),
    (224, 229),
    (31, 1000),
    (7, 5),
    (300, 301),
]


def photograph(width, height, mode="RGB"):
    bands = {"RGB": 3, "RGBA": 4, "CMYK": 4, "L": 1, "LA": 2}[mode]
    noise = np.random.default_rng(width * height).integers(0, 256, (height, width, bands), np.uint8)
    return (
        Image.fromarray(noise.squeeze(), mode)
        if bands in (1, 3)
        else Image.frombytes(mode, (width, height), noise.tobytes())
    )


def torchvision_by_hand(picture, size=224):
    """Resize(224, BICUBIC), CenterCrop(224), convert: the rules as torchvision documents them."""
    width, height = picture.size
    short, long = min(width, height), max(width, height)
    long = int(size * long / short)
    resized = (size, long) if width <= height else (long, size)
    picture = picture.resize(resized, Image.BICUBIC)
    left, top = (int(np.round((side - size) / 2.0)) for side in resized)
    return np.asarray(picture.crop((left, top, left + size, top + size)).convert("RGB"))


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_crop_first_is_torchvisions(width, height):
    picture = photograph(width, height)
    found = ImagePreprocessing().prepare(picture)
    assert found.shape == (224, 224, 3)
    assert found.dtype == np.uint8
    assert np.array_equal(found, torchvision_by_hand(picture))


@pytest.mark.parametrize("mode", ["RGBA", "CMYK", "L", "LA"])
def test_crop_first_resizes_in_the_images_own_mode(mode):
    picture = photograph(301, 247, mode)
    assert np.array_equal(ImagePreprocessing().prepare(picture), torchvision_by_hand(picture))


def test_palette_is_resized_to_the_nearest_pixel_crop_first_and_smoothly_rgb_first():
    picture = photograph(301, 247).convert("P", palette=Image.Palette.ADAPTIVE, colors=4)
    colors = set(map(tuple, np.asarray(picture.convert("RGB")).reshape(-1, 3)))
    first = set(map(tuple, ImagePreprocessing().prepare(picture).reshape(-1, 3)))
    assert first <= colors
    smooth = ImagePreprocessing(order="rgb-first").prepare(picture)
    assert len(set(map(tuple, smooth.reshape(-1, 3)))) > 100


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_rgb_first_is_transformers_own_processor(width, height, mode):
    clip = pytest.importorskip("transformers.models.clip.image_processing_pil_clip")
    picture = photograph(width, height, mode)
    theirs = clip.CLIPImageProcessorPil()(picture, return_tensors="np", do_normalize=False, do_rescale=False)
    ours = ImagePreprocessing(order="rgb-first").prepare(picture)
    assert np.array_equal(ours.transpose(2, 0, 1), np.asarray(theirs["pixel_values"][0]).astype(np.uint8))


def test_rgb_first_drops_alpha():
    """So did ``transformers`` 4; version 5 lays the image on white, the references of the metrics never do."""
    picture = photograph(300, 301, "RGBA")
    rgb = ImagePreprocessing(order="rgb-first")
    assert np.array_equal(rgb.prepare(picture), rgb.prepare(Image.fromarray(np.asarray(picture)[..., :3])))


def test_the_two_orders_differ_by_a_pixel_where_the_margin_is_odd():
    """227 − 224 = 3: torchvision starts at round(1.5) = 2, transformers at 3 // 2 = 1; 225: round(.5) = 0 and 0."""
    first, rgb = ImagePreprocessing(), ImagePreprocessing(order="rgb-first")
    assert (first.offset(227), rgb.offset(227)) == (2, 1)
    assert (first.offset(225), rgb.offset(225)) == (0, 0)


def test_resize_larger_than_crop_and_squash():
    picture = photograph(400, 300)
    found = ImagePreprocessing(size=256, crop=224).prepare(picture)
    whole = picture.resize((int(256 * 400 / 300), 256), Image.BICUBIC)
    left, top = round((341 - 224) / 2), 16
    assert np.array_equal(found, np.asarray(whole)[top : top + 224, left : left + 224])
    squashed = ImagePreprocessing(size=64, crop=64, squash=True, resample="bilinear").prepare(picture)
    assert np.array_equal(squashed, np.asarray(picture.resize((64, 64), Image.BILINEAR)))


def test_saved_and_read_again(tmp_path):
    for made in (
        ImagePreprocessing(),
        ImagePreprocessing(256, 224, "bilinear", (0.5, 0.5, 0.5), (0.2, 0.3, 0.4), "rgb-first"),
        ImagePreprocessing(64, 64, squash=True),
    ):
        made.save(tmp_path)
        assert ImagePreprocessing.read(tmp_path) == made
        assert ImagePreprocessing.read(tmp_path).text == made.text


def test_files_as_people_have_them(tmp_path):
    """OpenAI's first hub file writes plain numbers; DINOv2's crops less than it resizes; SigLIP's only resizes."""
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps({"crop_size": 224, "size": 224, "resample": 3, "do_center_crop": True}))
    assert ImagePreprocessing.read(tmp_path) == ImagePreprocessing(order="rgb-first")
    path.write_text(
        json.dumps(
            {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}, "image_mean": [0.1, 0.2, 0.3]}
        )
    )
    assert ImagePreprocessing.read(tmp_path) == ImagePreprocessing(
        256, 224, mean=(0.1, 0.2, 0.3), std=CLIP_STD, order="rgb-first"
    )
    path.write_text(json.dumps({"size": {"height": 224, "width": 224}, "do_center_crop": None, "do_normalize": False}))
    assert ImagePreprocessing.read(tmp_path) == ImagePreprocessing(
        mean=(0, 0, 0), std=(1, 1, 1), order="rgb-first", squash=True
    )
    path.unlink()
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": {"size": {"shortest_edge": 32}}}))
    assert ImagePreprocessing.read(tmp_path) == ImagePreprocessing(32, 32, order="rgb-first")


def test_a_folder_that_says_nothing(tmp_path):
    assert ImagePreprocessing.read(tmp_path, ImagePreprocessing(32, 32)) == ImagePreprocessing(32, 32)
    with pytest.raises(InputError, match="preprocessor_config"):
        ImagePreprocessing.read(tmp_path)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"size": "large"}', '{"size": {"height": 2, "width": 3}}', '{"resample": 9}']
)
def test_a_file_that_is_wrong_is_named(tmp_path, content):
    (tmp_path / "preprocessor_config.json").write_text(content)
    with pytest.raises(InputError, match=r"preprocessor_config\.json") as error:
        ImagePreprocessing.read(tmp_path)
    assert "\n" not in str(error.value)


def test_text_tells_preparations_apart():
    every = [
        ImagePreprocessing(),
        ImagePreprocessing(order="rgb-first"),
        ImagePreprocessing(size=256),
        ImagePreprocessing(std=CLIP_MEAN),
    ]
    assert len({preparation.text for preparation in every}) == 4


@pytest.mark.parametrize("wrong", [{"resample": "cubic"}, {"order": "rgb"}, {"crop": 300}, {"crop": 0}])
def test_wrong_settings(wrong):
    with pytest.raises(InputError):
        ImagePreprocessing(**wrong)
