"""The alignment of candidates and references: their words as numbers, all matches of a pair, and the beam search.

Everything that depends on a word or a phrase alone is worked out once per batch, in arrays; what remains for a pair of
captions is to intersect small sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from captious._hashing import text_hash
from captious._languages import ENGLISH
from captious._typing import Ints
from captious.metrics.meteor._stem import snowball, stem
from captious.metrics.meteor._tables import Tables, span_hashes, synset_groups

STEM, SYNONYM = 1, 2

_english_stem = lru_cache(maxsize=1 << 18)(stem)
_hash = lru_cache(maxsize=1 << 18)(text_hash)


@dataclass(slots=True, eq=False)
class IndexedSentence:
    """One caption within a batch."""

    words: list[int]
    positions: dict[int, list[int]]
    """Where each word stands."""
    function: int
    """Bit i is set when word i is a function word."""
    phrases: dict[int, list[int]]
    """Where each phrase begins that has a paraphrase, or is one, within the batch."""


@dataclass(slots=True, eq=False)
class SentenceBatch:
    """Captions that may be paired with each other."""

    sentences: list[IndexedSentence]
    similar: dict[int, dict[int, int]]
    """The other words of equal stem (bit :data:`STEM`) or common synset (bit :data:`SYNONYM`), by word."""
    ranks: dict[tuple[int, int], int] = field(default_factory=dict)
    """The rank of a phrase's paraphrase among the paraphrases of that phrase in the table."""
    linked: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The paraphrases of each phrase, in both directions."""
    lengths: list[int] = field(default_factory=list)
    """Words in each phrase."""


def read_batch(captions: Sequence[Sequence[str]], tables: Tables, modules: Sequence[str]) -> SentenceBatch:
    """Number the words and phrases of tokenized captions, and relate them by the given modules."""
    vocabulary: dict[str, int] = {}
    numbered = [[vocabulary.setdefault(word, len(vocabulary)) for word in words] for words in captions]
    distinct = list(vocabulary)
    function = {number for word, number in vocabulary.items() if word in tables.function_words}
    batch = SentenceBatch([], _similar(distinct, tables, modules))
    phrases = _find_phrases(batch, numbered, distinct, tables) if "paraphrase" in modules else {}
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
        batch.sentences.append(IndexedSentence(words, positions, bits, phrases.get(number, {})))
    return batch


def _similar(words: list[str], tables: Tables, modules: Sequence[str]) -> dict[int, dict[int, int]]:
    similar: dict[int, dict[int, int]] = defaultdict(dict)
    if "stem" in modules:
        to_stem = _english_stem if tables.language == ENGLISH else snowball(tables.language)
        stems: dict[str, list[int]] = defaultdict(list)
        for number, word in enumerate(words):
            stems[to_stem(word)].append(number)
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


def _find_phrases(
    batch: SentenceBatch, captions: list[list[int]], words: list[str], tables: Tables
) -> dict[int, dict[int, list[int]]]:
    """The positions in each caption where phrases begin that have a paraphrase within the batch.

    The batch records these phrases.
    """
    starts, lengths, rows, owners = _spans(captions, words, tables)
    present, phrase = np.unique(rows, return_inverse=True)
    first = tables.phrases.starts[present].astype(np.int64)
    sizes = tables.phrases.starts[present + 1].astype(np.int64) - first
    source = np.repeat(np.arange(len(present)), sizes)
    rank = np.arange(len(source)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    target_row = tables.phrases.values[first[source] + rank].astype(np.int64)
    target = np.searchsorted(present, target_row)
    target[target == len(present)] = 0
    inside = np.flatnonzero(present[target] == target_row) if len(present) else target
    source, target, rank = source[inside], target[inside], rank[inside]
    for one, other, order in zip(source.tolist(), target.tolist(), rank.tolist(), strict=True):
        batch.ranks[one, other] = order
        batch.linked[one].add(other)
        batch.linked[other].add(one)
    useful = np.zeros(len(present), dtype=bool)
    useful[source] = useful[target] = True
    taken = np.flatnonzero(useful[phrase])
    offsets = np.cumsum([0, *map(len, captions)])
    positions: dict[int, dict[int, list[int]]] = defaultdict(dict)
    local = starts[taken] - offsets[owners[taken]]
    for owner, at, number in zip(owners[taken].tolist(), local.tolist(), phrase[taken].tolist(), strict=True):
        positions[owner].setdefault(number, []).append(at)
    length_of = np.zeros(len(present), dtype=np.int64)
    length_of[phrase] = lengths
    batch.lengths += length_of.tolist()
    return positions


def _spans(captions: list[list[int]], words: list[str], tables: Tables) -> tuple[Ints, Ints, Ints, Ints]:
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


BEAM = 40
EXACT_MODULE, STEM_MODULE, SYNONYM_MODULE, PARAPHRASE_MODULE = range(4)

_CHUNK = 1 << 40
_WORD = 1 << 60
_cost = itemgetter(0)

Match: TypeAlias = tuple[int, int, int, int, int, int, int, int]
"""Start and end in the reference, start and end in the candidate, module, the candidate's words as bits, what the match
adds to the cost of a path, and its distance. (A plain tuple: hundreds are made for every item.)"""

Path: TypeAlias = tuple[int, int, int, int, "Trail | None"]
"""Cost, end of the last match in the candidate (-1 after a gap), next free reference word, candidate words in use, and
the matches taken."""

Trail: TypeAlias = "tuple[Match, Trail | None]"


@dataclass(slots=True, eq=False)
class Candidate:
    """A candidate, and what it has for the words and phrases of references, noted when first asked."""

    sentence: IndexedSentence
    batch: SentenceBatch
    singles: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Module and position of the one-word matches of a reference word, in the order in which they are tried."""
    partners: dict[int, list[int]] = field(default_factory=dict)
    """The candidate's phrases that a reference phrase may stand for."""

    def find_singles(self, word: int) -> list[tuple[int, int]]:
        """Note the one-word matches of a reference word."""
        positions = self.sentence.positions
        singles = [(EXACT_MODULE, at) for at in positions[word]] if word in positions else []
        near = self.batch.similar.get(word)
        if near is not None and not near.keys().isdisjoint(positions):
            shared = near.keys() & positions.keys()
            for bit, module in ((STEM, STEM_MODULE), (SYNONYM, SYNONYM_MODULE)):
                singles += sorted((module, at) for other in shared if near[other] & bit for at in positions[other])
        self.singles[word] = singles
        return singles

    def find_partners(self, phrase: int) -> list[int]:
        """Note the candidate's phrases that a reference phrase may stand for."""
        linked, own = self.batch.linked[phrase], self.sentence.phrases
        partners = [] if linked.isdisjoint(own) else [one for one in own if one in linked]
        self.partners[phrase] = partners
        return partners


