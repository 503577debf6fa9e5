"""Evidence of leakage: words that predict the attribute by themselves, salient n-grams, and confident captions.

Leaking words are counted in the masked captions. Salient n-grams and the surest captions come from a classifier's
predictions for captions it was not trained on, so they are comparable between classifiers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from captious._core.types import Floats, Ints
from captious.bias.classifiers._encoding import Captions
from captious.bias.masks import MASKED, UNKNOWN, Tokens

# Smallest number of captions with a leaking word.
LEAST = 10
# Smallest share of a leaking word in one class.
SHARE = 0.9
SYMBOLS = {MASKED, UNKNOWN}


class Leak(NamedTuple):
    """A word, the class it predicts, its share in that class, and the number of captions with it."""

    word: str
    label: str
    share: float
    captions: int


def find_leaking_words(
    captions: Sequence[Tokens],
    labels: Ints,
    classes: Sequence[str],
    share: float = SHARE,
    least: int = LEAST,
) -> list[Leak]:
    """Find words in at least ``least`` captions whose share in one class is at least ``share``, most frequent first.

    The share is p(word | class), divided by the sum over classes. Shares of counts would let every word leak a class
    that is more frequent than others.

    >>> captions = [("beard",)] * 10 + [("hat",)] * 10 + [("hat",)] * 10
    >>> find_leaking_words(captions, np.array([1] * 20 + [0] * 10), ("a", "b"))
    [Leak(word='beard', label='b', share=1.0, captions=10)]
    """
    totals = np.maximum(np.bincount(labels, minlength=len(classes)), 1)
    counts: dict[str, list[int]] = {}
    for caption, label in zip(captions, labels.tolist(), strict=True):
        for word in set(caption) - SYMBOLS:
            counts.setdefault(word, [0] * len(classes))[label] += 1
    leaks = []
    for word, by_class in counts.items():
        rates = np.array(by_class) / totals
        top = int(rates.argmax())
        share_of_top = float(rates[top] / rates.sum())
        if sum(by_class) >= least and share_of_top >= share:
            leaks.append(Leak(word, classes[top], share_of_top, sum(by_class)))
    return sorted(leaks, key=lambda leak: (-leak.captions, leak.word))


class Prediction(NamedTuple):
    """A tested caption, its label, and the mean probability of each class over the seeds that tested it."""

    id: str
    caption: Tokens
    label: int
    probabilities: Floats

    @property
    def predicted(self) -> int:
        """The most probable class."""
        return int(self.probabilities.argmax())

    @property
    def confidence(self) -> float:
        """The probability of the most probable class."""
        return float(self.probabilities.max())


class SalientNgram(NamedTuple):
    """An n-gram, the class's mean probability over the tested captions with it, and the number of these captions."""

    ngram: str
    probability: float
    captions: int
    weight: float


def find_salient_ngrams(
    tested: Sequence[Prediction], classes: int, top: int = 15, orders: int = 2, least: int = 5
) -> list[list[SalientNgram]]:
    """Find the n-grams that are the strongest evidence for each class.

    With p the class's probability over all tested captions and p_g over the n captions with the n-gram, the weight is
    (mean p_g − mean p)·√n / sd p. N-grams of fewer than ``least`` captions, and those that only repeat a shorter or
    longer one, are left out.
    """
    captions = Captions.of([one.caption for one in tested]).ngrams(orders)
    counts = np.bincount(captions.flat, minlength=len(captions.vocabulary))
    order = np.argsort(captions.flat, kind="stable")
    owners = np.repeat(np.arange(len(tested)), captions.lengths)[order]
    grams = [
        (captions.vocabulary[number], owners[end - count : end])
        for number, (count, end) in enumerate(zip(counts.tolist(), np.cumsum(counts).tolist(), strict=True))
        if count >= least and not set(captions.vocabulary[number].split()) <= SYMBOLS
    ]
    return [
        _select_salient(grams, np.array([one.probabilities[label] for one in tested]), top) for label in range(classes)
    ]


def _select_salient(grams: Sequence[tuple[str, Ints]], shares: Floats, top: int) -> list[SalientNgram]:
    """Select the n-grams, given with the indices of their captions, that raise these class probabilities most."""
    overall, sd = (float(shares.mean()), float(shares.std()) or 1.0) if len(shares) else (0.0, 1.0)
    candidates = []
    for words, indices in grams:
        mean = float(shares[indices].mean())
        weight = (mean - overall) * len(indices) ** 0.5 / sd
        candidates.append(SalientNgram(words, mean, len(indices), weight))
    chosen: dict[tuple[int, float], SalientNgram] = {}
    for gram in sorted(candidates, key=lambda gram: (-gram.weight, len(gram.ngram.split()), gram.ngram)):
        if len(chosen) == top or gram.weight <= 0:
            break
        # N-grams of the same captions have the same number and probability: the shortest one is selected.
        chosen.setdefault((gram.captions, round(gram.probability, 12)), gram)
    return list(chosen.values())


def select_surest(tested: Sequence[Prediction], label: int, right: bool = True, top: int = 8) -> list[Prediction]:
    """Select distinct captions of a class that were most confidently recognized, or taken for another class."""
    own = [one for one in tested if one.label == label and (one.predicted == label) == right]
    distinct: dict[Tokens, Prediction] = {}
    for one in sorted(own, key=lambda one: (-one.confidence, one.id, one.caption)):
        distinct.setdefault(one.caption, one)
    return list(distinct.values())[:top]
