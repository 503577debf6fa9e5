"""Export of a study: answers as rows, the recipe of a study of metrics, and files for other commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from shlex import quote
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from captious._core.files import OUTPUT, PRIVATE, refuse_occupied, whole_folder
from captious._core.records import parse_record
from captious.render import Column, Document, Result, Table
from captious.render.exports import to_json, write_csv, write_jsonl
from captious.studio.collect._events import Answered, collect_answers
from captious.studio.collect._survey import collect_survey_rows
from captious.studio.collect.kinds import get_measurement, kind_of
from captious.studio.collect.kinds.labels import NONE, merge_labels
from captious.studio.collect.kinds.ratings import compute_overall, find_rated_aspect
from captious.studio.collect.rating_tasks import Choice, Task, count_gold
from captious.studio.collect.study_check import estimate_effort, list_form
from captious.studio.collect.study_plan import EXPORTED, KindName, Plan
from captious.studio.owner._payments import list_payment_files, list_payments, write_payments
from captious.studio.owner.history import StudyChange, list_changes, make_change_row
from captious.studio.owner.raters import RaterProgress, compute_rater_progress
from captious.study.recipes import Recipe

if TYPE_CHECKING:
    from captious.studio.collect.log import StudyLog

Row = dict[str, Any]
# Raters that were wanted, and raters that came.
PARTICIPANTS = "participants.json"
# File of the answers, by kind of task.
FILES = {
    "ratings": "ratings.jsonl",
    "ranking": "rankings.jsonl",
    "pairs": "pairs.jsonl",
    "yesno": "answers.jsonl",
    "labels": "humans.jsonl",
}


def build_answer_tables(plan: Plan, tasks: Mapping[str, Task], answers: Iterable[Answered]) -> dict[str, list[Row]]:
    """Return rows by file name: the answers, and in separate files those to checks, repeats and practice, if any.

    Rows are in the order of the tasks and of the raters, not of arrival.
    """
    by_task: dict[str, list[Answered]] = {}
    for one in answers:
        if not one.excluded:
            by_task.setdefault(one.task, []).append(one)
    main: list[Row] = []
    repeats: list[Row] = []
    gold: list[Row] = []
    practice: list[Row] = []
    for task in sorted(tasks.values(), key=lambda one: make_sort_key(one.id)):
        several = sorted(by_task.get(task.id, ()), key=lambda one: make_sort_key(one.rater))
        work = [one for one in several if one.purpose == "work"]
        if plan.kind != "labels":
            main += [row for one in work for row in build_answer_rows(plan, task, one)]
        elif task.gold is None:
            main.append(build_humans_row(plan, task, work))
        again = [one for one in several if one.purpose == "repeat"]
        repeats += [row for one in again for row in build_answer_rows(plan, task, one)]
        gold += [_build_gold_row(plan, task, one) for one in several if one.purpose == "gold"]
        practice += [_build_gold_row(plan, task, one) for one in several if one.purpose == "practice"]
    apart = {"repeats.jsonl": repeats, "gold.jsonl": gold, "practice.jsonl": practice}
    return {FILES[plan.kind]: main, **{name: table for name, table in apart.items() if table}}


def _build_gold_row(plan: Plan, task: Task, one: Answered) -> Row:
    """Return the row of an answer to a check, with the expected answer."""
    return {
        "task": task.id,
        "item": task.item,
        "rater": one.rater,
        "passed": kind_of(plan).passes(plan, task, one.answer),
        "expected": task.gold,
        "answer": one.answer,
        "seconds": one.seconds,
    }


def make_sort_key(id: str) -> tuple[int, str]:
    """Return a key that sorts tasks and raters by their numbers.

    >>> sorted(["r10", "r2"], key=make_sort_key)
    ['r2', 'r10']
    """
    return len(id), id


def build_recipe(plan: Plan, tasks: Iterable[Task]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the facts and the layout of the recipe; None for kinds of tasks that are no study of metrics."""
    tasks = list(tasks)
    facts: dict[str, Any] = {"title": plan.title, "source": "captious studio export"}
    layout: dict[str, Any] = {
        "ratings": FILES[plan.kind],
        "image": get_resampling_column(plan, tasks),
        "rater": "rater",
    }
    if plan.kind == "ratings":
        facts |= {"rows": "each", "statistic": "tau_b", "measurement": get_measurement(plan)}
        facts |= {**({"scale": scale} if (scale := _find_scale(plan)) else {})}
        layout |= {"rating": "rating", "aspects": [aspect.name for aspect in plan.aspects]}
    elif plan.kind == "ranking":
        facts |= {"rows": "each", "statistic": "sample_tau", "measurement": get_measurement(plan)}
        layout |= {"rating": "rank"}
    elif plan.kind == "pairs":
        facts |= {"kind": "pairs"}
        layout |= {"caption": "captions", "preferred": "preferred"}
        layout |= {"system": "systems"} if all(choice.system for task in tasks for choice in task.choices) else {}
    else:
        return None
    if plan.kind != "pairs" and all(choice.system for task in tasks for choice in task.choices):
        layout |= {"system": "system"}
    return facts, layout


