"""Progress of a study: coverage, agreement so far, time per task, and raters; all computed from the log."""

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
from captious.render.answers import count_noun
from captious.render.document import Value
from captious.stats.rater_agreement import ALPHA_DECIMALS, Alpha, Measurement, krippendorff
from captious.studio.collect._events import Answered, Event, collect_answers
from captious.studio.collect.kinds import get_measurement
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.study_plan import Plan
from captious.studio.owner._forecast import WINDOW, Forecast, forecast_completion
from captious.studio.owner._metric_agreement import MetricAgreement, MetricValues, compute_metric_agreement
from captious.studio.owner.export import get_resampling_column
from captious.studio.owner.history import StudyChange, build_changes_table, is_paused, list_changes, make_change_row
from captious.studio.owner.raters import (
    QuestionValues,
    RaterProgress,
    Time,
    collect_question_values,
    compute_rater_progress,
    measure_running_time,
)

if TYPE_CHECKING:
    from captious.studio.collect.log import StudyLog

NAN = float("nan")
# Largest number of raters and comments in the terminal; JSON has all of them.
SHOWN, COMMENTS = 30, 20


@dataclass(frozen=True)
class Coverage:
    """Number of answers, of those that the plan requires."""

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
        """Answers that the plan requires."""
        return self.tasks * self.overlap

    @property
    def share(self) -> float:
        """Answers as a share of the target, from 0 to 1."""
        return self.answers / self.target if self.target else NAN


@dataclass(frozen=True)
class Question:
    """Agreement about one aspect, or about the one question of the kind of task."""

    name: str
    measurement: Measurement
    alpha: Alpha | None
    reason: str = ""
    """The reason why there is no alpha yet."""


@dataclass(frozen=True)
class Comment:
    """A comment by a rater on an answer."""

    rater: str
    item: str
    text: str
    task: str = ""
    image: bool = False
    """Whether the task has an image."""


