"""How a study stands: coverage, agreement so far, time per task, checks, and flags of raters with their reasons."""

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
from captious.render import Cell, Chart, Column, Document, Result, Section, Series, Table, Text
from captious.render.document import Value
from captious.stats.agreement import Alpha, Measurement, disagreements, krippendorff
from captious.studio.events import Answered, Event, answers_of
from captious.studio.flags import Evidence, Flag, Part, flags_of, pattern, reference_agreement
from captious.studio.kinds import kind_of
from captious.studio.plan import Plan
from captious.studio.running import MetricAgreement, measure_captions, metric_agreement
from captious.studio.tasks import Task

if TYPE_CHECKING:
    from captious.studio.log import Log

NAN = float("nan")
SHOWN, COMMENTS = 30, 20
"""Raters and comments that the terminal shows; the files and JSON hold all."""
State = Literal["invited", "working", "finished", "excluded"]
SIMULATED = "simulated"
"""Key in the body of the first event of a bot; its value is the kind of bot."""


@dataclass(frozen=True)
class Coverage:
    """How many answers there are of those that the plan wants."""

    tasks: int
    overlap: int
    places: tuple[int, ...]
    """Tasks with at least one answer, at least two, and so on up to the overlap."""
    open: int = 0
    """Tasks that a rater has open now."""

    @property
    def answers(self) -> int:
        """Answers that count toward the target."""
        return sum(self.places)

    @property
    def target(self) -> int:
        """Answers that the plan wants."""
        return self.tasks * self.overlap

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.answers / self.target if self.target else NAN


@dataclass(frozen=True)
class Question:
    """Agreement about one aspect, or about what the kind of task asks."""

    name: str
    measurement: Measurement
    alpha: Alpha | None
    reason: str = ""
    """Why there is no alpha yet."""


@dataclass(frozen=True)
class Time:
    """Seconds a task, over all pages that were answered."""

    pages: int
    median: float = NAN
    p90: float = NAN
    hours: float = 0.0
    """Of all raters together."""

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Time:
        """From the seconds of every page."""
        if not seconds:
            return cls(0)
        median, p90 = np.percentile(seconds, [50, 90])
        return cls(len(seconds), float(median), float(p90), sum(seconds) / 3600)


@dataclass(frozen=True)
class RaterStanding:
    """One rater so far."""

    id: str
    state: State
    tasks: int
    """Answers that are neither checks nor repeats."""
    time: Time
    passed: int
    failed: int
    """Gold tasks."""
    agreement: Part
    """With the others."""
    repeats: Part
    """With the rater's own first answers."""
    late: int
    comments: int
    flags: tuple[Flag, ...] = ()
    reason: str = ""
    """Of the exclusion."""
    simulated: str = ""
    """The kind of bot, for a rater that is none of flesh and blood."""


@dataclass(frozen=True)
class Comment:
    """What a rater wrote beside an answer."""

    rater: str
    item: str
    text: str


