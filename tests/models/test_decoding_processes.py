"""Images read in processes of their own come out as those read here."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from captious.captions import ImageData
from captious.models import decoding, pipeline
from captious.models._gpu.resizing import DecodeOnly
from captious.models._preprocess import ImagePreprocessing
from captious.models.decoding import DECODERS, DecodedImage, DecodingProcess, accept_all, decode
from captious.models.pipeline import encode_image_batches
from captious.models.segments import hash_content
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
            expected = decode(path, PREPARATION, lambda key, wanted=wanted: wanted, False)
            assert same(process([path], lambda key, wanted=wanted: wanted)[0], expected)
    assert [image.pixels.shape for image in process(paths[:2], accept_all)] == [(16, 16, 3)] * 2


def test_an_image_that_brings_its_decoder_down_costs_that_image_alone(paths, process):
    def crash(key):
        process.child.process.kill()
        process.child.process.wait()
        return True

    (found,) = process(paths[:1], crash)
    assert found.pixels is None and "crashed its decoder" in found.fault
    assert found.key == hash_content(Path(paths[0]).read_bytes())
    assert process(paths[1:2], accept_all)[0].pixels is not None


def test_of_several_images_only_the_one_that_crashes_is_lost(paths, process):
    images = process([paths[0], Bomb(), paths[1]], accept_all)
    assert [image.pixels is not None for image in images] == [True, False, True]
    assert "crashed its decoder" in images[1].fault


def test_after_a_crash_no_content_is_asked_for_again(paths, process):
    """Asked again, it would be taken for that of another file, which is encoded already."""
    claimed = []

    def wanted(key):
        if len(claimed) == 1:
            process.child.kill()
        claimed.append(key)
        return claimed.count(key) == 1

    images = process(paths[:3], wanted)
    assert all(image.pixels is not None and image.fault is None for image in images)
    assert claimed == [hash_content(Path(path).read_bytes()) for path in paths[:3]]


def test_a_process_that_crashed_is_waited_for(process, paths):
    process([Bomb()], accept_all)
    assert process.crashed and process.has_started()
    assert process(paths[:1], accept_all)[0].fault is None


def test_an_error_of_the_store_is_no_crash(process, paths):
    def broken(key):
        raise OSError("no store")

    with pytest.raises(OSError, match="no store"):
        process(paths[:2], broken)


class Bomb(ImageData):
    """An image that ends the process to which it is sent."""

    def __init__(self):
        super().__init__(b"", "bomb")

    def __reduce__(self):
        return os._exit, (3,)


def test_whole_images_come_through_shared_memory_or_through_the_pipe(paths, monkeypatch):
    whole = DecodeOnly(PREPARATION)
    expected = [np.asarray(Image.open(path)) for path in paths]

    def decoded():
        process, copies = DecodingProcess(whole, False), []
        try:
            images = process(paths, accept_all, lambda block: copies.append(len(block)) or block.copy())
        finally:
            process.close()
        for image, pixels in zip(images, expected, strict=True):
            block, start, width, height = image.pixels
            assert (width, height) == pixels.shape[1::-1]
            assert np.array_equal(block[start : start + pixels.size].reshape(pixels.shape), pixels)
        return copies

    assert decoded() == [sum(pixels.size for pixels in expected)]
    monkeypatch.delattr(os, "memfd_create")
    assert decoded() == [pixels.size for pixels in expected]


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
            batches = list(encode_image_batches(Sums(), images))
        assert [index for batch in batches for index in batch.indices] == list(range(6))
        return np.concatenate([batch.features for batch in batches])

    here = rows()
    started = []
    monkeypatch.setattr(pipeline, "MANY_IMAGES", 6)
    monkeypatch.setattr(DecodingProcess, "has_started", lambda self: True)
    monkeypatch.setattr(DECODERS, "start", lambda *setup: started.append(DecodingProcess(*setup)) or started[-1])
    assert np.array_equal(rows(), here)
    assert len(started) == 4 and all(process.child.process.poll() is not None for process in started)


def test_bytes_in_memory_are_decoded_in_a_process_and_only_where_they_are_wanted(paths, monkeypatch, tmp_path):
    images = [ImageData(Path(path).read_bytes(), path) for path in paths] + [ImageData(b"no image", "broken")]
    sent = []
    real = DecodingProcess.__call__
    monkeypatch.setattr(pipeline, "MANY_IMAGES", 1)
    monkeypatch.setattr(
        DecodingProcess, "__call__", lambda self, *arguments: sent.extend(arguments[0]) or real(self, *arguments)
    )
    monkeypatch.setattr(DecodingProcess, "has_started", lambda self: True)
    left_out = hash_content(images[2].value)
    with using(Runtime(batch=4, workers=4)):
        (first, second) = encode_image_batches(Sums(), images, lambda key: key != left_out)
    decoded = first.images + second.images
    assert sorted(map(str, sent)) == sorted(str(image) for image in images if image is not images[2])
    assert [image.pixels is None for image in decoded] == [False, False, True, False, False, False, True]
    assert decoded[2].fault is None and decoded[6].fault.startswith("broken: is not an image")
    assert all(isinstance(image.value, bytes) for image in images)


def test_threads_decode_by_themselves_until_the_processes_have_started(paths, monkeypatch):
    monkeypatch.setattr(DecodingProcess, "has_started", lambda self: False)
    monkeypatch.setattr(DecodingProcess, "__call__", None)  # nobody may call it
    encoder = SimpleNamespace(preparation=PREPARATION, prepare=PREPARATION.prepare)
    with decoding.open_decoder(encoder, False, decoding.MANY_THREADS) as through:
        images = through(paths, accept_all)
    assert all(
        same(image, decode(path, PREPARATION, accept_all, False)) for path, image in zip(paths, images, strict=True)
    )


def test_a_process_says_when_it_has_started(process, paths):
    while not process.has_started():
        time.sleep(0.01)
    assert process(paths[:1], accept_all)[0].fault is None and process.has_started()


def test_decoding_processes_are_kept_for_the_next_images_where_that_is_asked_for(paths):
    """A worker that scores shard after shard starts them once."""
    encoder = SimpleNamespace(preparation=PREPARATION, prepare=PREPARATION.prepare)
    lists = []
    try:
        DECODERS.keep()
        for _ in range(2):
            with decoding.open_decoder(encoder, False, decoding.MANY_THREADS) as through:
                assert through(paths[:1], accept_all)[0].fault is None
            lists.append([process.child.process for process in DECODERS.idle])
    finally:
        DECODERS.close()
    assert lists[0] == lists[1]
    assert all(process.poll() is not None for process in lists[0])
    assert not DECODERS.idle and not DECODERS.keeps


def test_files_that_a_gpu_decodes_come_back_as_they_are(paths, tmp_path):
    jpeg = tmp_path / "photo.jpg"
    Image.open(paths[0]).save(jpeg)
    process = DecodingProcess(DecodeOnly(PREPARATION), False, True)
    try:
        file, other = process([str(jpeg), paths[1]], accept_all)
    finally:
        process.close()
    assert file.pixels == jpeg.read_bytes()
    assert (other.pixels.width, other.pixels.height) == Image.open(paths[1]).size


def test_a_process_is_asked_also_where_many_files_are_open(paths):
    """select.select refuses descriptors from 1,024 on."""
    resource = pytest.importorskip("resource")
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 1200:
        pytest.skip("this system allows too few open files")
    files = [os.open(paths[0], os.O_RDONLY) for _ in range(1050)]
    try:
        process = DecodingProcess(PREPARATION, False)
        try:
            assert process.child.pipes.incoming.fileno() >= 1024
            process.has_started()
            assert process(paths[:1], accept_all)[0].fault is None
        finally:
            process.close()
    finally:
        for file in files:
            os.close(file)
