"""What happened in a study, as values: events, raters, pages. The log keeps them and nothing else is the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from captious.studio.tasks import Task

EventName = Literal[
    "joined",
    "consented",
    "opened",
    "answered",
    "skipped",
    "commented",
    "returned",
    "finished",
    "excluded",
    "reinstated",
    "released",
]
"""The last three are the owner's, with a reason."""
Purpose = Literal["work", "gold", "repeat"]
"""Why a rater sees a task: it counts toward the overlap, its answer is known, or the rater has answered it before."""


@dataclass(frozen=True)
class Event:
    """One row of the log. Rows are only ever added."""

    seq: int
    """Order of arrival; clocks do not matter."""
    key: str
    """Made with the page: a second event with the same key is not stored."""
    at: datetime
    """The server's time, UTC."""
    rater: str
    n: int
    """1, 2, … for every rater; a gap shows that something is missing."""
    kind: EventName
    task: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    """``opened``: purpose, order, place. ``answered``: answer, order, purpose, seconds, late. ``excluded``: reason."""


@dataclass(frozen=True)
class Rater:
    """A person, under a pseudonym."""

    id: str
    """r1, r2, …"""
    excluded: bool = False
    consented: bool = False
    finished: bool = False


@dataclass(frozen=True)
class Page:
    """A task as one rater sees it now."""

    task: Task
    purpose: Purpose
    order: tuple[str, ...]
    """Ids of the choices (or things) in the order shown; recorded when the page is opened."""
    number: int
    """1 for the first task of this rater."""
    total: int
    """Tasks that the rater will see in all, as far as is known."""
    answer: Mapping[str, Any] | None = None
    """What the rater answered before, where the page is opened again."""
