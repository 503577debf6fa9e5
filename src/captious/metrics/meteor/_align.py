"""Alignment of captions for METEOR: matches between words and phrases of many pairs, in arrays, and a beam search."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from captious._core.hashing import hash_text
from captious._core.languages import ENGLISH
from captious._core.types import Bools, Ints
from captious.metrics.meteor._compiled_tables import Tables, expand_ranges, find_synset_members, hash_spans
from captious.metrics.meteor._stem import load_snowball, stem

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
# Number of pairs of words that are compared at a time.
CELLS = 1 << 18
_MARKS = 1 << 20

_english_stem = lru_cache(maxsize=1 << 18)(stem)
_hash = lru_cache(maxsize=1 << 18)(hash_text)


class Relation:
    """A sparse map from pairs of numbers below a size to values."""

    def __init__(self, size: int, one: Ints, other: Ints, values: Ints) -> None:
        keys = one * size + other
        order = np.argsort(keys)
        self.size, self.keys, self.values = size, keys[order], values[order]
        # A number has a hash for each side. Most unrelated pairs end at a hash of both that no related pair has.
        self.hashes, self.other_hashes = (
            (np.arange(size) * multiplier >> 12 & _MARKS - 1).astype(np.int32)
            for multiplier in (0x9E3779B1, 0x85EBCA77)
        )
        self.marks = np.zeros(_MARKS, dtype=bool)
        self.marks[self.hashes[one] ^ self.other_hashes[other]] = True

    def find(self, one: Ints, other: Ints) -> Ints:
        """Return the index of the value of each pair of numbers, -1 if they are not related."""
        keys = one * self.size + other
        at = np.searchsorted(self.keys, keys)
        at[at == len(self.keys)] = 0
        return np.where(self.keys[at] == keys, at, -1) if len(self.keys) else at - 1

    def find_pairs(self, numbers: Ints, spans: Spans, others: Spans) -> tuple[Ints, Ints, Ints, Ints]:
        """Find all related numbers between every span and the span of the same index in ``others``.

        Return the index of the span, the indices of both numbers, and the index of their value.
        """
        pair = np.repeat(np.arange(len(spans.sizes)), spans.sizes)
        one = expand_ranges(spans.first, spans.sizes)
        hashes, other_hashes = self.hashes[numbers[one]], self.other_hashes[numbers]
        first, sizes = others.first[pair], others.sizes[pair]
        ends = np.cumsum(sizes)
        # Every word of a span meets all words of the other span, in flat arrays; rows of up to CELLS cells at a time:
        #
        #   one      w0        w1        w2     …     an entry per word of the spans
        #   other    v0 v1 v2  v0 v1 v2  v3 v4  …     a cell per pair of words
        #
        # Few cells are related: `marks` drops most of the others before the binary search of `find`.
        parts, start = [(np.empty(0, np.int64),) * 3], 0
        while start < len(one):
            stop = max(start + 1, int(np.searchsorted(ends, ends[start] - sizes[start] + CELLS, "right")))
            rows = slice(start, stop)
            other = expand_ranges(first[rows], sizes[rows])
            near = np.flatnonzero(self.marks[np.repeat(hashes[rows], sizes[rows]) ^ other_hashes[other]])
            row = start + np.searchsorted(np.cumsum(sizes[rows]), near, "right")
            other = other[near]
            found = self.find(numbers[one[row]], numbers[other])
            hit = found >= 0
            parts.append((row[hit], other[hit], found[hit]))
            start = stop
        row, other, found = map(np.concatenate, zip(*parts, strict=True))
        return pair[row], one[row], other, found


@dataclass(frozen=True, eq=False)
class Spans:
    """Slices of one array, by their start and size."""

    first: Ints
    sizes: Ints

    @classmethod
    def of(cls, sizes: Ints) -> Spans:
        """Make spans that follow each other."""
        return cls(np.cumsum(sizes) - sizes, sizes)

    def __getitem__(self, chosen: Ints) -> Spans:
        return Spans(self.first[chosen], self.sizes[chosen])


@dataclass(frozen=True, eq=False)
class SentenceBatch:
    """Captions that may be paired with each other, concatenated."""

    words: Ints
    sentences: Spans
    """The words of each caption."""
    function: Bools
    """Whether each word is a function word."""
    similar: Relation
    """Which words match: bit m of the value is set if module m matches the two words."""
    phrases: Ints
    """The phrases of all captions that have a paraphrase, or are one, within the batch."""
    phrase_starts: Ints
    phrase_sizes: Ints
    occurrences: Spans
    """The phrases of each caption."""
    paraphrases: Relation
    """Which phrases match: the rank of the second among the paraphrases of the first in the table, or -1."""


def read_batch(captions: Sequence[Sequence[str]], tables: Tables, modules: Sequence[str]) -> SentenceBatch:
    """Assign numbers to the words and phrases of tokenized captions, and relate them by the given modules."""
    vocabulary: dict[str, int] = {}
    number = vocabulary.setdefault
    words = np.array([number(word, len(vocabulary)) for caption in captions for word in caption], dtype=np.int64)
    sentences = Spans.of(np.array([len(caption) for caption in captions], dtype=np.int64))
    distinct = list(vocabulary)
    function = np.array([word in tables.function_words for word in distinct], dtype=bool)
    similar = _relate_words(distinct, tables, modules)
    none = np.empty(0, np.int64)
    starts, sizes, rows = (
        _find_phrases(words, sentences, distinct, tables) if "paraphrase" in modules else (none, none, none)
    )
    phrases, paraphrases, useful = _relate_phrases(rows, tables)
    starts, sizes, phrases = starts[useful], sizes[useful], phrases[useful]
    order = np.argsort(starts, kind="stable")
    edges = np.searchsorted(starts[order], np.append(sentences.first, len(words)))
    return SentenceBatch(
        words,
        sentences,
        function[words],
        similar,
        phrases[order],
        starts[order],
        sizes[order],
        Spans(edges[:-1], np.diff(edges)),
        paraphrases,
    )


def _relate_words(words: list[str], tables: Tables, modules: Sequence[str]) -> Relation:
    every = np.arange(len(words))
    keys, bits = [every * (len(words) + 1)], [np.full(len(words), 1 << EXACT)]

    def relate(members: Ints, groups: Ints, module: int) -> None:
        """Relate all members of a group."""
        order = np.argsort(groups, kind="stable")
        members, groups = members[order], groups[order]
        first = np.searchsorted(groups, groups)
        sizes = np.searchsorted(groups, groups, "right") - first
        one, other = np.repeat(members, sizes), members[expand_ranges(first, sizes)]
        keys.append(np.unique((one * len(words) + other)[one != other]))
        bits.append(np.full(len(keys[-1]), 1 << module))

    if "stem" in modules:
        to_stem = _english_stem if tables.language == ENGLISH else load_snowball(tables.language)
        stems: dict[str, int] = {}
        relate(every, np.array([stems.setdefault(to_stem(word), len(stems)) for word in words], np.int64), STEM)
    if "synonym" in modules:
        relate(*find_synset_members(words, tables), SYNONYM)
    distinct, at = np.unique(np.concatenate(keys), return_inverse=True)
    values = np.bincount(at, np.concatenate(bits)).astype(np.int64)
    return Relation(len(words), *np.divmod(distinct, max(len(words), 1)), values)


def _relate_phrases(rows: Ints, tables: Tables) -> tuple[Ints, Relation, Bools]:
    """Assign numbers to the phrases that are rows of the table.

    Return the number of each phrase, the relation of paraphrases, and whether each phrase is or has a paraphrase here.
    """
    present, phrases = np.unique(rows, return_inverse=True)
    first = tables.phrases.starts[present].astype(np.int64)
    sizes = tables.phrases.starts[present + 1].astype(np.int64) - first
    source = np.repeat(np.arange(len(present)), sizes)
    listed = expand_ranges(first, sizes)
    listed_rows = tables.phrases.values[listed]
    target = np.searchsorted(present, listed_rows)
    target[target == len(present)] = 0
    inside = np.flatnonzero(present[target] == listed_rows) if len(present) else target
    source, target = source[inside], target[inside]
    ranks = listed[inside] - first[source]
    # The last of equal paraphrases counts. Pairs that the table has in one direction are related in both.
    keys = np.concatenate([target * len(present) + source, source * len(present) + target])
    distinct, at = np.unique(keys[::-1], return_index=True)
    ranks = np.concatenate([np.full(len(source), -1), ranks])[::-1][at]
    useful = np.zeros(len(present), dtype=bool)
    useful[source] = useful[target] = True
    return phrases, Relation(len(present), *np.divmod(distinct, max(len(present), 1)), ranks), useful[phrases]


def _find_phrases(words: Ints, sentences: Spans, distinct: list[str], tables: Tables) -> tuple[Ints, Ints, Ints]:
    """Return start, length and table row of every phrase of the captions that is in the table."""
    left = np.repeat(sentences.first + sentences.sizes, sentences.sizes) - np.arange(len(words))
    hashes = np.array([_hash(word) for word in distinct], dtype=np.uint64)
    starts, lengths, rows = [], [], []
    for length, spans in enumerate(hash_spans(hashes[words]), 1):
        inside = np.flatnonzero(left[: len(spans)] >= length)
        row = tables.phrases.find(spans[inside])
        hit = row >= 0
        starts.append(inside[hit])
        rows.append(row[hit])
        lengths.append(np.full(int(hit.sum()), length))
    return np.concatenate(starts), np.concatenate(lengths), np.concatenate(rows)


@dataclass(frozen=True, eq=False)
class Matches:
    """All matches of pairs of captions, in the order in which the search tries them; `other` is the candidate's side.

    Starts and ends index the words of all pairs' references, concatenated, and separately those of all candidates.
    """

    references: Spans
    """The words of each pair's reference."""
    candidates: Spans
    pair: Ints
    start: Ints
    end: Ints
    other: Ints
    other_end: Ints
    module: Ints

    @cached_property
    def spans(self) -> Spans:
        """The matches of each pair."""
        edges = np.searchsorted(self.pair, np.arange(len(self.references.sizes) + 1))
        return Spans(edges[:-1], np.diff(edges))

    @cached_property
    def covered(self) -> Ints:
        """The number of matches that contain each word of the references."""
        return _count_depth(self.start, self.end, int(self.references.sizes.sum()))

    @cached_property
    def other_covered(self) -> Ints:
        """The number of matches that contain each word of the candidates."""
        return _count_depth(self.other, self.other_end, int(self.candidates.sizes.sum()))

    @cached_property
    def fixed(self) -> Bools:
        """Whether no word of a match is in another match."""
        alone: Bools = np.ones(len(self.pair), dtype=bool)
        for depth, first, last in (
            (self.covered, self.start, self.end),
            (self.other_covered, self.other, self.other_end),
        ):
            shared = np.append(0, np.cumsum(depth > 1))
            alone &= shared[first] == shared[last]
        return alone


