"""Random numbers that are a function of their address: (seed, image id, caption, kind, copy), try, purpose, position.

A generator would have to be read in order; here every number is a hash (SplitMix64) of where it is used, so that all
draws are elementwise operations and a caption gets the same negatives alone, in another order or in another batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mixed(x: Keys) -> Keys:
    """SplitMix64's finaliser.

    >>> hex(mixed(np.array([0x9E3779B97F4A7C15], dtype=np.uint64))[0])  # its first number from seed 0
    '0xe220a8397b1dcdaf'
    """
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    result: Keys = x ^ (x >> np.uint64(31))
    return result


def fork(keys: Keys, numbers: npt.NDArray[np.int64] | int) -> Keys:
    """One new key for each key and number."""
    steps = np.atleast_1d(np.asarray(numbers, dtype=np.int64)).astype(np.uint64) + np.uint64(1)
    return mixed(keys + steps * _GAMMA)


def image_keys(ids: Sequence[str], seed: int) -> Keys:
    """One key for each image, of its id and the seed alone."""
    hashes = [blake2b(f"{seed}\x1f{key}".encode(), digest_size=8).digest() for key in ids]
    return np.frombuffer(b"".join(hashes), dtype="<u8").astype(np.uint64)


def uniform(keys: Keys, positions: npt.NDArray[np.int64] | int = 0) -> Floats:
    """Numbers in [0, 1), of 53 bits."""
    result: Floats = (fork(keys, positions) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return result


def below(keys: Keys, bounds: Ints, positions: Ints | int = 0) -> Ints:
    """Whole numbers from 0 up to, without, the bounds."""
    return np.minimum((uniform(keys, positions) * bounds).astype(np.int64), np.maximum(bounds - 1, 0))


def first_success(draws: Floats, chance: float, trials: Ints) -> Ints:
    """Which of some independent trials succeeds first, given that one of them does.

    With the later trials left free, that is the law of "try again until something has changed" without trying again.

    >>> first_success(np.array([0.0, 0.99]), 0.3, np.array([5, 2])).tolist()
    [0, 1]
    """
    missed = np.log1p(-draws * -np.expm1(trials * np.log1p(-chance)))
    result: Ints = np.clip((missed / np.log1p(-chance)).astype(np.int64), 0, np.maximum(trials - 1, 0))
    return result
