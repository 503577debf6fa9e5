"""Vectors of images that were computed elsewhere: an ``.npz`` file with ``ids`` and ``features``, perhaps ``scale``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from captious._typing import Floats, Ints, Ints32
from captious.errors import InputError
from captious.models import store as memo
from captious.models._segments import Keys, Space, as_keys, key_of, unique_keys
from captious.models.encoder import Encoder, Features
from captious.models.pipeline import image_batches, text_batches
from captious.models.store import Store, open_store
from captious.options import current


def read_given(path: str | Path) -> tuple[list[str], Features]:
    """The ids, and for each its row of numbers, times ``scale`` where the file has one."""
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays: dict[str, npt.NDArray[Any]] = {name: held[name] for name in held.files}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError, EOFError, TypeError, AttributeError, BadZipFile) as error:
        raise InputError(
            f"{path}: expected an .npz file with ids and features, but it is not an .npz file ({str(error)[:80]})"
        ) from None
    if not {"ids", "features"} <= arrays.keys():
        raise InputError(f"{path}: holds {', '.join(arrays) or 'nothing'}, expected the arrays ids and features")
    ids, features = arrays["ids"], arrays["features"]
    if features.ndim != 2 or ids.shape != features.shape[:1] or not np.issubdtype(features.dtype, np.number):
        raise InputError(
            f"{path}: {ids.size} ids for features of shape {features.shape} and type {features.dtype}, "
            "expected one row of numbers for each id"
        )
    rows = features.astype(np.float32)
    if "scale" in arrays:
        if arrays["scale"].shape not in ((), (rows.shape[1],)):
            raise InputError(f"{path}: scale of shape {arrays['scale'].shape}, expected one number for each dimension")
        rows = rows * arrays["scale"].astype(np.float32)
    return [str(key) for key in ids.tolist()], rows


NOT_FINITE = "the encoder gave a vector that is not finite"
CHUNK = 4096
_ONE_AT_A_TIME = threading.RLock()


@dataclass(frozen=True)
class Encoded:
    """Vectors of n inputs, of which u are distinct."""

    rows: Features
    """u × d, of unit length."""
    index: Ints
    """The row of each input; −1 where ``faults`` says why there is none."""
    lengths: Ints
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


def cosines(a: Encoded, b: Encoded) -> Floats:
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


def keep_vectors(store: Store, keys: Keys, features: Features, lengths: Ints | None = None) -> None:
    """Store vectors at unit length; those that are not finite are left out."""
    rows = np.asarray(features, np.float32)
    finite = np.isfinite(rows).all(axis=1)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(norms > 0, norms, 1)
    store.put(keys[finite], unit[finite], None if lengths is None else lengths[finite].astype(np.int32))


def vector_space(encoder: Encoder, kind: str) -> Space:
    """Where an encoder's vectors are kept: of ``images``, ``images-upright`` or ``texts``."""
    return Space(encoder.name, encoder.fingerprint, kind, (encoder.dimension,))


def gathered(store: Store, contents: Sequence[bytes | None]) -> tuple[Features, Ints32, Ints]:
    """Rows and lengths of distinct contents, and the row of each content: −1 where there is none."""
    keys, _, inverse = unique_keys(as_keys(filter(None, contents)))
    rows, lengths, found = store.gather(keys)
    new = np.where(found, np.cumsum(found) - 1, -1)
    index = np.full(len(contents), -1, np.int64)
    index[np.fromiter(map(bool, contents), bool, len(contents))] = new[inverse]
    return (rows, lengths, index) if found.all() else (rows[found], lengths[found], index)


def _unexplained(index: Ints, faults: dict[int, str]) -> list[int]:
    return [place for place in np.flatnonzero(index < 0).tolist() if place not in faults]


def _spread(rows: Features, lengths: Ints32, index: Ints, faults: dict[int, str], places: Ints) -> Encoded:
    """From distinct inputs to all of them."""
    full = index[places]
    known = np.append(lengths.astype(np.int64), 0)[full] if len(full) else np.zeros(0, np.int64)
    return Encoded(rows, full, known, {int(i): faults[int(places[i])] for i in np.flatnonzero(full < 0)})
