"""Wrong details from the captions of other images, drawn as in SPECS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Random draws that may hit the same image; after that, the first caption of another image is used.
TRIES = 100


def draw_details(
    images: Sequence[str], units: Sequence[Sequence[str]], wanted: Sequence[bool], seed: int
) -> list[list[str] | None]:
    """Draw a wrong detail for each unit of a caption except the first, from the captions of other images.

    For every detail another caption is drawn: its first unit for the first detail (the caption's second unit),
    its second unit for the second detail, and so on; the last one if it has fewer units. This is the rule of the SPECS
    repository. The result is None for a caption that is not ``wanted``, and if there is no other image to draw from.

    >>> draw_details(["1", "2"], [["a cat", "on a bed"], ["a dog"]], [True, True], seed=0)
    [['a dog'], []]
    """
    generator = np.random.default_rng(seed)
    pool = [index for index, own in enumerate(units) if own]
    one_image = len({images[index] for index in pool}) == 1
    details: list[list[str] | None] = []
    for image, own, wants in zip(images, units, wanted, strict=True):
        if not wants or (len(own) > 1 and one_image):
            details.append(None)
            continue
        others = [units[_draw_other(images, pool, image, generator)] for _ in own[1:]]
        details.append([other[min(step, len(other) - 1)] for step, other in enumerate(others)])
    return details


def _draw_other(images: Sequence[str], pool: Sequence[int], image: str, generator: np.random.Generator) -> int:
    """Draw the index of a caption of another image."""
    for _ in range(TRIES):
        other = pool[int(generator.integers(len(pool)))]
        if images[other] != image:
            return other
    return next(index for index in pool if images[index] != image)
