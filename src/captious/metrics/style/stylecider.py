"""StyleCIDEr: similarity of a caption and its references in the words that are typical of a style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from captious._core.types import Floats, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.contract import Need, Shared
from captious.metrics.explanation import Breakdown, Contribution, MarkedText
from captious.metrics.statistic_rows import Scored
from captious.metrics.style.model import ORDERS, AnyInts, StyleModel
from captious.metrics.style.onlystyle import StyleMetric, expand_runs, sum_by_key, tokenize_captions
from captious.render import Column
from captious.text.ngram_tables import TextTable

# The width of the Gaussian length penalty, as in CIDEr-D.
SIGMA = 6.0


@dataclass(frozen=True)
class StyleCider(StyleMetric):
    """StyleCIDEr: CIDEr's cosine with the contrastive score (CNG) of an n-gram in place of tf-idf.

    With g_n(c) the vector of CNG_p(t) over the n-grams t of caption c, p the style of the item::

        StyleCIDEr(c, r) = ¼ Σ over n of  g_n(c)·g_n(r) / (‖g_n(c)‖ ‖g_n(r)‖)

    averaged over references as in CIDEr. It is between 0 and 1: both vectors carry the same weights, so a shared
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
        super().__post_init__()
        if self.references == "pooled" and (self.clip or self.length_penalty):
            raise InputError(f"{self}: pooled references have no single length or count to compare with")
        if self.scale <= 0:
            raise InputError(f"{self}: expected a scale above 0")

    @property
    def range(self) -> tuple[float, float]:
        """The range from 0 to the scale."""
        return (0.0, self.scale)

    def score_items(self, captions: CaptionSet, state: Shared[StyleModel]) -> Scored:
        """Score items. A row is the sum of the candidates' values, and their number."""
        model = state.value
        table = tokenize_captions(captions, model)
        style = self.find_styles(captions, model)[table.item]
        located = model.locate(table)
        left, right, _ = table.pairs
        cosines, defined = np.zeros(len(left)), np.zeros(len(table.lengths))
        for n in range(1, ORDERS + 1):
            grams = table.ngrams(n)
            weights = model.score_ngrams(n, located[n - 1][grams.gram], style[grams.caption])
            cosine, length = self._compute_cosines(table, n, weights)
            cosines += cosine
            defined += length > 0
        if self.length_penalty:
            bigrams = np.maximum(table.lengths - 1, 0)
            cosines *= np.exp(-np.square(bigrams[left] - bigrams[right]) / (2 * SIGMA**2))
        orders = defined if self.short == "skip" else np.full(len(defined), float(ORDERS))
        total = self._reduce_references(table, left, cosines)
        values = np.divide(self.scale * total, orders, out=np.full(len(total), np.nan), where=orders > 0)
        return self.average_rows(captions, table, values)

    def break_down(self, item: CaptionSet, state: Shared[StyleModel]) -> Breakdown:
        """Break the value down by n-grams that a candidate shares with its references."""
        model = state.value
        table = tokenize_captions(item, model)
        style = int(self.find_styles(item, model)[0])
        orders = [self._build_vectors(table, model, n, style) for n in range(1, ORDERS + 1)]
        candidates = table.candidates.tolist()
        parts = []
        for rank, candidate in enumerate(candidates):
            adds: dict[tuple[int, int], float] = {}
            for reference, share in self._weigh_references(table, orders, candidate):
                for n, (weights, _) in enumerate(orders, 1):
                    for gram, amount in _multiply_shared(weights, candidate, reference, self.clip).items():
                        adds[n, gram] = adds.get((n, gram), 0.0) + share[n - 1] * amount
            defined = sum(lengths[candidate] > 0 for _, lengths in orders) if self.short == "skip" else ORDERS
            for (n, gram), amount in adds.items():
                score = orders[n - 1][0][candidate][gram][1]
                details = {"n": n, "score": score}
                value = self.scale * amount / max(defined, 1) / len(candidates)
                parts.append(Contribution(table.ngram(n, gram), value, rank, details))
        over = {"mean": "mean over the references", "max": "highest over the references", "pooled": "of all references"}
        return Breakdown(
            parts,
            columns=[Column("n"), Column("CNG", signed=True, key="score")],
            texts=[
                MarkedText(f"as {model.styles[style]}", table.words(one), table.find_shared_runs(one))
                for one in candidates
            ],
            formula=f"StyleCIDEr = cosine of the CNG vectors, mean over orders, {over[self.references]}",
        )

    def _build_vectors(self, table: TextTable, model: StyleModel, n: int, style: int) -> Order:
        """Return the amount and the CNG of each caption's n-grams, and the length of its vector."""
        cng = model.score_ngrams(n, model.locate(table)[n - 1], np.full(table.ngrams(n).size, style))
        cng = np.maximum(cng, 0.0) if self.negative == "zero" else cng
        vectors = [
            {gram: (float(count) if self.tf else 1.0, float(cng[gram])) for gram, count in counts.items()}
            for counts in table.counts(n)
        ]
        return vectors, [math.sqrt(sum((amount * score) ** 2 for amount, score in one.values())) for one in vectors]

    def _weigh_references(
        self, table: TextTable, orders: Sequence[Order], candidate: int
    ) -> list[tuple[int, list[float]]]:
        """List the references that count, with the factor of a product of weights in the cosine of each order."""
        references = table.references.tolist()
        shares, cosines = [], []
        for reference in references:
            bigrams = np.maximum(table.lengths[[candidate, reference]] - 1, 0)
            penalty = math.exp(-((bigrams[0] - bigrams[1]) ** 2) / (2 * SIGMA**2)) if self.length_penalty else 1.0
            share = []
            for vectors, lengths in orders:
                other = _measure_pooled(vectors, references) if self.references == "pooled" else lengths[reference]
                below = lengths[candidate] * other
                share.append(penalty / below if below else 0.0)
            products = [
                sum(_multiply_shared(vectors, candidate, reference, self.clip).values()) for vectors, _ in orders
            ]
            cosines.append(sum(one * amount for one, amount in zip(share, products, strict=True)))
            shares.append((reference, share))
        if self.references == "max":
            return [shares[int(np.argmax(cosines))]]
        number = 1 if self.references == "pooled" else len(references)
        return [(reference, [one / number for one in share]) for reference, share in shares]

    def _compute_cosines(self, table: TextTable, n: int, weights: Floats) -> tuple[Floats, Floats]:
        """Compute the cosine of each pair of candidate and reference, and the length of each caption's vector."""
        grams = table.ngrams(n)
        if self.negative == "zero":
            weights = np.maximum(weights, 0.0)
        amount = grams.count.astype(np.float64) if self.tf else np.ones(len(grams.count))
        captions, caption = len(table.lengths), grams.caption
        length = np.sqrt(sum_by_key(caption, np.square(amount * weights), captions))
        candidate_rows, reference_rows = _match_rows(table, n)
        if self.references == "pooled":
            return self._compute_pooled_cosines(
                table, n, weights, amount, length, (candidate_rows, reference_rows)
            ), length
        clipped = np.minimum(amount[candidate_rows], amount[reference_rows]) if self.clip else amount[candidate_rows]
        product = clipped * amount[reference_rows] * weights[candidate_rows] * weights[reference_rows]
        pair = _find_pairs(table, caption[candidate_rows], caption[reference_rows])
        left, right, _ = table.pairs
        dot, lengths = sum_by_key(pair, product, len(left)), length[left] * length[right]
        return np.divide(dot, lengths, out=np.zeros_like(dot), where=lengths > 0), length

    def _compute_pooled_cosines(
        self, table: TextTable, n: int, weights: Floats, amount: Floats, length: Floats, row_pairs: tuple[Ints, Ints]
    ) -> Floats:
        """Compute the cosine with all references of the item joined, repeated for each of them."""
        grams, (candidate_rows, reference_rows) = table.ngrams(n), row_pairs
        reference = np.flatnonzero(grams.reference_row)
        sums = sum_by_key(grams.group[reference], (amount * weights)[reference], len(grams.heads))
        item = table.item[grams.caption[grams.heads]]
        joined = np.sqrt(sum_by_key(item, np.square(sums), table.items))
        product = amount[candidate_rows] * weights[candidate_rows] * amount[reference_rows] * weights[reference_rows]
        dot = sum_by_key(grams.caption[candidate_rows], product, len(table.lengths))
        left = table.pairs.left
        lengths = (length * joined[table.item])[left]
        return np.divide(dot[left], lengths, out=np.zeros(len(left)), where=lengths > 0)

    def _reduce_references(self, table: TextTable, left: Ints, values: Floats) -> Floats:
        if self.references == "max":
            best = np.zeros(len(table.lengths))
            np.maximum.at(best, left, values)
            return best
        number = np.bincount(left, minlength=len(table.lengths))
        return sum_by_key(left, values, len(table.lengths)) / np.maximum(number, 1)


