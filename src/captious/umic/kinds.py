"""The three kinds of negatives that are made from the caption itself: substitution, non-fluent, repetition and removal.

Each maker takes captions and one key for each, and gives drafts in one pass over flat arrays. "Again until something
has changed" is drawn outright: which word is changed first follows a truncated geometric law, later words are free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captious.text.tables import Ints
from captious.umic.corpus import Corpus, runs, signatures
from captious.umic.draws import Keys, first_success, fork, uniform
from captious.umic.words import Bools, Lexicon

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
