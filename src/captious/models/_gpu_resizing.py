"""Pillow's resize on a GPU, to the last bit.

Pillow resizes first across, then down. Each pass multiplies bytes with weights that are whole numbers, 2²² for 1, and
rounds the sums to bytes. Here a pass is a product of matrices. A weight is cut into two halves of eleven bits and a
sign, so that every sum of products is a whole number below 2²⁴: single precision holds it exactly, and TF32 and half
precision, which have eleven bits, hold the factors.

More than half of what a core does for an image is this resize. Where a GPU does it, cores only decode.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._typing import Floats, Ints
from captious.errors import require
from captious.models._preprocess import ImagePreprocessing
from captious.models.devices import tf32_products
from captious.models.encoder import Pixels

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

SUPPORT = {"bicubic": 2.0, "bilinear": 1.0}
"""The filters, and how many pixels of the larger image they reach to either side."""
BITS = 22
"""Bits of a weight behind the binary point."""
HALF = 12
"""Bits of the lower half of a weight, its sign included; the upper one needs fewer, for few weights exceed 1."""
MOST_PIXELS = 1 << 20
"""Larger images are resized where they are decoded: they would fill memory, and take long to travel."""
LARGEST_SCALE = 6
"""Images are shrunk so many times at most: the sum of 25 products of a byte and half a weight is below 2²⁴."""
TALLEST = 2
"""Images taller than so many widths are left to Pillow, some versions of which resize them down before across; where
both sides get the same length, so are all that are taller than wide.
"""
CHUNK_PIXELS = 1 << 24
"""Pixels resized at a time, padding included."""
KEPT_WEIGHTS = 1024
"""Sides of images whose weights stay on the device."""
STEP = 64
"""Sides are padded to a multiple of this."""


@dataclass(frozen=True)
class DecodeOnly:
    """An image preparation that leaves the resize of ordinary images to a GPU.

    An image that is not a square of the expected side is whole, and still to be resized.
    """

    preparation: ImagePreprocessing

    def prepare(self, picture: Image) -> Pixels:
        """All pixels of an opened image, or the prepared square if a GPU would not resize it exactly."""
        if picture.mode == "RGB" and self.leaves(*picture.size):
            return np.asarray(picture)
        return self.preparation.prepare(picture)

    def leaves(self, width: int, height: int) -> bool:
        """Whether an RGB image of this size is left to a GPU."""
        small = width * height <= MOST_PIXELS and max(width, height) <= LARGEST_SCALE * self.preparation.size
        low = height <= (1 if self.preparation.squash else TALLEST) * width
        return small and low and (width, height) != (self.preparation.crop, self.preparation.crop)


class GpuResizer:
    """Resizes and crops images that are on a device, as an image preparation does."""

    def __init__(self, preparation: ImagePreprocessing, device: torch.device) -> None:
        self.preparation, self.device = preparation, device
        self._weights: OrderedDict[tuple[int, ...], torch.Tensor] = OrderedDict()

    def __call__(self, images: Sequence[torch.Tensor]) -> torch.Tensor:
        """Squares of n × crop × 3 × crop bytes; an image is height × 3 × width bytes, in any memory order."""
        torch = require("torch", "clip")
        side = self.preparation.crop
        squares = torch.empty((len(images), side, 3, side), dtype=torch.uint8, device=self.device)
        with tf32_products():
            for chunk in _chunks([(image.shape[0], image.shape[2]) for image in images]):
                squares[chunk] = self._resized([images[index] for index in chunk])
        return squares  # type: ignore[no-any-return]

    def _resized(self, images: Sequence[torch.Tensor]) -> torch.Tensor:
        torch = require("torch", "clip")
        sizes = [(image.shape[2], image.shape[0]) for image in images]
        resized = [self.preparation.resized(*size) for size in sizes]
        across, down = (
            torch.stack(
                [self._side(size[axis], to[axis], longest) for size, to in zip(sizes, resized, strict=True)]
            ).float()
            for axis, longest in enumerate(_longest(sizes))
        )
        count, side = len(images), self.preparation.crop
        # What is in the padding does not matter: its weights are 0.
        padded = torch.empty((count, down.shape[2], 3, across.shape[2]), dtype=torch.uint8, device=self.device)
        for target, image in zip(padded.unbind(), images, strict=True):
            target[: image.shape[0], :, : image.shape[2]] = image
        rows = padded.view(count, -1, across.shape[2]).float()
        columns = _bytes(*(rows @ across.transpose(1, 2)).split(side, dim=2))
        squares = _bytes(*(down @ columns.view(count, down.shape[2], 3 * side)).split(side, dim=1))
        return squares.view(count, side, 3, side).to(torch.uint8)

    def _side(self, size: int, resized: int, longest: int) -> torch.Tensor:
        """Weights of one side: the upper halves of crop × longest of them, then the lower ones."""
        key = size, resized, longest
        if key not in self._weights:
            torch = require("torch", "clip")
            preparation = self.preparation
            crop = range(preparation.offset(resized), preparation.offset(resized) + preparation.crop)
            weights = pillow_weights(size, resized, crop, preparation.resample)
            upper = (weights + (1 << HALF - 1)) >> HALF
            both = np.concatenate([upper, weights - (upper << HALF)])
            padded = np.pad(both, ((0, 0), (0, longest - size))).astype(np.float16)  # holds them exactly
            self._weights[key] = torch.from_numpy(padded).to(self.device)
            if len(self._weights) > KEPT_WEIGHTS:
                self._weights.popitem(last=False)
        self._weights.move_to_end(key)
        return self._weights[key]


def _bytes(upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
    """The sums of a pass, given for both halves of the weights, divided by 2²², rounded, and cut to bytes."""
    carried = lower.add_(1 << BITS - 1).mul_(2.0**-HALF).floor_()
    return (upper + carried).mul_(2.0 ** (HALF - BITS)).floor_().clamp_(0, 255)


def _longest(sizes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The longest sides of some images, padded."""
    first, second = (-(-max(sides) // STEP) * STEP for sides in zip(*sizes, strict=True))
    return first, second


def _chunks(sizes: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Indices of images that are resized together: of like sizes, for they are padded to the longest sides."""
    chunk: list[int] = []
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        if chunk and (len(chunk) + 1) * math.prod(_longest([sizes[at] for at in (*chunk, index)])) > CHUNK_PIXELS:
            yield chunk
            chunk = []
        chunk.append(index)
    if chunk:
        yield chunk


def pillow_weights(size: int, resized: int, chosen: range, resample: str) -> Ints:
    """The weight of each pixel of a side in some pixels of the resized side, as whole numbers: chosen × size.

    The operations are those of Pillow, in its order: another order would round some weights differently.

    >>> (pillow_weights(4, 2, range(2), "bilinear") / 2**BITS).round(3).tolist()
    [[0.429, 0.429, 0.143, 0.0], [0.0, 0.143, 0.429, 0.429]]
    """
    scale = size / resized
    wide = max(scale, 1.0)
    reach = SUPPORT[resample] * wide
    center = (np.array(chosen) + 0.5) * scale
    first = np.maximum((center - reach + 0.5).astype(np.int64), 0)
    count = np.minimum((center + reach + 0.5).astype(np.int64), size) - first
    taps = np.arange(2 * math.ceil(reach) + 1)[:, None]
    inside = taps < count
    share = np.where(inside, _filter(resample, (taps + first - center + 0.5) * (1.0 / wide)), 0.0)
    share *= 1.0 / np.cumsum(share, axis=0)[-1]
    whole = np.trunc(share * (1 << BITS) + np.where(share < 0, -0.5, 0.5)).astype(np.int64)
    weights = np.zeros((len(chosen), size), np.int64)
    tap, row = np.nonzero(inside)
    weights[row, first[row] + tap] = whole[tap, row]
    return weights


def _filter(resample: str, distance: Floats) -> Floats:
    """The height of a filter at a distance from its center."""
    x = np.abs(distance)
    if resample == "bilinear":
        return np.where(x < 1, 1 - x, 0.0)
    near, far = (1.5 * x - 2.5) * x * x + 1, (((x - 5) * x + 8) * x - 4) * -0.5
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


@cache
def resizes_as_pillow(preparation: ImagePreprocessing, device: Any) -> bool:
    """Whether a device gives Pillow's pixels for images of noise, one of them enlarged; else Pillow has to resize."""
    from PIL import Image

    torch = require("torch", "clip")
    if preparation.resample not in SUPPORT:
        return False
    side, chance = preparation.size, np.random.default_rng(0)
    noise = [chance.integers(0, 256, (*size, 3), np.uint8) for size in ((2 * side + 3, 3 * side), (side - 1, side + 5))]
    squares = GpuResizer(preparation, device)([torch.from_numpy(one).to(device).transpose(1, 2) for one in noise])
    expected = np.stack([preparation.prepare(Image.fromarray(one)) for one in noise])
    return np.array_equal(squares.transpose(2, 3).cpu().numpy(), expected)
