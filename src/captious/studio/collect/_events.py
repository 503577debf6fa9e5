"""What happened in a study, and who gets which task, as functions of the events alone.

The log keeps events, and nothing else is the truth: the history of a rater, the page that comes next and the slots of
a task follow from them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

import numpy as np

from captious._core.random import make_keys
from captious.studio.collect.plan import Plan
from captious.studio.collect.tasks import Task, is_practice

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
    "amended",
    "paused",
    "resumed",
]
"""The last six are the owner's: three about a rater, with a reason, and three about the study."""
OWNER = "owner"
"""The name of the owner in the column of raters, for events about the study."""
Purpose = Literal["work", "gold", "repeat", "practice"]
"""Why a rater sees a task: it counts toward the overlap, its answer is known, the rater has answered it before, or the
rater learns from it what to do."""


@dataclass(frozen=True)
class Event:
    """One row of the log. Rows are only ever added."""

    seq: int
    """Order of arrival; clocks do not matter."""
    key: str
    """The key that was made with the page: a second event with the same key is not stored."""
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
    screened. ``excluded``, ``reinstated``, ``released``: reason. ``amended``: why, changes, the new text (toml), plan
    and digest, and number and digest of all tasks. ``paused``: why, message."""


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
    surveyed: frozenset[str] = frozenset()
    """When the rater has answered the questions: before, after."""
    screened: bool = False
    """Whether the answers to the questions have ended the visit."""


@dataclass(frozen=True)
class Slot:
    """One of the answers that a task needs: free, kept for a rater until the lease ends, or done."""

    task: str
    place: int
    """0 for the first answer of the task."""
    rater: str | None = None
    lease: datetime | None = None
    """The time until which an open page keeps it; None where it is free or done."""
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
    """What the rater answered before, where the page is opened again."""
    comment: str = ""
    """What the rater wrote with that answer."""
    name: str = ""
    """What addresses and forms call the page: a random text, which tells neither a check nor a repeated task."""
    previous: str = ""
    """The name of the page that the rater did before."""


def collect_answers(events: Iterable[Event]) -> list[Answered]:
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


FAR = timedelta(hours=1)
"""A lease that ends later than any could, by more than this, was given before the clock was set back."""

FREEING = ("excluded", "released", "skipped", "returned")
"""Events that free slots of their rater: the first all of them, the others those without an answer."""


@dataclass(slots=True)
class Opened:
    """A task that a rater has opened. A server keeps one for every page of every rater, so it is small."""

    task: str
    purpose: Purpose
    order: tuple[str, ...]
    place: int | None
    """The place that was kept for it; None for gold and repeated tasks, which take none."""
    at: datetime
    name: str = ""
    """What addresses call the page: the random key of the event that opened it first."""
    answer: int | None = None
    """The number of the event with the last answer; the log has what it says."""
    closed: bool = False
    """Whether the rater has left it without an answer: skipped, returned, or released by the owner."""
    skipped: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is one of the tasks that the rater was asked to do."""
        return self.answer is not None or self.skipped


