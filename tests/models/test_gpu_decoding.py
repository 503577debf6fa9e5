"""JPEG files that a GPU decodes: which they are, how near its pixels are to Pillow's, and where the option shows.

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
from captious.models._gpu_decoding import GpuPreparation, resized
from captious.models._preprocess import ImagePreprocessing
from captious.models.decoding import always, decode
from captious.models.encoder import encoder_id
from captious.models.features import image_features, image_kind
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
    prepare = ImagePreprocessing(size=32, crop=32).prepare
    plain, gray = tmp_path / "plain.jpg", tmp_path / "gray.jpg"
    plain.write_bytes(saved(photograph()))
    gray.write_bytes(saved(photograph().convert("L")))
    assert decode(str(plain), prepare, always, False, keep_jpeg=True).pixels == plain.read_bytes()
    kept = decode(str(gray), prepare, always, False, keep_jpeg=True)
    assert np.array_equal(kept.pixels, decode(str(gray), prepare, always, False).pixels)


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("resample", ["bicubic", "bilinear"])
@pytest.mark.parametrize("size", [(640, 427), (300, 500), (90, 60), (224, 224)])
def test_resizing_is_pillows_within_two_levels(size, resample, squash):
    preparation = ImagePreprocessing(resample=resample, squash=squash)
    picture = photograph(*size)
    ours = resized(torch.from_numpy(np.array(picture)).permute(2, 0, 1), preparation).clamp(0, 255).round()
    gaps = np.abs(ours.permute(1, 2, 0).numpy() - preparation.prepare(picture).astype(np.float32))
    assert gaps.max() <= 2 and gaps.mean() < 0.3


def preparation_on_cpu():
    """What a GPU would have, with its tensors on the CPU."""
    ready = GpuPreparation.__new__(GpuPreparation)
    ready.preparation, ready.device = ImagePreprocessing(size=32, crop=32), torch.device("cpu")
    return ready


def test_a_batch_mixes_files_and_pixels_and_loses_only_what_is_broken():
    ready = preparation_on_cpu()
    prepared = ready.preparation.prepare(photograph(seed=1))
    file = ready._decoded_alone(saved(photograph(seed=2)))
    broken = ready._decoded_alone(b"\xff\xd8\xff\xd9")
    squares = ready.resize([prepared, file, broken]).numpy()
    assert squares.shape == (3, 32, 32, 3)
    assert np.array_equal(squares[0], prepared)
    assert np.abs(squares[1] - ready.preparation.prepare(Image.open(io.BytesIO(saved(photograph(seed=2)))))).max() <= 2
    assert np.isnan(squares[2]).all()


def test_the_option_needs_a_gpu_and_a_filter_that_torch_has(tmp_path):
    path = tmp_path / "photo.jpg"
    path.write_bytes(saved(photograph()))
    with (
        using(Runtime(decode="fast")),
        pytest.raises(InputError, match="runs on cpu, expected a model of torch on a GPU"),
    ):
        image_features(load("captious-mini"), [str(path)])
    network = SimpleNamespace(name="vit", device="cuda:0", preparation=ImagePreprocessing(resample="lanczos"))
    with pytest.raises(InputError, match="vit resizes with lanczos, expected bicubic or bilinear"):
        GpuPreparation(network)


def test_signature_and_cache_say_how_images_were_decoded():
    encoder = SimpleNamespace(name="vit", fingerprint="abc")
    assert (encoder_id(encoder), image_kind("images")) == ("vit#abc", "images")
    with using(Runtime(upright=True)):
        assert (encoder_id(encoder), image_kind("images")) == ("vit#abc,upright", "images-upright")
    with using(Runtime(decode="fast")):
        assert (encoder_id(encoder), image_kind("states")) == ("vit#abc,fast", "states-fast")
