"""distinct-n: distinct n-grams per token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.measurement import Floats, Statistics
from captious.metrics.base import Metric, Need
from captious.metrics.div import distinct_and_total, item_means
from captious.metrics.vocabulary import type_sets


@dataclass(frozen=True)
class Distinct(Metric):
    """distinct-n: distinct n-grams over the number of **tokens** (Li et al. 2016), of one text or of the whole set.

    ``over=item`` averages the items' own values, as ImaginE does; ``over=corpus`` counts distinct n-grams over all
    candidates of the set, as in dialogue work, and has no bootstrap interval. A text without tokens scores 0.

    >>> captions = CaptionSet.of({"1": "a cat sat", "2": "a cat ran"})
    >>> values = [Distinct(n=2, over=over).measure(captions).corpus for over in ("item", "corpus")]
    >>> [round(value, 6) for value in values]  # 2 bigrams of 3 tokens each; 3 distinct of 6 tokens
    [0.666667, 0.5]
    """

    n: int = 2
    over: Literal["item", "corpus"] = "item"
    tokeniser: str = "ptb"

    name: ClassVar[str] = "distinct"
    needs: ClassVar[tuple[Need, ...]] = ()
    shown: ClassVar[tuple[str, ...]] = ("n",)
    citation: ClassVar[str] = "Li et al. A diversity-promoting objective function for conversation models. NAACL 2016."

    def __post_init__(self) -> None:
        if self.n < 1:
            raise InputError(f"distinct(n={self.n}): expected n of at least 1")

    @property
    def label(self) -> str:
        """distinct-n."""
        return f"distinct-{self.n}" + (" (corpus)" if self.over == "corpus" else "")

    def statistics(self, captions: CaptionSet, state: None) -> Statistics:
        """The item's value and 1, or its set of n-grams."""
        table = captions.table(self.tokeniser)
        if self.over == "corpus":
            return type_sets(table, self.n)
        distinct, tokens = distinct_and_total(table, self.n)[0], distinct_and_total(table, 1)[1]
        return item_means(distinct / np.maximum(tokens, 1))

    def score(self, sums: Floats) -> Floats:
        """Distinct per token, or sum of values over their number."""
        result: Floats = sums[..., 0] / np.maximum(sums[..., 1], 1)
        return result
