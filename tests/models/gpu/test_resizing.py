"""Images resized as on a GPU have Pillow's pixels, all of them; here the products run on the CPU."""

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from captious.models._gpu import resizing
from captious.models._gpu.resizing import DecodeOnly, FlatImages, GpuResizer, SideWeights, is_exact_on
from captious.models._preprocess import ImagePreprocessing

CPU = torch.device("cpu")


def noise(width, height, seed=0):
    """Noise has the largest sums, and every weight matters."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def resize(preparation, images, planar=False):
    """Squares of images, which lie in memory with a gap of seven bytes before each."""
    laid = [np.moveaxis(image, 2, 0) if planar else image for image in images]
    ends = np.cumsum([7 + image.size for image in images])
    starts, sizes = ends - [image.size for image in images], np.array([image.shape[1::-1] for image in images])
    behind = np.full(resizing.count_padding_bytes(sizes), 55, np.uint8)
    flat = np.concatenate([*(np.append(np.full(7, 99, np.uint8), image) for image in laid), behind])
    squares = GpuResizer(preparation, CPU)(FlatImages(torch.from_numpy(flat), starts, sizes, planar))
    return squares.transpose(2, 3).numpy()


def some_sizes(preparation, number, seed):
    """Sizes at random that are left to a GPU."""
    chance, leaves = np.random.default_rng(seed), DecodeOnly(preparation).is_left_to_gpu
    drawn = ((int(width), int(height)) for width, height in chance.integers(10, 1300, (100 * number, 2)))
    return [size for size in drawn if leaves(*size)][:number]


@pytest.mark.parametrize("order", ["crop-first", "rgb-first"])
@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("resample", ["bicubic", "bilinear"])
def test_every_pixel_is_pillows(resample, squash, order):
    preparation = ImagePreprocessing(resample=resample, squash=squash, order=order)
    sizes = [(640, 480), (480, 640), (225, 224), (224, 448), (90, 60), (1024, 1024), (1344, 300)]
    chosen = [size for size in sizes if DecodeOnly(preparation).is_left_to_gpu(*size)] + some_sizes(preparation, 12, 1)
    images = [noise(*size, seed) for seed, size in enumerate(chosen)]
    for planar in (False, True):
        for image, square in zip(images, resize(preparation, images, planar), strict=True):
            assert np.array_equal(square, preparation.prepare(Image.fromarray(image))), image.shape


def test_extremes_of_scale_and_brightness_are_exact():
    """The largest sums: white and checkered images, shrunk as far as is allowed."""
    preparation = ImagePreprocessing(size=32, crop=24)
    side = 32 * resizing.LARGEST_SCALE
    checkered = ((np.indices((side, side)).sum(axis=0) % 2) * 255).astype(np.uint8)
    images = [np.full((side, side, 3), 255, np.uint8), np.repeat(checkered[..., None], 3, axis=2), noise(side, side)]
    for image, square in zip(images, resize(preparation, images), strict=True):
        assert np.array_equal(square, preparation.prepare(Image.fromarray(image)))


@pytest.mark.parametrize("size", [32 * resizing.LARGEST_SCALE, 191, 100, 33, 20, 5])
def test_halves_of_weights_keep_all_sums_below_the_limit_of_single_precision(size):
    """255 times the sum of the halves of a row is the largest sum that can occur; half the last bit is added to it."""
    numbers = [torch.tensor([float(number)]).double() for number in (size, 32, 0)]
    side = SideWeights.of(*numbers, ImagePreprocessing(size=32, crop=32), size / 32)
    both = side.to_dense(size)[0].numpy()
    assert np.abs(both).max() <= 1 << 11  # which half precision and TF32 hold
    assert 255 * np.abs(both).sum(axis=1).max() + (1 << 21) < 1 << 24
    upper, lower = np.split(both.astype(np.int64), 2)
    weights = (upper << resizing.HALF) + lower
    assert np.abs(weights.sum(axis=1) - (1 << resizing.BITS)).max() <= both.shape[1]  # 1, but for rounding


def test_weights_of_a_side_that_is_halved_are_those_of_the_filter():
    """Four pixels become two. The tent of the bilinear filter is two pixels wide to either side of its center: weights
    before normalization are ¾, ¾, ¼ for the first pixel, whose center is at 1.
    """
    numbers = [torch.tensor([float(number)]).double() for number in (4, 2, 0)]
    side = SideWeights.of(*numbers, ImagePreprocessing(size=2, crop=2, resample="bilinear"), 2.0)
    upper, lower = side.to_dense(4)[0].split(2)
    shares = (upper * 2**resizing.HALF + lower) / 2**resizing.BITS
    expected = torch.tensor([[3, 3, 1, 0], [0, 1, 3, 3]]) / 7
    torch.testing.assert_close(shares, expected, rtol=0, atol=1e-6)


def test_images_are_resized_in_chunks_of_like_sizes_and_come_back_in_order(monkeypatch):
    preparation = ImagePreprocessing(size=32, crop=32)
    sizes = [(300, 200), (40, 50), (310, 190), (64, 64), (45, 48)]
    images = [noise(*size, seed) for seed, size in enumerate(sizes)]
    together = resize(preparation, images)
    monkeypatch.setattr(resizing, "CHUNK_PIXELS", 2 * 64 * 64)
    chunks = [sorted(sizes)[part] for part in resizing._split_chunks(np.array(sorted(sizes)))]
    assert chunks == [[(40, 50), (45, 48)], [(64, 64)], [(300, 200)], [(310, 190)]]
    assert np.array_equal(resize(preparation, images), together)


@pytest.mark.parametrize(
    ("picture", "whole"),
    [
        (Image.new("RGB", (640, 480)), True),
        (Image.new("RGB", (200, 400)), True),
        (Image.new("RGB", (200, 401)), False),  # some versions of Pillow resize it down first
        (Image.new("RGB", (1025, 1024)), False),
        (Image.new("RGB", (224, 224)), True),
        (Image.new("RGB", (224 * 6 + 1, 230)), False),
        (Image.new("L", (640, 480)), False),
        (Image.new("RGBA", (640, 480)), False),
    ],
    ids=["photograph", "tall", "too tall", "too large", "square", "too wide", "gray", "alpha"],
)
def test_ordinary_images_are_left_whole(picture, whole):
    prepared = DecodeOnly(ImagePreprocessing()).prepare(picture)
    if whole:
        assert prepared.block.tobytes() == picture.tobytes() and prepared[1:] == (0, *picture.size)
    else:
        assert np.array_equal(prepared, ImagePreprocessing().prepare(picture))


@pytest.mark.parametrize("setting", ["autocast", "default dtype"])
def test_what_a_training_loop_sets_does_not_move_a_pixel(setting):
    preparation = ImagePreprocessing(size=32, crop=32)
    image = noise(150, 90)
    dtype = torch.get_default_dtype()
    try:
        if setting == "default dtype":
            torch.set_default_dtype(torch.float64)
        with torch.autocast("cpu", torch.bfloat16, enabled=setting == "autocast"):
            (square,) = resize(preparation, [image])
    finally:
        torch.set_default_dtype(dtype)
    assert np.array_equal(square, preparation.prepare(Image.fromarray(image)))


def test_a_device_is_tried_against_pillow_first(monkeypatch):
    preparation = ImagePreprocessing(size=48, crop=40)
    assert is_exact_on(preparation, CPU)
    assert not is_exact_on(ImagePreprocessing(resample="lanczos"), CPU)
    real = ImagePreprocessing.prepare
    monkeypatch.setattr(ImagePreprocessing, "prepare", lambda *arguments: real(*arguments) ^ 1)  # it rounds differently
    is_exact_on.cache_clear()
    assert not is_exact_on(preparation, CPU)
    is_exact_on.cache_clear()