# For each caption, the amount and CNG of its n-grams of one order; and the length of its vector.
Order: TypeAlias = tuple[list[dict[int, tuple[float, float]]], list[float]]


def _multiply_shared(
    vectors: Sequence[dict[int, tuple[float, float]]], candidate: int, reference: int, clip: bool
) -> dict[int, float]:
    """Return the product of the weights of each n-gram that both captions have."""
    products = {}
    for gram, (amount, score) in vectors[candidate].items():
        if gram in vectors[reference]:
            other = vectors[reference][gram][0]
            products[gram] = (min(amount, other) if clip else amount) * other * score**2
    return products


def _measure_pooled(vectors: Sequence[dict[int, tuple[float, float]]], references: Sequence[int]) -> float:
    """Return the length of the sum of the references' vectors."""
    sums: dict[int, float] = {}
    for reference in references:
        for gram, (amount, score) in vectors[reference].items():
            sums[gram] = sums.get(gram, 0.0) + amount * score
    return math.sqrt(sum(value**2 for value in sums.values()))


def _match_rows(table: TextTable, n: int) -> tuple[Ints, Ints]:
    """Match rows of candidates with rows of references of the same item that have the same n-gram."""
    grams = table.ngrams(n)
    candidates = np.flatnonzero(~grams.reference_row)
    ends = np.append(grams.heads, len(grams.gram))
    own = np.bincount(grams.group[candidates], minlength=len(grams.heads))
    # A group is one n-gram in one item: rows of candidates first, then rows of references:
    #     group g:  | c c | r r r |      bounds[2g] = first r, bounds[2g + 1] = end of the group
    # so run 2g of the bounds has the reference rows, and odd runs the next group's candidates.
    bounds = np.stack([ends[:-1] + own, ends[1:]], axis=1).ravel()
    reference_rows, fanout = expand_runs(
        np.append(bounds, len(grams.gram)), 2 * grams.group[candidates].astype(np.int64)
    )
    return np.repeat(candidates, fanout), reference_rows


def _find_pairs(table: TextTable, candidate: AnyInts, reference: AnyInts) -> Ints:
    """Return the index of each candidate and reference in the pairs of the table."""
    left, right, _ = table.pairs
    first = np.searchsorted(left, np.arange(len(table.lengths)))
    # The pairs of a candidate are consecutive, and so are its references: the offset of a reference is its distance
    # from the first one.
    start = right[np.minimum(first, max(len(right) - 1, 0))] if len(right) else first
    result: Ints = first[candidate] + reference - start[candidate]
    return result
