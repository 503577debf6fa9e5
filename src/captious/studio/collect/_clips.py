"""The video of a rating page: its addresses, and the events that the page can play alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from captious.studio._stills import can_decode
from captious.studio.collect.rating_tasks import Task

# Most events of a page.
MOST_EVENTS = 100


@dataclass(frozen=True)
class Clip:
    """What a page needs to play the video of a task."""

    video: str
    poster: str
    """Address of the middle frame; empty if nothing here decodes videos."""
    strip: str
    """Address of frames side by side, for browsers that do not play the video; empty as the poster is."""
    events: tuple[tuple[float, float], ...] = ()
    """Start and end of the events in seconds."""
    is_part: bool = False
    """Whether the page is about one event, the only part that has to be watched."""

    @property
    def address(self) -> str:
        """The address of the video; of an event with its times, which browsers understand without a script."""
        start, end = self.events[0] if self.is_part else (0.0, 0.0)
        return f"{self.video}#t={start:g},{end:g}" if self.is_part else self.video


def describe_clip(task: Task, page: str, folder: str = "") -> Clip | None:
    """Describe the video of a task for a page below ``folder``; None if the task has none."""
    if task.video is None:
        return None
    part = find_part(task.fields)
    stills = [f"{folder}/{name}/{page}" if can_decode() else "" for name in ("poster", "strip")]
    events = (part,) if part else find_events(task.fields.get("events"))
    return Clip(f"{folder}/video/{page}", *stills, events, part is not None)


def find_part(fields: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the start and end of an item that is one event of a video; None if it is the whole video.

    >>> find_part({"start": 1.5, "end": 4}), find_part({"start": 4, "end": 1}), find_part({})
    ((1.5, 4.0), None, None)
    """
    parts = find_events([[fields.get("start"), fields.get("end")]])
    return parts[0] if parts else None


def find_events(value: Any) -> tuple[tuple[float, float], ...]:
    """Return the events of a column as pairs of seconds, without what is not one.

    >>> find_events([[0, 2.5], [3, 1], "x", None, [4, 5]])
    ((0.0, 2.5), (4.0, 5.0))
    """
    if not isinstance(value, (list, tuple)):
        return ()
    pairs = [pair for pair in value[:MOST_EVENTS] if isinstance(pair, (list, tuple)) and len(pair) == 2]
    return tuple((float(start), float(end)) for start, end in pairs if _is_time(start) and _is_time(end) and start < end)


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
