"""What ``captious-mini`` was made for, drawn scenes, and how to tell that captions or images are something else."""

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
# So many are looked at.
SAMPLE_IMAGES, SAMPLE_TEXTS = 8, 500
# Least share of neighboring pixels of equal color in a drawing: 0.76 to 0.92 in the demo set, under 0.66 in photos.
FLAT = 0.7
# Largest share of words that a mini does not know in captions of its kind; in those of photographs it is over 0.3.
STRANGE = 0.1
UNKNOWN_ID = 1


def outside_domain(encoder: Encoder, texts: Sequence[str], images: Sequence[ImageSource]) -> str:
    """What makes the values of a mini meaningless here, in words; nothing for other encoders and for drawn scenes."""
    if encoder.name not in MINI:
        return ""
    reasons = []
    photos = [not is_drawn(picture) for image in _spread(images, SAMPLE_IMAGES) if (picture := _opened(image))]
    if sum(photos) > len(photos) / 2:
        reasons.append(f"{sum(photos)} of {len(photos)} images looked at are no drawings")
    if sample := [text for text in _spread(texts, SAMPLE_TEXTS) if text.strip()]:
        tokens = encoder.tokenize(sample)
        unknown = int((tokens.ids == UNKNOWN_ID).sum()) / max(1, int((tokens.lengths - 2).sum()))
        if unknown > STRANGE:
            reasons.append(f"{unknown:.0%} of the words are unknown to it")
    if not reasons:
        return ""
    return (
        f"{encoder.name} knows drawn scenes alone, and {' and '.join(reasons)}: its values mean nothing here; "
        "for photographs take another model, such as openai/clip-vit-base-patch32"
    )


def is_drawn(picture: Image) -> bool:
    """Whether an image is made of flat areas, as drawings are."""
    pixels = np.asarray(picture.convert("RGB"))
    return bool((pixels[:, 1:] == pixels[:, :-1]).all(axis=2).mean() >= FLAT)


def _opened(image: ImageSource) -> Image | None:
    try:
        return open_image(image)
    except UnreadableImage:
        return None


def _spread(values: Sequence[Value], most: int) -> list[Value]:
    """A selection of at most so many values, at even distances.

    >>> _spread("abcdef", 3)
    ['a', 'c', 'e']
    """
    step = max(1, -(-len(values) // most))
    return list(values[::step])
