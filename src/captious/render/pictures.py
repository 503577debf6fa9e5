"""Pictures small enough to live inside a page."""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 224
"""Longest side of a thumbnail in pixels."""
Source = str | npt.NDArray[np.uint8] | None


def thumbnails(paths: Sequence[str | None]) -> tuple[list[str], list[int | None]]:
    """Each different picture once as a data URI, and for every path the number of its picture."""
    distinct = list(dict.fromkeys(path for path in paths if path))
    with ThreadPoolExecutor() as pool:
        uris = dict(zip(distinct, pool.map(thumbnail, distinct), strict=True))
    numbers: dict[str, int] = {}
    for uri in uris.values():
        if uri:
            numbers.setdefault(uri, len(numbers))
    return list(numbers), [numbers.get(uris[path] or "") if path else None for path in paths]


def thumbnail(source: Source) -> str | None:
    """A file or an array of pixels as a data URI; None where it cannot be read."""
    from PIL import Image, features

    kind = "webp" if features.check("webp") else "jpeg"
    buffer = BytesIO()
    try:
        small = _small(source)
        white = Image.new("RGBA", small.size, "white")
        Image.alpha_composite(white, small).convert("RGB").save(buffer, kind, quality=80)
    except (OSError, ValueError, TypeError, SyntaxError, MemoryError, Image.DecompressionBombError):
        return None
    return f"data:image/{kind};base64,{b64encode(buffer.getvalue()).decode()}"


def _small(source: Source) -> Image:
    from PIL import Image, ImageOps

    if not isinstance(source, str):
        picture: Image.Image = Image.fromarray(np.asarray(source, dtype=np.uint8))
        picture.thumbnail((SIDE, SIDE))
        return picture.convert("RGBA")
    if not Path(source).is_file():  # A named pipe would keep the reader waiting for ever.
        raise OSError(f"{source}: is no file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with Image.open(source) as opened:
            picture = _eight_bits(opened)
            picture.thumbnail((SIDE, SIDE))
            return ImageOps.exif_transpose(picture).convert("RGBA")


def _eight_bits(picture: Any) -> Image:
    """Grey levels of 16 or 32 bits brought into the range of a byte, which PIL itself would cut off at white."""
    from PIL import Image

    if picture.mode[0] not in "IF":
        return picture  # type: ignore[no-any-return]
    levels = np.asarray(picture, dtype=np.float64)
    white = 255.0 if levels.max(initial=0) <= 255 else max(65535.0, levels.max())
    return Image.fromarray((255 * np.clip(levels, 0, white) / white).astype(np.uint8))
