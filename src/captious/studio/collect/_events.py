"""Events of a study, and everything that is computed from them: histories, answers, slots, and the next task.

The log stores only events. The history of a rater, the next page and the slots of a task are computed from them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

import numpy as np

from captious._core.random import make_keys
from captious.studio.collect.rating_tasks import Task, is_practice
from captious.studio.collect.study_plan import Plan

# The last eight are events of the owner: four about a rater, with a reason, and four about the study.
EventName = Literal[
    "joined",
    "consented",
    "declined",
    "full",
    "opened",
    "answered",
    "skipped",
    "commented",
    "returned",
    "finished",
    "surveyed",
    "excluded",
    "reinstated",
    "released",
    "withdrawn",
    "amended",
    "paused",
    "resumed",
    "served",
]
# The name of the owner in the column of raters, for events about the study.
OWNER = "owner"
# Why a rater sees a task: it counts toward the overlap, has an expected answer, was answered by the rater before, or is
# for practice.
Purpose = Literal["work", "gold", "repeat", "practice"]


@dataclass(frozen=True)
class Event:
    """One row of the log, which is append-only."""

    seq: int
    """Order of arrival; clocks do not matter."""
    key: str
    """The random key of the page: a second event with the same key is not stored."""
    at: datetime
    """The server's time, UTC."""
    rater: str
    n: int
    """1, 2, … for every rater; a gap shows that something is missing."""
    kind: EventName
    task: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    """``full``: answers of a rater who was told that nothing is left. ``opened``: purpose, order, place. ``answered``:
    answer, order, purpose, seconds, comment; late and place are added by the log. ``surveyed``: when, answers,
    screened. ``excluded``, ``reinstated``, ``released``, ``withdrawn``: reason. ``amended``: why, changes, the
    new text (toml), plan and digest, and number and digest of all tasks. ``paused``: why, message. ``served``: address.
    """


@dataclass(frozen=True)
class Recorded:
    """Result of storing an event."""

    seq: int
    new: bool
    """False if the same event was stored before: a double click, a retry, a reload."""
    late: bool = False
    """Whether an answer came after its lease, when others had all slots of its task."""


@dataclass(frozen=True)
class Rater:
    """A person, under a pseudonym."""

    id: str
    """r1, r2, …"""
    excluded: bool = False
    consented: bool = False
    finished: bool = False
    surveyed: frozenset[str] = frozenset()
    """When the rater has answered the questions: before, after."""
    screened: bool = False
    """Whether the answers to the questions have ended the visit."""
    withdrawn: bool = False
    """Whether the owner has withdrawn the link before anybody opened it."""


@dataclass(frozen=True)
class Slot:
    """One of the answers that a task needs: free, leased to a rater, or done."""

    task: str
    place: int
    """0 for the first answer of the task."""
    rater: str | None = None
    lease: datetime | None = None
    """The end of the lease; None if it is free or done."""
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
    """Time on the page as the page measured it; else from opening to answer by the server's clock."""
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
    """The stored answer, if the page is opened again."""
    comment: str = ""
    """The comment on that answer."""
    name: str = ""
    """The name of the page in URLs and forms: random, so that it reveals neither a check nor a repeated task."""
    previous: str = ""
    """The name of the rater's previous page."""


def collect_answers(events: Iterable[Event]) -> list[Answered]:
    """Return the last answer of every rater to every task and purpose, in the order of their first answers."""
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
        _build_answer(one, max(0.0, (one.at - opened[key]).total_seconds()), one.rater in excluded)
        for key, one in answers.items()
    ]


def _build_answer(one: Event, elapsed: float, excluded: bool) -> Answered:
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


# A lease that ends later than this after the latest possible end was given before the clock was set back.
FAR = timedelta(hours=1)

# Events that free slots of their rater: `excluded` frees all of them, the others those without an answer.
FREEING = ("excluded", "released", "skipped", "returned")


