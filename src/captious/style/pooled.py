"""StyleCIDEr of every caption to each style's captions joined into one long text."""

from __future__ import annotations

import numpy as np

from captious.measurement import Floats
from captious.style.cosine import Cosines, _Order, _View, summed
from captious.style.placed import added


class Pooled(Cosines):
    """The vector of a style is the sum of its captions' vectors, its length taken after summing."""

    def reference_values(self, view: _View, units: Floats) -> Floats:
        """Vectors as they are, long ones counting for more."""
        return view.values

    def similarities(self, order: _Order, view: _View, dots: Floats, style: int) -> Floats:
        """Products with the joined vectors over their lengths; a caption's own part is taken out first."""
        counts = summed(order.amount, np.diff(order.heads))
        vectors = counts * view.weights[order.gram]
        squares = added(order.style, np.square(vectors), self.styles)
        lengths = np.sqrt(squares)
        result = np.where(lengths > 0, dots / np.where(lengths > 0, lengths, 1.0), 0.0)
        result[:, self.sizes == 0] = np.nan
        if self.reading.itself == "keep":
            return result
        start, end = int(self.bounds[style]), int(self.bounds[style + 1])
        caption = order.rows.grams.caption[view.at]
        own = np.flatnonzero((caption >= start) & (caption < end))
        row = view.at[own]
        entry = np.searchsorted(order.heads, row, side="right") - 1
        copies = self.copies[start:end]
        rest = counts[entry] - copies[caption[own] - start] * order.amount[row]
        change = (np.square(rest) - np.square(counts[entry])) * np.square(view.weights[order.gram[entry]])
        left = squares[style] + added(caption[own] - start, change, end - start)
        left = np.where(left > 1e-12 * squares[style], left, 0.0)
        inverse = view.inverse[start:end]
        remaining = dots[:, style] - copies * np.divide(1.0, inverse, out=np.zeros_like(inverse), where=inverse > 0)
        value = np.divide(remaining, np.sqrt(left), out=np.zeros_like(left), where=left > 0)
        result[:, style] = np.where(end - start - copies > 0, value, np.nan)
        return result