def make_study_recipe(plan: Plan, tasks: Iterable[Task]) -> Recipe | None:
    """Return the recipe that an export writes; None for kinds of tasks that are no study of metrics."""
    facts = build_recipe(plan, tasks)
    return facts and parse_record(Recipe, {"name": plan.path.stem, **facts[0], "layouts": [facts[1]]}, str(plan.path))


def get_resampling_column(plan: Plan, tasks: Iterable[Task]) -> Literal["image", "item"]:
    """Return the column of the bootstrap's clusters: the image, or the item if a task has no image.

    Ranks of one set cannot be compared with those of another set of the same image, so sets are drawn.
    """
    return "image" if plan.kind != "ranking" and all(task.image for task in tasks) else "item"


def _find_scale(plan: Plan) -> list[float]:
    """Return the ends of the scale of the rating; empty if a formula other than the mean computes it."""
    ends = {(aspect.points[0], aspect.points[-1]) for aspect in plan.aspects}
    if plan.formula is None:
        rated = find_rated_aspect(plan)
        ends = {(rated.points[0], rated.points[-1])}
    elif plan.formula.text != "mean":
        return []
    return list(ends.pop()) if len(ends) == 1 else []


def build_answer_rows(plan: Plan, task: Task, one: Answered) -> list[Row]:
    """Return the rows of one answer."""
    return _ROWS[plan.kind](plan, task, one)


def _build_rating_rows(plan: Plan, task: Task, one: Answered) -> list[Row]:
    rows = []
    for choice in task.choices:
        ratings = one.answer["ratings"].get(choice.id, {})
        aspects = {aspect.name: ratings.get(aspect.name) for aspect in plan.aspects}
        rated = {"rater": one.rater, "rating": compute_overall(plan, aspects), **aspects}
        rows.append({**_describe_caption(task, choice), **rated, **_get_facts(plan, one)})
    return rows


def _build_ranking_rows(plan: Plan, task: Task, one: Answered) -> list[Row]:
    style = task.fields.get("style") or task.heading
    group = {"style": style, "set": str(task.fields.get("set") or task.item)} if style else {}
    ranks = one.answer["ranks"]
    return [
        {
            **_describe_caption(task, choice),
            **group,
            "rank": ranks[choice.id],
            "rater": one.rater,
            **_get_facts(plan, one),
        }
        for choice in task.choices
    ]


def _build_pair_rows(plan: Plan, task: Task, one: Answered) -> list[Row]:
    """Return the row of a pair, with the captions in the order of the files, whichever side they were shown on."""
    ids = [choice.id for choice in task.choices]
    systems = [choice.system for choice in task.choices]
    preferred = one.answer["preferred"]
    category = "-".join(systems) if all(systems) else None
    row = {
        "id": "/".join(filter(None, (task.item, category, one.rater))),
        **_describe_item(task),
        "captions": [choice.text for choice in task.choices],
        **({"systems": systems} if all(systems) else {}),
        **_get_references(task),
        "preferred": None if preferred is None else ids.index(preferred),
        **({"both_bad": bool(one.answer.get("both_bad"))} if plan.both_bad else {}),
        **({"category": category} if category else {}),
    }
    return [{**row, "rater": one.rater, **_get_facts(plan, one)}]


def _build_yesno_rows(plan: Plan, task: Task, one: Answered) -> list[Row]:
    """Return the row of the things that the rater could judge; none if there are no such things."""
    seen = {thing: one.answer["seen"][thing] for thing in task.things if one.answer["seen"][thing] is not None}
    if not seen:
        return []
    shown = {"task": task.item, "text": task.heading, **({"picture": task.image} if task.image else {})}
    return [{**shown, **task.fields, "rater": one.rater, "entities": list(seen), "seen": seen, **_get_facts(plan, one)}]


def _build_label_rows(plan: Plan, task: Task, one: Answered) -> list[Row]:
    return [{**_describe_labeled(task), plan.label: one.answer["label"], "rater": one.rater, **_get_facts(plan, one)}]


_ROWS: dict[KindName, Callable[[Plan, Task, Answered], list[Row]]] = {
    "ratings": _build_rating_rows,
    "ranking": _build_ranking_rows,
    "pairs": _build_pair_rows,
    "yesno": _build_yesno_rows,
    "labels": _build_label_rows,
}


