"""Detection of ids that occur in several shards, by their hashes in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.hashing import Hashes
from captious.runs.folder import Run

if TYPE_CHECKING:
    import pyarrow as pa

# Largest number of hashes that are sorted at a time.
TOGETHER = 1 << 23
# Number of ids that are hashed at a time.
SLICE = 1 << 19
# Number of repeated ids that are named.
EXAMPLES = 5
# The base of the polynomial: odd, so that it has an inverse modulo 2**64.
FACTOR = 0x9E3779B97F4A7C15


def find_repeated_ids(run: Run) -> tuple[int, list[str]]:
    """Return the number of ids that occur more than once, and a line for each of a few examples with its shards.

    The number is that of repeated 64-bit hashes. Collisions make it too large with a probability of about 1 in 4,000 at
    100 million items. For the examples the ids themselves are compared.
    """
    repeated = _find_repeated_hashes(run)
    first = np.sort(repeated[:EXAMPLES])
    shards: dict[str, list[str]] = {}
    for name, ids in _iterate_ids(run) if len(first) else ():
        for index in np.flatnonzero(np.isin(hash_column(ids), first)).tolist():
            shards.setdefault(ids[index].as_py(), []).append(name)
    lines = [f"{key!r} in {' and '.join(names[:2])}" for key, names in shards.items() if len(names) > 1]
    # Without lines, the repeated hashes were collisions of different ids.
    return (len(repeated) if lines else 0), lines


def _iterate_ids(run: Run) -> Iterator[tuple[str, pa.Array]]:
    """Yield the name of each shard with a slice of its ids."""
    for name in run.names:
        ids = run.table(name, ["id"])["id"].combine_chunks()
        for start in range(0, len(ids), SLICE):
            yield name, ids.slice(start, SLICE)


def _find_repeated_hashes(run: Run) -> Hashes:
    """Return the hashes that occur more than once.

    To bound memory, hashes are split by their first bits into files, and one file is sorted at a time.
    """
    items = run.marker.items
    bits = max(0, (items // TOGETHER).bit_length())  # so that a file has at most about `TOGETHER` hashes
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(1 << bits)]
        for _, ids in _iterate_ids(run):
            hashes = np.sort(hash_column(ids))
            bounds = np.array([part << (64 - bits) for part in range(1, 1 << bits)], dtype=np.uint64)
            for file, part in zip(files, np.split(hashes, np.searchsorted(hashes, bounds)), strict=True):
                file.write(part.tobytes())
        return np.concatenate([_find_duplicates(file) for file in files])


def _find_duplicates(file: Any) -> Hashes:
    file.seek(0)
    hashes = np.sort(np.frombuffer(file.read(), dtype=np.uint64))
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def hash_column(texts: pa.Array) -> Hashes:
    """Return a 64-bit hash for each text: a polynomial over its bytes, each mapped to a random number.

    >>> import pyarrow as pa
    >>> a, b, c = hash_column(pa.array(["x", "", "x"]))
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    import pyarrow as pa

    # Arrow stores all texts joined in one buffer; text i is the bytes from bounds[i] to bounds[i + 1].
    texts = texts.cast(pa.large_string())
    _, offsets, content = texts.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    size = int(bounds[-1] - bounds[0])
    data = np.frombuffer(content, dtype=np.uint8)[bounds[0] : bounds[-1]] if size else np.zeros(0, np.uint8)
    bounds = bounds - bounds[0]
    # With b_i the random number of byte i of all texts joined, S_k = Σ_{i<k} b_i f^(i+1) modulo 2**64. The hash of the
    # text from s to e is (S_e - S_s) / f^(s+1): prefix sums replace a loop over texts, and it does not depend on s.
    with np.errstate(over="ignore"):
        powers = np.multiply.accumulate(np.full(size + 1, FACTOR, dtype=np.uint64))
        inverse = np.multiply.accumulate(np.full(size + 1, pow(FACTOR, -1, 2**64), dtype=np.uint64))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_BYTE_VALUES[data] * powers[:size], dtype=np.uint64)])
        hashes = (sums[bounds[1:]] - sums[bounds[:-1]]) * inverse[bounds[:-1]]
        # Mix at the end: low bits of a sum depend only on low bits of its terms. Add the length.
        hashes = (hashes ^ (hashes >> np.uint64(32))) * np.uint64(FACTOR) + np.diff(bounds).astype(np.uint64)
        mixed: Hashes = hashes ^ (hashes >> np.uint64(29))
    return mixed


# The random number of each byte value; the seed is fixed, so hashes are the same in every process.
_BYTE_VALUES = np.random.default_rng(0).integers(1, 2**64, size=256, dtype=np.uint64)
