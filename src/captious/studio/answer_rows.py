"""Answers as rows of the files that other commands read, kind by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from captious.studio.events import Answered
from captious.studio.kinds.labels import NONE, merged
from captious.studio.plan import EXPORTED, Aspect, KindName, Plan
from captious.studio.tasks import Choice, Task

Row = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """How the answers of one study become rows. Captions of a task stand in the order of their systems' names."""

    plan: Plan

    def __call__(self, task: Task, one: Answered) -> list[Row]:
        """The rows of one answer."""
        make: dict[KindName, Callable[[Task, Answered], list[Row]]] = {
            "ratings": self._ratings,
            "ranking": self._ranking,
            "pairs": self._pairs,
            "yesno": self._yesno,
            "labels": self._labels,
        }
        return make[self.plan.kind](task, one)

    def _ratings(self, task: Task, one: Answered) -> list[Row]:
        rows = []
        for choice in _by_system(task):
            ratings = one.answer["ratings"].get(choice.id, {})
            aspects = {aspect.name: ratings.get(aspect.name) for aspect in self.plan.aspects}
            rated = {"rater": one.rater, "rating": overall_rating(self.plan, aspects), **aspects}
            rows.append({**_caption(task, choice), **rated, **_facts(one)})
        return rows

    def _ranking(self, task: Task, one: Answered) -> list[Row]:
        style = task.fields.get("style") or task.heading
        group = {"style": style, "set": str(task.fields.get("set") or task.item)} if style else {}
        ranks = one.answer["ranks"]
        return [
            {**_caption(task, choice), **group, "rank": ranks[choice.id], "rater": one.rater, **_facts(one)}
            for choice in _by_system(task)
        ]

    def _pairs(self, task: Task, one: Answered) -> list[Row]:
        sides = _by_system(task)
        ids = [choice.id for choice in sides]
        preferred = one.answer["preferred"]
        names = [choice.system for choice in sides]
        category = "-".join(names) if all(names) else None
        row = {
            "id": "/".join(filter(None, (task.item, category, one.rater))),
            **_item(task),
            "captions": [choice.text for choice in sides],
            **({"references": list(task.references)} if task.references else {}),
            "preferred": None if preferred is None else ids.index(preferred),
            **({"both_bad": bool(one.answer.get("both_bad"))} if self.plan.both_bad else {}),
            **({"category": category} if category else {}),
        }
        return [{**row, "rater": one.rater, **_facts(one)}]

    def _yesno(self, task: Task, one: Answered) -> list[Row]:
        """Without the things of which the rater cannot tell; no row where there is nothing else."""
        seen = {thing: answer for thing, answer in one.answer["seen"].items() if answer is not None}
        if not seen:
            return []
        shown = {"text": task.heading, "picture": task.image} if task.image else {"text": task.heading}
        entities = [thing for thing in task.things if thing in seen]
        return [
            {
                "task": task.item,
                **shown,
                **task.fields,
                "rater": one.rater,
                "entities": entities,
                "seen": {thing: seen[thing] for thing in entities},
                **_facts(one),
            }
        ]

    def _labels(self, task: Task, one: Answered) -> list[Row]:
        vote = {self.plan.label: one.answer["label"], "rater": one.rater}
        return [{**_labeled(task), **vote, **_facts(one)}]


def _by_system(task: Task) -> list[Choice]:
    return sorted(task.choices, key=lambda choice: (choice.system, choice.id))


def _item(task: Task) -> Row:
    """What was judged, and the columns that its files had beside it, save those that mean something else here."""
    image = {"image": task.image} if task.image else {}
    return {"item": task.item, **image, **{name: value for name, value in task.fields.items() if name not in EXPORTED}}


def _caption(task: Task, choice: Choice) -> Row:
    part = choice.system or (choice.id if len(task.choices) > 1 else "")
    return {
        "id": f"{task.item}/{part}" if part else task.item,
        **_item(task),
        **({"system": choice.system} if choice.system else {}),
        "caption": choice.text,
        **({"references": list(task.references)} if task.references else {}),
    }


def _facts(one: Answered) -> Row:
    return {"seconds": one.seconds, "late": one.late, **({"comment": one.comment} if one.comment else {})}


def overall_rating(plan: Plan, aspects: Mapping[str, float | None]) -> float | None:
    """The one rating of a caption: what the formula makes, else the aspect ``overall``, else the first."""
    return plan.formula.of(aspects) if plan.formula is not None else aspects.get(rated_aspect(plan).name)


def rated_aspect(plan: Plan) -> Aspect:
    """The aspect that stands for the overall rating where there is no formula."""
    return next((aspect for aspect in plan.aspects if aspect.name == "overall"), plan.aspects[0])


def humans_row(plan: Plan, task: Task, answers: Iterable[Answered]) -> Row:
    """The merged label of an image, or a caption, with every vote, as ``captious bias lic`` reads it.

    The label ``none`` says that no other applies, so merged it is null.
    """
    votes = {one.rater: one.answer["label"] for one in answers}
    label = merged(plan, votes.values())
    return {**_labeled(task), plan.label: None if label == NONE else label, f"{plan.label}_votes": votes}


def _labeled(task: Task) -> Row:
    if task.choices:
        return _caption(task, task.choices[0])
    return {"id": task.item, **_item(task), **({"references": list(task.references)} if task.references else {})}