def build_humans_row(plan: Plan, task: Task, answers: Iterable[Answered]) -> Row:
    """Return the merged label of an image or caption with every vote, as ``captious bias lic`` reads it.

    The label ``none`` means that no other applies; merged it is null.
    """
    votes = {one.rater: one.answer["label"] for one in answers}
    label = merge_labels(plan, votes.values())
    return {**_describe_labeled(task), plan.label: None if label == NONE else label, f"{plan.label}_votes": votes}


def _describe_labeled(task: Task) -> Row:
    if task.choices:
        return _describe_caption(task, task.choices[0])
    return {"id": task.item, **_describe_item(task), **_get_references(task)}


def _describe_caption(task: Task, choice: Choice) -> Row:
    part = choice.system or (choice.id if len(task.choices) > 1 else "")
    return {
        "id": f"{task.item}/{part}" if part else task.item,
        **_describe_item(task),
        **({"system": choice.system} if choice.system else {}),
        "caption": choice.text,
        **_get_references(task),
    }


def _describe_item(task: Task) -> Row:
    """Return the columns of the item, and those of its files except names that the export uses itself."""
    media = {"image": task.image, "audio": task.audio, "video": task.video}
    shown = {name: file for name, file in media.items() if file}
    return {"item": task.item, **shown, **{name: value for name, value in task.fields.items() if name not in EXPORTED}}


def _get_references(task: Task) -> Row:
    return {"references": list(task.references)} if task.references else {}


def _get_facts(plan: Plan, one: Answered) -> Row:
    """Return time and comment of an answer; with a time limit, whether it was exceeded."""
    slow = {} if plan.limit is None else {"over_limit": one.seconds is not None and one.seconds > plan.limit}
    return {"seconds": one.seconds, **slow, "late": one.late, **({"comment": one.comment} if one.comment else {})}


# Files


@dataclass(frozen=True, repr=False)
class Export(Result):
    """The files that were written, and what was left out of them."""

    folder: Path
    title: str
    rows: Mapping[str, int]
    """Rows of every file."""
    answers: int
    """Answers of raters who are not excluded, the last one to every task; checks and repeats aside."""
    late: int
    """Answers of these that came after their lease; they are marked."""
    excluded_raters: int
    excluded_answers: int
    """Answers of excluded raters, left out of everything but ``events.jsonl`` and ``raters.csv``."""
    simulated_raters: int
    next: tuple[str, ...]
    """The shell commands that fit the answers, the best first."""
    changes: tuple[StudyChange, ...] = ()
    """Amendments and pauses."""

    def __repr__(self) -> str:
        return f"<Export {self.folder}: {self.answers} answers>"

    def document(self) -> Document:
        """Return the files with their row counts."""
        files: list[Sequence[Any]] = list(self.rows.items())
        notes = [f"{self.answers:,} answers" + (f", {self.late:,} of them late" if self.late else "")]
        if self.excluded_raters:
            raters = f"{self.excluded_raters:,} excluded rater{'s' * (self.excluded_raters > 1)}"
            notes.append(f"left out: {self.excluded_answers:,} answers of {raters}")
        for change in self.changes:
            if change.kind == "amended":
                after = f"amended after {change.answers:,} answers"
                notes.append(f"{after}: {'; '.join(change.difference)} ({change.why})")
        notes += [f"{'or' if index else 'next'}: {line}" for index, line in enumerate(self.next)]
        data = {name: value for name, value in asdict(self).items() if name != "title"}
        data["changes"] = [make_change_row(change) for change in self.changes]
        title = f"{self.folder}: {self.title}"
        bots = f"{self.simulated_raters:,} raters are simulated: their answers are not a result"
        warnings = [bots] if self.simulated_raters else []
        table = Table("files", title, ["file", Column("rows")], files)
        return Document(title, "", [table], warnings, notes, (), data, "export")


