"""Words and phrases as 64-bit numbers, so that the compiled tables hold no strings.

A word is its 8-byte BLAKE2b digest; a phrase folds its words, `h <- ((h xor word) * MULTIPLIER) mod 2^64`, from h = 0.
With the 2.6 million phrases of METEOR's table the chance that an absent phrase is taken for a present one is 1.4e-13.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

UInt64 = npt.NDArray[np.uint64]

MULTIPLIER = 0x9E3779B97F4A7C15
LONGEST = 7  # no phrase of the table is longer
_MASK = (1 << 64) - 1


def word_hash(word: str | bytes) -> int:
    """The number of a word."""
    data = word if isinstance(word, bytes) else word.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def phrase_hash(words: Iterable[int]) -> int:
    """The number of a phrase, from the numbers of its words."""
    value = 0
    for word in words:
        value = ((value ^ word) * MULTIPLIER) & _MASK
    return value


def span_hashes(words: UInt64) -> list[UInt64]:
    """The numbers of all spans of 1, 2, ... :data:`LONGEST` words: entry n - 1 has those of n words, by their start."""
    multiplier = np.uint64(MULTIPLIER)
    spans = [words * multiplier]
    for length in range(2, min(LONGEST, len(words)) + 1):
        spans.append((spans[-1][: len(words) - length + 1] ^ words[length - 1 :]) * multiplier)
    return spans
