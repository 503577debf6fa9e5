"""Events of videos on pages: the columns that contain them, and which caption describes which reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from captious.stats import compute_iou

# Start and end of an event in seconds.
Part = tuple[float, float]
# Columns of an item that is one event of a video.
PART = ("start", "end")
# Smallest overlap of a match.
MATCHING = 0.5


def find_part(fields: Mapping[str, Any]) -> Part | None:
    """Return the start and end of an item that is one event of a video; None if it is the whole video.

    >>> find_part({"start": 1.5, "end": 4}), find_part({"start": 4, "end": 1}), find_part({})
    ((1.5, 4.0), None, None)
    """
    part = parse_event([fields.get(name) for name in PART])
    return part if part and part[0] < part[1] else None


def find_events(value: Any) -> list[Part | None]:
    """Return the events of a column as pairs of seconds; an entry that is not an event becomes None.

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


class EventMatch(NamedTuple):
    """A caption of an event, and the reference whose event it overlaps most."""

    candidate: int
    reference: int
    iou: float


def match_events(events: Sequence[Part | None], references: Sequence[Part | None]) -> list[EventMatch]:
    """Match each event with the reference event of the largest overlap, if their IoU is at least one half.

    >>> match_events([(0, 9), (30, 40)], [(0, 10), (12, 20)])
    [EventMatch(candidate=0, reference=0, iou=0.9)]
    """
    if not events or not references:
        return []
    # An entry that is not an event is NaN, and so is its overlap.
    own, other = (np.array([event or (np.nan, np.nan) for event in side]) for side in (events, references))
    ious = np.nan_to_num(compute_iou(own[:, None, 0], own[:, None, 1], other[None, :, 0], other[None, :, 1]))
    best = zip(ious.argmax(axis=1).tolist(), ious.max(axis=1).tolist(), strict=True)
    return [
        EventMatch(candidate, reference, round(iou, 4))
        for candidate, (reference, iou) in enumerate(best)
        if iou >= MATCHING
    ]
