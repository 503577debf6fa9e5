"""Wrong captions for training UMIC: five kinds, each with a record of the changes.

Every random number is a function of seed, image id, caption, kind, copy, attempt, purpose and position. So a caption
gets the same negatives in any order or batch, and all draws are elementwise array operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._core.random import Keys, draw_below, draw_uniform, fork, make_keys
from captious._core.types import Bools, Ints
from captious.edits.lexicon import CaptionCorpus, Lexicon, Tagging, compute_signatures
from captious.edits.wrong_words import MAKERS, WrongCaptions, draw_any, find_changeable_captions
from captious.errors import InputError, format_suggestion
from captious.train.similar_images import SimilarImages

# Share of hard negatives chosen by image similarity, if both kinds of similarity are available.
BY_IMAGE = 0.5

ANY, CIDER, IMAGE = range(3)
WAYS = ("", "cider", "image")


def draw_similar(
    corpus: CaptionCorpus, near: SimilarImages, captions: Ints, keys: Keys
) -> tuple[Ints, npt.NDArray[np.int8]]:
    """Draw a caption of one of the three most similar images, and the kind of similarity; -1 if there is none."""
    image = corpus.image[captions]
    by_words = near.captions.index[image]
    chosen, way = by_words, np.full(len(captions), CIDER, dtype=np.int8)
    if near.pictures is not None:
        by_picture = near.pictures.index[image]
        coin = draw_uniform(fork(keys, 7)) < BY_IMAGE
        pictured = (by_picture[:, 0] >= 0) & (coin | (by_words[:, 0] < 0))
        chosen = np.where(pictured[:, None], by_picture, by_words)
        way[pictured] = IMAGE
    neighbors = (chosen >= 0).sum(axis=1)
    other = chosen[np.arange(len(captions)), draw_below(fork(keys, 8), neighbors)]
    sizes = np.where(other >= 0, np.diff(corpus.offsets)[other], 0)
    index = corpus.offsets[np.maximum(other, 0)] + draw_below(fork(keys, 9), sizes)
    return np.where(other >= 0, index, -1), way


KINDS = ("hard", "random", "substitute", "shuffle", "repeat")
# Fallback kinds in this order, if a kind cannot be made from a caption.
INSTEAD = {
    "hard": ("random", "shuffle"),
    "random": ("shuffle",),
    "substitute": ("shuffle", "random"),
    "shuffle": ("random",),
    "repeat": ("shuffle", "random"),
}
# Number of attempts, if a draft equals one of the image's own captions or is empty.
TRIES = 24


@dataclass(frozen=True, eq=False)
class Negatives:
    """Negatives as columns, ordered by caption, then kind, then copy."""

    corpus: CaptionCorpus
    kinds: tuple[str, ...]
    per: int
    caption: Ints
    """The index of the original caption in the corpus."""
    kind: npt.NDArray[np.int8]
    """The requested kind, as an index into ``kinds``."""
    actual: npt.NDArray[np.int8]
    """The actual kind, as an index into ``KINDS``; a fallback kind, or -1 if nothing could be made."""
    texts: list[str]
    source: Ints
    """The caption that was copied from another image; -1 if the original caption was changed."""
    way: npt.NDArray[np.int8]
    """How the image of the source was chosen, as an index into ``WAYS``."""
    changes: Ints
    """The changes of negative i are ``changes[i]`` up to ``changes[i + 1]`` of the columns below."""
    done: npt.NDArray[np.int8]
    old: Ints
    new: Ints
    words: list[str]
    """The words that ``old`` and ``new`` refer to."""

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def ids(self) -> list[str]:
        """The image of each negative."""
        names = self.corpus.ids
        return [names[image] for image in self.corpus.image[self.caption].tolist()]

    def counts(self) -> dict[str, dict[str, int]]:
        """Count the negatives by requested kind and actual kind; ``none`` if nothing could be made."""
        names = (*KINDS, "none")
        counts: dict[str, dict[str, int]] = {}
        for number, kind in enumerate(self.kinds):
            tally = np.bincount(self.actual[self.kind == number].astype(np.int64) % len(names), minlength=len(names))
            counts[kind] = {name: int(count) for name, count in zip(names, tally, strict=True) if count or name == kind}
        return counts


def make_negatives(
    corpus: CaptionCorpus,
    kinds: Sequence[str] = KINDS,
    *,
    seed: int = 0,
    per: int = 1,
    features: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any] | None = None,
    lexicon: Lexicon | None = None,
    near: SimilarImages | None = None,
    tagger: Tagging | None = None,
    legacy: bool = False,
) -> Negatives:
    """Make ``per`` negatives of each kind for every caption.

    Each has its own random numbers, derived from the seed, the image's id, the caption's position, the kind and the
    copy, so the order of images does not matter. To draw new ones every epoch, compute ``lexicon`` and ``near`` once
    and change the seed.

    ``legacy`` accepts the same changes as the original: a word replaced by itself, a shuffle without effect, a caption
    with all words deleted, a hard negative equal to one of the image's own captions.
    """
    wanted = check_kinds(kinds)
    if not len(corpus):
        raise InputError(f"{corpus.name}: contains no captions")
    if lexicon is None:
        lexicon = Lexicon.of(corpus, tagger)
    if near is None and "hard" in wanted:
        near = SimilarImages.of(corpus, features)
    streams = fork(make_keys(corpus.ids, seed)[corpus.image], corpus.position)
    builder = _Builder(lexicon, near, legacy, len(wanted) * per)
    for group, (kind, copy) in enumerate(product(wanted, range(per))):
        builder.make(group, kind, fork(streams, KINDS.index(kind) * 65536 + copy))
    return builder.finish(wanted, per)


def check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct kinds. Raise InputError if one is unknown."""
    wanted = tuple(dict.fromkeys(kind.strip() for kind in kinds if kind.strip()))
    for kind in wanted:
        if kind not in KINDS:
            raise InputError(
                f"unknown kind of negative {kind!r}, expected one of {', '.join(KINDS)}{format_suggestion(kind, KINDS)}"
            )
    if not wanted:
        raise InputError(f"no kind of negative named, expected one or more of {', '.join(KINDS)}")
    return wanted


