"""The share of a caption's words that few references of the corpus have."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from captious import CaptionSet
from captious.metrics import MeanMetric, Scored, State, TokenMetric


@dataclass(frozen=True, eq=False)
class WordCounts(State):
    """How many items there are, and in the references of how many each word occurs."""

    items: int
    words: Counter[str]

    def merge(self, other: "WordCounts") -> "WordCounts":
        return WordCounts(self.items + other.items, self.words + other.words)


@dataclass(frozen=True)
class RareWords(TokenMetric, MeanMetric):
    """Rare words: the share of a caption's words that occur in the references of at most one item in ``among``.

    >>> captions = CaptionSet.of({"1": "a red dog", "2": "a cat"}, {"1": ["a dog"], "2": ["a cat"]})
    >>> RareWords(among=2).measure(captions).values.round(4).tolist()  # red, dog; cat
    [0.6667, 0.5]
    """

    among: int = 100
    tokenizer: str = "ptb"

    name: ClassVar[str] = "rare_words"
    label: ClassVar[str] = "rare words"
    main: ClassVar[str] = "among"
    corpus_state: ClassVar[type[State]] = WordCounts
    undefined_reason: ClassVar[str] = "a candidate has no words"

    def prepare(self, captions: CaptionSet) -> WordCounts:
        table = self.table(captions)
        seen = {(table.item[reference], word) for reference in table.references for word in table.words(reference)}
        return WordCounts(int((captions.references.counts > 0).sum()), Counter(word for _, word in seen))

    def score_items(self, captions: CaptionSet, state: WordCounts) -> Scored:
        table = self.table(captions)
        most = state.items / self.among
        values = []
        for candidate in table.candidates:
            words = table.words(candidate)
            rare = sum(state.words[word] <= most for word in words)
            values.append(rare / len(words) if words else np.nan)
        return Scored(table.mean_rows(np.array(values)))
