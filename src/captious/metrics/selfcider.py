"""Self-CIDEr: the diversity of several captions of one image, from the spectrum of their CIDEr similarities."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from captious.captions import CaptionSet
from captious.measurement import Floats, Sums
from captious.metrics.base import MeanMetric, Need
from captious.metrics.cider import frequencies, similarities
from captious.metrics.div import item_means
from captious.text.idf import DocumentFrequency


@dataclass(frozen=True)
class SelfCider(MeanMetric):
    """Self-CIDEr of m candidates: 0 when all say the same, 1 when no two share anything.

    K_ij is the CIDEr-D of candidate i against candidate j, for i ≤ j and mirrored; with σ its singular values::

        r = √σ_max / Σ √σ,    diversity = −log(r) / log(m)

    Candidates with no weighted n-gram at all carry no information; an item of only such candidates has no value.
    The paper's code counts df over COCO train2014: name such a corpus with ``idf``; the default counts the references.

    >>> captions = CaptionSet.of({"1": ["a cat", "two dogs"], "2": ["a red bus"] * 2}, {"1": ["a cat"], "2": ["a bus"]})
    >>> SelfCider().measure(captions).values.round(6).tolist()
    [1.0, 0.0]
    """

    idf: str = "refs"
    tokeniser: str = "ptb"

    name: ClassVar[str] = "selfcider"
    needs: ClassVar[tuple[Need, ...]] = ("references", "several candidates")
    undefined: ClassVar[str] = "no candidate holds an n-gram with weight"
    citation: ClassVar[str] = "Wang, Chan. Describing like humans: on diversity in image captioning. CVPR 2019."

    @property
    def label(self) -> str:
        """Self-CIDEr."""
        return "Self-CIDEr"

    def prepare(self, captions: CaptionSet) -> DocumentFrequency:
        """Document frequencies: of the references, or of the corpus named."""
        return frequencies(self.idf, captions, self.tokeniser)

    def statistics(self, captions: CaptionSet, state: DocumentFrequency) -> Sums:
        """The item's value, and 1."""
        table = captions.table(self.tokeniser)
        similarity = similarities(table, state, "d")[:, table.candidates]
        bounds = np.searchsorted(table.item[table.candidates], np.arange(table.items + 1)).tolist()
        return item_means(
            np.array([_spread(similarity[: end - first, first:end]) for first, end in itertools.pairwise(bounds)])
        )

    def settings(self, state: DocumentFrequency) -> dict[str, str]:
        """The idf corpus by name, size and content."""
        return {"idf": str(state)}


def _spread(similarity: Floats) -> float:
    """The value of one item from the similarities of its candidates, of which only those for i ≤ j are looked at."""
    if len(similarity) < 2:
        return float("nan")
    kernel = np.triu(similarity) + np.triu(similarity, 1).T
    return diversity_of(np.sqrt(np.linalg.svd(kernel, compute_uv=False)), len(kernel))


def diversity_of(values: Floats, m: int) -> float:
    """−log(largest share) / log(m); NaN where there is nothing to share out."""
    total = float(values.sum())
    if m < 2 or total <= 0:
        return float("nan")
    return float(-np.log(values.max() / total) / np.log(m)) + 0.0
