"""The running result: how far chosen metrics agree with the raters so far.

The values of a metric do not change while a study runs, so they are computed once for all captions of the study; what
comes in is ratings. The statistics are those of ``captious study run``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._typing import Floats
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.images import with_images
from captious.metrics.measurement import Measurement
from captious.metrics.registry import parse_all
from captious.options import LEVEL, Resampling
from captious.render import Cell, Chart, Column, Section, Series, Table, Text
from captious.render.document import Value
from captious.stats.bootstrap import Estimate, estimate
from captious.studio.kinds.ratings import overall_rating, rated_aspect
from captious.studio.plan import Plan
from captious.studio.tasks import Task
from captious.study.design import build_design, family_of
from captious.study.ratings import Preferences, Ratings, matrix
from captious.study.recipes import Recipe

if TYPE_CHECKING:
    from captious.studio.events import Answered

USUAL = ("bleu(n=4)", "rouge", "cider")
"""Metrics for captions with references, unless others are chosen."""
STATISTICS = {"ratings": "tau_b", "ranking": "sample_tau", "pairs": "mean"}
"""What says how far a metric agrees with people, by kind of task."""
MEANINGS = {
    "tau_b": "Kendall's tau-b with the ratings",
    "sample_tau": "Kendall's tau-b with the ranks of each set, averaged",
    "mean": "share of preferences that the metric shares",
}
LABELS = {"tau_b": "τ-b × 100", "sample_tau": "τ-b within a set × 100", "mean": "accuracy × 100"}


@dataclass(frozen=True)
class MetricAgreement:
    """Metrics from the best to the worst, with intervals; or why there is no result yet."""

    statistic: str
    estimates: Mapping[str, Estimate]
    """By the metric's label."""
    rated: int
    """Captions, or pairs, with an answer."""
    of: str = ""
    """What was rated, such as overall."""
    reason: str = ""
    level: float = LEVEL

    def sections(self) -> list[Section]:
        """A forest plot and a table."""
        title = "Metric agreement so far"
        if self.reason:
            return [Text([self.reason], title)]
        return [self.table(title), self.chart()]

    def table(self, title: str = "") -> Table:
        """A row per metric."""
        value = Column(LABELS[self.statistic], scale=100, decimals=1, level=self.level, bold=True, key=self.statistic)
        rows: list[list[Value]] = [[name, Cell.of(one)] for name, one in self.estimates.items()]
        return Table("metrics", title, ["metric", value], rows, f"{self.rated:,} rated {self._units}: {self.of}")

    def chart(self) -> Chart:
        """The forest plot."""
        values = [(100 * one.value, 100 * one.low, 100 * one.high) for one in self.estimates.values()]
        points, low, high = zip(*values, strict=True)
        chance = 50.0 if self.statistic == "mean" else 0.0
        series = Series(LABELS[self.statistic], list(self.estimates), points, low, high)
        note = (
            f"{MEANINGS[self.statistic]}; {self.rated:,} rated {self._units} so far; intervals: bootstrap over images."
        )
        return Chart("intervals", [series], "", note, LABELS[self.statistic], "", chance, "chance")

    @property
    def _units(self) -> str:
        return "pairs" if self.statistic == "mean" else "captions"

    def data(self) -> dict[str, Any]:
        """What JSON holds."""
        return {
            "statistic": self.statistic,
            "of": self.of,
            "rated": self.rated,
            "reason": self.reason,
            "metrics": dict(self.estimates),
        }


def captions_of(plan: Plan, tasks: Mapping[str, Task]) -> CaptionSet:
    """Every caption of the study by task and choice, with references and images."""
    choices = {
        f"{task.id}/{choice.id}": (choice, task)
        for task in tasks.values()
        if task.gold is None
        for choice in task.choices
    }
    captions = CaptionSet.of(
        {key: choice.text for key, (choice, _) in choices.items()},
        {key: list(task.references) for key, (_, task) in choices.items()},
        {"image": [task.image or task.item for _, task in choices.values()]},
        plan.title,
    )
    if plan.images and all(task.image for _, task in choices.values()):
        return with_images(captions, plan.file(plan.images))
    return captions


