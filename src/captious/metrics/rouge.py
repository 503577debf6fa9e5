"""ROUGE-L with coco-caption's arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from captious.captions import CaptionSet
from captious.measurement import Floats, Sums
from captious.metrics.base import MeanMetric
from captious.text.lcs import lcs_lengths
from captious.text.tables import Ints, TextTable

BETA = 1.2


@dataclass(frozen=True)
class Rouge(MeanMetric):
    """ROUGE-L: an F-score of the longest common subsequence, recall weighted by β = 1.2.

    With P and R the LCS length over the length of the candidate and of the reference::

        ROUGE-L = (1 + β²) P R / (R + β² P)

    Over several references coco-caption takes the highest P and the highest R independently, even from different
    references; ``best=f`` takes the reference with the highest F instead. The corpus value is the mean. An empty
    caption counts as one empty word, as in coco-caption, so that it equals only another empty caption.

    >>> captions = CaptionSet.of({"1": "a cat on a mat"}, {"1": ["the cat is on a mat"]})
    >>> round(Rouge().measure(captions).corpus, 6)  # LCS "cat on a mat": P = 4/5, R = 4/6
    0.715543
    """

    best: Literal["separate", "f"] = "separate"
    tokeniser: str = "ptb"

    name: ClassVar[str] = "rouge"
    citation: ClassVar[str] = "Lin. ROUGE: a package for automatic evaluation of summaries. ACL Workshop 2004."

    @property
    def label(self) -> str:
        """ROUGE-L."""
        return "ROUGE-L"

    def statistics(self, captions: CaptionSet, state: None) -> Sums:
        """Sum of the candidates' values, and their number."""
        table = captions.table(self.tokeniser)
        left, right, common = table.once("lcs", lambda: _common(table))
        lengths = np.maximum(table.lengths, 1)
        precision, recall = common / lengths[left], common / lengths[right]
        heads = np.flatnonzero(np.concatenate(([True], left[1:] != left[:-1]))) if len(left) else np.zeros(0, np.int64)
        values = np.zeros(len(table.lengths))
        if self.best == "separate":
            best = f_score(np.maximum.reduceat(precision, heads), np.maximum.reduceat(recall, heads), BETA)
        else:
            best = np.maximum.reduceat(f_score(precision, recall, BETA), heads)
        values[left[heads]] = best
        return Sums(table.mean_rows(values[table.candidates]))

    def settings(self, state: None) -> dict[str, str]:
        """β."""
        return {"beta": str(BETA)}


def f_score(precision: Floats, recall: Floats, beta: float = 1.0) -> Floats:
    """The F-measure, 0 where both parts are 0."""
    below = recall + beta**2 * precision
    result: Floats = np.divide(
        (1 + beta**2) * precision * recall, below, out=np.zeros_like(below), where=(precision > 0) & (recall > 0)
    )
    return result


def _common(table: TextTable) -> tuple[Ints, Ints, Ints]:
    left, right = table.pairs
    common = lcs_lengths(table)
    common[(table.lengths[left] == 0) & (table.lengths[right] == 0)] = 1
    return left, right, common
