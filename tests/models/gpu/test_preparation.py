"""What a GPU prepares: whole images, and JPEG files with ``decode=fast``; which they are, and where the option shows.

The GPU's own decoder is not here; a test that needs pictures on a device puts them there with Pillow.
"""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from captious.errors import InputError
from captious.io.images import is_plain_jpeg
from captious.models import pipeline
from captious.models._gpu.preparation import GpuPreparation, make_gpu_preparation
from captious.models._preprocess import ImagePreprocessing
from captious.models.decoding import SENT, DecodingProcess, WholeImage, accept_all, decode
from captious.models.encoder import encoder_id
from captious.models.features import get_image_kind, image_features
from captious.models.loading import load
from captious.options import Runtime, using


def photograph(width=320, height=200, seed=0):
    """A smooth picture with some grain."""
    chance = np.random.default_rng(seed)
    smooth = Image.fromarray(chance.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((width, height))
    grain = chance.integers(-8, 9, (height, width, 1))
    return Image.fromarray((np.asarray(smooth, np.int16) + grain).clip(0, 255).astype(np.uint8))


def saved(picture, **options):
    stream = io.BytesIO()
    picture.save(stream, "JPEG", **options)
    return stream.getvalue()


TURNED = Image.Exif()
TURNED[0x0112] = 6  # a quarter turn


@pytest.mark.parametrize(
    ("content", "plain"),
    [
        (saved(photograph()), True),
        (saved(photograph(), progressive=True), True),
        (saved(photograph()) + b"\0\0", True),
        (saved(photograph().convert("L")), False),
        (saved(photograph().convert("CMYK")), False),
        (saved(photograph())[:-400], False),
        (saved(Image.new("RGB", (2001, 1))), False),  # too narrow a strip
        (b"\xff\xd8\xff\xd9", False),
        (b"", False),
    ],
    ids=["baseline", "progressive", "padded", "gray", "CMYK", "cut", "strip", "no frame", "empty"],
)
def test_whole_color_jpegs_are_plain(content, plain):
    assert is_plain_jpeg(content) is plain


def test_a_jpeg_that_may_have_to_be_turned_is_left_to_pillow():
    turned = saved(photograph(), exif=TURNED)
    assert is_plain_jpeg(turned) and not is_plain_jpeg(turned, upright=True)


def test_only_plain_jpegs_stay_files(tmp_path):
    preparation = ImagePreprocessing(size=32, crop=32)
    plain, gray = tmp_path / "plain.jpg", tmp_path / "gray.jpg"
    plain.write_bytes(saved(photograph()))
    gray.write_bytes(saved(photograph().convert("L")))
    assert decode(str(plain), preparation, accept_all, False, keep_jpeg=True).pixels == plain.read_bytes()
    kept = decode(str(gray), preparation, accept_all, False, keep_jpeg=True)
    assert np.array_equal(kept.pixels, decode(str(gray), preparation, accept_all, False).pixels)


@pytest.fixture
def ready():
    """The preparation of a GPU, with its tensors on the CPU."""
    return GpuPreparation(ImagePreprocessing(size=32, crop=32), torch.device("cpu"))


def whole(picture):
    return WholeImage(np.array(picture).reshape(-1), 0, *picture.size)


def test_a_batch_mixes_squares_whole_images_and_files_and_loses_only_what_is_broken(ready):
    prepare = ready.decode_only.preparation.prepare
    pictures = [photograph(seed=seed) for seed in range(3)]
    decoded = Image.open(io.BytesIO(saved(pictures[2])))
    images = [
        prepare(pictures[0]),
        whole(pictures[1]),
        ready._decode_by_pillow(saved(pictures[2])),
        ready._decode_by_pillow(b"\xff\xd8\xff\xd9"),
    ]
    squares, broken = ready.make_squares(images)
    assert (squares.shape, squares.dtype, broken) == ((4, 32, 32, 3), torch.uint8, [3])
    for square, picture in zip(squares.numpy(), [*pictures[:2], decoded], strict=False):
        assert np.array_equal(square, prepare(picture))


def test_whole_images_of_one_block_are_told_apart(ready):
    pictures = [photograph(90 + 30 * seed, 80, seed) for seed in range(3)]
    arrays = [np.array(picture).reshape(-1) for picture in pictures]
    block = np.concatenate([np.full(11, 77, np.uint8), *arrays])
    starts = 11 + np.cumsum([0, *(array.size for array in arrays[:-1])])
    images = [WholeImage(block, int(start), *one.size) for start, one in zip(starts, pictures, strict=True)]
    squares, _ = ready.make_squares([images[2], images[0], whole(pictures[1])])
    assert np.array_equal(squares.numpy(), [ready.decode_only.preparation.prepare(pictures[n]) for n in (2, 0, 1)])


def test_whole_images_alone_come_in_their_order(ready):
    pictures = [photograph(120 + 40 * seed, 90, seed) for seed in (2, 0, 1)]
    squares, broken = ready.make_squares(list(map(whole, pictures)))
    assert np.array_equal(squares.numpy(), [ready.decode_only.preparation.prepare(picture) for picture in pictures])
    assert not broken


class OnGpu:
    """An encoder whose vectors are sums of pixels, as if it were on a GPU."""

    name, dimension, device, preparation = "sums", 3, "cuda", ImagePreprocessing(size=32, crop=32)

    def text_tensor(self, ids):
        raise NotImplementedError

    def pixels_to_tensor(self, pixels):
        return pixels.float()

    def image_tensor(self, pixels):
        return pixels.sum(dim=(1, 2))


@pytest.mark.parametrize("many", [False, True], ids=["threads", "processes"])
def test_vectors_are_those_of_squares_that_pillow_prepares(ready, monkeypatch, tmp_path, many):
    monkeypatch.setattr(pipeline, "make_gpu_preparation", lambda encoder, decode: ready)
    monkeypatch.setattr(pipeline, "MANY_IMAGES", 20 if many else 1000)
    monkeypatch.setattr(DecodingProcess, "has_started", lambda self: True)
    pictures = [photograph(64 + 8 * seed, 64, seed).convert("L" if seed % 5 == 0 else "RGB") for seed in range(20)]
    paths = [str(tmp_path / f"{seed}.png") for seed in range(20)]
    for picture, path in zip(pictures, paths, strict=True):
        picture.save(path)
    with using(Runtime(batch=6, workers=4)):
        batches = list(pipeline.encode_image_batches(OnGpu(), paths))
    squares = np.stack([OnGpu.preparation.prepare(picture) for picture in pictures])
    assert np.array_equal(np.concatenate([batch.features for batch in batches]), squares.sum(axis=(1, 2)))
    assert all(image.pixels is SENT for batch in batches for image in batch.images)


def test_an_image_that_no_decoder_reads_has_a_vector_that_is_not_finite(ready):
    images = [ready._decode_by_pillow(content) for content in (saved(photograph()), b"\xff\xd8\xff\xd9")]
    assert np.isfinite(pipeline.make_image_start(OnGpu(), ready)(images)()).all(axis=1).tolist() == [True, False]


def test_the_option_needs_a_gpu_and_a_filter_that_torch_has(tmp_path):
    path = tmp_path / "photo.jpg"
    path.write_bytes(saved(photograph()))
    with (
        using(Runtime(decode="fast")),
        pytest.raises(InputError, match="runs on cpu, expected a model of torch on a GPU"),
    ):
        image_features(load("captious-mini"), [str(path)])
    lanczos = ImagePreprocessing(resample="lanczos")
    network = SimpleNamespace(name="vit", device="cuda:0", preparation=lanczos, text_tensor=None)
    with pytest.raises(InputError, match="vit resizes with lanczos, expected bicubic or bilinear"):
        make_gpu_preparation(network, "fast")
    assert make_gpu_preparation(network, "exact") is None


def test_signature_and_cache_say_how_images_were_decoded():
    encoder = SimpleNamespace(name="vit", fingerprint="abc")
    assert (encoder_id(encoder), get_image_kind("images")) == ("vit#abc", "images")
    with using(Runtime(upright=True)):
        assert (encoder_id(encoder), get_image_kind("images")) == ("vit#abc,upright", "images-upright")
    with using(Runtime(decode="fast")):
        assert (encoder_id(encoder), get_image_kind("states")) == ("vit#abc,fast", "states-fast")