@dataclass(slots=True)
class Opened:
    """A task that a rater has opened. The server keeps one for every page of every rater, so it is small."""

    task: str
    purpose: Purpose
    order: tuple[str, ...]
    place: int | None
    """The place of its slot; None for gold and repeated tasks, which take none."""
    at: datetime
    name: str = ""
    """The name of the page in URLs: the random key of the event that opened it first."""
    answer: int | None = None
    """The number of the event with the last answer; its body stays in the database."""
    closed: bool = False
    """Whether the rater has left it without an answer: skipped, returned, or released by the owner."""
    skipped: bool = False

    @property
    def counts(self) -> bool:
        """Whether the page counts as done: answered or skipped."""
        return self.answer is not None or self.skipped


@dataclass
class RaterHistory:
    """State of one rater, computed from the rater's events in order."""

    n: int = 0
    pages: dict[tuple[str, Purpose], Opened] = field(default_factory=dict)
    """Pages by task and purpose, in the order of their first opening."""
    done: Counter[Purpose] = field(default_factory=Counter)
    """Number of done tasks, by purpose."""
    joined: bool = False
    consented: bool = False
    finished: bool = False
    finished_at: int = 0
    """The number of the event with which the rater finished; 0 for one who returned the work."""
    excluded: bool = False
    surveyed: frozenset[str] = frozenset()
    screened: bool = False
    withdrawn: bool = False

    def add(self, event: Event) -> None:
        """Apply the next event of this rater."""
        if event.n <= self.n:
            return
        self.n = event.n
        if event.kind == "opened":
            self._open(event)
        elif event.kind == "answered":
            page = self.pages[event.task or "", event.body["purpose"]]
            self.done[page.purpose] += not page.counts
            page.answer = event.seq
        elif event.kind in ("skipped", "returned", "released"):
            for page in self._list_unanswered(event.task):
                self.done[page.purpose] += event.kind == "skipped" and not page.skipped
                page.closed, page.skipped = True, page.skipped or event.kind == "skipped"
            self.finished |= event.kind == "returned"
        elif event.kind in ("excluded", "reinstated"):
            self.excluded = event.kind == "excluded"
        elif event.kind == "surveyed":
            self.surveyed |= {event.body["when"]}
            self.screened |= bool(event.body.get("screened"))
            self.finished |= self.screened
        elif event.kind in ("joined", "consented", "finished", "withdrawn"):
            setattr(self, event.kind, True)
            self.finished_at = event.seq if event.kind == "finished" else self.finished_at

    def _open(self, event: Event) -> None:
        task, body = event.task or "", event.body
        page = self.pages.get((task, body["purpose"]))
        if page is None:
            self.pages[task, body["purpose"]] = Opened(
                task, body["purpose"], tuple(body["order"]), body["place"], event.at, event.key
            )
        else:
            page.place, page.at = body["place"], event.at

    def _list_unanswered(self, task: str | None) -> list[Opened]:
        pages = [page for page in self.pages.values() if page.answer is None]
        return pages if task is None else [page for page in pages if page.task == task]

    def has_opened(self, task: str) -> bool:
        """Return True if the rater has opened a task for any purpose."""
        return any((task, purpose) in self.pages for purpose in get_args(Purpose))

    def list_pages_before(self, page: Opened) -> list[Opened]:
        """Return the done pages that the rater opened before `page`, in order.

        Practice pages form a separate sequence.
        """
        pages: list[Opened] = []
        for key, one in self.pages.items():
            if key == (page.task, page.purpose):
                break
            if one.counts and (one.purpose == "practice") == (page.purpose == "practice"):
                pages.append(one)
        return pages

    @property
    def current(self) -> Opened | None:
        """The page that the rater opened last, if it is still without an answer."""
        last = next(reversed(self.pages.values()), None)
        return None if last is None or last.answer or last.closed else last


@dataclass(frozen=True)
class Amendment:
    """A change of the study after it began."""

    seq: int
    at: datetime
    why: str
    changes: tuple[Mapping[str, Any], ...]
    """Each with a key, and what it was and is: ``{"key": "overlap", "from": 3, "to": 5}``."""
    tasks: int
    """All tasks, gold ones too, after the amendment."""
    widens: bool
    """Whether raters have more to do since."""

    @property
    def lines(self) -> list[str]:
        """The changes, one line for each key."""
        units = {"lease": " s"}
        return [
            f"{one['key']}: {_format_brief(one['from'])} → {_format_brief(one['to'])}{units.get(one['key'], '')}"
            for one in self.changes
        ]


