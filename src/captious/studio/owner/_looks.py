"""People's verdict on the owner's page at planned looks, the same as ``captious study estimate`` of the export."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.join import refuse
from captious.metrics.registry import parse_all
from captious.options import Resampling
from captious.runs.report import Report
from captious.stats.looks import look_boundaries
from captious.studio.collect._events import Answered
from captious.studio.collect._subjects import Subject, read_subjects
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.study_plan import Looks, Plan
from captious.studio.owner.export import (
    FILES,
    build_answer_rows,
    build_answer_tables,
    get_resampling_column,
    make_study_recipe,
)
from captious.study import Verdict, estimate
from captious.study.judgments import open_judgments

# Kinds of tasks whose answers are estimated for all captions.
ESTIMATED = ("ratings", "pairs")


@dataclass(frozen=True)
class LookState:
    """The planned looks of a study, and how many of them its rated images have reached."""

    planned: int
    """The planned number of rated images."""
    times: tuple[int, ...]
    """The numbers of rated images at which looks are due."""
    images: int
    """Rated images now."""
    available: int = 0
    """Images of the study; 0 if unknown."""

    @classmethod
    def of(cls, looks: Looks, images: int, available: int = 0) -> LookState:
        """Return the state of a study with this number of rated images; looks are due at equal steps.

        >>> LookState.of(Looks(planned=300, number=5), 96).describe_next()
        'look 2 of 5 at 120 images: now 96'
        """
        # Several looks of a small study may be due at the same image.
        times = {math.ceil(looks.planned * number / looks.number) for number in range(1, looks.number + 1)}
        return cls(looks.planned, tuple(sorted(times)), images, available)

    @property
    def past(self) -> tuple[int, ...]:
        """The looks that have been reached, as numbers of rated images."""
        return tuple(time for time in self.times if time <= self.images)

    @property
    def is_at_look(self) -> bool:
        """Whether a look is due now: the number of rated images is exactly that of a look, or the study is complete."""
        return self.images >= self.planned or self.images in self.times

    @property
    def is_unreachable(self) -> bool:
        """Whether more images are planned than the study has."""
        return 0 < self.available < self.planned

    def describe_next(self) -> str:
        """Return the next look in a few words; empty after the last one."""
        number = len(self.past)
        if number == len(self.times):
            return ""
        return f"look {number + 1} of {len(self.times)} at {self.times[number]:,} images: now {self.images:,}"

    def describe_factor(self, looked: Sequence[int], images: int) -> str:
        """Return the factor of the standard error at a look after some others, in words."""
        times = [number / self.planned for number in (*looked, min(images, self.planned))]
        return f"intervals are ± {look_boundaries(times)[-1]:.2f} standard errors, ± 1.96 if this were the only look"

    def describe_end(self, verdict: Verdict | None) -> str:
        """Return the forecast of the intervals at the last look, in a sentence; empty without one."""
        if verdict is None or self.images >= self.planned:
            return ""
        boundary = look_boundaries([time / self.planned for time in self.times])[-1]
        width = verdict.forecast(self.planned, boundary)
        if not math.isfinite(width):
            return ""
        size = f"{width:.2f}" if verdict.questions[0].kind == "mean" else f"{100 * width:.0f} %"
        return (
            f"At the last look, {self.planned:,} images, intervals will be about ± {size} if the same people rate on."
        )


@dataclass(frozen=True)
class LookResult:
    """The verdict on the owner's page: that of the last look, and that of now, which is hidden until it is opened."""

    state: LookState | None = None
    """None if no looks are planned: the interval is that of a single look."""
    shown: Verdict | None = None
    shown_at: str = ""
    """A sentence about the look of the shown verdict."""
    hidden: Verdict | None = None
    hidden_at: str = ""
    """A sentence about the answers of the hidden verdict."""
    forecast: str = ""
    """A sentence about how wide the intervals will be at the last look."""
    reason: str = ""
    """The reason why there is no verdict."""


def measure_captions(plan: Plan, metrics: Sequence[str]) -> list[Report]:
    """Compute metrics for all captions from which the items of a study were drawn; return a report per system."""
    parsed = parse_all(metrics)
    captions = read_all_captions(plan)
    return [evaluate(one, parsed, resampling=Resampling(samples=0)) for one in captions]


def check_auxiliary(plan: Plan, metrics: Sequence[str]) -> list[str]:
    """Return the written forms of metrics; raise `InputError` for those that the captions of a study do not allow."""
    if plan.kind not in ESTIMATED:
        raise InputError(f"{plan.path}: using=... is for ratings and pairs, and this study has {plan.kind}")
    parsed = []
    for name in metrics:
        variants = parse_all([name])
        if len(variants) > 1:
            raise InputError(f"using={name}: stands for {', '.join(map(str, variants))}, expected one of them")
        parsed += variants
    for captions in read_all_captions(plan):
        for metric in parsed:
            metric.refuse_unfit(captions)
    return [str(metric) for metric in parsed]


