"""A task: what one page asks a rater, as the database keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from captious.errors import InputError, nearest
from captious.io.formats import rows_of
from captious.io.join import Complain, refuse

if TYPE_CHECKING:
    from captious.studio.kinds.kind import Kind
    from captious.studio.plan import Plan


@dataclass(frozen=True)
class Choice:
    """One caption of a task. The system that wrote it never reaches a rater's page, and the id does not tell it."""

    id: str
    """a, b, c, … within the task, drawn by the seed: a letter says nothing about the system."""
    text: str
    system: str = ""


@dataclass(frozen=True)
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
    tasks = kind.tasks(plan, read_subjects(plan, complain))
    if plan.checks.gold is not None:
        tasks = _with_gold(plan, kind, tasks, complain)
    if not any(task.gold is None for task in tasks):
        complain(f"{plan.path}: no tasks, expected at least one" + (" beside the gold ones" if tasks else ""))
    return [replace(task, id=f"t{number}") for number, task in enumerate(tasks, 1)]


def _with_gold(plan: Plan, kind: Kind, tasks: list[Task], complain: Complain) -> list[Task]:
    """The tasks with the expected answers of the file of gold tasks, and the tasks that it adds."""
    from captious.studio.subjects import read_ready

    file = str(plan.file(plan.checks.gold or ""))
    by_item: dict[str, list[int]] = {}
    for index, task in enumerate(tasks):
        by_item.setdefault(task.item, []).append(index)
    tasks = list(tasks)
    for row in rows_of(file):
        subjects = read_ready(plan, [row], complain)
        expected = row.fields.get("expected")
        if not subjects:
            continue
        (subject,) = subjects
        content = bool(subject.captions or subject.things)
        if subject.id in by_item and not content:
            indices = by_item[subject.id]
        elif content or subject.image:
            added = kind.tasks(plan, subjects)
            indices = by_item[subject.id] = list(range(len(tasks), len(tasks) + len(added)))
            tasks += added
        else:
            complain(f"{row.where}: no task is about {subject.id!r}{nearest(subject.id, by_item)}")
            continue
        try:
            golds = _golds(plan, kind, [tasks[index] for index in indices], expected)
        except InputError as error:
            complain(f"{row.where}: {error}")
            continue
        for index, gold in zip(indices, golds, strict=True):
            if tasks[index].gold is not None:
                complain(f"{row.where}: {subject.id!r} has an expected answer already, expected one row for each item")
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
