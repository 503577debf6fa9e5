"""Ratings: every caption of a page on one or more scales."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from captious.errors import InputError, format_suggestion
from captious.studio.collect._subjects import Subject
from captious.studio.collect.kinds.kind import (
    Answer,
    Gap,
    GradedAnswer,
    Incomplete,
    TaskKind,
    find_choice,
    parse_option,
)
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.study_plan import CANNOT, Aspect, Plan

# Name of the overall rating in exports and agreement, in addition to the aspects.
OVERALL = "rating"


class RatingsKind(TaskKind):
    """Kind ``ratings``: field ``rating:<place>:<aspect>`` is a point; the answer has a number by caption and aspect."""

    name = "ratings"
    measurement = "ordinal"
    needs = "a caption"

    def split_pages(
        self, plan: Plan, subject: Subject, rng: np.random.Generator
    ) -> Iterable[Sequence[tuple[str, str]]]:
        """Split the captions of a subject into pages of at most ``together``, drawn with the seed."""
        return [
            [subject.captions[index] for index in page]
            for page in _split_pages(len(subject.captions), plan.together, rng)
        ]

    def read(self, plan: Plan, task: Task, order: Sequence[str], form: Mapping[str, str]) -> Answer:
        """Return a number or None for every caption and aspect."""
        ratings: dict[str, dict[str, Any]] = {choice.id: {} for choice in task.choices}
        gaps: list[Gap] = []
        for place, choice in enumerate(order):
            for aspect in plan.aspects:
                field = f"rating:{place}:{aspect.name}"
                missing = _describe_missing(plan, aspect, place + 1 if len(order) > 1 else None)
                points = _list_points(plan, aspect)
                ratings[choice][aspect.name], gap = parse_option(plan, form.get(field), points, field, missing)
                gaps += gap
        if gaps:
            raise Incomplete(gaps)
        return {"ratings": ratings}

    def form(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> dict[str, str]:
        """Return the chosen points."""
        return {
            f"rating:{place}:{aspect}": CANNOT if rating is None else f"{rating:g}"
            for place, choice in enumerate(order)
            for aspect, rating in answer["ratings"].get(choice, {}).items()
        }

    def parse_gold(self, plan: Plan, task: Task, expected: Any) -> dict[str, Any] | None:
        """Parse a number or a range for captions and aspects: ``4``, ``[4, 5]``, ``{"sat": [1, 2]}``, ``[5, 1]``."""
        if len(task.choices) == 1 and isinstance(expected, list) and len(expected) == 1:
            expected = expected[0]  # a list of captions, of which there is one
        if len(task.choices) == 1 and not (
            isinstance(expected, Mapping) and find_choice(task, next(iter(expected), ""))
        ):
            by_choice = {task.choices[0].id: expected}
            if isinstance(expected, Mapping) and not {*expected} <= {aspect.name for aspect in plan.aspects}:
                return None
        elif isinstance(expected, Mapping):
            named = {name: find_choice(task, name) for name in expected}
            by_choice = {choice.id: expected[name] for name, choice in named.items() if choice is not None}
        elif isinstance(expected, list) and len(expected) == len(task.choices):
            by_choice = {choice.id: one for choice, one in zip(task.choices, expected, strict=True)}
        else:
            raise InputError(f"expected is {str(expected)[:60]}, expected one for each caption, such as {{'sat': 4}}")
        ranges = {choice: _parse_ranges(plan, one) for choice, one in by_choice.items()}
        return {"ratings": ranges} if ranges else None

    def passes(self, plan: Plan, task: Task, answer: Answer) -> bool:
        """Return True if every rating is inside its expected range."""
        return all(
            (rating := answer["ratings"].get(choice, {}).get(aspect)) is not None and low <= rating <= high
            for choice, ranges in (task.gold or {"ratings": {}})["ratings"].items()
            for aspect, (low, high) in ranges.items()
        )

    def grade_answer(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> list[GradedAnswer]:
        """Return the rating of every scale that has an expected range."""
        known = (task.gold or {"ratings": {}})["ratings"]
        labels = {aspect.name: aspect.label for aspect in plan.aspects}
        result = []
        for place, choice in enumerate(order, 1):
            for aspect, (low, high) in known.get(choice, {}).items():
                caption = [plan.wording("caption_name", name=place)] if len(order) > 1 else []
                about = " · ".join([*caption, *([labels[aspect]] if len(labels) > 1 else [])])
                rating = answer["ratings"].get(choice, {}).get(aspect)
                given = plan.wording("cannot_judge") if rating is None else f"{rating:g}"
                expected = f"{low:g}" if low == high else f"{low:g} – {high:g}"
                result.append(GradedAnswer(about, given, expected, rating is not None and low <= rating <= high))
        return result

    def values(self, plan: Plan, task: Task, answer: Answer) -> dict[str, dict[str, float | None]]:
        """Return a table of captions for each aspect, and for the overall rating if it has a formula."""
        tables: dict[str, dict[str, float | None]] = {aspect.name: {} for aspect in plan.aspects}
        if plan.formula is not None:
            tables[OVERALL] = {}
        for choice, ratings in answer["ratings"].items():
            unit = f"{task.id}/{choice}"
            for aspect, rating in ratings.items():
                tables[aspect][unit] = rating
            if plan.formula is not None:
                tables[OVERALL][unit] = plan.formula.of(ratings)
        return tables


def compute_overall(plan: Plan, ratings: Mapping[str, float | None]) -> float | None:
    """Return the overall rating of a caption: by the formula, else the aspect ``overall``, else the first aspect."""
    return plan.formula.of(ratings) if plan.formula is not None else ratings.get(find_rated_aspect(plan).name)


def find_rated_aspect(plan: Plan) -> Aspect:
    """Return the aspect that is the overall rating if there is no formula."""
    return next((aspect for aspect in plan.aspects if aspect.name == "overall"), plan.aspects[0])


def _split_pages(captions: int, together: int, rng: np.random.Generator) -> list[list[int]]:
    """Split captions randomly into pages of nearly equal size; on a page, they are in the order of the files."""
    pages = -(-captions // together)
    if pages <= 1:
        return [list(range(captions))] if captions else []
    shuffled = rng.permutation(captions).tolist()
    return [sorted(shuffled[page::pages]) for page in range(pages)]


def _describe_missing(plan: Plan, aspect: Aspect, caption: int | None) -> str:
    """Return the message for a scale without a rating, with the caption's number if a page has several."""
    name = "no_rating" if caption is None else "caption_no_rating"
    values = {} if caption is None else {"name": caption}
    if len(plan.aspects) == 1:
        return plan.wording(name, **values)
    return plan.wording(f"{name}_for", aspect=aspect.label, **values)


