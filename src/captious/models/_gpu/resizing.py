"""Pillow's resize on a GPU, bit-exact for the images that `DecodeOnly` leaves to it.

Pillow resizes first across, then down. Each pass multiplies bytes with weights that are whole numbers, 2²² for 1, and
rounds the sums to bytes. Here a pass is a product of matrices. A weight is cut into two halves of eleven bits and a
sign, so that every sum of products is a whole number below 2²⁴: single precision represents it exactly, and TF32 and
half precision, which have eleven bits, represent the factors.

This resize is more than half of the CPU's work for an image. If a GPU resizes, the CPU only decodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.types import Ints
from captious.errors import require
from captious.models._gpu.transfers import send
from captious.models._preprocess import ImagePreprocessing
from captious.models.decoding import WholeImage
from captious.models.devices import use_tf32
from captious.models.encoder import Pixels

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

# Support of each filter to either side, in pixels of the larger image.
SUPPORT = {"bicubic": 2.0, "bilinear": 1.0}
# Fractional bits of a weight.
BITS = 22
# Bits of the lower half of a weight, including its sign; the upper half needs fewer, as weights hardly exceed 1.
HALF = 12
# Larger images are resized on the CPU: they would fill memory, and take long to transfer.
MOST_PIXELS = 1 << 20
# Largest factor of shrinking: the sum of 25 products of a byte and half a weight is below 2²⁴.
LARGEST_SCALE = 6
# Largest ratio of height to width: taller images are left to Pillow, some versions of which resize them down before
# across. If both sides get the same length, this applies to all images that are taller than wide.
TALLEST = 2
# Pixels resized at a time, padding included; intermediate results take forty times as many bytes.
CHUNK_PIXELS = 1 << 25
# Sides are padded to a multiple of this.
STEP = 64


@dataclass(frozen=True)
class DecodeOnly:
    """An image preparation that leaves the resize of ordinary images to a GPU."""

    preparation: ImagePreprocessing

    def prepare(self, picture: Image) -> Pixels | WholeImage:
        """Return the whole image, or the prepared square if a GPU would not resize it exactly."""
        if picture.mode == "RGB" and self.is_left_to_gpu(*picture.size):
            return WholeImage(np.asarray(picture).reshape(-1), 0, *picture.size)
        return self.preparation.prepare(picture)

    def is_left_to_gpu(self, width: int, height: int) -> bool:
        """Return True if an RGB image of this size is resized by a GPU."""
        small = width * height <= MOST_PIXELS and max(width, height) <= LARGEST_SCALE * self.preparation.size
        return small and height <= (1 if self.preparation.squash else TALLEST) * width


@dataclass(frozen=True, eq=False)
class FlatImages:
    """Images of any sizes, concatenated in the memory of a device."""

    pixels: torch.Tensor
    """Bytes of all images, with gaps, and at the end `count_padding_bytes` zeros: windows extend beyond a row.

    ::

        starts[0]             starts[1]                          padding
        ▼ image 0             ▼ image 1                          ▼
        ████████████ · · · ·  ████████████████████████████████   0 0 0 0
    """
    starts: Ints
    """Offset of each image."""
    sizes: Ints
    """Width and height of each."""
    planar: bool
    """Whether an image is 3 × height × width bytes; otherwise it is height × width × 3."""


class GpuResizer:
    """Resizes and crops images that are on a device, as an image preparation does."""

    def __init__(self, preparation: ImagePreprocessing, device: torch.device) -> None:
        self.preparation, self.device = preparation, device

    def __call__(self, images: FlatImages) -> torch.Tensor:
        """Resize and crop images to n × crop × 3 × crop bytes."""
        torch = require("torch", "clip")
        order = np.lexsort(images.sizes.T)  # images of similar sizes are resized together
        sizes = images.sizes[order]
        across, down = self._compute_weights(sizes)
        starts, *sides = send(np.column_stack([images.starts[order], sizes]).T.copy(), self.device)
        pixels, parts = images.pixels, []
        with use_tf32(), torch.autocast(self.device.type, enabled=False):
            for part in _split_chunks(sizes):
                width, height = _pad_sides(sizes[part])
                first = RowStarts(starts[part], *(side[part] for side in sides))
                rows = (
                    first.gather_planar(pixels, width, height)
                    if images.planar
                    else first.gather_interleaved(pixels, width, height)
                )
                parts.append(self._resize_rows(rows, across.select(part), down.select(part)))
        return torch.cat(parts).index_select(0, send(np.argsort(order), self.device))  # type: ignore[no-any-return]

    def _compute_weights(self, sizes: Ints) -> tuple[SideWeights, SideWeights]:
        """Return the weights of all images across, and down."""
        preparation = self.preparation
        resized = np.array([preparation.compute_size(*size) for size in sizes.tolist()])
        offsets = np.array([[preparation.offset(side) for side in sides] for sides in resized.tolist()])
        largest = float((sizes / resized).max())
        size, to, offset = send(np.array([sizes, resized, offsets], np.float64), self.device)
        across, down = (
            SideWeights.of(size[:, axis], to[:, axis], offset[:, axis], preparation, largest) for axis in range(2)
        )
        return across, down

    def _resize_rows(self, rows: torch.Tensor, across: SideWeights, down: SideWeights) -> torch.Tensor:
        """Resize images of n × height × 3 × width numbers to squares; padding has weight 0."""
        count, height, _, width = rows.shape
        side = self.preparation.crop
        columns = _round_to_bytes(
            *(rows.view(count, -1, width) @ across.to_dense(width).transpose(1, 2)).chunk(2, dim=2)
        )
        squares = _round_to_bytes(*(down.to_dense(height) @ columns.view(count, height, -1)).chunk(2, dim=1))
        return squares.view(count, side, 3, side).to(require("torch", "clip").uint8)


@dataclass(frozen=True, eq=False)
class RowStarts:
    """Offsets of the rows of images; a window over the bytes from there is a row and the bytes after it."""

    starts: torch.Tensor
    widths: torch.Tensor
    heights: torch.Tensor

    def gather_planar(self, pixels: torch.Tensor, width: int, height: int) -> torch.Tensor:
        """Gather images of 3 × height × width bytes as n × height × 3 × width numbers, padded."""
        torch = require("torch", "clip")
        row, color = (torch.arange(length, device=pixels.device) for length in (height, 3))
        starts, widths, heights = (side[:, None, None] for side in (self.starts, self.widths, self.heights))
        return _select_windows(pixels, starts + row[:, None] * widths + color * (widths * heights), width).float()

    def gather_interleaved(self, pixels: torch.Tensor, width: int, height: int) -> torch.Tensor:
        """Gather images of height × width × 3 bytes as n × height × 3 × width numbers, padded."""
        torch = require("torch", "clip")
        rows = self.starts[:, None] + torch.arange(height, device=pixels.device) * (3 * self.widths[:, None])
        windows = _select_windows(pixels, rows, 3 * width).view(*rows.shape, width, 3).transpose(2, 3)
        rows_first = torch.empty(windows.shape, dtype=torch.float32, device=pixels.device)
        return rows_first.copy_(windows)  # type: ignore[no-any-return]


def _select_windows(pixels: torch.Tensor, starts: torch.Tensor, length: int) -> torch.Tensor:
    """Select ``length`` bytes from each start on; padding rows below an image may start anywhere."""
    last = len(pixels) - length
    # An overlapping view without a copy: row i is pixels[i : i + length].
    view = pixels.as_strided((last + 1, length), (1, 1))
    return view.index_select(0, starts.clamp(max=last).flatten()).view(*starts.shape, length)


@dataclass(frozen=True, eq=False)
class SideWeights:
    """Pillow's integer weights of the pixels of one side of n images."""

    pixels: torch.Tensor
    """The pixel of each tap: n × 2 · crop × taps."""
    halves: torch.Tensor
    """The upper halves of the weights, then the lower ones, of the same shape."""

    @classmethod
    def of(
        cls,
        size: torch.Tensor,
        resized: torch.Tensor,
        offset: torch.Tensor,
        preparation: ImagePreprocessing,
        largest: float,
    ) -> SideWeights:
        """Compute the weights of sides from their sizes before and after, and the start of the crop.

        ``largest`` is the largest of the scales. The operations are those of Pillow in double precision, in its order:
        another order would round some weights differently.
        """
        torch = require("torch", "clip")
        support = SUPPORT[preparation.resample]
        scale = (size / resized)[:, None]
        wide = scale.clamp(min=1.0)
        reach = support * wide
        center = (torch.arange(preparation.crop, device=size.device) + offset[:, None] + 0.5) * scale
        first = (center - reach + 0.5).trunc().clamp(min=0)
        count = (center + reach + 0.5).trunc().minimum(size[:, None]) - first
        taps = torch.arange(2 * math.ceil(support * max(largest, 1.0)) + 1, device=size.device)
        distance = (taps + first[..., None] - center[..., None] + 0.5) * (1.0 / wide)[..., None]
        share = torch.where(taps < count[..., None], _evaluate_filter(preparation.resample, distance), 0.0)
        share = share * (1.0 / reduce(torch.add, share.unbind(2)))[..., None]
        whole = (share * 2.0**BITS + torch.where(share < 0, -0.5, 0.5)).trunc()
        # whole = upper · 2¹² + lower, with lower from −2¹¹ to 2¹¹ − 1
        upper = ((whole + 2.0 ** (HALF - 1)) * 2.0**-HALF).floor()
        # Taps beyond the last pixel have weight 0.
        pixels = (first[..., None] + taps).minimum(size[:, None, None] - 1).long()
        return cls(pixels.repeat(1, 2, 1), torch.cat([upper, whole - upper * 2.0**HALF], dim=1).float())

    def select(self, images: slice) -> SideWeights:
        """Return the weights of some of the images."""
        return SideWeights(self.pixels[images], self.halves[images])

    def to_dense(self, longest: int) -> torch.Tensor:
        """Return both halves of the weights as dense matrices: n × 2 · crop × longest."""
        matrix = self.halves.new_zeros((*self.halves.shape[:2], longest))
        return matrix.scatter_add_(2, self.pixels, self.halves)


