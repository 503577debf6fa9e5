"""Ranking: captions of an image, or of a style, brought into an order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from captious.errors import InputError
from captious.studio.collect._subjects import Subject
from captious.studio.collect.kinds.kind import Answer, Gap, GradedAnswer, Incomplete, TaskKind, named_choice, one_of
from captious.studio.collect.plan import Plan
from captious.studio.collect.tasks import Task


class RankingKind(TaskKind):
    """``rank:<place>`` is the number that the rater writes; in the answer the best caption has the highest rank."""

    name = "ranking"
    measurement = "ordinal"
    needs = "at least two captions"

    def pages(self, plan: Plan, subject: Subject, rng: np.random.Generator) -> Iterable[Sequence[tuple[str, str]]]:
        """One page with all captions."""
        return [subject.captions]

    def read(self, plan: Plan, task: Task, order: Sequence[str], form: Mapping[str, str]) -> Answer:
        """A rank for every caption; each number once unless the plan allows ties."""
        numbers = {str(number): number for number in range(1, len(order) + 1)}
        ranks: dict[str, int] = {}
        gaps: list[Gap] = []
        for place, choice in enumerate(order):
            field = f"rank:{place}"
            missing = plan.wording("caption_no_rank", name=place + 1)
            number, gap = one_of(plan, form.get(field), numbers, field, missing)
            if number is not None and not plan.ties and number in ranks.values():
                gap = [Gap(field, plan.wording("rank_twice", rank=number, name=place + 1))]
            ranks[choice] = number
            gaps += gap
        if gaps:
            raise Incomplete(gaps)
        return {"ranks": {choice: _turned(plan, task, rank) for choice, rank in ranks.items()}}

    def form(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> dict[str, str]:
        """The numbers that the rater wrote."""
        ranks = answer["ranks"]
        return {
            f"rank:{place}": str(_turned(plan, task, ranks[choice]))
            for place, choice in enumerate(order)
            if choice in ranks
        }

    def gold(self, plan: Plan, task: Task, expected: Any) -> dict[str, Any] | None:
        """Some captions from the worst to the best, by system or place; all that are named are compared."""
        if not isinstance(expected, list) or len(expected) < 2:
            raise InputError(f"expected is {str(expected)[:60]}, expected a list from the worst to the best")
        choices = [named_choice(task, name) for name in expected]
        ids = [choice.id for choice in choices if choice is not None]
        if len({*ids}) < len(expected):
            names = [choice.system or str(place) for place, choice in enumerate(task.choices, 1)]
            raise InputError(f"expected is {str(expected)[:60]}, expected different ones of {', '.join(names)}")
        return {"ranks": {choice: rank for rank, choice in enumerate(ids, 1)}}

    def passes(self, plan: Plan, task: Task, answer: Answer) -> bool:
        """Whether the captions whose order is known stand in it."""
        known = (task.gold or {"ranks": {}})["ranks"]
        ranks = answer["ranks"]
        return all(
            (known[one] - known[other]) * (ranks[one] - ranks[other]) > 0 for one, other in combinations(known, 2)
        )

    def compared(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> list[GradedAnswer]:
        """The captions whose order is known from the best to the worst, as they were ranked and as they should be."""
        known = (task.gold or {"ranks": {}})["ranks"]
        names = {choice: plan.wording("caption_name", name=place) for place, choice in enumerate(order, 1)}

        def best_first(ranks: Mapping[str, int]) -> str:
            return " > ".join(names[choice] for choice in sorted(known, key=lambda one: ranks[one], reverse=True))

        right = self.passes(plan, task, answer)
        return [GradedAnswer("", best_first(answer["ranks"]), best_first(known), right)]

    def values(self, plan: Plan, task: Task, answer: Answer) -> dict[str, dict[str, float | None]]:
        """The rank of every caption."""
        return {"rank": {f"{task.id}/{choice}": float(rank) for choice, rank in answer["ranks"].items()}}


def _turned(plan: Plan, task: Task, rank: int) -> int:
    """Turn what the rater writes into a rank that rises with quality, or back."""
    return rank if plan.best == "last" else len(task.choices) + 1 - rank