def _list_points(plan: Plan, aspect: Aspect) -> dict[str, float | None]:
    points: dict[str, float | None] = {f"{point:g}": point for point in aspect.points}
    return {**points, CANNOT: None} if plan.cannot_judge else points


def _parse_ranges(plan: Plan, expected: Any) -> dict[str, list[float]]:
    names = [aspect.name for aspect in plan.aspects]
    if not isinstance(expected, Mapping):
        if len(names) > 1:
            raise InputError(f"expected is {str(expected)[:60]}, expected one of the aspects: {', '.join(names)}")
        expected = {names[0]: expected}
    ranges = {}
    for name, value in expected.items():
        if name not in names:
            suggestion = format_suggestion(str(name), names)
            raise InputError(f"expected has {str(name)[:40]!r}, expected aspects: {', '.join(names)}{suggestion}")
        bounds = value if isinstance(value, list) else [value, value]
        aspect = plan.aspects[names.index(name)]
        numbers = [bound for bound in bounds if isinstance(bound, (int, float)) and not isinstance(bound, bool)]
        low, high = aspect.points[0], aspect.points[-1]
        if len(bounds) != 2 or len(numbers) != 2 or not low <= numbers[0] <= numbers[1] <= high:
            raise InputError(
                f"expected {name} is {str(value)[:40]}, expected a number or a range from {low:g} to {high:g}"
            )
        ranges[name] = numbers
    return ranges
