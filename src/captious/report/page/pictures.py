"""Images small enough to live inside a page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

SIDE = 224
"""Longest side of a thumbnail in pixels."""


def thumbnails(paths: Sequence[str | None]) -> tuple[list[str], list[int | None]]:
    """Each different picture once as a data URI, and for every path the number of its picture."""
    distinct = list(dict.fromkeys(path for path in paths if path))
    with ThreadPoolExecutor() as pool:
        made = dict(zip(distinct, pool.map(_thumbnail, distinct), strict=True))
    numbers: dict[str, int] = {}
    for uri in made.values():
        if uri:
            numbers.setdefault(uri, len(numbers))
    return list(numbers), [numbers.get(made[path] or "") if path else None for path in paths]


def _thumbnail(path: str) -> str | None:
    from PIL import Image, ImageOps, features

    kind = "webp" if features.check("webp") else "jpeg"
    buffer = BytesIO()
    try:
        with Image.open(path) as picture:
            picture.thumbnail((SIDE, SIDE))
            small = ImageOps.exif_transpose(picture).convert("RGBA")
        white = Image.new("RGBA", small.size, "white")
        Image.alpha_composite(white, small).convert("RGB").save(buffer, kind, quality=80)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return f"data:image/{kind};base64,{b64encode(buffer.getvalue()).decode()}"
