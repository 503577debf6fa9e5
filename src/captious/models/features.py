"""Vectors of images and texts: from the cache, or computed by the encoder.

Every distinct content is encoded once. Vectors have unit length. An image that cannot be used has no vector:
`EncodedRows.faults` says why.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from captious._core.files import read_regular
from captious._core.types import Bools, Floats, Ints, Ints32
from captious.captions import ImageData, ImageSource
from captious.errors import InputError
from captious.models.encoder import Encoder, Features, TextEncoder, note_model
from captious.models.pipeline import encode_image_batches, encode_text_batches
from captious.models.segments import FeatureSpace, Keys, as_keys, find_unique_keys, hash_text
from captious.models.store import Store, get_file_state, lookup, open_file_index, open_store, record
from captious.options import get_runtime

NOT_FINITE = "the encoder gave a vector that is not finite"
CHUNK = 4096
_ONE_AT_A_TIME = threading.RLock()
Value = TypeVar("Value")


@dataclass(frozen=True)
class EncodedRows:
    """Vectors of n inputs, of which u are distinct."""

    rows: Features
    """u × d, of unit length unless raw vectors were asked for."""
    index: Ints
    """Row of each input; −1 if it has none, with the reason in ``faults``."""
    lengths: Ints
    """Tokens of each text before truncation; 0 for images."""
    faults: dict[int, str]

    def __len__(self) -> int:
        return len(self.index)


def image_features(encoder: Encoder, images: Sequence[Path | ImageSource], raw: bool = False) -> EncodedRows:
    """Return the vectors of image files and of images in memory, of unit length unless ``raw``."""
    note_model(encoder)
    names = [image if isinstance(image, ImageData) else str(image) for image in images]
    with _ONE_AT_A_TIME:
        return _get_image_features(encoder, names, raw)


def text_features(encoder: TextEncoder, texts: Sequence[str], raw: bool = False) -> EncodedRows:
    """Return the vectors of texts, of unit length unless ``raw``."""
    note_model(encoder)
    with _ONE_AT_A_TIME:
        return _get_text_features(encoder, texts, raw)


def cosines(a: EncodedRows, b: EncodedRows) -> Floats:
    """Return the cosine of each input of ``a`` with the same input of ``b``; NaN if either has no vector."""
    values = np.full(len(a), np.nan)
    both = np.flatnonzero((a.index >= 0) & (b.index >= 0))

    def fill(start: int) -> None:
        part = both[start : start + CHUNK]
        values[part] = np.einsum("ij,ij->i", a.rows[a.index[part]], b.rows[b.index[part]])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(0, len(both), CHUNK)))
    return values


def find_distinct(values: Sequence[Value]) -> tuple[list[Value], Ints]:
    """Return the distinct values in the order of their first appearance, and the index of each value among them.

    >>> distinct, index = find_distinct(["b", "a", "b"])
    >>> distinct, index.tolist()
    (['b', 'a'], [0, 1, 0])
    """
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return list(numbers), np.fromiter(map(numbers.__getitem__, values), np.int64, len(values))


def _get_image_features(encoder: Encoder, names: list[ImageSource], raw: bool) -> EncodedRows:
    paths, number_of_input = find_distinct(names)
    files = open_file_index()
    store = open_store(get_vector_space(encoder, get_image_kind("raw-images" if raw else "images")))
    states = [get_file_state(path) for path in paths]
    contents = lookup(files, states)
    rows, lengths, index = gather(store, contents)
    missing = np.flatnonzero(index < 0).tolist()
    faults: dict[int, str] = {}
    if missing:
        put = put_raw_vectors if raw else put_vectors
        faults = encode_missing(encoder, paths, states, missing, contents, store, files, put)
        rows, lengths, index = gather(store, contents)
    store.settle()
    files.settle()
    faults = {number: f"{paths[number]}: {NOT_FINITE}" for number in np.flatnonzero(index < 0).tolist()} | faults
    return _expand(rows, lengths, index, faults, number_of_input)


def _get_text_features(encoder: TextEncoder, texts: Sequence[str], raw: bool) -> EncodedRows:
    distinct, number_of_input = find_distinct(texts)
    contents = [hash_text(text) for text in distinct]
    store = open_store(get_vector_space(encoder, "raw-texts" if raw else "texts"))
    put = put_raw_vectors if raw else put_vectors
    rows, lengths, index = gather(store, contents)
    missing = np.flatnonzero(index < 0).tolist()
    if missing:
        try:
            for batch in encode_text_batches(encoder, [distinct[number] for number in missing]):
                keys = as_keys(contents[missing[number]] for number in batch.indices)
                put(store, keys, batch.features, batch.lengths)
        finally:
            store.flush()
        rows, lengths, index = gather(store, contents)
    store.settle()
    faults = dict.fromkeys(np.flatnonzero(index < 0).tolist(), NOT_FINITE)
    return _expand(rows, lengths, index, faults, number_of_input)


def encode_missing(
    encoder: Encoder,
    paths: Sequence[ImageSource],
    states: Sequence[bytes | None],
    missing: Sequence[int],
    contents: list[bytes | None],
    store: Store,
    files: Store,
    put: Callable[[Store, Keys, Features], None] | None = None,
) -> dict[int, str]:
    """Encode the images at the indices ``missing``; return the reasons by index of those that could not be used.

    The keys of their contents are written to ``contents`` and to the index ``files``. ``put`` stores the output of the
    encoder; by default vectors of unit length.
    """
    put = put or put_vectors
    # Different files may have the same content: only the first of them is encoded, by whichever thread claims it.
    claimed: set[bytes] = set()
    lock = threading.Lock()
    faults: dict[int, str] = {}
    broken: dict[bytes, str] = {}

    def claim(key: bytes) -> bool:
        with lock:
            if key in claimed:
                return False
            claimed.add(key)
        return not store.has_intact_row(key)

    try:
        for batch in encode_image_batches(encoder, [paths[number] for number in missing], claim):
            numbers = [missing[index] for index in batch.indices]
            for number, image in zip(numbers, batch.images, strict=True):
                contents[number] = image.key
                if image.fault is not None:
                    faults[number] = image.fault
                    if image.key is not None:
                        broken[image.key] = image.fault.removeprefix(f"{paths[number]}: ")
            keys = as_keys(image.key for image in batch.images if image.pixels is not None and image.key is not None)
            put(store, keys, batch.features)
            readable = [number for number in numbers if contents[number] is not None]
            record(files, [states[number] for number in readable], [contents[number] or b"" for number in readable])
    finally:
        store.flush()
        files.flush()
    for number in missing:
        key = contents[number]
        if key in broken:
            faults[number] = f"{paths[number]}: {broken[key]}"
    return faults


def put_vectors(store: Store, keys: Keys, features: Features, lengths: Ints | None = None) -> None:
    """Store vectors at unit length; vectors that are not finite are skipped."""
    unit, finite = normalize_rows(features)
    store.put(keys[finite], unit[finite], None if lengths is None else lengths[finite].astype(np.int32))


def put_raw_vectors(store: Store, keys: Keys, features: Features, lengths: Ints | None = None) -> None:
    """Store vectors at their own length; vectors that are not finite are skipped."""
    finite: Bools = np.logical_and.reduce(np.isfinite(features), axis=1)
    store.put(keys[finite], features[finite], None if lengths is None else lengths[finite].astype(np.int32))


def normalize_rows(features: Features) -> tuple[Features, Bools]:
    """Scale rows to unit length (zeros stay zeros); also return a mask of the finite rows."""
    rows = np.asarray(features, np.float32)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # infinite numbers; the mask tells
        unit: Features = rows / np.where(norms > 0, norms, np.float32(1))
    finite: Bools = np.logical_and.reduce(np.isfinite(rows), axis=1)
    return unit, finite


def get_image_kind(kind: str) -> str:
    """Return the kind of an image store with the options that change features: ``images-upright``."""
    return "-".join([kind, *get_runtime().image_options])


def get_vector_space(encoder: TextEncoder, kind: str) -> FeatureSpace:
    """Return the space of an encoder's vectors: of :func:`get_image_kind`, or of ``texts``."""
    return FeatureSpace(encoder.name, encoder.fingerprint, kind, (encoder.dimension,))


