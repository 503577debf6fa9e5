"""Lengths of longest common subsequences of many pairs at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from captious.text.tables import Ints

WIDTHS = (8, 16, 32, 64)
BATCH = 4096
Tokens = npt.NDArray[np.int32] | npt.NDArray[np.int16]


def lcs_lengths(tokens: Tokens, starts: Ints, left: Ints, right: Ints) -> Ints:
    """The LCS length of sequences ``left[p]`` and ``right[p]`` for every pair p.

    Bit-parallel after Hyyrö (2004): a row of the dynamic programme is one machine word per pair, and pairs of like
    lengths advance together, one token of the right-hand sequence at a time. Left-hand sequences of over 64 tokens use
    Python's long integers.

    >>> tokens, starts = np.array([1, 2, 3, 4, 2, 4, 9], dtype=np.int32), np.array([0, 4, 7])
    >>> lcs_lengths(tokens, starts, np.array([0]), np.array([1])).tolist()  # 1 2 3 4 and 2 4 9 share 2 4
    [2]
    """
    lengths = np.diff(starts)
    result = np.zeros(len(left), dtype=np.int64)
    if not len(tokens):
        return result
    if tokens.max() < 2**15:
        tokens = tokens.astype(np.int16)
    bucket = np.searchsorted(WIDTHS, lengths[left])
    order = np.lexsort((lengths[right], bucket))
    edges = np.searchsorted(bucket[order], np.arange(len(WIDTHS) + 1))
    for width, first, end in zip(WIDTHS, edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        for begin in range(first, end, BATCH):
            pairs = order[begin : min(begin + BATCH, end)]
            result[pairs] = _batch(tokens, starts, lengths, left[pairs], right[pairs], width)
    for pair in order[edges[-1] :].tolist():
        a, b = left[pair], right[pair]
        result[pair] = _long(tokens[starts[a] : starts[a + 1]].tolist(), tokens[starts[b] : starts[b + 1]].tolist())
    return result


def _batch(tokens: Tokens, starts: Ints, lengths: Ints, left: Ints, right: Ints, width: int) -> Ints:
    rows = _padded(tokens, starts, lengths, left, width, -1)
    columns = _padded(tokens, starts, lengths, right, int(lengths[right].max()), -2)
    word = np.dtype(f"uint{width}")
    state = np.full(len(left), -1).astype(word)
    for column in columns.T:
        match = np.packbits(rows == column[:, None], axis=1, bitorder="little").view(f"<u{width // 8}")[:, 0]
        kept = state & match
        state = (state + kept) | (state - kept)
    # Padding never matches, so its bits stay set.
    return _ones(~state)


def _padded(tokens: Tokens, starts: Ints, lengths: Ints, which: Ints, size: int, filler: int) -> Tokens:
    """One row per sequence, filled up to one length."""
    position = np.arange(size)
    index = starts[which][:, None] + position
    inside = position < lengths[which][:, None]
    return np.where(inside, tokens[np.minimum(index, len(tokens) - 1)], tokens.dtype.type(filler))


def _ones(words: npt.NDArray[np.unsignedinteger[Any]]) -> Ints:
    bits = np.unpackbits(words.view(np.uint8).reshape(len(words), -1), axis=1)
    ones: Ints = bits.sum(axis=1, dtype=np.int64)
    return ones


def _long(left: list[int], right: list[int]) -> int:
    places: dict[int, int] = {}
    for bit, token in enumerate(left):
        places[token] = places.get(token, 0) | (1 << bit)
    full = (1 << len(left)) - 1
    state = full
    for token in right:
        kept = state & places.get(token, 0)
        state = ((state + kept) | (state - kept)) & full
    return len(left) - state.bit_count()
