"""Pictures of texts and their vectors, each painted and encoded once: by the cache, whoever asked first.

Pictures and vectors live in the feature cache (:mod:`captious.encoders.cache`), under the painter's fingerprint and a
key of text and seed: so a kill, a second process or a full disk can do them no harm, and ``captious cache`` shows and
prunes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captious.encoders.encoder import Encoder, Features, Pixels
from captious.encoders.pace import Fetch, Pace
from captious.encoders.runtime import current
from captious.encoders.segments import Space, as_keys, key_of
from captious.encoders.stores import open_store
from captious.imagine.painters import FAULTS, NOT_FINITE, Painted, Painter, Wish

CHUNK_BYTES = 64 << 20
"""Pictures in memory at a time."""


@dataclass(frozen=True)
class Imagined:
    """Vectors of the pictures of n texts under s seeds."""

    rows: Features
    """u × d, of unit length."""
    index: npt.NDArray[np.int64]
    """n × s: the row of each picture, −1 where there is none."""
    codes: npt.NDArray[np.int32]
    """n × s: why there is none, as in ``FAULTS``."""

    def fault(self, text: int) -> str:
        """Why a text has no picture under some seed; empty where all are there."""
        wrong = self.codes[text][self.codes[text] > 0]
        return FAULTS[int(wrong[0])] if len(wrong) else ""


def imagine(painter: Painter, encoder: Encoder, texts: Sequence[str], seeds: Sequence[int]) -> Imagined:
    """Vectors of the pictures of texts: from the cache, else from pictures in the cache, else painted."""
    distinct = list(dict.fromkeys(texts))
    wishes = [Wish(text, seed) for text in distinct for seed in seeds]
    keys = [wish_key(wish) for wish in wishes]
    store = open_store(Space(encoder.name, encoder.fingerprint, f"painted-{painter.fingerprint}", (encoder.dimension,)))
    all_keys = as_keys(keys)
    rows, codes, found = store.gather(all_keys)
    todo = np.flatnonzero(~found).tolist()
    if todo:
        pace = Pace(current().log)
        try:
            for batch in pictures(painter, [wishes[place] for place in todo]):
                places = [todo[place] for place in batch.places]
                vectors, wrong = _vectors(encoder, batch, pace)
                store.put(all_keys[places], vectors, wrong)
        finally:
            store.flush()
        rows, codes, found = store.gather(all_keys)
    store.settle()
    usable = found & (codes == 0)
    index = np.where(usable, np.cumsum(usable) - 1, -1).reshape(len(distinct), len(seeds))
    place = {text: number for number, text in enumerate(distinct)}
    spread = np.fromiter((place[text] for text in texts), np.int64, len(texts))
    return Imagined(rows[usable], index[spread], codes.reshape(index.shape)[spread])


def pictures(painter: Painter, wishes: Sequence[Wish]) -> Iterator[Painted]:
    """Pictures of distinct wishes, some at a time: from the cache where they are there, else painted and kept."""
    runtime = current()
    store = open_store(Space(painter.name, painter.fingerprint, "pictures", painter.shape, "uint8"))
    keys = as_keys(wish_key(wish) for wish in wishes)
    step = max(1, CHUNK_BYTES // int(np.prod(painter.shape)))
    todo: list[int] = []
    for start in range(0, len(wishes), step):
        pixels, codes, found = store.gather(keys[start : start + step])
        here = np.flatnonzero(found)
        if len(here):
            yield Painted((start + here).tolist(), pixels[here], codes[here])
        todo += (start + np.flatnonzero(~found)).tolist()
    done = len(wishes) - len(todo)
    try:  # all at once, so that the painter's batches are full
        for batch in painter.paint([wishes[place] for place in todo]):
            places = [todo[place] for place in batch.places]
            if painter.kept:
                store.put(keys[places], batch.pixels, batch.codes)
            done += len(places)
            runtime.progress("pictures", done, len(wishes))
            yield Painted(places, batch.pixels, batch.codes)
    finally:
        store.flush()
    store.settle()


def picture_list(painter: Painter, wishes: Sequence[Wish]) -> tuple[list[Pixels], list[int]]:
    """Pictures in the order of the wishes, equal wishes painted once, and the code of each."""
    distinct = list(dict.fromkeys(wishes))
    found: dict[Wish, tuple[Pixels, int]] = {}
    for batch in pictures(painter, distinct):
        for place, pixels, code in zip(batch.places, batch.pixels, batch.codes.tolist(), strict=True):
            found[distinct[place]] = (pixels, code)
    return [found[wish][0] for wish in wishes], [found[wish][1] for wish in wishes]


def wish_key(wish: Wish) -> bytes:
    """The key of a text and a seed; the painter's fingerprint stands in the name of the folder."""
    return key_of(f"{wish.seed}\0".encode() + wish.text.encode("utf-8", "surrogatepass"))


def _vectors(encoder: Encoder, batch: Painted, pace: Pace) -> tuple[Features, npt.NDArray[np.int32]]:
    """Vectors of unit length; zeros and a code where there is no picture, or the encoder gave nothing finite."""
    from PIL import Image

    codes = batch.codes.copy()
    vectors = np.zeros((len(codes), encoder.dimension), np.float32)
    good = np.flatnonzero(codes == 0)
    size = current().batch
    for start in range(0, len(good), size):
        part = good[start : start + size]
        prepared = np.stack([encoder.prepare(Image.fromarray(batch.pixels[place])) for place in part])
        given = np.asarray(pace.start(lambda items: _now(encoder, items), prepared)(), np.float32)
        finite = np.logical_and.reduce(np.isfinite(given), axis=1)
        norms = np.linalg.norm(given, axis=1, keepdims=True)
        vectors[part] = np.where(finite[:, None], given / np.where(norms > 0, norms, 1), 0)
        codes[part[~finite]] = NOT_FINITE
    return vectors, codes


def _now(encoder: Encoder, pixels: Pixels) -> Fetch:
    found = encoder.image_features(pixels)
    return lambda: found
