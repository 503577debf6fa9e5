"""Answers as rows of the files that other commands read, kind by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from captious.studio.events import Answered
from captious.studio.kinds.labels import NONE, merged
from captious.studio.kinds.ratings import overall_rating
from captious.studio.plan import EXPORTED, KindName, Plan
from captious.studio.tasks import Choice, Task

Row = dict[str, Any]


def answer_rows(plan: Plan, task: Task, one: Answered) -> list[Row]:
    """The rows of one answer."""
    return ROWS[plan.kind](plan, task, one)


def _ratings(plan: Plan, task: Task, one: Answered) -> list[Row]:
    rows = []
    for choice in task.choices:
        ratings = one.answer["ratings"].get(choice.id, {})
        aspects = {aspect.name: ratings.get(aspect.name) for aspect in plan.aspects}
        rated = {"rater": one.rater, "rating": overall_rating(plan, aspects), **aspects}
        rows.append({**_caption(task, choice), **rated, **_facts(one)})
    return rows


def _ranking(plan: Plan, task: Task, one: Answered) -> list[Row]:
    style = task.fields.get("style") or task.heading
    group = {"style": style, "set": str(task.fields.get("set") or task.item)} if style else {}
    ranks = one.answer["ranks"]
    return [
        {**_caption(task, choice), **group, "rank": ranks[choice.id], "rater": one.rater, **_facts(one)}
        for choice in task.choices
    ]


def _pairs(plan: Plan, task: Task, one: Answered) -> list[Row]:
    """The captions stand in the order of the files for every rater, whichever side they were shown on."""
    ids = [choice.id for choice in task.choices]
    systems = [choice.system for choice in task.choices]
    preferred = one.answer["preferred"]
    category = "-".join(systems) if all(systems) else None
    row = {
        "id": "/".join(filter(None, (task.item, category, one.rater))),
        **_item(task),
        "captions": [choice.text for choice in task.choices],
        **_references(task),
        "preferred": None if preferred is None else ids.index(preferred),
        **({"both_bad": bool(one.answer.get("both_bad"))} if plan.both_bad else {}),
        **({"category": category} if category else {}),
    }
    return [{**row, "rater": one.rater, **_facts(one)}]


def _yesno(plan: Plan, task: Task, one: Answered) -> list[Row]:
    """Without the things of which the rater cannot tell; no row where there is nothing else."""
    seen = {thing: one.answer["seen"][thing] for thing in task.things if one.answer["seen"][thing] is not None}
    if not seen:
        return []
    shown = {"task": task.item, "text": task.heading, **({"picture": task.image} if task.image else {})}
    return [{**shown, **task.fields, "rater": one.rater, "entities": list(seen), "seen": seen, **_facts(one)}]


def _labels(plan: Plan, task: Task, one: Answered) -> list[Row]:
    return [{**_labeled(task), plan.label: one.answer["label"], "rater": one.rater, **_facts(one)}]


ROWS: dict[KindName, Callable[[Plan, Task, Answered], list[Row]]] = {
    "ratings": _ratings,
    "ranking": _ranking,
    "pairs": _pairs,
    "yesno": _yesno,
    "labels": _labels,
}


def humans_row(plan: Plan, task: Task, answers: Iterable[Answered]) -> Row:
    """The merged label of an image, or of a caption, with every vote, as ``captious bias lic`` reads it.

    The label ``none`` says that no other applies, so merged it is null.
    """
    votes = {one.rater: one.answer["label"] for one in answers}
    label = merged(plan, votes.values())
    return {**_labeled(task), plan.label: None if label == NONE else label, f"{plan.label}_votes": votes}


def _labeled(task: Task) -> Row:
    if task.choices:
        return _caption(task, task.choices[0])
    return {"id": task.item, **_item(task), **_references(task)}


def _caption(task: Task, choice: Choice) -> Row:
    part = choice.system or (choice.id if len(task.choices) > 1 else "")
    return {
        "id": f"{task.item}/{part}" if part else task.item,
        **_item(task),
        **({"system": choice.system} if choice.system else {}),
        "caption": choice.text,
        **_references(task),
    }


def _item(task: Task) -> Row:
    """What was judged, and the columns that its files had beside it, save those that mean something else here."""
    image = {"image": task.image} if task.image else {}
    return {"item": task.item, **image, **{name: value for name, value in task.fields.items() if name not in EXPORTED}}


def _references(task: Task) -> Row:
    return {"references": list(task.references)} if task.references else {}


def _facts(one: Answered) -> Row:
    return {"seconds": one.seconds, "late": one.late, **({"comment": one.comment} if one.comment else {})}
