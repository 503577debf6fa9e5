"""CIDEr-D and plain CIDEr."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from captious._typing import Floats
from captious.captions import CaptionSet
from captious.metrics.contract import MeanMetric, Scored, TokenMetric
from captious.text.idf import DocumentFrequency, find
from captious.text.tables import TextTable

ORDERS = 4
SIGMA = 6.0
FEW = 1000
"""Items below which an idf corpus calls for a warning: on COCO values are 4% higher with 1,000 items than with 5,000,
and 13% with 100."""


@dataclass(frozen=True)
class Cider(TokenMetric, MeanMetric):
    """CIDEr-D: tf-idf weighted n-gram similarity of orders 1 to 4, averaged over references, times 10.

    An n-gram t weighs count(t) · (log N − log max(1, df(t))), df the number of items whose references hold t, N the
    number of items. With h and r the weights of candidate and reference::

        CIDEr-D = 10 · mean over references, mean over n of  exp(−Δ²/72) · Σ min(h, r)·r / (‖h‖·‖r‖)

    Δ is the difference of the **bigram** counts, as coco-caption has it, not of the lengths in words. What coco-caption
    calls CIDEr is this; ``variant=plain`` is the CIDEr of the paper: no clipping, no length penalty.

    ``idf=refs`` counts df over the references of the set itself, so that a value depends on the other items (and is 0
    for a set of one item); a path or the name of an idf corpus (``captious make idf``) makes values comparable across
    sets.

    >>> captions = CaptionSet.of({"1": "a red dog", "2": "a cat"}, {"1": ["a red dog"], "2": ["one cat"]})
    >>> Cider().measure(captions).values.round(6).tolist()  # three of four orders match; one word of two at order 1
    [7.5, 1.25]
    """

    idf: str = "refs"
    variant: Literal["d", "plain"] = "d"
    tokenizer: str = "ptb"

    name: ClassVar[str] = "cider"
    main: ClassVar[str] = "idf"
    range: ClassVar[tuple[float, float]] = (0.0, 10.0)
    citation: ClassVar[str] = (
        "Vedantam, Zitnick, Parikh. CIDEr: consensus-based image description evaluation. CVPR 2015."
    )

    @property
    def label(self) -> str:
        """CIDEr-D or CIDEr, with the idf corpus where it is not the references."""
        name = "CIDEr-D" if self.variant == "d" else "CIDEr"
        return name if self.idf == "refs" else f"{name} ({self.idf})"

    def prepare(self, captions: CaptionSet) -> DocumentFrequency:
        """Document frequencies: of the references, or of the corpus named."""
        return frequencies(self.idf, captions, self.tokenizer)

    def score_items(self, captions: CaptionSet, state: DocumentFrequency) -> Scored:
        """Rows: the sum of the candidates' values, and their number."""
        table = self.table(captions)
        similarity = np.where(table.is_candidate, 0.0, similarities(table, state, self.variant))
        total = [np.bincount(table.item, weights=row, minlength=table.items) for row in similarity]
        references = np.bincount(table.item[~table.is_candidate], minlength=table.items)
        item, rank = table.item[table.candidates], table.rank[table.candidates]
        values = 10 * np.array(total).reshape(-1, table.items)[rank, item] / np.maximum(references[item], 1)
        warnings = []
        if state.items == 1:
            warnings = ["CIDEr with an idf of one item is 0 by construction (log 1 = 0): name a corpus, cider(idf=…)"]
        elif state.items < FEW:
            warnings = [
                f"CIDEr's idf is counted on {state.items} items: the fewer, the higher the values; they compare on the "
                "same items only, or with a fixed corpus, cider(idf=…)"
            ]
        return Scored(table.mean_rows(values), warnings=warnings)

    def settings(self, state: DocumentFrequency) -> Mapping[str, str]:
        """The idf corpus by name, size and content."""
        return {**super().settings(state), "variant": self.variant, "idf": str(state)}


def frequencies(idf: str, captions: CaptionSet, tokenizer: str) -> DocumentFrequency:
    """The document frequencies an ``idf`` parameter asks for."""
    if idf == "refs":
        return DocumentFrequency.of(captions, tokenizer)
    return find(idf).for_tokenizer(tokenizer)


def similarities(table: TextTable, corpus: DocumentFrequency, variant: Literal["d", "plain"]) -> Floats:
    """Row r, column c: the similarity of candidate number r of c's item to caption c, averaged over orders."""
    captions, turns = len(table.lengths), int(table.rank.max(initial=-1)) + 1
    partner = np.full((turns, table.items), -1)
    partner[table.rank[table.candidates], table.item[table.candidates]] = table.candidates
    partner = partner[:, table.item]
    total = np.zeros((turns, captions))
    logarithm = np.log(float(max(corpus.items, 1)))
    for n in range(1, ORDERS + 1):
        grams = table.ngrams(n)
        idf = logarithm - np.log(np.maximum(1.0, corpus.frequencies(table, n)))
        weight = idf.take(grams.gram)
        norm = np.sqrt(np.bincount(grams.caption, weights=np.square(grams.count * weight), minlength=captions))
        for turn in range(turns):
            own = grams.candidate_rows[table.rank.take(grams.caption.take(grams.candidate_rows)) == turn]
            in_candidate = np.zeros(len(grams.heads), dtype=np.int32)
            in_candidate[grams.group.take(own)] = grams.count.take(own)
            count = in_candidate.take(grams.group)
            rows = np.flatnonzero(count > 0)
            weights = weight.take(rows)
            theirs, ours = grams.count.take(rows) * weights, count.take(rows) * weights
            product = np.minimum(ours, theirs) * theirs if variant == "d" else ours * theirs
            dot = np.bincount(grams.caption.take(rows), weights=product, minlength=captions)
            norms = norm * np.where(partner[turn] >= 0, norm[partner[turn]], 0.0)
            total[turn] += np.divide(dot, norms, out=np.zeros(captions), where=norms > 0)
    if variant == "d":
        bigrams = np.maximum(table.lengths - 1, 0)
        total *= np.exp(-np.square(bigrams - bigrams[partner]) / (2 * SIGMA**2))
    return total / ORDERS