@dataclass(slots=True, eq=False)
class MatchOptions:
    """All matches of a pair of captions; words are bits, `other_` are those of the candidate."""

    length: int
    """Words in the reference."""
    matches: dict[int, list[Match]]
    """Matches by the reference word where they begin, in the order in which the search tries them."""
    covered: int = 0
    other_covered: int = 0
    twice: int = 0
    """Words in two matches or more."""
    other_twice: int = 0
    exact: int = 0
    other_exact: int = 0

    def __post_init__(self) -> None:
        """Note which words the matches cover."""
        covered = twice = exact = other_covered = other_twice = other_exact = 0
        for options in self.matches.values():
            for start, end, _, _, module, other_bits, _, _ in options:
                bits = (1 << end) - (1 << start)
                twice |= covered & bits
                covered |= bits
                other_twice |= other_covered & other_bits
                other_covered |= other_bits
                if not module:
                    exact |= bits
                    other_exact |= other_bits
        self.covered, self.twice, self.exact = covered, twice, exact
        self.other_covered, self.other_twice, self.other_exact = other_covered, other_twice, other_exact


def matches(candidate: Candidate, reference: IndexedSentence) -> MatchOptions:
    """All matches of a candidate and a reference."""
    result: dict[int, list[Match]] = {}
    if candidate.sentence.words == reference.words:
        for positions in reference.positions.values():
            for at in positions:
                result[at] = [
                    (at, at + 1, other, other + 1, EXACT_MODULE, 1 << other, -2 * _WORD, abs(at - other))
                    for other in positions
                ]
        return MatchOptions(len(reference.words), result)
    cached = candidate.singles
    for word, positions in reference.positions.items():
        if singles := cached[word] if word in cached else candidate.find_singles(word):
            for at in positions:
                result[at] = [
                    (at, at + 1, other, other + 1, module, 1 << other, 0 if module else -2 * _WORD, abs(at - other))
                    for module, other in singles
                ]
    for at, match in _phrasal(candidate, reference):
        if at in result:
            result[at].append(match)
        else:
            result[at] = [match]
    return MatchOptions(len(reference.words), result)


