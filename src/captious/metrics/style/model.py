"""The contrastive n-gram model: document frequencies of each style, and the scores that follow from them.

An n-gram of order n is a number, its index among the sorted n-grams of that order: the (n-1)-gram that it starts with
(``parent``) and its last word. Each has an entry for every style that it occurs in. Of two captions, "a grey day"
(gloomy) and "a fine day" (happy), the model holds::

    vocabulary        0 a     1 day     2 fine     3 grey                     styles   0 gloomy    1 happy

    order 1           0 a            1 day          2 fine     3 grey
      last            0              1              2          3
      starts          0              2              4          5         6
      style           0      1       0       1      1          0              entries: the styles of each n-gram,
      frequency       1      1       1       1      1          1              and the captions of the style with it

    order 2           0 a fine       1 a grey       2 fine day   3 grey day
      parent, last    0, 2           0, 3           2, 1         3, 1         "a fine" is the 1-gram 0, then word 2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captious._core.files import digest
from captious._core.types import Bools, Floats, Ints, Ints32
from captious.errors import InputError, format_suggestion
from captious.text.ngram_tables import TextTable

ORDERS = 4
# Integers of any size: arrays on disk and in tables are as narrow as their values allow.
AnyInts = npt.NDArray[np.integer[Any]]
# One array of each of the two models that are merged.
Sides = tuple[Ints, Ints]


class Order(NamedTuple):
    """The n-grams of one order, sorted, each with the styles it occurs in and its document frequency there."""

    parent: Ints32
    """The (n-1)-gram that each n-gram starts with."""
    last: Ints32
    """The last word of each n-gram."""
    starts: Ints
    """N-gram ``g`` has the entries ``starts[g]`` up to ``starts[g + 1]``."""
    style: Ints32
    frequency: Ints32
    """The number of captions of the style in which the n-gram of each entry occurs."""

    @property
    def occurrences(self) -> Ints:
        """The number of styles in which each n-gram occurs."""
        return np.diff(self.starts)


class StyleShares(NamedTuple):
    """CNG_p(t) = share(t, p) - base(t); share is 0 if t does not occur in p."""

    share: Floats
    """ECDF_p(f_p(t)) / occur(t) of each entry; a final 0 serves n-grams that the style does not have (index -1)."""
    base: Floats
    """The mean of each n-gram's shares over all styles; a final 0 serves unseen n-grams (index -1)."""
    gram: Ints
    """The n-gram of each entry."""


