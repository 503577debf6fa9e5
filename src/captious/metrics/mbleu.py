"""mBLEU: how alike several captions of one image are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.measurement import Floats, Sums
from captious.metrics.base import MeanMetric, Need
from captious.metrics.bleu import ORDERS, bleu
from captious.text.tables import TextTable


@dataclass(frozen=True)
class MBleu(MeanMetric):
    """mBLEU-n: the mean BLEU-n of each candidate of an item against its other candidates; lower is more diverse.

    >>> same = CaptionSet.of({"1": ["a cat sat on a mat", "a cat sat on a mat"]})
    >>> round(MBleu().measure(same).corpus, 6)
    1.0
    """

    n: int = 4
    tokeniser: str = "ptb"

    name: ClassVar[str] = "mbleu"
    needs: ClassVar[tuple[Need, ...]] = ("several candidates",)
    higher_is_better: ClassVar[bool] = False
    shown: ClassVar[tuple[str, ...]] = ("n",)
    citation: ClassVar[str] = "Shetty et al. Speaking the same language. ICCV 2017."

    def __post_init__(self) -> None:
        if not 1 <= self.n <= ORDERS:
            raise InputError(f"mbleu(n={self.n}): expected n from 1 to {ORDERS}")

    @property
    def label(self) -> str:
        """mBLEU-n."""
        return f"mBLEU-{self.n}"

    def statistics(self, captions: CaptionSet, state: None) -> Sums:
        """Sum of the candidates' values, and their number."""
        table = captions.table(self.tokeniser)
        return Sums(table.mean_rows(bleu(table.once("mbleu", lambda: _against_the_others(table)), self.n)))


def _against_the_others(table: TextTable) -> Floats:
    """BLEU statistics of each candidate with the other candidates of its item as references."""
    candidates, lengths = table.candidates, table.lengths
    slot = np.full(len(lengths), -1)
    slot[candidates] = np.arange(len(candidates))
    result = np.zeros((len(candidates), 2 + 2 * ORDERS))
    result[:, 0] = lengths[candidates]
    result[:, 1] = _closest_other_length(table)
    for n in range(1, ORDERS + 1):
        grams = table.ngrams(n)
        rows = grams.candidate_rows
        rows = rows[np.lexsort((-grams.count[rows], grams.group[rows]))]
        group, count = grams.group[rows], grams.count[rows]
        # Rows of a group stand in falling order of count: the most that another caption has is the first row's count,
        # except for the first row itself, for which it is the second's.
        first = np.ones(len(rows), dtype=np.bool_)
        first[1:] = group[1:] != group[:-1]
        head = np.flatnonzero(first)[np.cumsum(first) - 1] if len(rows) else np.zeros(0, dtype=np.int64)
        after = np.append(np.where(first[1:], 0, count[1:]), 0)
        most = np.where(first, after, count[head])
        result[:, 2 * n] = np.bincount(
            slot[grams.caption[rows]], weights=np.minimum(count, most), minlength=len(candidates)
        )
        result[:, 2 * n + 1] = np.maximum(lengths[candidates] - n + 1, 0)
    return result


def _closest_other_length(table: TextTable) -> Floats:
    lengths, item = table.lengths[table.candidates], table.item[table.candidates]
    best = np.zeros(len(lengths))
    bounds = np.searchsorted(item, np.arange(table.items + 1))
    for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if end - first < 2:
            continue
        own = lengths[first:end]
        distance = np.abs(own[:, None] - own[None, :]) * (own.max() + 1) + own[None, :]
        np.fill_diagonal(distance, np.iinfo(np.int64).max)
        best[first:end] = own[distance.argmin(axis=1)]
    return best
