"""Two models into one: sorted keys of both are united, counts of the same n-gram in the same style added."""

from __future__ import annotations

import numpy as np

from captious.errors import InputError
from captious.style.cng import ORDERS, Order, StyleModel
from captious.text.tables import Ints


def merge(one: StyleModel, other: StyleModel) -> StyleModel:
    """The model of both corpora together.

    >>> from captious.style.count import count, fit
    >>> halves = count([("a", "x y")]), count([("b", "x z"), ("b", "z")])
    >>> merge(*halves).mark == fit([("a", "x y"), ("b", "x z"), ("b", "z")]).mark
    True
    """
    if one.tokeniser != other.tokeniser:
        raise InputError(f"cannot merge style models tokenised by {one.tokeniser} and {other.tokeniser}")
    sides = (one, other)
    styles, in_styles = _united(*(side.styles for side in sides))
    vocabulary, words = _united(*(side.vocabulary for side in sides))
    numbers = (np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    orders = []
    for n in range(ORDERS):
        parts = [side.orders[n] for side in sides]
        keys = [numbers[i][part.parent] * len(vocabulary) + words[i][part.last] for i, part in enumerate(parts)]
        distinct, numbers = _together(*keys)
        entries = [
            np.repeat(numbers[i], part.occurrences) * len(styles) + in_styles[i][part.style]
            for i, part in enumerate(parts)
        ]
        found, places = _together(*entries)
        counts = np.zeros(len(found), dtype=np.int32)
        for place, part in zip(places, parts, strict=True):
            counts[place] += part.frequency
        gram = found // max(len(styles), 1)
        orders.append(
            Order(
                parent=(distinct // max(len(vocabulary), 1)).astype(np.int32),
                last=(distinct % max(len(vocabulary), 1)).astype(np.int32),
                starts=np.concatenate(([0], np.cumsum(np.bincount(gram, minlength=len(distinct))))),
                style=(found % max(len(styles), 1)).astype(np.int32),
                frequency=counts,
            )
        )
    captions = np.zeros(len(styles), dtype=np.int64)
    for i, side in enumerate(sides):
        captions[in_styles[i]] += side.captions
    return StyleModel(
        styles=tuple(styles),
        captions=captions,
        tokeniser=one.tokeniser,
        vocabulary=vocabulary,
        orders=tuple(orders),
        fingerprint=(one.fingerprint + other.fingerprint) % 2**64,
        name=one.name,
    )


def _united(one: list[str] | tuple[str, ...], other: list[str] | tuple[str, ...]) -> tuple[list[str], list[Ints]]:
    """Names of both, sorted, and where each side's names went."""
    names = sorted({*one, *other})
    place = {name: index for index, name in enumerate(names)}
    return names, [np.array([place[name] for name in side], dtype=np.int64) for side in (one, other)]


def _together(one: Ints, other: Ints) -> tuple[Ints, tuple[Ints, Ints]]:
    """Distinct keys of two sorted arrays, and where each side's keys went; a stable sort merges two runs at once."""
    both = np.concatenate([one, other])
    order = np.argsort(both, kind="stable")
    ordered = both[order]
    new = np.ones(len(both), dtype=np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    place = np.empty(len(both), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    return ordered[new], (place[: len(one)], place[len(one) :])