def _phrasal(candidate: Candidate, reference: IndexedSentence) -> list[tuple[int, Match]]:
    """Matches of paraphrases: first those the table lists under the reference's phrase, then under the candidate's."""
    ranks, lengths, own = candidate.batch.ranks, candidate.batch.lengths, candidate.sentence.phrases
    cached = candidate.partners
    forth, back = [], []
    for phrase, positions in reference.phrases.items():
        for partner in cached[phrase] if phrase in cached else candidate.find_partners(phrase):
            there, here = ranks.get((phrase, partner)), ranks.get((partner, phrase))
            length, size = lengths[phrase], lengths[partner]
            worth = -(length // 2 + size // 2) * _WORD
            for at in positions:
                for other in own[partner]:
                    bits = (1 << other + size) - (1 << other)
                    match = (at, at + length, other, other + size, PARAPHRASE_MODULE, bits, worth, abs(at - other))
                    if there is not None:
                        forth.append((at, length, there, other, match))
                    if here is not None:
                        back.append((at, other, size, here, match))
    if not (forth or back):
        return []
    return [(entry[0], entry[-1]) for entry in [*sorted(forth), *sorted(back)]]


def align(options: MatchOptions) -> list[Match]:
    """The best alignment, from left to right over the reference."""
    fixed: dict[int, Match] = {}
    for at, choice in options.matches.items():
        if len(choice) == 1:
            match = choice[0]
            if not (options.other_twice & match[5] or options.twice & (1 << match[1]) - (1 << at)):
                fixed[at] = match
    taken = [*fixed.values()]
    if len(fixed) < len(options.matches):
        taken += search(options.length, fixed, options.matches)
    taken.sort()
    return taken


def search(length: int, fixed: dict[int, Match], choices: dict[int, list[Match]]) -> list[Match]:
    """The beam search over the reference words that have a choice; the fixed matches are not repeated in the result."""
    paths: list[Path] = [(0, -1, 0, 0, None)]
    # While all paths end alike, `last` stands for the end of their last match and their own is out of date.
    alike, last, after = True, -1, 0
    for current in range(length):
        if current < after:
            continue
        if current in fixed:
            _, after, other, other_end, _, _, _, _ = fixed[current]
            if not alike:
                paths = [
                    (cost if end == -1 or end == other else cost + _CHUNK, 0, 0, used, trail)
                    for cost, end, _, used, trail in _best(paths)
                ]
            alike, last = True, other_end
        elif current in choices:
            paths = _step(_best(paths), current, choices[current], last if alike else None)
            alike = False
        else:
            if not alike:
                paths = [
                    path if path[1] == -1 or path[2] > current else (path[0] + _CHUNK, -1, 0, path[3], path[4])
                    for path in _best(paths)
                ]
                # A path in the middle of a phrase, or at its end, has an end of its own.
                alike = all(path[1] == -1 for path in paths)
            last = -1
    paths = _best(paths)
    if not alike:
        paths = [(cost if end == -1 else cost + _CHUNK, 0, 0, 0, trail) for cost, end, _, _, trail in paths]
    trail = min(paths, key=_cost)[4]
    taken = []
    while trail is not None:
        match, trail = trail
        taken.append(match)
    return taken


def _best(paths: list[Path]) -> list[Path]:
    paths.sort(key=_cost)
    del paths[BEAM:]
    return paths


def _step(paths: list[Path], current: int, options: list[Match], common: int | None) -> list[Path]:
    """All ways to go on at a reference word."""
    following: list[Path] = []
    add = following.append
    for path in paths:
        cost, last, free, used, trail = path
        if common is not None:
            last = common
        elif free > current:
            add(path)
            continue
        for match in options:
            _, end, other, other_end, _, bits, worth, distance = match
            if used & bits:
                continue
            new = cost + worth if last == -1 or last == other else cost + worth + _CHUNK
            add((new, other_end, end, used | bits, (match, trail)))
            cost += distance
        add((cost if last == -1 else cost + _CHUNK, -1, 0, used, trail))
    return following
