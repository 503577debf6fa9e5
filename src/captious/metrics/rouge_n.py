"""ROUGE-1, ROUGE-2, …: n-gram overlap as precision, recall or F."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.measurement import Floats, Sums
from captious.metrics.base import MeanMetric
from captious.metrics.rouge import f_score
from captious.text.tables import TextTable


@dataclass(frozen=True)
class RougeN(MeanMetric):
    """ROUGE-n: n-grams shared with a reference, over those of the candidate (P), of the reference (R), or F1 of both.

    A shared n-gram counts as often as the side that has it less. Over several references the best one counts, judged by
    the value asked for; ``over=mean`` averages. The corpus value is the mean. A caption without n-grams scores 0.

    >>> captions = CaptionSet.of({"1": "a cat on a mat"}, {"1": ["the cat is on a mat"]})
    >>> round(RougeN(n=2, value="precision").measure(captions).corpus, 6)  # "on a", "a mat" of 4 bigrams
    0.5
    """

    n: int = 1
    value: Literal["f", "precision", "recall"] = "f"
    over: Literal["max", "mean"] = "max"
    tokeniser: str = "ptb"

    name: ClassVar[str] = "rouge_n"
    shown: ClassVar[tuple[str, ...]] = ("n",)
    citation: ClassVar[str] = "Lin. ROUGE: a package for automatic evaluation of summaries. ACL Workshop 2004."

    def __post_init__(self) -> None:
        if self.n < 1:
            raise InputError(f"rouge_n(n={self.n}): expected n of at least 1")

    @property
    def label(self) -> str:
        """ROUGE-n, with P or R for precision or recall."""
        return f"ROUGE-{self.n}" + {"f": "", "precision": " P", "recall": " R"}[self.value]

    def statistics(self, captions: CaptionSet, state: None) -> Sums:
        """Sum of the candidates' values, and their number."""
        table = captions.table(self.tokeniser)
        left, _ = table.pairs
        precision, recall = table.once(("rouge_n", self.n), lambda: _overlap(table, self.n))
        by_pair = {"precision": precision, "recall": recall, "f": f_score(precision, recall)}[self.value]
        values = np.zeros(len(table.lengths))
        if self.over == "max":
            np.maximum.at(values, left, by_pair)
        else:
            number = np.bincount(left, minlength=len(values))
            values = np.bincount(left, weights=by_pair, minlength=len(values)) / np.maximum(number, 1)
        return Sums(table.mean_rows(values[table.candidates]))


def _overlap(table: TextTable, n: int) -> tuple[Floats, Floats]:
    """Precision and recall of every candidate-reference pair."""
    left, right = table.pairs
    grams = table.ngrams(n)
    shared = np.zeros(len(left))
    rank = np.zeros(len(table.lengths), dtype=np.int64)
    rank[table.candidates] = table.rank
    for turn in range(int(table.rank.max(initial=-1)) + 1):
        rows = np.flatnonzero(~grams.reference_row & (rank[grams.caption] == turn))
        in_candidate = np.zeros(len(grams.heads), dtype=np.int32)
        in_candidate[grams.group[rows]] = grams.count[rows]
        common = np.minimum(in_candidate[grams.group], grams.count)
        per_caption = np.bincount(grams.caption, weights=common, minlength=len(table.lengths))
        mine = rank[left] == turn
        shared[mine] = per_caption[right[mine]]
    size = np.maximum(table.lengths - n + 1, 1)
    return shared / size[left], shared / size[right]