def _count_depth(starts: Ints, ends: Ints, size: int) -> Ints:
    """Count the spans that contain each index."""
    changes = np.bincount(starts, minlength=size + 1) - np.bincount(ends, minlength=size + 1)
    return np.cumsum(changes)[:size]


def find_matches(batch: SentenceBatch, candidates: Ints, references: Ints) -> Matches:
    """Find all matches of candidates with references, both given by the index of the caption; captions may recur."""
    candidate_spans, reference_spans = batch.sentences[candidates], batch.sentences[references]
    pair, one, other, found = batch.similar.find_pairs(batch.words, reference_spans, candidate_spans)
    modules = batch.similar.values[found]
    one, other = one - reference_spans.first[pair], other - candidate_spans.first[pair]
    in_place = np.bincount(pair[(one == other) & (modules & 1 << EXACT > 0)], minlength=len(references))
    # Captions of the same words match exactly and in no other way.
    same = (candidate_spans.sizes == reference_spans.sizes) & (in_place == candidate_spans.sizes)
    modules = np.where(same[pair], modules & 1 << EXACT, modules)
    parts: list[tuple[Ints, ...]] = []
    for module in (EXACT, STEM, SYNONYM):
        chosen = np.flatnonzero(modules & 1 << module)
        single = np.ones(len(chosen), np.int64)
        parts.append((pair[chosen], one[chosen], single, other[chosen], single, np.full(len(chosen), module)))
    parts += _find_phrasal_matches(batch, candidates, references, ~same)
    pair, one, size, other, other_size, used = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    rows, other_rows = Spans.of(reference_spans.sizes), Spans.of(candidate_spans.sizes)
    start, other = rows.first[pair] + one, other_rows.first[pair] + other
    order = np.argsort(start, kind="stable")
    columns = (pair, start, start + size, other, other + other_size, used)
    return Matches(rows, other_rows, *(column[order] for column in columns))


