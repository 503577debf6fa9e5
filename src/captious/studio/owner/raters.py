"""Raters of a study: tasks, time, checks, agreement with the others, and flags with their reasons.

A flag is a hint for the owner. No flag rejects anybody.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np

from captious._core.types import Floats, Ints
from captious.stats.rater_agreement import Measurement, measure_disagreements
from captious.studio.collect._events import OWNER, Answered, Event, collect_answers
from captious.studio.collect.kinds import get_measurement, kind_of
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.study_plan import Checks, Plan

FlagName = Literal["checks", "speed", "same answer", "repeats", "agreement", "time limit"]
# Fewest pages of a rater for flags on speed, equal answers and agreement.
LEAST = 5
# Flag a rater with one answer on SAME of the pages, unless COMMON of the others' pages have it too.
SAME, COMMON = 0.95, 0.6
# Answers over the time limit that are flagged.
SLOW = 2
# Flag a rater whose agreement is significantly below, and less than this share of, the 75th percentile.
FAR = 0.5
# CROWD raters who joined within TOGETHER and have answered nothing are suspicious.
CROWD, TOGETHER = 10, timedelta(minutes=1)
# A rater who opened a task SILENT times the expected time ago, and never answered, is suspicious.
SILENT = 10
NAN = float("nan")
# left: was working, with no event for longer than a lease
State = Literal["invited", "withdrawn", "working", "done", "declined", "screened", "came when full", "left", "excluded"]
# Key in the body of the first event of a bot; its value is the kind of bot.
SIMULATED = "simulated"


class Flag(NamedTuple):
    """A suspicious fact about a rater."""

    name: FlagName
    reason: str


@dataclass(frozen=True)
class RaterAgreement:
    """A rater's part in Krippendorff's alpha: 1 for full agreement with the others, about 0 for random answers."""

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
    def of(cls, distances: Floats, tasks: Sequence[str]) -> RaterAgreement:
        """Compute the agreement of a rater from the disagreement (``stats.agreement``) and the task of each rating."""
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


def get_pattern(form: Mapping[str, str]) -> str:
    """Return the values of a form, whatever the captions were: one value if all are equal, else all of them.

    >>> get_pattern({"rating:0:overall": "3", "rating:1:overall": "3"}), get_pattern({"rank:0": "1", "rank:1": "2"})
    ('3', '1 2')
    """
    values = list(form.values())
    return values[0] if len({*values}) == 1 else " ".join(values)


def compute_reference_agreement(several: Sequence[RaterAgreement]) -> float:
    """Return the 75th percentile of the raters' agreement; NaN with fewer than three raters."""
    alphas = [one.alpha for one in several if one.tasks >= LEAST and not math.isnan(one.alpha)]
    return float(np.percentile(alphas, 75)) if len(alphas) >= 3 else NAN


@dataclass(frozen=True)
class RaterEvidence:
    """Facts about one rater that flags are based on."""

    failed: int
    """Gold tasks that the rater failed, of ``golds``."""
    golds: int
    seconds: Sequence[float]
    """Time on every page."""
    patterns: Sequence[str]
    """The clicks on every page."""
    repeats: RaterAgreement
    """Agreement with the rater's own first answers."""
    agreement: RaterAgreement
    """Agreement with the others."""
    slow: int = 0
    """Answers that took longer than the time limit of a task."""