def _evaluate_filter(resample: str, distance: torch.Tensor) -> torch.Tensor:
    """Evaluate a filter at a distance from its center."""
    torch = require("torch", "clip")
    x = distance.abs()
    if resample == "bilinear":
        return torch.where(x < 1, 1 - x, 0.0)  # type: ignore[no-any-return]
    near, far = (1.5 * x - 2.5) * x * x + 1, (((x - 5) * x + 8) * x - 4) * -0.5
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))  # type: ignore[no-any-return]


def _round_to_bytes(upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
    """Divide the sums of a pass, given for both halves of the weights, by 2²², round them, and clip them to bytes."""
    carried = lower.add_(2.0 ** (BITS - 1)).div_(2.0**HALF, rounding_mode="floor")
    return (upper + carried).div_(2.0 ** (BITS - HALF), rounding_mode="floor").clamp_(0, 255)


def count_padding_bytes(sizes: Ints) -> int:
    """Return how many bytes must follow images of these sizes in memory."""
    return 3 * _pad_sides(sizes)[0]


def _pad_sides(sizes: Ints) -> tuple[int, int]:
    """Return the longest width and the longest height, padded to a multiple of ``STEP``."""
    width, height = (-(-sizes.max(axis=0) // STEP) * STEP).tolist()
    return width, height


def _split_chunks(sizes: Ints) -> Iterator[slice]:
    """Yield slices of images that are resized together; sizes are sorted, so little is padded.

    >>> list(_split_chunks(np.array([(640, 480)] * 150)))
    [slice(0, 102, None), slice(102, 150, None)]
    """
    start, longest = 0, np.zeros(2, np.int64)
    for at, padded in enumerate(-(-sizes // STEP) * STEP):
        longest = np.maximum(longest, padded)
        if at > start and (at + 1 - start) * longest.prod() > CHUNK_PIXELS:
            yield slice(start, at)
            start, longest = at, padded
    yield slice(start, len(sizes))


@cache
def is_exact_on(preparation: ImagePreprocessing, device: Any) -> bool:
    """Return True if a device gives Pillow's pixels for noise images, enlarged and shrunk as far as possible.

    Otherwise Pillow must resize.
    """
    from PIL import Image

    torch = require("torch", "clip")
    if preparation.resample not in SUPPORT:
        return False
    side, chance = preparation.size, np.random.default_rng(0)
    largest = min(LARGEST_SCALE * side, math.isqrt(MOST_PIXELS))
    sizes = np.array([(3 * side, 2 * side + 3), (side + 5, side - 1), (largest, largest)])
    noise = [chance.integers(0, 256, (height, width, 3), np.uint8) for width, height in sizes.tolist()]
    flat = np.concatenate([*(one.ravel() for one in noise), np.zeros(count_padding_bytes(sizes), np.uint8)])
    starts = np.cumsum([0, *(one.size for one in noise[:-1])])
    images = FlatImages(torch.from_numpy(flat).to(device), starts, sizes, planar=False)
    squares = GpuResizer(preparation, device)(images)
    expected = np.stack([preparation.prepare(Image.fromarray(one)) for one in noise])
    return np.array_equal(squares.transpose(2, 3).cpu().numpy(), expected)
