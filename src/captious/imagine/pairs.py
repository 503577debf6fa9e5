"""The candidates of a set held against other texts by their pictures, once per set, however many times it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from captious.captions import CaptionSet, Ragged
from captious.encoders.encoder import Encoder
from captious.encoders.features import text_features
from captious.imagine.painters import FAULTS, Painter
from captious.imagine.pictures import imagine
from captious.imagine.similarity import Side, pair_cosines, rescaled
from captious.measurement import Floats

Ints = npt.NDArray[np.int64]
Seeds = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Judged:
    """The candidates of a set."""

    item: Ints
    """The item of each candidate."""
    values: Floats
    """Candidates × seeds; NaN where there is no picture."""
    faults: dict[int, str]
    """Why an item has no value."""
    cut: list[int]
    """The item of each text that painter or encoder cut."""
    unpainted: int
    """Pictures that are none."""


_MADE: WeakKeyDictionary[CaptionSet, dict[Any, Judged]] = WeakKeyDictionary()


def judged(
    captions: CaptionSet,
    others: Ragged,
    painter: Painter,
    encoder: Encoder,
    kind: str,
    seeds: Seeds,
    several: str = "max",
    clip: bool = False,
) -> Judged:
    """Candidates against the other texts of their item; ``several`` others by ``max`` or ``mean``, seed by seed."""
    content = tuple(others.values), others.offsets.tobytes()
    key = (painter.fingerprint, encoder.fingerprint, kind, seeds, several, clip, content)
    made = _MADE.setdefault(captions, {})
    if key not in made:
        made[key] = _judged(captions, others, painter, encoder, kind, seeds, several, clip)
    return made[key]


def _judged(
    captions: CaptionSet,
    others: Ragged,
    painter: Painter,
    encoder: Encoder,
    kind: str,
    seeds: Seeds,
    several: str,
    clip: bool,
) -> Judged:
    item = np.repeat(np.arange(len(captions)), captions.candidates.counts)
    owner = np.repeat(np.arange(len(captions)), others.counts)
    held = np.array([bool(text.strip()) for text in others.values], np.bool_)
    paired = np.bincount(owner[held], minlength=len(captions)) > 0
    written = np.flatnonzero([bool(text.strip()) and paired[one] for text, one in _with(captions, item)])
    kept = np.flatnonzero(held & (np.bincount(item[written], minlength=len(captions)) > 0)[owner])
    values = np.full((len(item), len(seeds[0])), np.nan)
    if not len(written):
        return Judged(item, values, {}, [], 0)
    texts = [captions.candidates.values[place] for place in written.tolist()]
    against = [others.values[place] for place in kept.tolist()]
    one = Side(text_features(encoder, texts), imagine(painter, encoder, texts, seeds[0]))
    two = Side(text_features(encoder, against), imagine(painter, encoder, against, seeds[1]))
    left, right, starts = _pairs(item[written], owner[kept])
    cosines = rescaled(pair_cosines(kind, one, two, left, right), kind, clip)
    values[written] = _joined(cosines, starts, several)
    faults: dict[int, str] = {}
    for place in np.flatnonzero(np.isnan(values[written]).any(axis=1)).tolist():
        why = one.pictures.fault(place)
        first = right[starts[place]]
        faults[int(item[written[place]])] = why or f"reference: {two.pictures.fault(int(first)) or FAULTS[2]}"
    cut = [
        *item[written[_cut(one, texts, painter, encoder, kind)]].tolist(),
        *owner[kept[_cut(two, against, painter, encoder, kind)]].tolist(),
    ]
    return Judged(item, values, faults, cut, int((one.pictures.codes > 0).sum() + (two.pictures.codes > 0).sum()))


def _with(captions: CaptionSet, item: Ints) -> list[tuple[str, int]]:
    return list(zip(captions.candidates.values, item.tolist(), strict=True))


def _pairs(item: Ints, owner: Ints) -> tuple[Ints, Ints, Ints]:
    """Every candidate with every other text of its item, and where the pairs of each candidate begin."""
    first, end = np.searchsorted(owner, item), np.searchsorted(owner, item, side="right")
    number = end - first
    starts = np.cumsum(number) - number
    left = np.repeat(np.arange(len(item)), number)
    right = np.repeat(first - starts, number) + np.arange(int(number.sum()))
    return left, right, starts


def _joined(values: Floats, starts: Ints, several: str) -> Floats:
    """One row per candidate from the rows of its pairs; pairs without a value are left out.

    >>> rows = np.array([[1.0, np.nan], [3.0, np.nan], [2.0, 5.0]])
    >>> _joined(rows, np.array([0, 2]), "mean").tolist()
    [[2.0, nan], [2.0, 5.0]]
    """
    if several == "max":
        highest: Floats = np.fmax.reduceat(values, starts, axis=0)
        return highest
    known = ~np.isnan(values)
    total = np.add.reduceat(np.where(known, values, 0.0), starts, axis=0)
    number = np.add.reduceat(known.astype(np.float64), starts, axis=0)
    return np.divide(total, number, out=np.full_like(total, np.nan), where=number > 0)


def _cut(side: Side, texts: Sequence[str], painter: Painter, encoder: Encoder, kind: str) -> npt.NDArray[np.bool_]:
    """Texts cut by the painter, or by the encoder where it reads texts at all."""
    beyond: npt.NDArray[np.bool_] = side.texts.lengths > encoder.limit
    return painter.cut(texts) | beyond if kind != "image" else painter.cut(texts)
