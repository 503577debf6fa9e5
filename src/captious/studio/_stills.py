"""Still images of videos: a poster of the middle frame, and a strip of frames for browsers that do not play a video."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from captious._core.files import digest, get_data_folder, write_atomically
from captious.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

# Longest side of a poster in pixels.
SIDE = 320
# Frames of a strip, and the longest side of each in pixels.
FRAMES, FRAME_SIDE = 6, 200
QUALITY = 82


@cache
def can_decode() -> bool:
    """Return True if PyAV is installed; without it there are no stills, and browsers show the first frame."""
    return importlib.util.find_spec("av") is not None


def make_poster(path: Path, kept: Path | None = None) -> bytes | None:
    """Return the middle frame of a video as a JPEG of at most 320 pixels, cached; None if it cannot be decoded."""
    return _make_still(path, "middle:1", _scale_frame, kept)


def make_strip(path: Path, kept: Path | None = None) -> bytes | None:
    """Return frames of a video side by side as one JPEG, cached; None if they cannot be decoded."""
    return _make_still(path, f"middle:{FRAMES}", _join_frames, kept)


def _make_still(path: Path, rule: str, draw: Callable[[Sequence[Image]], Image], kept: Path | None) -> bytes | None:
    try:
        facts = path.stat()
        key = digest(os.fsencode(path), rule.encode(), *(str(fact).encode() for fact in (facts.st_mtime_ns, facts.st_size)))
        stored = (kept or get_data_folder() / "thumbnails") / key[:2] / f"{key}.jpeg"
        if stored.is_file():
            return stored.read_bytes()
        frames = read_frames(path, rule)
    except (InputError, OSError):
        return None
    buffer = BytesIO()
    draw(frames).save(buffer, "jpeg", quality=QUALITY)
    with write_atomically(stored) as draft:
        draft.write_bytes(buffer.getvalue())
    return buffer.getvalue()


def read_frames(path: Path, rule: str) -> list[Image]:
    raise NotImplementedError


def _scale_frame(frames: Sequence[Image]) -> Image:
    frames[0].thumbnail((SIDE, SIDE))
    return frames[0]


def _join_frames(frames: Sequence[Image]) -> Image:
    from PIL import Image

    for frame in frames:
        frame.thumbnail((FRAME_SIDE, FRAME_SIDE))
    strip = Image.new("RGB", (sum(frame.width for frame in frames), max(frame.height for frame in frames)))
    at = 0
    for frame in frames:
        strip.paste(frame, (at, 0))
        at += frame.width
    return strip
