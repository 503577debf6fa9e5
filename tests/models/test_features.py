"""Features through cache and pipeline: right, in order, each distinct thing encoded once, whatever goes wrong."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from captious.errors import InputError
from captious.models import decoding, features, pipeline
from captious.models import store as stores
from captious.models.encoder import Tokens
from captious.models.features import cosines, image_features, text_features
from captious.models.pipeline import OomBackoff, text_batches
from captious.options import Runtime, using

LIMIT = 8


class Fake:
    """An encoder whose vectors are plain arithmetic, and which counts what it is asked."""

    name, fingerprint, precision, dimension, limit = "fake", "00aa11bb22cc", "fp32", 3, LIMIT

    def __init__(self, room=10**9):
        self.images, self.texts, self.batches, self.room = 0, 0, [], room

    def prepare(self, picture):
        return np.asarray(picture.convert("RGB").resize((2, 2), Image.Resampling.NEAREST))

    def tokenize(self, texts):
        tokens = [[1, *(ord(letter) for letter in text), 2] for text in texts]
        cut = [ids if len(ids) <= LIMIT else [*ids[: LIMIT - 1], 2] for ids in tokens]
        wide = max(map(len, cut))
        ids = np.array([row + [0] * (wide - len(row)) for row in cut])
        return Tokens(ids, np.array(list(map(len, tokens))))

    def image_features(self, pixels):
        self._take(len(pixels))
        self.images += len(pixels)
        return pixels.astype(np.float32).mean(axis=(1, 2)) + 1

    def text_features(self, ids):
        self._take(len(ids))
        self.texts += len(ids)
        return np.stack([ids.sum(1), (ids**2).sum(1), (ids > 0).sum(1)], 1).astype(np.float32)

    def _take(self, number):
        if number > self.room:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        self.batches.append(number)


def unit(values):
    values = np.asarray(values, np.float64)
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def text_vector(text):
    ids = [1, *map(ord, text), 2]
    ids = ids if len(ids) <= LIMIT else [*ids[: LIMIT - 1], 2]
    return unit([sum(ids), sum(i * i for i in ids), len(ids)])


def vectors(encoded):
    return encoded.rows[encoded.index]


@pytest.fixture(autouse=True)
def fresh():
    """Each test is a new process as far as the stores can tell."""
    stores.close_stores()
    yield
    stores.close_stores()


@pytest.fixture
def photos(tmp_path):
    """Images of one color, settled on disk for a while."""
    folder = tmp_path / "photos"
    folder.mkdir()

    def make(name, color):
        path = folder / name
        Image.new("RGB", (5, 4), color).save(path, format="PNG")
        return str(path)

    return make


COLORS = {"red.png": (255, 0, 0), "green.png": (0, 200, 0), "grey.png": (90, 90, 90), "dark.png": (1, 2, 3)}


@pytest.fixture
def paths(photos):
    return [photos(name, color) for name, color in COLORS.items()]


def test_image_vectors_in_the_order_of_the_inputs(paths):
    asked = [paths[2], paths[0], paths[3], paths[0]]
    found = image_features(Fake(), asked)
    colors = list(COLORS.values())
    expected = unit(np.array([colors[2], colors[0], colors[3], colors[0]]) + 1)
    assert np.allclose(vectors(found), expected, atol=1e-6)
    assert found.rows.dtype == np.float32 and found.index.dtype == np.int64 and len(found.rows) == 3
    assert found.lengths.tolist() == [0, 0, 0, 0] and found.faults == {}


def test_text_vectors_with_lengths_before_truncation():
    texts = ["cat", "a long caption", "", "cat", "dog"]
    found = text_features(Fake(), texts)
    assert np.allclose(vectors(found), [text_vector(text) for text in texts], atol=1e-6)
    assert found.lengths.tolist() == [5, 16, 2, 5, 5] and len(found.rows) == 4


@pytest.mark.parametrize("on_disk", [True, False])
def test_duplicates_are_encoded_once_and_a_second_call_encodes_nothing(paths, photos, on_disk):
    twin = photos("twin.png", COLORS["red.png"])
    encoder = Fake()
    with using(Runtime(cache=on_disk)):
        first = image_features(encoder, [*paths, twin, *paths])
        text_features(encoder, ["cat", "dog", "cat"])
        assert (encoder.images, encoder.texts) == (4, 2)
        assert first.index[0] == first.index[4] == first.index[5]
        again = image_features(encoder, [twin, *paths])
        text_features(encoder, ["dog", "cat"])
    assert (encoder.images, encoder.texts) == (4, 2)
    assert np.array_equal(vectors(again)[1:], vectors(first)[:4])
    assert stores.cache_root().exists() == on_disk


def test_a_second_process_encodes_nothing_and_reads_no_image(paths, monkeypatch):
    monkeypatch.setattr(stores, "SETTLED_SECONDS", -1e9)
    first = image_features(Fake(), paths)
    text_features(Fake(), ["cat", "dog"])
    stores.close_stores()
    monkeypatch.setattr(decoding, "read_image", lambda path: pytest.fail(f"{path} was read"))
    encoder = Fake()
    second = image_features(encoder, paths)
    text_features(encoder, ["dog", "cat"])
    assert encoder.batches == [] and np.array_equal(vectors(first), vectors(second))


def test_the_same_bytes_under_another_path_are_not_encoded_in_a_second_process(paths, photos):
    image_features(Fake(), paths)
    stores.close_stores()
    encoder = Fake()
    image_features(encoder, [photos("copy.png", COLORS["grey.png"])])
    assert encoder.images == 0


def test_another_image_under_the_same_path_is_noticed(paths, photos, monkeypatch):
    monkeypatch.setattr(stores, "SETTLED_SECONDS", -1e9)
    before = image_features(Fake(), paths[:1])
    state = Path(paths[0]).stat()
    photos("red.png", (0, 0, 250))
    os.utime(paths[0], ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    encoder = Fake()
    after = image_features(encoder, paths[:1])
    assert encoder.images == 1
    assert np.allclose(vectors(after), unit([[1, 1, 251]]), atol=1e-6) and not np.allclose(before.rows, after.rows)


def test_a_file_changed_a_moment_ago_is_not_remembered(paths, monkeypatch):
    monkeypatch.setattr(stores, "SETTLED_SECONDS", 3600.0)  # a moment that no pause of this process outlasts
    assert stores.file_state(paths[0]) is None
    image_features(Fake(), paths)
    assert not (stores.cache_root() / stores.FILES.folder).exists()


def test_another_encoder_or_upright_images_have_their_own_rows(paths):
    image_features(Fake(), paths)
    other = Fake()
    other.fingerprint = "ffffffffffff"
    image_features(other, paths)
    turned = Fake()
    with using(Runtime(upright=True)):
        image_features(turned, paths)
    assert other.images == turned.images == 4


def test_nothing_in_nothing_out():
    for found in (image_features(Fake(), []), text_features(Fake(), [])):
        assert found.rows.shape == (0, 3) and found.index.shape == found.lengths.shape == (0,) and not found.faults
    assert cosines(image_features(Fake(), []), text_features(Fake(), [])).shape == (0,)


def test_images_that_cannot_be_used_have_a_reason_and_no_vector(paths, tmp_path):
    broken, copy, missing = (str(tmp_path / name) for name in ("broken.png", "copy.png", "missing.png"))
    for path in (broken, copy):
        Path(path).write_bytes(Path(paths[0]).read_bytes()[:40])
    asked = [paths[0], broken, missing, copy, paths[1], broken, str(tmp_path)]
    found = image_features(Fake(), asked)
    assert (found.index >= 0).tolist() == [True, False, False, False, True, False, False]
    assert set(found.faults) == {1, 2, 3, 5, 6}
    for place, reason in found.faults.items():
        assert reason.startswith(f"{asked[place]}: ") and "\n" not in reason
    assert "no such image" in found.faults[2]
    texts = text_features(Fake(), ["cat"] * 7)
    values = cosines(found, texts)
    assert np.isnan(values).tolist() == [False, True, True, True, False, True, True]
    assert values[0] == pytest.approx(unit([256, 1, 1]) @ text_vector("cat"), abs=1e-6)


def test_a_copy_of_a_broken_image_has_the_same_reason(paths, tmp_path):
    """Only the first copy is decoded; the others are not said to have "a vector that is not finite"."""
    copies = [str(tmp_path / f"copy-{number}.png") for number in range(4)]
    for path in copies:
        Path(path).write_bytes(Path(paths[0]).read_bytes()[:40])
    found = image_features(Fake(), [paths[0], *copies])
    reasons = {found.faults[place + 1].removeprefix(f"{path}: ") for place, path in enumerate(copies)}
    assert len(reasons) == 1 and "finite" not in reasons.pop()


def test_a_vector_that_is_not_finite_is_a_fault_and_is_not_kept():
    class Broken(Fake):
        def text_features(self, ids):
            return np.where(ids[:, 1:2] == ord("n"), np.nan, super().text_features(ids)).astype(np.float32)

    found = text_features(Broken(), ["cat", "nan"])
    assert found.index.tolist() == [0, -1] and "not finite" in found.faults[1]
    encoder = Fake()
    assert text_features(encoder, ["cat", "nan"]).faults == {}
    assert encoder.texts == 1


def test_texts_are_encoded_with_others_of_their_length_and_results_keep_their_order():
    texts = ["x" * (place % 9) + str(place) for place in range(40)]
    encoder = Fake()
    with using(Runtime(batch=4, cache=False)):
        batches = list(text_batches(encoder, texts))
    for batch in batches:
        expected = [text_vector(texts[index]) for index in batch.indices]
        assert np.allclose(unit(batch.features), expected, atol=1e-6)
    assert sorted(index for batch in batches for index in batch.indices) == list(range(40))
    groups = list(pipeline._by_length(texts, 4, LIMIT))
    lengths = [[len(texts[place]) for place in group] for group in groups]
    flat = [length for group in lengths for length in group]
    assert flat == sorted(flat, reverse=True) and sorted(place for group in groups for place in group) == list(
        range(40)
    )


def test_short_texts_come_in_larger_batches():
    sizes = [len(group) for group in pipeline._by_length(["x" * 600] * 3 + ["ab"] * 20, 2, 77)]
    assert sizes[0] == 2 and max(sizes) == 2 * pipeline.MOST_TEXTS


def test_a_batch_that_does_not_fit_is_halved_until_it_does(paths, photos):
    many = [photos(f"{place}.png", (place, 0, 0)) for place in range(20)]
    lines = []
    encoder = Fake(room=3)
    with using(Runtime(batch=16, log=lines.append, cache=False)):
        found = image_features(encoder, many)
    assert np.allclose(vectors(found), unit([(place + 1, 1, 1) for place in range(20)]), atol=1e-6)
    assert max(encoder.batches) <= 3 and encoder.images == 20
    assert lines == [f"out of memory with a batch of {a}: going on with {b}" for a, b in ((16, 8), (8, 4), (4, 2))]


def test_one_item_that_does_not_fit_is_said_in_one_line(paths):
    with using(Runtime(cache=False)), pytest.raises(InputError, match="even a batch of 1 does not fit into memory"):
        image_features(Fake(room=0), paths)


def test_torch_out_of_memory_is_known_and_other_errors_pass():
    torch = pytest.importorskip("torch")
    calls = []

    def begin(items, error):
        calls.append(len(items))
        if len(calls) == 1:
            raise error
        return lambda: np.asarray(items, np.float32)

    lines = []
    fetch = OomBackoff(lines.append).start(
        lambda items: begin(items, torch.cuda.OutOfMemoryError("x out of memory")), [1, 2]
    )
    assert fetch().tolist() == [1, 2] and calls == [2, 1, 1] and len(lines) == 1
    calls.clear()
    with pytest.raises(RuntimeError, match="shapes"):
        OomBackoff(lines.append).start(lambda items: begin(items, RuntimeError("shapes differ")), [1, 2])


def test_progress_counts_what_is_encoded(paths):
    seen = []
    with using(Runtime(batch=2, progress=lambda *step: seen.append(step))):
        image_features(Fake(), paths)
        text_features(Fake(), ["a", "b"])
        text_features(Fake(), ["a", "b"])
    assert seen == [("images", 2, 4), ("images", 4, 4), ("texts", 2, 2)]


def test_what_was_encoded_before_an_error_is_kept(paths, monkeypatch):
    class Fails(Fake):
        def image_features(self, pixels):
            if self.batches:
                raise RuntimeError("the device is gone")
            return super().image_features(pixels)

    with using(Runtime(batch=2)), pytest.raises(RuntimeError, match="the device is gone"):
        image_features(Fails(), paths)
    stores.close_stores()
    encoder = Fake()
    image_features(encoder, paths)
    assert encoder.images == 2


def test_a_cache_that_cannot_be_written_is_said_and_does_not_stop_the_run(paths, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(stores, "write_segment", full)
    lines = []
    encoder = Fake()
    with using(Runtime(log=lines.append)):
        found = text_features(encoder, ["cat", "dog"])
        text_features(encoder, ["cat"])
    assert np.allclose(vectors(found), [text_vector("cat"), text_vector("dog")], atol=1e-6)
    assert encoder.texts == 2 and "No space left on device" in lines[0] and "going on without it" in lines[0]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_folder(paths):
    text_features(Fake(), ["cat"])
    folder = next(stores.cache_root().iterdir())
    folder.chmod(0o500)
    stores.close_stores()
    lines, encoder = [], Fake()
    with using(Runtime(log=lines.append)):
        assert len(text_features(encoder, ["cat", "dog"]).rows) == 2
    folder.chmod(0o700)
    assert encoder.texts == 1 and "going on without it" in lines[0]


def test_a_damaged_segment_is_encoded_again(paths):
    text_features(Fake(), ["cat", "dog"])
    (folder,) = stores.cache_root().glob("*-texts")
    (segment,) = folder.iterdir()
    segment.write_bytes(segment.read_bytes()[:-20])
    stores.close_stores()
    lines, encoder = [], Fake()
    with using(Runtime(log=lines.append)):
        found = text_features(encoder, ["cat", "dog"])
    assert encoder.texts == 2 and len(lines) == 1
    assert np.allclose(vectors(found), [text_vector("cat"), text_vector("dog")], atol=1e-6)


def test_cosines_of_many_pairs_agree_with_the_plain_product():
    chance = np.random.default_rng(3)
    rows = unit(chance.normal(size=(50, 6))).astype(np.float32)
    index = chance.integers(-1, 50, (2, 10_000))
    a, b = (features.EncodedRows(rows, places, np.zeros(10_000, np.int64), {}) for places in index)
    expected = np.where((index >= 0).all(axis=0), (rows[index[0]].astype(float) * rows[index[1]]).sum(axis=1), np.nan)
    assert np.allclose(cosines(a, b), expected, atol=1e-6, equal_nan=True)


KILLED = """
import sys, time
from captious.models import store as stores
from captious.options import Runtime, using
stores.FLUSH_BYTES = 1
sys.path.insert(0, sys.argv[1])
from test_features import Fake
from captious.models.features import text_features
class Slow(Fake):
    def text_features(self, ids):
        time.sleep(0.02)
        print(len(ids), flush=True)
        return super().text_features(ids)
with using(Runtime(batch=2)):
    text_features(Slow(), [f"{place:04d}" for place in range(4000)])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_after_a_kill_only_what_is_missing_is_encoded():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parent)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    done = sum(int(process.stdout.readline()) for _ in range(12))
    process.kill()
    done += sum(map(int, process.stdout.read().split()))
    process.wait()
    encoder = Fake()
    texts = [f"{place:04d}" for place in range(4000)]
    found = text_features(encoder, texts)
    assert (
        4000 - done <= encoder.texts <= 4000 - done + 2 * 2 * pipeline.MOST_TEXTS
    )  # at most the batch in hand is lost
    assert np.allclose(vectors(found)[::97], [text_vector(text) for text in texts[::97]], atol=1e-6)
