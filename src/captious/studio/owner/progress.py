"""How far a study is: coverage, agreement so far, time per task, and its raters; all counted from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from captious.errors import InputError
from captious.metrics.registry import parse_all
from captious.options import Resampling
from captious.render import Cell, Chart, Column, Document, Result, Section, Series, Table, Text
from captious.render.document import Value
from captious.stats.agreement import ALPHA_DECIMALS, Alpha, Measurement, krippendorff
from captious.studio.collect._events import Event, collect_answers
from captious.studio.collect.kinds import measurement_of
from captious.studio.collect.plan import Plan
from captious.studio.collect.tasks import Task
from captious.studio.owner._agreement import MetricAgreement, MetricValues, metric_agreement
from captious.studio.owner.export import resampled_by
from captious.studio.owner.history import StudyChange, change_row, changes_table, is_paused, study_changes
from captious.studio.owner.raters import QuestionValues, RaterProgress, Time, question_values, rater_progress

if TYPE_CHECKING:
    from captious.studio.collect.log import StudyLog

NAN = float("nan")
SHOWN, COMMENTS = 30, 20
"""Raters and comments that the terminal shows; the files and JSON hold all."""


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
        """Answers as a share of the target, from 0 to 1."""
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
class Comment:
    """What a rater wrote beside an answer."""

    rater: str
    item: str
    text: str
    task: str = ""
    image: bool = False
    """Whether the task has an image."""


@dataclass(frozen=True, repr=False)
class StudyProgress(Result):
    """A study so far. Excluded raters count nowhere but in their own row."""

    title: str
    kind: str
    coverage: Coverage
    questions: tuple[Question, ...]
    time: Time
    raters: tuple[RaterProgress, ...]
    comments: tuple[Comment, ...]
    late: int
    timeline: tuple[tuple[datetime, int], ...]
    """When answers came, and how many there were then."""
    resampling: Resampling
    metrics: MetricAgreement | None = None
    seq: int = 0
    """The last event that this is made of."""
    changes: tuple[StudyChange, ...] = ()
    """Amendments and pauses."""

    def __repr__(self) -> str:
        return f"<StudyProgress {self.title!r}: {self.coverage.answers} of {self.coverage.target} answers>"

    @property
    def flagged(self) -> list[RaterProgress]:
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
        simulated = f"{len(bots)} of {len(self.raters)} raters are simulated: their answers are not a result"
        paused = "the study is paused: nobody gets a task before captious studio resume"
        # Metrics that were named and have no result: a file of theirs is not there, or the answers are few.
        unmeasured = [self.metrics.reason] if self.metrics and self.metrics.reason and self.coverage.answers else []
        return [*([paused] if is_paused(self.changes) else []), *([simulated] if bots else []), *unmeasured]

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
            sections += self._raters_table().abridged(SHOWN, "raters")
            sections.append(self.raters_chart())
        if self.metrics is not None:
            sections += self.metrics.sections()
        if self.changes:
            sections.append(changes_table(self.changes))
        if self.comments:
            sections.append(self._comments())
        notes = ["A flag is a hint for the owner of the study: it rejects nobody."] if self.flagged else []
        return Document(self.title, about, sections, self.warnings, notes, (), self._data(), "progress")

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
        groups: dict[str, list[RaterProgress]] = {"no flag": [], "flagged": []}
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
                names=[rater.id for rater in raters],
            )
            for name, raters in groups.items()
            if raters
        ]
        return Chart(
            "scatter",
            series,
            "Raters",
            "1: full agreement with the others; 0: as random answers would agree.",
            "median seconds per task",
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
        alpha = Column("alpha", level=self.resampling.level, bold=True, decimals=ALPHA_DECIMALS)
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

    def _raters_table(self) -> Table:
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
            for rater in self.raters
        ]
        note = "agreement: the rater's part in alpha, about 0 for random answers"
        return Table("raters", "Raters, flagged ones first", columns, rows, note)

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
            "paused": is_paused(self.changes),
            "changes": [change_row(change) for change in self.changes],
            "metrics": None if self.metrics is None else self.metrics.data(),
            "ci": self.resampling.signature("images"),
        }


def study_progress(log: StudyLog, metrics: Sequence[str] = (), resampling: Resampling = Resampling()) -> StudyProgress:
    """How far the study of a log is now; with the agreement of metrics where some are named."""
    if metrics:
        parse_all(metrics)  # a name that nobody knows is refused, not only said beside what else there is
    plan, tasks, events = log.plan(), log.tasks(), list(log.events())
    raters = log.rater_ids()
    now = datetime.now(timezone.utc)
    progress = progress_of(plan, tasks, events, raters, open_tasks=log.leases(), resampling=resampling, now=now)
    if not metrics:
        return progress
    agreement = metric_agreement(plan, tasks, collect_answers(events), MetricValues(metrics), resampling)
    return replace(progress, metrics=agreement)


def progress_of(
    plan: Plan,
    tasks: Mapping[str, Task],
    events: Sequence[Event],
    raters: Sequence[str] = (),
    *,
    open_tasks: int = 0,
    resampling: Resampling = Resampling(),
    now: datetime | None = None,
) -> StudyProgress:
    """The progress of a study from its events. ``raters`` are those with a link, whether they came or not.

    ``now`` tells who has left.
    """
    answers = [one for one in collect_answers(events) if one.purpose != "practice"]
    counted = [one for one in answers if not one.excluded]
    values = question_values(plan, tasks, answers)
    measurement, group = measurement_of(plan), resampled_by(plan, tasks.values())
    questions = [_question(name, one, tasks, group, measurement, resampling) for name, one in values.items()]
    work = [one for one in counted if one.purpose == "work"]
    per_task = Counter(one.task for one in work if not one.late)
    number = sum(task.gold is None for task in tasks.values())
    places = tuple(sum(count > place for count in per_task.values()) for place in range(plan.overlap))
    comments = [
        Comment(one.rater, tasks[one.task].item or one.task, one.comment, one.task, tasks[one.task].image is not None)
        for one in answers
        if one.comment
    ]
    return StudyProgress(
        plan.title,
        plan.kind,
        Coverage(number, plan.overlap, places, open_tasks),
        tuple(questions),
        Time.of([one.seconds for one in counted if one.seconds is not None]),
        rater_progress(plan, tasks, events, raters, values, now),
        tuple(comments),
        sum(one.late for one in answers),
        _timeline([one.at for one in work]),
        resampling,
        seq=events[-1].seq if events else 0,
        changes=study_changes(events),
    )


def _question(
    name: str,
    ratings: QuestionValues,
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


def _timeline(times: Sequence[datetime], points: int = 60) -> tuple[tuple[datetime, int], ...]:
    """How many answers there were at so many moments."""
    ordered = sorted(times)
    if len(ordered) <= points:
        return tuple((at, number) for number, at in enumerate(ordered, 1))
    numbers = np.unique(np.linspace(1, len(ordered), points).round().astype(int))
    return tuple((ordered[number - 1], int(number)) for number in numbers)
