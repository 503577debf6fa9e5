"""The video of a rating page: its addresses, and the events that the page can play one by one."""

from __future__ import annotations

from dataclasses import dataclass

from captious.models.clip_stills import can_decode
from captious.studio._video_events import find_events, find_part
from captious.studio.collect.rating_tasks import Task

# Largest number of events on a page.
MAX_EVENTS = 100


@dataclass(frozen=True)
class ClipView:
    """The addresses and times with which a page plays the video of a task."""

    video: str
    """Address of the video."""
    poster: str
    """Address of the middle frame; empty if PyAV is not installed."""
    strip: str
    """Address of frames side by side, for browsers that cannot play the video; empty if PyAV is not installed."""
    events: tuple[tuple[float, float], ...] = ()
    """Start and end of the events in seconds."""
    is_part: bool = False
    """Whether the page is about one event, the only part that has to be watched."""

    @property
    def address(self) -> str:
        """The address of the video. If the page is about one event, it has the times, which browsers understand."""
        start, end = self.events[0] if self.is_part else (0.0, 0.0)
        return f"{self.video}#t={start:g},{end:g}" if self.is_part else self.video


def describe_clip(task: Task, page: str, folder: str = "") -> ClipView | None:
    """Describe the video of a task for a page below ``folder``; None if the task has none."""
    if task.video is None:
        return None
    part, has_stills = find_part(task.fields), can_decode()
    events = [part] if part else [event for event in find_events(task.fields.get("events")) if event]
    return ClipView(
        f"{folder}/video/{page}",
        f"{folder}/poster/{page}" if has_stills else "",
        f"{folder}/strip/{page}" if has_stills else "",
        tuple(events[:MAX_EVENTS]),
        part is not None,
    )
