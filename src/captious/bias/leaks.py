"""The leak audit: words that predict the label almost alone although the mask has done its work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from captious._typing import Ints
from captious.bias.masking import MASKED, UNKNOWN, Tokens

LEAST = 10


class Leak(NamedTuple):
    """A word, the class it points to, how surely, and in how many captions it stands."""

    word: str
    label: str
    share: float
    captions: int


def leaks(
    captions: Sequence[Tokens],
    labels: Ints,
    classes: Sequence[str],
    share: float = 0.9,
    least: int = LEAST,
) -> list[Leak]:
    """Words of at least ``least`` captions that belong to one class in a ``share`` of them, most frequent first.

    Shares are of classes made equally frequent: of p(word | class), not of counts, so that a common class does not make
    every word a leak.

    >>> said = [("beard",)] * 10 + [("hat",)] * 10 + [("hat",)] * 10
    >>> leaks(said, np.array([1] * 20 + [0] * 10), ("a", "b"))
    [Leak(word='beard', label='b', share=1.0, captions=10)]
    """
    totals = np.bincount(labels, minlength=len(classes)).astype(np.float64)
    counts: dict[str, list[int]] = {}
    for caption, label in zip(captions, labels.tolist(), strict=True):
        for word in set(caption):
            counts.setdefault(word, [0] * len(classes))[label] += 1
    found = []
    for word, by_class in counts.items():
        number = sum(by_class)
        if number < least or word in (MASKED, UNKNOWN):
            continue
        rates = np.array(by_class) / np.maximum(totals, 1)
        top = int(rates.argmax())
        portion = float(rates[top] / rates.sum())
        if portion >= share:
            found.append(Leak(word, classes[top], portion, number))
    return sorted(found, key=lambda leak: (-leak.captions, leak.word))
