"""StyleM (Li & Harrison 2022): our values beside its Table 1, and its StyleCIDEr column under every reading we know.

    python lab/reproductions/onlystyle.py ../shared/data/style/flickrstyle.jsonl               # Table 1, Flickr7k rows
    python lab/reproductions/onlystyle.py ../shared/data/style/flickrstyle.jsonl --readings    # some minutes
    python lab/reproductions/onlystyle.py CORPUS --rankings rankings.jsonl                     # Table 4, with people

No code of the authors is public, and equation 10 leaves open which references a caption is compared with, under whose
weights, and whether it stands among them itself. None of the readings gives the published StyleCIDEr. The rankings of
Table 4 are not public either: rows of style, caption, rank and rater are what ``--rankings`` takes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from captious._core.types import Bools, Floats, Ints, Ints32
from captious.errors import InputError
from captious.metrics.style.model import ORDERS
from captious.metrics.style.onlystyle import ModelNgrams, StyledNgrams, expand_runs, sum_by_key
from captious.metrics.style.stylecider import SIGMA
from captious.options import Resampling
from captious.probes.rankings import correlate
from captious.probes.style_check import StyledCaptions, compute_shares_below, read_styled

# OnlyStyle and StyleCIDEr: the share of captions that score higher under their own style.
TABLE_1 = {"flickrstyle": (0.9994, 0.9032), "PERSONALITY-CAPTIONS": (0.9775, 0.9484)}
# Pearson and Spearman of OnlyStyle with the most common ranking of three captions, of 96 raters.
TABLE_4 = {
    "Abrasive": (0.874, 1.0),
    "Happy": (0.017, 0.5),
    "Gloomy": (0.878, 1.0),
    "Curious": (0.053, 0.5),
    "Angry": (0.875, 1.0),
    "Fearful": (0.039, 0.5),
}


class Reading(NamedTuple):
    """One reading of StyleCIDEr in Table 1; the defaults are the literal, unpenalized, leave-one-out mean.

    >>> str(Reading()), str(Reading(references="pooled", itself="keep"))
    ('default', 'references=pooled, itself=keep')
    """

    references: Literal["mean", "max", "pooled"] = "mean"
    """The mean or the highest similarity over references, or the similarity to all of them joined into one text."""
    itself: Literal["drop", "keep"] = "drop"
    """Whether a caption stands among the references of its own style."""
    weights: Literal["style", "reference", "own"] = "style"
    """Whose scores weigh the captions: the style under test or that of the references for both, or each its own."""
    negative: Literal["signed", "zero"] = "signed"
    """N-grams that speak against the style keep their weight, or lose it."""
    tf: bool = False
    """Weigh an n-gram by its count in the caption."""
    clip: bool = False
    """CIDEr-D's clipping: a count above the reference's does not help. It matters with tf only."""
    length_penalty: bool = False
    """CIDEr-D's Gaussian penalty on differing lengths."""
    sampled: int = 0
    """So many references drawn at random from each style instead of all."""

    @property
    def is_linear(self) -> bool:
        """Whether the mean over references can be had from one summed vector, without looking at pairs."""
        pairwise = self.references == "max" or self.weights == "own" or self.clip or self.length_penalty
        return not (pairwise or self.sampled)

    def checked(self) -> Reading:
        """The reading itself, if its parts go together."""
        if self.references == "pooled" and (
            self.clip or self.length_penalty or self.sampled or self.weights != "style"
        ):
            raise InputError(
                f"{self}: pooled references go with itself, negative and tf only, not with clip, length_penalty, "
                "sampled or other weights"
            )
        return self

    def __str__(self) -> str:
        default = Reading._field_defaults
        changed = {name: value for name, value in self._asdict().items() if value != default[name]}
        shown = (f"{name}={'yes' if value is True else value}" for name, value in changed.items())
        return ", ".join(shown) or "default"


DEFAULT = Reading()

# What ``--readings`` tries.
READINGS = (
    DEFAULT,
    Reading(itself="keep"),
    Reading(references="pooled"),
    Reading(references="pooled", itself="keep"),
    Reading(references="max"),
    Reading(tf=True),
    Reading(tf=True, clip=True),
    Reading(length_penalty=True),
    Reading(length_penalty=True, itself="keep"),
    Reading(tf=True, clip=True, length_penalty=True),
    Reading(tf=True, clip=True, length_penalty=True, itself="keep"),
    Reading(negative="zero"),
    Reading(negative="zero", itself="keep"),
    Reading(weights="reference"),
    Reading(weights="reference", negative="zero"),
    Reading(weights="reference", negative="zero", itself="keep"),
    Reading(sampled=1),
    Reading(sampled=5),
    Reading(sampled=50),
    Reading(weights="own"),
    Reading(weights="own", sampled=1),
    Reading(weights="own", sampled=2),
)


# Captions, and their similarity to the references of each style (columns); NaN where there are no references.
Scored = tuple[Ints, Floats]


