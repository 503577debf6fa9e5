"""JPEG files to squares of pixels on a GPU: nvJPEG decodes them, and torch resizes with the filter that Pillow has.

This is several times as fast as Pillow on many cores. It rounds differently, so scores move a little:
``decode=fast`` is an option, stands in signatures, and has features of its own in the cache. Files that are no plain
RGB JPEG are decoded by Pillow as always (`captious.models.decoding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from captious.errors import InputError, require
from captious.io.images import UnreadableImage, decode_image
from captious.models._preprocess import ImagePreprocessing
from captious.models.encoder import Pixels

if TYPE_CHECKING:
    import torch

Named = TypeVar("Named")
FILTERS = ("bicubic", "bilinear")
"""What torch can resize with as Pillow does: the filter widens where an image shrinks."""


class GpuPreparation:
    """Prepared images and JPEG files as one tensor of n × height × width × 3, in two steps.

    `decode` may run in a thread of its own, ahead of the other.
    """

    def __init__(self, encoder: Any) -> None:
        preparation = getattr(encoder, "preparation", None)
        device = str(getattr(encoder, "device", "cpu"))
        if not device.startswith("cuda") or not isinstance(preparation, ImagePreprocessing):
            raise InputError(f"decode='fast': {encoder.name} runs on {device}, expected a model of torch on a GPU")
        if preparation.resample not in FILTERS:
            raise InputError(
                f"decode='fast': {encoder.name} resizes with {preparation.resample}, expected {' or '.join(FILTERS)}"
            )
        require("torchvision", "decode")
        self.preparation, self.device = preparation, encoder.device

    def decode_group(self, group: tuple[Named, list[Pixels | bytes]]) -> tuple[Named, list[Pixels | torch.Tensor]]:
        """Decode the images of a group, and keep what belongs to it."""
        named, images = group
        return named, self.decode(images)

    def decode(self, images: Sequence[Pixels | bytes]) -> list[Pixels | torch.Tensor]:
        """The same images with files as 3 × height × width bytes on the device."""
        torch = require("torch", "clip")
        reading = require("torchvision.io", "decode")
        files = [image for image in images if isinstance(image, bytes)]
        data = [torch.frombuffer(bytearray(content), dtype=torch.uint8) for content in files]
        try:
            decoded = reading.decode_jpeg(data, mode=reading.ImageReadMode.RGB, device=self.device) if data else []
        except RuntimeError:  # it refuses one of them, and does not say which
            decoded = [self._decoded_alone(content) for content in files]
        pictures = iter(decoded)
        return [next(pictures) if isinstance(image, bytes) else image for image in images]

    def resize(self, images: Sequence[Pixels | torch.Tensor]) -> torch.Tensor:
        """Squares of all images; NaN where the file of an image cannot be decoded."""
        torch = require("torch", "clip")
        side = self.preparation.crop
        squares = torch.empty((len(images), 3, side, side), device=self.device)
        for square, image in zip(squares.unbind(), images, strict=True):
            if isinstance(image, np.ndarray):
                square.copy_(torch.from_numpy(np.array(image)).permute(2, 0, 1))
            else:
                square.copy_(resized(image, self.preparation) if image.numel() else torch.tensor(torch.nan))
        return squares.clamp_(0, 255).round_().permute(0, 2, 3, 1)  # type: ignore[no-any-return]

    def _decoded_alone(self, content: bytes) -> torch.Tensor:
        """What Pillow makes of a file, on the device; nothing where it cannot decode it either."""
        torch = require("torch", "clip")
        try:
            picture = np.array(decode_image(content, "image").convert("RGB"))
        except UnreadableImage:
            return torch.empty(0, device=self.device)  # type: ignore[no-any-return]
        return torch.from_numpy(picture).to(self.device).permute(2, 0, 1)  # type: ignore[no-any-return]


def resized(picture: torch.Tensor, preparation: ImagePreprocessing) -> torch.Tensor:
    """3 × crop × crop values of a picture of 3 × height × width bytes, not yet rounded."""
    functional = require("torch.nn.functional", "clip")
    height, width = picture.shape[1:]
    wide, high = preparation.resized(width, height)
    if (wide, high) == (width, height):
        scaled = picture[None].float()
    else:
        scaled = functional.interpolate(
            picture[None].float(), size=(high, wide), mode=preparation.resample, antialias=True, align_corners=False
        )
    left, top = preparation.offset(wide), preparation.offset(high)
    return scaled[0, :, top : top + preparation.crop, left : left + preparation.crop]