def _format_brief(value: Any) -> str:
    """Format a value of a plan on one line of at most 80 characters."""
    values = value if isinstance(value, (list, tuple)) else [value]
    text = ", ".join(f"{one:g}" if isinstance(one, float) else "" if one is None else str(one) for one in values)
    text = " ".join(text.split()) or "nothing"
    return text if len(text) <= 80 else f"{text[:79]}…"


@dataclass(frozen=True)
class StudyHistory:
    """State of the study, computed from the owner's events in order."""

    n: int = 0
    amendments: tuple[Amendment, ...] = ()
    paused: datetime | None = None
    """The beginning of the pause; None while the study runs."""
    message: str = ""
    """The message to raters during the pause."""
    amended: Event | None = None
    """The last amendment, with the text and the plan that are in force."""
    address: str = ""
    """The address under which raters reach the server that runs or ran last; empty if none has run."""

    def with_event(self, event: Event) -> StudyHistory:
        """Return the history with the owner's next event applied."""
        if event.n <= self.n:
            return self
        if event.kind == "paused":
            return replace(self, n=event.n, paused=event.at, message=str(event.body.get("message", "")))
        if event.kind == "resumed":
            return replace(self, n=event.n, paused=None, message="")
        if event.kind == "served":
            return replace(self, n=event.n, address=str(event.body["address"]))
        amendments = (*self.amendments, parse_amendment(event))
        return replace(self, n=event.n, amendments=amendments, amended=event)

    @property
    def widened(self) -> int:
        """The number of the last event that gave raters more to do; 0 if there is none."""
        return max((one.seq for one in self.amendments if one.widens), default=0)

    def get_lease_time(self, now: datetime) -> datetime:
        """Return the time against which leases are compared: it does not advance during a pause."""
        return now if self.paused is None else min(now, self.paused)


# Keys of an amendment that give raters more to do.
WIDENING = ("tasks", "overlap", "per_rater")


def parse_amendment(event: Event) -> Amendment:
    """Return the amendment of an event ``amended``."""
    body = event.body
    changes = tuple(body["changes"])
    widens = any(one["key"] in WIDENING for one in changes)
    return Amendment(event.seq, event.at, body["why"], changes, body["tasks"], widens)


def count_work(plan: Plan, tasks: int) -> int:
    """Return the number of tasks that a rater is asked to do, without gold and repeated ones."""
    return min(plan.per_rater, tasks)