def gather(store: Store, contents: Sequence[bytes | None]) -> tuple[Features, Ints32, Ints]:
    """Return rows and lengths of distinct contents, and the row of each content: −1 if there is none."""
    keys, _, inverse = find_unique_keys(as_keys(filter(None, contents)))
    rows, lengths, stored = store.gather(keys)
    # Rows of missing keys are removed below, so each stored key moves up by the number of missing ones before it.
    row_of = np.where(stored, np.cumsum(stored) - 1, -1)
    index = np.full(len(contents), -1, np.int64)
    index[np.fromiter(map(bool, contents), bool, len(contents))] = row_of[inverse]
    return (rows, lengths, index) if stored.all() else (rows[stored], lengths[stored], index)


def _expand(rows: Features, lengths: Ints32, index: Ints, faults: dict[int, str], number_of_input: Ints) -> EncodedRows:
    """Expand the features of distinct inputs to all inputs.

    ``number_of_input`` is the number of each input among the distinct ones.
    """
    inputs = index[number_of_input]
    # Inputs without a row have index −1, which selects the 0 that is appended to the lengths.
    counts = np.append(lengths.astype(np.int64), 0)[inputs] if len(inputs) else np.zeros(0, np.int64)
    return EncodedRows(
        rows, inputs, counts, {i: faults[int(number_of_input[i])] for i in np.flatnonzero(inputs < 0).tolist()}
    )


def read_features(path: str | Path) -> tuple[list[str], Features]:
    """Read vectors of images that were computed elsewhere: an ``.npz`` file with the arrays ``ids`` and ``features``.

    Features are multiplied by the array ``scale`` if the file has one.
    """
    try:
        with np.load(io.BytesIO(read_regular(path)), allow_pickle=False) as file:
            arrays: dict[str, npt.NDArray[Any]] = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError, EOFError, TypeError, AttributeError, BadZipFile) as error:
        raise InputError(
            f"{path}: expected an .npz file with ids and features, but it is not an .npz file ({str(error)[:80]})"
        ) from None
    if not {"ids", "features"} <= arrays.keys():
        raise InputError(f"{path}: contains {', '.join(arrays) or 'nothing'}, expected the arrays ids and features")
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
