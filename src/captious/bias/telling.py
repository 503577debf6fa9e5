"""What gave the attribute away: n-grams that move a classifier, and the captions it was surest of.

Both come from what the classifier said of captions it was not trained on, so they mean the same for every classifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from captious._typing import Floats
from captious.bias.audit import Row
from captious.bias.classifiers.linear import ngrams
from captious.bias.masking import MASKED, UNKNOWN, Tokens

SYMBOLS = {MASKED, UNKNOWN}


class Judged(NamedTuple):
    """A caption, its label, and the mean probability of each class over the seeds that tested it."""

    id: str
    caption: Tokens
    label: int
    probabilities: Floats
    seeds: int


class Telling(NamedTuple):
    """An n-gram, the mean probability of the class where it occurs, and in how many tested captions it does."""

    ngram: str
    probability: float
    captions: int
    weight: float


def judged(row: Row, human: bool = False) -> list[Judged]:
    """The model's tested captions, or the human ones."""
    found: dict[tuple[str, int], list[Floats]] = {}
    captions: dict[tuple[str, int], Tokens] = {}
    for seed in row.runs:
        for run in seed[1:] if human else seed[:1]:
            for position, shares in zip(run.task.split.test.tolist(), run.probabilities, strict=True):
                key = (run.task.role, position)
                found.setdefault(key, []).append(shares)
                captions[key] = run.task.captions[position]
    ids, labels = row.corpus.subject.ids, row.corpus.labels.tolist()
    return [
        Judged(ids[key[1]], captions[key], labels[key[1]], np.mean(shares, axis=0), len(shares))
        for key, shares in sorted(found.items())
    ]


def telling(said: Sequence[Judged], number: int, top: int = 15, orders: int = 2, least: int = 5) -> list[Telling]:
    """The n-grams that speak most for class ``number``.

    With p the class's probability over all tested captions and p_g over the n captions with the n-gram, the weight is
    (mean p_g − mean p)·√n / sd p. N-grams of fewer than ``least`` captions, and those that only repeat a shorter or
    longer one, are left out.
    """
    if not said:
        return []
    shares = np.array([one.probabilities[number] for one in said])
    places: dict[str, list[int]] = {}
    for index, one in enumerate(said):
        for gram in ngrams(one.caption, orders):
            if not set(gram.split()) <= SYMBOLS:
                places.setdefault(gram, []).append(index)
    middle, spread = float(shares.mean()), float(shares.std()) or 1.0
    found = []
    for gram, where in places.items():
        if len(where) >= least:
            mean = float(shares[where].mean())
            found.append(Telling(gram, mean, len(where), (mean - middle) * len(where) ** 0.5 / spread))
    chosen: list[Telling] = []
    taken: set[tuple[int, float]] = set()
    for part in sorted(found, key=lambda part: (-part.weight, len(part.ngram.split()), part.ngram)):
        mark = (part.captions, round(part.probability, 12))
        if len(chosen) == top or part.weight <= 0:
            break
        if mark not in taken:
            taken.add(mark)
            chosen.append(part)
    return chosen


def surest(said: Sequence[Judged], number: int, right: bool = True, top: int = 8) -> list[Judged]:
    """Distinct captions of class ``number`` most surely recognized, or most surely taken for another class."""
    own = [one for one in said if one.label == number and (int(one.probabilities.argmax()) == number) == right]
    ranked = sorted(own, key=lambda one: (-one.probabilities.max(), one.id, one.caption))
    distinct: dict[Tokens, Judged] = {}
    for one in ranked:
        distinct.setdefault(one.caption, one)
    return list(distinct.values())[:top]