def read_all_captions(plan: Plan) -> list[CaptionSet]:
    """Read the captions of every system in the files of a study, including those that are not rated."""
    subjects = read_subjects(replace(plan, ids=(), items=None, quotas={}), refuse)
    systems: dict[str, dict[str, tuple[str, Subject]]] = {}
    for subject in subjects:
        for system, text in subject.captions:
            captions = systems.setdefault(system, {})
            if not system or subject.id in captions:
                raise InputError(
                    f"{plan.path}: using=... needs one caption per item of each system, and item {subject.id} has "
                    "captions without a system"
                )
            captions[subject.id] = (text, subject)
    if not systems:
        raise InputError(f"{plan.path}: using=... needs captions, and this study has none")
    sets = []
    for system, captions in systems.items():
        columns = {}
        if plan.images:
            folder = plan.file(plan.images)
            columns["image"] = [subject.image and str(folder / subject.image) for _, subject in captions.values()]
        texts = {id: text for id, (text, _) in captions.items()}
        references = {id: subject.references for id, (_, subject) in captions.items()}
        sets.append(CaptionSet.of(texts, references, columns, system))
    return sets


def compute_look_result(
    plan: Plan,
    tasks: Mapping[str, Task],
    answers: Sequence[Answered],
    reports: Sequence[Report],
    using: Sequence[str],
) -> LookResult:
    """Compute the verdict at the last planned look, and the current one, which is hidden.

    If no looks are planned, the current verdict is shown.
    """
    if not plan.looks.planned:
        return _estimate_answers(plan, tasks, answers, reports, using, None, ())
    images = {image for _, image in _list_rated_images(plan, tasks, answers)}
    column = get_resampling_column(plan, tasks.values())
    asked = {getattr(task, column) for task in tasks.values() if task.gold is None}
    state = LookState.of(plan.looks, len(images), len(asked))
    number = len(state.past)
    if state.is_at_look:
        # Beyond the planned end all answers belong to the last look, and the verdict warns.
        looked = state.past[:-1]
        now = _estimate_answers(plan, tasks, answers, reports, using, state, looked)
        at = f"Look {number} of {len(state.times)}, at {state.images:,} rated images of {state.planned:,} planned ones"
        shown_at = f"{at}: {state.describe_factor(looked, state.images)}."
        return replace(now, shown_at=shown_at, forecast=state.describe_end(now.shown))
    now = _estimate_answers(plan, tasks, answers, reports, using, state, state.past)
    factor = state.describe_factor(state.past, state.images) if state.images else ""
    result = LookResult(state, hidden=now.shown, hidden_at=f"Now, at {state.images:,} images: {factor}.")
    if not number:
        return replace(result, reason=now.reason)
    last, looked = state.past[-1], state.past[:-1]
    answers_at_look = take_answers(plan, tasks, answers, last)
    look = _estimate_answers(plan, tasks, answers_at_look, reports, using, state, looked)
    at = f"Look {number} of {len(state.times)}, the answers up to the first {last:,} images"
    return replace(
        result,
        shown=look.shown,
        shown_at=f"{at}: {state.describe_factor(looked, last)}.",
        forecast=state.describe_end(look.shown),
        reason=look.reason,
    )


def take_answers(plan: Plan, tasks: Mapping[str, Task], answers: Sequence[Answered], images: int) -> list[Answered]:
    """Return the answers up to the one that rated the last of the first ``images`` images, in the order of arrival."""
    seen: set[str] = set()
    for last, image in _list_rated_images(plan, tasks, answers):
        seen.add(image)
        if len(seen) == images:
            return [answer for answer in answers if answer.seq <= last.seq]
    return list(answers)


def _list_rated_images(
    plan: Plan, tasks: Mapping[str, Task], answers: Sequence[Answered]
) -> list[tuple[Answered, str]]:
    """List the answers that count and rate an image, in the order of arrival, with the image as the export names it."""
    column = get_resampling_column(plan, tasks.values())
    rated = []
    for answer in sorted(answers, key=lambda answer: answer.seq):
        if answer.purpose != "work" or answer.excluded:
            continue
        rows = build_answer_rows(plan, tasks[answer.task], answer)
        rows = [row for row in rows if plan.kind != "ratings" or row["rating"] is not None]
        rated += [(answer, str(row[column])) for row in rows[:1]]
    return rated


def _estimate_answers(
    plan: Plan,
    tasks: Mapping[str, Task],
    answers: Sequence[Answered],
    reports: Sequence[Report],
    using: Sequence[str],
    state: LookState | None,
    looked: Sequence[int],
) -> LookResult:
    recipe = make_study_recipe(plan, tasks.values())
    assert recipe is not None
    rows = build_answer_tables(plan, tasks, answers)[FILES[plan.kind]]
    if not rows:
        return LookResult(state, reason="No result yet: no answer has come in.")
    try:
        judgments = open_judgments(rows, columns=recipe.layouts[0], recipe=recipe)
        planned = state.planned if state else None
        verdict = estimate(judgments, reports, using=using if reports else None, planned=planned, looked=looked)
    except InputError as error:
        return LookResult(state, reason=f"No result yet: {error}")
    return LookResult(state, verdict)
