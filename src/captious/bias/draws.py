"""Random numbers that are a function of (run, place, position): the same alone, in a stack, on any device.

A stack of generators would have to be read one after another; here every number is a hash (SplitMix64) of its own
address, so all runs' draws are one elementwise operation and none depends on the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from captious.extras import require

torch = require("torch", "bias")

_GAMMA, _FIRST, _SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15
"""SplitMix64's constants, as signed 64-bit numbers."""
_ROW = 1 << 20
"""Longer than any caption: positions do not depend on how far a batch is padded."""


def mixed(x: Any) -> Any:
    """SplitMix64's finaliser; torch's shift keeps the sign, so the shifted-in bits are masked away.

    >>> int(mixed(torch.tensor(-0x61C8864680B583EB))) % 2**64 == 0xE220A8397B1DCDAF  # its first number from seed 0
    True
    """
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _FIRST
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _SECOND
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def keys(entropies: Sequence[Sequence[int]], device: Any) -> Any:
    """One 64-bit key per run, from its entropy."""
    numbers = [np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] for entropy in entropies]
    return torch.from_numpy(np.array(numbers, dtype=np.uint64).view(np.int64)).to(device)


def streams(key: Any, place: int) -> Any:
    """One key per run for one place where numbers are drawn."""
    return mixed(key + torch.full_like(key, place) * _GAMMA)


def uniform(key: Any, *shape: int) -> Any:
    """Runs × shape numbers in (0, 1), of 24 bits each."""
    counter = torch.arange(math.prod(shape), device=key.device) * _GAMMA
    bits = (mixed(key[:, None] + counter) >> 40) & ((1 << 24) - 1)
    return ((bits.float() + 0.5) / (1 << 24)).view(len(key), *shape)


def normal(key: Any, rows: int, columns: int) -> Any:
    """Runs × rows × columns standard normal numbers, by Box and Muller; row r does not depend on how many rows."""
    radius = torch.sqrt(-2 * torch.log(uniform(streams(key, 1), rows, columns)))
    return radius * torch.cos(2 * math.pi * uniform(streams(key, 2), rows, columns))


def dropout(x: Any, share: float, key: Any) -> Any:
    """Zero a ``share`` of the entries of x (runs × words × captions × features, or without words), scale up the rest.

    Each 64-bit draw decides on four entries with 16 bits each.
    """
    if share == 0:
        return x
    runs, captions, features = x.shape[0], x.shape[-2], x.shape[-1]
    steps = x.shape[1] if x.dim() == 4 else 1
    groups = -(-features // 4)
    word = torch.arange(steps, device=x.device).view(1, steps, 1, 1)
    caption = torch.arange(captions, device=x.device).view(1, 1, captions, 1)
    group = torch.arange(groups, device=x.device)
    counter = ((caption * _ROW + word) * groups + group) * _GAMMA
    lanes = mixed(key.view(runs, 1, 1, 1) + counter).view(torch.int16)[..., :features].reshape(x.shape)
    kept = (lanes >= round(share * 65536) - 32768).to(x.dtype)
    return x * kept.mul_(1 / (1 - share))