def export_study(log: StudyLog, out: str | Path, overwrite: bool = False, payments: bool = False) -> Export:
    """Write all data of a study into a folder, atomically.

    With ``payments`` also the table of payments, the only file with the platform's ids.
    """
    refuse_occupied(Path(out), overwrite)
    plan, tasks, events = log.plan(), log.tasks(), list(log.events())
    answers = collect_answers(events)
    tables = build_answer_tables(plan, tasks, answers)
    if plan.questions:
        tables["questions.jsonl"] = collect_survey_rows(plan, events)
    # The full log in the order of arrival, with excluded raters.
    tables["events.jsonl"] = [{**vars(event), "at": event.at.isoformat()} for event in events]
    changes = list_changes(events)
    if changes:
        tables["changes.jsonl"] = [make_change_row(change) for change in changes]
    now = datetime.now(timezone.utc)
    raters = compute_rater_progress(plan, tasks, events, log.list_rater_ids(), now=now)
    rows = {name: len(table) for name, table in tables.items()} | {"raters.csv": len(raters)}
    work = [one for one in answers if one.purpose == "work"]
    counted = [one for one in work if not one.excluded]
    result = Export(
        Path(out),
        plan.title,
        rows,
        len(counted),
        sum(one.late for one in counted),
        len({one.rater for one in answers if one.excluded}),
        len(work) - len(counted),
        sum(bool(rater.simulated) for rater in raters),
        list_next_commands(plan, tasks.values(), tables[FILES[plan.kind]], Path(out) / FILES[plan.kind]),
        changes,
    )
    paid = list_payments(plan, raters, log.identities()) if payments else []
    with whole_folder(out, overwrite) as folder:
        if payments:
            rows |= write_payments(plan, paid, folder)
        for name, table in tables.items():
            write_jsonl(folder / name, table)
        if recipe := format_recipe(plan, tasks.values()):
            (folder / FILES[plan.kind]).with_suffix(".toml").write_text(recipe, encoding="utf-8", newline="\n")
        (folder / "study.toml").write_text(plan.text, encoding="utf-8", newline="\n")
        who = describe_participants(plan, tasks.values(), raters)
        (folder / PARTICIPANTS).write_text(json.dumps(who, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        write_csv(build_rater_columns(raters), folder / "raters.csv")
        (folder / OUTPUT).write_text(to_json(result.document()), encoding="utf-8", newline="\n")
    for name in list_payment_files(plan) if payments else ():
        (Path(out) / name).chmod(PRIVATE)  # they contain ids of people
    return result


def list_next_commands(plan: Plan, tasks: Iterable[Task], rows: Sequence[Row], file: Path) -> tuple[str, ...]:
    """Return the shell commands that fit the answers in a file, the best first; `rows` are those of the file.

    Several systems are ranked by `study systems`; metrics are compared with people by `study run` if there are
    references; how far raters agree is left if there is neither.
    """
    name, tasks = quote(str(file)), list(tasks)
    status = f"captious studio status {quote(str(plan.path))}"
    if not rows:
        return (status,)
    if plan.kind == "yesno":
        return (f"captious probe recall {name}",)
    if plan.kind == "labels":
        return (f"captious bias lic CAPTIONS --label {plan.label} --labels {name}",)
    commands = []
    if plan.kind == "ranking" and any(task.fields.get("style") for task in tasks):
        commands.append(f"captious style correlate MODEL {name}")
    systems = {system for row in rows for system in row.get("systems", [row.get("system")])} - {None}
    if len(systems) > 1:
        commands.append(f"captious study systems {quote(str(file.parent))}")
    if all(row.get("references") for row in rows):
        commands.append(f"captious study run {quote(str(file.with_suffix('.toml')))}")
    several = len({row["rater"] for row in rows}) > 1
    return tuple(commands) or (f"captious study agreement {name}" if several else status,)


def describe_participants(plan: Plan, tasks: Iterable[Task], raters: Sequence[RaterProgress]) -> Row:
    """Return who was asked for and who took part, as a paper reports it; no ids."""
    tasks = list(tasks)
    effort = estimate_effort(plan, sum(task.gold is None for task in tasks), count_gold(tasks))
    worked = [one for one in raters if one.tasks and one.state != "excluded"]
    minutes = sorted(60 * one.time.hours for one in worked)
    return {
        "requested": list_form(plan, effort),
        "took_part": len(worked),
        "excluded": sum(one.state == "excluded" for one in raters),
        "simulated": sum(bool(one.simulated) for one in worked),
        "median_minutes": round(median(minutes), 1) if minutes else None,
    }


def build_rater_columns(raters: Iterable[RaterProgress]) -> dict[str, list[Any]]:
    """Return every rater with speed, checks, agreement, flags and exclusion, as columns; only pseudonyms."""
    rows = [
        {
            "rater": one.id,
            "state": one.state,
            "tasks": one.tasks,
            "median_seconds": one.time.median,
            "checks_passed": one.passed,
            "checks_failed": one.failed,
            "agreement": one.agreement.alpha,
            "repeats_agreement": one.repeats.alpha,
            "late": one.late,
            "comments": one.comments,
            "flags": "; ".join(flag.reason for flag in one.flags),
            "excluded": one.reason,
            "simulated": one.simulated,
        }
        for one in sorted(raters, key=lambda one: make_sort_key(one.id))
    ]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {"rater": []}


def format_recipe(plan: Plan, tasks: Iterable[Task]) -> str:
    """Return the recipe of the answers in TOML, for ``captious study run``; empty for kinds without a recipe."""
    facts = build_recipe(plan, tasks)
    return f"{_format_toml(facts[0])}\n[[layouts]]\n{_format_toml(facts[1])}" if facts else ""


def _format_toml(table: Mapping[str, Any]) -> str:
    """Format texts, numbers and lists of numbers as TOML, where they are written as in JSON."""
    lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in table.items())
    return "".join(lines).replace("\x7f", "\\u007f")
