"""div-n: how little a text repeats its n-grams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.measurement import Floats, Sums
from captious.metrics.base import MeanMetric, Need
from captious.text.tables import TextTable


@dataclass(frozen=True)
class Div(MeanMetric):
    """div-n: distinct n-grams over all n-grams of an item's candidates taken together; 1 − rep-n.

    With one candidate this is ImaginE's div-n of a text; with several candidates it is the Div-n of diverse captioning.
    Edge cases, which no paper defines: no tokens gives 0, tokens but fewer than n gives 1 (nothing can repeat);
    ``strict=yes`` leaves both without a value. The corpus value is the mean over items.

    >>> round(Div(n=1).measure(CaptionSet.of({"1": "the cat and the dog"})).corpus, 6)  # 4 of 5 words differ
    0.8
    """

    n: int = 2
    strict: bool = False
    tokeniser: str = "ptb"

    name: ClassVar[str] = "div"
    needs: ClassVar[tuple[Need, ...]] = ()
    shown: ClassVar[tuple[str, ...]] = ("n",)
    citation: ClassVar[str] = (
        "Welleck et al. Neural text generation with unlikelihood training. ICLR 2020 (as 1 - rep-n)."
    )

    def __post_init__(self) -> None:
        if self.n < 1:
            raise InputError(f"div(n={self.n}): expected n of at least 1")

    @property
    def label(self) -> str:
        """div-n."""
        return f"div-{self.n}"

    def statistics(self, captions: CaptionSet, state: None) -> Sums:
        """The item's value, and 1."""
        return item_means(div(captions.table(self.tokeniser), self.n, self.strict))

    def unscorable(self, captions: CaptionSet) -> dict[str, np.ndarray]:
        """With ``strict``, texts without n-grams have no value."""
        reasons = dict(super().unscorable(captions))
        if self.strict:
            reasons[f"fewer than {self.n} tokens"] = distinct_and_total(captions.table(self.tokeniser), self.n)[1] == 0
        return reasons


def div(table: TextTable, n: int, strict: bool = False) -> Floats:
    """div-n of each item."""
    distinct, total = distinct_and_total(table, n)
    tokens = distinct_and_total(table, 1)[1]
    fallback = np.full(table.items, np.nan) if strict else (tokens > 0).astype(np.float64)
    result: Floats = np.divide(distinct, total, out=fallback, where=total > 0)
    return result


def distinct_and_total(table: TextTable, n: int) -> tuple[Floats, Floats]:
    """Distinct and running n-grams of each item's candidates."""
    grams = table.ngrams(n)
    rows = grams.candidate_rows
    item = table.item[grams.caption[rows]]
    total = np.bincount(item, weights=grams.count[rows], minlength=table.items).astype(np.float64)
    first = np.ones(len(rows), dtype=np.bool_)
    first[1:] = grams.group[rows][1:] != grams.group[rows][:-1]
    return np.bincount(item[first], minlength=table.items).astype(np.float64), total


def item_means(values: Floats) -> Sums:
    """One value per item as statistics of a mean over items."""
    return Sums(np.stack([values, np.where(np.isnan(values), np.nan, 1.0)], axis=1))
