"""Pairs: which of two captions is better."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from captious.errors import InputError
from captious.studio.collect._subjects import Subject
from captious.studio.collect.kinds.kind import Answer, GradedAnswer, Incomplete, TaskKind, find_choice, parse_option
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.study_plan import Plan

TIE = "tie"


class PairsKind(TaskKind):
    """Kind ``pairs``: field ``preferred`` is a place or ``tie``; ``both_bad`` is a separate box, since better is not
    good.
    """

    name = "pairs"
    measurement = "nominal"
    needs = "at least two captions"

    def split_pages(
        self, plan: Plan, subject: Subject, rng: np.random.Generator
    ) -> Iterable[Sequence[tuple[str, str]]]:
        """Return one page for every two captions."""
        return combinations(subject.captions, 2)

    def read(self, plan: Plan, task: Task, order: Sequence[str], form: Mapping[str, str]) -> Answer:
        """Return the preferred caption, None for a tie."""
        places: dict[str, str | None] = {str(place): choice for place, choice in enumerate(order)}
        if plan.ties:
            places[TIE] = None
        missing = plan.wording("choose_caption_or_tie" if plan.ties else "choose_caption")
        preferred, gaps = parse_option(plan, form.get("preferred"), places, "preferred", missing)
        if gaps:
            raise Incomplete(gaps)
        return {"preferred": preferred, "both_bad": plan.both_bad and form.get("both_bad") == "on"}

    def form(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> dict[str, str]:
        """Return the choice, and the box if it is ticked."""
        preferred = answer["preferred"]
        form = {"preferred": TIE if preferred is None else str(list(order).index(preferred))}
        return {**form, "both_bad": "on"} if answer.get("both_bad") else form

    def parse_gold(self, plan: Plan, task: Task, expected: Any) -> dict[str, Any] | None:
        """Parse the system, or the place, of the better caption; ``tie`` for neither."""
        if expected == TIE:
            return {"preferred": None}
        if not isinstance(expected, (str, int)) or isinstance(expected, bool):
            raise InputError(f"expected is {str(expected)[:60]}, expected the system of the better caption, or tie")
        choice = find_choice(task, expected)
        return None if choice is None else {"preferred": choice.id}

    def passes(self, plan: Plan, task: Task, answer: Answer) -> bool:
        """Return True if the better caption was chosen."""
        return task.gold is None or bool(answer["preferred"] == task.gold["preferred"])

    def grade_answer(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> list[GradedAnswer]:
        """Return the chosen side, and the better one."""
        texts: dict[str | None, str] = {None: plan.wording("equally_good")}
        texts |= {choice: plan.wording("caption_name", name="AB"[place]) for place, choice in enumerate(order)}
        given, expected = texts[answer["preferred"]], texts[(task.gold or {})["preferred"]]
        return [GradedAnswer("", given, expected, given == expected)]

    def values(self, plan: Plan, task: Task, answer: Answer) -> dict[str, dict[str, float | None]]:
        """Return 0 for the first caption of the task, 1 for the second, 0.5 for a tie: three categories."""
        codes: dict[str | None, float] = {choice.id: float(place) for place, choice in enumerate(task.choices)}
        return {"preferred": {task.id: {**codes, None: 0.5}[answer["preferred"]]}}
