"""diversity: the product of div-2, div-3 and div-4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from captious.captions import CaptionSet
from captious.measurement import Sums
from captious.metrics.base import MeanMetric, Need
from captious.metrics.div import div, item_means


@dataclass(frozen=True)
class Diversity(MeanMetric):
    """diversity = div-2 · div-3 · div-4 = Π (1 − rep-n), per text; the corpus value is the mean.

    ImaginE prints a product of rep-n; the original (Su et al. 2022) and this are the product of 1 − rep-n.

    >>> round(Diversity().measure(CaptionSet.of({"1": "a cat a cat a"})).corpus, 6)  # 2/4 · 2/3 · 2/2
    0.333333
    """

    tokeniser: str = "ptb"

    name: ClassVar[str] = "diversity"
    needs: ClassVar[tuple[Need, ...]] = ()
    citation: ClassVar[str] = "Su et al. A contrastive framework for neural text generation. NeurIPS 2022."

    def statistics(self, captions: CaptionSet, state: None) -> Sums:
        """The item's value, and 1."""
        table = captions.table(self.tokeniser)
        return item_means(np.prod([div(table, n) for n in (2, 3, 4)], axis=0))
