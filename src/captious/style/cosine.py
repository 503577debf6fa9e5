"""Mean StyleCIDEr of every caption to all captions of every style, without looking at pairs.

The mean cosine to a set of references is the product of the caption's unit vector with the mean of theirs. Under the
weights of a style p that is one sum per (n-gram, reference style), and n-grams that neither occur in p nor in the
captions under test touch nothing but the lengths of vectors, where they enter through a sum that all styles share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captious.measurement import Floats
from captious.style.cng import ORDERS
from captious.style.placed import Placed, Rows, added, runs
from captious.style.reading import Reading
from captious.text.tables import Ints

Scored = tuple[Ints, Floats]
"""Captions, and their similarity to the references of each style (columns); NaN where there are no references."""


class _Order(NamedTuple):
    rows: Rows
    amount: npt.NDArray[np.float64]
    style: Ints
    """Of each entry (n-gram, style of captions here), the style; entries are sorted."""
    gram: npt.NDArray[np.int32]
    heads: Ints
    """Entry ``e`` has the rows ``heads[e]`` up to ``heads[e + 1]``."""
    first: Ints
    """N-gram ``g`` has the entries ``first[g]`` up to ``first[g + 1]``."""
    known: Ints
    """Of each caption, how many of its n-grams the model knows."""
    shared: Floats
    """Of each caption, the squared length of its vector if none of its n-grams occurred in the style."""


class _View(NamedTuple):
    """An order under the weights of a style: only the n-grams that matter, and their rows."""

    weights: Floats
    chosen: Ints
    at: Ints
    values: Floats
    """Of each row, count times weight."""
    inverse: Floats
    """Of each caption, one over the length of its vector; 0 for a vector without length."""


class Cosines:
    """Captions in the order of their styles, placed in a model; ``copies`` says how often each one's row occurs."""

    def __init__(self, placed: Placed, style: Ints, copies: Ints, reading: Reading) -> None:
        self.placed, self.style, self.copies, self.reading = placed, style, copies, reading
        self.styles = len(placed.model.styles)
        self.bounds = np.searchsorted(style, np.arange(self.styles + 1))
        self.sizes = np.diff(self.bounds)
        self.orders = [self._order(rows) for rows in placed.orders]

    def _order(self, rows: Rows) -> _Order:
        grams, captions = rows.grams, self.placed.captions
        amount = grams.count.astype(np.float64) if self.reading.tf else np.ones(len(grams.count))
        style = self.style[grams.caption]
        new = np.ones(len(style), dtype=np.bool_)
        new[1:] = (grams.gram[1:] != grams.gram[:-1]) | (style[1:] != style[:-1])
        heads = np.flatnonzero(new)
        gram = grams.gram[heads]
        known = added(grams.caption, rows.located[grams.gram] >= 0, captions).astype(np.int64)
        shared = np.zeros(captions)
        if self.reading.negative == "signed":
            shared = added(grams.caption, np.square(amount * rows.base[grams.gram]), captions)
        first = np.searchsorted(gram, np.arange(grams.size + 1))
        return _Order(rows, amount, style[heads], gram, np.append(heads, len(style)), first, known, shared)

    def scores(self, tested: npt.NDArray[np.bool_]) -> Iterator[Scored]:
        """Captions under test, a style at a time, with their similarities to all styles."""
        if self.reading.weights == "reference":
            columns = np.full((self.placed.captions, self.styles), np.nan)
            for style in np.flatnonzero(self.sizes).tolist():
                columns[:, style] = self._column(style)
            yield np.flatnonzero(tested), columns[tested]
            return
        for style in np.flatnonzero(self.sizes).tolist():
            captions = np.arange(self.bounds[style], self.bounds[style + 1])
            captions = captions[tested[captions]]
            if len(captions):
                yield captions, self._block(style)[captions - self.bounds[style]]

    def view(self, order: _Order, style: int) -> _View:
        """The n-grams that occur in a style of the model or in its captions here."""
        rows = order.rows
        weights, in_style = self.placed.weights(rows, style)
        if self.reading.negative == "zero":
            weights = np.maximum(weights, 0.0)
        matters = np.zeros(rows.grams.size, dtype=np.bool_)
        matters[in_style] = True
        matters[order.gram[order.style == style]] = True
        chosen = np.flatnonzero(matters)
        at, _ = runs(rows.first, chosen)
        gram, caption, amount = rows.grams.gram[at], rows.grams.caption[at], order.amount[at]
        values = amount * weights[gram]
        squares = added(caption, np.square(values), self.placed.captions)
        if self.reading.negative == "signed":
            # A caption without n-grams outside of the chosen ones must not inherit the rounding of a difference.
            inside = added(caption, rows.located[gram] >= 0, self.placed.captions)
            outside = order.shared - added(caption, np.square(amount * rows.base[gram]), self.placed.captions)
            squares += np.where(order.known > inside, outside, 0.0)
        lengths = np.sqrt(squares)
        return _View(weights, chosen, at, values, np.divide(1.0, lengths, np.zeros_like(lengths), where=lengths > 0))

    def _column(self, style: int) -> Floats:
        """Of all captions, the mean similarity to the captions of one style under that style's weights."""
        total = np.zeros(self.placed.captions)
        mine = self.style == style
        for order in self.orders:
            _, _, at, values, inverse = self.view(order, style)
            gram, caption = order.rows.grams.gram[at], order.rows.grams.caption[at]
            units = values * inverse[caption]
            sums = added(gram, units * mine[caption], order.rows.grams.size)
            dots = added(caption, units * sums[gram], self.placed.captions)
            total += self.mean(dots, self.sizes[style], self.copies * mine, inverse)
        return total / ORDERS

    def _block(self, style: int) -> Floats:
        """Of the captions of one style, the similarity to all styles under that style's weights."""
        start, end = int(self.bounds[style]), int(self.bounds[style + 1])
        total = np.zeros((end - start, self.styles))
        for order in self.orders:
            view = self.view(order, style)
            caption = order.rows.grams.caption[view.at]
            units = view.values * view.inverse[caption]
            entry, entries = runs(order.first, view.chosen)
            first = np.concatenate(([0], np.cumsum(entries)))
            lengths = order.heads[entry + 1] - order.heads[entry]
            sums = summed(self.reference_values(view, units), lengths)
            own = np.flatnonzero((caption >= start) & (caption < end))
            place = np.repeat(np.arange(len(view.chosen)), summed(lengths, entries))[own]
            reached, fanout = runs(first, place)
            key = np.repeat(caption[own] - start, fanout).astype(np.int64) * self.styles + order.style[entry[reached]]
            dots = added(key, np.repeat(units[own], fanout) * sums[reached], total.size).reshape(total.shape)
            total += self.similarities(order, view, dots, style)
        return total / ORDERS

    def reference_values(self, view: _View, units: Floats) -> Floats:
        """What is summed over the references of a style: unit vectors."""
        return units

    def similarities(self, order: _Order, view: _View, dots: Floats, style: int) -> Floats:
        """Mean cosines from sums of cosines."""
        start, end = self.bounds[style], self.bounds[style + 1]
        means = dots / np.where(self.sizes > 0, self.sizes, np.nan)
        means[:, style] = self.mean(dots[:, style], end - start, self.copies[start:end], view.inverse[start:end])
        return means

    def mean(self, dots: Floats, size: int, copies: Ints, inverse: Floats) -> Floats:
        """Sums of cosines over their number, without the cosine of 1 that a caption has to its copies."""
        if self.reading.itself == "keep":
            return dots / size
        number = size - copies
        return np.divide(dots - copies * (inverse > 0), number, out=np.full_like(dots, np.nan), where=number > 0)


def summed(values: npt.NDArray[Any], lengths: Ints) -> npt.NDArray[Any]:
    """Sums of consecutive runs, none of them empty."""
    return np.add.reduceat(values, np.cumsum(lengths) - lengths) if len(lengths) else values[:0]
