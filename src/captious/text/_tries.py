"""N-grams with their counts as a trie: a chunk's in few bytes, and those of all chunks added up without a hash.

Level n of a trie has a node for each n-gram of order n; its parent is the n-gram without the last word. Vocabularies
are sorted, and so are the children of a node. The n-grams of every trie therefore stand in the same order, and the
tries are merged from level to level by sorted numbers, whose memory is read from one end to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captious._core.types import Ints, Ints32
from captious.text.counts import COUNT, KeyCounts, Keys, LazyCounts, Once, first_bits_order, mix, word_keys
from captious.text.tables import ORDERS, TextTable, changes, narrow

Counts = npt.NDArray[np.unsignedinteger[Any]]
RANGE = 1 << 18
"""Nodes that are numbered at a time: they stay in the processor's cache."""


class Level(NamedTuple):
    """The n-grams of one order, those with the same parent together."""

    children: Counts
    """The number of children of each node of the level above."""
    last: Counts
    """The last token of each n-gram."""
    counts: Counts


@dataclass(frozen=True, eq=False)
class NgramTrie:
    """The n-grams of orders 1 to 4 of a table, each with its document frequency."""

    vocabulary: Sequence[str]
    levels: tuple[Level, ...]

    @classmethod
    def of(cls, table: TextTable) -> NgramTrie:
        """The n-grams of a table in the order that they have there."""
        levels, parents = [], 1
        for n in range(1, ORDERS + 1):
            grams = table.ngrams(n)
            children = np.bincount(grams.parent, minlength=parents)
            levels.append(Level(narrow(children), narrow(grams.last), narrow(grams.document_frequency)))
            parents = grams.size
        return cls(table.vocabulary, tuple(levels))

    @property
    def keys(self) -> Keys:
        """The keys of all n-grams, those of higher orders after those of lower ones; see `TextTable.ngram_keys`."""
        words, keys = word_keys(self.vocabulary), [np.zeros(1, dtype=np.uint64)]
        for level in self.levels:
            keys.append(mix(np.repeat(keys[-1], level.children), words.take(level.last)))
        return np.concatenate(keys[1:])

    def key_counts(self) -> KeyCounts:
        """The counts by key, without those that are 0."""
        keys, counts = self.keys, np.concatenate([level.counts for level in self.levels])
        order = np.flatnonzero(counts)
        # Sorted by their first bits already, they are sorted in a third of the time.
        order = order.take(first_bits_order(keys.take(order)))
        return KeyCounts.of(keys.take(order), counts.take(order))


class TrieCounts(LazyCounts):
    """The counts of a trie, which is made when it is first needed; its keys are, when they are."""

    def __init__(self, make: Callable[[], NgramTrie]) -> None:
        self._trie = trie = Once(make)
        super().__init__(lambda: trie().key_counts())

    @property
    def trie(self) -> NgramTrie:
        """The trie."""
        return self._trie()

    def release(self) -> None:
        """Make the trie, which lets go of the table."""
        self._trie()


def summed_counts(tries: Sequence[NgramTrie]) -> list[list[Counts]]:
    """For each trie the counts of its n-grams by level, each count added up over all tries that have the n-gram.

    The vocabularies must be sorted.

    >>> from captious.captions import CaptionSet
    >>> tables = [TextTable.of(CaptionSet.of({"1": ()}, {"1": [text]})) for text in ("a red dog", "a dog", "the dog")]
    >>> sums = summed_counts([NgramTrie.of(table) for table in tables])
    >>> [dict(zip(table.vocabulary, own[0].tolist())) for table, own in zip(tables, sums)]
    [{'a': 2, 'dog': 3, 'red': 1}, {'a': 2, 'dog': 3}, {'dog': 3, 'the': 1}]
    """
    words = sorted(set().union(*(trie.vocabulary for trie in tries)))
    index = dict(zip(words, range(len(words)), strict=True))
    tokens = [np.fromiter(map(index.__getitem__, trie.vocabulary), np.int64) for trie in tries]
    numbers, size = [np.zeros(1, dtype=np.int32) for _ in tries], 1  # the roots are one node
    sums: list[list[Counts]] = [[] for _ in tries]
    for levels in zip(*(trie.levels for trie in tries), strict=True):
        numbers, size = _numbered_nodes(levels, numbers, size, tokens, len(words))
        totals = np.zeros(size, dtype=COUNT)
        for level, number in zip(levels, numbers, strict=True):
            totals[number] += level.counts  # the nodes of one trie have different numbers
        totals = narrow(totals)
        for own, number in zip(sums, numbers, strict=True):
            own.append(totals.take(number))
    return sums


def _numbered_nodes(
    levels: Sequence[Level], parents: Sequence[Ints32], size: int, tokens: Sequence[Ints], words: int
) -> tuple[list[Ints32], int]:
    """The number of each node of a level, equal for equal n-grams and in the order of n-grams; and how many there are.

    ``parents`` are the numbers of the nodes of the level above, which are below ``size``, and ``tokens`` the indices of
    each vocabulary among all ``words``.
    """
    ranges = sum(len(level.last) for level in levels) // RANGE + 1
    bounds = np.linspace(0, size, ranges + 1).astype(np.int32)
    bits = (len(levels) - 1).bit_length()
    # The trie that an n-gram comes from is in the last bits: sorting such numbers is faster than sorting indices.
    marked = [(token << bits) | source for source, token in enumerate(tokens)]
    above = [np.searchsorted(own, bounds) for own in parents]
    below = [
        np.append(0, np.cumsum(level.children, dtype=np.int64)).take(cut)
        for level, cut in zip(levels, above, strict=True)
    ]
    numbers = [np.empty(len(level.last), dtype=np.int32) for level in levels]
    count = 0
    for span in (slice(index, index + 2) for index in range(ranges)):
        codes = []
        for level, own, token, up, down in zip(levels, parents, marked, above, below, strict=True):
            parent, child = slice(*up[span]), slice(*down[span])
            code = np.repeat(np.multiply(own[parent], words << bits, dtype=np.int64), level.children[parent])
            code += token.take(level.last[child])
            codes.append(code)
        ranks, distinct = _ranked(np.concatenate(codes), bits)
        first = 0
        for number, down in zip(numbers, below, strict=True):
            part = number[slice(*down[span])]
            np.add(ranks[first : first + len(part)], np.int32(count), out=part)
            first += len(part)
        count += distinct
    return numbers, count


def _ranked(codes: Ints, bits: int) -> tuple[Ints32, int]:
    """The rank of each code among the distinct ones, and how many these are. ``codes`` is sorted in place.

    The last bits of a code name its source and do not count. Codes of one source are ascending, and so are the sources.

    >>> codes = np.array([3, 8, 1, 3, 9]) << 1 | np.array([0, 0, 1, 1, 1])
    >>> _ranked(codes, 1)[0].tolist()
    [1, 2, 0, 1, 3]
    """
    codes.sort()
    source = (codes & ((1 << bits) - 1)).astype(np.min_scalar_type((1 << bits) - 1))
    codes >>= bits
    rank = np.cumsum(changes(codes), dtype=np.int32)
    # A stable sort by source: within one, sorting has left the codes in their order.
    ranks = rank.take(np.argsort(source, kind="stable"))
    ranks -= 1
    return ranks, int(rank[-1]) if len(rank) else 0