class _Order(NamedTuple):
    rows: StyledNgrams
    amount: Floats
    style: Ints
    """Of each entry (n-gram, style of captions here), the style; entries are sorted."""
    gram: Ints32
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
    """Captions in the order of their styles; ``copies`` says how often each one's row occurs."""

    def __init__(self, ngrams: ModelNgrams, style: Ints, copies: Ints, reading: Reading) -> None:
        self.ngrams, self.style, self.copies, self.reading = ngrams, style, copies, reading
        self.styles = len(ngrams.model.styles)
        self.bounds = np.searchsorted(style, np.arange(self.styles + 1))
        self.sizes = np.diff(self.bounds)
        self.orders = [self._order(rows) for rows in ngrams.orders]

    def _order(self, rows: StyledNgrams) -> _Order:
        grams, captions = rows.grams, self.ngrams.captions
        amount = grams.count.astype(np.float64) if self.reading.tf else np.ones(len(grams.count))
        style = self.style[grams.caption]
        new = np.ones(len(style), dtype=np.bool_)
        new[1:] = (grams.gram[1:] != grams.gram[:-1]) | (style[1:] != style[:-1])
        heads = np.flatnonzero(new)
        gram = grams.gram[heads]
        known = sum_by_key(grams.caption, rows.located[grams.gram] >= 0, captions).astype(np.int64)
        shared = np.zeros(captions)
        if self.reading.negative == "signed":
            shared = sum_by_key(grams.caption, np.square(amount * rows.base[grams.gram]), captions)
        first = np.searchsorted(gram, np.arange(grams.size + 1))
        return _Order(rows, amount, style[heads], gram, np.append(heads, len(style)), first, known, shared)

    def scores(self, tested: Bools) -> Iterator[Scored]:
        """Captions under test, a style at a time, with their similarities to all styles."""
        if self.reading.weights == "reference":
            columns = np.full((self.ngrams.captions, self.styles), np.nan)
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
        weights, in_style = self.ngrams.weights(rows, style)
        if self.reading.negative == "zero":
            weights = np.maximum(weights, 0.0)
        matters = np.zeros(rows.grams.size, dtype=np.bool_)
        matters[in_style] = True
        matters[order.gram[order.style == style]] = True
        chosen = np.flatnonzero(matters)
        at, _ = expand_runs(rows.first, chosen)
        gram, caption, amount = rows.grams.gram[at], rows.grams.caption[at], order.amount[at]
        values = amount * weights[gram]
        squares = sum_by_key(caption, np.square(values), self.ngrams.captions)
        if self.reading.negative == "signed":
            # A caption without n-grams outside of the chosen ones must not inherit the rounding of a difference.
            inside = sum_by_key(caption, rows.located[gram] >= 0, self.ngrams.captions)
            outside = order.shared - sum_by_key(caption, np.square(amount * rows.base[gram]), self.ngrams.captions)
            squares += np.where(order.known > inside, outside, 0.0)
        lengths = np.sqrt(squares)
        return _View(weights, chosen, at, values, np.divide(1.0, lengths, np.zeros_like(lengths), where=lengths > 0))

    def _column(self, style: int) -> Floats:
        """Of all captions, the mean similarity to the captions of one style under that style's weights."""
        total = np.zeros(self.ngrams.captions)
        mine = self.style == style
        for order in self.orders:
            _, _, at, values, inverse = self.view(order, style)
            gram, caption = order.rows.grams.gram[at], order.rows.grams.caption[at]
            units = values * inverse[caption]
            sums = sum_by_key(gram, units * mine[caption], order.rows.grams.size)
            dots = sum_by_key(caption, units * sums[gram], self.ngrams.captions)
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
            entry, entries = expand_runs(order.first, view.chosen)
            first = np.concatenate(([0], np.cumsum(entries)))
            lengths = order.heads[entry + 1] - order.heads[entry]
            sums = summed(self.reference_values(view, units), lengths)
            own = np.flatnonzero((caption >= start) & (caption < end))
            place = np.repeat(np.arange(len(view.chosen)), summed(lengths, entries))[own]
            reached, fanout = expand_runs(first, place)
            key = np.repeat(caption[own] - start, fanout).astype(np.int64) * self.styles + order.style[entry[reached]]
            dots = sum_by_key(key, np.repeat(units[own], fanout) * sums[reached], total.size).reshape(total.shape)
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


# Pairs of caption and reference held at once.
CELLS = 4_000_000


