"""Random numbers that are a function of their address: (seed, image id, caption, kind, copy), try, purpose, position.

A generator would have to be read in order; here every number is a hash (SplitMix64) of where it is used, so that all
draws are elementwise operations and a caption gets the same negatives alone, in another order or in another batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain, pairwise
from json.encoder import encode_basestring as quoted
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._files import whole_file
from captious._random import GAMMA, mix
from captious._typing import Bools, Floats, Ints, Ints32
from captious.captions import CaptionSet
from captious.errors import InputError, nearest
from captious.text.tables import tokenize
from captious.text.tokenizers import TOKENIZERS
from captious.train.neighbors import Neighbors, nearest_captions, nearest_vectors

Keys = npt.NDArray[np.uint64]


def fork(keys: Keys, numbers: Ints | int) -> Keys:
    """One new key for each key and number."""
    steps = np.atleast_1d(np.asarray(numbers, dtype=np.int64)).astype(np.uint64) + np.uint64(1)
    mixed: Keys = mix(keys + steps * np.uint64(GAMMA))
    return mixed


def image_keys(ids: Sequence[str], seed: int) -> Keys:
    """One key for each image, of its id and the seed alone."""
    hashes = [blake2b(f"{seed}\x1f{key}".encode(), digest_size=8).digest() for key in ids]
    return np.frombuffer(b"".join(hashes), dtype="<u8").astype(np.uint64)


def uniform(keys: Keys, positions: Ints | int = 0) -> Floats:
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


_CLITICS = frozenset({"'s", "'re", "'ve", "'ll", "'d", "'m"})


@dataclass(frozen=True, eq=False)
class Corpus:
    """Captions by image: sorted by id, whatever order they came in; images without captions are left out.

    >>> corpus = Corpus.of({"b": ["a red dog", "A dog."], "a": ["two cats"]})
    >>> corpus.ids, corpus.texts
    (('a', 'b'), ('two cats', 'a red dog', 'A dog.'))
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    offsets: Ints
    """Image i has the captions ``offsets[i]`` up to ``offsets[i + 1]``."""
    as_given: Ints
    """The captions in the order they came."""
    name: str = "captions"

    @classmethod
    def of(cls, captions: Mapping[str, Sequence[str]], name: str = "captions") -> Corpus:
        """Captions by id."""
        given = [key for key in captions if captions[key]]
        ids = sorted(given)
        counts = np.array([len(captions[key]) for key in ids], dtype=np.int64)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        place = {key: number for number, key in enumerate(ids)}
        order = np.array([place[key] for key in given], dtype=np.int64)
        texts = tuple(text for key in ids for text in captions[key])
        return cls(tuple(ids), texts, offsets, runs(offsets[:-1][order], counts[order]), name)

    @classmethod
    def of_references(cls, captions: CaptionSet) -> Corpus:
        """The references of a set, or its candidates where it has no references."""
        lists = captions.references if len(captions.references.values) else captions.candidates
        return cls.of({key: lists[number] for number, key in enumerate(captions.ids)}, captions.name)

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def image(self) -> Ints:
        """The image of each caption."""
        return np.repeat(np.arange(len(self.ids)), np.diff(self.offsets))

    @cached_property
    def place(self) -> Ints:
        """The number of each caption among those of its image."""
        return np.arange(len(self.texts)) - self.offsets[self.image]

    @cached_property
    def _tokenized(self) -> tuple[list[str], Ints32, Ints]:
        return tokenize(self.texts, TOKENIZERS["whitespace"])

    @property
    def chunks(self) -> list[str]:
        """The distinct whitespace tokens."""
        return self._tokenized[0]

    @property
    def tokens(self) -> Ints32:
        """All captions' tokens as numbers of chunks, one after another."""
        return self._tokenized[1]

    @property
    def lengths(self) -> Ints:
        """Tokens of each caption."""
        return self._tokenized[2]

    @cached_property
    def starts(self) -> Ints:
        """The first token of each caption."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def cores(self) -> list[tuple[str, str, str]]:
        """Of each chunk, the word and the punctuation before and after it; all of a chunk without a word is before."""
        return [_split(chunk) for chunk in self.chunks]

    @cached_property
    def keys(self) -> Ints:
        """Of each chunk, the number of its word in small letters: 0 for a chunk without a word."""
        numbers = {"": 0}
        return np.array([numbers.setdefault(core[1].lower(), len(numbers)) for core in self.cores], dtype=np.int64)

    @cached_property
    def signatures(self) -> Keys:
        """A hash of each caption's words and their order; case and punctuation do not count."""
        return signatures(self.keys[self.tokens], self.lengths)

    def is_own(self, captions: Ints, found: Keys) -> Bools:
        """Whether these texts (by signature) are captions of the images of these captions, or hold no word at all."""
        wanted = mix(found + fork(self._image_salt, 0)[self.image[captions]])
        place = np.minimum(np.searchsorted(self._own, wanted), len(self._own) - 1)
        known: Bools = (self._own[place] == wanted) | (found == 0)
        return known

    @cached_property
    def _image_salt(self) -> Keys:
        return np.arange(len(self.ids), dtype=np.uint64)

    @cached_property
    def _own(self) -> Keys:
        return np.sort(mix(self.signatures + fork(self._image_salt, 0)[self.image]))