@dataclass(frozen=True, repr=False)
class StudyProgress(Result):
    """Progress of a study. Excluded raters are counted only in their own row."""

    title: str
    kind: str
    coverage: Coverage
    questions: tuple[Question, ...]
    time: Time
    raters: tuple[RaterProgress, ...]
    comments: tuple[Comment, ...]
    late: int
    timeline: tuple[tuple[datetime, int], ...]
    """Times with the number of answers until then."""
    resampling: Resampling
    metrics: MetricAgreement | None = None
    seq: int = 0
    """Number of the last event included."""
    changes: tuple[StudyChange, ...] = ()
    """Amendments and pauses."""
    forecast: Forecast | None = None

    def __repr__(self) -> str:
        return f"<StudyProgress {self.title!r}: {self.coverage.answers} of {self.coverage.target} answers>"

    @property
    def flagged(self) -> list[RaterProgress]:
        """Raters with a flag who are not excluded."""
        return [rater for rater in self.raters if rater.flags and rater.state != "excluded"]

    @property
    def headline(self) -> Question:
        """The question that stands for the agreement of the study: the overall rating, or else the first."""
        overall = [one for one in self.questions if one.name in ("rating", "overall")]
        return next(iter([*overall, *self.questions]), Question("", "nominal", None, "no answer yet"))

    def build_charts(self) -> list[Chart]:
        """Build the charts of the owner's page."""
        if not self.timeline:
            return []
        return [self.build_timeline_chart(), self.build_raters_chart()]

    @property
    def warnings(self) -> list[str]:
        """Warnings about simulated raters, a pause, and metrics without a result."""
        bots = [rater for rater in self.raters if rater.simulated]
        simulated = f"{len(bots)} of {len(self.raters)} raters are simulated: their answers are not a result"
        paused = "the study is paused: nobody gets a task before captious studio resume"
        # Requested metrics without a result: a file is missing, or there are too few answers.
        unmeasured = [self.metrics.reason] if self.metrics and self.metrics.reason and self.coverage.answers else []
        return [*([paused] if is_paused(self.changes) else []), *([simulated] if bots else []), *unmeasured]

    def document(self) -> Document:
        """Return coverage, agreement, time, raters with flags, metrics so far, and comments."""
        cover = self.coverage
        about = (
            f"{cover.answers:,} of {cover.target:,} answers ({100 * cover.share:.0f} %) by {self._count_active()}"
            if cover.target
            else "no tasks"
        )
        if cover.target and self.forecast is not None:
            about += f": {self.forecast}"
        sections: list[Section] = [Text([about]), self.build_coverage_table(), self.build_coverage_chart()]
        if self.time.pages:
            sections += [self.build_agreement_table(), self._build_time_table()]
        if self.raters:
            sections += self._build_raters_table().cut_after(SHOWN, "raters")
            sections.append(self.build_raters_chart())
        if self.metrics is not None:
            sections += self.metrics.sections()
        if self.changes:
            sections.append(build_changes_table(self.changes))
        if self.comments:
            sections.append(self._build_comments())
        notes = ["A flag is a hint for the owner of the study: it rejects nobody."] if self.flagged else []
        return Document(self.title, "", sections, self.warnings, notes, (), self._build_data(), "progress")

    def _count_active(self) -> str:
        number = sum(rater.tasks > 0 for rater in self.raters)
        return f"{number:,} rater{'' if number == 1 else 's'}"

    def build_coverage_table(self) -> Table:
        """Build a table of the tasks with at least one answer, two, and so on."""
        cover = self.coverage
        return Table(
            "coverage",
            self.title,
            ["answers a task", Column("tasks"), Column("of"), Column("share", scale=100, decimals=0, unit=" %")],
            [[f"{place} or more", done, cover.tasks, done / cover.tasks] for place, done in enumerate(cover.places, 1)],
            f"{cover.answers:,} of {cover.target:,} answers; {count_noun(cover.open, 'task')} open now; "
            f"{count_noun(self.late, 'late answer')}",
        )

    def build_coverage_chart(self) -> Chart:
        """Build a bar chart of the tasks with at least one answer, two, and so on."""
        cover = self.coverage
        names = [f"{place} or more answers" for place in range(1, cover.overlap + 1)]
        labels = [f"{done:,} of {cover.tasks:,}" for done in cover.places]
        series = Series("tasks", names, cover.places, labels=labels)
        return Chart("bars", [series], "Coverage", x="tasks", reference=cover.tasks, reference_name="target")

    def build_timeline_chart(self) -> Chart:
        """Build a line chart of answers over time."""
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

    def build_raters_chart(self) -> Chart:
        """Build a scatter plot of raters: time per task and agreement with the others."""
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

    def build_agreement_table(self) -> Table:
        """Build a table of Krippendorff's alpha of every question."""
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

    def _build_time_table(self) -> Table:
        seconds = [Column(name, decimals=1, unit=" s") for name in ("median", "90th percentile")]
        row: list[Value] = ["all pages", self.time.pages, self.time.median, self.time.p90, self.time.hours]
        columns: list[Column | str] = ["seconds", Column("pages"), *seconds]
        columns.append(Column("in all", decimals=2, unit=" h", key="hours"))
        return Table("time", "Time per task", columns, [row])

    def _build_raters_table(self) -> Table:
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

    def _build_comments(self) -> Text:
        lines = [f"{one.rater} on {one.item}: {one.text}" for one in self.comments[:COMMENTS]]
        if len(self.comments) > COMMENTS:
            lines.append(f"{len(self.comments) - COMMENTS} more comments are in JSON")
        return Text(lines, "Comments", bullets=True)

    def _build_data(self) -> Mapping[str, Any]:
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
            "forecast": self.forecast and self.forecast.data(),
            "agreement": self.questions,
            "time": self.time,
            "raters": self.raters,
            "comments": self.comments,
            "paused": is_paused(self.changes),
            "changes": [make_change_row(change) for change in self.changes],
            "metrics": None if self.metrics is None else self.metrics.data(),
            "ci": self.resampling.signature("images"),
        }


