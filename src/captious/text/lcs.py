"""Lengths of the longest common subsequences of candidates and references, all pairs at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from captious.text.tables import Ints, TextTable, take_runs

BITS = 64


def lcs_lengths(table: TextTable) -> Ints:
    """The LCS length of every pair of ``table.pairs``.

    Bit-parallel after Hyyrö (2004): a row of the dynamic programme is one 64-bit word, the candidate's tokens its bits.
    Which bits a reference's token matches is read off the unigram table, and all references advance together, one token
    at a time. Candidates of over 64 tokens use Python's long integers.

    >>> from captious.captions import CaptionSet
    >>> lcs_lengths(CaptionSet.of({"1": "a b c d"}, {"1": ["b d x", "d c"]}).table()).tolist()  # b d; c or d
    [2, 1]
    """
    left, right = table.pairs
    result = np.zeros(len(left), dtype=np.int64)
    rank = np.zeros(len(table.lengths), dtype=np.int64)
    rank[table.candidates] = table.rank
    long = table.lengths[left] > BITS
    for turn in range(int(table.rank.max(initial=-1)) + 1):
        pairs = np.flatnonzero((rank[left] == turn) & ~long)
        result[pairs] = _against(table, turn, right[pairs])
    for pair in np.flatnonzero(long).tolist():
        sides = [
            table.tokens[table.starts[side] : table.starts[side + 1]].tolist() for side in (left[pair], right[pair])
        ]
        result[pair] = _long(*sides)
    return result


def _against(table: TextTable, turn: int, references: Ints) -> Ints:
    """LCS lengths of references with their item's candidate number ``turn``."""
    starts, lengths = table.starts, table.lengths
    mine = table.candidates[table.rank == turn]
    mine = mine[lengths[mine] <= BITS]
    places = take_runs(np.arange(len(table.tokens)), starts[mine], lengths[mine])
    bit = np.uint64(1) << (places - np.repeat(starts[mine], lengths[mine])).astype(np.uint64)
    group_at = table.ngrams(1).group_at
    bits = np.zeros(len(table.ngrams(1).heads), dtype=np.uint64)
    np.bitwise_or.at(bits, group_at[places], bit)
    matches = bits[group_at]
    # The longest references first: those still running are always a prefix.
    order = np.argsort(-lengths[references], kind="stable")
    begin, length = starts[references][order], lengths[references][order]
    state = np.full(len(references), ~np.uint64(0))
    running = np.searchsorted(-length, -np.arange(1, int(length.max(initial=0)) + 1), side="right")
    for step, active in enumerate(running.tolist()):
        current = state[:active]
        kept = current & matches[begin[:active] + step]
        state[:active] = (current + kept) | (current - kept)
    result = np.empty(len(references), dtype=np.int64)
    result[order] = _ones(~state)
    return result


def _ones(words: npt.NDArray[np.uint64]) -> Ints:
    bits = np.unpackbits(words.view(np.uint8).reshape(len(words), BITS // 8), axis=1)
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
