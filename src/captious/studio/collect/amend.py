"""Amendments: what may change in a study after it began, the tasks that it adds, and the way out for all else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from captious.errors import InputError
from captious.io.join import format_first
from captious.studio.collect._events import Amendment, collect_answers
from captious.studio.collect._subjects import read_subjects
from captious.studio.collect._tables import dump, plan_digest, to_json
from captious.studio.collect.log import StudyLog
from captious.studio.collect.plan import Plan, read_plan
from captious.studio.collect.tasks import Task, build_tasks

MEANING = {
    "kind": "answers of one kind are none of another",
    "aspects": "every stored answer is about these aspects and no others",
    "aspects.*.scale": "stored ratings are points of the old scale",
    "options": "raters chose among the old labels",
    "cannot_judge": "raters had another choice before",
    "ties": "raters had another choice before",
    "both_bad": "raters had another choice before",
    "best": "stored ranks would be turned around",
    "together": "raters saw other pages before",
    "show_references": "raters saw other pages before",
    "source.name": "raters are known by where they came from",
    "seed": "the pages that raters saw were drawn by it",
    "stratum": "tasks were shared out by it",
    "practice": "raters have practiced other tasks",
    "questions": "raters have answered the questions as they were",
}
"""Keys that would change what stored answers mean, with the reason."""
GROWING = {
    "overlap": "answers that were given cannot be taken back; captious studio pause stops a study that has enough",
    "lease": "open pages are kept for their raters as long as it was said; captious studio release frees them",
}
"""Keys whose numbers may rise but not fall, with the reason."""
FILES = (
    *("captions", "references", "images", "audio", "tasks", "ids", "items", "missing", "distinct"),
    *("quotas", "quotas.*", "checks.gold"),
)
"""Keys that choose the items; what counts is which items they give now."""
FREE = (
    *(
        "language",
        "words",
        "words.*",
        "title",
        "instructions",
        "consent",
        "question",
        "aspects.*.question",
        "aspects.*.ends",
        "aspects.*.faults",
    ),
    *("options.*.text", "options.*.key", "overall", "measurement", "label", "merge", "votes"),
    *("seconds", "pay", "per_rater"),
    *("checks.every", "checks.at", "checks.repeat", "checks.flag.*", "limit", "questions.*.question"),
    *("source.done", "source.full", "source.screened", "source.excluded", "source.keys"),
)
"""Texts, and numbers that say how the work is shared out, paid for or summed up."""
LONGEST = 500
"""Most characters of a reason."""


def amend_study(log: StudyLog, path: Path, why: str) -> tuple[Amendment, str]:
    """Put the text of a file in force in its study, with the new items of its files.

    Gives the amendment, and why no new items were looked for, where their files cannot be read and no key that names
    them changed.
    """
    why = " ".join(why.split())
    if not why or len(why) > LONGEST:
        raise InputError(f"why={why[:40]!r}, expected the reason in 1 to {LONGEST} characters")
    log.path = path
    log.read_on()
    plan, old = read_plan(path), log.plan()
    changes = plan_changes(old, plan)
    unread = ""
    try:
        tasks = new_tasks(log.tasks(), plan)
    except InputError as error:
        if isinstance(error, ItemsDiffer) or any(_is_one_of(one["key"], FILES) for one in changes):
            raise
        tasks, unread = [], str(error)
    number = len(log.tasks())
    if tasks:
        changes.append({"key": "tasks", "from": number, "to": number + len(tasks)})
    if not changes and plan_digest(plan) == old.digest:
        raise InputError(
            f"{path}: is the text of the study, and its files have no new items, so nothing is to be amended"
        )
    if not changes:
        changes.append({"key": "comments", "from": "as they were", "to": "edited"})
    log.amend(plan, tasks, why, changes, old.digest)
    return log.now.history.amendments[-1], unread


# The plan, key by key


def plan_changes(old: Plan, new: Plan) -> list[dict[str, Any]]:
    """The keys that differ, with both values; an InputError for one that may not change."""
    before, after = _flat(old), _flat(new)
    changes = []
    for key in [*before, *(key for key in after if key not in before)]:
        was, now = before.get(key), after.get(key)
        if was == now:
            continue
        _refuse(key, was, now, before, after, new.path)
        changes.append({"key": key, "from": was, "to": now})
    return changes


def _flat(plan: Plan) -> dict[str, Any]:
    """The values of a plan by key, those of tables under ``table.key`` and those of lists under ``list.name.key``."""
    flat: dict[str, Any] = {}

    def add(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                add(f"{prefix}.{name}", inner)
        elif isinstance(value, list) and value and all(isinstance(one, dict) and "name" in one for one in value):
            flat[prefix] = [one["name"] for one in value]
            for one in value:
                add(f"{prefix}.{one['name']}", {name: inner for name, inner in one.items() if name != "name"})
        else:
            flat[prefix] = value

    for name, value in to_json(plan).items():
        if name not in ("path", "text", "digest"):
            add(name, json.loads(dump(value)))
    return flat


def _refuse(key: str, was: Any, now: Any, before: Mapping[str, Any], after: Mapping[str, Any], path: Path) -> None:
    """Refuse a change that would change the meaning of stored answers."""
    changed = f"{path}: {key} was {_shown(was)} and is {_shown(now)}"
    if key in GROWING and now < was:
        raise InputError(f"{changed}, expected no less: {GROWING[key]}")
    listed = next((name for name in ("aspects", "options", "questions") if key.startswith(f"{name}.")), "")
    if listed and before.get(listed) != after.get(listed):
        return  # the list itself was refused already
    if key in GROWING or _is_one_of(key, (*FILES, *FREE)):
        return
    reason = next((why for name, why in MEANING.items() if fnmatchcase(key, name)), "raters saw the old one")
    other = path.with_name(f"{path.stem}-2{path.suffix}")
    raise InputError(
        f"{changed}, which no amendment may change: {reason}. A new study can take over the items that nobody has "
        f"judged yet: captious studio new {other} --rest-of {path}; then put this file back: captious studio show "
        f"{path} --original > {path}"
    )


def _is_one_of(key: str, names: Iterable[str]) -> bool:
    """Whether a key is one of some names, in which a star stands for anything."""
    return any(fnmatchcase(key, name) for name in names)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"


# The items


class ItemsDiffer(InputError):
    """The files of a study no longer hold what raters judged."""


def new_tasks(stored: Mapping[str, Task], plan: Plan) -> list[Task]:
    """The tasks of the items that a study does not have yet. Those that it has must be as they were."""
    built = _by_item(build_tasks(replace(plan, items=None, practice=None)))
    old = _by_item(task for task in stored.values() if not task.is_practice)
    missing = [item for item in old if item not in built]
    if missing:
        raise ItemsDiffer(
            f"{plan.path}: {len(missing):,} items of the study ({format_first(missing)}) are not in its files any more; "
            "expected all of them, since tasks are only ever added"
        )
    for item, tasks in old.items():
        for name, was, now in zip(_PARTS, _content(tasks), _content(built[item]), strict=True):
            if was != now:
                raise ItemsDiffer(
                    f"{plan.path}: item {item!r} has other {name} in the files than raters judge; expected the same, "
                    "since stored answers are about them"
                )
    added = _drawn(plan, old, built)
    numbers = [int(id[1:]) for id in stored if re.fullmatch(r"t[0-9]{1,9}", id)]
    tasks = [task for item in added for task in built[item]]
    first = max([len(stored), *numbers]) + 1
    return [replace(task, id=f"t{number}") for number, task in enumerate(tasks, first)]


def _drawn(plan: Plan, old: Mapping[str, Any], built: Mapping[str, Any]) -> list[str]:
    """The items to add: all that are new, or as many as the plan asks for, drawn by the seed."""
    new = [item for item in built if item not in old]
    if plan.items is None:
        return new
    asked = {subject.id for subject in read_subjects(replace(plan, items=None), _ignore)}
    more = plan.items - sum(item in asked for item in old)
    chosen = [item for item in new if item in asked]
    if more < 0:
        raise ItemsDiffer(f"{plan.path}: items = {plan.items}, expected at least the {plan.items - more} of the study")
    if more > len(chosen):
        raise ItemsDiffer(
            f"{plan.path}: items = {plan.items}, expected at most the {plan.items - more + len(chosen)} there are"
        )
    drawn = np.random.default_rng(plan.seed).permutation(len(chosen))[:more].tolist()
    kept = {chosen[index] for index in drawn}
    return [item for item in new if item in kept or item not in asked]


def _ignore(message: str) -> None:
    """`build_tasks` has complained already."""


def _by_item(tasks: Iterable[Task]) -> dict[str, list[Task]]:
    items: dict[str, list[Task]] = {}
    for task in tasks:
        items.setdefault(task.item, []).append(task)
    return items


_PARTS = ("images or sounds", "captions", "references", "things", "texts", "columns", "expected answers")


def _content(tasks: Sequence[Task]) -> tuple[Any, ...]:
    """What raters judge of an item, however its captions are dealt out to pages and letters."""
    first = tasks[0]
    captions = sorted((choice.system, choice.text) for task in tasks for choice in task.choices)
    golds = sorted(dump(_by_caption(task)) for task in tasks)
    fields = dump(dict(first.fields))
    return (first.image, first.audio), captions, first.references, first.things, first.heading, fields, golds


def _by_caption(task: Task) -> Any:
    """What is expected of a gold task, with captions in place of their letters."""
    captions = {choice.id: f"{choice.system}\n{choice.text}" for choice in task.choices}

    def spelled(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {captions.get(name, name): spelled(inner) for name, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [spelled(inner) for inner in value]
        return captions.get(value, value) if isinstance(value, str) else value

    return spelled(task.gold)


def unjudged_items(log: StudyLog) -> list[str]:
    """The items of which no rater who counts has judged anything, in the order of the study."""
    tasks = log.tasks()
    judged = {tasks[one.task].item for one in collect_answers(log.events()) if one.purpose == "work" and not one.excluded}
    items = dict.fromkeys(task.item for task in sorted(tasks.values(), key=lambda one: (len(one.id), one.id)))
    return [item for item in items if item not in judged]
