"""ImaginE's similarities of pairs of texts, by seed: pictures with pictures, and texts with the other's pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from captious.encoders.encoder import Features
from captious.encoders.features import Encoded
from captious.imagine.pictures import Imagined
from captious.measurement import Floats

Kind = Literal["image", "text&image"]
RANGES: dict[str, tuple[float, float]] = {"image": (0.1, 1.0), "text&image": (0.1, 0.4)}
"""[l, h] of the rescaling. Appendix A.1 of the paper has them the other way round, which its own text shows to be a
slip: cosines of texts with pictures are those between .1 and .4."""
CHUNK = 4096


@dataclass(frozen=True)
class Side:
    """Texts of one side of all pairs: their vectors and those of their pictures."""

    texts: Encoded
    pictures: Imagined


def rescaled(cosines: Floats, kind: str, clip: bool = False) -> Floats:
    """F(s) = (s − l) / (h − l), which the paper does not clip.

    >>> rescaled(np.array([0.1, 0.55, 1.0]), "image").round(6).tolist()
    [0.0, 0.5, 1.0]
    >>> rescaled(np.array([0.25, 0.7]), "text&image", clip=True).round(6).tolist()
    [0.5, 1.0]
    """
    low, high = RANGES[kind]
    values: Floats = (cosines - low) / (high - low)
    return values.clip(0.0, 1.0) if clip else values


def pair_cosines(kind: str, one: Side, two: Side, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> Floats:
    """Pairs × seeds: cos(v₁, v₂), or (cos(t₁, v₂) + cos(t₂, v₁)) / 2; NaN where a picture or vector is missing."""
    seen_left, seen_right = one.pictures.index[left], two.pictures.index[right]
    if kind == "image":
        return _by_seed(one.pictures.rows, seen_left, two.pictures.rows, seen_right)
    said_left, said_right = (
        np.broadcast_to(side.texts.index[places][:, None], seen_left.shape)
        for side, places in ((one, left), (two, right))
    )
    first = _by_seed(one.texts.rows, said_left, two.pictures.rows, seen_right)
    second = _by_seed(two.texts.rows, said_right, one.pictures.rows, seen_left)
    return (first + second) / 2


def _by_seed(
    first: Features, at_first: npt.NDArray[np.int64], second: Features, at_second: npt.NDArray[np.int64]
) -> Floats:
    """Cosines of rows at places, any shape of places; NaN where either place is −1."""
    values = np.full(at_first.size, np.nan)
    one, two = at_first.ravel(), at_second.ravel()
    both = np.flatnonzero((one >= 0) & (two >= 0))
    for start in range(0, len(both), CHUNK):
        part = both[start : start + CHUNK]
        values[part] = np.einsum("ij,ij->i", first[one[part]], second[two[part]])
    return values.reshape(at_first.shape)