def signatures(keys: Ints, lengths: Ints) -> Keys:
    """One hash for each run of word numbers; 0 for a run without a word."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    word = np.flatnonzero(keys > 0)
    row = row[word]
    counts = np.bincount(row, minlength=len(lengths))
    position = np.arange(len(word)) - np.repeat(np.cumsum(counts) - counts, counts)
    hashed = mix(fork(keys[word].astype(np.uint64), position))
    total = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(hashed, dtype=np.uint64)))
    ends = np.cumsum(counts)
    found: Keys = total[ends] - total[ends - counts]
    return found


def runs(starts: Ints, lengths: Ints) -> Ints:
    """The numbers from each start on, one run after another.

    >>> runs(np.array([7, 2]), np.array([2, 1])).tolist()
    [7, 8, 2]
    """
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))


def _split(chunk: str) -> tuple[str, str, str]:
    """Punctuation before, word, punctuation after.

    >>> _split('"dogs",'), _split("o'clock"), _split("--")
    (('"', 'dogs', '",'), ('', "o'clock", ''), ('--', '', ''))
    >>> _split("'s")  # in text that is tokenized already
    ('', "'s", '')
    """
    if chunk.isalnum() or chunk.lower() in _CLITICS:
        return "", chunk, ""
    first = next((place for place, letter in enumerate(chunk) if letter.isalnum()), len(chunk))
    end = next((place for place in range(len(chunk), first, -1) if chunk[place - 1].isalnum()), first)
    return chunk[:first], chunk[first:end], chunk[end:]


Tagging = Callable[[Sequence[Sequence[str]]], list[list[str]]]

CONTENT = ("N", "V", "J")
"""Tags that begin so are those of content words."""


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The tags of all tokens, and how often each word stands with each content tag."""

    corpus: Corpus
    tags: tuple[str, ...]
    tag: npt.NDArray[np.int16]
    """Of each token of the corpus; -1 where it holds no word."""
    content: Bools
    """Whether each token holds a noun, a verb or an adjective."""
    entry: Ints
    """Of each token the (tag, word) it is, -1 for others than content words."""
    entry_tag: Ints
    entry_key: Ints
    count: Ints
    surface: list[str]
    """Entries, sorted by tag, then word: how often each occurs, and how it is written mostly."""

    @classmethod
    def of(cls, corpus: Corpus, tagger: Tagging | None = None) -> Lexicon:
        """Tag a corpus and count its content words; without a tagger, by captious's own."""
        if tagger is None:
            from captious.syntax.tagging import tag as shipped

            tagger = shipped
        tags, tag = _tags(corpus, tagger)
        marked = np.array([name.startswith(CONTENT) for name in tags] + [False])
        content: Bools = marked[tag]
        entry = np.full(len(tag), -1, dtype=np.int64)
        where = np.flatnonzero(content)
        width = int(corpus.keys.max(initial=0)) + 1
        codes, inverse, count = np.unique(
            tag[where].astype(np.int64) * width + corpus.keys[corpus.tokens[where]],
            return_inverse=True,
            return_counts=True,
        )
        entry[where] = inverse
        surface = _surfaces(corpus, tags, tag[where], where, inverse.astype(np.int64), len(codes))
        return cls(corpus, tags, tag, content, entry, codes // width, codes % width, count, surface)

    @cached_property
    def _before(self) -> Ints:
        """Occurrences of all entries before each."""
        return np.concatenate(([0], np.cumsum(self.count)))

    @cached_property
    def _span(self) -> tuple[Ints, Ints]:
        """Of each entry, the occurrences before those of its tag, and the occurrences of its tag."""
        first = np.searchsorted(self.entry_tag, self.entry_tag)
        end = np.searchsorted(self.entry_tag, self.entry_tag, side="right")
        return self._before[first], self._before[end] - self._before[first]

    @cached_property
    def replaceable(self) -> Bools:
        """Content words whose tag has another word."""
        others = (self._span[1] > self.count)[self.entry] if len(self.count) else np.zeros(len(self.entry), dtype=bool)
        result: Bools = self.content & others
        return result

    def draw(self, entries: Ints, draws: Floats, itself: bool = False) -> Ints:
        """For each entry another of its tag, by how often it occurs; with ``itself``, perhaps the same."""
        first, total = (part[entries] for part in self._span)
        own = 0 if itself else self.count[entries]
        place = first + np.minimum((draws * (total - own)).astype(np.int64), total - own - 1)
        if not itself:
            place += np.where(place >= self._before[entries], own, 0)
        found: Ints = np.searchsorted(self._before, place, side="right") - 1
        return found

    @cached_property
    def _affixes(self) -> tuple[Ints, list[tuple[str, str]]]:
        """Of each chunk the number of its punctuation, and the distinct punctuations."""
        numbers: dict[tuple[str, str], int] = {}
        index = [numbers.setdefault((before, after), len(numbers)) for before, _, after in self.corpus.cores]
        return np.array(index, dtype=np.int64), list(numbers)

    def replaced(self, tokens: Ints, entries: Ints, opening: Bools) -> Ints:
        """Numbers, beyond those of the chunks, for entries written in the place of tokens (by their chunks)."""
        affix, affixes = self._affixes
        capital = opening & self._capital[tokens]
        return len(self.corpus.chunks) + (entries * len(affixes) + affix[tokens]) * 2 + capital

    @cached_property
    def _capital(self) -> Bools:
        return np.array([core[:1].isupper() for _, core, _ in self.corpus.cores], dtype=bool)

    def keys(self, tokens: Ints) -> Ints:
        """The number of the word in each token, be it a chunk or a replaced one; 0 where there is none."""
        known = len(self.corpus.chunks)
        if not (tokens >= known).any():
            return self.corpus.keys[tokens]
        entry = np.maximum(tokens - known, 0) // (2 * len(self._affixes[1]))
        found: Ints = np.where(tokens < known, self.corpus.keys[np.minimum(tokens, known - 1)], self.entry_key[entry])
        return found

    def written(self, tokens: Ints) -> tuple[list[str], list[str], Ints]:
        """Token texts, the words in them, and the tokens as numbers into both lists."""
        known = len(self.corpus.chunks)
        fresh = np.flatnonzero(tokens >= known)
        codes, inverse = np.unique(tokens[fresh] - known, return_inverse=True)
        affixes = self._affixes[1]
        words, texts = [], []
        for code in codes.tolist():
            rest, capital = divmod(code, 2)
            entry, affix = divmod(rest, len(affixes))
            word = self.surface[entry]
            word = word[:1].upper() + word[1:] if capital else word
            words.append(word)
            texts.append(affixes[affix][0] + word + affixes[affix][1])
        numbers = tokens.copy()
        numbers[fresh] = known + inverse
        shown = [core or before for before, core, _ in self.corpus.cores]
        return [*self.corpus.chunks, *texts], [*shown, *words], numbers


def _tags(corpus: Corpus, tagger: Tagging) -> tuple[tuple[str, ...], npt.NDArray[np.int16]]:
    """Tag names, and the tag of each token's word: punctuation is shown to the tagger as tokens of their own."""
    pieces = [[part for part in split if part] for split in corpus.cores]
    sizes = np.array([len(part) for part in pieces], dtype=np.int64)
    core = np.array([bool(split[0] and split[1]) for split in corpus.cores], dtype=np.int64)
    flat = list(chain.from_iterable(pieces))
    size = sizes[corpus.tokens]
    order = runs((np.cumsum(sizes) - sizes)[corpus.tokens], size)
    words = list(map(flat.__getitem__, order.tolist()))
    before = np.concatenate(([0], np.cumsum(size)))
    bounds = before[np.concatenate((corpus.starts, [len(corpus.tokens)]))].tolist()
    found = tagger([words[first:end] for first, end in pairwise(bounds)])
    numbers: dict[str, int] = {}
    tags = np.fromiter(
        (numbers.setdefault(name, len(numbers)) for name in chain.from_iterable(found)), np.int16, len(words)
    )
    # Sorted names: the numbers must not depend on which caption comes first.
    names = sorted(numbers)
    rank = np.zeros(max(len(names), 1), dtype=np.int16)
    rank[[numbers[name] for name in names]] = np.arange(len(names))
    tag = rank[tags[before[:-1] + core[corpus.tokens]]] if len(words) else np.zeros(0, dtype=np.int16)
    tag[corpus.keys[corpus.tokens] == 0] = -1
    return tuple(names), tag


def _surfaces(
    corpus: Corpus, tags: tuple[str, ...], tag: npt.NDArray[np.int16], where: Ints, entry: Ints, entries: int
) -> list[str]:
    """How each entry is written most often; a capital at the start of a caption counts for proper names only."""
    spellings: dict[str, int] = {}
    plain, low = [], []
    for _, word, _ in corpus.cores:
        ordinary = word[:1].isupper() and (len(word) == 1 or word[1:].islower())
        plain.append(spellings.setdefault(word, len(spellings)))
        low.append(spellings.setdefault(word.lower() if ordinary else word, len(spellings)))
    proper = np.array([name.startswith("NNP") for name in tags] + [False])[tag]
    opening = np.zeros(len(corpus.tokens), dtype=bool)
    opening[corpus.starts[corpus.lengths > 0]] = True
    chunk = corpus.tokens[where]
    spelling = np.where(opening[where] & ~proper, np.array(low, dtype=np.int64)[chunk], np.array(plain)[chunk])
    codes, count = np.unique(entry * (len(spellings) + 1) + spelling, return_counts=True)
    owner = codes // (len(spellings) + 1)
    order = np.lexsort((codes, -count, owner))
    first = order[np.searchsorted(owner[order], np.arange(entries))]
    names = list(spellings)
    return [names[code] for code in (codes[first] % (len(spellings) + 1)).tolist()]


REPLACE, DELETE, EDIT = 0.29, 0.3, 0.3
"""The original's rates of substitution (randint(100) > 70), deletion, and repetition or removal."""
SHUFFLE, DOUBLE = 0.5, 0.5
"""Shares: of shuffling among the non-fluent, of doubling among the words that are doubled or deleted."""

REPLACED, DELETED, DOUBLED, SHUFFLED = range(4)


@dataclass(frozen=True, eq=False)
class Drafts:
    """Captions changed, as flat tokens, and each change with the token it met and the token it left."""

    tokens: Ints
    lengths: Ints
    row: Ints
    done: npt.NDArray[np.int8]
    old: Ints
    new: Ints

    def take(self, rows: Ints) -> Drafts:
        """Some of the drafts, in this order."""
        starts = np.cumsum(self.lengths) - self.lengths
        number = np.full(len(self.lengths), -1)
        number[rows] = np.arange(len(rows))
        kept = np.flatnonzero(number[self.row] >= 0)
        kept = kept[np.argsort(number[self.row[kept]], kind="stable")]
        tokens = self.tokens[runs(starts[rows], self.lengths[rows])]
        parts = (number[self.row[kept]], self.done[kept], self.old[kept], self.new[kept])
        return Drafts(tokens, self.lengths[rows], *parts)

    def signatures(self, lexicon: Lexicon) -> Keys:
        """Of each draft, what its words and their order are."""
        return signatures(lexicon.keys(self.tokens), self.lengths)

    @staticmethod
    def join(parts: list[Drafts]) -> Drafts:
        """Drafts one after another."""
        if not parts:
            empty = np.zeros(0, dtype=np.int64)
            return Drafts(empty, empty, empty, np.zeros(0, dtype=np.int8), empty, empty)
        shift = np.cumsum([0] + [len(part.lengths) for part in parts[:-1]])
        return Drafts(
            np.concatenate([part.tokens for part in parts]),
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([part.row + step for part, step in zip(parts, shift, strict=True)]),
            np.concatenate([part.done for part in parts]),
            np.concatenate([part.old for part in parts]),
            np.concatenate([part.new for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class _Flat:
    """The tokens of some captions one after another."""

    at: Ints
    """Their places in the corpus."""
    tokens: Ints
    row: Ints
    position: Ints
    lengths: Ints

    @classmethod
    def of(cls, corpus: Corpus, captions: Ints) -> _Flat:
        lengths = corpus.lengths[captions]
        at = runs(corpus.starts[captions], lengths)
        row = np.repeat(np.arange(len(captions)), lengths)
        return cls(at, corpus.tokens[at].astype(np.int64), row, at - corpus.starts[captions][row], lengths)

    def chosen(self, among: Bools, chance: float, keys: Keys) -> Bools:
        """Tokens chosen with a chance each, at least one in every caption that has any to choose among."""
        where = np.flatnonzero(among)
        row = self.row[where]
        trials = np.bincount(row, minlength=len(self.lengths))
        rank = np.arange(len(where)) - np.repeat(np.cumsum(trials) - trials, trials)
        first = first_success(uniform(fork(keys, 0)), chance, trials)[row]
        free = uniform(fork(keys, 1)[row], self.position[where]) < chance
        picked: Bools = np.zeros(len(among), dtype=bool)
        picked[where] = (rank == first) | ((rank > first) & free)
        return picked

    def drafts(self, copies: Ints, where: Ints, done: npt.NDArray[np.int8], new: Ints) -> Drafts:
        """Drafts with so many copies of each token, and the changes at these tokens."""
        lengths = np.bincount(self.row, weights=copies, minlength=len(self.lengths)).astype(np.int64)
        return Drafts(np.repeat(self.tokens, copies), lengths, self.row[where], done, self.tokens[where], new)


Maker = Callable[[Lexicon, Ints, Keys, bool], Drafts]


def substitute(lexicon: Lexicon, captions: Ints, keys: Keys, legacy: bool = False) -> Drafts:
    """Replace each content word with chance .29 by another of its tag, as frequent words are; at least one."""
    flat = _Flat.of(lexicon.corpus, captions)
    among = lexicon.content if legacy else lexicon.replaceable
    where = np.flatnonzero(flat.chosen(among[flat.at], REPLACE, keys))
    draws = uniform(fork(keys, 2)[flat.row[where]], flat.position[where])
    entries = lexicon.draw(lexicon.entry[flat.at[where]], draws, itself=legacy)
    new = lexicon.replaced(flat.tokens[where], entries, flat.position[where] == 0)
    tokens = flat.tokens.copy()
    tokens[where] = new
    done = np.full(len(where), REPLACED, dtype=np.int8)
    return Drafts(tokens, flat.lengths, flat.row[where], done, flat.tokens[where], new)


def shuffle(lexicon: Lexicon, captions: Ints, keys: Keys, legacy: bool = False) -> Drafts:
    """Shuffle all tokens, or delete each with chance .3, at least one; half of the captions each."""
    corpus = lexicon.corpus
    flat = _Flat.of(corpus, captions)
    shuffled = uniform(fork(keys, 3)) < SHUFFLE
    if not legacy:
        shuffled &= _has_two_words(corpus)[captions]
    moved = np.flatnonzero(shuffled[flat.row])
    row = flat.row[moved]
    order = np.lexsort((fork(fork(keys, 4)[row], flat.position[moved]), row))
    tokens = flat.tokens.copy()
    tokens[moved] = flat.tokens[moved][order]
    deleted = flat.chosen(~shuffled[flat.row], DELETE, keys)
    where = np.flatnonzero(deleted)
    kept = np.flatnonzero(~deleted)
    lengths = np.bincount(flat.row[kept], minlength=len(captions))
    rows = np.concatenate([flat.row[where], np.flatnonzero(shuffled)])
    marks = int(shuffled.sum())
    done = np.repeat(np.array([DELETED, SHUFFLED], dtype=np.int8), [len(where), marks])
    old = np.concatenate([flat.tokens[where], np.full(marks, -1)])
    return Drafts(tokens[kept], lengths, rows, done, old, np.full(len(old), -1))


def repeat(lexicon: Lexicon, captions: Ints, keys: Keys, legacy: bool = False) -> Drafts:
    """Double or delete, with even chances, each content word with chance .3; at least one."""
    flat = _Flat.of(lexicon.corpus, captions)
    where = np.flatnonzero(flat.chosen(lexicon.content[flat.at], EDIT, keys))
    doubled = uniform(fork(keys, 5)[flat.row[where]], flat.position[where]) < DOUBLE
    copies = np.ones(len(flat.tokens), dtype=np.int64)
    copies[where] = np.where(doubled, 2, 0)
    done = np.where(doubled, DOUBLED, DELETED).astype(np.int8)
    return flat.drafts(copies, where, done, np.full(len(where), -1))


def able(kind: str, lexicon: Lexicon, legacy: bool = False) -> Bools:
    """Which captions of the corpus a kind can be made from."""
    corpus = lexicon.corpus
    if kind == "shuffle":
        words = np.bincount(_rows(corpus), weights=corpus.keys[corpus.tokens] > 0, minlength=len(corpus))
        return corpus.lengths > 0 if legacy else words > 1
    among = lexicon.replaceable if kind == "substitute" and not legacy else lexicon.content
    return np.bincount(_rows(corpus), weights=among, minlength=len(corpus)) > 0


def _rows(corpus: Corpus) -> Ints:
    return np.repeat(np.arange(len(corpus)), corpus.lengths)


def _has_two_words(corpus: Corpus) -> Bools:
    """Captions with two different words: others are the same in any order."""
    row, key = _rows(corpus), corpus.keys[corpus.tokens]
    word = np.flatnonzero(key > 0)
    first = np.full(len(corpus), -1)
    first[row[word][::-1]] = key[word][::-1]
    return np.bincount(row[word], weights=key[word] != first[row[word]], minlength=len(corpus)) > 0


MAKERS: dict[str, Maker] = {"substitute": substitute, "shuffle": shuffle, "repeat": repeat}


NEAREST = 3
"""Images that count as alike."""
BY_IMAGE = 0.5
"""The share of hard negatives whose image is alike by its picture, where both ways are open."""

ANY, CIDER, IMAGE = range(3)
WAYS = ("", "cider", "image")


@dataclass(frozen=True, eq=False)
class Alike:
    """Of each image of a corpus, the images most alike by captions and, where there are vectors, by picture."""

    captions: Neighbors
    pictures: Neighbors | None = None

    @classmethod
    def of(
        cls,
        corpus: Corpus,
        features: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any] | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Alike:
        """Search a corpus. Features are vectors by id, or rows in the order of ``corpus.ids`` (NaN: none)."""
        say = progress or (lambda what, done, total: None)
        texts = {key: corpus.texts[corpus.offsets[i] : corpus.offsets[i + 1]] for i, key in enumerate(corpus.ids)}
        captions = CaptionSet.of(dict.fromkeys(corpus.ids, ()), texts)
        words = nearest_captions(captions, NEAREST, lambda done, total: say("captions alike", done, total))
        if features is None:
            return cls(words)
        rows = _sources_rows(corpus, features)
        return cls(words, nearest_vectors(rows, NEAREST, lambda done, total: say("pictures alike", done, total)))


def _sources_rows(corpus: Corpus, features: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any]) -> npt.NDArray[Any]:
    if isinstance(features, Mapping):
        known = [key for key in corpus.ids if key in features]
        if not known:
            raise InputError(f"{corpus.name}: no image has a vector among the {len(features)} given")
        rows = np.full((len(corpus.ids), len(features[known[0]])), np.nan, dtype=np.float32)
        for number, key in enumerate(corpus.ids):
            if key in features:
                rows[number] = features[key]
        return rows
    if len(features) != len(corpus.ids):
        raise InputError(f"{corpus.name}: {len(features)} rows of features for {len(corpus.ids)} images")
    return features


def any_other(corpus: Corpus, captions: Ints, keys: Keys) -> Ints:
    """A caption of another image for each caption, all equally likely; -1 where there is no other image."""
    image = corpus.image[captions]
    first, own = corpus.offsets[image], np.diff(corpus.offsets)[image]
    others = len(corpus) - own
    place = below(fork(keys, 6), others)
    return np.where(others > 0, place + np.where(place >= first, own, 0), -1)


def alike(corpus: Corpus, near: Alike, captions: Ints, keys: Keys) -> tuple[Ints, npt.NDArray[np.int8]]:
    """A caption of one of the three images most alike, and by what they are alike; -1 where none is."""
    image = corpus.image[captions]
    by_words = near.captions.index[image]
    chosen, way = by_words, np.full(len(captions), CIDER, dtype=np.int8)
    if near.pictures is not None:
        by_picture = near.pictures.index[image]
        coin = uniform(fork(keys, 7)) < BY_IMAGE
        pictured = (by_picture[:, 0] >= 0) & (coin | (by_words[:, 0] < 0))
        chosen = np.where(pictured[:, None], by_picture, by_words)
        way[pictured] = IMAGE
    found = (chosen >= 0).sum(axis=1)
    other = chosen[np.arange(len(captions)), below(fork(keys, 8), found)]
    sizes = np.where(other >= 0, np.diff(corpus.offsets)[other], 0)
    place = corpus.offsets[np.maximum(other, 0)] + below(fork(keys, 9), sizes)
    return np.where(other >= 0, place, -1), way


KINDS = ("hard", "random", "substitute", "shuffle", "repeat")
INSTEAD = {
    "hard": ("random", "shuffle"),
    "random": ("shuffle",),
    "substitute": ("shuffle", "random"),
    "shuffle": ("random",),
    "repeat": ("shuffle", "random"),
}
"""What is tried, in this order, for a caption from which a kind cannot be made."""
TRIES = 24
"""A draft that is one of the image's own captions, or holds no word, is drawn again so many times."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Negatives:
    """Negatives as columns: the captions in the order they came, of each the kinds, of each kind the copies."""

    corpus: Corpus
    kinds: tuple[str, ...]
    per: int
    caption: Ints
    """The caption of the corpus each is a negative of."""
    kind: npt.NDArray[np.int8]
    """What it was meant to be, as a place in ``kinds``."""
    made: npt.NDArray[np.int8]
    """What it is, as a place in ``KINDS``: another kind where that could not be made; -1 where nothing could."""
    texts: list[str]
    source: Ints
    """The caption it was taken over from; -1 for one made from the caption itself."""
    way: npt.NDArray[np.int8]
    """How the image of the source was found, as a place in ``sources.WAYS``."""
    changes: Ints
    """The changes of negative i are ``changes[i]`` up to ``changes[i + 1]`` of the columns below."""
    done: npt.NDArray[np.int8]
    old: Ints
    new: Ints
    words: list[str]
    """What ``old`` and ``new`` number."""

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def ids(self) -> list[str]:
        """The image of each negative."""
        names = self.corpus.ids
        return [names[image] for image in self.corpus.image[self.caption].tolist()]

    def counts(self) -> dict[str, dict[str, int]]:
        """Of each kind asked for, how many were made as which kind; ``none`` where nothing could be made."""
        names = (*KINDS, "none")
        found: dict[str, dict[str, int]] = {}
        for number, kind in enumerate(self.kinds):
            tally = np.bincount(self.made[self.kind == number].astype(np.int64) % len(names), minlength=len(names))
            found[kind] = {name: int(count) for name, count in zip(names, tally, strict=True) if count or name == kind}
        return found


def negatives(
    corpus: Corpus,
    kinds: Sequence[str] = KINDS,
    *,
    seed: int = 0,
    per: int = 1,
    features: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any] | None = None,
    lexicon: Lexicon | None = None,
    near: Alike | None = None,
    tagger: Tagging | None = None,
    legacy: bool = False,
    progress: Progress | None = None,
) -> Negatives:
    """Make ``per`` negatives of each kind for every caption.

    Each has its own random numbers, of the seed, the image's id, the caption's place among those of the image, the kind
    and the copy: the order of images does not matter. A trainer that wants new ones every epoch makes the tags
    (``Lexicon.of(corpus)``) and the images alike (``Alike.of(corpus, features)``) once, and changes the seed.

    ``legacy`` counts as changed what the original counted: a word replaced by itself, a shuffle that leaves all in
    place, a caption deleted to nothing, a hard negative in the very words of one of the image's own captions.
    """
    wanted = check(kinds)
    if not len(corpus):
        raise InputError(f"{corpus.name}: holds no captions")
    say = progress or (lambda what, done, total: None)
    if lexicon is None:
        say("tagging", 0, 1)
        lexicon = Lexicon.of(corpus, tagger)
    if near is None and "hard" in wanted:
        near = Alike.of(corpus, features, progress)
    captions = np.arange(len(corpus))
    streams = fork(image_keys(corpus.ids, seed)[corpus.image], corpus.place)
    bench = _Bench(lexicon, near, legacy)
    for kind in wanted:
        for copy in range(per):
            say(kind, copy, per)
            bench.make(kind, captions, fork(streams, KINDS.index(kind) * 65536 + copy))
    return bench.finish(wanted, per)


def check(kinds: Sequence[str]) -> tuple[str, ...]:
    """The kinds without repetition, or an error that says which there are."""
    wanted = tuple(dict.fromkeys(kind.strip() for kind in kinds if kind.strip()))
    for kind in wanted:
        if kind not in KINDS:
            raise InputError(
                f"unknown kind of negative {kind!r}, expected one of {', '.join(KINDS)}{nearest(kind, KINDS)}"
            )
    if not wanted:
        raise InputError(f"no kind of negative named, expected one or more of {', '.join(KINDS)}")
    return wanted


class _Bench:
    """Collects what is made for each (kind, copy): sources of those taken over, drafts of those made."""

    def __init__(self, lexicon: Lexicon, near: Alike | None, legacy: bool) -> None:
        self.lexicon, self.near, self.legacy = lexicon, near, legacy
        self.corpus = lexicon.corpus
        self.able = {kind: able(kind, lexicon, legacy) for kind in MAKERS}
        self.made: list[npt.NDArray[np.int8]] = []
        self.source: list[Ints] = []
        self.way: list[npt.NDArray[np.int8]] = []
        self.drafts: list[Drafts] = []
        self.rows: list[Ints] = []
        """Of each draft, its row; rows are numbered (kind, copy) by (kind, copy)."""

    def make(self, kind: str, captions: Ints, keys: Keys) -> None:
        """One negative for each caption, of another kind where this one cannot be made."""
        size = len(captions)
        self.made.append(np.full(size, -1, dtype=np.int8))
        self.source.append(np.full(size, -1, dtype=np.int64))
        self.way.append(np.full(size, ANY, dtype=np.int8))
        pending = np.arange(size)
        for turn, method in enumerate((kind, *INSTEAD[kind])):
            if len(pending):
                pending = self._attempt(method, pending, captions, fork(keys, turn) if turn else keys)

    def _attempt(self, method: str, pending: Ints, captions: Ints, keys: Keys) -> Ints:
        """Make what can be made; the rows left over come back."""
        cannot = np.zeros(0, dtype=np.int64)
        if method in MAKERS:
            fit = self.able[method][captions[pending]]
            cannot, pending = pending[~fit], pending[fit]
        for turn in range(TRIES):
            if not len(pending):
                break
            chosen, stream = captions[pending], fork(keys[pending], turn)
            good = (self._write if method in MAKERS else self._borrow)(method, pending, chosen, stream)
            self.made[-1][pending[good]] = KINDS.index(method)
            pending = pending[~good]
        return np.sort(np.concatenate([cannot, pending]))

    def _write(self, method: str, pending: Ints, captions: Ints, keys: Keys) -> Bools:
        drafts = MAKERS[method](self.lexicon, captions, keys, self.legacy)
        good = np.ones(len(pending), dtype=bool)
        if not self.legacy:
            good = ~self.corpus.is_own(captions, drafts.signatures(self.lexicon))
        kept = np.flatnonzero(good)
        self.drafts.append(drafts if good.all() else drafts.take(kept))
        self.rows.append(pending[kept] + (len(self.made) - 1) * len(self.made[-1]))
        return good

    def _borrow(self, method: str, pending: Ints, captions: Ints, keys: Keys) -> Bools:
        way = np.full(len(pending), ANY, dtype=np.int8)
        if method == "hard" and self.near is not None:
            source, way = alike(self.corpus, self.near, captions, keys)
        else:
            source = any_other(self.corpus, captions, keys)
        good = source >= 0
        if not (self.legacy and method == "hard"):
            good &= ~self.corpus.is_own(captions, self.corpus.signatures[source])
        self.source[-1][pending[good]], self.way[-1][pending[good]] = source[good], way[good]
        return good

    def finish(self, kinds: tuple[str, ...], per: int) -> Negatives:
        """All columns, with the captions in the order they came."""
        size = len(self.corpus)
        groups = len(kinds) * per
        order = (self.corpus.as_given[:, None] + np.arange(groups) * size).ravel()
        place = np.empty(groups * size, dtype=np.int64)
        place[order] = np.arange(len(order))
        made, source, way = (np.concatenate(column)[order] for column in (self.made, self.source, self.way))
        drafts = Drafts.join(self.drafts)
        rows = place[np.concatenate([np.zeros(0, dtype=np.int64), *self.rows])]
        marks, old, new, words = self._changes(drafts)
        by_row = np.argsort(rows[drafts.row], kind="stable")
        per_row = np.bincount(rows[drafts.row], minlength=len(order))
        return Negatives(
            corpus=self.corpus,
            kinds=kinds,
            per=per,
            caption=order % size,
            kind=(order // size // per).astype(np.int8),
            made=made,
            texts=self._texts(drafts, rows, source),
            source=source,
            way=way,
            changes=np.concatenate(([0], np.cumsum(per_row))),
            done=marks[by_row],
            old=old[by_row],
            new=new[by_row],
            words=words,
        )

    def _changes(self, drafts: Drafts) -> tuple[npt.NDArray[np.int8], Ints, Ints, list[str]]:
        _, words, numbers = self.lexicon.written(np.concatenate([drafts.old, drafts.new]))
        return drafts.done, numbers[: len(drafts.old)], numbers[len(drafts.old) :], words

    def _texts(self, drafts: Drafts, rows: Ints, source: Ints) -> list[str]:
        captions = (*self.corpus.texts, "")
        texts = [captions[number] for number in source.tolist()]
        chunks, _, numbers = self.lexicon.written(drafts.tokens)
        words = list(map(chunks.__getitem__, numbers.tolist()))
        ends = np.cumsum(drafts.lengths)
        bounds = zip(rows.tolist(), (ends - drafts.lengths).tolist(), ends.tolist(), strict=True)
        for row, first, end in bounds:
            texts[row] = " ".join(words[first:end])
        return texts


DONE = {REPLACED: "replaced", DELETED: "deleted", DOUBLED: "doubled"}


def row(negatives: Negatives, number: int) -> dict[str, Any]:
    """One negative: id, caption, kind, negative, what was done, and the kind it fell back to if it did."""
    corpus, caption = negatives.corpus, int(negatives.caption[number])
    kind, made = negatives.kinds[negatives.kind[number]], KINDS[negatives.made[number]]
    shown = {
        "id": corpus.ids[corpus.image[caption]],
        "caption": corpus.texts[caption],
        "kind": kind,
        "negative": negatives.texts[number],
        "done": what_was_done(negatives, number),
    }
    return shown if made == kind else {**shown, "fallback": made}


def what_was_done(negatives: Negatives, number: int) -> dict[str, Any]:
    """Such as ``{"replaced": [["dog", "horse"]]}`` or ``{"from": "17", "by": "cider"}``."""
    source = int(negatives.source[number])
    if source >= 0:
        origin = {"from": negatives.corpus.ids[negatives.corpus.image[source]]}
        way = WAYS[negatives.way[number]]
        return {**origin, "by": way} if way else origin
    found: dict[str, Any] = {}
    for place in range(negatives.changes[number], negatives.changes[number + 1]):
        done, old = int(negatives.done[place]), negatives.words[negatives.old[place]]
        if done == SHUFFLED:
            found["shuffled"] = True
        else:
            pair = [old, negatives.words[negatives.new[place]]]
            found.setdefault(DONE[done], []).append(pair if done == REPLACED else old)
    return found


def rows(negatives: Negatives) -> Iterator[dict[str, Any]]:
    """All that could be made, in order."""
    return (row(negatives, number) for number in np.flatnonzero(negatives.made >= 0).tolist())


def save(negatives: Negatives, path: str | Path) -> int:
    """Write all rows as JSON Lines, whole or not at all; how many they are."""
    with whole_file(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(lines(negatives))
    return int((negatives.made >= 0).sum())


def lines(negatives: Negatives) -> Iterator[str]:
    """Each row as a line of JSON, equal to that of ``json.dumps``; what many rows share is quoted once."""
    corpus = negatives.corpus
    ids, captions = list(map(quoted, corpus.ids)), list(map(quoted, corpus.texts))
    words = list(map(quoted, negatives.words))
    kinds = [f', "kind": "{kind}", "negative": ' for kind in negatives.kinds]
    ways = [f', "by": "{way}"}}' if way else "}" for way in WAYS]
    image = corpus.image.tolist()
    bounds, done = negatives.changes.tolist(), negatives.done.tolist()
    old, new = negatives.old.tolist(), negatives.new.tolist()
    columns = (negatives.caption, negatives.kind, negatives.made, negatives.source, negatives.way)
    for number, (caption, kind, made, source, way) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        if made < 0:
            continue
        if source >= 0:
            text, did = captions[source], f'{{"from": {ids[image[source]]}{ways[way]}'
        else:
            text = quoted(negatives.texts[number])
            did = _changes(bounds[number], bounds[number + 1], done, old, new, words)
        end = "}\n" if KINDS[made] == negatives.kinds[kind] else f', "fallback": "{KINDS[made]}"}}\n'
        head = f'{{"id": {ids[image[caption]]}, "caption": {captions[caption]}{kinds[kind]}'
        yield f'{head}{text}, "done": {did}{end}'


def _changes(first: int, end: int, done: list[int], old: list[int], new: list[int], words: list[str]) -> str:
    if end == first + 1 and done[first] == SHUFFLED:
        return '{"shuffled": true}'
    found: dict[int, list[str]] = {}
    for place in range(first, end):
        word = words[old[place]]
        found.setdefault(done[place], []).append(f"[{word}, {words[new[place]]}]" if done[place] == REPLACED else word)
    return "{" + ", ".join(f'"{DONE[key]}": [{", ".join(listed)}]' for key, listed in found.items()) + "}"
