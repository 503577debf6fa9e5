"""The video of a rating page: its addresses, and the events that the page can play alone."""

from __future__ import annotations

from dataclasses import dataclass

from captious.models.clip_stills import can_decode
from captious.studio._video_events import find_events, find_part
from captious.studio.collect.rating_tasks import Task

# Most events of a page.
MOST_EVENTS = 100


@dataclass(frozen=True)
class ClipView:
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
        tuple(events[:MOST_EVENTS]),
        part is not None,
    )
