"""Image preparation on a GPU: it resizes decoded images, and optionally decodes JPEG files.

It resizes as Pillow does, to the last bit (`captious.models._gpu.resizing`). With ``decode=fast`` nvJPEG decodes the
files. It rounds differently, so scores change a little: the option is part of signatures, and its features are
cached separately. Files that are not plain RGB JPEG are decoded by Pillow as always (`captious.models.decoding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from captious.errors import InputError, require
from captious.io.images import UnreadableImage, decode_image
from captious.models._gpu.resizing import (
    SUPPORT,
    DecodeOnly,
    FlatImages,
    GpuResizer,
    count_padding_bytes,
    is_exact_on,
)
from captious.models._gpu.transfers import copy_pinned, get_stream, send, send_each
from captious.models._preprocess import ImagePreprocessing
from captious.models.decoding import WholeImage
from captious.models.encoder import Encoder, Pixels, TextEncoder
from captious.options import Decoding

if TYPE_CHECKING:
    import torch

Named = TypeVar("Named")


def is_on_gpu(encoder: TextEncoder) -> bool:
    """Return True if an encoder computes on a GPU, through torch."""
    return str(getattr(encoder, "device", "cpu")).startswith("cuda") and hasattr(encoder, "text_tensor")


def make_gpu_preparation(encoder: Encoder, decode: Decoding) -> GpuPreparation | None:
    """Return the image preparation on the encoder's GPU; None without a GPU, or if it could not resize exactly.

    With ``decode="fast"`` InputError is raised instead of returning None.
    """
    preparation: Any = getattr(encoder, "preparation", None)
    device = getattr(encoder, "device", "cpu")
    possible = is_on_gpu(encoder) and isinstance(preparation, ImagePreprocessing)
    if decode == "fast":
        if not possible:
            raise InputError(f"decode='fast': {encoder.name} runs on {device}, expected a model of torch on a GPU")
        if preparation.resample not in SUPPORT:
            raise InputError(
                f"decode='fast': {encoder.name} resizes with {preparation.resample}, expected {' or '.join(SUPPORT)}"
            )
        require("torchvision", "decode")
    elif not possible:
        return None
    on_device = require("torch", "clip").device(device)
    if decode == "exact" and not is_exact_on(preparation, on_device):
        return None
    return GpuPreparation(preparation, on_device)


class GpuPreparation:
    """Converts prepared images, whole images and JPEG files to squares of pixels on a device."""

    def __init__(self, preparation: ImagePreprocessing, device: torch.device) -> None:
        self.device, self.side = device, preparation.crop
        self.decode_only = DecodeOnly(preparation)
        self.resize = GpuResizer(preparation, device)

    def keep(self, block: Pixels) -> Pixels:
        """Copy a block of pixels of whole images to pinned memory, from which transfers to the GPU are faster."""
        return copy_pinned(block, self.device)

    def decode_group(self, group: tuple[Named, list[Pixels | bytes]]) -> tuple[Named, list[Pixels | torch.Tensor]]:
        """Decode the images of a group; the first element of the pair is passed through."""
        named, images = group
        return named, self.decode(images)

    def decode(self, images: Sequence[Pixels | bytes]) -> list[Pixels | torch.Tensor]:
        """Decode files on the device to 3 × height × width bytes, empty on failure; other images are passed through."""
        pictures = iter(self._decode_files([image for image in images if isinstance(image, bytes)]))
        return [next(pictures) if isinstance(image, bytes) else image for image in images]

    def _decode_files(self, files: Sequence[bytes]) -> list[torch.Tensor]:
        """Decode files by nvJPEG. A group that it refuses is halved; a single refused file is decoded by Pillow."""
        if not files:
            return []
        torch, reading = require("torch", "clip"), require("torchvision.io", "decode")
        data = [torch.frombuffer(bytearray(content), dtype=torch.uint8) for content in files]
        try:
            # nvJPEG writes immediately: it must not get memory that kernels of the computing stream will still use.
            with torch.cuda.stream(get_stream("decoding", self.device)):
                return reading.decode_jpeg(data, mode=reading.ImageReadMode.RGB, device=self.device)  # type: ignore[no-any-return]
        except RuntimeError:
            if len(files) == 1:
                return [self._decode_by_pillow(files[0])]
        half = len(files) // 2
        return self._decode_files(files[:half]) + self._decode_files(files[half:])

    def make_squares(self, images: Sequence[Any]) -> tuple[torch.Tensor, list[int]]:
        """Return squares of all images, n × side × side × 3 bytes, and the indices of undecodable images."""
        torch = require("torch", "clip")
        unprepared = [index for index, image in enumerate(images) if isinstance(image, WholeImage)]
        decoded = [index for index, image in enumerate(images) if torch.is_tensor(image) and image.numel()]
        prepared = [index for index, image in enumerate(images) if isinstance(image, np.ndarray)]
        broken = sorted(set(range(len(images))).difference(unprepared, decoded, prepared))
        # The resizer returns side × 3 × side (channels in the middle), so all parts have this layout until the end.
        parts = [torch.zeros((len(broken), self.side, 3, self.side), dtype=torch.uint8, device=self.device)]
        if unprepared:
            parts.append(self.resize(self._send_whole([images[index] for index in unprepared])))
        if decoded:
            parts.append(self.resize(self._flatten_decoded([images[index] for index in decoded])))
        if prepared:
            parts.append(send([images[index] for index in prepared], self.device).transpose(2, 3))
        # The parts are concatenated by kind; `order` restores the order of the input.
        order = send(np.argsort(broken + unprepared + decoded + prepared), self.device)
        return torch.cat(parts).index_select(0, order).transpose(2, 3), broken

    def _send_whole(self, images: Sequence[WholeImage]) -> FlatImages:
        """Copy whole images to the device; a block that several images share is copied once."""
        torch = require("torch", "clip")
        # Images that were decoded together share a block; `starts` is the offset of each block on the device.
        blocks = {id(image.block): image.block for image in images}
        starts = dict(zip(blocks, np.cumsum([0, *(len(block) for block in blocks.values())]).tolist(), strict=False))
        sizes = np.array([(image.width, image.height) for image in images])
        sent = send_each([torch.from_numpy(block) for block in blocks.values()], self.device)
        pixels = torch.cat([*sent, sent[0].new_zeros(count_padding_bytes(sizes))])
        begins = np.array([starts[id(image.block)] + image.start for image in images])
        return FlatImages(pixels, begins, sizes, planar=False)

    def _flatten_decoded(self, pictures: Sequence[torch.Tensor]) -> FlatImages:
        """Concatenate images on the device, each 3 × height × width bytes, to one tensor."""
        torch = require("torch", "clip")
        if self.device.type == "cuda":
            # The decoding stream allocated them: without this, their memory could be reused while this stream reads it.
            for picture in pictures:
                picture.record_stream(torch.cuda.current_stream(self.device))
        sizes = np.array([picture.shape[:0:-1] for picture in pictures])  # (width, height) of 3 × height × width
        padding = pictures[0].new_zeros(count_padding_bytes(sizes))
        # A private function of torch, because it flattens all images in one call instead of hundreds of views.
        pixels = require("torch._utils", "clip")._flatten_dense_tensors([*pictures, padding])
        lengths = 3 * sizes.prod(axis=1)
        return FlatImages(pixels, np.cumsum(lengths) - lengths, sizes, planar=True)

    def _decode_by_pillow(self, content: bytes) -> torch.Tensor:
        """Decode a file by Pillow and copy it to the device; return an empty tensor if Pillow fails too."""
        torch = require("torch", "clip")
        try:
            picture = np.array(decode_image(content, "image").convert("RGB"))
        except UnreadableImage:
            return torch.empty((3, 0, 0), dtype=torch.uint8, device=self.device)  # type: ignore[no-any-return]
        return torch.from_numpy(picture).to(self.device).permute(2, 0, 1).contiguous()  # type: ignore[no-any-return]
