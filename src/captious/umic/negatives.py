"""Wrong captions to train UMIC on: for every caption, one of each of five kinds, and what was done to make it.

>>> from captious.umic.corpus import Corpus
>>> corpus = Corpus.of({"1": ["a red dog"], "2": ["two cats sleep"]})
>>> made = negatives(corpus, ("random", "shuffle"), tagger=lambda texts: [["NN"] * len(text) for text in texts])
>>> made.texts[0], made.texts[2]
('two cats sleep', 'a red dog')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.errors import InputError, nearest
from captious.text.tables import Ints
from captious.umic.corpus import Corpus
from captious.umic.draws import Keys, fork, image_keys
from captious.umic.kinds import MAKERS, Drafts, able
from captious.umic.sources import ANY, Alike, alike, any_other
from captious.umic.words import Bools, Lexicon, Tagging

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
