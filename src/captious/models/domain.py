"""Domain of ``captious-mini``, drawn scenes, and a check for captions or images of another domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from captious.captions import ImageSource
from captious.io.images import UnreadableImage, open_image
from captious.models.encoder import Encoder
from captious.models.loading import MINI

if TYPE_CHECKING:
    from PIL.Image import Image

Value = TypeVar("Value")
# Number of images and texts that are checked.
SAMPLE_IMAGES, SAMPLE_TEXTS = 8, 500
# Smallest share of equal neighboring pixels in a drawing: 0.76 to 0.92 in the demo set, under 0.66 in photos.
FLAT = 0.7
# Largest share of unknown words in captions of drawn scenes; in captions of photographs it is over 0.3.
STRANGE = 0.1
UNKNOWN_ID = 1


def describe_mismatch(encoder: Encoder, texts: Sequence[str], images: Sequence[ImageSource]) -> str:
    """Describe why a mini's values are meaningless for these inputs; empty for other encoders and drawn scenes."""
    if encoder.name not in MINI:
        return ""
    reasons = []
    photos = [
        not is_drawn(picture) for image in _sample_evenly(images, SAMPLE_IMAGES) if (picture := _open_or_none(image))
    ]
    if sum(photos) > len(photos) / 2:
        reasons.append(f"{sum(photos)} of {len(photos)} images that were checked are not drawings")
    if sample := [text for text in _sample_evenly(texts, SAMPLE_TEXTS) if text.strip()]:
        tokens = encoder.tokenize(sample)
        unknown = int((tokens.ids == UNKNOWN_ID).sum()) / max(1, int((tokens.lengths - 2).sum()))
        if unknown > STRANGE:
            reasons.append(f"{unknown:.0%} of the words are unknown to it")
    if not reasons:
        return ""
    return (
        f"{encoder.name} knows only drawn scenes, and {' and '.join(reasons)}: its values mean nothing here; "
        "for photographs use another model, such as openai/clip-vit-base-patch32"
    )


def is_drawn(picture: Image) -> bool:
    """Return True if an image is made of flat areas, as drawings are."""
    pixels = np.asarray(picture.convert("RGB"))
    return bool((pixels[:, 1:] == pixels[:, :-1]).all(axis=2).mean() >= FLAT)


def _open_or_none(image: ImageSource) -> Image | None:
    try:
        return open_image(image)
    except UnreadableImage:
        return None


def _sample_evenly(values: Sequence[Value], most: int) -> list[Value]:
    """Return at most ``most`` values at even distances.

    >>> _sample_evenly("abcdef", 3)
    ['a', 'c', 'e']
    """
    step = max(1, -(-len(values) // most))
    return list(values[::step])
