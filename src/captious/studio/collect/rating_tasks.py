"""Tasks: one page for one rater, as the database stores it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from captious.errors import InputError, format_suggestion
from captious.io.formats import read_rows
from captious.io.join import Complain, format_first, refuse
from captious.io.rows import Row
from captious.studio.collect._subjects import MOST_CAPTIONS, OWN, Subject, find_row_id, read_ready, read_subjects
from captious.studio.collect.study_plan import Plan

if TYPE_CHECKING:
    from captious.studio.collect.kinds.kind import TaskKind


@dataclass(frozen=True, slots=True)
class Choice:
    """One caption of a task. The system that wrote it is never on a rater's page, and the id does not reveal it."""

    id: str
    """a, b, c, … within the task, drawn by the seed: a letter says nothing about the system."""
    text: str
    system: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One page for one rater: an image, captions, things or a text, and the expected answer of a gold task."""

    id: str
    """t1, t2, …: it is part of addresses, so it has no name of an item, a file or a system in it."""
    item: str = ""
    """The id of what is judged, as the files have it."""
    image: str | None = None
    """File name inside the plan's folder of images; pages ask for it by task and number, never by name."""
    choices: tuple[Choice, ...] = ()
    references: tuple[str, ...] = ()
    things: tuple[str, ...] = ()
    """The statements of a yes/no list."""
    heading: str = ""
    """A text above the answer: the style of a ranking, the caption that a picture was painted from."""
    gold: Mapping[str, Any] | None = None
    """The expected answer of a gold or practice task, as `TaskKind.parse_gold` returns it; None for other tasks."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Columns that go through to the export unchanged, such as painter, seed, style and set."""
    explanation: str = ""
    """The text that a rater reads after the answer to a practice task."""
    audio: str | None = None
    """File name inside the plan's folder of sounds; pages ask for it by task, never by name."""
    video: str | None = None
    """File name inside the plan's folder of videos; pages ask for it by task, never by name."""

    @property
    def is_practice(self) -> bool:
        """Whether it is shown before the first task that counts."""
        return is_practice(self.id)

    def to_dict(self) -> dict[str, Any]:
        """Convert the task to JSON values.

        >>> from captious._core.records import from_json
        >>> task = Task("t1", "im3", "im3.jpg", (Choice("a", "a dog", "sat"),), heading="happy")
        >>> from_json(Task, task.to_dict()) == task
        True
        """
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
            **({"explanation": self.explanation} if self.explanation else {}),
            **({"audio": self.audio} if self.audio else {}),
            **({"video": self.video} if self.video else {}),
        }


def is_practice(id: str) -> bool:
    """Return True if the id is that of a practice task: p1, p2, …; all others are t1, t2, …"""
    return id.startswith("p") and id[1:].isdecimal()


def count_gold(tasks: Iterable[Task]) -> int:
    """Count the gold tasks that are mixed into the work, without practice."""
    return sum(task.gold is not None and not task.is_practice for task in tasks)


def build_tasks(plan: Plan, complain: Complain = refuse) -> list[Task]:
    """Build all tasks of a plan, with the expected answers of the gold ones.

    ``complain`` is called with each mistake in the files; the default stops at the first.
    """
    from captious.studio.collect.kinds import kind_of  # not at the top: the kinds import this module

    kind = kind_of(plan)
    subjects = read_subjects(plan, complain)
    tasks = kind.make_tasks(plan, subjects)
    _refuse_empty(plan, kind, subjects, tasks, complain)
    if plan.checks.gold is not None:
        tasks = _add_gold(plan, kind, tasks, complain)
        if tasks and all(task.gold is not None for task in tasks):
            complain(f"{plan.file(plan.checks.gold)}: all tasks are gold, expected others too")
    if plan.practice is not None:
        tasks += _build_practice_tasks(plan, kind, {task.item for task in tasks}, complain)
    return tasks


def _build_practice_tasks(plan: Plan, kind: TaskKind, items: set[str], complain: Complain) -> list[Task]:
    """Build the practice tasks in the order of their file, whose rows are like gold rows, with an explanation.

    ``items`` are those of the study: none of them may be used for practice.
    """
    rows: dict[str, Row] = {}
    for row in read_rows(str(plan.file(plan.practice or ""))):
        try:
            item = find_row_id(row)
        except InputError as error:
            complain(str(error))
            continue
        if item in rows or item in items:
            complain(
                f"{row.where}: {item!r} is {'there already' if item in rows else 'asked about in the study'}, "
                "expected another for practice"
            )
        else:
            rows[item] = row
    tasks: list[Task] = []
    # All captions of an item are on one page, so each row makes one task.
    for task in kind.make_tasks(replace(plan, together=MOST_CAPTIONS), read_ready(plan, rows.values(), complain)):
        row, id = rows[task.item], f"p{len(tasks) + 1}"
        explanation = row.fields.get("explanation", "")
        fields = {name: value for name, value in task.fields.items() if name != "explanation"}
        try:
            if not isinstance(explanation, str):
                raise InputError(f"explanation is {str(explanation)[:40]}, expected a text")
            (gold,) = _parse_golds(plan, kind, [task], row.fields.get("expected"))
        except InputError as error:
            complain(f"{row.where}: {error}")
            continue
        tasks.append(replace(task, id=id, gold=gold, fields=fields, explanation=explanation))
    if not tasks:
        complain(f"{plan.file(plan.practice or '')}: no task to practice, expected at least one")
    return tasks


