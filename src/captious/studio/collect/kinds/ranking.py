"""The kind ``ranking``: a rater orders the captions of an image, or of a style, by quality."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from captious.errors import InputError
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
from captious.studio.collect.study_plan import Plan


class RankingKind(TaskKind):
    """Kind ``ranking``: form field ``rank:<place>`` is the number that the rater gave; in the stored answer the best
    caption has the highest rank.
    """

    name = "ranking"
    measurement = "ordinal"
    needs = "at least two captions"

    def split_pages(
        self, plan: Plan, subject: Subject, rng: np.random.Generator
    ) -> Iterable[Sequence[tuple[str, str]]]:
        """Return one page with all captions."""
        return [subject.captions]

    def read(self, plan: Plan, task: Task, order: Sequence[str], form: Mapping[str, str]) -> Answer:
        """Return a rank for every caption; each number occurs once unless the plan allows ties."""
        numbers = {str(number): number for number in range(1, len(order) + 1)}
        ranks: dict[str, int] = {}
        gaps: list[Gap] = []
        for place, choice in enumerate(order):
            field = f"rank:{place}"
            missing = plan.wording("caption_no_rank", name=place + 1)
            number, gap = parse_option(plan, form.get(field), numbers, field, missing)
            if number is not None and not plan.ties and number in ranks.values():
                gap = [Gap(field, plan.wording("rank_twice", rank=number, name=place + 1))]
            ranks[choice] = number
            gaps += gap
        if gaps:
            raise Incomplete(gaps)
        return {"ranks": {choice: _turn_rank(plan, task, rank) for choice, rank in ranks.items()}}

    def form(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> dict[str, str]:
        """Return the form fields of a stored answer: the numbers as the rater entered them."""
        ranks = answer["ranks"]
        return {
            f"rank:{place}": str(_turn_rank(plan, task, ranks[choice]))
            for place, choice in enumerate(order)
            if choice in ranks
        }

    def parse_gold(self, plan: Plan, task: Task, expected: Any) -> dict[str, Any] | None:
        """Parse a list of captions from the worst to the best, by system or place; it may be partial."""
        if not isinstance(expected, list) or len(expected) < 2:
            raise InputError(f"expected is {str(expected)[:60]}, expected a list from the worst to the best")
        choices = [find_choice(task, name) for name in expected]
        ids = [choice.id for choice in choices if choice is not None]
        if len({*ids}) < len(expected):
            names = [choice.system or str(place) for place, choice in enumerate(task.choices, 1)]
            raise InputError(f"expected is {str(expected)[:60]}, expected different ones of {', '.join(names)}")
        return {"ranks": {choice: rank for rank, choice in enumerate(ids, 1)}}

    def passes(self, plan: Plan, task: Task, answer: Answer) -> bool:
        """Return True if the captions of the expected order are in that order."""
        expected_ranks = (task.gold or {"ranks": {}})["ranks"]
        ranks = answer["ranks"]
        # The product is positive if both orders put the same one of the two captions first.
        return all(
            (expected_ranks[one] - expected_ranks[other]) * (ranks[one] - ranks[other]) > 0
            for one, other in combinations(expected_ranks, 2)
        )

    def grade_answer(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> list[GradedAnswer]:
        """Return the captions of the expected order from the best to the worst, as ranked and as expected."""
        expected_ranks = (task.gold or {"ranks": {}})["ranks"]
        names = {choice: plan.wording("caption_name", name=place) for place, choice in enumerate(order, 1)}

        def format_order(ranks: Mapping[str, int]) -> str:
            return " > ".join(
                names[choice] for choice in sorted(expected_ranks, key=lambda one: ranks[one], reverse=True)
            )

        right = self.passes(plan, task, answer)
        return [GradedAnswer("", format_order(answer["ranks"]), format_order(expected_ranks), right)]

    def values(self, plan: Plan, task: Task, answer: Answer) -> dict[str, dict[str, float | None]]:
        """Return the rank of every caption."""
        return {"rank": {f"{task.id}/{choice}": float(rank) for choice, rank in answer["ranks"].items()}}


def _turn_rank(plan: Plan, task: Task, rank: int) -> int:
    """Convert the rater's number into a rank that rises with quality, or back."""
    return rank if plan.best == "last" else len(task.choices) + 1 - rank