@dataclass(frozen=True, eq=False)
class StyleModel:
    """The number of captions of each style in which every n-gram of orders 1 to 4 occurs, and its contrastive score.

    With f_p(t) the captions of style p that contain t, F_p the list of the f_p of all n-grams of that order seen in p,
    and occur(t) the number of styles that t occurs in::

        ECDF_p(x) = share of F_p that is at most x
        CNG_p(t)  = 1/|S| · Σ over q ≠ p of (ECDF_p(f_p(t)) − ECDF_q(f_q(t))) / occur(t)

    An n-gram absent from a style has ECDF 0 there, one absent from all styles has CNG 0. Only counts are kept, so two
    models merge into that of both corpora; words, styles and n-grams are sorted, so equal corpora give equal models.

    >>> from captious.metrics.style.fitting import fit
    >>> model = fit([("gloomy", "a grey day"), ("happy", "a fine day")])
    >>> round(model.score("fine", "happy"), 6), round(model.score("day", "happy"), 6)  # fine: ½ · (1 − 0) / 1
    (0.5, 0.0)
    """

    styles: tuple[str, ...]
    captions: Ints
    """The number of captions of each style."""
    tokenizer: str
    vocabulary: list[str]
    orders: tuple[Order, ...]
    fingerprint: int
    """A fingerprint of the captions with their styles, in any order; those of shards add up modulo 2**64."""
    name: str = "corpus"

    def __str__(self) -> str:
        return f"{self.name}:{self.mark[:8]}"

    @property
    def signature(self) -> str:
        """The model in one line: its content, corpus and tokenizer."""
        corpus = f"{int(self.captions.sum())}:{self.fingerprint:016x}"
        return f"model:{self.mark}|corpus:{corpus}|styles:{len(self.styles)}|tok:{self.tokenizer}"

    @cached_property
    def mark(self) -> str:
        """Digest of everything that can change a score, twelve hexadecimal digits."""
        words = "\n".join([self.tokenizer, *self.styles, *self.vocabulary]).encode("utf-8", "surrogatepass")
        return digest(words, *(array.tobytes() for order in self.orders for array in order), self.captions.tobytes())

    def merge(self, other: StyleModel) -> StyleModel:
        """Merge two models into that of both corpora.

        >>> from captious.metrics.style.fitting import count, fit
        >>> one, other = count([("a", "x y")]), count([("b", "x z"), ("b", "z")])
        >>> one.merge(other).mark == fit([("a", "x y"), ("b", "x z"), ("b", "z")]).mark
        True
        """
        if self.tokenizer != other.tokenizer:
            raise InputError(f"cannot merge style models tokenized by {self.tokenizer} and {other.tokenizer}")
        sides = (self, other)
        styles, in_styles = _merge_names(*(side.styles for side in sides))
        vocabulary, words = _merge_names(*(side.vocabulary for side in sides))
        # New numbers of each side's n-grams of the previous order; order 0 has only the empty n-gram.
        numbers: Sides = (np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
        orders = []
        for n in range(ORDERS):
            parts = (self.orders[n], other.orders[n])
            grams, numbers = _merge_ngrams(parts, numbers, words, len(vocabulary))
            entries, counts = _merge_entries(parts, numbers, in_styles, len(styles))
            orders.append(_unpack_order(grams, entries, counts, len(vocabulary), len(styles)))
        captions = np.zeros(len(styles), dtype=np.int64)
        for i, side in enumerate(sides):
            captions[in_styles[i]] += side.captions
        return StyleModel(
            styles=tuple(styles),
            captions=captions,
            tokenizer=self.tokenizer,
            vocabulary=vocabulary,
            orders=tuple(orders),
            fingerprint=(self.fingerprint + other.fingerprint) % 2**64,
            name=self.name,
        )

    def require_contrast(self) -> StyleModel:
        """Raise InputError unless the model has at least two styles; return the model."""
        if len(self.styles) < 2:
            content = f"one style ({self.styles[0]!r})" if self.styles else "no style"
            raise InputError(f"{self.name}: contains {content}, expected at least two: a style shows by contrast")
        return self

    def find_style(self, style: str, where: str = "") -> int:
        """Return the number of a style; the error for an unknown one suggests the nearest name."""
        if style not in self.styles:
            names = ", ".join(self.styles[:8]) + (", …" if len(self.styles) > 8 else "")
            raise InputError(
                f"{where}{': ' if where else ''}the style model {self.name} has no style {style!r}, "
                f"only {len(self.styles)}: {names}{format_suggestion(style, self.styles)}"
            )
        return self.styles.index(style)

    def score(self, ngram: str, style: str) -> float:
        """Compute the CNG of one n-gram, its words separated by spaces; 0 if no style has it."""
        number, words = self.number(ngram), ngram.split()
        return float(self.score_ngrams(len(words), np.array([number]), np.array([self.find_style(style)]))[0])

    def number(self, ngram: str) -> int:
        """Return the number of an n-gram among those of its order, -1 if no style has it."""
        words = ngram.split()
        if not 1 <= len(words) <= ORDERS:
            raise InputError(f"{ngram!r} has {len(words)} words, expected 1 to {ORDERS}")
        number = 0
        for n, word in enumerate(words):
            last = self._position.get(word, -1)
            number = int(_lookup(self._keys[n], np.array([number * len(self.vocabulary) + last]))[0])
            if last < 0 or number < 0:
                return -1
        return number

    @cached_property
    def scores(self) -> tuple[StyleShares, ...]:
        """The parts of CNG, order by order."""
        return tuple(_compute_shares(order, len(self.styles)) for order in self.require_contrast().orders)

    def score_ngrams(self, n: int, gram: AnyInts, style: AnyInts) -> Floats:
        """Compute the CNG of n-grams of order n (by number, -1 for unseen), each under one style."""
        share, base, _ = self.scores[n - 1]
        # Index -1 (not found) picks the final 0 of `share` and of `base`.
        entry = _lookup(self._entries[n - 1], np.where(gram >= 0, gram * len(self.styles) + style, -1))
        scores: Floats = share[entry] - base[gram]
        return scores

    def has_ngrams(self, n: int, gram: AnyInts, style: AnyInts) -> Bools:
        """Return for n-grams of order n (by number, -1 for unseen) whether each occurs in the captions of its style."""
        return _lookup(self._entries[n - 1], np.where(gram >= 0, gram * len(self.styles) + style, -1)) >= 0

    def locate(self, table: TextTable) -> list[Ints]:
        """Find the indices in this model of the n-grams of a table, per order; -1 if unseen."""
        position = self._position
        words = np.fromiter((position.get(word, -1) for word in table.vocabulary), np.int64, len(table.vocabulary))
        located = [words[table.ngrams(1).last]]
        for n in range(2, ORDERS + 1):
            grams = table.ngrams(n)
            parent, last = located[-1][grams.parent], words[grams.last]
            wanted = np.where((parent >= 0) & (last >= 0), parent * len(self.vocabulary) + last, -1)
            located.append(_lookup(self._keys[n - 1], wanted))
        return located

    def ngram(self, n: int, number: int) -> str:
        """Return an n-gram as text."""
        words: list[str] = []
        for order in reversed(self.orders[:n]):
            words.insert(0, self.vocabulary[order.last[number]])
            number = int(order.parent[number])
        return " ".join(words)

    @cached_property
    def _keys(self) -> list[Ints]:
        """The n-grams of each order as ascending numbers: parent · vocabulary + last word."""
        return [order.parent.astype(np.int64) * len(self.vocabulary) + order.last for order in self.orders]

    @cached_property
    def _entries(self) -> list[Ints]:
        """The entries of each order as ascending numbers: n-gram · styles + style."""
        return [
            score.gram * len(self.styles) + order.style for score, order in zip(self.scores, self.orders, strict=True)
        ]

    @cached_property
    def _position(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.vocabulary)}


