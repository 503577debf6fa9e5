"""The contrastive n-gram model: document frequencies of each style, and the scores that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captious.errors import InputError, nearest
from captious.files import digest
from captious.measurement import Floats
from captious.text.tables import Ints, TextTable

ORDERS = 4
Small = npt.NDArray[np.int32]
Whole = npt.NDArray[np.integer[Any]]


class Order(NamedTuple):
    """The n-grams of one order, sorted, each with the styles it occurs in and its document frequency there."""

    parent: Small
    """Of each n-gram, the (n-1)-gram it starts with."""
    last: Small
    """Of each n-gram, its last word."""
    starts: Ints
    """N-gram ``g`` has the entries ``starts[g]`` up to ``starts[g + 1]``."""
    style: Small
    frequency: Small
    """Of each entry, in how many captions of the style the n-gram occurs."""

    @property
    def occurrences(self) -> Ints:
        """Of each n-gram, in how many styles it occurs."""
        return np.diff(self.starts)


class Scores(NamedTuple):
    """CNG_p(t) = share(t, p) - base(t); share is 0 where t does not occur in p."""

    share: Floats
    """Of each entry, ECDF_p(f_p(t)) / occur(t)."""
    base: Floats
    """Of each n-gram, the mean of its shares over all styles; one more 0 at the end for what is unseen."""
    gram: Ints
    """Of each entry, its n-gram."""


@dataclass(frozen=True, eq=False)
class StyleModel:
    """In how many captions of each style every n-gram of orders 1 to 4 occurs, and its contrastive score.

    With f_p(t) the captions of style p that contain t, F_p the list of the f_p of all n-grams of that order seen in p,
    and occur(t) the number of styles that t occurs in::

        ECDF_p(x) = share of F_p that is at most x
        CNG_p(t)  = 1/|S| · Σ over q ≠ p of (ECDF_p(f_p(t)) − ECDF_q(f_q(t))) / occur(t)

    An n-gram absent from a style has ECDF 0 there, one absent from all styles has CNG 0. Only counts are kept, so two
    models merge into that of both corpora; words, styles and n-grams are sorted, so equal corpora give equal models.

    >>> from captious.style.count import fit
    >>> model = fit([("gloomy", "a grey day"), ("happy", "a fine day")])
    >>> round(model.score("fine", "happy"), 6), round(model.score("day", "happy"), 6)  # fine: ½ · (1 − 0) / 1
    (0.5, 0.0)
    """

    styles: tuple[str, ...]
    captions: Ints
    """How many captions each style had."""
    tokeniser: str
    vocabulary: list[str]
    orders: tuple[Order, ...]
    fingerprint: int
    """Of the captions with their styles, in any order; those of shards add up modulo 2**64."""
    name: str = "corpus"

    def __str__(self) -> str:
        return f"{self.name}:{self.mark[:8]}"

    @cached_property
    def mark(self) -> str:
        """Twelve hexadecimal digits of everything that moves a score."""
        words = "\n".join([self.tokeniser, *self.styles, *self.vocabulary]).encode("utf-8", "surrogatepass")
        return digest(words, *(array.tobytes() for order in self.orders for array in order), self.captions.tobytes())

    def merge(self, other: StyleModel) -> StyleModel:
        """The model of both corpora together."""
        from captious.style.merge import merge

        return merge(self, other)

    def contrasting(self) -> StyleModel:
        """The model itself, if it has styles to contrast."""
        if len(self.styles) < 2:
            found = f"one style ({self.styles[0]!r})" if self.styles else "no style"
            raise InputError(f"{self.name}: holds {found}, expected at least two: a style shows by contrast")
        return self

    def style_number(self, style: str, where: str = "") -> int:
        """The number of a style, or the nearest name."""
        if style not in self.styles:
            known = ", ".join(self.styles[:8]) + (", …" if len(self.styles) > 8 else "")
            raise InputError(
                f"{where}{': ' if where else ''}the style model {self.name} has no style {style!r}, "
                f"only {len(self.styles)}: {known}{nearest(style, self.styles)}"
            )
        return self.styles.index(style)

    def score(self, ngram: str, style: str) -> float:
        """CNG of one n-gram, its words separated by spaces; 0 where no style has it."""
        number, words = self.number(ngram), ngram.split()
        return float(self.scores_under(len(words), np.array([number]), np.array([self.style_number(style)]))[0])

    def number(self, ngram: str) -> int:
        """The number of an n-gram among those of its order, -1 where no style has it."""
        words = ngram.split()
        if not 1 <= len(words) <= ORDERS:
            raise InputError(f"{ngram!r} has {len(words)} words, expected 1 to {ORDERS}")
        number = 0
        for n, word in enumerate(words):
            last = self._position.get(word, -1)
            key = number * len(self.vocabulary) + last
            place = int(np.searchsorted(self._keys[n], key))
            if last < 0 or place == len(self._keys[n]) or self._keys[n][place] != key:
                return -1
            number = place
        return number

    @cached_property
    def scores(self) -> tuple[Scores, ...]:
        """The parts of CNG, order by order."""
        return tuple(_scored(order, len(self.styles)) for order in self.contrasting().orders)

    def scores_under(self, n: int, gram: Whole, style: Whole) -> Floats:
        """CNG of n-grams of order n (numbers here, -1 for unseen), each under a style."""
        share, base, _ = self.scores[n - 1]
        keys = self._entries[n - 1]
        wanted = np.where(gram >= 0, gram * len(self.styles) + style, -1)
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        hit = keys[place] == wanted if len(keys) else np.zeros(len(wanted), dtype=np.bool_)
        found: Floats = np.where(hit, share[place] if len(keys) else 0.0, 0.0) - base[gram]
        return found

    def locate(self, table: TextTable) -> list[Ints]:
        """Per order, the number here of each n-gram of a table, -1 where it is unseen."""
        position = self._position
        words = np.fromiter((position.get(word, -1) for word in table.vocabulary), np.int64, len(table.vocabulary))
        located = [words[table.ngrams(1).last]]
        for n in range(2, ORDERS + 1):
            grams, keys = table.ngrams(n), self._keys[n - 1]
            parent, last = located[-1][grams.parent], words[grams.last]
            wanted = np.where((parent >= 0) & (last >= 0), parent * len(self.vocabulary) + last, -1)
            place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
            hit = keys[place] == wanted if len(keys) else np.zeros(len(wanted), dtype=np.bool_)
            located.append(np.where(hit, place, -1))
        return located

    def ngram(self, n: int, number: int) -> str:
        """An n-gram as text."""
        words: list[str] = []
        for order in reversed(self.orders[:n]):
            words.insert(0, self.vocabulary[order.last[number]])
            number = int(order.parent[number])
        return " ".join(words)

    @cached_property
    def _keys(self) -> list[Ints]:
        return [order.parent.astype(np.int64) * len(self.vocabulary) + order.last for order in self.orders]

    @cached_property
    def _entries(self) -> list[Ints]:
        return [
            score.gram * len(self.styles) + order.style for score, order in zip(self.scores, self.orders, strict=True)
        ]

    @cached_property
    def _position(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.vocabulary)}


def _scored(order: Order, styles: int) -> Scores:
    """ECDFs by counting: distinct frequencies are few, so a table of styles by frequencies is small."""
    gram = np.repeat(np.arange(len(order.last)), order.occurrences)
    present = np.bincount(order.frequency) > 0
    rank = (np.cumsum(present) - 1)[order.frequency]
    width = int(present.sum())
    table = np.bincount(order.style * width + rank, minlength=styles * width).reshape(styles, width)
    at_most = np.cumsum(table, axis=1)
    ecdf = at_most / np.maximum(at_most[:, -1:], 1) if width else np.zeros((styles, 0))
    share = ecdf[order.style, rank] / order.occurrences[gram]
    base = np.append(np.bincount(gram, weights=share, minlength=len(order.last)) / styles, 0.0)
    return Scores(share, base, gram)
