"""StyleCIDEr: how alike a caption and its references are in the words that bear a style."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from captious._typing import Floats, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.contract import Need, Scored, Shared
from captious.metrics.style.model import ORDERS, StyleModel, Whole
from captious.metrics.style.onlystyle import StyleMetric, added, runs, table_for
from captious.text.tables import TextTable

SIGMA = 6.0
"""Of the Gaussian length penalty, as in CIDEr-D."""


@dataclass(frozen=True)
class StyleCider(StyleMetric):
    """StyleCIDEr: CIDEr's cosine with the contrastive score (CNG) of an n-gram in place of tf-idf.

    With g_n(c) the vector of CNG_p(t) over the n-grams t of caption c, p the style of the item::

        StyleCIDEr(c, r) = ¼ Σ over n of  g_n(c)·g_n(r) / (‖g_n(c)‖ ‖g_n(r)‖)

    averaged over references as in CIDEr. It lies between 0 and 1: both vectors carry the same weights, so a shared
    n-gram adds a square. An order in which a vector has no length gives 0 (``short=skip`` averages over the orders in
    which the candidate's vector has length, so that an identical caption of any length gets 1). No code of the authors
    is public; the equations show a plain cosine, and what CIDEr-D adds are options: counts (``tf``), clipping
    (``clip``, of counts, so with ``tf`` only), the Gaussian ``length_penalty`` (σ = 6, on bigram counts as in
    coco-caption), ``scale=10``. ``negative=zero`` drops n-grams that speak against the style; ``references`` takes the
    ``max`` over references, or joins them into one text (``pooled``).

    >>> import tempfile
    >>> from captious.metrics import fit_style, save_style
    >>> path = tempfile.mkdtemp() + "/tiny.style"
    >>> save_style(fit_style([("gloomy", "a grey day"), ("happy", "a fine day")]), path)
    >>> captions = CaptionSet.of({"1": "fine day"}, {"1": ["a fine day"]}, {"style": ["happy"]})
    >>> round(StyleCider(model=path).measure(captions).corpus, 6)  # ¼ · (1 + 1/√2 + 0 + 0)
    0.426777
    """

    references: Literal["mean", "max", "pooled"] = "mean"
    negative: Literal["signed", "zero"] = "signed"
    tf: bool = False
    clip: bool = False
    length_penalty: bool = False
    short: Literal["zero", "skip"] = "zero"
    scale: float = 1.0

    name: ClassVar[str] = "stylecider"
    title: ClassVar[str] = "StyleCIDEr"
    needs: ClassVar[tuple[Need, ...]] = ("style", "references")
    undefined_reason: ClassVar[str] = "no n-gram of the caption bears on the style"

    def __post_init__(self) -> None:
        if self.references == "pooled" and (self.clip or self.length_penalty):
            raise InputError(f"{self}: pooled references have no single length or count to compare with")
        if self.scale <= 0:
            raise InputError(f"{self}: expected a scale above 0")

    @property
    def range(self) -> tuple[float, float]:
        """From 0 to the scale."""
        return (0.0, self.scale)

    def score_items(self, captions: CaptionSet, state: Shared[StyleModel]) -> Scored:
        """Rows: the sum of the candidates' values, and their number."""
        model = state.value
        table = table_for(captions, model)
        style = self.style_numbers(captions, model)[table.item]
        located = model.locate(table)
        left, right = table.pairs
        cosines, defined = np.zeros(len(left)), np.zeros(len(table.lengths))
        for n in range(1, ORDERS + 1):
            grams = table.ngrams(n)
            weights = model.scores_under(n, located[n - 1][grams.gram], style[grams.caption])
            cosine, length = self._order(table, n, weights)
            cosines += cosine
            defined += length > 0
        if self.length_penalty:
            bigrams = np.maximum(table.lengths - 1, 0)
            cosines *= np.exp(-np.square(bigrams[left] - bigrams[right]) / (2 * SIGMA**2))
        orders = defined if self.short == "skip" else np.full(len(defined), float(ORDERS))
        total = self._over_references(table, left, cosines)
        values = np.divide(self.scale * total, orders, out=np.full(len(total), np.nan), where=orders > 0)
        return self.scored(captions, table, values)

    def _order(self, table: TextTable, n: int, weights: Floats) -> tuple[Floats, Floats]:
        """Of each pair of candidate and reference its cosine, and of each caption the length of its vector."""
        grams = table.ngrams(n)
        if self.negative == "zero":
            weights = np.maximum(weights, 0.0)
        amount = grams.count.astype(np.float64) if self.tf else np.ones(len(grams.count))
        captions, caption = len(table.lengths), grams.caption
        length = np.sqrt(added(caption, np.square(amount * weights), captions))
        ours, theirs = _meetings(table, n)
        if self.references == "pooled":
            return self._joined(table, n, weights, amount, length, (ours, theirs)), length
        met = np.minimum(amount[ours], amount[theirs]) if self.clip else amount[ours]
        product = met * amount[theirs] * weights[ours] * weights[theirs]
        pair = _pair_numbers(table, caption[ours], caption[theirs])
        left, right = table.pairs
        dot, lengths = added(pair, product, len(left)), length[left] * length[right]
        return np.divide(dot, lengths, out=np.zeros_like(dot), where=lengths > 0), length

    def _joined(
        self, table: TextTable, n: int, weights: Floats, amount: Floats, length: Floats, meetings: tuple[Ints, Ints]
    ) -> Floats:
        """As `_order`, the cosine to all references of the item joined, told once for each of them."""
        grams, (ours, theirs) = table.ngrams(n), meetings
        reference = np.flatnonzero(grams.reference_row)
        sums = added(grams.group[reference], (amount * weights)[reference], len(grams.heads))
        item = table.item[grams.caption[grams.heads]]
        joined = np.sqrt(added(item, np.square(sums), table.items))
        product = amount[ours] * weights[ours] * amount[theirs] * weights[theirs]
        dot = added(grams.caption[ours], product, len(table.lengths))
        left, _ = table.pairs
        lengths = (length * joined[table.item])[left]
        return np.divide(dot[left], lengths, out=np.zeros(len(left)), where=lengths > 0)

    def _over_references(self, table: TextTable, left: Ints, values: Floats) -> Floats:
        if self.references == "max":
            best = np.zeros(len(table.lengths))
            np.maximum.at(best, left, values)
            return best
        number = np.bincount(left, minlength=len(table.lengths))
        return added(left, values, len(table.lengths)) / np.maximum(number, 1)


def _meetings(table: TextTable, n: int) -> tuple[Ints, Ints]:
    """Rows of candidates and rows of references of the same item that hold the same n-gram."""
    grams = table.ngrams(n)
    candidates = np.flatnonzero(~grams.reference_row)
    ends = np.append(grams.heads, len(grams.gram))
    own = np.bincount(grams.group[candidates], minlength=len(grams.heads))
    bounds = np.stack([ends[:-1] + own, ends[1:]], axis=1).ravel()
    theirs, fanout = runs(np.append(bounds, len(grams.gram)), 2 * grams.group[candidates].astype(np.int64))
    return np.repeat(candidates, fanout), theirs


def _pair_numbers(table: TextTable, candidate: Whole, reference: Whole) -> Ints:
    """Where a candidate and a reference of its item stand among the pairs of the table."""
    left, right = table.pairs
    first = np.searchsorted(left, np.arange(len(table.lengths)))
    start = right[np.minimum(first, max(len(right) - 1, 0))] if len(right) else first
    result: Ints = first[candidate] + reference - start[candidate]
    return result
