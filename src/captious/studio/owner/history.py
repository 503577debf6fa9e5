"""The history of a study: its start, amendments and pauses, from the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from captious.render import Column, Document, Result, Table
from captious.render.document import Value
from captious.studio.collect._events import OWNER, Event, EventName, parse_amendment
from captious.studio.collect.study_plan import Plan

if TYPE_CHECKING:
    from captious.studio.collect.log import StudyLog


@dataclass(frozen=True)
class StudyChange:
    """An amendment, pause or resumption by the owner."""

    seq: int
    at: datetime
    kind: EventName
    """``amended``, ``paused`` or ``resumed``."""
    why: str
    difference: tuple[str, ...]
    """The changes, a line for each key."""
    answers: int
    """Answers that were stored before it."""


def list_changes(events: Iterable[Event]) -> tuple[StudyChange, ...]:
    """Return amendments and pauses, in their order."""
    changes: list[StudyChange] = []
    answers = 0
    for event in events:
        answers += event.kind == "answered"
        if event.rater == OWNER and event.kind != "served":
            lines = tuple(parse_amendment(event).lines) if event.kind == "amended" else ()
            why = str(event.body.get("why", ""))
            changes.append(StudyChange(event.seq, event.at, event.kind, why, lines, answers))
    return tuple(changes)


def is_paused(changes: Iterable[StudyChange]) -> bool:
    """Return True if the study is paused after these changes."""
    kinds = [change.kind for change in changes if change.kind in ("paused", "resumed")]
    return kinds[-1:] == ["paused"]


def build_changes_table(changes: Iterable[StudyChange]) -> Table:
    """Build a table of amendments and pauses with their reasons, and the number of answers before each."""
    rows: list[list[Value]] = [
        [
            f"{change.at:%Y-%m-%d %H:%M} UTC",
            change.kind,
            "; ".join(change.difference),
            change.why,
            change.answers,
        ]
        for change in changes
    ]
    columns: list[Column | str] = ["when", "what", "difference", "why", Column("answers before")]
    return Table("changes", "Changes of the study after it began", columns, rows)


@dataclass(frozen=True, repr=False)
class StudyAccount(Result):
    """The plan of a study in its database, and its changes."""

    name: str
    plan: Plan
    begun: datetime
    tasks: int
    changes: tuple[StudyChange, ...]

    def __repr__(self) -> str:
        return f"<StudyAccount {self.name}: {len(self.changes)} changes>"

    def document(self) -> Document:
        """Return a table of the study, and its changes."""
        plan = self.plan
        facts: list[list[Value]] = [
            ["kind", plan.kind],
            ["begun", f"{self.begun:%Y-%m-%d %H:%M} UTC"],
            ["tasks", f"{self.tasks:,}"],
            ["answers a task", str(plan.overlap)],
            ["tasks a rater", str(plan.per_rater)],
            ["raters come by", plan.entrance],
            ["state", "paused" if is_paused(self.changes) else "running"],
            ["digest of the text", plan.digest[:12]],
        ]
        sections = [Table("study", f"{plan.title}, in {self.name}", ["key", "value"], facts)]
        sections += [build_changes_table(self.changes)] if self.changes else []
        data: dict[str, Any] = {
            "title": plan.title,
            "kind": plan.kind,
            "begun": self.begun.isoformat(),
            "tasks": self.tasks,
            "overlap": plan.overlap,
            "per_rater": plan.per_rater,
            "source": plan.entrance,
            "paused": is_paused(self.changes),
            "digest": plan.digest,
            "changes": [make_change_row(change) for change in self.changes],
        }
        return Document(plan.title, "", sections, data=data, name="study")


def make_change_row(change: StudyChange) -> dict[str, Any]:
    """Return a change as a row of the export."""
    return {**asdict(change), "at": change.at.isoformat(), "difference": list(change.difference)}


def read_study_account(log: StudyLog) -> StudyAccount:
    """Read the plan and the changes of a study from its log."""
    return StudyAccount(log.name, log.plan(), log.begun_at, len(log.tasks()), list_changes(log.events()))
