"""What raters have said so far: which system they prefer, and how often each answer was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from captious.errors import InputError
from captious.options import Resampling
from captious.render import Chart, Section, Table
from captious.studio.collect._events import Answered
from captious.studio.collect._rendering import format_point
from captious.studio.collect.plan import Aspect, Plan
from captious.studio.collect.tasks import Task
from captious.studio.owner.export import FILES, answer_tables, study_recipe
from captious.study import systems
from captious.study.ranking import SystemRanking
from captious.study.ratings import open_judgments

CANNOT, NEITHER = "cannot judge", "neither"
MOST_POINTS, BINS = 11, 10
"""Points of a scale that have a bar each; a longer scale is cut into bins."""


@dataclass(frozen=True)
class AnswerCounts:
    """How often each answer to a question was given."""

    question: str
    counts: tuple[tuple[str, int], ...]
    note: str

    @property
    def most(self) -> int:
        """The largest count, and never 0: the longest bar."""
        return max([1, *(count for _, count in self.counts)])


@dataclass(frozen=True)
class PeopleResult:
    """The ranking of systems so far, or why there is none; and the answers to every question, counted."""

    ranking: SystemRanking | None
    reason: str
    answers: tuple[AnswerCounts, ...]

    @property
    def tables(self) -> list[Table]:
        """The tables of the ranking, without bars: they have a style of their own, which the page refuses."""
        shown = [one for one in self._sections if isinstance(one, Table) and not one.detail]
        return [replace(one, columns=[replace(column, bar=False) for column in one.heads]) for one in shown]

    @property
    def charts(self) -> list[Chart]:
        """The charts of the ranking."""
        return [one for one in self._sections if isinstance(one, Chart)]

    @property
    def _sections(self) -> list[Section]:
        return [] if self.ranking is None else self.ranking.sections()


def people_result(
    plan: Plan, tasks: Mapping[str, Task], answers: Sequence[Answered], resampling: Resampling
) -> PeopleResult:
    """The result of the very rows that an export writes, those of excluded raters left out."""
    counted = [one for one in answers if one.purpose == "work" and not one.excluded]
    counts = tuple(answer_counts(plan, tasks, counted)) if counted else ()
    recipe = study_recipe(plan, tasks.values())
    if recipe is None:
        return PeopleResult(None, "Answers of this kind do not compare systems.", counts)
    if not counted:
        return PeopleResult(None, "No result yet: no answer has come in.", counts)
    try:
        rows = answer_tables(plan, tasks, answers)[FILES[plan.kind]]
        people = open_judgments(rows, columns=recipe.layouts[0], recipe=recipe)
        ranking = systems(people, resampling=resampling)
    except InputError as error:
        return PeopleResult(None, f"No result: {error}", counts)
    return PeopleResult(ranking, "", counts)


def answer_counts(plan: Plan, tasks: Mapping[str, Task], answers: Sequence[Answered]) -> list[AnswerCounts]:
    """The answers to every question of the study, counted."""
    if plan.kind == "ratings":
        return [_rating_counts(aspect, answers) for aspect in plan.aspects]
    if plan.kind == "ranking":
        return [_counted("ranked best", [name for one in answers for name in _best(tasks[one.task], one)])]
    if plan.kind == "pairs":
        preferred = [(names_of(tasks[one.task]), one.answer["preferred"]) for one in answers]
        return [_counted("preferred", [NEITHER if key is None else names[key] for names, key in preferred])]
    if plan.kind == "yesno":
        words = {True: "yes", False: "no", None: CANNOT}
        return [_counted("seen", [words[value] for one in answers for value in one.answer["seen"].values()])]
    return [_counted(plan.label, [str(one.answer["label"] or CANNOT) for one in answers])]


def names_of(task: Task) -> dict[str, str]:
    """What the captions of a task are called: their systems, or their places in the file."""
    return {choice.id: choice.system or f"caption {place}" for place, choice in enumerate(task.choices, 1)}


def _best(task: Task, one: Answered) -> list[str]:
    ranks, names = one.answer["ranks"], names_of(task)
    return [names[choice] for choice, rank in ranks.items() if rank == max(ranks.values())]


def _counted(question: str, answers: Sequence[str]) -> AnswerCounts:
    """Answers that are words, the most frequent first."""
    return AnswerCounts(question, tuple(Counter(answers).most_common()), f"{len(answers):,} answers")


def _rating_counts(aspect: Aspect, answers: Sequence[Answered]) -> AnswerCounts:
    """Ratings in the order of the scale."""
    given = [ratings.get(aspect.name) for one in answers for ratings in one.answer["ratings"].values()]
    values = [float(value) for value in given if value is not None]
    unable = len(given) - len(values)
    note = f"{len(values):,} ratings" + (f"; {unable:,} times {CANNOT}" if unable else "")
    if len(aspect.points) <= MOST_POINTS:
        counts = Counter(values)
        return AnswerCounts(aspect.label, tuple((format_point(one), counts[float(one)]) for one in aspect.points), note)
    heights, edges = np.histogram(values, bins=BINS, range=(float(aspect.points[0]), float(aspect.points[-1])))
    names = [f"{format_point(low)} – {format_point(high)}" for low, high in pairwise(edges.tolist())]
    return AnswerCounts(aspect.label, tuple(zip(names, heights.tolist(), strict=True)), note)
