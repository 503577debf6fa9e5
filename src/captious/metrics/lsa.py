"""LSA diversity: the spread of several captions of one image in the space of their words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from captious.captions import CaptionSet
from captious.measurement import Sums
from captious.metrics.base import MeanMetric, Need
from captious.metrics.div import item_means
from captious.metrics.selfcider import diversity_of


@dataclass(frozen=True)
class Lsa(MeanMetric):
    """LSA diversity of m candidates: −log(r) / log(m), r = σ_max / Σ σ of the matrix of word counts by caption.

    >>> captions = CaptionSet.of({"1": ["a cat", "two dogs"], "2": ["a red bus"] * 2})
    >>> Lsa().measure(captions).values.round(6).tolist()
    [1.0, 0.0]
    """

    tokeniser: str = "ptb"

    name: ClassVar[str] = "lsa"
    needs: ClassVar[tuple[Need, ...]] = ("several candidates",)
    undefined: ClassVar[str] = "no candidate holds a token"
    citation: ClassVar[str] = "Wang, Chan. Describing like humans: on diversity in image captioning. CVPR 2019."

    @property
    def label(self) -> str:
        """LSA diversity."""
        return "LSA diversity"

    def statistics(self, captions: CaptionSet, state: None) -> Sums:
        """The item's value, and 1."""
        table = captions.table(self.tokeniser)
        bounds = np.searchsorted(table.item[table.candidates], np.arange(table.items + 1))
        values = np.full(table.items, np.nan)
        for item, (first, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            parts = [table.tokens[table.starts[c] : table.starts[c + 1]] for c in table.candidates[first:end]]
            if end - first < 2 or not any(map(len, parts)):
                continue
            words, column = np.unique(np.concatenate(parts), return_inverse=True)
            row = np.repeat(np.arange(end - first), [len(part) for part in parts])
            counts = np.zeros((end - first, len(words)))
            np.add.at(counts, (row, column), 1)
            values[item] = diversity_of(np.linalg.svd(counts, compute_uv=False), end - first)
        return item_means(values)
