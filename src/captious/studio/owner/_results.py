"""Human results so far: the ranking of systems, and counts of every answer."""

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
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.study_plan import Aspect, Plan
from captious.studio.owner.export import FILES, build_answer_tables, make_study_recipe
from captious.study import systems
from captious.study.judgments import open_judgments
from captious.study.ranking.system_ranking import SystemRanking

CANNOT, NEITHER = "cannot judge", "neither"
# A scale of at most this many points has a bar per point; a longer one is binned.
MOST_POINTS, BINS = 11, 10


@dataclass(frozen=True)
class AnswerCounts:
    """The number of times that each answer to a question was given."""

    question: str
    counts: tuple[tuple[str, int], ...]
    note: str

    @property
    def most(self) -> int:
        """The largest count, at least 1: the length of the longest bar."""
        return max([1, *(count for _, count in self.counts)])


@dataclass(frozen=True)
class PeopleResult:
    """The ranking of systems so far, or why there is none; and the counts of answers to every question."""

    ranking: SystemRanking | None
    reason: str
    answers: tuple[AnswerCounts, ...]

    @property
    def tables(self) -> list[Table]:
        """The tables of the ranking."""
        return list_tables(self._sections)

    @property
    def charts(self) -> list[Chart]:
        """The charts of the ranking."""
        return list_charts(self._sections)

    @property
    def _sections(self) -> list[Section]:
        return [] if self.ranking is None else self.ranking.sections()


def list_tables(sections: Sequence[Section]) -> list[Table]:
    """Return the tables without bars: these need inline styles, which the page's content policy blocks."""
    shown = [one for one in sections if isinstance(one, Table) and not one.detail]
    return [replace(one, columns=[replace(column, bar=False) for column in one.heads]) for one in shown]


def list_charts(sections: Sequence[Section]) -> list[Chart]:
    """Return the charts."""
    return [one for one in sections if isinstance(one, Chart)]


def compute_people_result(
    plan: Plan, tasks: Mapping[str, Task], answers: Sequence[Answered], resampling: Resampling
) -> PeopleResult:
    """Compute the result of exactly the rows that an export writes, without excluded raters."""
    counted = [one for one in answers if one.purpose == "work" and not one.excluded]
    counts = tuple(count_answers(plan, tasks, counted)) if counted else ()
    recipe = make_study_recipe(plan, tasks.values())
    if recipe is None:
        return PeopleResult(None, "Answers of this kind do not compare systems.", counts)
    if not counted:
        return PeopleResult(None, "No result yet: no answer has come in.", counts)
    try:
        rows = build_answer_tables(plan, tasks, answers)[FILES[plan.kind]]
        people = open_judgments(rows, columns=recipe.layouts[0], recipe=recipe)
        ranking = systems(people, resampling=resampling)
    except InputError as error:
        return PeopleResult(None, f"No result: {error}", counts)
    return PeopleResult(ranking, "", counts)


def count_answers(plan: Plan, tasks: Mapping[str, Task], answers: Sequence[Answered]) -> list[AnswerCounts]:
    """Count the answers to every question of the study."""
    if plan.kind == "ratings":
        return [_count_ratings(aspect, answers) for aspect in plan.aspects]
    if plan.kind == "ranking":
        return [_count_texts("ranked best", [name for one in answers for name in _find_best(tasks[one.task], one)])]
    if plan.kind == "pairs":
        preferred = [(name_captions(tasks[one.task]), one.answer["preferred"]) for one in answers]
        return [_count_texts("preferred", [NEITHER if key is None else names[key] for names, key in preferred])]
    if plan.kind == "yesno":
        words = {True: "yes", False: "no", None: CANNOT}
        return [_count_texts("seen", [words[value] for one in answers for value in one.answer["seen"].values()])]
    return [_count_texts(plan.label, [str(one.answer["label"] or CANNOT) for one in answers])]


def name_captions(task: Task) -> dict[str, str]:
    """Return names of the captions of a task by id: their systems, or their positions in the file."""
    return {choice.id: choice.system or f"caption {place}" for place, choice in enumerate(task.choices, 1)}


def _find_best(task: Task, one: Answered) -> list[str]:
    ranks, names = one.answer["ranks"], name_captions(task)
    return [names[choice] for choice, rank in ranks.items() if rank == max(ranks.values())]


def _count_texts(question: str, answers: Sequence[str]) -> AnswerCounts:
    """Count answers that are texts, the most frequent first."""
    return AnswerCounts(question, tuple(Counter(answers).most_common()), f"{len(answers):,} answers")


def _count_ratings(aspect: Aspect, answers: Sequence[Answered]) -> AnswerCounts:
    """Count ratings in the order of the scale; long scales are binned."""
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