class Pairs(Cosines):
    """All readings that take a mean, a maximum or a sample over single references."""

    def __init__(
        self, ngrams: ModelNgrams, style: Ints, copies: Ints, reading: Reading, copy_of: Ints, seed: int = 0
    ) -> None:
        super().__init__(ngrams, style, copies, reading)
        self.copy_of, self.random = copy_of, np.random.default_rng(seed)

    def scores(self, tested: Bools) -> Iterator[Scored]:
        """Captions under test, a block at a time, with their similarities to all styles."""
        present = np.flatnonzero(self.sizes).tolist()
        for style in present:
            captions = np.arange(self.bounds[style], self.bounds[style + 1])
            captions = captions[tested[captions]]
            width = max(1, CELLS // self.ngrams.captions)
            for start in range(0, len(captions), width):
                block = captions[start : start + width]
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
        total = np.zeros((len(block), self.ngrams.captions))
        position = np.full(self.ngrams.captions, -1)
        position[block] = np.arange(len(block))
        for order in self.orders:
            ours, grams = self.view(order, style), order.rows.grams
            theirs = ours if other == style else self.view(order, other)
            own = np.flatnonzero(position[grams.caption] >= 0)
            gram, caption = grams.gram[own], grams.caption[own]
            reached, fanout = expand_runs(order.rows.first, gram)
            count, wanted = np.repeat(order.amount[own], fanout), order.amount[reached]
            product = (np.minimum(count, wanted) if self.reading.clip else count) * wanted
            product *= np.repeat(ours.weights[gram] * theirs.weights[gram] * ours.inverse[caption], fanout)
            product *= theirs.inverse[grams.caption[reached]]
            key = np.repeat(position[caption], fanout) * total.shape[1] + grams.caption[reached]
            total += sum_by_key(key, product, total.size).reshape(total.shape)
        if self.reading.length_penalty:
            bigrams = np.maximum(self.ngrams.table.lengths - 1, 0)
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


class Pooled(Cosines):
    """The vector of a style is the sum of its captions' vectors, its length taken after summing."""

    def reference_values(self, view: _View, units: Floats) -> Floats:
        """Vectors as they are, long ones counting for more."""
        return view.values

    def similarities(self, order: _Order, view: _View, dots: Floats, style: int) -> Floats:
        """Products with the joined vectors over their lengths; a caption's own part is taken out first."""
        counts = summed(order.amount, np.diff(order.heads))
        vectors = counts * view.weights[order.gram]
        squares = sum_by_key(order.style, np.square(vectors), self.styles)
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
        left = squares[style] + sum_by_key(caption[own] - start, change, end - start)
        left = np.where(left > 1e-12 * squares[style], left, 0.0)
        inverse = view.inverse[start:end]
        remaining = dots[:, style] - copies * np.divide(1.0, inverse, out=np.zeros_like(inverse), where=inverse > 0)
        value = np.divide(remaining, np.sqrt(left), out=np.zeros_like(left), where=left > 0)
        result[:, style] = np.where(end - start - copies > 0, value, np.nan)
        return result


def stylecider(check: StyledCaptions, reading: Reading = DEFAULT, seed: int = 0) -> Floats:
    """Equation 10 under a reading, for every caption under test; NaN where it has no references."""
    prepared = (check.ngrams, check.style, check.copies, reading.checked())
    if not reading.is_linear:
        cosines: Cosines = Pairs(*prepared, copy_of=check.copy_of, seed=seed)
    else:
        cosines = (Pooled if reading.references == "pooled" else Cosines)(*prepared)
    wins = np.full(len(check.style), np.nan)
    for captions, scores in cosines.scores(check.tested):
        wins[captions] = compute_shares_below(scores, check.style[captions])
    return wins[check.tested]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="styled captions, such as flickrstyle.jsonl")
    parser.add_argument("--readings", action="store_true", help="StyleCIDEr under every reading")
    parser.add_argument("--sample", type=int, default=0, help="test so many captions, drawn at random")
    parser.add_argument("--rankings", help="rows of style, caption, rank (1 the worst), and maybe rater")
    args = parser.parse_args()
    captions = StyledCaptions.of(None, read_styled(args.corpus), args.sample)
    published = next((values for name, values in TABLE_1.items() if name in args.corpus), (float("nan"),) * 2)
    print(f"Table 1: {int(captions.tested.sum()):,} captions, {len(captions.model.styles)} styles")
    print(f"{'':60}{'ours':>8}{'published':>11}")
    print(f"{'OnlyStyle':60}{captions.retrieval().value:8.4f}{published[0]:11.4f}")
    for reading in READINGS if args.readings else (DEFAULT,):
        value = float(np.nanmean(stylecider(captions, reading, Resampling.seed)))
        print(f"{f'StyleCIDEr, {reading}':60}{value:8.4f}{published[1]:11.4f}", flush=True)
    if args.rankings:
        print("Table 4: Pearson and Spearman with the most common ranking")
        for row in correlate(captions.model, args.rankings).styles:
            theirs = TABLE_4.get(row.style, (float("nan"),) * 2)
            ours = f"{row.pearson:8.3f}{row.spearman:8.3f}"
            print(f"{row.style:20}{ours}   published{theirs[0]:8.3f}{theirs[1]:8.3f}")


if __name__ == "__main__":
    sys.exit(main())
