"""Wrong captions, as UMIC learns from them: five kinds, each with a record of what was changed.

Every random number is a function of its address: seed, image id, caption, kind, copy, attempt, purpose, position. So a
caption gets the same negatives alone, in another order or in another batch, and all draws are elementwise operations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._files import whole_file
from captious._random import Keys, below, fork, keys_of, uniform
from captious._typing import Bools, Floats, Floats32, Ints
from captious.captions import CaptionSet
from captious.errors import InputError, nearest
from captious.models.features import read_features
from captious.options import current
from captious.render import Column, Document, Phrase, Result, Span, Table
from captious.train.lexicon import CaptionCorpus, Lexicon, Tagging, runs, signatures
from captious.train.neighbors import Neighbors, nearest_captions, nearest_vectors

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
        changes = np.flatnonzero(number[self.row] >= 0)
        changes = changes[np.argsort(number[self.row[changes]], kind="stable")]
        tokens = self.tokens[runs(starts[rows], self.lengths[rows])]
        parts = (number[self.row[changes]], self.done[changes], self.old[changes], self.new[changes])
        return Drafts(tokens, self.lengths[rows], *parts)

    @staticmethod
    def join(parts: list[Drafts]) -> Drafts:
        """Drafts one after another."""
        joined = Drafts(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Drafts)))
        before = np.cumsum([0] + [len(part.lengths) for part in parts[:-1]])
        return replace(joined, row=joined.row + np.repeat(before, [len(part.row) for part in parts]))


@dataclass(frozen=True, eq=False)
class _Flat:
    """The tokens of some captions one after another."""

    at: Ints
    """The indices of the captions in the corpus."""
    tokens: Ints
    row: Ints
    position: Ints
    lengths: Ints

    @classmethod
    def of(cls, corpus: CaptionCorpus, captions: Ints) -> _Flat:
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


def first_success(draws: Floats, chance: float, trials: Ints) -> Ints:
    """Which of some independent trials succeeds first, given that one of them does.

    With the later trials left free, that is the law of "try again until something has changed" without trying again.

    >>> first_success(np.array([0.0, 0.99]), 0.3, np.array([5, 2])).tolist()
    [0, 1]
    """
    missed = np.log1p(-draws * -np.expm1(trials * np.log1p(-chance)))
    result: Ints = np.clip((missed / np.log1p(-chance)).astype(np.int64), 0, np.maximum(trials - 1, 0))
    return result


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
    left = np.flatnonzero(~deleted)
    lengths = np.bincount(flat.row[left], minlength=len(captions))
    rows = np.concatenate([flat.row[where], np.flatnonzero(shuffled)])
    marks = int(shuffled.sum())
    done = np.repeat(np.array([DELETED, SHUFFLED], dtype=np.int8), [len(where), marks])
    old = np.concatenate([flat.tokens[where], np.full(marks, -1)])
    return Drafts(tokens[left], lengths, rows, done, old, np.full(len(old), -1))


def repeat(lexicon: Lexicon, captions: Ints, keys: Keys, legacy: bool = False) -> Drafts:
    """Double or delete, with even chances, each content word with chance .3; at least one."""
    flat = _Flat.of(lexicon.corpus, captions)
    where = np.flatnonzero(flat.chosen(lexicon.content[flat.at], EDIT, keys))
    doubled = uniform(fork(keys, 5)[flat.row[where]], flat.position[where]) < DOUBLE
    copies = np.ones(len(flat.tokens), dtype=np.int64)
    copies[where] = np.where(doubled, 2, 0)
    done = np.where(doubled, DOUBLED, DELETED).astype(np.int8)
    lengths = np.bincount(flat.row, weights=copies, minlength=len(captions)).astype(np.int64)
    tokens, none = np.repeat(flat.tokens, copies), np.full(len(where), -1)
    return Drafts(tokens, lengths, flat.row[where], done, flat.tokens[where], none)


def able(kind: str, lexicon: Lexicon, legacy: bool = False) -> Bools:
    """Which captions of the corpus a kind can be made from."""
    corpus = lexicon.corpus
    if kind == "shuffle":
        words = np.bincount(corpus.caption, weights=corpus.keys[corpus.tokens] > 0, minlength=len(corpus))
        return corpus.lengths > 0 if legacy else words > 1
    among = lexicon.replaceable if kind == "substitute" and not legacy else lexicon.content
    return np.bincount(corpus.caption, weights=among, minlength=len(corpus)) > 0


def _has_two_words(corpus: CaptionCorpus) -> Bools:
    """Captions with two different words: others are the same in any order."""
    row, key = corpus.caption, corpus.keys[corpus.tokens]
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
    """The images most alike to each image of a corpus, by captions and, where there are vectors, by picture."""

    captions: Neighbors
    pictures: Neighbors | None = None

    @classmethod
    def of(
        cls, corpus: CaptionCorpus, features: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any] | None = None
    ) -> Alike:
        """Search a corpus. Features are vectors by id, or rows in the order of ``corpus.ids`` (NaN: none)."""
        report = current().progress
        texts = {key: corpus.texts[corpus.offsets[i] : corpus.offsets[i + 1]] for i, key in enumerate(corpus.ids)}
        captions = CaptionSet.of(dict.fromkeys(corpus.ids, ()), texts)
        words = nearest_captions(captions, NEAREST, lambda done, total: report("captions alike", done, total))
        if features is None:
            return cls(words)
        rows = _feature_rows(corpus, features)
        return cls(words, nearest_vectors(rows, NEAREST, lambda done, total: report("pictures alike", done, total)))


def _feature_rows(
    corpus: CaptionCorpus, features: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any]
) -> npt.NDArray[Any]:
    if isinstance(features, Mapping):
        with_vector = [key for key in corpus.ids if key in features]
        if not with_vector:
            raise InputError(f"{corpus.name}: no image has a vector among the {len(features)} given")
        rows = np.full((len(corpus.ids), len(features[with_vector[0]])), np.nan, dtype=np.float32)
        for number, key in enumerate(corpus.ids):
            if key in features:
                rows[number] = features[key]
        return rows
    if len(features) != len(corpus.ids):
        raise InputError(f"{corpus.name}: {len(features)} rows of features for {len(corpus.ids)} images")
    return features


def any_other(corpus: CaptionCorpus, captions: Ints, keys: Keys) -> Ints:
    """A caption of another image for each caption, all equally likely; -1 where there is no other image."""
    image = corpus.image[captions]
    first, own = corpus.offsets[image], np.diff(corpus.offsets)[image]
    others = len(corpus) - own
    index = below(fork(keys, 6), others)
    return np.where(others > 0, index + np.where(index >= first, own, 0), -1)


def alike(corpus: CaptionCorpus, near: Alike, captions: Ints, keys: Keys) -> tuple[Ints, npt.NDArray[np.int8]]:
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
    neighbors = (chosen >= 0).sum(axis=1)
    other = chosen[np.arange(len(captions)), below(fork(keys, 8), neighbors)]
    sizes = np.where(other >= 0, np.diff(corpus.offsets)[other], 0)
    index = corpus.offsets[np.maximum(other, 0)] + below(fork(keys, 9), sizes)
    return np.where(other >= 0, index, -1), way


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


@dataclass(frozen=True, eq=False)
class Negatives:
    """Negatives as columns: the captions in the order they came, of each the kinds, of each kind the copies."""

    corpus: CaptionCorpus
    kinds: tuple[str, ...]
    per: int
    caption: Ints
    """The caption of the corpus each is a negative of."""
    kind: npt.NDArray[np.int8]
    """What it was meant to be, as an index into ``kinds``."""
    actual: npt.NDArray[np.int8]
    """What it is, as an index into ``KINDS``: another kind where that could not be made; -1 where nothing could."""
    texts: list[str]
    source: Ints
    """The caption it was taken over from; -1 for one made from the caption itself."""
    way: npt.NDArray[np.int8]
    """How the image of the source was chosen, as an index into ``WAYS``."""
    changes: Ints
    """The changes of negative i are ``changes[i]`` up to ``changes[i + 1]`` of the columns below."""
    done: npt.NDArray[np.int8]
    old: Ints
    new: Ints
    words: list[str]
    """What ``old`` and ``new`` number."""

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def ids(self) -> list[str]:
        """The image of each negative."""
        names = self.corpus.ids
        return [names[image] for image in self.corpus.image[self.caption].tolist()]

    def counts(self) -> dict[str, dict[str, int]]:
        """The number of negatives made as each kind, by the kind asked for; ``none`` where nothing could be made."""
        names = (*KINDS, "none")
        counts: dict[str, dict[str, int]] = {}
        for number, kind in enumerate(self.kinds):
            tally = np.bincount(self.actual[self.kind == number].astype(np.int64) % len(names), minlength=len(names))
            counts[kind] = {name: int(count) for name, count in zip(names, tally, strict=True) if count or name == kind}
        return counts


def negatives(
    corpus: CaptionCorpus,
    kinds: Sequence[str] = KINDS,
    *,
    seed: int = 0,
    per: int = 1,
    features: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any] | None = None,
    lexicon: Lexicon | None = None,
    near: Alike | None = None,
    tagger: Tagging | None = None,
    legacy: bool = False,
) -> Negatives:
    """Make ``per`` negatives of each kind for every caption.

    Each has its own random numbers, of the seed, the image's id, the caption's position, the kind and the copy: the
    order of images does not matter. A trainer that wants new ones every epoch computes ``lexicon`` and ``near`` once,
    and changes the seed.

    ``legacy`` counts as changed what the original counted: a word replaced by itself, a shuffle that leaves all in
    place, a caption deleted to nothing, a hard negative in the very words of one of the image's own captions.
    """
    wanted = check(kinds)
    if not len(corpus):
        raise InputError(f"{corpus.name}: holds no captions")
    if lexicon is None:
        lexicon = Lexicon.of(corpus, tagger)
    if near is None and "hard" in wanted:
        near = Alike.of(corpus, features)
    streams = fork(keys_of(corpus.ids, seed)[corpus.image], corpus.position)
    builder = _Builder(lexicon, near, legacy, len(wanted) * per)
    for group, (kind, copy) in enumerate(product(wanted, range(per))):
        builder.make(group, kind, fork(streams, KINDS.index(kind) * 65536 + copy))
    return builder.finish(wanted, per)


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


class _Builder:
    """Collects one negative of each caption for each group, a kind and a copy: sources and drafts.

    A negative's row is its caption, counted on from group to group.
    """

    def __init__(self, lexicon: Lexicon, near: Alike | None, legacy: bool, groups: int) -> None:
        self.lexicon, self.near, self.legacy = lexicon, near, legacy
        self.corpus = lexicon.corpus
        self.able = {kind: able(kind, lexicon, legacy) for kind in MAKERS}
        rows = groups * len(self.corpus)
        self.actual = np.full(rows, -1, dtype=np.int8)
        self.source = np.full(rows, -1, dtype=np.int64)
        self.way = np.full(rows, ANY, dtype=np.int8)
        empty = np.zeros(0, dtype=np.int64)
        self.drafts = [Drafts(empty, empty, empty, empty.astype(np.int8), empty, empty)]
        self.rows = [empty]
        """The row of each draft."""

    def make(self, group: int, kind: str, keys: Keys) -> None:
        """One negative of each caption, of another kind where this one cannot be made."""
        pending = np.arange(len(self.corpus))
        for turn, method in enumerate((kind, *INSTEAD[kind])):
            if len(pending):
                pending = self._attempt(group, method, pending, fork(keys, turn) if turn else keys)

    def _attempt(self, group: int, method: str, pending: Ints, keys: Keys) -> Ints:
        """Make what can be made; the captions left over come back."""
        write, cannot = method in MAKERS, np.zeros(0, dtype=np.int64)
        if write:
            fit = self.able[method][pending]
            cannot, pending = pending[~fit], pending[fit]
        for turn in range(TRIES):
            if not len(pending):
                break
            rows = pending + group * len(self.corpus)
            good = (self._write if write else self._borrow)(method, rows, pending, fork(keys[pending], turn))
            self.actual[rows[good]] = KINDS.index(method)
            pending = pending[~good]
        return np.sort(np.concatenate([cannot, pending]))

    def _write(self, method: str, rows: Ints, captions: Ints, keys: Keys) -> Bools:
        drafts = MAKERS[method](self.lexicon, captions, keys, self.legacy)
        good = np.ones(len(rows), dtype=bool)
        if not self.legacy:
            written = signatures(self.lexicon.keys(drafts.tokens), drafts.lengths)
            good = ~self.corpus.is_own(captions, written)
        self.drafts.append(drafts if good.all() else drafts.take(np.flatnonzero(good)))
        self.rows.append(rows[good])
        return good

    def _borrow(self, method: str, rows: Ints, captions: Ints, keys: Keys) -> Bools:
        way = np.full(len(rows), ANY, dtype=np.int8)
        if method == "hard" and self.near is not None:
            source, way = alike(self.corpus, self.near, captions, keys)
        else:
            source = any_other(self.corpus, captions, keys)
        good = source >= 0
        if not (self.legacy and method == "hard"):
            good &= ~self.corpus.is_own(captions, self.corpus.signatures[source])
        self.source[rows[good]], self.way[rows[good]] = source[good], way[good]
        return good

    def finish(self, kinds: tuple[str, ...], per: int) -> Negatives:
        """All columns, with the captions in the order they came."""
        size = len(self.corpus)
        order = (self.corpus.as_given[:, None] + np.arange(len(kinds) * per) * size).ravel()
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        drafts, rows, source = Drafts.join(self.drafts), rank[np.concatenate(self.rows)], self.source[order]
        by_row = np.argsort(rows[drafts.row], kind="stable")
        per_row = np.bincount(rows[drafts.row], minlength=len(order))
        changed = np.concatenate([drafts.old[by_row], drafts.new[by_row]])
        _, words, numbers = self.lexicon.written(changed)
        old, new = np.split(numbers, 2)
        return Negatives(
            corpus=self.corpus,
            kinds=kinds,
            per=per,
            caption=order % size,
            kind=(order // size // per).astype(np.int8),
            actual=self.actual[order],
            texts=self._texts(drafts, rows, source),
            source=source,
            way=self.way[order],
            changes=np.concatenate(([0], np.cumsum(per_row))),
            done=drafts.done[by_row],
            old=old,
            new=new,
            words=words,
        )

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
    kind, actual = negatives.kinds[negatives.kind[number]], KINDS[negatives.actual[number]]
    shown = {
        "id": negatives.ids[number],
        "caption": corpus.texts[caption],
        "kind": kind,
        "negative": negatives.texts[number],
        "done": what_was_done(negatives, number),
    }
    return shown if actual == kind else {**shown, "fallback": actual}


def what_was_done(negatives: Negatives, number: int) -> dict[str, Any]:
    """Such as ``{"replaced": [["dog", "horse"]]}`` or ``{"from": "17", "by": "cider"}``."""
    source = int(negatives.source[number])
    if source >= 0:
        origin = {"from": negatives.corpus.ids[negatives.corpus.image[source]]}
        way = WAYS[negatives.way[number]]
        return {**origin, "by": way} if way else origin
    changes: dict[str, Any] = {}
    for index in range(negatives.changes[number], negatives.changes[number + 1]):
        done, old = int(negatives.done[index]), negatives.words[negatives.old[index]]
        if done == SHUFFLED:
            changes["shuffled"] = True
        else:
            pair = [old, negatives.words[negatives.new[index]]]
            changes.setdefault(DONE[done], []).append(pair if done == REPLACED else old)
    return changes


def rows(negatives: Negatives) -> Iterator[dict[str, Any]]:
    """All that could be made, in order."""
    return (row(negatives, number) for number in np.flatnonzero(negatives.actual >= 0).tolist())


def save(negatives: Negatives, path: str | Path) -> int:
    """Write all rows as JSON Lines, whole or not at all; how many they are."""
    with whole_file(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in rows(negatives))
    return int((negatives.actual >= 0).sum())


@dataclass(frozen=True, eq=False, repr=False)
class Sample(Result):
    """How many negatives of each kind there are, and some of each to look at."""

    negatives: Negatives
    size: int = 0
    """Negatives of each kind that are shown."""
    seed: int = 0
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Sample of {len(self.negatives):,} negatives of {len(self.negatives.corpus):,} captions"

    def document(self) -> Document:
        """A table of counts, and one of negatives for each kind, with the changed words marked."""
        drawn, corpus, counts, chosen = self.negatives, self.negatives.corpus, self.negatives.counts(), self.chosen()
        rows = []
        for kind, tally in counts.items():
            others = [f"{name}: {count:,}" for name, count in tally.items() if name not in (kind, "none")]
            rows.append((kind, tally[kind], ", ".join(others) or "—", tally.get("none", 0)))
        title = f"{len(corpus.ids):,} images, {len(corpus):,} captions"
        columns = ("kind", Column("made"), Column("fell back to", "text"), Column("not made"))
        tables = [Table("counts", title, columns, rows)]
        for kind, numbers in chosen.items() if self.size else ():
            entries = [(drawn.ids[number], *marked(drawn, number), _said(drawn, number)) for number in numbers]
            title = f"{kind}: {len(numbers)} of {sum(counts[kind].values()):,}"
            tables.append(Table(kind, title, ("id", "caption", "negative", "what was done"), entries))
        data: dict[str, Any] = {"captions": len(corpus), "images": len(corpus.ids), "seed": self.seed, "per": drawn.per}
        data["counts"] = counts
        if self.size:
            data["look"] = {kind: [row(drawn, number) for number in numbers] for kind, numbers in chosen.items()}
        return Document("Wrong captions", sections=tables, warnings=self.warnings, data=data, name="negatives")

    def chosen(self) -> dict[str, list[int]]:
        """A selection of negatives of each kind, drawn by the seed: no image twice while there are others."""
        drawn, corpus = self.negatives, self.negatives.corpus
        rank = np.empty(len(corpus.ids), dtype=np.int64)
        rank[np.argsort(keys_of(corpus.ids, self.seed))] = np.arange(len(corpus.ids))
        chosen = {}
        for number, kind in enumerate(drawn.kinds):
            rows = np.flatnonzero((drawn.kind == number) & (drawn.actual >= 0))
            caption = drawn.caption[rows]
            image = corpus.image[caption]
            # A different caption for each image: its number turns with the image's rank.
            turn = (corpus.position[caption] - rank[image]) % np.diff(corpus.offsets)[image]
            chosen[kind] = rows[np.lexsort((rows, rank[image], turn))][: self.size].tolist()
        return chosen


def marked(negatives: Negatives, number: int) -> tuple[Phrase, Phrase]:
    """A caption and its negative: what was taken away struck out, what was put in marked."""
    done = what_was_done(negatives, number)
    before: dict[str, Span] = {}
    after: dict[str, Span] = {}
    for old, new in done.get("replaced", ()):
        before[old], after[new] = Span(old, "bad"), Span(new, "good")
    for old in done.get("deleted", ()):
        before[old] = Span(old, "struck")
    for old in done.get("doubled", ()):
        before[old] = after[old] = Span(old, "strong")
    return _mark(negatives.corpus.texts[int(negatives.caption[number])], before), _mark(negatives.texts[number], after)


def _mark(text: str, words: Mapping[str, Span]) -> Phrase:
    """The text with these words in their tones, wherever they stand as a whole."""
    if not words:
        return Phrase.of(text)
    pattern = "|".join(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])" for word in words)
    return Phrase.of(*(words.get(part, part) for part in re.split(f"({pattern})", text) if part))


def _said(negatives: Negatives, number: int) -> str:
    parts = []
    for name, value in what_was_done(negatives, number).items():
        if name == "replaced":
            value = [f"{old} → {new}" for old, new in value]
        parts.append(name if value is True else f"{name} {', '.join(value) if isinstance(value, list) else value}")
    return "; ".join(parts)


def image_vectors(
    corpus: CaptionCorpus,
    images: str | Path | None = None,
    encoder: str = "",
    image_features: str | Path | None = None,
) -> tuple[Floats32 | None, tuple[str, ...]]:
    """Vectors of the images in the order of ``corpus.ids``, from a file or by an encoder, and warnings.

    A row is NaN where there is no vector; without a source the vectors are None.
    """
    if image_features is not None and (images is not None or encoder):
        raise InputError("image_features=... as well as images=... or encoder=..., expected one source of vectors")
    if (images is None) != (not encoder):
        raise InputError("images=... and encoder=... find images that look alike together; expected both or neither")
    if image_features is not None:
        rows, reasons = _read_vectors(corpus, Path(image_features))
    elif images is not None:
        rows, reasons = _encoded(corpus, images, encoder)
    else:
        more = "images=... with encoder=..., or image_features=..., adds images that look alike"
        return None, (f"hard negatives by captions alone: {more}",)
    if not reasons:
        return rows, ()
    key, why = next(iter(reasons.items()))
    return rows, (f"{len(reasons)} images without a vector are alike by captions alone, such as {key} ({why})",)


def _read_vectors(corpus: CaptionCorpus, path: Path) -> tuple[Floats32, dict[str, str]]:
    """Vectors from a file of :mod:`captious.models.features`; NaN and a reason where there is none."""
    ids, rows = read_features(path)
    row_of = {key: number for number, key in enumerate(ids)}
    index = np.array([row_of.get(key, -1) for key in corpus.ids], dtype=np.int64)
    if (index < 0).all():
        raise InputError(f"{path}: holds no vector of any image of {corpus.name}, such as {corpus.ids[0]}")
    missing = [corpus.ids[number] for number in np.flatnonzero(index < 0)]
    return spread_vectors(rows, index), dict.fromkeys(missing, f"not in {path.name}")


def _encoded(corpus: CaptionCorpus, images: str | Path, encoder: str) -> tuple[Floats32, dict[str, str]]:
    """Vectors of image files by an encoder; NaN and a reason where a file cannot be used."""
    from captious.io.images import find_images
    from captious.models.features import image_features
    from captious.models.loading import load

    encoded = image_features(load(encoder), find_images(images, corpus.ids))
    reasons = {corpus.ids[number]: why for number, why in encoded.faults.items()}
    return spread_vectors(encoded.rows, np.asarray(encoded.index)), reasons


def spread_vectors(rows: Floats32, index: Ints) -> Floats32:
    """Rows by index, NaN where it is -1."""
    spread = np.full((len(index), rows.shape[1]), np.nan, dtype=np.float32)
    spread[index >= 0] = rows[index[index >= 0]]
    return spread
