"""Images read in processes of their own come out as those read here."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from captious.captions import ImageData
from captious.models import decoding, pipeline
from captious.models._preprocess import ImagePreprocessing
from captious.models.decoding import DECODERS, DecodedImage, DecodingProcess, decode
from captious.models.pipeline import image_batches
from captious.models.segments import key_of
from captious.options import Runtime, using

PREPARATION = ImagePreprocessing(size=16, crop=16)


@pytest.fixture
def paths(tmp_path):
    chance = np.random.default_rng(5)
    found = []
    for place in range(6):
        path = tmp_path / f"bild ü{place}.png"
        Image.fromarray(chance.integers(0, 256, (40, 30 + place, 3), dtype=np.uint8)).save(path)
        found.append(str(path))
    return found


@pytest.fixture
def process():
    made = DecodingProcess(PREPARATION, False)
    yield made
    made.close()


def same(a: DecodedImage, b: DecodedImage) -> bool:
    pixels = a.pixels is b.pixels is None or np.array_equal(a.pixels, b.pixels)
    return pixels and (a.key, a.fault) == (b.key, b.fault)


def test_a_reader_gives_what_reading_here_gives(paths, process, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image at all")
    for path in [*paths, str(broken), str(tmp_path / "missing.png"), paths[0]]:
        for wanted in (True, False):
            expected = decode(path, PREPARATION.prepare, lambda key, wanted=wanted: wanted, False)
            assert same(process(path, lambda key, wanted=wanted: wanted), expected)
    assert process(paths[0], lambda key: True).pixels.shape == (16, 16, 3)


def test_an_image_that_brings_its_decoder_down_costs_that_image_alone(paths, process):
    def crash(key):
        process.child.process.kill()
        process.child.process.wait()
        return True

    found = process(paths[0], crash)
    assert found.pixels is None and "brought its decoder down" in found.fault
    assert found.key == key_of(open(paths[0], "rb").read())  # noqa: PTH123, SIM115
    assert process(paths[1], lambda key: True).pixels is not None


def test_a_reader_ends_when_its_pipe_is_closed():
    process = DecodingProcess(PREPARATION, False)
    process.child.process.stdin.close()
    assert process.child.process.wait(timeout=60) == 0
    process.child.process.stdout.close()


class Sums:
    """An encoder whose vectors are sums of pixels."""

    dimension, preparation = 3, PREPARATION

    def prepare(self, picture):
        return PREPARATION.prepare(picture)

    def image_features(self, pixels):
        return pixels.astype(np.float32).sum(axis=(1, 2))


@pytest.mark.parametrize("memory", [False, True], ids=["files", "bytes"])
def test_many_images_go_through_processes_with_the_same_vectors(paths, monkeypatch, memory):
    images = [ImageData(Path(path).read_bytes(), path) for path in paths] if memory else paths

    def rows():
        with using(Runtime(batch=4, workers=4)):
            batches = list(image_batches(Sums(), images))
        assert [index for batch in batches for index in batch.indices] == list(range(6))
        return np.concatenate([batch.features for batch in batches])

    here = rows()
    started = []
    monkeypatch.setattr(pipeline, "MANY_IMAGES", 6)
    monkeypatch.setattr(
        decoding, "DecodingProcess", lambda *setup: started.append(DecodingProcess(*setup)) or started[-1]
    )
    assert np.array_equal(rows(), here)
    assert len(started) == 4 and all(process.child.process.poll() is not None for process in started)


def test_bytes_in_memory_are_decoded_in_a_process_and_only_where_they_are_wanted(paths, monkeypatch, tmp_path):
    images = [ImageData(Path(path).read_bytes(), path) for path in paths] + [ImageData(b"no image", "broken")]
    sent = []
    real = DecodingProcess.__call__
    monkeypatch.setattr(pipeline, "MANY_IMAGES", 1)
    monkeypatch.setattr(
        DecodingProcess, "__call__", lambda self, *arguments: sent.append(arguments[0]) or real(self, *arguments)
    )
    left_out = key_of(images[2].value)
    with using(Runtime(batch=4, workers=4)):
        (first, second) = image_batches(Sums(), images, lambda key: key != left_out)
    decoded = first.images + second.images
    assert sorted(map(str, sent)) == sorted(str(image) for image in images if image is not images[2])
    assert [image.pixels is None for image in decoded] == [False, False, True, False, False, False, True]
    assert decoded[2].fault is None and decoded[6].fault.startswith("broken: is not an image")
    assert all(isinstance(image.value, bytes) for image in images)


def test_decoding_processes_are_kept_for_the_next_images_where_that_is_asked_for(paths):
    """A worker that scores shard after shard starts them once."""
    encoder = SimpleNamespace(preparation=PREPARATION, prepare=PREPARATION.prepare)
    lists = []
    try:
        DECODERS.keep()
        for _ in range(2):
            with decoding.file_decoder(encoder, False, decoding.MANY_THREADS) as through:
                assert through(paths[0], lambda key: True).fault is None
            lists.append([process.child.process for process in DECODERS.idle])
    finally:
        DECODERS.close()
    assert lists[0] == lists[1]
    assert all(process.poll() is not None for process in lists[0])
    assert not DECODERS.idle and not DECODERS.keeps