def _refuse_empty(plan: Plan, kind: TaskKind, subjects: list[Subject], tasks: list[Task], complain: Complain) -> None:
    """Complain about a study without subjects, subjects without a task, and tasks with nothing to look at."""
    if not subjects:
        complain(f"{plan.path}: nothing to ask about is left, expected at least one item")
    asked = {task.item for task in tasks}
    without_task = [subject.id for subject in subjects if subject.id not in asked]
    single_caption = [task.item for task in tasks if plan.kind == "ranking" and len(task.choices) < 2]
    without_content = [task.item for task in tasks if not (task.image or task.choices or task.heading)]
    for ids, missing in (
        (without_task, kind.needs),
        (single_caption, kind.needs),
        (without_content, "an image, a caption or a text to look at"),
    ):
        if ids:
            complain(f"{plan.path}: {len(ids):,} of the items ({format_first(ids)}) without {missing}")


def _add_gold(plan: Plan, kind: TaskKind, tasks: list[Task], complain: Complain) -> list[Task]:
    """Set the expected answers of the file of gold tasks, and append the tasks that are only in that file."""
    items = {task.item for task in tasks}
    rows = _read_gold_rows(plan, items, complain)
    subjects = read_ready(plan, [row for item, row in rows.items() if _is_own(row, item, items)], complain)
    added = kind.make_tasks(replace(plan, together=MOST_CAPTIONS), subjects)
    # Indices of the tasks (pages) of each gold row. A row with its own content is only about the tasks added for it,
    # even if the study has an item with the same id.
    indices: dict[str, list[int]] = {}
    for index, task in enumerate((*tasks, *added)):
        row = rows.get(task.item)
        if row is not None and _is_own(row, task.item, items) == (index >= len(tasks)):
            indices.setdefault(task.item, []).append(index)
    tasks = [*tasks, *(replace(task, id=f"t{number}") for number, task in enumerate(added, len(tasks) + 1))]
    for item, pages in indices.items():
        try:
            golds = _parse_golds(plan, kind, [tasks[index] for index in pages], rows[item].fields.get("expected"))
        except InputError as error:
            complain(f"{rows[item].where}: {error}")
            continue
        for index, gold in zip(pages, golds, strict=True):
            tasks[index] = replace(tasks[index], gold=gold)
    return tasks


def _read_gold_rows(plan: Plan, items: set[str], complain: Complain) -> dict[str, Row]:
    """Read the gold rows by item; complain about repeated items, and about unknown items without content."""
    rows: dict[str, Row] = {}
    for row in read_rows(str(plan.file(plan.checks.gold or ""))):
        try:
            item = find_row_id(row)
        except InputError as error:
            complain(str(error))
            continue
        if item in rows:
            complain(f"{row.where}: {item!r} has an expected answer already, expected one row for each item")
        elif _is_own(row, item, items) and not _has_content(row) and plan.kind != "labels":
            complain(f"{row.where}: no task is about {item!r}{format_suggestion(item, items)}")
        else:
            rows[item] = row
    return rows


def _is_own(row: Row, item: str, items: set[str]) -> bool:
    """Return True if a gold row is a separate task: its item is not in the study, or the row has its own content."""
    return item not in items or _has_content(row)


def _has_content(row: Row) -> bool:
    """Return True if a row has captions or things to ask about."""
    return any(row.fields.get(name) for name in OWN)


def _parse_golds(plan: Plan, kind: TaskKind, tasks: list[Task], expected: Any) -> list[dict[str, Any] | None]:
    """Parse the expected answer for each page of an item; None for a page that it is not about.

    Raise `InputError` for an unknown name in it, and if it is about none of the pages.
    """
    systems = [choice.system for task in tasks for choice in task.choices if choice.system]
    known = [*dict.fromkeys(systems), *(aspect.name for aspect in plan.aspects), *(tasks[0].things if tasks else ())]
    if expected is None:
        raise InputError("no column expected, expected the right answer under that name")
    for name in expected if isinstance(expected, Mapping) else ():
        # Captions without a system are named by their number.
        if name not in known and not (not systems and str(name).isdecimal()):
            raise InputError(
                f"expected has {str(name)[:40]!r}, known: {', '.join(known)}{format_suggestion(str(name), known)}"
            )
    golds = [kind.parse_gold(plan, task, expected) for task in tasks]
    if not any(golds):
        names = f", known: {', '.join(dict.fromkeys(systems))}" if systems else ""
        raise InputError(f"expected is {str(expected)[:60]}, which no page of the item answers{names}")
    return golds
