"""From the events of a study to its standing: everything is counted again from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from captious._typing import Floats, Ints
from captious.errors import InputError
from captious.options import Resampling
from captious.stats.agreement import Measurement, disagreements, krippendorff
from captious.studio.answer_rows import resampled_by
from captious.studio.events import Answered, Event, answers_of
from captious.studio.flags import Evidence, Part, flags_of, pattern, reference_agreement
from captious.studio.kinds import kind_of
from captious.studio.plan import Plan
from captious.studio.running import MetricValues, metric_agreement
from captious.studio.standing import SIMULATED, Comment, Coverage, Question, RaterStanding, Standing, State, Time
from captious.studio.tasks import Task

if TYPE_CHECKING:
    from captious.studio.log import Log


@dataclass
class _Ratings:
    """The numbers of one question, a row per answer of a rater about a unit."""

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

    def distances(self, measurement: Measurement) -> Floats:
        return disagreements(np.array(self.unit, dtype=np.int64), np.array(self.value), measurement)

    def matrix(self) -> Floats:
        """Units × answers; columns are no persons, since few of many raters saw a unit."""
        unit: Ints = np.array(self.unit, dtype=np.int64)
        order = np.argsort(unit, kind="stable")
        ranked = unit[order]
        column = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
        values = np.full((len(self.units), max(2, int(column.max(initial=0)) + 1)), np.nan)
        values[ranked, column] = np.array(self.value)[order]
        return values


def _values(plan: Plan, task: Task, answer: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Every number of an answer: what was asked, the unit (a caption, a pair, a thing), and the value."""
    for name, units in kind_of(plan).values(plan, task, answer).items():
        yield from ((name, unit, float(value)) for unit, value in units.items() if value is not None)


def study_standing(log: Log, metrics: Sequence[str] = (), resampling: Resampling = Resampling()) -> Standing:
    """How the study of a log stands now; with the agreement of metrics where some are named."""
    plan, tasks, events = log.plan(), log.tasks(), list(log.events())
    raters = log.rater_ids()
    standing = standing_of(plan, tasks, events, raters, open_tasks=log.leases(), resampling=resampling)
    if not metrics:
        return standing
    agreement = metric_agreement(plan, tasks, answers_of(events), MetricValues(metrics), resampling)
    return replace(standing, metrics=agreement)


def standing_of(
    plan: Plan,
    tasks: Mapping[str, Task],
    events: Sequence[Event],
    raters: Sequence[str] = (),
    *,
    open_tasks: int = 0,
    resampling: Resampling = Resampling(),
) -> Standing:
    """The standing of a study from its events. ``raters`` are those with a link, whether they came or not."""
    answers = answers_of(events)
    counted = [one for one in answers if not one.excluded]
    questions, distances = _agreement(plan, tasks, counted, resampling)
    repeats = _repeats(plan, tasks, counted)
    blank = _states(events, raters)
    parts = {rater: Part.of(*distances.get(rater, (np.zeros(0), []))) for rater in blank}
    standings = _raters(plan, tasks, answers, blank, parts, repeats)
    work = [one for one in counted if one.purpose == "work"]
    per_task = Counter(one.task for one in work if not one.late)
    number = sum(task.gold is None for task in tasks.values())
    places = tuple(sum(count > place for count in per_task.values()) for place in range(plan.overlap))
    comments = [Comment(one.rater, tasks[one.task].item or one.task, one.comment) for one in answers if one.comment]
    return Standing(
        plan.title,
        plan.kind,
        Coverage(number, plan.overlap, places, open_tasks),
        questions,
        Time.of([one.seconds for one in counted if one.seconds is not None]),
        tuple(sorted(standings, key=_flagged_first)),
        tuple(comments),
        sum(one.late for one in answers),
        _timeline([one.at for one in work]),
        resampling,
        seq=events[-1].seq if events else 0,
    )


def _states(events: Sequence[Event], raters: Sequence[str]) -> dict[str, RaterStanding]:
    """Every rater with the state, the reason of an exclusion, and the kind of bot; without any number."""
    states: dict[str, State] = dict.fromkeys(raters, "invited")
    before: dict[str, State] = {}
    reasons, bots = {}, {}
    for event in events:
        rater = event.rater
        if event.kind == "excluded":
            before[rater] = states.get(rater, "invited")
            states[rater], reasons[rater] = "excluded", str(event.body.get("reason", ""))
        elif event.kind == "reinstated":
            states[rater] = before.get(rater, "working")
            reasons.pop(rater, None)
        elif event.kind in ("finished", "returned") and states.get(rater) != "excluded":
            states[rater] = "finished"
        elif states.get(rater, "invited") == "invited":
            states[rater] = "working"
        if bot := event.body.get(SIMULATED):
            bots[rater] = str(bot)
    return {
        rater: RaterStanding(
            rater, state, 0, Time(0), 0, 0, Part(), Part(), 0, 0, (), reasons.get(rater, ""), bots.get(rater, "")
        )
        for rater, state in states.items()
    }


def _flagged_first(rater: RaterStanding) -> tuple[bool, int, int, str]:
    return rater.state == "excluded", -len(rater.flags), len(rater.id), rater.id


