"""Amendments: which keys of a study may change after it began, and the tasks that an amendment adds."""

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
from captious.studio.collect._database_tables import compute_plan_digest, dump, to_json
from captious.studio.collect._events import Amendment, collect_answers
from captious.studio.collect._subjects import DRAWING, note_chance, read_subjects
from captious.studio.collect.log import StudyLog
from captious.studio.collect.rating_tasks import Task, build_tasks
from captious.studio.collect.study_plan import Plan, read_plan

# Keys that would change what stored answers mean, with the reason.
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
    "panel": "raters are known by where they came from",
    "panel.name": "raters are known by where they came from",
    "panel.parameter": "raters are known by the ids in it",
    "looks.planned": "looks keep their error only if they were planned before the first answer",
    "looks.number": "looks keep their error only if they were planned before the first answer",
    "seed": "the pages that raters saw were drawn by it",
    "stratum": "tasks were shared out by it",
    "must_watch": "raters may have answered without watching the video, or had to watch it",
    "practice": "raters have practiced other tasks",
    "questions": "raters have answered the questions as they were",
}
# Keys whose numbers may rise but not fall, with the reason.
GROWING = {
    "overlap": "answers that were given cannot be taken back; captious studio pause stops a study that has enough",
    "lease": "open pages are kept for their raters as long as it was said; captious studio release frees them",
}
# Keys that select the items; `build_new_tasks` checks the items themselves.
FILES = (
    *("captions", "references", "images", "audio", "videos", "tasks", "ids", "without", "items", "missing", "distinct"),
    *("quotas", "quotas.*", "checks.gold"),
)
# Keys that may change freely: texts, and numbers for the distribution, payment and summary of the work.
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
    *("source.done", "source.full", "source.screened", "source.excluded", "participants.*"),
    *("panel.completed", "panel.full", "panel.screened", "panel.excluded", "panel.keys", "panel.others"),
)
# Maximum length of a reason.
LONGEST = 500


def amend_study(log: StudyLog, path: Path, why: str) -> tuple[Amendment, str]:
    """Amend a study with the text of a file and the new items of its files.

    Returns the amendment, and the reason why no new items were looked for: their files cannot be read, and no key that
    names them changed.
    """
    why = " ".join(why.split())
    if not why or len(why) > LONGEST:
        raise InputError(f"why={why[:40]!r}, expected the reason in 1 to {LONGEST} characters")
    log.path = path
    log.read_updates()
    plan, old = read_plan(path), log.plan()
    changes = list_changes(old, plan)
    unread = ""
    try:
        tasks = build_new_tasks(log.tasks(), plan)
    except InputError as error:
        if isinstance(error, ItemsDiffer) or any(_is_one_of(one["key"], FILES) for one in changes):
            raise
        tasks, unread = [], str(error)
    number = len(log.tasks())
    if tasks:
        changes.append({"key": "tasks", "from": number, "to": number + len(tasks)})
    if not changes and compute_plan_digest(plan) == old.digest:
        raise InputError(
            f"{path}: is the text of the study, and its files have no new items, so nothing is to be amended"
        )
    if not changes:
        changes.append({"key": "comments", "from": "as they were", "to": "edited"})
    log.amend(plan, tasks, why, changes, old.digest)
    return log.now.history.amendments[-1], unread


# Changes of the plan


def list_changes(old: Plan, new: Plan) -> list[dict[str, Any]]:
    """Return the keys that differ, with both values; raise `InputError` for one that may not change."""
    before, after = _flatten_plan(old), _flatten_plan(new)
    changes = []
    for key in [*before, *(key for key in after if key not in before)]:
        was, now = before.get(key), after.get(key)
        if was == now:
            continue
        _check_change(key, was, now, before, after, new.path)
        changes.append({"key": key, "from": was, "to": now})
    return changes


def _flatten_plan(plan: Plan) -> dict[str, Any]:
    """Return the values of a plan by dotted key: ``table.key``, and ``list.name.key`` for lists of tables."""
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


