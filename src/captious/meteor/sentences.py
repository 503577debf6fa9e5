"""Captions made ready for alignment: words as numbers, and which words and phrases of the batch may stand for which.

Everything that depends on a word or a phrase alone is worked out once per batch, in arrays; what remains for a pair of
captions is to intersect small sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from captious.meteor.hashing import span_hashes, word_hash
from captious.meteor.stem import stem
from captious.meteor.tables import IntArray, Tables
from captious.meteor.wordnet import synset_groups

STEM, SYNONYM = 1, 2

_stem = lru_cache(maxsize=1 << 18)(stem)
_hash = lru_cache(maxsize=1 << 18)(word_hash)


@dataclass(slots=True, eq=False)
class Sentence:
    """One caption within a batch."""

    words: list[int]
    positions: dict[int, list[int]]
    """Where each word stands."""
    function: int
    """Bit i is set when word i is a function word."""
    phrases: dict[int, list[int]]
    """Where each phrase begins that has a paraphrase, or is one, within the batch."""


@dataclass(slots=True, eq=False)
class Batch:
    """Captions that may be paired with each other."""

    sentences: list[Sentence]
    similar: dict[int, dict[int, int]]
    """For a word, the other words of equal stem (bit :data:`STEM`) or common synset (bit :data:`SYNONYM`)."""
    ranks: dict[tuple[int, int], int]
    """The place of a phrase and its paraphrase among the paraphrases of that phrase in the table."""
    linked: dict[int, set[int]]
    """For a phrase, its paraphrases and the phrases it is a paraphrase of."""
    lengths: list[int]
    """Words in each phrase."""


def read_batch(captions: Sequence[Sequence[str]], tables: Tables, modules: Sequence[str]) -> Batch:
    """Number the words and phrases of tokenised captions, and relate them by the given modules."""
    vocabulary: dict[str, int] = {}
    numbered = [[vocabulary.setdefault(word, len(vocabulary)) for word in words] for words in captions]
    known = list(vocabulary)
    function = {number for word, number in vocabulary.items() if word in tables.function_words}
    phrases = _Phrases({}, {}, {}, [])
    if "paraphrase" in modules:
        phrases = _phrases(numbered, known, tables)
    sentences = []
    for number, words in enumerate(numbered):
        positions: dict[int, list[int]] = {}
        bits = 0
        for at, word in enumerate(words):
            if word in positions:
                positions[word].append(at)
            else:
                positions[word] = [at]
            if word in function:
                bits |= 1 << at
        sentences.append(Sentence(words, positions, bits, phrases.places.get(number, {})))
    return Batch(sentences, _similar(known, tables, modules), phrases.ranks, phrases.linked, phrases.lengths)


def _similar(words: list[str], tables: Tables, modules: Sequence[str]) -> dict[int, dict[int, int]]:
    similar: dict[int, dict[int, int]] = defaultdict(dict)
    if "stem" in modules:
        stems: dict[str, list[int]] = defaultdict(list)
        for number, word in enumerate(words):
            stems[_stem(word)].append(number)
        _relate(similar, stems.values(), STEM)
    if "synonym" in modules:
        _relate(similar, synset_groups(words, tables), SYNONYM)
    return dict(similar)


def _relate(similar: dict[int, dict[int, int]], groups: Iterable[list[int]], bit: int) -> None:
    for group in groups:
        if len(group) > 1:
            for word in group:
                row = similar[word]
                for other in group:
                    if other != word:
                        row[other] = row.get(other, 0) | bit


@dataclass(slots=True, eq=False)
class _Phrases:
    places: dict[int, dict[int, list[int]]]
    ranks: dict[tuple[int, int], int]
    linked: dict[int, set[int]]
    lengths: list[int]


def _phrases(captions: list[list[int]], words: list[str], tables: Tables) -> _Phrases:
    """The phrases of each caption that take part in a paraphrase within the batch, and those paraphrases."""
    starts, lengths, rows, owners = _spans(captions, words, tables)
    present, phrase = np.unique(rows, return_inverse=True)
    first = tables.target_starts[present].astype(np.int64)
    sizes = tables.target_starts[present + 1].astype(np.int64) - first
    source = np.repeat(np.arange(len(present)), sizes)
    rank = np.arange(len(source)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    target_row = tables.targets[first[source] + rank].astype(np.int64)
    target = np.searchsorted(present, target_row)
    target[target == len(present)] = 0
    kept = np.flatnonzero(present[target] == target_row) if len(present) else target
    source, target, rank = source[kept], target[kept], rank[kept]
    linked: dict[int, set[int]] = defaultdict(set)
    ranks = {}
    for one, other, place in zip(source.tolist(), target.tolist(), rank.tolist(), strict=True):
        ranks[one, other] = place
        linked[one].add(other)
        linked[other].add(one)
    useful = np.zeros(len(present), dtype=bool)
    useful[source] = useful[target] = True
    taken = np.flatnonzero(useful[phrase])
    offsets = np.cumsum([0, *map(len, captions)])
    places: dict[int, dict[int, list[int]]] = defaultdict(dict)
    local = starts[taken] - offsets[owners[taken]]
    for owner, at, number in zip(owners[taken].tolist(), local.tolist(), phrase[taken].tolist(), strict=True):
        mine = places[owner]
        if number in mine:
            mine[number].append(at)
        else:
            mine[number] = [at]
    length_of = np.zeros(len(present), dtype=np.int64)
    length_of[phrase] = lengths
    return _Phrases(places, ranks, dict(linked), length_of.tolist())


def _spans(
    captions: list[list[int]], words: list[str], tables: Tables
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Start (in the concatenated captions), length, table row and caption of every phrase the table knows."""
    sizes = np.array([len(caption) for caption in captions], dtype=np.int64)
    flat = np.array([word for caption in captions for word in caption], dtype=np.int64)
    owner = np.repeat(np.arange(len(captions)), sizes)
    left = np.repeat(np.cumsum(sizes), sizes) - np.arange(len(flat))
    hashes = np.array([_hash(word) for word in words], dtype=np.uint64)
    starts, lengths, rows = [], [], []
    for length, spans in enumerate(span_hashes(hashes[flat]), 1):
        inside = np.flatnonzero(left[: len(spans)] >= length)
        row = tables.phrases.find(spans[inside])
        hit = row >= 0
        starts.append(inside[hit])
        rows.append(row[hit])
        lengths.append(np.full(int(hit.sum()), length))
    empty = np.empty(0, dtype=np.int64)
    start = np.concatenate([empty, *starts])
    return start, np.concatenate([empty, *lengths]), np.concatenate([empty, *rows]), owner[start]
