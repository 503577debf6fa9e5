"""CIDEr-D and plain CIDEr."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from captious._core.languages import AUTO
from captious._core.types import Bools, Floats, Ints
from captious.captions import CaptionSet, Ragged
from captious.metrics.contract import CandidateMetric, MeanMetric
from captious.metrics.explanation import Breakdown, Contribution, MarkedText, label_candidates
from captious.metrics.statistic_rows import Scored, item_means
from captious.render import Column, Table
from captious.text.idf import DocumentFrequency, find
from captious.text.ngram_tables import TextTable, run_indices
from captious.text.tokenizers import Tokenizer

ORDERS = 4
SIGMA = 6.0
# Warn if the idf comes from fewer items: on COCO, values are 4% higher with 1,000 items than with 5,000, and 13% with
# 100.
FEW = 1000
# Difference in words at which the length penalty leaves less than a tenth of the score: exp(−13²/72) = 0.096.
APART = 13
# Warn if at least this share of captions loses 90% to the length penalty.
ERASED = 0.1
# Beginning of that warning, by which a report recognizes it.
CUT = "CIDEr-D's length penalty cut"
# Number of items whose lengths are compared for this warning.
SAMPLE = 500


@dataclass(frozen=True)
class Cider(CandidateMetric, MeanMetric):
    """CIDEr-D: tf-idf weighted n-gram similarity of orders 1 to 4, averaged over references, times 10.

    The weight of an n-gram t is count(t) · (log N − log max(1, df(t))). df(t) is the number of items whose references
    contain t, and N is the number of items. With h and r the weights of candidate and reference::

        CIDEr-D = 10 · mean over references, mean over n of  exp(−Δ²/72) · Σ min(h, r)·r / (‖h‖·‖r‖)

    Δ is the difference of the **bigram** counts, as coco-caption has it, not of the lengths in words. coco-caption
    calls this CIDEr. ``variant=plain`` is the CIDEr of the paper: no clipping, no length penalty. A caption that is 13
    words longer or shorter than every reference keeps less than a tenth of its score; there is a warning if that is so
    for a tenth of the captions.

    ``idf=refs`` counts df over the references of the set itself. A value then depends on the other items, and is 0 for
    a set of one item. With a path or the name of an idf corpus (``captious make idf``), values can be compared between
    sets.

    >>> captions = CaptionSet.of({"1": "a red dog", "2": "a cat"}, {"1": ["a red dog"], "2": ["one cat"]})
    >>> Cider().measure(captions).values.round(6).tolist()  # three of four orders match; one word of two at order 1
    [7.5, 1.25]
    """

    idf: str = "refs"
    variant: Literal["d", "plain"] = "d"
    tokenizer: str | Tokenizer = AUTO

    name: ClassVar[str] = "cider"
    compares_jointly: ClassVar[bool] = True
    main: ClassVar[str] = "idf"
    range: ClassVar[tuple[float, float]] = (0.0, 10.0)
    citation: ClassVar[str] = (
        "Vedantam, Zitnick, Parikh. CIDEr: consensus-based image description evaluation. CVPR 2015."
    )

    @property
    def label(self) -> str:
        """CIDEr-D or CIDEr, followed by the idf corpus unless that is the references."""
        name = "CIDEr-D" if self.variant == "d" else "CIDEr"
        return name if self.idf == "refs" else f"{name} ({self.idf})"

    @property
    def corpus_state(self) -> type[DocumentFrequency] | None:
        """Document frequencies with ``idf=refs``, None if a corpus is named."""
        return DocumentFrequency if self.idf == "refs" else None

    def prepare(self, captions: CaptionSet) -> DocumentFrequency:
        """Count the document frequencies of the references, or load those of the named corpus."""
        return get_document_frequencies(self.idf, captions, self.tokenizer_name(captions))

    def score_candidates(self, captions: CaptionSet, state: DocumentFrequency) -> Scored:
        """Return rows with the value and 1."""
        table = self.table(captions)
        similarity, left = compute_similarities(table, state, self.variant), table.pairs.left
        total = np.bincount(left, weights=similarity, minlength=len(table.lengths)).take(table.candidates)
        references = np.bincount(left, minlength=len(table.lengths)).take(table.candidates)
        values = 10 * total / np.maximum(references, 1)
        warnings = []
        if state.items == 1:
            warnings = ["CIDEr with an idf of one item is 0 by construction (log 1 = 0): name a corpus, cider(idf=…)"]
        elif state.items < FEW:
            warnings = [
                f"CIDEr's idf comes from only {state.items} items, and fewer items give higher values: compare these "
                "values on the same items only, or name a fixed corpus, cider(idf=…)"
            ]
        return Scored(item_means(values), warnings=warnings)

    def text_warnings(self, captions: CaptionSet) -> list[str]:
        """Warn also if the length penalty erased the scores of many captions."""
        return [*super().text_warnings(captions), *self.length_warnings(captions)]

    def length_warnings(self, captions: CaptionSet) -> list[str]:
        """Warn if captions are so much longer or shorter than all references that the length penalty erases scores."""
        if self.variant != "d" or not len(captions):
            return []
        sample = np.unique(np.linspace(0, len(captions) - 1, min(len(captions), SAMPLE)).astype(np.int64)).tolist()
        candidates, references = captions.candidates.take(sample), captions.references.take(sample)
        # Cheap check first: captions that have about as many characters as a reference also have about as many words,
        # so most sets are not tokenized again.
        lengths = [list(map(len, one.values)) for one in (candidates, references)]
        if _mark_distant_lengths(lengths[0], candidates.owners, lengths[1], references).mean() < ERASED:
            return []
        table = self.table(captions.take(sample))
        lengths = [table.lengths[index].tolist() for index in (table.candidates, table.references)]
        apart = _mark_distant_lengths(lengths[0], candidates.owners, lengths[1], references)
        if apart.mean() < ERASED:
            return []
        captions_median, references_median = (float(np.median(one)) for one in lengths)
        return [
            f"{CUT} {apart.mean():.0%} of the captions by more than 90%: captions have "
            f"{captions_median:.4g} words, references {references_median:.4g} (medians), and a difference of {APART} "
            "words is enough; cider(variant=plain) has no length penalty"
        ]

    def break_down(self, item: CaptionSet, state: DocumentFrequency) -> Breakdown:
        """List the n-grams that a candidate shares with a reference, their weights, and what each reference adds."""
        table = self.table(item)
        candidates, references = table.candidates.tolist(), table.references.tolist()
        parts = [part for n in range(1, ORDERS + 1) for part in self._list_contributions(table, state, n)]
        by_reference = np.sum([np.zeros(len(references)), *(part.details["by_reference"] for part in parts)], axis=0)
        penalties = self._compute_length_penalties(table).mean(axis=0)
        rows = [
            (" ".join(table.words(reference)), float(adds), float(penalty))
            for reference, adds, penalty in zip(references, by_reference, penalties, strict=True)
        ]
        columns: list[Column | str] = ["reference", Column("adds", bar=True), Column("length penalty", decimals=3)]
        measure = "exp(−Δ²/72) · Σ min(h, r)·r / (‖h‖·‖r‖)" if self.variant == "d" else "Σ h·r / (‖h‖·‖r‖)"
        over = f"{len(references)} reference{'' if len(references) == 1 else 's'}"
        return Breakdown(
            parts,
            columns=[Column("n"), Column("count"), Column("idf", decimals=2), Column("weight", decimals=2)],
            texts=[
                MarkedText(label, table.words(one), table.find_shared_runs(one))
                for label, one in zip(label_candidates(len(candidates)), candidates, strict=True)
            ],
            formula=f"{self.label} = 10 · mean over {over} and over n = 1 to 4 of {measure}; weight h = count · idf",
            tables=[Table("references", "what each reference adds", columns, rows)],
            notes=[f"idf: ln({state.items:,} items / items whose references have the n-gram)"],
        )

    def _list_contributions(self, table: TextTable, state: DocumentFrequency, n: int) -> Iterator[Contribution]:
        """Yield the n-grams of one order that a candidate of the only item shares with a reference."""
        counts, grams, references = table.counts(n), table.ngrams(n), table.references
        idf = np.log(float(max(state.items, 1))) - np.log(np.maximum(1.0, state.frequencies(table, n)))
        squares = np.square(grams.count * idf.take(grams.gram))
        norms = np.sqrt(np.bincount(grams.caption, weights=squares, minlength=len(counts)))
        scale = 10 / (ORDERS * len(table.candidates) * len(references))
        for rank, (candidate, penalty) in enumerate(
            zip(table.candidates.tolist(), self._compute_length_penalties(table), strict=True)
        ):
            lengths = norms[candidate] * norms[references]
            for gram, count in counts[candidate].items():
                amounts = np.array([counts[reference].get(gram, 0) for reference in references.tolist()])
                if not amounts.any():
                    continue
                weight, others = count * float(idf[gram]), amounts * idf[gram]
                product = (np.minimum(weight, others) if self.variant == "d" else weight) * others
                adds = np.divide(scale * penalty * product, lengths, out=np.zeros(len(others)), where=lengths > 0)
                details = {"n": n, "count": count, "idf": float(idf[gram]), "weight": weight}
                details["by_reference"] = adds.tolist()
                yield Contribution(table.ngram(n, gram), float(adds.sum()), rank, details)

    def _compute_length_penalties(self, table: TextTable) -> Floats:
        """Return the length penalty of each candidate (rows) with each reference (columns) of the only item.

        Without a penalty it is 1.
        """
        bigrams = np.maximum(table.lengths - 1, 0)
        differences = bigrams[table.candidates, None] - bigrams[None, table.references]
        penalties: Floats = np.exp(-np.square(differences) / (2 * SIGMA**2))
        return penalties if self.variant == "d" else np.ones_like(penalties)

    def settings(self, state: DocumentFrequency) -> Mapping[str, str]:
        """Return the variant, and the idf corpus by name, size and content."""
        return {**super().settings(state), "variant": self.variant, "idf": str(state)}


def _mark_distant_lengths(candidates: Sequence[int], owners: Ints, references: Sequence[int], items: Ragged) -> Bools:
    """Return True for each candidate whose length is far from every reference of its item; False without references."""
    bounds = items.offsets.tolist()
    apart = [
        bounds[item] < bounds[item + 1]
        and all(abs(length - other) >= APART for other in references[bounds[item] : bounds[item + 1]])
        for length, item in zip(candidates, owners.tolist(), strict=True)
    ]
    return np.array(apart or [False])


def get_document_frequencies(idf: str, captions: CaptionSet, tokenizer: str) -> DocumentFrequency:
    """Return the document frequencies that an ``idf`` parameter names, of the tokens of this tokenizer."""
    if idf == "refs":
        return captions.once(("idf", tokenizer), lambda: DocumentFrequency.of(captions, tokenizer))
    return find(idf).check_tokenizer(tokenizer, captions.language)


def compute_similarities(
    table: TextTable, corpus: DocumentFrequency, variant: Literal["d", "plain"], candidates: bool = False
) -> Floats:
    """Compute the similarity of each of ``table.pairs``, a candidate and a reference, averaged over orders.

    With ``candidates``, compute that of each of ``table.candidate_pairs`` instead.
    """
    left, right, shift = table.candidate_pairs if candidates else table.pairs
    captions, pairs = len(table.lengths), len(left)
    total = np.zeros(pairs)
    logarithm = np.log(float(max(corpus.items, 1)))
    for orders in table.order_blocks:
        grams = table.join_orders(orders)
        frequencies = np.concatenate([corpus.frequencies(table, n) for n in orders])
        idf = logarithm - np.log(np.maximum(1.0, frequencies))
        weight = grams.count * idf.take(grams.gram)
        norm = np.sqrt(np.bincount(grams.caption, weights=np.square(weight), minlength=len(orders) * captions))
        # Every row of a candidate meets every row with the same n-gram in the same item. Row r meets the `met[r]` rows
        # from `first[r]` on, so both sides are laid out flat, one entry per meeting:
        #
        #   rows       0        1     2           met = 3, 1, 2
        #   product    w0 w0 w0 w1    w2 w2       weights of the candidate's n-grams, repeated
        #   other      v4 v5 v6 v6    v4 v7       weights of the rows that they meet
        #   pair       p0 p1 p2 p2    p3 p5       bincount sums the products of a pair: the dot product
        rows, first, met = grams.candidate_matches if candidates else grams.matches
        partners = run_indices(first, met)
        product, other = weight.take(rows).repeat(met), weight.take(partners)
        if variant == "d":
            np.minimum(product, other, out=product)
        product *= other
        # The pairs of a candidate are neighbors: pair index = shift[candidate] + reference, plus `pairs` per order. In
        # `grams` caption c has the number c + `captions` per order, which is subtracted.
        shifts = np.add.outer(np.arange(len(orders)) * (pairs - captions), shift).ravel()
        pair = shifts.take(grams.caption.take(rows)).repeat(met)
        pair += grams.caption.take(partners)
        dot = np.bincount(pair, weights=product, minlength=len(orders) * pairs).reshape(len(orders), pairs)
        norms = norm.reshape(len(orders), captions)
        norms = norms.take(left, axis=1) * norms.take(right, axis=1)
        total += np.divide(dot, norms, out=np.zeros(dot.shape), where=norms > 0).sum(axis=0)
    if variant == "d":
        bigrams = np.maximum(table.lengths - 1, 0)
        total *= np.exp(-np.square(bigrams.take(left) - bigrams.take(right)) / (2 * SIGMA**2))
    return total / ORDERS
