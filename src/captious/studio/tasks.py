"""A task: what one page asks a rater, as the database keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from captious.errors import InputError, nearest
from captious.io.formats import rows_of
from captious.io.join import Complain, first_few, refuse

if TYPE_CHECKING:
    from captious.studio.kinds.kind import Kind
    from captious.studio.plan import Plan
    from captious.studio.subjects import Subject


@dataclass(frozen=True, slots=True)
class Choice:
    """One caption of a task. The system that wrote it never reaches a rater's page, and the id does not tell it."""

    id: str
    """a, b, c, … within the task, drawn by the seed: a letter says nothing about the system."""
    text: str
    system: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One page for one rater: an image, captions, things or a text, and what is known of the right answer."""

    id: str
    """t1, t2, …: it stands in addresses, so it has no name of an item, a file or a system in it."""
    item: str = ""
    """The id of what is judged, as the files have it."""
    image: str | None = None
    """File name inside the plan's folder of images; pages ask for it by task and number, never by name."""
    choices: tuple[Choice, ...] = ()
    references: tuple[str, ...] = ()
    things: tuple[str, ...] = ()
    """What a yes/no list asks about."""
    heading: str = ""
    """A text above the answer: the style of a ranking, the caption that a picture was painted from."""
    gold: Mapping[str, Any] | None = None
    """The expected answer of a check, in the form that its kind writes; None for a task like any other."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Columns that go through to the export unchanged, such as painter, seed, style and set."""

    def to_dict(self) -> dict[str, Any]:
        """The task as JSON keeps it."""
        return {
            "id": self.id,
            "item": self.item,
            "image": self.image,
            "choices": [[choice.id, choice.text, choice.system] for choice in self.choices],
            "references": list(self.references),
            "things": list(self.things),
            "heading": self.heading,
            "gold": None if self.gold is None else dict(self.gold),
            "fields": dict(self.fields),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Task:
        """The task that `to_dict` wrote.

        >>> task = Task("t1", "im3", "im3.jpg", (Choice("a", "a dog", "sat"),), heading="happy")
        >>> Task.from_dict(task.to_dict()) == task
        True
        """
        choices = tuple(Choice(*choice) for choice in data["choices"])
        lists = {name: tuple(data[name]) for name in ("references", "things")}
        return cls(**{**data, **lists, "choices": choices})


def build_tasks(plan: Plan, complain: Complain = refuse) -> list[Task]:
    """All tasks of a plan, with the expected answers of the gold ones.

    ``complain`` is called with each mistake in the files; the default stops at the first.
    """
    from captious.studio.kinds import kind_of  # the kinds make tasks
    from captious.studio.subjects import read_subjects

    kind = kind_of(plan)
    subjects = read_subjects(plan, complain)
    tasks = kind.tasks(plan, subjects)
    _refuse_empty(plan, kind, subjects, tasks, complain)
    if plan.checks.gold is not None:
        tasks = _with_gold(plan, kind, tasks, complain)
        if tasks and all(task.gold is not None for task in tasks):
            complain(f"{plan.file(plan.checks.gold)}: all tasks are gold, expected others beside them")
    return tasks


def _refuse_empty(plan: Plan, kind: Kind, subjects: list[Subject], tasks: list[Task], complain: Complain) -> None:
    """Complain of a study without tasks, and of subjects that have nothing to show or nothing to ask."""
    if not subjects:
        complain(f"{plan.path}: nothing to ask about is left, expected at least one item")
    asked = {task.item for task in tasks}
    silent = [subject.id for subject in subjects if subject.id not in asked]
    lonely = [task.item for task in tasks if plan.kind == "ranking" and len(task.choices) < 2]
    blank = [task.item for task in tasks if not (task.image or task.choices or task.heading)]
    for ids, lack in (
        (silent, kind.needs),
        (lonely, kind.needs),
        (blank, "an image, a caption or a text to look at"),
    ):
        if ids:
            complain(f"{plan.path}: {len(ids):,} of the items ({first_few(ids)}) without {lack}")


def _with_gold(plan: Plan, kind: Kind, tasks: list[Task], complain: Complain) -> list[Task]:
    """The tasks with the expected answers of the file of gold tasks, and the tasks that it adds."""
    from captious.studio.subjects import OWN, read_ready, row_id

    file = str(plan.file(plan.checks.gold or ""))
    by_item: dict[str, list[int]] = {}
    for index, task in enumerate(tasks):
        by_item.setdefault(task.item, []).append(index)
    tasks = list(tasks)
    for row in rows_of(file):
        try:
            item = row_id(row)
        except InputError as error:
            complain(str(error))
            continue
        own = [name for name in OWN if row.fields.get(name)]
        if item in by_item and not own:
            indices = by_item[item]
        elif not own and plan.kind != "labels":
            complain(f"{row.where}: no task is about {item!r}{nearest(item, by_item)}")
            continue
        else:
            indices = by_item[item] = []
            for task in kind.tasks(plan, read_ready(plan, [row], complain)):
                indices.append(len(tasks))
                tasks.append(replace(task, id=f"t{len(tasks) + 1}"))
        expected = row.fields.get("expected")
        try:
            golds = _golds(plan, kind, [tasks[index] for index in indices], expected)
        except InputError as error:
            complain(f"{row.where}: {error}")
            continue
        for index, gold in zip(indices, golds, strict=True):
            if tasks[index].gold is not None:
                complain(f"{row.where}: {item!r} has an expected answer already, expected one row for each item")
            tasks[index] = replace(tasks[index], gold=gold)
    return tasks


def _golds(plan: Plan, kind: Kind, tasks: list[Task], expected: Any) -> list[dict[str, Any] | None]:
    """What is expected of each page of an item; every name in it must be one of the item's."""
    systems = [choice.system for task in tasks for choice in task.choices if choice.system]
    known = [*dict.fromkeys(systems), *(aspect.name for aspect in plan.aspects), *(tasks[0].things if tasks else ())]
    if expected is None:
        raise InputError("no column expected, expected the right answer under that name")
    for name in expected if isinstance(expected, Mapping) else ():
        if name not in known and not (not systems and str(name).isdecimal()):
            raise InputError(f"expected has {str(name)[:40]!r}, known: {', '.join(known)}{nearest(str(name), known)}")
    golds = [kind.gold(plan, task, expected) for task in tasks]
    if not any(golds):
        names = f", known: {', '.join(dict.fromkeys(systems))}" if systems else ""
        raise InputError(f"expected is {str(expected)[:60]}, which no page of the item answers{names}")
    return golds
