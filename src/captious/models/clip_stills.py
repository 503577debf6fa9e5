"""Stills of videos for pages: a poster of the middle frame, a strip of frames, and the times of all frames."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from captious._core.files import digest, get_data_folder, write_atomically
from captious._core.frame_rules import FrameRule
from captious.captions import Clip
from captious.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

# Longest side of a poster in pixels.
SIDE = 320
# Frames of a strip, and the longest side of each in pixels.
FRAMES, FRAME_SIDE = 6, 200
QUALITY = 82
# Largest number of frames whose times a page gets; after them, it steps by a constant time.
MOST_TIMES = 20_000
# A page requests many stills at once; they are decoded one after another.
_DECODING = Lock()


@cache
def can_decode() -> bool:
    """Return True if PyAV is installed; without it there are no stills, and browsers show the first frame."""
    return importlib.util.find_spec("av") is not None


def make_poster(path: Path, part: tuple[float, float] | None = None, kept: Path | None = None) -> bytes | None:
    """Return the middle frame of a video, or of a part of it, as a JPEG of at most 320 pixels.

    Stills are cached in the data folder of the user, or in ``kept``. None if the video cannot be decoded.
    """
    return _make_still(path, part, 1, _scale_frame, kept)


def make_strip(path: Path, part: tuple[float, float] | None = None, kept: Path | None = None) -> bytes | None:
    """Return frames of a video, or of a part of it, side by side as one JPEG; None if it cannot be decoded."""
    return _make_still(path, part, FRAMES, _join_frames, kept)


def _make_still(
    path: Path,
    part: tuple[float, float] | None,
    number: int,
    draw: Callable[[Sequence[Image]], Image],
    kept: Path | None,
) -> bytes | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    marks = (facts.st_mtime_ns, facts.st_size, number, part, SIDE, FRAME_SIDE)
    key = digest(os.fsencode(path), *(str(mark).encode() for mark in marks))
    stored = (kept or get_data_folder() / "thumbnails") / key[:2] / f"{key}.jpeg"
    if stored.is_file():
        return stored.read_bytes()
    frames = _read_frames(path, part, number)
    if not frames:
        return None
    buffer = BytesIO()
    draw(frames).convert("RGB").save(buffer, "jpeg", quality=QUALITY)
    with write_atomically(stored) as draft:
        draft.write_bytes(buffer.getvalue())
    return buffer.getvalue()


def _read_frames(path: Path, part: tuple[float, float] | None, number: int) -> list[Image]:
    """Return frames from the middle of equal parts; none if the video cannot be decoded."""
    # Pages ask `can_decode` whether they have videos or not; the decoders need engines and encoders.
    from captious.models.clip_frames import read_frames

    clip = Clip(str(path), *(part or (None, None)))
    with _DECODING:
        (frames,) = read_frames([clip], FrameRule("middle", number))
    return list(frames.images)


def read_times(path: Path) -> list[float] | None:
    """Return the time at which each frame of a video is shown, in seconds; None if PyAV cannot decode the file.

    A worker process reads the packets, because a malicious file can crash FFmpeg.
    """
    from captious.models.clip_frames import open_clip_decoders

    with _DECODING, open_clip_decoders([None], 1) as lend, lend() as process:
        try:
            with process.limit_time(str(path)):
                try:
                    times = process.open(str(path)).timeline.times
                finally:
                    process.finish()
        except InputError:
            return None
    return [round(float(time), 4) for time in times[:MOST_TIMES]]


def _scale_frame(frames: Sequence[Image]) -> Image:
    frames[0].thumbnail((SIDE, SIDE))
    return frames[0]


def _join_frames(frames: Sequence[Image]) -> Image:
    from PIL import Image

    for frame in frames:
        frame.thumbnail((FRAME_SIDE, FRAME_SIDE))
    strip = Image.new("RGB", (sum(frame.width for frame in frames), max(frame.height for frame in frames)))
    left = 0
    for frame in frames:
        strip.paste(frame, (left, 0))
        left += frame.width
    return strip
