"""Counter-based random numbers: each depends only on its key and counter, not on the order of the draws.

A key names a stream, a counter a number in it. SplitMix64 (Steele, Lea & Flood 2014) mixes the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._core.hashing import hash_texts
from captious._core.types import Floats, Ints

Keys = npt.NDArray[np.uint64]

# The step of SplitMix64's counter.
GAMMA = 0x9E3779B97F4A7C15
# The same bits as a signed integer, because torch has no uint64 arithmetic.
SIGNED_GAMMA = GAMMA - 2**64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def mix(x: Any) -> Any:
    """Apply SplitMix64's finalizer to 64-bit integers in a NumPy array (signed or unsigned) or in a torch tensor.

    >>> hex(mix(np.array([GAMMA], dtype=np.uint64))[0])  # its first number from seed 0
    '0xe220a8397b1dcdaf'
    """
    if isinstance(x, np.ndarray) and x.dtype == np.uint64:
        x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST + 2**64)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND + 2**64)
        return x ^ (x >> np.uint64(31))
    # Shifting a signed number repeats its sign; the mask removes those bits.
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _FIRST
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _SECOND
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def fork(keys: Keys, numbers: Ints | int) -> Keys:
    """Derive one new key for each key and number."""
    steps = np.atleast_1d(np.asarray(numbers, dtype=np.int64)).astype(np.uint64) + np.uint64(1)
    result: Keys = mix(keys + steps * np.uint64(GAMMA))
    return result


def make_keys(names: Sequence[str], seed: int) -> Keys:
    """Return one key for each name, derived only from the name and the seed."""
    return hash_texts(f"{seed}\x1f{name}" for name in names)


def draw_uniform(keys: Keys, positions: Ints | int = 0) -> Floats:
    """Draw numbers in [0, 1) with 53 random bits."""
    return _scale_to_unit(fork(keys, positions))


def draw_below(keys: Keys, bounds: Ints) -> Ints:
    """Draw integers from 0 up to the bounds, exclusive."""
    return np.minimum((draw_uniform(keys) * bounds).astype(np.int64), np.maximum(bounds - 1, 0))


def draw_for_rows(rows: Ints, *keys: int) -> Floats:
    """Draw a number in [0, 1) for each row. It depends on the row's index and the keys, not on its position in the
    batch.

    >>> draw_for_rows(np.array([3, 5]), 1, 2)[1] == draw_for_rows(np.array([5]), 1, 2)[0]
    np.True_
    """
    state = mix(rows.astype(np.uint64) + np.uint64(GAMMA))
    for key in keys:
        state = mix((state ^ np.uint64(key & 0xFFFFFFFFFFFFFFFF)) + np.uint64(GAMMA))
    return _scale_to_unit(state)


def _scale_to_unit(state: Keys) -> Floats:
    scaled: Floats = (state >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return scaled