def _lookup(keys: Ints, wanted: AnyInts) -> Ints:
    """Find the index of each wanted number in sorted keys, -1 if it is missing.

    >>> _lookup(np.array([2, 5]), np.array([5, 3])).tolist()
    [1, -1]
    """
    if not len(keys):
        return np.full(len(wanted), -1)
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, index, -1)


def _compute_shares(order: Order, styles: int) -> StyleShares:
    """Compute ECDFs by counting: distinct frequencies are few, so a table of styles by frequencies is small."""
    gram = np.repeat(np.arange(len(order.last)), order.occurrences)
    # `rank` is the index of an entry's frequency among the distinct frequencies.
    present = np.bincount(order.frequency) > 0
    rank = (np.cumsum(present) - 1)[order.frequency]
    width = int(present.sum())
    table = np.bincount(order.style * width + rank, minlength=styles * width).reshape(styles, width)
    at_most = np.cumsum(table, axis=1)
    ecdf = at_most / np.maximum(at_most[:, -1:], 1) if width else np.zeros((styles, 0))
    share = ecdf[order.style, rank] / order.occurrences[gram]
    base = np.append(np.bincount(gram, weights=share, minlength=len(order.last)) / styles, 0.0)
    return StyleShares(np.append(share, 0.0), base, gram)


def _merge_names(one: Sequence[str], other: Sequence[str]) -> tuple[list[str], Sides]:
    """Merge two lists of names, sorted; also return the new index of each side's names."""
    names = sorted({*one, *other})
    index = {name: number for number, name in enumerate(names)}
    first, second = (np.array([index[name] for name in side], dtype=np.int64) for side in (one, other))
    return names, (first, second)


def _merge_ngrams(parts: tuple[Order, Order], parents: Sides, words: Sides, vocabulary: int) -> tuple[Ints, Sides]:
    """Merge the n-gram keys of both sides, parent · vocabulary + last word; also return the new number of each side's
    n-grams.
    """
    one, other = (
        parent[part.parent] * vocabulary + word[part.last]
        for part, parent, word in zip(parts, parents, words, strict=True)
    )
    return _merge_keys(one, other)


def _merge_entries(parts: tuple[Order, Order], grams: Sides, in_styles: Sides, styles: int) -> tuple[Ints, Ints32]:
    """Merge the entry keys of both sides, n-gram · styles + style, and sum their caption counts."""
    one, other = (
        np.repeat(gram, part.occurrences) * styles + style[part.style]
        for part, gram, style in zip(parts, grams, in_styles, strict=True)
    )
    merged, indices = _merge_keys(one, other)
    counts = np.zeros(len(merged), dtype=np.int32)
    for index, part in zip(indices, parts, strict=True):
        counts[index] += part.frequency
    return merged, counts


def _unpack_order(grams: Ints, entries: Ints, counts: Ints32, vocabulary: int, styles: int) -> Order:
    """Unpack keys of n-grams and of entries into an order."""
    vocabulary, styles = max(vocabulary, 1), max(styles, 1)
    return Order(
        parent=(grams // vocabulary).astype(np.int32),
        last=(grams % vocabulary).astype(np.int32),
        starts=np.concatenate(([0], np.cumsum(np.bincount(entries // styles, minlength=len(grams))))),
        style=(entries % styles).astype(np.int32),
        frequency=counts,
    )


def _merge_keys(one: Ints, other: Ints) -> tuple[Ints, Sides]:
    """Merge two sorted arrays of keys; also return the new index of each side's keys."""
    # With return_index the sort is stable, which merges two sorted runs in linear time.
    distinct, _, index = np.unique(np.concatenate([one, other]), return_index=True, return_inverse=True)
    return distinct, (index[: len(one)], index[len(one) :])
