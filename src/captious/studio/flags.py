"""Flags: what an owner should know of a rater, each with its reason in words. No flag rejects anybody."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Literal, NamedTuple

import numpy as np

from captious._typing import Floats
from captious.studio.events import Event
from captious.studio.plan import Checks

FlagName = Literal["checks", "speed", "same answer", "repeats", "agreement"]
LEAST = 5
"""Pages that a rater must have answered before speed, sameness and agreement say anything."""
SAME, COMMON = 0.95, 0.6
"""Share of a rater's pages with one answer that is flagged, unless so many pages of the others have it too."""
FAR = 0.5
"""A rater is far below with less than this share of what the best quarter of raters reach, if that is no accident."""
CROWD, TOGETHER = 10, timedelta(minutes=1)
"""So many raters who joined within this time and have answered nothing are suspicious."""
SILENT = 10
"""Somebody who opened a task this many times the expected time ago, and has never answered, is suspicious."""
NAN = float("nan")


class Flag(NamedTuple):
    """One thing that is odd."""

    name: FlagName
    reason: str


@dataclass(frozen=True)
class Part:
    """One rater's part in Krippendorff's alpha: 1 for full agreement with the others, about 0 for random answers."""

    alpha: float = NAN
    error: float = NAN
    """Standard error over tasks."""
    tasks: int = 0
    """Tasks that others answered too."""

    @property
    def upper(self) -> float:
        """Upper end of the 99 % interval."""
        return self.alpha + 2.576 * self.error

    @classmethod
    def of(cls, distances: Floats, tasks: Sequence[str]) -> Part:
        """From the disagreement of each rating with the others (``stats.agreement``), and the task of each."""
        paired = np.flatnonzero(~np.isnan(distances)).tolist()
        names = {tasks[index] for index in paired}
        if not paired:
            return cls()
        mean = float(distances[paired].mean())
        residuals: dict[str, float] = dict.fromkeys(names, 0.0)
        for index in paired:
            residuals[tasks[index]] += float(distances[index]) - mean
        if len(names) < 2:
            return cls(1 - mean, NAN, len(names))
        correction = math.sqrt(len(names) / (len(names) - 1))
        error = math.sqrt(sum(one * one for one in residuals.values())) / len(paired) * correction
        return cls(1 - mean, error, len(names))


def pattern(form: Mapping[str, str]) -> str:
    """What was clicked on a page, whatever the captions were: one value where all are equal, else all of them.

    >>> pattern({"rating:0:overall": "3", "rating:1:overall": "3"}), pattern({"rank:0": "1", "rank:1": "2"})
    ('3', '1 2')
    """
    values = list(form.values())
    return values[0] if len({*values}) == 1 else " ".join(values)


def reference_agreement(parts: Sequence[Part]) -> float:
    """What the best quarter of raters reach; NaN without three raters to compare."""
    alphas = [part.alpha for part in parts if part.tasks >= LEAST and not math.isnan(part.alpha)]
    return float(np.percentile(alphas, 75)) if len(alphas) >= 3 else NAN


@dataclass(frozen=True)
class Evidence:
    """What flags are made of, for one rater."""

    failed: int
    """Gold tasks that the rater failed, of ``golds``."""
    golds: int
    seconds: Sequence[float]
    """Of every page."""
    patterns: Sequence[str]
    """Of every page."""
    repeats: Part
    """Agreement with the rater's own first answers."""
    agreement: Part
    """Agreement with the others."""


def flags_of(checks: Checks, rater: Evidence, others: Counter[str], reference: float) -> tuple[Flag, ...]:
    """All flags of one rater.

    ``others`` says how often the pages of the other raters have each pattern; ``reference`` is the agreement that the
    best quarter of raters reach.
    """
    flags = []
    if rater.failed and rater.failed >= checks.flag.failed:
        flags.append(Flag("checks", f"failed {rater.failed} of {rater.golds} checks"))
    if len(rater.seconds) >= LEAST and (middle := median(rater.seconds)) < checks.flag.seconds:
        flags.append(Flag("speed", f"median {middle:.1f} s a task, below {checks.flag.seconds:g} s"))
    if len(rater.patterns) >= LEAST:
        answer, number = Counter(rater.patterns).most_common(1)[0]
        usual = others[answer] / max(others.total(), 1)
        if number >= SAME * len(rater.patterns) and usual < COMMON:
            flags.append(Flag("same answer", f"the same answer on {number} of {len(rater.patterns)} pages"))
    if rater.repeats.tasks >= 2 and rater.repeats.alpha <= 0:
        flags.append(Flag("repeats", f"answered {rater.repeats.tasks} repeated tasks no more alike than by chance"))
    part = rater.agreement
    if part.tasks >= LEAST and part.alpha < FAR * reference and part.upper < reference:
        reason = f"agreement {part.alpha:.2f} with the others (best quarter: {reference:.2f})"
        flags.append(Flag("agreement", reason))
    return tuple(flags)


def suspicious_entries(events: Iterable[Event], seconds: float, now: datetime) -> dict[str, str]:
    """Raters who may be no people, with the reason: they opened a task, and have never answered one.

    ``seconds`` is the expected time of a task.
    """
    joined: dict[str, datetime] = {}
    opened: dict[str, datetime] = {}
    known = set()
    for event in events:
        if event.kind == "joined":
            joined[event.rater] = event.at
        elif event.kind == "opened":
            opened.setdefault(event.rater, event.at)
        elif event.kind in ("answered", "returned", "excluded"):
            known.add(event.rater)
    silent = {rater: joined.get(rater, at) for rater, at in opened.items() if rater not in known}
    times = sorted(silent.values())
    reasons = {}
    for rater, at in silent.items():
        crowd = bisect_right(times, at + TOGETHER) - bisect_left(times, at - TOGETHER)
        if crowd >= CROWD:
            reasons[rater] = f"one of {crowd} who joined within minutes and have answered nothing"
        elif now - opened[rater] > timedelta(seconds=SILENT * seconds):
            reasons[rater] = f"opened a task more than {SILENT * seconds:.0f} s ago and has answered nothing"
    return reasons
