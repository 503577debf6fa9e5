"""64-bit hashes of texts, the same on every machine.

A hash is the BLAKE2b digest of eight bytes, read as a little-endian number.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]


def _compute_digest(text: str | bytes) -> bytes:
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return blake2b(content, digest_size=8).digest()


def hash_text(text: str | bytes) -> int:
    """Return the hash of one text.

    >>> hash_text("dog").to_bytes(8, "little").hex()  # printf dog | b2sum -l 64
    '3984c7c1d25e9c9f'
    """
    return int.from_bytes(_compute_digest(text), "little")


def hash_texts(texts: Iterable[str | bytes]) -> Hashes:
    """Return an array with the hash of each text.

    >>> hash_texts(["dog", "cat"])[0] == hash_text("dog")
    np.True_
    """
    return np.frombuffer(b"".join(map(_compute_digest, texts)), dtype="<u8").astype(np.uint64)