@dataclass
class RaterHistory:
    """What one rater has done so far: the events of the rater, in order, and nothing else."""

    n: int = 0
    pages: dict[tuple[str, Purpose], Opened] = field(default_factory=dict)
    """Pages by task and purpose, in the order of their first opening."""
    done: Counter[Purpose] = field(default_factory=Counter)
    """Tasks that are behind the rater, by purpose."""
    joined: bool = False
    consented: bool = False
    finished: bool = False
    finished_at: int = 0
    """The number of the event with which the rater finished; 0 for one who returned the work."""
    excluded: bool = False
    surveyed: frozenset[str] = frozenset()
    screened: bool = False

    def add(self, event: Event) -> None:
        """Take the next event of this rater into account."""
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
        elif event.kind in ("joined", "consented", "finished"):
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
        """Whether the rater has seen a task."""
        return any((task, purpose) in self.pages for purpose in get_args(Purpose))

    def behind(self, page: Opened) -> list[Opened]:
        """The pages that the rater has done of those that were opened before a page, in their order.

        Pages of practice are a round of their own.
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
        """The page that the rater opened last, while it waits for an answer."""
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
        """The difference, a line for each key."""
        units = {"lease": " s"}
        return [
            f"{one['key']}: {_format_brief(one['from'])} → {_format_brief(one['to'])}{units.get(one['key'], '')}"
            for one in self.changes
        ]


def _format_brief(value: Any) -> str:
    """A value of a plan in a line."""
    values = value if isinstance(value, (list, tuple)) else [value]
    text = ", ".join(f"{one:g}" if isinstance(one, float) else "" if one is None else str(one) for one in values)
    text = " ".join(text.split()) or "nothing"
    return text if len(text) <= 80 else f"{text[:79]}…"


@dataclass(frozen=True)
class StudyHistory:
    """What the owner did to the study so far: the events of the owner, in order, and nothing else."""

    n: int = 0
    amendments: tuple[Amendment, ...] = ()
    paused: datetime | None = None
    """The time since which nobody is given a task; None while the study runs."""
    message: str = ""
    """What raters read during the pause."""
    amended: Event | None = None
    """The last amendment, with the text and the plan that are in force."""

    def after(self, event: Event) -> StudyHistory:
        """The history with the next event of the owner."""
        if event.n <= self.n:
            return self
        if event.kind == "paused":
            return replace(self, n=event.n, paused=event.at, message=str(event.body.get("message", "")))
        if event.kind == "resumed":
            return replace(self, n=event.n, paused=None, message="")
        amendments = (*self.amendments, parse_amendment(event))
        return replace(self, n=event.n, amendments=amendments, amended=event)

    @property
    def widened(self) -> int:
        """The number of the last event that gave raters more to do; 0 where none did."""
        return max((one.seq for one in self.amendments if one.widens), default=0)

    def get_lease_time(self, now: datetime) -> datetime:
        """The time by which leases run: it stands still during a pause."""
        return now if self.paused is None else min(now, self.paused)


WIDENING = ("tasks", "overlap", "per_rater")
"""Keys of an amendment that give raters more to do."""


def parse_amendment(event: Event) -> Amendment:
    """The amendment that an event tells of."""
    body = event.body
    changes = tuple(body["changes"])
    widens = any(one["key"] in WIDENING for one in changes)
    return Amendment(event.seq, event.at, body["why"], changes, body["tasks"], widens)


def count_work(plan: Plan, tasks: int) -> int:
    """Tasks that a rater is asked to do, gold and repeated ones not counted."""
    return min(plan.per_rater, tasks)


def count_pages(plan: Plan, tasks: int, gold: int) -> int:
    """Pages that a rater sees in all where nothing runs out."""
    work = count_work(plan, tasks)
    return work + min(gold, count_gold_due(plan, work)) + min(plan.checks.repeat, work // 2)


def count_gold_due(plan: Plan, work: int) -> int:
    """Gold tasks that a rater should have seen after so many tasks of work."""
    at = plan.checks.at
    return sum(number <= work for number in at) if at else work // plan.checks.every


def list_due_tasks(
    plan: Plan, history: RaterHistory, tasks: int, gold: Sequence[str], rater: str
) -> Iterator[tuple[Purpose, str]]:
    """What a rater may do next, best first. A task of purpose ``work`` is named by the database; here it is empty.

    ``gold`` are the tasks whose answer is known, those of practice among them.
    """
    work, asked = history.done["work"], count_work(plan, tasks)
    unlearnt = [task for task in gold if is_practice(task) and (task, "practice") not in history.pages]
    if unlearnt and not work:
        yield "practice", unlearnt[0]
    unseen = [task for task in gold if not is_practice(task) and (task, "gold") not in history.pages]
    if unseen and history.done["gold"] < count_gold_due(plan, work):
        yield "gold", _choose(unseen, plan.seed, f"gold/{rater}")
    repeats = history.done["repeat"]
    early = _list_early_tasks(history) if repeats < plan.checks.repeat else []
    # The last repeats alternate with the last tasks, so that they do not stand out.
    if early and work > asked - (plan.checks.repeat - repeats):
        yield "repeat", _choose(early, plan.seed, f"repeat/{rater}/{repeats}")
    if work < asked:
        yield "work", ""
    if early:
        yield "repeat", _choose(early, plan.seed, f"repeat/{rater}/{repeats}")


def _list_early_tasks(history: RaterHistory) -> list[str]:
    """Tasks of the first half of a rater's work that may be shown again."""
    done = [page.task for page in history.pages.values() if page.purpose == "work" and page.answer]
    return [task for task in done[: len(done) // 2] if (task, "repeat") not in history.pages]


def _choose(tasks: Sequence[str], seed: int, name: str) -> str:
    return tasks[int(make_generator(seed, name).integers(len(tasks)))]


def make_generator(seed: int, name: str) -> np.random.Generator:
    """Random numbers of a name and the seed of the plan, whatever was drawn before."""
    return np.random.default_rng(int(make_keys([name], seed)[0]))


def is_expired(lease: datetime, now: datetime, length: timedelta) -> bool:
    """Whether a lease has ended. So has one that ends too late: the clock was set back."""
    return lease <= now or lease > now + length + FAR


def find_answer_place(slots: Sequence[Slot], rater: str, now: datetime, length: timedelta) -> int | None:
    """The place that an answer fills, of the slots of its task: the rater's own, else one that nobody keeps.

    None where others have them all: then the answer is late, and is stored beside the target.
    """
    own = [slot.place for slot in slots if slot.rater == rater]
    free = [
        slot.place
        for slot in slots
        if not slot.done and (slot.lease is None or is_expired(slot.lease, now, length)) and slot.rater != rater
    ]
    return next(iter(own + free), None)


def compute_slots(plan: Plan, tasks: Iterable[str], events: Iterable[Event]) -> dict[tuple[str, int], Slot]:
    """The slots that a log implies, by task and place. ``tasks`` are those without gold.

    Plan and tasks are those of now: amendments only add tasks and places, which are free until somebody opens them.
    """
    events = list(events)
    slots = {(task, place): Slot(task, place) for task in tasks for place in range(plan.overlap)}
    held: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    length = timedelta(seconds=_find_first_lease(plan, events))
    paused = None

    def put(slot: Slot) -> None:
        key = slot.task, slot.place
        before = slots.get(key)
        if before is not None and before.rater is not None:
            held[before.rater].discard(key)
        if slot.rater is not None:
            held[slot.rater].add(key)
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
            for key in list(held[event.rater]):
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
    """A slot whose lease did not run during a pause."""
    assert slot.lease is not None
    return replace(slot, lease=slot.lease + max(resumed - paused, timedelta(0)))


def _find_first_lease(plan: Plan, events: Iterable[Event]) -> float:
    """The lease in seconds with which the study began."""
    changes = (one for event in events if event.kind == "amended" for one in event.body["changes"])
    return float(next((one["from"] for one in changes if one["key"] == "lease"), plan.lease))
