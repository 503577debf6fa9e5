"""Yes/no lists: which of these things can be seen in the picture?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from captious.errors import InputError, format_suggestion
from captious.studio.collect._subjects import Subject
from captious.studio.collect.kinds.kind import Answer, Gap, GradedAnswer, Incomplete, TaskKind, parse_option
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.study_plan import CANNOT, Plan

YES, NO = "yes", "no"


class YesNoKind(TaskKind):
    """Kind ``yesno``: field ``thing:<place>`` is yes, no or cannot; the answer has True, False or None by thing."""

    name = "yesno"
    measurement = "nominal"
    needs = "things to ask for"

    def split_pages(
        self, plan: Plan, subject: Subject, rng: np.random.Generator
    ) -> Iterable[Sequence[tuple[str, str]]]:
        """Return one page if there are things to ask for."""
        return [subject.captions] if subject.things else []

    def draw_order(self, plan: Plan, task: Task, rng: np.random.Generator) -> tuple[str, ...]:
        """Return the things in the order of the file."""
        return task.things

    def read(self, plan: Plan, task: Task, order: Sequence[str], form: Mapping[str, str]) -> Answer:
        """Return True, False or None for every thing."""
        options: dict[str, bool | None] = {YES: True, NO: False}
        if plan.cannot_judge:
            options[CANNOT] = None
        seen: dict[str, bool | None] = {}
        gaps: list[Gap] = []
        for place, thing in enumerate(order):
            field = f"thing:{place}"
            seen[thing], gap = parse_option(
                plan, form.get(field), options, field, plan.wording("thing_no_answer", thing=thing)
            )
            gaps += gap
        if gaps:
            raise Incomplete(gaps)
        return {"seen": seen}

    def form(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> dict[str, str]:
        """Return the answers as words."""
        words = {True: YES, False: NO, None: CANNOT}
        return {
            f"thing:{place}": words[answer["seen"][thing]]
            for place, thing in enumerate(order)
            if thing in answer["seen"]
        }

    def parse_gold(self, plan: Plan, task: Task, expected: Any) -> dict[str, Any] | None:
        """Parse true or false for some of the things."""
        if not isinstance(expected, Mapping) or not expected:
            raise InputError(f"expected is {str(expected)[:60]}, expected such as {{'dog': true}}")
        for thing, seen in expected.items():
            if thing not in task.things:
                things = ", ".join(task.things)
                raise InputError(f"expected has {thing!r}, known: {things}{format_suggestion(str(thing), task.things)}")
            if not isinstance(seen, bool):
                raise InputError(f"expected {thing!r} is {str(seen)[:40]!r}, expected true or false")
        return {"seen": dict(expected)}

    def passes(self, plan: Plan, task: Task, answer: Answer) -> bool:
        """Return True if all things with an expected answer have it."""
        known = (task.gold or {"seen": {}})["seen"]
        return all(answer["seen"].get(thing) is seen for thing, seen in known.items())

    def grade_answer(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> list[GradedAnswer]:
        """Return yes or no for every thing with an expected answer."""
        texts = {True: plan.wording("yes"), False: plan.wording("no"), None: plan.wording("cannot_tell")}
        known, seen = (task.gold or {"seen": {}})["seen"], answer["seen"]
        return [
            GradedAnswer(thing, texts[seen[thing]], texts[known[thing]], seen[thing] is known[thing])
            for thing in order
            if thing in known
        ]

    def values(self, plan: Plan, task: Task, answer: Answer) -> dict[str, dict[str, float | None]]:
        """Return 1 for yes and 0 for no, for every thing."""
        numbers = {thing: None if seen is None else float(seen) for thing, seen in answer["seen"].items()}
        return {"seen": {f"{task.id}/{thing}": number for thing, number in numbers.items()}}