def find_flags(checks: Checks, rater: RaterEvidence, others: Counter[str], reference: float) -> tuple[Flag, ...]:
    """Return all flags of one rater.

    ``others`` counts the patterns on the pages of the other raters; ``reference`` is the 75th percentile of agreement.
    """
    flags = []
    if rater.failed and rater.failed >= checks.flag.failed:
        flags.append(Flag("checks", f"failed {rater.failed} of {rater.golds} checks"))
    if len(rater.seconds) >= LEAST and (middle := median(rater.seconds)) < checks.flag.seconds:
        flags.append(Flag("speed", f"median {middle:.1f} s per task, below {checks.flag.seconds:g} s"))
    if rater.slow >= SLOW:
        flags.append(Flag("time limit", f"{rater.slow} of {len(rater.seconds)} answers took longer than the limit"))
    if len(rater.patterns) >= LEAST:
        answer, number = Counter(rater.patterns).most_common(1)[0]
        usual = others[answer] / max(others.total(), 1)
        if number >= SAME * len(rater.patterns) and usual < COMMON:
            flags.append(Flag("same answer", f"the same answer on {number} of {len(rater.patterns)} pages"))
    if rater.repeats.tasks >= 2 and rater.repeats.alpha <= 0:
        flags.append(Flag("repeats", f"answered {rater.repeats.tasks} repeated tasks no more alike than by chance"))
    own = rater.agreement
    if own.tasks >= LEAST and own.alpha < FAR * reference and own.upper < reference:
        reason = f"agreement {own.alpha:.2f} with the others (best quarter: {reference:.2f})"
        flags.append(Flag("agreement", reason))
    return tuple(flags)


def find_suspicious_entries(events: Iterable[Event], seconds: float, now: datetime) -> dict[str, str]:
    """Return raters who may be bots, with the reason: they opened a task, and never answered one.

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


@dataclass(frozen=True)
class Time:
    """Seconds per task, over all pages that were answered."""

    pages: int
    median: float = NAN
    p90: float = NAN
    hours: float = 0.0
    """Hours of all raters together."""

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Time:
        """Compute the times of a study or of a rater from the seconds of every page."""
        if not seconds:
            return cls(0)
        median, p90 = np.percentile(seconds, [50, 90])
        return cls(len(seconds), float(median), float(p90), sum(seconds) / 3600)


@dataclass(frozen=True)
class RaterProgress:
    """Progress of one rater."""

    id: str
    state: State
    tasks: int
    """Answers that are neither checks nor repeats."""
    time: Time
    passed: int
    failed: int
    """Gold tasks that the rater passed and failed."""
    agreement: RaterAgreement
    """Agreement with the other raters."""
    repeats: RaterAgreement
    """Agreement with the rater's own first answers."""
    late: int
    comments: int
    flags: tuple[Flag, ...] = ()
    reason: str = ""
    """The owner's reason for excluding the rater."""
    simulated: str = ""
    """The kind of bot, if the rater is simulated."""


# From events to raters


@dataclass
class QuestionValues:
    """The numeric answers to one question, a row per rater and unit."""

    units: dict[str, int] = field(default_factory=dict)
    unit: list[int] = field(default_factory=list)
    rater: list[str] = field(default_factory=list)
    task: list[str] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def add(self, unit: str, rater: str, task: str, value: float) -> None:
        self.unit.append(self.units.setdefault(unit, len(self.units)))
        self.rater.append(rater)
        self.task.append(task)
        self.value.append(value)

    def compute_distances(self, measurement: Measurement) -> Floats:
        return measure_disagreements(np.array(self.unit, dtype=np.int64), np.array(self.value), measurement)

    def build_matrix(self) -> Floats:
        """Return a matrix of units × answers. A column is not a rater, since each unit has few of many raters."""
        unit: Ints = np.array(self.unit, dtype=np.int64)
        order = np.argsort(unit, kind="stable")
        ranked = unit[order]
        column = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
        values = np.full((len(self.units), max(2, int(column.max(initial=0)) + 1)), np.nan)
        values[ranked, column] = np.array(self.value)[order]
        return values


def collect_question_values(
    plan: Plan, tasks: Mapping[str, Task], answers: Iterable[Answered]
) -> dict[str, QuestionValues]:
    """Collect the numeric answers to every question, without checks, repeats and excluded raters."""
    numbers: dict[str, QuestionValues] = {}
    for one in answers:
        if one.purpose == "work" and not one.excluded:
            for name, unit, value in _iterate_values(plan, tasks[one.task], one.answer):
                numbers.setdefault(name, QuestionValues()).add(unit, one.rater, one.task, value)
    return numbers