def _find_phrasal_matches(
    batch: SentenceBatch, candidates: Ints, references: Ints, wanted: Bools
) -> Iterator[tuple[Ints, ...]]:
    """Yield paraphrase matches: first those listed under the reference's phrase, then under the candidate's."""
    candidate_spans, reference_spans = batch.occurrences[candidates], batch.occurrences[references]
    pair, one, other, found = batch.paraphrases.find_pairs(batch.phrases, reference_spans, candidate_spans)
    chosen = np.flatnonzero(wanted[pair])
    pair, one, other, found = pair[chosen], one[chosen], other[chosen], found[chosen]
    start = batch.phrase_starts[one] - batch.sentences.first[references[pair]]
    other_start = batch.phrase_starts[other] - batch.sentences.first[candidates[pair]]
    size, other_size = batch.phrase_sizes[one], batch.phrase_sizes[other]
    reference_rank = batch.paraphrases.values[found]
    candidate_rank = batch.paraphrases.values[batch.paraphrases.find(batch.phrases[other], batch.phrases[one])]
    module = np.full(len(pair), PARAPHRASE)
    for rank, keys in (
        (reference_rank, (other_start, reference_rank, size)),
        (candidate_rank, (candidate_rank, other_size, other_start)),
    ):
        order = np.lexsort((*keys, start, pair))
        order = order[rank[order] >= 0]
        columns = (pair, start, size, other_start, other_size, module)
        yield tuple(column[order] for column in columns)


