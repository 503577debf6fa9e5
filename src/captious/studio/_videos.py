"""Videos of pages: events, a poster of the middle frame, and a strip of frames for browsers that do not play them."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from captious._core.files import digest, get_data_folder, write_atomically
from captious._core.frame_rules import FrameRule
from captious.captions import Clip
from captious.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

# Start and end of an event in seconds.
Part = tuple[float, float]
# Columns with start and end of each caption and of each reference.
# Those of an item that is one event of a video are two columns.
PART = ("start", "end")
EVENTS, REFERENCE_EVENTS = "events", "reference_events"
# Smallest overlap of a match.
MATCHING = 0.5
# Longest side of a poster in pixels.
SIDE = 320
# Frames of a strip, and the longest side of each in pixels.
FRAMES, FRAME_SIDE = 6, 200
QUALITY = 82
# Most frames whose times a page is told; it steps through longer clips by the same distance.
MOST_TIMES = 20_000
# A page asks for many stills at once; one worker process after the other decodes them.
_DECODING = Lock()


def find_part(fields: Mapping[str, Any]) -> Part | None:
    """Return the start and end of an item that is one event of a video; None if it is the whole video.

    >>> find_part({"start": 1.5, "end": 4}), find_part({"start": 4, "end": 1}), find_part({})
    ((1.5, 4.0), None, None)
    """
    part = parse_event([fields.get(name) for name in PART])
    return part if part and part[0] < part[1] else None


def find_events(value: Any) -> list[Part | None]:
    """Return the events of a column as pairs of seconds, None in the place of what is not one.

    >>> find_events([[0, 2.5], [3, 1], "x", None, [4, 5]])
    [(0.0, 2.5), None, None, None, (4.0, 5.0)]
    """
    return [parse_event(pair) for pair in value] if isinstance(value, (list, tuple)) else []


def parse_event(pair: Any) -> Part | None:
    """Return the start and end of an event in seconds; None if the value is not one."""
    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not all(map(_is_time, pair)) or pair[0] > pair[1]:
        return None
    return float(pair[0]), float(pair[1])


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


class Match(NamedTuple):
    """A caption of an event, and the reference whose event it overlaps most."""

    candidate: int
    reference: int
    iou: float


def match_events(events: Sequence[Part | None], references: Sequence[Part | None]) -> list[Match]:
    """Match each event with the reference event of the largest overlap, if their IoU is at least one half.

    The IoU is that of densevid_eval, whose denominator never exceeds the sum of both lengths.

    >>> match_events([(0, 9), (30, 40)], [(0, 10), (12, 20)])
    [Match(candidate=0, reference=0, iou=0.9)]
    """
    matches = []
    for candidate, event in enumerate(events):
        ious = [_compute_iou(event, other) if event and other else 0.0 for other in references]
        best = max(range(len(ious)), key=ious.__getitem__, default=0)
        if ious and ious[best] >= MATCHING:
            matches.append(Match(candidate, best, round(ious[best], 4)))
    return matches


def _compute_iou(one: Part, other: Part) -> float:
    both = max(0.0, min(one[1], other[1]) - max(one[0], other[0]))
    either = max(one[1], other[1]) - min(one[0], other[0])
    return both / (min(either, one[1] - one[0] + other[1] - other[0]) + 1e-8)


@cache
def can_decode() -> bool:
    """Return True if PyAV is installed; without it there are no stills, and browsers show the first frame."""
    return importlib.util.find_spec("av") is not None


def make_poster(path: Path, part: Part | None = None, kept: Path | None = None) -> bytes | None:
    """Return the middle frame of a video, or of a part of it, as a JPEG of at most 320 pixels.

    Stills are cached in the data folder of the user, or in ``kept``. None if the video cannot be decoded.
    """
    return _make_still(path, part, 1, _scale_frame, kept)


def make_strip(path: Path, part: Part | None = None, kept: Path | None = None) -> bytes | None:
    """Return frames of a video, or of a part of it, side by side as one JPEG; None if it cannot be decoded."""
    return _make_still(path, part, FRAMES, _join_frames, kept)


def _make_still(
    path: Path, part: Part | None, number: int, draw: Callable[[Sequence[Image]], Image], kept: Path | None
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


def _read_frames(path: Path, part: Part | None, number: int) -> list[Image]:
    """Return frames from the middle of equal parts; none if the video cannot be decoded."""
    from captious.models.clip_frames import read_frames

    clip = Clip(str(path), *(part or (None, None)))
    with _DECODING:
        (frames,) = read_frames([clip], FrameRule("middle", number))
    return list(frames.images)


def read_times(path: Path) -> list[float] | None:
    """Return when each frame of a video is shown, in seconds; None if it is not a file that PyAV decodes.

    A worker process reads the packets, since a crafted file can crash FFmpeg.
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
    at = 0
    for frame in frames:
        strip.paste(frame, (at, 0))
        at += frame.width
    return strip
