"""The one door to vectors: images and texts through cache and encoder, each distinct one encoded once.

>>> import numpy as np
>>> a = Encoded(np.eye(2, dtype=np.float32), np.array([0, 1, -1]), np.zeros(3, np.int64), {2: "cat.jpg: no such image"})
>>> cosines(a, a).tolist()
[1.0, 1.0, nan]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from captious.encoders import memo
from captious.encoders.cache import Store
from captious.encoders.encoder import Encoder, Features
from captious.encoders.pipeline import image_batches, text_batches
from captious.encoders.runtime import current
from captious.encoders.segments import Keys, Places, Space, as_keys, key_of, unique_keys
from captious.encoders.stores import open_store

NOT_FINITE = "the encoder gave a vector that is not finite"
CHUNK = 4096
_ONE_AT_A_TIME = threading.RLock()


@dataclass(frozen=True)
class Encoded:
    """Vectors of n inputs, of which u are distinct."""

    rows: Features
    """u × d, of unit length."""
    index: Places
    """The row of each input; −1 where ``faults`` says why there is none."""
    lengths: npt.NDArray[np.int64]
    """Tokens of each text before truncation; 0 for images."""
    faults: dict[int, str]

    def __len__(self) -> int:
        return len(self.index)


def image_features(encoder: Encoder, paths: Sequence[str | Path]) -> Encoded:
    """Vectors of image files."""
    with _ONE_AT_A_TIME:
        return _image_features(encoder, [str(path) for path in paths])


def text_features(encoder: Encoder, texts: Sequence[str]) -> Encoded:
    """Vectors of texts."""
    with _ONE_AT_A_TIME:
        return _text_features(encoder, texts)


def cosines(a: Encoded, b: Encoded) -> npt.NDArray[np.float64]:
    """The cosine of each input of one with the same input of the other; NaN where either has no vector."""
    values = np.full(len(a), np.nan)
    both = np.flatnonzero((a.index >= 0) & (b.index >= 0))

    def fill(start: int) -> None:
        part = both[start : start + CHUNK]
        values[part] = np.einsum("ij,ij->i", a.rows[a.index[part]], b.rows[b.index[part]])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(0, len(both), CHUNK)))
    return values


def _image_features(encoder: Encoder, names: list[str]) -> Encoded:
    runtime = current()
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    distinct = list(places)
    seen = open_store(memo.SPACE)
    store = open_store(vector_space(encoder, "images-upright" if runtime.upright else "images"))
    marks = [memo.mark(name) for name in distinct]
    contents = memo.recall(seen, marks)
    rows, lengths, index = gathered(store, contents)
    todo = np.flatnonzero(index < 0).tolist()
    faults: dict[int, str] = {}
    if todo:
        faults = encode_missing(encoder, distinct, marks, todo, contents, store, seen)
        rows, lengths, index = gathered(store, contents)
    store.settle()
    seen.settle()
    faults.update((place, f"{distinct[place]}: {NOT_FINITE}") for place in _unexplained(index, faults))
    return _spread(rows, lengths, index, faults, np.fromiter(map(places.__getitem__, names), np.int64, len(names)))


def _text_features(encoder: Encoder, texts: Sequence[str]) -> Encoded:
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    distinct = list(places)
    contents: list[bytes | None] = [key_of(text.encode("utf-8", "surrogatepass")) for text in distinct]
    store = open_store(vector_space(encoder, "texts"))
    rows, lengths, index = gathered(store, contents)
    todo = np.flatnonzero(index < 0).tolist()
    if todo:
        try:
            for batch in text_batches(encoder, [distinct[place] for place in todo]):
                keys = as_keys(contents[todo[place]] or b"" for place in batch.places)
                keep_vectors(store, keys, batch.features, batch.lengths)
        finally:
            store.flush()
        rows, lengths, index = gathered(store, contents)
    store.settle()
    faults = dict.fromkeys(_unexplained(index, {}), NOT_FINITE)
    return _spread(rows, lengths, index, faults, np.fromiter(map(places.__getitem__, texts), np.int64, len(texts)))


def encode_missing(
    encoder: Encoder,
    paths: Sequence[str],
    marks: Sequence[bytes | None],
    todo: Sequence[int],
    contents: list[bytes | None],
    store: Store,
    seen: Store,
    keep: Callable[[Store, Keys, Features], None] | None = None,
) -> dict[int, str]:
    """Encode the files at some places, fill in the keys of their contents, and say which could not be used.

    ``keep`` stores what the encoder gave; by default vectors of unit length.
    """
    keep = keep or keep_vectors
    claimed: set[bytes] = set()
    lock = threading.Lock()
    faults: dict[int, str] = {}
    broken: dict[bytes, str] = {}

    def wanted(key: bytes) -> bool:
        with lock:
            if key in claimed:
                return False
            claimed.add(key)
        return not store.holds(key)

    try:
        for batch in image_batches(encoder, [paths[place] for place in todo], wanted):
            for one in batch.picked:
                place = todo[one.place]
                contents[place] = one.key
                if one.fault is not None:
                    faults[place] = one.fault
                    if one.key is not None:
                        broken[one.key] = one.fault.removeprefix(f"{paths[place]}: ")
            keys = as_keys(one.key for one in batch.picked if one.pixels is not None and one.key is not None)
            keep(store, keys, batch.features)
            known = [(marks[todo[one.place]], one.key) for one in batch.picked if one.key is not None]
            memo.remember(seen, [mark for mark, _ in known], [key for _, key in known])
    finally:
        store.flush()
        seen.flush()
    for place in todo:
        key = contents[place]
        if key in broken:
            faults[place] = f"{paths[place]}: {broken[key]}"
    return faults


def keep_vectors(store: Store, keys: Keys, features: Features, lengths: npt.NDArray[np.int64] | None = None) -> None:
    """Store vectors at unit length; those that are not finite are left out."""
    rows = np.asarray(features, np.float32)
    finite = np.isfinite(rows).all(axis=1)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(norms > 0, norms, 1)
    store.put(keys[finite], unit[finite], None if lengths is None else lengths[finite].astype(np.int32))


def vector_space(encoder: Encoder, kind: str) -> Space:
    """Where an encoder's vectors are kept: of ``images``, ``images-upright`` or ``texts``."""
    return Space(encoder.name, encoder.fingerprint, kind, (encoder.dimension,))


def gathered(store: Store, contents: Sequence[bytes | None]) -> tuple[Features, npt.NDArray[np.int32], Places]:
    """Rows and lengths of distinct contents, and the row of each content: −1 where there is none."""
    keys, _, inverse = unique_keys(as_keys(filter(None, contents)))
    rows, lengths, found = store.gather(keys)
    new = np.where(found, np.cumsum(found) - 1, -1)
    index = np.full(len(contents), -1, np.int64)
    index[np.fromiter(map(bool, contents), bool, len(contents))] = new[inverse]
    return (rows, lengths, index) if found.all() else (rows[found], lengths[found], index)


def _unexplained(index: Places, faults: dict[int, str]) -> list[int]:
    return [place for place in np.flatnonzero(index < 0).tolist() if place not in faults]


def _spread(
    rows: Features, lengths: npt.NDArray[np.int32], index: Places, faults: dict[int, str], places: Places
) -> Encoded:
    """From distinct inputs to all of them."""
    full = index[places]
    known = np.append(lengths.astype(np.int64), 0)[full] if len(full) else np.zeros(0, np.int64)
    return Encoded(rows, full, known, {int(i): faults[int(places[i])] for i in np.flatnonzero(full < 0)})
