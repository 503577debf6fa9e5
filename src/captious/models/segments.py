"""Segments of the feature cache: immutable Arrow files of rows under sorted 16-byte keys, mapped into memory.

A segment is written under a temporary name and then renamed, so no reader sees half of one and no locks are needed,
which also works on a network disk. Damage (truncated, overwritten, of another format) is detected when a segment is
opened; damaged rows are detected by their checksums when they are read.

One file is one Arrow record batch, sorted by key, with the space and a digest of the first three columns in its
metadata::

    key (16 bytes)   length (int32)   check (uint32)   row (dtype × prod(shape))
    00a1…            tokens or 0      CRC-32 of row    ● ● ● … ●
    03f7…                                              ● ● ● … ●
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._core.files import digest, write_atomically
from captious._core.types import Ints, Ints32
from captious.errors import format_one_line

FORMAT = 2
SUFFIX = ".arrow"
HEADER = ("captious-features", "encoder", "fingerprint", "kind", "shape", "dtype", "digest")

# n × 2: the first and the last eight bytes of each key as big-endian numbers, which sort like the bytes.
Keys = npt.NDArray[np.uint64]
Rows = npt.NDArray[Any]


class DamagedSegment(ValueError):
    """Raised if a segment cannot be used; the message says why."""


@dataclass(frozen=True)
class FeatureSpace:
    """The identity of a store: the encoder, the kind of features, and the shape and type of a row."""

    encoder: str
    fingerprint: str
    kind: str
    """``images``, ``texts``, or another name chosen by the caller."""
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def folder(self) -> str:
        """Name of the folder."""
        return f"{self.fingerprint}-{self.kind}"


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows under sorted keys; ``checks`` is None for rows that are only in memory."""

    keys: Keys
    lengths: Ints32
    rows: Rows
    checks: npt.NDArray[np.uint32] | None = None
    path: Path | None = None
    high: npt.NDArray[np.uint64] = field(init=False)
    """The first halves of the keys, contiguous, for the binary search."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "high", np.ascontiguousarray(self.keys[:, 0]))

    def __len__(self) -> int:
        return len(self.keys)

    def has_intact_row(self, key: bytes) -> bool:
        """Return True if a key is in this segment with an intact row."""
        high, low = np.frombuffer(key, ">u8").astype(np.uint64)
        at = int(self.high.searchsorted(high))
        if at == len(self.keys) or self.high[at] != high or self.keys[at, 1] != low:
            return False
        return self.is_intact(self.rows[at : at + 1], np.array([at]))

    def find_rows(self, keys: Keys) -> Ints:
        """Return the row of each key, −1 for keys that are not in this segment."""
        at = np.searchsorted(self.high, keys[:, 0])
        at[at == len(self.keys)] = 0  # beyond the last key: any row, the comparison below rejects it
        return np.where((self.keys[at] == keys).all(axis=1), at, -1)

    def is_intact(self, rows: Rows, indices: Ints) -> bool:
        """Return True if rows read from these indices match their checksums."""
        return self.checks is None or bool((compute_checksums(rows) == self.checks[indices]).all())


def hash_content(content: bytes) -> bytes:
    """Return the key of a content: 16 bytes."""
    return hashlib.blake2b(content, digest_size=16).digest()


def hash_text(text: str) -> bytes:
    """Return the key of a text, which may contain lone surrogates."""
    return hash_content(text.encode("utf-8", "surrogatepass"))


def as_keys(keys: Iterable[bytes]) -> Keys:
    """Convert keys to pairs of numbers, ordered as their bytes are.

    >>> as_keys([bytes([0, 0, 0, 0, 0, 0, 1, 2]) + bytes(8)]).tolist()
    [[258, 0]]
    """
    return np.frombuffer(b"".join(keys), ">u8").astype(np.uint64).reshape(-1, 2)


def find_unique_keys(keys: Keys) -> tuple[Keys, Ints, Ints]:
    """Return the sorted distinct keys, the first index of each, and the index of every key among the distinct ones."""
    # The last key of lexsort is the primary one: sorted by the first half, then by the second.
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    ordered = keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    inverse = np.empty(len(keys), np.int64)
    inverse[order] = np.cumsum(new) - 1
    return ordered[new], order[new], inverse


def compute_checksums(rows: Rows) -> npt.NDArray[np.uint32]:
    """Return the CRC-32 of each row."""
    flat = np.ascontiguousarray(rows).reshape(len(rows), -1)
    return np.fromiter((zlib.crc32(row.data) for row in flat), np.uint32, len(flat))


def write_segment(folder: Path, space: FeatureSpace, segment: Segment) -> Path:
    """Write a segment atomically, under a name that sorts by the time of writing."""
    import pyarrow as pa

    keys = segment.keys.astype(">u8").tobytes()
    lengths = np.ascontiguousarray(segment.lengths, np.int32)
    flat = np.ascontiguousarray(segment.rows, space.dtype).reshape(-1)
    checks = compute_checksums(flat.reshape(len(segment), -1))
    header = {
        "captious-features": FORMAT,
        "encoder": space.encoder,
        "fingerprint": space.fingerprint,
        "kind": space.kind,
        "shape": list(space.shape),
        "dtype": space.dtype,
        "digest": digest(keys, lengths.tobytes(), checks.tobytes()),
    }
    columns = [
        pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(segment), [None, pa.py_buffer(keys)]),
        pa.array(lengths),
        pa.array(checks),
        pa.FixedSizeListArray.from_arrays(pa.array(flat), prod(space.shape)),
    ]
    schema = pa.schema(
        [(name, column.type) for name, column in zip(("key", "length", "check", "row"), columns, strict=True)],
        metadata={"captious": json.dumps(header)},
    )
    path = folder / f"{time.time_ns():020d}-{secrets.token_hex(4)}{SUFFIX}"
    with write_atomically(path) as draft, pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    return path


def read_header(path: Path) -> dict[str, Any]:
    """Read the header of a segment, with the number of its rows, without the rows."""
    return _open(path)[0]


def read_segment(path: Path, space: FeatureSpace) -> Segment:
    """Map a segment into memory; raise ``DamagedSegment``, or ``FileNotFoundError`` if it was removed."""
    header, batch = _open(path)
    fingerprint, kind, shape, dtype = (header[name] for name in ("fingerprint", "kind", "shape", "dtype"))
    if (fingerprint, kind, tuple(shape), dtype) != (space.fingerprint, space.kind, space.shape, space.dtype):
        raise DamagedSegment(
            f"contains {kind} of {fingerprint}, {dtype} of shape {tuple(shape)}: it does not belong here"
        )
    key, length, check, row = batch.columns
    packed = np.frombuffer(key.buffers()[1], ">u8", 2 * len(batch))
    lengths, checks = length.to_numpy(), check.to_numpy()
    if digest(packed.tobytes(), lengths.tobytes(), checks.tobytes()) != header["digest"]:
        raise DamagedSegment("its keys are damaged (checksum differs)")
    rows = row.flatten().to_numpy(zero_copy_only=True).reshape(-1, *space.shape)
    return Segment(packed.astype(np.uint64).reshape(-1, 2), lengths, rows, checks, path)


def _open(path: Path) -> tuple[dict[str, Any], Any]:
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            stored = json.loads(reader.schema.metadata[b"captious"])
            header = {name: stored[name] for name in HEADER}
            if header["captious-features"] != FORMAT:
                raise DamagedSegment(f"is of format {header['captious-features']}, expected {FORMAT}")
            batch = reader.get_batch(0)
            batch.validate()
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise DamagedSegment(f"is cut short or damaged ({format_one_line(error, 80)})") from None
    return {**header, "rows": len(batch)}, batch


# Number of small segments that makes `compact` merge them.
MANY = 8
SMALL_BYTES = 64 << 20
LARGE_BYTES = 256 << 20


def compact(folder: Path, space: FeatureSpace) -> int:
    """Merge the small segments of a folder if there are many; return how many were merged."""
    sizes = {}
    # The newest first: of a key that occurs twice, `find_unique_keys` keeps the first row.
    for path in sorted(folder.glob(f"*{SUFFIX}"), reverse=True):
        with suppress(FileNotFoundError):
            sizes[path] = path.stat().st_size
    small = [path for path, size in sizes.items() if size < SMALL_BYTES]
    if len(small) < MANY:
        return 0
    merged, group, size = 0, list[Segment](), 0
    for path in small:
        if size + sizes[path] > LARGE_BYTES:
            merged, group, size = merged + _merge(folder, space, group), [], 0
        with suppress(DamagedSegment, FileNotFoundError):
            segment = read_segment(path, space)
            if segment.is_intact(segment.rows, np.arange(len(segment))):
                group.append(segment)
                size += sizes[path]
    return merged + _merge(folder, space, group)


def _merge(folder: Path, space: FeatureSpace, group: list[Segment]) -> int:
    if len(group) < 2:
        return 0
    keys, first, _ = find_unique_keys(np.concatenate([segment.keys for segment in group]))
    lengths = np.concatenate([segment.lengths for segment in group])[first]
    rows = np.concatenate([segment.rows for segment in group])[first]
    write_segment(folder, space, Segment(keys, lengths, rows))
    for segment in group:
        assert segment.path is not None
        with suppress(OSError):  # removed by another process, or open in one (Windows)
            segment.path.unlink()
    return len(group)