def _check_change(
    key: str, was: Any, now: Any, before: Mapping[str, Any], after: Mapping[str, Any], path: Path
) -> None:
    """Raise `InputError` for a change that would change the meaning of stored answers."""
    changed = f"{path}: {key} was {_format_json(was)} and is {_format_json(now)}"
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
    """Return True if a key matches one of some patterns."""
    return any(fnmatchcase(key, name) for name in names)


def _format_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"


# Changes of the items


class ItemsDiffer(InputError):
    """The files of a study no longer contain the items that raters judged."""


def build_new_tasks(stored: Mapping[str, Task], plan: Plan) -> list[Task]:
    """Build the tasks of the new items; raise `ItemsDiffer` if items of the study changed or are missing."""
    built = _group_by_item(build_tasks(replace(plan, items=None, practice=None)))
    old = _group_by_item(task for task in stored.values() if not task.is_practice)
    missing = [item for item in old if item not in built]
    if missing:
        raise ItemsDiffer(
            f"{plan.path}: {len(missing):,} items of the study ({format_first(missing)}) are not in its files any "
            "more; expected all of them, since tasks are only ever added"
        )
    for item, tasks in old.items():
        for name, was, now in zip(_PARTS, _get_content(tasks), _get_content(built[item]), strict=True):
            if was != now:
                raise ItemsDiffer(
                    f"{plan.path}: item {item!r} has other {name} in the files than raters judge; expected the same, "
                    "since stored answers are about them"
                )
    added, chance = _draw_items(plan, old, built)
    numbers = [int(id[1:]) for id in stored if re.fullmatch(r"t[0-9]{1,9}", id)]
    tasks = [task for item in added for task in built[item]]
    first = max([len(stored), *numbers]) + 1
    if chance is not None:
        tasks = [replace(task, fields=note_chance(task.fields, chance)) for task in tasks]
    return [replace(task, id=f"t{number}") for number, task in enumerate(tasks, first)]


def _draw_items(plan: Plan, old: Mapping[str, Any], built: Mapping[str, Any]) -> tuple[list[str], float | None]:
    """Select the items to add: all new ones, or as many as the plan asks for, sampled with the seed.

    Return them with the chance of an item to be drawn now or before; None if nothing is drawn.
    """
    new = [item for item in built if item not in old]
    if plan.items is None:
        return new, None
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
    return [item for item in new if item in kept or item not in asked], plan.items / len(asked)


def _ignore(message: str) -> None:
    """Ignore a complaint; `build_tasks` has reported it already."""


def _group_by_item(tasks: Iterable[Task]) -> dict[str, list[Task]]:
    items: dict[str, list[Task]] = {}
    for task in tasks:
        items.setdefault(task.item, []).append(task)
    return items


_PARTS = ("images, sounds or videos", "captions", "references", "things", "texts", "columns", "expected answers")


def _get_content(tasks: Sequence[Task]) -> tuple[Any, ...]:
    """Return what raters judge of an item, independent of how captions are assigned to pages and letters."""
    first = tasks[0]
    captions = sorted((choice.system, choice.text) for task in tasks for choice in task.choices)
    golds = sorted(dump(_replace_letters(task)) for task in tasks)
    # How items were drawn may differ: a larger sample gives the same item a greater chance.
    fields = dump({name: value for name, value in first.fields.items() if name not in DRAWING})
    media = (first.image, first.audio, first.video)
    return media, captions, first.references, first.things, first.heading, fields, golds


def _replace_letters(task: Task) -> Any:
    """Return the expected answer of a gold task with captions instead of their letters."""
    captions = {choice.id: f"{choice.system}\n{choice.text}" for choice in task.choices}

    def replace_letters(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {captions.get(name, name): replace_letters(inner) for name, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [replace_letters(inner) for inner in value]
        return captions.get(value, value) if isinstance(value, str) else value

    return replace_letters(task.gold)


def find_unjudged_items(log: StudyLog) -> list[str]:
    """Return the items without an answer of a rater who is not excluded, in the order of the study."""
    tasks = log.tasks()
    judged = {
        tasks[one.task].item for one in collect_answers(log.events()) if one.purpose == "work" and not one.excluded
    }
    items = dict.fromkeys(task.item for task in sorted(tasks.values(), key=lambda one: (len(one.id), one.id)))
    return [item for item in items if item not in judged]
