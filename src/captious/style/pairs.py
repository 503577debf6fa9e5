"""StyleCIDEr of captions to every single reference: for readings that a mean of vectors cannot give.

Time grows with the square of the corpus; test a sample of a large one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from captious.measurement import Floats
from captious.style.cng import ORDERS
from captious.style.cosine import Cosines, Scored
from captious.style.placed import Placed, added, blocks, runs
from captious.style.reading import SIGMA, Reading
from captious.text.tables import Ints

CELLS = 4_000_000
"""Pairs of caption and reference held at once."""


class Pairs(Cosines):
    """All readings that take a mean, a maximum or a sample over single references."""

    def __init__(
        self, placed: Placed, style: Ints, copies: Ints, reading: Reading, copy_of: Ints, seed: int = 0
    ) -> None:
        super().__init__(placed, style, copies, reading)
        self.copy_of, self.random = copy_of, np.random.default_rng(seed)

    def scores(self, tested: npt.NDArray[np.bool_]) -> Iterator[Scored]:
        """Captions under test, a block at a time, with their similarities to all styles."""
        present = np.flatnonzero(self.sizes).tolist()
        for style in present:
            captions = np.arange(self.bounds[style], self.bounds[style + 1])
            captions = captions[tested[captions]]
            for start, end in blocks(len(captions), max(1, CELLS // self.placed.captions)):
                block = captions[start:end]
                columns = np.full((len(block), self.styles), np.nan)
                whole = self.matrix(block, style, style)
                for other in present:
                    part = slice(self.bounds[other], self.bounds[other + 1])
                    found = whole
                    if self.reading.weights != "style" and other != style:
                        found = self.matrix(block, style if self.reading.weights == "own" else other, other)
                    columns[:, other] = self.reduced(found[:, part], block, np.arange(part.start, part.stop))
                yield block, columns

    def matrix(self, block: Ints, style: int, other: int) -> Floats:
        """Similarities of a block of captions, under the weights of one style, to all captions under another's."""
        total = np.zeros((len(block), self.placed.captions))
        position = np.full(self.placed.captions, -1)
        position[block] = np.arange(len(block))
        for order in self.orders:
            ours, grams = self.view(order, style), order.rows.grams
            theirs = ours if other == style else self.view(order, other)
            own = np.flatnonzero(position[grams.caption] >= 0)
            gram, caption = grams.gram[own], grams.caption[own]
            reached, fanout = runs(order.rows.first, gram)
            count, wanted = np.repeat(order.amount[own], fanout), order.amount[reached]
            product = (np.minimum(count, wanted) if self.reading.clip else count) * wanted
            product *= np.repeat(ours.weights[gram] * theirs.weights[gram] * ours.inverse[caption], fanout)
            product *= theirs.inverse[grams.caption[reached]]
            key = np.repeat(position[caption], fanout) * total.shape[1] + grams.caption[reached]
            total += added(key, product, total.size).reshape(total.shape)
        if self.reading.length_penalty:
            bigrams = np.maximum(self.placed.table.lengths - 1, 0)
            total *= np.exp(-np.square(bigrams[block][:, None] - bigrams[None, :]) / (2 * SIGMA**2))
        return total / ORDERS

    def reduced(self, found: Floats, block: Ints, references: Ints) -> Floats:
        """One value per caption from its similarities to the references of a style."""
        usable = np.ones(found.shape, dtype=np.bool_)
        if self.reading.itself == "drop":
            usable = self.copy_of[block][:, None] != self.copy_of[references][None, :]
        if self.reading.sampled:
            order = np.argsort(np.where(usable, self.random.random(found.shape), 2.0), axis=1)
            drawn = np.zeros_like(usable)
            np.put_along_axis(drawn, order[:, : self.reading.sampled], True, axis=1)
            usable &= drawn
        number = usable.sum(axis=1)
        if self.reading.references == "max":
            best = np.where(usable, found, -np.inf).max(axis=1)
        else:
            best = np.where(usable, found, 0.0).sum(axis=1) / np.maximum(number, 1)
        return np.where(number > 0, best, np.nan)