class _Builder:
    """Collects one negative of each caption for each group (a kind and a copy): sources and drafts.

    The row of a negative is the index of its caption plus the group's offset.
    """

    def __init__(self, lexicon: Lexicon, near: SimilarImages | None, legacy: bool, groups: int) -> None:
        self.lexicon, self.near, self.legacy = lexicon, near, legacy
        self.corpus = lexicon.corpus
        self.changeable = {kind: find_changeable_captions(kind, lexicon, legacy) for kind in MAKERS}
        rows = groups * len(self.corpus)
        self.actual = np.full(rows, -1, dtype=np.int8)
        self.source = np.full(rows, -1, dtype=np.int64)
        self.way = np.full(rows, ANY, dtype=np.int8)
        empty = np.zeros(0, dtype=np.int64)
        self.drafts = [WrongCaptions(empty, empty, empty, empty.astype(np.int8), empty, empty)]
        # The row of each draft.
        self.rows = [empty]

    def make(self, group: int, kind: str, keys: Keys) -> None:
        """Make one negative of each caption, falling back to another kind if this one cannot be made."""
        pending = np.arange(len(self.corpus))
        for turn, method in enumerate((kind, *INSTEAD[kind])):
            if len(pending):
                pending = self._attempt(group, method, pending, fork(keys, turn) if turn else keys)

    def _attempt(self, group: int, method: str, pending: Ints, keys: Keys) -> Ints:
        """Make as many negatives as possible; return the remaining captions."""
        write, cannot = method in MAKERS, np.zeros(0, dtype=np.int64)
        if write:
            fit = self.changeable[method][pending]
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
            written = compute_signatures(self.lexicon.keys(drafts.tokens), drafts.lengths)
            good = ~self.corpus.is_own(captions, written)
        self.drafts.append(drafts if good.all() else drafts.take(np.flatnonzero(good)))
        self.rows.append(rows[good])
        return good

    def _borrow(self, method: str, rows: Ints, captions: Ints, keys: Keys) -> Bools:
        way = np.full(len(rows), ANY, dtype=np.int8)
        if method == "hard" and self.near is not None:
            source, way = draw_similar(self.corpus, self.near, captions, keys)
        else:
            source = draw_any(self.corpus, captions, keys)
        good = source >= 0
        if not (self.legacy and method == "hard"):
            good &= ~self.corpus.is_own(captions, self.corpus.signatures[source])
        self.source[rows[good]], self.way[rows[good]] = source[good], way[good]
        return good

    def finish(self, kinds: tuple[str, ...], per: int) -> Negatives:
        """Return all columns, with the captions in their original order."""
        size = len(self.corpus)
        order = (self.corpus.as_given[:, None] + np.arange(len(kinds) * per) * size).ravel()
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        drafts, rows, source = WrongCaptions.join(self.drafts), rank[np.concatenate(self.rows)], self.source[order]
        by_row = np.argsort(rows[drafts.row], kind="stable")
        per_row = np.bincount(rows[drafts.row], minlength=len(order))
        changed = np.concatenate([drafts.old[by_row], drafts.new[by_row]])
        _, words, numbers = self.lexicon.write_tokens(changed)
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

    def _texts(self, drafts: WrongCaptions, rows: Ints, source: Ints) -> list[str]:
        captions = (*self.corpus.texts, "")
        texts = [captions[number] for number in source.tolist()]
        chunks, _, numbers = self.lexicon.write_tokens(drafts.tokens)
        words = list(map(chunks.__getitem__, numbers.tolist()))
        ends = np.cumsum(drafts.lengths)
        bounds = zip(rows.tolist(), (ends - drafts.lengths).tolist(), ends.tolist(), strict=True)
        for row, first, end in bounds:
            texts[row] = " ".join(words[first:end])
        return texts
