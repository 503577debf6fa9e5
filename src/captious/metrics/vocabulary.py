"""Vocabulary size: how many different words a captioner uses."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from captious.captions import CaptionSet
from captious.measurement import Floats, TypeSets
from captious.metrics.base import Metric, Need
from captious.text.tables import TextTable


@dataclass(frozen=True)
class Vocabulary(Metric):
    """The number of distinct tokens in all candidates; per item, in its candidates.

    There is no bootstrap interval: a resample repeats items, so its vocabulary is always smaller than the set's.

    >>> Vocabulary().measure(CaptionSet.of({"1": "a cat", "2": "a dog"})).corpus
    3.0
    """

    tokeniser: str = "ptb"

    name: ClassVar[str] = "vocabulary"
    needs: ClassVar[tuple[Need, ...]] = ()
    range: ClassVar[tuple[float, float]] = (0.0, inf)

    def statistics(self, captions: CaptionSet, state: None) -> TypeSets:
        """The words of each item."""
        return type_sets(captions.table(self.tokeniser), 1)

    def score(self, sums: Floats) -> Floats:
        """Distinct tokens."""
        return sums[..., 0]


def type_sets(table: TextTable, n: int) -> TypeSets:
    """The distinct n-grams of each item's candidates, as text so that shards unite."""
    grams = table.ngrams(n)
    rows = grams.candidate_rows
    written = _written(table, n, np.unique(grams.gram[rows]))
    types: list[set[str]] = [set() for _ in range(table.items)]
    for item, gram in zip(table.item[grams.caption[rows]].tolist(), grams.gram[rows].tolist(), strict=True):
        types[item].add(written[gram])
    tokens = table.per_item(table.lengths[table.candidates, None].astype(np.float64))[:, 0]
    return TypeSets(tuple(map(frozenset, types)), tokens.astype(np.int64))


def _written(table: TextTable, n: int, grams: np.ndarray) -> dict[int, str]:
    words: list[list[str]] = [[] for _ in grams]
    current = grams
    for order in range(n, 0, -1):
        level = table.ngrams(order)
        for text, last in zip(words, level.last[current].tolist(), strict=True):
            text.append(table.vocabulary[last])
        current = level.parent[current]
    return {gram: " ".join(reversed(text)) for gram, text in zip(grams.tolist(), words, strict=True)}