def measure_captions(plan: Plan, tasks: Mapping[str, Task], metrics: Sequence[str]) -> list[Measurement]:
    """Metrics on every caption of the study."""
    refuse_kind(plan)
    captions = captions_of(plan, tasks)
    return [metric.measure(captions) for metric in parse_all(metrics, [captions])]


def refuse_kind(plan: Plan) -> None:
    """Say that answers of this kind are none about the quality of captions."""
    if plan.kind not in STATISTICS:
        raise InputError(f"a study of kind {plan.kind} has no metric agreement, expected {', '.join(STATISTICS)}")


def metric_agreement(
    plan: Plan,
    tasks: Mapping[str, Task],
    answers: Sequence[Answered],
    measurements: Sequence[Measurement],
    resampling: Resampling = Resampling(),
) -> MetricAgreement:
    """Each metric against the answers so far, those of excluded raters left out."""
    refuse_kind(plan)
    statistic = STATISTICS[plan.kind]
    counted = [one for one in answers if one.purpose == "work" and not one.excluded]
    of = _asked(plan)
    try:
        people, captions = _people(plan, tasks, counted)
        estimates = {}
        for one in measurements:
            values = np.array([_number(one.items.get(caption)) for caption in captions])
            values = values if one.metric.higher_is_better else -values
            estimates[one.metric.label] = _estimate(people, values, statistic, resampling)
    except InputError as error:
        return MetricAgreement(statistic, {}, 0, of, f"No result yet: {error}", resampling.level)
    best_first = dict(sorted(estimates.items(), key=lambda entry: -entry[1].value))
    rated = len(people.preferred) if isinstance(people, Preferences) else len(people)
    return MetricAgreement(statistic, best_first, rated, of, level=resampling.level)


def _asked(plan: Plan) -> str:
    """What metrics are held against: the overall rating, or the first aspect where there is none."""
    if plan.kind != "ratings":
        return {"ranking": "ranks", "pairs": "preferences"}[plan.kind]
    return "overall rating" if plan.overall else rated_aspect(plan).name


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _estimate(people: Ratings | Preferences, values: Floats, statistic: str, resampling: Resampling) -> Estimate:
    design, used = build_design(people, ~np.isnan(values), Recipe(people.name, ()))
    family = design.family(family_of(design, statistic), values[used])
    return estimate(family, design.clusters, resampling)[statistic]


def _people(
    plan: Plan, tasks: Mapping[str, Task], answers: Sequence[Answered]
) -> tuple[Ratings | Preferences, list[str]]:
    """The answers as ratings or preferences, and the caption behind each of their ids."""
    if plan.kind == "pairs":
        return _preferences(tasks, answers)
    values: dict[str, list[float | None]] = {}
    groups: dict[str, str] = {}
    for one in answers:
        task = tasks[one.task]
        for choice, value in _ratings(plan, one.answer).items():
            caption = f"{task.id}/{choice}"
            values.setdefault(caption, []).append(value)
            groups[caption] = task.id if plan.kind == "ranking" else task.item
    if not values:
        raise InputError("no answer has come in")
    ids = tuple(values)
    return Ratings(ids, matrix(list(values.values())), tuple(groups[key] for key in ids)), list(ids)


def _ratings(plan: Plan, answer: Mapping[str, Any]) -> dict[str, float]:
    """The rating of every caption of a page that has one."""
    if plan.kind == "ranking":
        return {choice: float(rank) for choice, rank in answer["ranks"].items()}
    ratings = {choice: overall_rating(plan, aspects) for choice, aspects in answer["ratings"].items()}
    return {choice: float(value) for choice, value in ratings.items() if value is not None}


def _preferences(tasks: Mapping[str, Task], answers: Sequence[Answered]) -> tuple[Preferences, list[str]]:
    """Pairs with an answer that is no tie."""
    decided = [one for one in answers if one.answer["preferred"] is not None]
    if not decided:
        raise InputError("no answer has come in")
    pairs = [tasks[one.task] for one in decided]
    captions = [f"{task.id}/{choice.id}" for task in pairs for choice in task.choices]
    preferred = [float(task.choices[1].id == one.answer["preferred"]) for task, one in zip(pairs, decided, strict=True)]
    ids = tuple(f"{one.task}/{one.rater}/{side}" for one in decided for side in (0, 1))
    groups = tuple(task.item for task in pairs)
    return Preferences(ids, np.array(preferred), groups, ("all",) * len(pairs)), captions
