"""Balanced splits: as many images of every class, nine tenths to train on, one to test on, drawn anew per seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captious.errors import InputError

Ints = npt.NDArray[np.int64]
LEAST = 10
"""Fewer images of a class than this cannot be split and say nothing."""


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of the images to train on and to test on."""

    train: Ints
    test: Ints


def balanced_split(ids: Sequence[str], labels: Sequence[int], seed: int, stream: str = "", share: float = 0.1) -> Split:
    """Draw a split of images without replacement, the same for the same ids whatever their order.

    With m the images of the rarest class, round(share·m) of every class are tested and m − round(share·m) trained on.
    ``stream`` names one of several independent draws of the seed: the originals draw one for LIC_M and another for
    LIC_D, so that the two are not measured on the same images.

    >>> split = balanced_split([str(i) for i in range(50)], [0] * 30 + [1] * 20, seed=0)
    >>> len(split.train), len(split.test), len(set(split.train) & set(split.test))
    (36, 4, 0)
    """
    rng = random.Random(f"{seed}/{stream}")
    by_class: dict[int, list[int]] = {}
    for position in sorted(range(len(ids)), key=ids.__getitem__):
        by_class.setdefault(labels[position], []).append(position)
    least = min(map(len, by_class.values()))
    tested = round(share * least)
    train: list[int] = []
    test: list[int] = []
    for label in sorted(by_class):
        drawn = rng.sample(by_class[label], least)
        train += drawn[tested:]
        test += drawn[:tested]
    rng.shuffle(train)
    rng.shuffle(test)
    return Split(np.array(train, dtype=np.int64), np.array(test, dtype=np.int64))


def classes_of(labels: Sequence[str], name: str) -> tuple[str, ...]:
    """The classes in order, if there are enough images of at least two.

    >>> classes_of(["old"] * 12 + ["young"] * 10, "preds")
    ('old', 'young')
    """
    counts = {label: labels.count(label) for label in sorted(set(labels))}
    if len(counts) < 2:
        found = f"all {len(labels)} labels are {next(iter(counts))!r}" if counts else "there are no labels"
        raise InputError(f"{name}: {found}, expected at least two classes")
    small = {label: count for label, count in counts.items() if count < LEAST}
    if small:
        label, count = next(iter(small.items()))
        raise InputError(f"{name}: class {label!r} has {count} images, expected at least {LEAST} of every class")
    return tuple(counts)
