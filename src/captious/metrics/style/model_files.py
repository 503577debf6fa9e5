"""Files of style models: a line of JSON, then compressed arrays."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from captious._core.files import Kind
from captious._core.types import Ints32
from captious.metrics.style.model import ORDERS, AnyInts, Order, StyleModel

KIND = Kind("captious-style", 2, "style model", "captious style fit")
CODEC = "zstd"


def save(model: StyleModel, path: str | Path) -> None:
    """Write a model atomically: a line of JSON, then the compressed arrays."""
    blocks, sizes = [], []
    texts = "\n".join(model.vocabulary).encode("utf-8", "surrogatepass")
    arrays = [part for order in model.orders for part in _pack(order)]
    for raw in (texts, *(array.astype("<i4").tobytes() for array in arrays)):
        blocks.append(pa.compress(raw, codec=CODEC, asbytes=True))
        sizes.append([len(raw), len(blocks[-1])])
    header = {
        "name": model.name,
        "styles": model.styles,
        "captions": model.captions.tolist(),
        "tokenizer": model.tokenizer,
        "fingerprint": model.fingerprint,
        "sizes": sizes,
    }
    KIND.write(path, header, b"".join(blocks))


def load(path: str | Path) -> StyleModel:
    """Read a file that `save` wrote; raise InputError if it is damaged, foreign or of another version."""
    header, payload = KIND.read(path)
    parts, position = [], 0
    for raw, size in header["sizes"]:
        block = payload[position : position + size]
        parts.append(pa.decompress(block, decompressed_size=raw, codec=CODEC, asbytes=True))
        position += size
    words = parts[0].decode("utf-8", "surrogatepass")
    arrays = [np.frombuffer(part, dtype="<i4").astype(np.int32) for part in parts[1:]]
    return StyleModel(
        styles=tuple(header["styles"]),
        captions=np.array(header["captions"], dtype=np.int64),
        tokenizer=header["tokenizer"],
        vocabulary=words.split("\n") if words else [],
        orders=tuple(_unpack(arrays[5 * n : 5 * n + 5]) for n in range(ORDERS)),
        fingerprint=header["fingerprint"],
        name=header["name"],
    )


def load_once(path: str | Path) -> StyleModel:
    """Load a model like `load`; an unchanged file is read once."""
    path = Path(path)
    return _load_cached(path, path.stat().st_mtime_ns) if path.is_file() else load(path)


@lru_cache(maxsize=4)
def _load_cached(path: Path, changed: int) -> StyleModel:
    return load(path)


def _pack(order: Order) -> tuple[AnyInts, ...]:
    """List the arrays of an order. Sorted numbers are stored as differences, which compress far better."""
    return (
        # n-grams are sorted by parent, so the differences are mostly 0 and 1
        np.diff(order.parent, prepend=np.int32(0)),
        order.last,
        order.occurrences,
        order.style,
        order.frequency,
    )


def _unpack(arrays: list[Ints32]) -> Order:
    parent, last, occurrences, style, frequency = arrays
    starts = np.concatenate(([0], np.cumsum(occurrences, dtype=np.int64)))
    return Order(np.cumsum(parent, dtype=np.int32), last, starts, style, frequency)