def study_progress(log: StudyLog, metrics: Sequence[str] = (), resampling: Resampling = Resampling()) -> StudyProgress:
    """Compute the progress of a study from its log, with the agreement of ``metrics`` if there are some."""
    if metrics:
        parse_all(metrics)  # an unknown metric is an error here, not just a reason in the result
    plan, tasks, events = log.plan(), log.tasks(), list(log.events())
    raters = log.list_rater_ids()
    now = datetime.now(timezone.utc)
    progress = compute_progress(
        plan, tasks, events, raters, open_tasks=log.count_leases(), resampling=resampling, now=now
    )
    if not metrics:
        return progress
    agreement = compute_metric_agreement(plan, tasks, collect_answers(events), MetricValues(metrics), resampling)
    return replace(progress, metrics=agreement)


def compute_progress(
    plan: Plan,
    tasks: Mapping[str, Task],
    events: Sequence[Event],
    raters: Sequence[str] = (),
    *,
    open_tasks: int = 0,
    resampling: Resampling = Resampling(),
    now: datetime | None = None,
) -> StudyProgress:
    """Compute the progress of a study from its events. ``raters`` are all with a link, even if they never came.

    ``now`` determines who has left.
    """
    answers = [one for one in collect_answers(events) if one.purpose != "practice"]
    counted = [one for one in answers if not one.excluded]
    values = collect_question_values(plan, tasks, answers)
    measurement, group = get_measurement(plan), get_resampling_column(plan, tasks.values())
    questions = [_measure_question(name, one, tasks, group, measurement, resampling) for name, one in values.items()]
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
        compute_rater_progress(plan, tasks, events, raters, values, now),
        tuple(comments),
        sum(one.late for one in answers),
        _build_timeline([one.at for one in work]),
        resampling,
        seq=events[-1].seq if events else 0,
        forecast=None if now is None else _forecast(work, number * plan.overlap, events, now),
        changes=list_changes(events),
    )


def _forecast(work: Sequence[Answered], target: int, events: Sequence[Event], now: datetime) -> Forecast:
    """Forecast the completion of a study from the answers that count."""
    since = max(now - WINDOW, min((one.at for one in work), default=now))
    paused = (now - since) - measure_running_time(since, now, events)
    running = not is_paused(list_changes(events))
    return forecast_completion([one.at for one in work if not one.late], target, now, paused, running)


def _measure_question(
    name: str,
    ratings: QuestionValues,
    tasks: Mapping[str, Task],
    group: Literal["image", "item"],
    measurement: Measurement,
    resampling: Resampling,
) -> Question:
    """Compute alpha of one question with its interval over images or items, or the reason why there is none yet."""
    if np.bincount(ratings.unit).max() < 2:
        return Question(name, measurement, None, "nothing has two answers yet")
    task_of = dict(zip(ratings.unit, ratings.task, strict=True))
    several = [tasks[task_of[index]] for index in range(len(ratings.units))]
    groups = [str(getattr(task, group) or task.id) for task in several]
    try:
        alpha = krippendorff(ratings.build_matrix(), measurement, resampling, groups)
    except InputError:
        return Question(name, measurement, None, "all answers are the same so far")
    return Question(name, measurement, replace(alpha, raters=len({*ratings.rater})))


def _build_timeline(times: Sequence[datetime], points: int = 60) -> tuple[tuple[datetime, int], ...]:
    """Return times with the number of answers until then, at most ``points`` of them."""
    ordered = sorted(times)
    if len(ordered) <= points:
        return tuple((at, number) for number, at in enumerate(ordered, 1))
    numbers = np.unique(np.linspace(1, len(ordered), points).round().astype(int))
    return tuple((ordered[number - 1], int(number)) for number in numbers)