@dataclass(frozen=True, repr=False)
class Standing(Result):
    """A study so far. Excluded raters count nowhere but in their own row."""

    title: str
    kind: str
    coverage: Coverage
    questions: tuple[Question, ...]
    time: Time
    raters: tuple[RaterStanding, ...]
    comments: tuple[Comment, ...]
    late: int
    timeline: tuple[tuple[datetime, int], ...]
    """When answers came, and how many there were then."""
    resampling: Resampling
    metrics: MetricAgreement | None = None
    seq: int = 0
    """The last event that this is made of."""

    def __repr__(self) -> str:
        return f"<Standing {self.title!r}: {self.coverage.answers} of {self.coverage.target} answers>"

    @property
    def flagged(self) -> list[RaterStanding]:
        """Raters with a flag who are not excluded."""
        return [rater for rater in self.raters if rater.flags and rater.state != "excluded"]

    @property
    def headline(self) -> Question:
        """The question that the agreement of the study is told by: the overall rating, or else the first."""
        overall = [one for one in self.questions if one.name in ("rating", "overall")]
        return next(iter([*overall, *self.questions]), Question("", "nominal", None, "no answer yet"))

    def charts(self) -> list[Chart]:
        """What the owner's page draws."""
        if not self.timeline:
            return []
        return [self.timeline_chart(), self.raters_chart()]

    @property
    def warnings(self) -> list[str]:
        """What must not be overlooked."""
        bots = [rater for rater in self.raters if rater.simulated]
        return [f"{len(bots)} of {len(self.raters)} raters are simulated: what they say is no result"] if bots else []

    def document(self) -> Document:
        """Coverage, agreement, time, raters with flags, metrics so far, comments."""
        cover = self.coverage
        about = (
            f"{cover.answers:,} of {cover.target:,} answers ({100 * cover.share:.0f} %) by {self._counted('rater')}"
            if cover.target
            else "no tasks"
        )
        sections: list[Section] = [self.coverage_table(), self.coverage_chart()]
        if self.time.pages:
            sections += [self.agreement_table(), self._time_table()]
        if self.raters:
            sections.append(self._raters_table("raters", SHOWN))
            if len(self.raters) > SHOWN:
                sections.append(replace(self._raters_table("all_raters", len(self.raters)), detail=True))
            sections.append(self.raters_chart())
        if self.metrics is not None:
            sections += self.metrics.sections()
        if self.comments:
            sections.append(self._comments())
        notes = ["A flag is a hint for the owner of the study: nobody is rejected by it."] if self.flagged else []
        return Document(self.title, about, sections, self.warnings, notes, (), self._data(), "standing")

    def _counted(self, word: str) -> str:
        number = sum(rater.tasks > 0 for rater in self.raters)
        return f"{number:,} {word}{'' if number == 1 else 's'}"

    def coverage_table(self) -> Table:
        """Tasks with a first answer, a second, and so on."""
        cover = self.coverage
        return Table(
            "coverage",
            self.title,
            ["answers a task", Column("tasks"), Column("of"), Column("share", scale=100, decimals=0, unit=" %")],
            [[f"{place} or more", done, cover.tasks, done / cover.tasks] for place, done in enumerate(cover.places, 1)],
            f"{cover.answers:,} of {cover.target:,} answers; {cover.open} tasks open now; {self.late} late answers",
        )

    def coverage_chart(self) -> Chart:
        """A bar for the first answers, the second ones, and so on."""
        cover = self.coverage
        names = [f"{place} or more answers" for place in range(1, cover.overlap + 1)]
        labels = [f"{done:,} of {cover.tasks:,}" for done in cover.places]
        series = Series("tasks", names, cover.places, labels=labels)
        return Chart("bars", [series], "Coverage", x="tasks", reference=cover.tasks, reference_name="target")

    def timeline_chart(self) -> Chart:
        """Answers over time."""
        start = self.timeline[0][0]
        seconds = [(at - start).total_seconds() for at, _ in self.timeline]
        sizes = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
        unit = next((unit for unit, size in sizes.items() if seconds[-1] > 2 * size), "seconds")
        series = Series("answers", [one / sizes[unit] for one in seconds], [number for _, number in self.timeline])
        target = self.coverage.target
        shown = self.timeline[-1][1] > target / 4
        return Chart(
            "lines",
            [series],
            "Answers over time",
            x=f"{unit} since the first answer",
            reference=target if shown else None,
            reference_name="target",
        )

    def raters_chart(self) -> Chart:
        """A dot per rater: time per task and agreement with the others."""
        groups: dict[str, list[RaterStanding]] = {"no flag": [], "flagged": []}
        for rater in self.raters:
            if rater.state != "excluded" and rater.agreement.tasks and rater.time.pages:
                groups["flagged" if rater.flags else "no flag"].append(rater)
        series = [
            Series(
                name,
                [rater.time.median for rater in raters],
                [rater.agreement.alpha for rater in raters],
                labels=[
                    f"{rater.id}: {rater.time.median:.1f} s, agreement {rater.agreement.alpha:.2f}" for rater in raters
                ],
            )
            for name, raters in groups.items()
            if raters
        ]
        return Chart(
            "scatter",
            series,
            "Raters",
            "1: full agreement with the others; 0: as random answers would agree.",
            "median seconds a task",
            "agreement with the others",
            trend=False,
        )

    def agreement_table(self) -> Table:
        """Alpha of every question."""
        rows: list[list[Value]] = []
        for one in self.questions:
            counts = [one.alpha.units, one.alpha.ratings] if one.alpha else [None, None]
            cell: Value = Cell.of(one.alpha.estimate) if one.alpha else None
            rows.append([one.name, one.measurement, cell, *counts])
        alpha = Column("alpha", level=self.resampling.level, bold=True, decimals=3)
        note = "; ".join(dict.fromkeys(f"{one.name}: {one.reason}" for one in self.questions if one.reason))
        columns: list[Column | str] = ["question", "level", alpha, Column("units"), Column("answers")]
        note = note or "units: captions, pairs or things with two answers or more; intervals: bootstrap over images"
        return Table("agreement", "Agreement so far (Krippendorff's alpha)", columns, rows, note)

    def _time_table(self) -> Table:
        seconds = [Column(name, decimals=1, unit=" s") for name in ("median", "90th percentile")]
        row: list[Value] = ["all pages", self.time.pages, self.time.median, self.time.p90, self.time.hours]
        columns: list[Column | str] = ["seconds", Column("pages"), *seconds]
        columns.append(Column("in all", decimals=2, unit=" h", key="hours"))
        return Table("time", "Time per task", columns, [row])

    def _raters_table(self, key: str, number: int) -> Table:
        columns: list[Column | str] = ["rater", "state", Column("tasks")]
        columns += [Column("median", decimals=1, unit=" s"), "checks"]
        columns += [Column("agreement", decimals=2), "flags"]
        rows: list[list[Value]] = [
            [
                *(rater.id, rater.state, rater.tasks, rater.time.median),
                f"{rater.passed} of {rater.passed + rater.failed}" if rater.passed + rater.failed else "",
                rater.agreement.alpha,
                "; ".join([*([f"excluded: {rater.reason}"] if rater.reason else []), *(f.reason for f in rater.flags)]),
            ]
            for rater in self.raters[:number]
        ]
        note = "agreement: the rater's part in alpha, about 0 for random answers"
        if len(self.raters) > number:
            note += f"; {len(self.raters) - number} more raters are in JSON"
        return Table(key, "Raters, flagged ones first", columns, rows, note)

    def _comments(self) -> Text:
        lines = [f"{one.rater} on {one.item}: {one.text}" for one in self.comments[:COMMENTS]]
        if len(self.comments) > COMMENTS:
            lines.append(f"{len(self.comments) - COMMENTS} more comments are in JSON")
        return Text(lines, "Comments", bullets=True)

    def _data(self) -> Mapping[str, Any]:
        cover = self.coverage
        return {
            "kind": self.kind,
            "coverage": {
                "tasks": cover.tasks,
                "overlap": cover.overlap,
                "places": cover.places,
                "answers": cover.answers,
                "target": cover.target,
                "open": cover.open,
                "late": self.late,
            },
            "agreement": self.questions,
            "time": self.time,
            "raters": self.raters,
            "comments": self.comments,
            "metrics": None if self.metrics is None else self.metrics.data(),
            "ci": self.resampling.signature("images"),
        }


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
    raters = [rater.id for rater in log.raters()]
    standing = standing_of(plan, tasks, events, raters, open_tasks=log.leases(), resampling=resampling)
    if not metrics:
        return standing
    agreement = metric_agreement(plan, tasks, answers_of(events), measure_captions(plan, tasks, metrics), resampling)
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
    measurement = kind_of(plan).measurement
    numbers: dict[str, _Ratings] = {}
    for one in answers:
        if one.purpose == "work":
            for name, unit, value in _values(plan, tasks[one.task], one.answer):
                numbers.setdefault(name, _Ratings()).add(unit, one.rater, one.task, value)
    questions = []
    distances: dict[str, tuple[list[float], list[str]]] = {}
    for name, ratings in numbers.items():
        questions.append(_question(name, ratings, tasks, measurement, resampling))
        for rater, task, distance in zip(ratings.rater, ratings.task, ratings.distances(measurement), strict=True):
            values, of_tasks = distances.setdefault(rater, ([], []))
            values.append(distance)
            of_tasks.append(task)
    return tuple(questions), {rater: (np.array(values), of_tasks) for rater, (values, of_tasks) in distances.items()}


def _question(
    name: str, ratings: _Ratings, tasks: Mapping[str, Task], measurement: Measurement, resampling: Resampling
) -> Question:
    """Alpha of one question with its interval over images, or why there is none yet."""
    if np.bincount(ratings.unit).max() < 2:
        return Question(name, measurement, None, "nothing has two answers yet")
    task_of = dict(zip(ratings.unit, ratings.task, strict=True))
    groups = [tasks[task_of[index]].item or task_of[index] for index in range(len(ratings.units))]
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