def count_pages(plan: Plan, tasks: int, gold: int) -> int:
    """Return the number of pages that a rater sees in all, if nothing runs out."""
    work = count_work(plan, tasks)
    return work + min(gold, count_gold_due(plan, work)) + min(plan.checks.repeat, work // 2)


def count_gold_due(plan: Plan, work: int) -> int:
    """Return how many gold tasks a rater should have seen after `work` tasks."""
    at = plan.checks.at
    return sum(number <= work for number in at) if at else work // plan.checks.every


def list_due_tasks(
    plan: Plan, history: RaterHistory, tasks: int, gold: Sequence[str], rater: str
) -> Iterator[tuple[Purpose, str]]:
    """Yield purpose and task of the pages that a rater may get next, best first.

    The task of purpose ``work`` is empty: the database chooses it. `gold` are the ids of gold and practice tasks.
    """
    work, asked = history.done["work"], count_work(plan, tasks)
    unpracticed = [task for task in gold if is_practice(task) and (task, "practice") not in history.pages]
    if unpracticed and not work:
        yield "practice", unpracticed[0]
    unseen = [task for task in gold if not is_practice(task) and (task, "gold") not in history.pages]
    if unseen and history.done["gold"] < count_gold_due(plan, work):
        yield "gold", _choose(unseen, plan.seed, f"gold/{rater}")
    repeats = history.done["repeat"]
    early = _list_early_tasks(history) if repeats < plan.checks.repeat else []
    # The last repeats alternate with the last tasks, so that raters do not notice them.
    if early and work > asked - (plan.checks.repeat - repeats):
        yield "repeat", _choose(early, plan.seed, f"repeat/{rater}/{repeats}")
    if work < asked:
        yield "work", ""
    if early:
        yield "repeat", _choose(early, plan.seed, f"repeat/{rater}/{repeats}")


def _list_early_tasks(history: RaterHistory) -> list[str]:
    """Return the tasks of the first half of a rater's work that were not repeated yet."""
    done = [page.task for page in history.pages.values() if page.purpose == "work" and page.answer]
    return [task for task in done[: len(done) // 2] if (task, "repeat") not in history.pages]


def _choose(tasks: Sequence[str], seed: int, name: str) -> str:
    return tasks[int(make_generator(seed, name).integers(len(tasks)))]


def make_generator(seed: int, name: str) -> np.random.Generator:
    """Make a random generator from a name and the seed of the plan, independent of all others."""
    return np.random.default_rng(int(make_keys([name], seed)[0]))


def is_expired(lease: datetime, now: datetime, length: timedelta) -> bool:
    """Return True if a lease has ended, or if it ends later than any lease could, since the clock was set back."""
    return lease <= now or lease > now + length + FAR


def find_answer_place(slots: Sequence[Slot], rater: str, now: datetime, length: timedelta) -> int | None:
    """Return the place that an answer fills: the rater's own slot, else one that is free or expired.

    None if others have all slots: the answer is late then, and does not count toward the overlap.
    """
    own = [slot.place for slot in slots if slot.rater == rater]
    free = [
        slot.place
        for slot in slots
        if not slot.done and (slot.lease is None or is_expired(slot.lease, now, length)) and slot.rater != rater
    ]
    return next(iter(own + free), None)


def compute_slots(plan: Plan, tasks: Iterable[str], events: Iterable[Event]) -> dict[tuple[str, int], Slot]:
    """Compute the slots from the events, by task and place. `tasks` are those without gold.

    Plan and tasks are the current ones: amendments only add tasks and places, which are free until somebody opens them.
    """
    events = list(events)
    slots = {(task, place): Slot(task, place) for task in tasks for place in range(plan.overlap)}
    leased: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    length = timedelta(seconds=_find_first_lease(plan, events))
    paused = None

    def put(slot: Slot) -> None:
        key = slot.task, slot.place
        before = slots.get(key)
        if before is not None and before.rater is not None:
            leased[before.rater].discard(key)
        if slot.rater is not None:
            leased[slot.rater].add(key)
        slots[key] = slot

    for event in events:
        task, place = event.task or "", event.body.get("place")
        if event.kind == "opened" and place is not None:
            put(Slot(task, place, event.rater, event.at + length))
        elif event.kind == "answered" and place is not None:
            put(Slot(task, place, event.rater, done=True))
        elif event.kind == "reinstated":
            for again, place in event.body["places"].items():
                put(Slot(again, place, event.rater, done=True))
        elif event.kind in FREEING:
            for key in list(leased[event.rater]):
                if event.task in (None, key[0]) and (event.kind == "excluded" or not slots[key].done):
                    put(Slot(*key))
        elif event.kind == "amended":
            length = timedelta(seconds=event.body["plan"]["lease"])
        elif event.kind == "paused":
            paused = event.at
        elif event.kind == "resumed" and paused is not None:
            for slot in [slot for slot in slots.values() if slot.lease is not None]:
                put(extend_lease(slot, paused, event.at))
    return slots


def extend_lease(slot: Slot, paused: datetime, resumed: datetime) -> Slot:
    """Return the slot with its lease extended by the length of a pause."""
    assert slot.lease is not None
    return replace(slot, lease=slot.lease + max(resumed - paused, timedelta(0)))


def _find_first_lease(plan: Plan, events: Iterable[Event]) -> float:
    """Return the lease in seconds at the beginning of the study, before any amendment."""
    changes = (one for event in events if event.kind == "amended" for one in event.body["changes"])
    return float(next((one["from"] for one in changes if one["key"] == "lease"), plan.lease))
