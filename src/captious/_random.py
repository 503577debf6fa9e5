"""Random numbers that are a function of their address: equal whatever is drawn before, after or beside them.

A key names a stream, a counter a number in it. SplitMix64 (Steele, Lea & Flood 2014) mixes the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GAMMA = 0x9E3779B97F4A7C15
"""The step of SplitMix64's counter."""
SIGNED_GAMMA = GAMMA - 2**64
"""The same bits in a signed number, as torch needs them."""
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def mix(x: Any) -> Any:
    """SplitMix64's finalizer, of 64-bit integers in a numpy array (signed or not) or in a torch tensor.

    >>> hex(mix(np.array([GAMMA], dtype=np.uint64))[0])  # its first number from seed 0
    '0xe220a8397b1dcdaf'
    """
    if isinstance(x, np.ndarray) and x.dtype == np.uint64:
        return mix(x.view(np.int64)).view(np.uint64)
    # Shifting a signed number repeats its sign; the mask removes those bits.
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _FIRST
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _SECOND
    return x ^ ((x >> 31) & ((1 << 33) - 1))