def _agreement(
    plan: Plan, tasks: Mapping[str, Task], answers: Sequence[Answered], resampling: Resampling
) -> tuple[tuple[Question, ...], dict[str, tuple[Floats, list[str]]]]:
    """Alpha of every question; and for every rater the distances to the others, with the task of each."""
    measurement, group = kind_of(plan).measurement, resampled_by(plan, tasks.values())
    numbers: dict[str, _Ratings] = {}
    for one in answers:
        if one.purpose == "work":
            for name, unit, value in _values(plan, tasks[one.task], one.answer):
                numbers.setdefault(name, _Ratings()).add(unit, one.rater, one.task, value)
    questions = []
    distances: dict[str, tuple[list[float], list[str]]] = {}
    for name, ratings in numbers.items():
        questions.append(_question(name, ratings, tasks, group, measurement, resampling))
        for rater, task, distance in zip(ratings.rater, ratings.task, ratings.distances(measurement), strict=True):
            values, of_tasks = distances.setdefault(rater, ([], []))
            values.append(distance)
            of_tasks.append(task)
    return tuple(questions), {rater: (np.array(values), of_tasks) for rater, (values, of_tasks) in distances.items()}


def _question(
    name: str,
    ratings: _Ratings,
    tasks: Mapping[str, Task],
    group: Literal["image", "item"],
    measurement: Measurement,
    resampling: Resampling,
) -> Question:
    """Alpha of one question with its interval over images or items, or why there is none yet."""
    if np.bincount(ratings.unit).max() < 2:
        return Question(name, measurement, None, "nothing has two answers yet")
    task_of = dict(zip(ratings.unit, ratings.task, strict=True))
    several = [tasks[task_of[index]] for index in range(len(ratings.units))]
    groups = [str(getattr(task, group) or task.id) for task in several]
    try:
        alpha = krippendorff(ratings.matrix(), measurement, resampling, groups)
    except InputError:
        return Question(name, measurement, None, "all answers are the same so far")
    return Question(name, measurement, replace(alpha, raters=len({*ratings.rater})))


def _repeats(plan: Plan, tasks: Mapping[str, Task], answers: Sequence[Answered]) -> dict[str, Part]:
    """Every rater's agreement with the rater's own first answers, measured against the chance level of all repeats."""
    first = {(one.rater, one.task): one.answer for one in answers if one.purpose == "work"}
    numbers: dict[str, _Ratings] = {}
    for one in answers:
        before = first.get((one.rater, one.task)) if one.purpose == "repeat" else None
        for answer in (before, one.answer) if before is not None else ():
            for name, unit, value in _values(plan, tasks[one.task], answer):
                key = f"{one.rater}\n{unit}"
                numbers.setdefault(name, _Ratings()).add(key, one.rater, one.task, value)
    distances: dict[str, tuple[list[float], list[str]]] = {}
    for ratings in numbers.values():
        values = ratings.distances(kind_of(plan).measurement)
        for rater, task, distance in zip(ratings.rater, ratings.task, values, strict=True):
            distances.setdefault(rater, ([], []))[0].append(distance)
            distances[rater][1].append(task)
    return {rater: Part.of(np.array(values), of_tasks) for rater, (values, of_tasks) in distances.items()}


def _raters(
    plan: Plan,
    tasks: Mapping[str, Task],
    answers: Sequence[Answered],
    raters: Mapping[str, RaterStanding],
    parts: Mapping[str, Part],
    repeats: Mapping[str, Part],
) -> list[RaterStanding]:
    """Every rater with the numbers of the answers, and flags."""
    kind = kind_of(plan)
    by_rater: dict[str, list[Answered]] = {rater: [] for rater in raters}
    for one in answers:
        by_rater[one.rater].append(one)
    patterns = {
        rater: [pattern(kind.form(plan, tasks[one.task], one.order, one.answer)) for one in own]
        for rater, own in by_rater.items()
    }
    everywhere = Counter(text for texts in patterns.values() for text in texts)
    reference = reference_agreement([part for rater, part in parts.items() if raters[rater].state != "excluded"])
    standings = []
    for rater, own in by_rater.items():
        golds = [kind.passes(plan, tasks[one.task], one.answer) for one in own if one.purpose == "gold"]
        seconds = [one.seconds for one in own if one.seconds is not None]
        others = everywhere - Counter(patterns[rater])
        failed = golds.count(False)
        evidence = Evidence(failed, len(golds), seconds, patterns[rater], repeats.get(rater, Part()), parts[rater])
        standings.append(
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
                flags=flags_of(plan.checks, evidence, others, reference),
            )
        )
    return standings


def _timeline(times: Sequence[datetime], points: int = 60) -> tuple[tuple[datetime, int], ...]:
    """How many answers there were at so many moments."""
    ordered = sorted(times)
    if len(ordered) <= points:
        return tuple((at, number) for number, at in enumerate(ordered, 1))
    numbers = np.unique(np.linspace(1, len(ordered), points).round().astype(int))
    return tuple((ordered[number - 1], int(number)) for number in numbers)