def _iterate_values(plan: Plan, task: Task, answer: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield every number of an answer: the question, the unit (a caption, a pair, a thing), and the value."""
    for name, units in kind_of(plan).values(plan, task, answer).items():
        yield from ((name, unit, float(value)) for unit, value in units.items() if value is not None)


def compute_rater_progress(
    plan: Plan,
    tasks: Mapping[str, Task],
    events: Sequence[Event],
    raters: Sequence[str] = (),
    values: Mapping[str, QuestionValues] | None = None,
    now: datetime | None = None,
) -> tuple[RaterProgress, ...]:
    """Compute the progress of every rater, flagged ones first. ``raters`` are all with a link, even if they never came.

    ``values`` are those of `collect_question_values`, if they are already computed. ``now`` determines who has left;
    if it is None, nobody has.
    """
    answers = [one for one in collect_answers(events) if one.purpose != "practice"]
    values = collect_question_values(plan, tasks, answers) if values is None else values
    repeats = _compute_repeat_agreements(plan, tasks, [one for one in answers if not one.excluded])
    blank = _find_states(plan, events, raters, now)
    agreement = {rater: RaterAgreement() for rater in blank} | _compute_agreements(
        values.values(), get_measurement(plan)
    )
    return tuple(sorted(_compute_raters(plan, tasks, answers, blank, agreement, repeats), key=_get_sort_key))


def _compute_agreements(values: Iterable[QuestionValues], measurement: Measurement) -> dict[str, RaterAgreement]:
    """Compute every rater's agreement, from the distance of each answer to the others of its unit."""
    distances: dict[str, tuple[list[float], list[str]]] = {}
    for one in values:
        for rater, task, distance in zip(one.rater, one.task, one.compute_distances(measurement), strict=True):
            of_rater, of_tasks = distances.setdefault(rater, ([], []))
            of_rater.append(distance)
            of_tasks.append(task)
    return {rater: RaterAgreement.of(np.array(several), of_tasks) for rater, (several, of_tasks) in distances.items()}


def _find_states(
    plan: Plan, events: Sequence[Event], raters: Sequence[str], now: datetime | None
) -> dict[str, RaterProgress]:
    """Return every rater with state, reason of exclusion, and kind of bot; all numbers are 0."""
    states: dict[str, State] = dict.fromkeys(raters, "invited")
    before: dict[str, State] = {}
    heard: dict[str, datetime] = {}
    reasons, bots = {}, {}
    for event in events:
        rater = event.rater
        if rater == OWNER:
            continue
        if event.kind == "excluded":
            before[rater] = states.get(rater, "invited")
            states[rater], reasons[rater] = "excluded", str(event.body.get("reason", ""))
        elif event.kind == "withdrawn":
            states[rater] = "withdrawn"
        elif event.kind == "reinstated":
            states[rater] = before.get(rater, "working")
            reasons.pop(rater, None)
        else:
            of = before if states.get(rater) == "excluded" else states
            of[rater] = _get_next_state(of.get(rater, "invited"), event)
        if event.kind != "released":
            heard[rater] = event.at
        if bot := event.body.get(SIMULATED):
            bots[rater] = str(bot)
    for rater in [rater for rater, state in states.items() if state == "working"] if now else ():
        if now is not None and measure_running_time(heard[rater], now, events) > timedelta(seconds=plan.lease):
            states[rater] = "left"
    return {
        rater: RaterProgress(
            rater,
            state,
            0,
            Time(0),
            0,
            0,
            RaterAgreement(),
            RaterAgreement(),
            0,
            0,
            (),
            reasons.get(rater, ""),
            bots.get(rater, ""),
        )
        for rater, state in states.items()
    }


def _get_next_state(state: State, event: Event) -> State:
    """Return the state of a rater after an event of the rater."""
    ends: dict[str, State] = {"finished": "done", "returned": "left", "declined": "declined"}
    if event.kind in ends:
        return ends[event.kind]
    if event.body.get("screened"):
        return "screened"
    if event.kind == "full":
        return "done" if event.body.get("answers") else "came when full"
    goes_on = event.kind in ("consented", "opened") or state == "invited"
    return "working" if goes_on and event.kind != "released" else state


def measure_running_time(since: datetime, now: datetime, events: Iterable[Event]) -> timedelta:
    """Return the time from a moment until now, without pauses of the study."""
    total, begin = now - since, None
    for event in events:
        if event.kind == "paused":
            begin = max(event.at, since)
        elif event.kind == "resumed" and begin is not None:
            total -= max(event.at - begin, timedelta(0))
            begin = None
    return total if begin is None else total - max(now - begin, timedelta(0))


def _get_sort_key(rater: RaterProgress) -> tuple[bool, int, int, str]:
    return rater.state == "excluded", -len(rater.flags), len(rater.id), rater.id


def _compute_repeat_agreements(
    plan: Plan, tasks: Mapping[str, Task], answers: Sequence[Answered]
) -> dict[str, RaterAgreement]:
    """Compute every rater's agreement with the own first answers, relative to the chance level of all repeats."""
    first = {(one.rater, one.task): one.answer for one in answers if one.purpose == "work"}
    numbers: dict[str, QuestionValues] = {}
    for one in answers:
        before = first.get((one.rater, one.task)) if one.purpose == "repeat" else None
        for answer in (before, one.answer) if before is not None else ():
            for name, unit, value in _iterate_values(plan, tasks[one.task], answer):
                key = f"{one.rater}\n{unit}"
                numbers.setdefault(name, QuestionValues()).add(key, one.rater, one.task, value)
    return _compute_agreements(numbers.values(), get_measurement(plan))


def _compute_raters(
    plan: Plan,
    tasks: Mapping[str, Task],
    answers: Sequence[Answered],
    raters: Mapping[str, RaterProgress],
    agreement: Mapping[str, RaterAgreement],
    repeats: Mapping[str, RaterAgreement],
) -> list[RaterProgress]:
    """Fill in the numbers of every rater from the answers, and the flags."""
    kind = kind_of(plan)
    by_rater: dict[str, list[Answered]] = {rater: [] for rater in raters}
    for one in answers:
        by_rater[one.rater].append(one)
    patterns = {
        rater: [get_pattern(kind.form(plan, tasks[one.task], one.order, one.answer)) for one in own]
        for rater, own in by_rater.items()
    }
    everywhere = Counter(text for texts in patterns.values() for text in texts)
    reference = compute_reference_agreement(
        [one for rater, one in agreement.items() if raters[rater].state != "excluded"]
    )
    result = []
    for rater, own in by_rater.items():
        golds = [kind.passes(plan, tasks[one.task], one.answer) for one in own if one.purpose == "gold"]
        seconds = [one.seconds for one in own if one.seconds is not None]
        others = everywhere - Counter(patterns[rater])
        failed = golds.count(False)
        evidence = RaterEvidence(
            failed,
            len(golds),
            seconds,
            patterns[rater],
            repeats.get(rater, RaterAgreement()),
            agreement[rater],
            sum(plan.limit is not None and one > plan.limit for one in seconds),
        )
        result.append(
            replace(
                raters[rater],
                tasks=sum(one.purpose == "work" for one in own),
                time=Time.of(seconds),
                passed=golds.count(True),
                failed=failed,
                agreement=evidence.agreement,
                repeats=evidence.repeats,
                late=sum(one.late for one in own),
                comments=sum(bool(one.comment) for one in own),
                flags=find_flags(plan.checks, evidence, others, reference),
            )
        )
    return result