def align(found: Matches, pairs: Ints) -> Ints:
    """Return the matches of the best alignment of each pair, by index, from left to right over the reference."""
    spans = found.spans[pairs]
    own = expand_ranges(spans.first, spans.sizes)
    fixed = found.fixed[own]
    is_open = np.zeros(len(found.spans.sizes), dtype=bool)
    is_open[found.pair[own[~fixed]]] = True
    to_search = pairs[is_open[pairs]]
    taken: list[int] = []
    for length, settled, choices in _list_choices(found, to_search):
        taken += search(length, settled, choices)
    return np.sort(np.concatenate([own[fixed], np.array(taken, np.int64)]))


def _list_choices(found: Matches, pairs: Ints) -> Iterator[tuple[int, dict[int, Fixed], dict[int, list[Option]]]]:
    """Yield the input of the search for each pair: the length of the reference, its fixed matches, and the others."""
    spans = found.spans[pairs]
    own = expand_ranges(spans.first, spans.sizes)
    pair, size = found.pair[own], found.end[own] - found.start[own]
    start, other = found.start[own] - found.references.first[pair], found.other[own] - found.candidates.first[pair]
    other_size = found.other_end[own] - found.other[own]
    # Integer halves, as in the original: an exact match is worth 2, a stem or a synonym 1 // 2 + 1 // 2 = 0.
    worth = np.where(found.module[own] == EXACT, 2, size // 2 + other_size // 2)
    columns = (own, start, start + size, other, other + other_size, worth, abs(start - other), found.fixed[own])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for length, number in zip(found.references.sizes[pairs].tolist(), spans.sizes.tolist(), strict=True):
        settled: dict[int, Fixed] = {}
        choices: dict[int, list[Option]] = defaultdict(list)
        for index, at, end, there, there_end, words, distance, fixed in islice(rows, number):
            if fixed:
                settled[at] = (end, there, there_end)
            else:
                bits = (1 << there_end) - (1 << there)
                choices[at].append((end, there, there_end, bits, -words * WORD, distance, index))
        yield length, settled, choices


# The search goes through the reference from left to right. At each word it takes one of the matches that begin there,
# or skips the word; every path remembers which candidate words its choices have used.
#
#   reference   a   man  rides  a   brown  horse
#               |       \     \     \        |
#   candidate   a   tall  man  riding  a   horse       three chunks: a | man riding a | horse
#
#   step        a→0     man→2   rides→3  a→4     skip brown  horse→5
#   used        000001  000001  000001   010001  010001      010001      bit i: candidate word i
#   last end    1       3       4        5       -1          6
#   chunks      0       1       1        1       2           2, and 1 at the end: a chunk is counted when it ends
#
# Here only "a" is a choice: it matches two words. "man", "rides" and "horse" are fixed matches: no other match contains
# their words, so they need no bit in `used`.
#
# The cost of a path is one integer, so that a comparison of two costs compares three criteria in order of importance:
# matched words (by what they are worth, see `_list_choices`), then chunks, then distances |start − other start|:
#
#   cost = − worth · 2^60 + chunks · 2^40 + distances
#
# Only the BEAM cheapest paths are kept at each reference word, as in the original.
BEAM = 40
_CHUNK = 1 << 40
WORD = 1 << 60
_UNLIMITED = 1 << 100
_cost = itemgetter(0)

# End in the reference, start and end in the candidate, of a match that every alignment takes, since it shares no word
# with another match.
Fixed: TypeAlias = tuple[int, int, int]

# End in the reference, start and end in the candidate, the candidate's words as bits, what the match adds to the cost
# of a path, its distance, and its number. A plain tuple for speed: dozens are made for every pair of captions.
Option: TypeAlias = tuple[int, int, int, int, int, int, int]

# Cost, end of the last match in the candidate (-1 after a gap), next free reference word, candidate words in use, and
# the matches taken.
Path: TypeAlias = tuple[int, int, int, int, "Trail | None"]

Trail: TypeAlias = "tuple[int, Trail | None]"

# The options by the reference word where they begin, from left to right.
Choices: TypeAlias = Mapping[int, Sequence[Option]]


def search(length: int, fixed: Mapping[int, Fixed], choices: Choices) -> Iterator[int]:
    """Yield the numbers of the options on the best path, given the length of the reference and its fixed matches.

    A path that cannot match as many words as a greedy choice is dropped at once. All paths that are left then cost
    less, so the dropped one would never have pushed another out of the beam. If the beam has lost all paths that are as
    good as the greedy one, the search starts again and drops none.
    """
    paths = _search_paths(length, fixed, choices, _compute_limits(choices)) or _search_paths(length, fixed, choices, {})
    trail = min(paths, key=_cost)[4]
    while trail is not None:
        number, trail = trail
        yield number


def _compute_limits(choices: Choices) -> dict[int, int]:
    """Return, for each reference word, the cost below which a path can still match as many words as greedily."""
    greedy = used = free = 0
    lowest = []
    for at, options in choices.items():
        lowest.append(min(option[4] for option in options))
        if at >= free:
            cost, end, bits = min([(one[4], one[0], one[3]) for one in options if not used & one[3]], default=(0, 0, 0))
            if cost:
                greedy, used, free = greedy + cost, used | bits, end
    # `rest` is the lowest cost that later words can add. Chunks and distances together stay below one WORD.
    limits, rest = {}, sum(lowest)
    for at, cost in zip(choices, lowest, strict=True):
        rest -= cost
        limits[at] = WORD + greedy - rest
    return limits


def _search_paths(length: int, fixed: Mapping[int, Fixed], choices: Choices, limits: Mapping[int, int]) -> list[Path]:
    """Return the paths that reach the end of the reference."""
    paths: list[Path] = [(0, -1, 0, 0, None)]
    # While all paths end alike, after a fixed match or a gap, `last` is their common end, and the one in each path is
    # out of date: the list need not be rewritten for every fixed match.
    alike, last, after = True, -1, 0
    for current in range(length):
        if current < after:
            continue
        if current in fixed:
            after, other, other_end = fixed[current]
            if not alike:
                paths = [
                    (cost if end == -1 or end == other else cost + _CHUNK, 0, 0, used, trail)
                    for cost, end, _, used, trail in _keep_best(paths)
                ]
            alike, last = True, other_end
        elif current in choices:
            limit = limits.get(current, _UNLIMITED)
            paths = _extend_paths(_keep_best(paths), current, choices[current], last if alike else None, limit)
            alike = False
        else:
            if not alike:
                paths = [
                    path if path[1] == -1 or path[2] > current else (path[0] + _CHUNK, -1, 0, path[3], path[4])
                    for path in _keep_best(paths)
                ]
                # A path in the middle of a phrase, or at its end, has an end of its own.
                alike = all(path[1] == -1 for path in paths)
            last = -1
    paths = _keep_best(paths)
    if not alike:
        paths = [(cost if end == -1 else cost + _CHUNK, 0, 0, 0, trail) for cost, end, _, _, trail in paths]
    return paths


def _keep_best(paths: list[Path]) -> list[Path]:
    paths.sort(key=_cost)
    del paths[BEAM:]
    return paths


def _extend_paths(
    paths: list[Path], current: int, options: Sequence[Option], common: int | None, limit: int
) -> list[Path]:
    """Return all extensions of the paths at a reference word that cost less than the limit."""
    following: list[Path] = []
    add = following.append
    for path in paths:
        cost, last, free, used, trail = path
        if common is not None:
            last = common
        elif free > current:
            if cost < limit:
                add(path)
            continue
        # As in the original, a match adds its distance to the paths after it, which take a later option or skip the
        # word, and not to its own.
        for end, other, other_end, bits, worth, distance, number in options:
            if used & bits:
                continue
            new = cost + worth if last == -1 or last == other else cost + worth + _CHUNK
            if new < limit:
                add((new, other_end, end, used | bits, (number, trail)))
            cost += distance
        if cost < limit:
            add((cost if last == -1 else cost + _CHUNK, -1, 0, used, trail))
    return following
