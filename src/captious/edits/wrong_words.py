"""Wrong words and orders as in UMIC: words replaced, shuffled, deleted, doubled; captions of other images.

Captions are flat arrays of tokens, and all draws are elementwise, over a whole corpus. The distribution of the draws is
that of the original code, so these edits must not change; `captious.edits.edit_table` has the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from captious._core.random import Keys, draw_below, draw_uniform, fork
from captious._core.types import Bools, Floats, Ints
from captious.edits.lexicon import CaptionCorpus, Lexicon
from captious.text.ngram_tables import run_indices

# The original's probabilities of substitution (randint(100) > 70), deletion, and repetition or removal.
REPLACE, DELETE, EDIT = 0.29, 0.3, 0.3
# The share of shuffling among shuffled or deleted, and of doubling among doubled or deleted words.
SHUFFLE, DOUBLE = 0.5, 0.5

REPLACED, DELETED, DOUBLED, SHUFFLED = range(4)


@dataclass(frozen=True, eq=False)
class WrongCaptions:
    """Changed captions as flat tokens, and for each change the old and the new token."""

    tokens: Ints
    lengths: Ints
    row: Ints
    done: npt.NDArray[np.int8]
    old: Ints
    new: Ints

    def take(self, rows: Ints) -> WrongCaptions:
        """Select some of the captions, in this order."""
        starts = np.cumsum(self.lengths) - self.lengths
        number = np.full(len(self.lengths), -1)
        number[rows] = np.arange(len(rows))
        changes = np.flatnonzero(number[self.row] >= 0)
        changes = changes[np.argsort(number[self.row[changes]], kind="stable")]
        tokens = self.tokens[run_indices(starts[rows], self.lengths[rows])]
        parts = (number[self.row[changes]], self.done[changes], self.old[changes], self.new[changes])
        return WrongCaptions(tokens, self.lengths[rows], *parts)

    @staticmethod
    def join(parts: list[WrongCaptions]) -> WrongCaptions:
        """Concatenate changed captions."""
        joined = WrongCaptions(
            *(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(WrongCaptions))
        )
        before = np.cumsum([0] + [len(part.lengths) for part in parts[:-1]])
        return replace(joined, row=joined.row + np.repeat(before, [len(part.row) for part in parts]))


@dataclass(frozen=True, eq=False)
class _FlatTokens:
    """The concatenated tokens of some captions."""

    at: Ints
    """The indices of the captions in the corpus."""
    tokens: Ints
    row: Ints
    position: Ints
    lengths: Ints

    @classmethod
    def of(cls, corpus: CaptionCorpus, captions: Ints) -> _FlatTokens:
        lengths = corpus.lengths[captions]
        at = run_indices(corpus.starts[captions], lengths)
        row = np.repeat(np.arange(len(captions)), lengths)
        return cls(at, corpus.tokens[at].astype(np.int64), row, at - corpus.starts[captions][row], lengths)

    def choose_tokens(self, among: Bools, chance: float, keys: Keys) -> Bools:
        """Choose tokens with a probability each, at least one in every caption that has any token of ``among``."""
        where = np.flatnonzero(among)
        row = self.row[where]
        trials = np.bincount(row, minlength=len(self.lengths))
        rank = np.arange(len(where)) - np.repeat(np.cumsum(trials) - trials, trials)
        first = find_first_success(draw_uniform(fork(keys, 0)), chance, trials)[row]
        # The first chosen token is drawn given that there is one; tokens after it are chosen independently.
        chosen_later = draw_uniform(fork(keys, 1)[row], self.position[where]) < chance
        is_chosen: Bools = np.zeros(len(among), dtype=bool)
        is_chosen[where] = (rank == first) | ((rank > first) & chosen_later)
        return is_chosen


def find_first_success(draws: Floats, chance: float, trials: Ints) -> Ints:
    """Find which of some independent trials succeeds first, given that one of them does.

    With later trials drawn independently, this is the distribution of "repeat until something has changed", without
    repeating. It inverts the truncated geometric distribution.

    >>> find_first_success(np.array([0.0, 0.99]), 0.3, np.array([5, 2])).tolist()
    [0, 1]
    """
    missed = np.log1p(-draws * -np.expm1(trials * np.log1p(-chance)))
    result: Ints = np.clip((missed / np.log1p(-chance)).astype(np.int64), 0, np.maximum(trials - 1, 0))
    return result


Maker = Callable[[Lexicon, Ints, Keys, bool], WrongCaptions]


def substitute(lexicon: Lexicon, captions: Ints, keys: Keys, legacy: bool = False) -> WrongCaptions:
    """Replace each content word with probability .29 by another of its tag, drawn by frequency; at least one."""
    flat = _FlatTokens.of(lexicon.corpus, captions)
    among = lexicon.content if legacy else lexicon.replaceable
    where = np.flatnonzero(flat.choose_tokens(among[flat.at], REPLACE, keys))
    draws = draw_uniform(fork(keys, 2)[flat.row[where]], flat.position[where])
    entries = lexicon.draw(lexicon.entry[flat.at[where]], draws, itself=legacy)
    new = lexicon.encode_replacements(flat.tokens[where], entries, flat.position[where] == 0)
    tokens = flat.tokens.copy()
    tokens[where] = new
    done = np.full(len(where), REPLACED, dtype=np.int8)
    return WrongCaptions(tokens, flat.lengths, flat.row[where], done, flat.tokens[where], new)


def shuffle(lexicon: Lexicon, captions: Ints, keys: Keys, legacy: bool = False) -> WrongCaptions:
    """Shuffle all tokens, or delete each with probability .3, at least one; half of the captions each."""
    corpus = lexicon.corpus
    flat = _FlatTokens.of(corpus, captions)
    shuffled = draw_uniform(fork(keys, 3)) < SHUFFLE
    if not legacy:
        shuffled &= _has_two_words(corpus)[captions]
    moved = np.flatnonzero(shuffled[flat.row])
    row = flat.row[moved]
    order = np.lexsort((fork(fork(keys, 4)[row], flat.position[moved]), row))
    tokens = flat.tokens.copy()
    tokens[moved] = flat.tokens[moved][order]
    deleted = flat.choose_tokens(~shuffled[flat.row], DELETE, keys)
    where = np.flatnonzero(deleted)
    kept = np.flatnonzero(~deleted)
    lengths = np.bincount(flat.row[kept], minlength=len(captions))
    rows = np.concatenate([flat.row[where], np.flatnonzero(shuffled)])
    marks = int(shuffled.sum())
    done = np.repeat(np.array([DELETED, SHUFFLED], dtype=np.int8), [len(where), marks])
    old = np.concatenate([flat.tokens[where], np.full(marks, -1)])
    return WrongCaptions(tokens[kept], lengths, rows, done, old, np.full(len(old), -1))


def repeat(lexicon: Lexicon, captions: Ints, keys: Keys, legacy: bool = False) -> WrongCaptions:
    """Repeat or delete, equally likely, each content word with probability .3; at least one."""
    flat = _FlatTokens.of(lexicon.corpus, captions)
    where = np.flatnonzero(flat.choose_tokens(lexicon.content[flat.at], EDIT, keys))
    doubled = draw_uniform(fork(keys, 5)[flat.row[where]], flat.position[where]) < DOUBLE
    copies = np.ones(len(flat.tokens), dtype=np.int64)
    copies[where] = np.where(doubled, 2, 0)
    done = np.where(doubled, DOUBLED, DELETED).astype(np.int8)
    lengths = np.bincount(flat.row, weights=copies, minlength=len(captions)).astype(np.int64)
    tokens, none = np.repeat(flat.tokens, copies), np.full(len(where), -1)
    return WrongCaptions(tokens, lengths, flat.row[where], done, flat.tokens[where], none)


def find_changeable_captions(kind: str, lexicon: Lexicon, legacy: bool = False) -> Bools:
    """Return a mask of the captions that a kind of edit can change."""
    corpus = lexicon.corpus
    if kind == "shuffle":
        words = np.bincount(corpus.caption, weights=corpus.keys[corpus.tokens] > 0, minlength=len(corpus))
        return corpus.lengths > 0 if legacy else words > 1
    among = lexicon.replaceable if kind == "substitute" and not legacy else lexicon.content
    return np.bincount(corpus.caption, weights=among, minlength=len(corpus)) > 0


def _has_two_words(corpus: CaptionCorpus) -> Bools:
    """Return a mask of the captions with two different words; others are the same in any order."""
    row, key = corpus.caption, corpus.keys[corpus.tokens]
    word = np.flatnonzero(key > 0)
    first = np.full(len(corpus), -1)
    first[row[word][::-1]] = key[word][::-1]
    return np.bincount(row[word], weights=key[word] != first[row[word]], minlength=len(corpus)) > 0


MAKERS: dict[str, Maker] = {"substitute": substitute, "shuffle": shuffle, "repeat": repeat}


def draw_any(corpus: CaptionCorpus, captions: Ints, keys: Keys) -> Ints:
    """Draw a caption of another image for each caption, all equally likely; -1 if there is no other image."""
    image = corpus.image[captions]
    first, own = corpus.offsets[image], np.diff(corpus.offsets)[image]
    others = len(corpus) - own
    index = draw_below(fork(keys, 6), others)
    return np.where(others > 0, index + np.where(index >= first, own, 0), -1)
