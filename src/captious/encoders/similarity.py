"""Captions and images of a set as cosines, once per set, encoder and prefix, however many metrics ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from captious.captions import CaptionSet
from captious.encoders import runtime
from captious.encoders.encoder import Encoder

if TYPE_CHECKING:
    from captious.encoders.features import Encoded

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
BLOCK = 4096
"""Texts tokenised at a time."""


@dataclass(frozen=True, eq=False)
class Similarity:
    """The candidates of a set held against their images."""

    item: Ints
    """The item of each candidate."""
    cosine: Floats
    """Of each candidate with its image; NaN where there is none."""
    lengths: Ints
    """Tokens of each candidate, prefix and ends included; 0 where it was not encoded."""
    faults: dict[int, str]
    """Why the image of an item could not be used."""


def similarity(
    captions: CaptionSet,
    encoder: Encoder,
    prefix: str = "",
    only: npt.NDArray[np.bool_] | None = None,
) -> Similarity:
    """Cosines of all candidates with their images, or only of some of them."""
    key = (encoder.fingerprint, prefix, runtime.current().upright, None if only is None else only.tobytes())
    found: Similarity = once(captions, key, lambda: _similarity(captions, encoder, prefix, only))
    return found


def to_references(captions: CaptionSet, encoder: Encoder, prefix: str) -> Floats:
    """Of each candidate, the highest cosine with a reference of its item; NaN where there is none."""
    key = (encoder.fingerprint, prefix, "references")
    best: Floats = once(captions, key, lambda: _best(captions, encoder, prefix))
    return best


def image_paths(captions: CaptionSet) -> list[str | None]:
    """The path of each item's image, None where it has none."""
    given: Sequence[Any] = captions.columns.get("image", (None,) * len(captions))
    return [path if isinstance(path, str) and path else None for path in given]


def token_lengths(captions: CaptionSet, encoder: Encoder) -> Ints:
    """Tokens of each candidate, start and end included; nothing is encoded."""
    lengths: Ints = once(
        captions, (encoder.fingerprint, "lengths"), lambda: tokens_of(encoder, captions.candidates.values)
    )
    return lengths


def tokens_of(encoder: Encoder, texts: Sequence[str]) -> Ints:
    """How many tokens texts have, block by block."""
    blocks = [encoder.tokenise(texts[first : first + BLOCK]).lengths for first in range(0, len(texts), BLOCK)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *blocks])


def _similarity(captions: CaptionSet, encoder: Encoder, prefix: str, only: npt.NDArray[np.bool_] | None) -> Similarity:
    from captious.encoders.features import cosines, image_features, text_features

    paths = image_paths(captions)
    item = np.repeat(np.arange(len(captions)), captions.candidates.counts)
    there = np.array([path is not None for path in paths], dtype=np.bool_)
    usable = _said(captions.candidates.values) & there[item] & (True if only is None else only)
    places = np.flatnonzero(usable)
    cosine, lengths = np.full(len(item), np.nan), np.zeros(len(item), dtype=np.int64)
    if not len(places):
        return Similarity(item, cosine, lengths, {})
    shown = np.flatnonzero(np.bincount(item[places]))
    images = image_features(encoder, [str(paths[one]) for one in shown.tolist()])
    texts = text_features(encoder, [prefix + captions.candidates.values[one] for one in places.tolist()])
    cosine[places] = cosines(taken(images, np.searchsorted(shown, item[places])), texts)
    lengths[places] = texts.lengths
    faults = {
        int(shown[place]): f"image: {fault.removeprefix(f'{paths[shown[place]]}: ')}"
        for place, fault in images.faults.items()
    }
    return Similarity(item, cosine, lengths, faults)


def _best(captions: CaptionSet, encoder: Encoder, prefix: str) -> Floats:
    from captious.encoders.features import cosines, text_features

    item = np.repeat(np.arange(len(captions)), captions.candidates.counts)
    written = np.flatnonzero(_said(captions.candidates.values))
    kept = np.flatnonzero(_said(captions.references.values))
    owner = np.repeat(np.arange(len(captions)), captions.references.counts)[kept]
    first, end = np.searchsorted(owner, item[written]), np.searchsorted(owner, item[written], side="right")
    number = end - first
    left = np.repeat(np.arange(len(written)), number)
    right = np.repeat(first - (np.cumsum(number) - number), number) + np.arange(int(number.sum()))
    candidates = text_features(encoder, [prefix + captions.candidates.values[one] for one in written.tolist()])
    references = text_features(encoder, [prefix + captions.references.values[one] for one in kept.tolist()])
    values = cosines(taken(candidates, left), taken(references, right))
    best = np.full(len(item), np.nan)
    some = np.flatnonzero(number)
    if len(some):
        best[written[some]] = np.maximum.reduceat(values, (np.cumsum(number) - number)[some])
    return best


def taken(encoded: Encoded, places: Ints) -> Encoded:
    """The vectors at these places, in this order; rows are shared."""
    from captious.encoders.features import Encoded as Kind

    return Kind(encoded.rows, encoded.index[places], encoded.lengths[places], {})


def _said(texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    return np.fromiter((bool(text.strip()) for text in texts), dtype=np.bool_, count=len(texts))


_MADE: WeakKeyDictionary[CaptionSet, dict[Any, Any]] = WeakKeyDictionary()


def once(captions: CaptionSet, key: Any, make: Any) -> Any:
    """What ``make`` gives, made once for a set and a key."""
    made = _MADE.setdefault(captions, {})
    if key not in made:
        made[key] = make()
    return made[key]
