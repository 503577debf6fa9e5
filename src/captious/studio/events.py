"""What happened in a study, as values: events, raters, pages. The log keeps them and nothing else is the truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """``opened``: purpose, order, place. ``answered``: answer, order, purpose, seconds, comment; late and place are
    added by the log. ``excluded``, ``reinstated``, ``released``: reason."""


@dataclass(frozen=True)
class Recorded:
    """What became of an event that was handed to the log."""

    seq: int
    new: bool
    """False where the same event was stored before: a double click, a retry, a reload."""
    late: bool = False
    """Whether an answer came after its lease, when others had every place of its task."""


@dataclass(frozen=True)
class Rater:
    """A person, under a pseudonym."""

    id: str
    """r1, r2, …"""
    excluded: bool = False
    consented: bool = False
    finished: bool = False


@dataclass(frozen=True)
class Slot:
    """One of the answers that a task needs: free, kept for a rater until the lease ends, or done."""

    task: str
    place: int
    """0 for the first answer of the task."""
    rater: str | None = None
    lease: datetime | None = None
    """Until when an open page keeps it; None where it is free or done."""
    done: bool = False

    def __str__(self) -> str:
        if self.rater is None:
            return "free"
        return f"done by {self.rater}" if self.done else f"kept for {self.rater} until {self.lease}"


@dataclass(frozen=True)
class Answered:
    """The last answer of a rater to a task."""

    rater: str
    task: str
    purpose: Purpose
    answer: Mapping[str, Any]
    order: tuple[str, ...]
    seconds: float | None
    """As the page measured it; else from opening to answer by the server's clock."""
    late: bool
    excluded: bool
    """Whether the rater is excluded now."""
    at: datetime
    seq: int
    comment: str = ""


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
    comment: str = ""
    """What the rater wrote with that answer."""
    name: str = ""
    """What addresses and forms call the page: a random text, which tells neither a check nor a repeated task."""
    previous: str = ""
    """The name of the page that the rater did before."""


def answers_of(events: Iterable[Event]) -> list[Answered]:
    """The last answer of every rater to every task and purpose, in the order of their first answers."""
    opened: dict[tuple[str, str | None, Purpose], datetime] = {}
    answers: dict[tuple[str, str | None, Purpose], Event] = {}
    excluded: set[str] = set()
    for one in events:
        if one.kind == "excluded":
            excluded.add(one.rater)
        elif one.kind == "reinstated":
            excluded.discard(one.rater)
        elif one.kind == "opened":
            opened[one.rater, one.task, one.body["purpose"]] = one.at
        elif one.kind == "answered":
            answers[one.rater, one.task, one.body["purpose"]] = one
    return [
        _answered(one, max(0.0, (one.at - opened[key]).total_seconds()), one.rater in excluded)
        for key, one in answers.items()
    ]


def _answered(one: Event, elapsed: float, excluded: bool) -> Answered:
    body = one.body
    seconds = body.get("seconds")
    return Answered(
        one.rater,
        one.task or "",
        body["purpose"],
        body["answer"],
        tuple(body.get("order", ())),
        elapsed if seconds is None else seconds,
        body["late"],
        excluded,
        one.at,
        one.seq,
        body.get("comment", ""),
    )
