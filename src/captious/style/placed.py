"""Captions placed in a model: their n-grams as rows that know their number in the model and their score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captious.measurement import Floats
from captious.style.cng import ORDERS, StyleModel, Whole
from captious.style.count import sorted_table
from captious.text.ngrams import NgramTable
from captious.text.tables import Ints, TextTable


class Rows(NamedTuple):
    """The n-grams of one order in all captions: rows (n-gram, caption, count), sorted by n-gram."""

    n: int
    grams: NgramTable
    located: Ints
    """Of each n-gram here, its number in the model; -1 where the model lacks it."""
    base: Floats
    """Of each n-gram here, the part of its score that all styles share."""
    first: Ints
    """N-gram ``g`` has the rows ``first[g]`` up to ``first[g + 1]``."""
    mine: Ints
    """Entries of the model whose n-gram occurs here, in the order of styles."""
    of_style: Ints
    """Style ``p`` has ``mine[of_style[p]:of_style[p + 1]]``."""
    here: Ints
    """Of each entry in ``mine``, the number of its n-gram here."""


@dataclass(frozen=True, eq=False)
class Placed:
    """A token table seen by a model."""

    model: StyleModel
    table: TextTable

    @classmethod
    def of(cls, model: StyleModel, texts: Sequence[str]) -> Placed:
        """Place plain texts."""
        return cls(model, sorted_table(texts, model.tokeniser))

    @property
    def captions(self) -> int:
        """How many captions there are."""
        return len(self.table.lengths)

    @cached_property
    def located(self) -> list[Ints]:
        """Per order, the number in the model of each n-gram here, -1 where the model lacks it."""
        return self.model.locate(self.table)

    @cached_property
    def orders(self) -> tuple[Rows, ...]:
        """The rows of each order."""
        return tuple(self._rows(n) for n in range(1, ORDERS + 1))

    def _rows(self, n: int) -> Rows:
        grams, located = self.table.ngrams(n), self.located[n - 1]
        scores, order = self.model.scores[n - 1], self.model.orders[n - 1]
        inverse = np.full(len(order.last) + 1, -1, dtype=np.int64)
        inverse[located] = np.arange(grams.size)
        inverse[-1] = -1
        here = inverse[scores.gram]
        mine = np.flatnonzero(here >= 0)
        mine = mine[np.argsort(order.style[mine], kind="stable")]
        return Rows(
            n=n,
            grams=grams,
            located=located,
            base=scores.base[located],
            first=np.searchsorted(grams.gram, np.arange(grams.size + 1)),
            mine=mine,
            of_style=np.searchsorted(order.style[mine], np.arange(len(self.model.styles) + 1)),
            here=here[mine],
        )

    def weights(self, rows: Rows, style: int) -> tuple[Floats, Ints]:
        """CNG under a style of each n-gram here, and which of them occur in that style."""
        part = slice(rows.of_style[style], rows.of_style[style + 1])
        weights = -rows.base
        weights[rows.here[part]] += self.model.scores[rows.n - 1].share[rows.mine[part]]
        return weights, rows.here[part]

    def sizes(self, rows: Rows, amount: Whole) -> Floats:
        """N-grams of each caption."""
        return added(rows.grams.caption, amount, self.captions)


def runs(starts: Whole, chosen: Whole) -> tuple[Ints, Ints]:
    """All positions of the chosen runs, and how long each run is.

    >>> [part.tolist() for part in runs(np.array([0, 2, 3, 6]), np.array([0, 2]))]
    [[0, 1, 3, 4, 5], [2, 3]]
    """
    lengths = starts[chosen + 1] - starts[chosen]
    shift = np.repeat(starts[chosen] - (np.cumsum(lengths) - lengths), lengths)
    return np.arange(len(shift)) + shift, lengths


def added(keys: Whole, weights: npt.NDArray[Any], size: int) -> Floats:
    """Sums of weights by key; unlike `np.bincount`, of no weights at all too."""
    return np.bincount(keys, weights, size).astype(np.float64, copy=False)


def blocks(size: int, width: int) -> Iterator[tuple[int, int]]:
    """Bounds of consecutive blocks."""
    return ((start, min(start + width, size)) for start in range(0, size, width))
