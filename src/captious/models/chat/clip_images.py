"""Frames of videos as the images of one message to a chat model, in order, with their times in its text."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from captious._core.frame_rules import FrameRule
from captious.captions import CaptionSet, Clip, ImageSource
from captious.models.chat.messages import ImageGroup
from captious.options import get_runtime

if TYPE_CHECKING:
    from PIL.Image import Image

    from captious.models.clip_frames import ClipFrames

# Frames are sent as JPEG of this quality, their longer side reduced to this number of pixels.
QUALITY, LONGEST_SIDE = 90, 768
# The first sentence of a message with frames.
SEVERAL = "These are {number} frames of one video, in order{times}."
SINGLE = "This is a frame of a video{times}."


@dataclass(eq=False)
class FrameFiles:
    """JPEG files of frames in a temporary folder of this process: a set of videos may not fit into memory."""

    folder: TemporaryDirectory[str] = field(default_factory=lambda: TemporaryDirectory(prefix="captious-frames-"))
    groups: dict[Any, ImageGroup | str] = field(default_factory=dict)
    """The frames of each clip, or why it has none."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, clips: Sequence[Clip], rule: FrameRule, most: int) -> dict[Clip, ImageGroup | str]:
        """Return the frames of each clip, or why it has none; each clip is decoded once."""
        # Judges and the studio import this module; only videos need the decoders.
        from captious.models.clip_frames import read_frames

        keys = {clip: (clip, rule, most, get_runtime().upright, *_get_stamp(clip)) for clip in clips}
        with self.lock:
            missing = [clip for clip, key in keys.items() if key not in self.groups]
            for done, (clip, frames) in enumerate(zip(missing, read_frames(missing, rule), strict=True), 1):
                self.groups[keys[clip]] = self._write(clip, frames, most)
                get_runtime().progress("videos", done, len(missing))
            return {clip: self.groups[key] for clip, key in keys.items()}

    def _write(self, clip: Clip, frames: ClipFrames, most: int) -> ImageGroup | str:
        if frames.fault is not None or not frames.images:
            return (frames.fault or "has no frames").removeprefix(f"{clip}: ")
        chosen = FrameRule("uniform", most).choose(frames.times).tolist()
        paths = []
        for number in chosen:
            path = Path(self.folder.name) / f"{len(self.groups)}-{number}.jpg"
            path.write_bytes(encode_frame(frames.images[number]))
            paths.append(str(path))
        sentence = describe_times([frames.times[number] for number in chosen])
        return ImageGroup(paths, sentence, str(clip), frames.counts)


# By process: a fork must not remove the files of its parent.
_FILES: dict[int, FrameFiles] = {}


def limit_rule(rule: FrameRule, number: int) -> FrameRule:
    """Return the rule that takes this number of frames; a rule by time or key frames stays, and is thinned later.

    >>> str(limit_rule(FrameRule("middle", 10), 8)), str(limit_rule(FrameRule("fps", 1), 8))
    ('middle:8', 'fps:1')
    """
    return replace(rule, number=number) if rule.wants else rule


def describe_frames(captions: CaptionSet) -> Mapping[str, str]:
    """Return the entries of a signature about frames: which are sent, and how large they are at most."""
    number = get_runtime().judging.judge_frames
    rule = limit_rule(captions.frames, number)
    return {"frames": str(rule) if rule.wants else f"{rule},uniform:{number}", "image": str(LONGEST_SIDE)}


def attach_frames(captions: CaptionSet) -> tuple[CaptionSet, dict[int, str]]:
    """Return the set with the frames of each video as its image, and why a video has none, by the item's index."""
    if not captions.has_videos:
        return captions, {}
    number = get_runtime().judging.judge_frames
    key = ("attached frames", number, captions.frames, get_runtime().upright)
    return captions.once(key, lambda: _attach_frames(captions, limit_rule(captions.frames, number), number))


def _attach_frames(captions: CaptionSet, rule: FrameRule, most: int) -> tuple[CaptionSet, dict[int, str]]:
    clips = captions.clips
    distinct = list(dict.fromkeys(clip for clip in clips if clip is not None))
    groups = _FILES.setdefault(os.getpid(), FrameFiles()).load(distinct, rule, most)
    pictures: list[ImageSource | None] = list(captions.images)
    faults: dict[int, str] = {}
    for index, clip in enumerate(clips):
        if clip is None:
            continue
        group = groups[clip]
        if isinstance(group, str):
            faults[index] = f"video: {group}"
        else:
            pictures[index] = group
    columns = {**captions.columns, "image": tuple(pictures)}
    attached = replace(captions, columns=columns)
    attached.keep("item ids", captions.item_ids)
    return attached, faults


def count_frames(attached: CaptionSet) -> dict[str, int]:
    """Count the clips of a set that are short, end too early or are stored rotated, for signatures."""
    groups = [image for image in attached.images if isinstance(image, ImageGroup)]
    return {name: sum(group.counts.get(name, 0) for group in groups) for name in ("short", "cut", "rotated")}


def encode_frame(image: Image) -> bytes:
    """Encode a frame as JPEG, reduced to the largest side that is sent."""
    small = image.convert("RGB")
    small.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    buffer = BytesIO()
    small.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def describe_times(times: Sequence[float]) -> str:
    """Return the sentence that introduces the images of a message.

    >>> describe_times([0.0, 1.25]), describe_times([math.nan, math.nan])
    ('These are 2 frames of one video, in order, at 0.0 s, 1.2 s.', 'These are 2 frames of one video, in order.')
    """
    has_times = not any(math.isnan(time) for time in times)
    where = f", at {', '.join(f'{time:.1f} s' for time in times)}" if has_times else ""
    return (SINGLE if len(times) == 1 else SEVERAL).format(number=len(times), times=where)


def _get_stamp(clip: Clip) -> tuple[Any, ...]:
    """Return modification time and size of a video file, so that a changed file is read again."""
    if not isinstance(clip.video, str):
        return ()
    try:
        status = Path(clip.video).stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size


def split_frames(image: ImageSource) -> list[ImageSource]:
    """Return the frames of a video one by one; an image is its only frame."""
    return list(image.images) if isinstance(image, ImageGroup) else [image]
