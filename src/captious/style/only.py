"""OnlyStyle: the mean contrastive score of a caption's n-grams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from captious.measurement import Floats
from captious.style.cng import ORDERS, Whole
from captious.style.placed import Placed, Rows, added, runs


class OnlyReading(NamedTuple):
    """How to read equations 5 and 6 where the paper leaves a choice; the defaults are the literal reading."""

    grams: Literal["set", "multiset"] = "set"
    """Whether an n-gram that a caption repeats counts once or as often as it stands there."""
    unseen: Literal["zero", "skip"] = "zero"
    """An n-gram that no style has: score 0 and still counted, or left out of the mean."""
    short: Literal["zero", "skip"] = "zero"
    """An order without n-grams: 0 and still counted among the four, or left out of the mean over orders."""


LITERAL = OnlyReading()


def own_scores(placed: Placed, style: Whole, reading: OnlyReading = LITERAL) -> Floats:
    """OnlyStyle of each caption under one style of its own; NaN where nothing is left to average."""
    parts = _Parts(placed, reading)
    for rows in placed.orders:
        grams = rows.grams
        score = placed.model.scores_under(rows.n, rows.located[grams.gram], style[grams.caption])
        amount = parts.amounts[rows.n - 1]
        parts.add(rows, added(grams.caption, score * amount, placed.captions))
    return parts.mean()


def all_scores(placed: Placed, reading: OnlyReading = LITERAL) -> Floats:
    """OnlyStyle of each caption (rows) under each style of the model (columns).

    >>> from captious.style.count import fit
    >>> placed = Placed.of(fit([("gloomy", "a grey day"), ("happy", "a fine day")]), ["fine day"])
    >>> all_scores(placed).tolist()  # happy: ¼ · ((½ + 0)/2 + ½ + 0 + 0)
    [[-0.1875, 0.1875]]
    """
    return np.stack(list(columns(placed, reading)), axis=1)


def columns(placed: Placed, reading: OnlyReading = LITERAL) -> Iterator[Floats]:
    """OnlyStyle of all captions under one style after the other."""
    parts = _Parts(placed, reading)
    shared = [added(r.grams.caption, r.base[r.grams.gram] * a, placed.captions) for r, a in parts.pairs()]
    for style in range(len(placed.model.styles)):
        column = _Parts(placed, reading, parts.amounts, parts.sizes)
        for rows, amount, base in zip(placed.orders, parts.amounts, shared, strict=True):
            # Only n-grams that occur in the style differ from what all styles share.
            part = slice(rows.of_style[style], rows.of_style[style + 1])
            at, lengths = runs(rows.first, rows.here[part])
            share = np.repeat(placed.model.scores[rows.n - 1].share[rows.mine[part]], lengths)
            total = added(rows.grams.caption[at], share * amount[at], placed.captions)
            column.add(rows, total - base)
        yield column.mean()


class _Parts:
    """Sums over orders, with the sizes that divide them."""

    def __init__(
        self,
        placed: Placed,
        reading: OnlyReading,
        amounts: list[Whole] | None = None,
        sizes: list[Floats] | None = None,
    ) -> None:
        self.placed, self.reading = placed, reading
        self.amounts = amounts or [self._amount(rows) for rows in placed.orders]
        self.sizes = sizes or [placed.sizes(rows, amount) for rows, amount in self.pairs()]
        self.total = np.zeros(placed.captions)

    def _amount(self, rows: Rows) -> Whole:
        grams = rows.grams
        amount = grams.count if self.reading.grams == "multiset" else np.ones(len(grams.count), dtype=np.int32)
        return amount * (rows.located[grams.gram] >= 0) if self.reading.unseen == "skip" else amount

    def pairs(self) -> zip[tuple[Rows, Whole]]:
        return zip(self.placed.orders, self.amounts, strict=True)

    def add(self, rows: Rows, sums: Floats) -> None:
        size = self.sizes[rows.n - 1]
        self.total += np.divide(sums, size, out=np.zeros_like(sums), where=size > 0)

    def mean(self) -> Floats:
        defined = np.sum([size > 0 for size in self.sizes], axis=0)
        undefined = defined == 0
        divisor = np.maximum(defined, 1) if self.reading.short == "skip" else ORDERS
        if self.reading.short == "zero":
            undefined &= self.placed.table.lengths > 0
        result: Floats = np.where(undefined, np.nan, self.total / divisor)
        return result
