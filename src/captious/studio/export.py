"""The answers of a study as files that other commands read: ``captious studio export``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from captious._files import MARKER, refuse_occupied, whole_folder
from captious.render import Column, Document, Result, Table
from captious.render.tables import to_json, write_csv, write_jsonl
from captious.studio.answer_rows import Row, Rows, headline, humans_row
from captious.studio.events import Answered, Event, Rater
from captious.studio.kinds import kind_of
from captious.studio.plan import Plan
from captious.studio.tasks import Task

if TYPE_CHECKING:
    from captious.studio.log import Log

FILES = {
    "ratings": "ratings.jsonl",
    "ranking": "rankings.jsonl",
    "pairs": "pairs.jsonl",
    "yesno": "answers.jsonl",
    "labels": "humans.jsonl",
}
"""Where the answers of each kind of task go."""
NEXT = {
    "ratings": "study run {}",
    "ranking": "style correlate MODEL {}",
    "pairs": "study run {}",
    "yesno": "probe recall {}",
    "labels": "bias lic CAPTIONS --labels {}",
}
"""The command that goes on with the answers."""


@dataclass(frozen=True, repr=False)
class Export(Result):
    """What was written, and what was left out of it."""

    folder: Path
    title: str
    rows: Mapping[str, int]
    """Rows of every file."""
    answers: int
    """Of raters who are not excluded, the last one to every task; checks and repeats aside."""
    late: int
    """Those of them that came after their lease; they are marked."""
    excluded_raters: int
    excluded_answers: int
    """Answers of excluded raters, left out of everything but ``events.jsonl`` and ``raters.csv``."""
    next: str
    """The command that goes on with the answers."""

    def __repr__(self) -> str:
        return f"<Export {self.folder}: {self.answers} answers>"

    def document(self) -> Document:
        """The files with their rows."""
        files: list[Sequence[Any]] = list(self.rows.items())
        notes = [f"{self.answers:,} answers" + (f", {self.late:,} of them late" if self.late else "")]
        if self.excluded_raters:
            raters = f"{self.excluded_raters:,} excluded rater{'s' * (self.excluded_raters > 1)}"
            notes.append(f"left out: {self.excluded_answers:,} answers of {raters}")
        notes.append(f"go on with: captious {self.next}")
        data = {name: value for name, value in asdict(self).items() if name != "title"}
        title = f"{self.folder}: {self.title}"
        return Document(
            title, "", [Table("files", title, ["file", Column("rows")], files)], (), notes, (), data, "export"
        )


def export_study(log: Log, out: str | Path, overwrite: bool = False) -> Export:
    """Write everything that a study knows into a folder, whole or not at all."""
    refuse_occupied(Path(out), overwrite)
    plan, tasks, answers = log.plan(), log.tasks(), log.answers()
    tables = answer_tables(plan, tasks, answers)
    with whole_folder(out, overwrite) as folder:
        for name, rows in tables.items():
            write_jsonl(folder / name, rows)
        if recipe := recipe_text(plan, tasks.values()):
            (folder / FILES[plan.kind]).with_suffix(".toml").write_text(recipe, encoding="utf-8")
        (folder / "study.toml").write_text(plan.text, encoding="utf-8")
        raters = rater_columns(plan, tasks, log.raters(), log)
        write_csv(raters, folder / "raters.csv")
        events = _write_events(folder / "events.jsonl", log.events())
        counts = {name: len(rows) for name, rows in tables.items()}
        counts |= {"raters.csv": len(raters["rater"]), "events.jsonl": events}
        result = _result(Path(out), plan, answers, counts)
        (folder / MARKER).write_text(to_json(result.document()), encoding="utf-8")
    return result


def _result(folder: Path, plan: Plan, answers: Sequence[Answered], rows: Mapping[str, int]) -> Export:
    work = [one for one in answers if one.purpose == "work"]
    counted = [one for one in work if not one.excluded]
    excluded = {one.rater for one in answers if one.excluded}
    late = sum(one.late for one in counted)
    following = NEXT[plan.kind].format(folder / FILES[plan.kind])
    return Export(folder, plan.title, rows, len(counted), late, len(excluded), len(work) - len(counted), following)


def answer_tables(plan: Plan, tasks: Mapping[str, Task], answers: Iterable[Answered]) -> dict[str, list[Row]]:
    """Rows by file: the answers themselves; those to checks and repeated tasks apart, where there are any.

    The order is that of the tasks and of the raters, not of arrival.
    """
    rows = Rows(plan)
    by_task: dict[str, list[Answered]] = {}
    for one in answers:
        if not one.excluded:
            by_task.setdefault(one.task, []).append(one)
    main: list[Row] = []
    repeats: list[Row] = []
    gold: list[Row] = []
    for task in sorted(tasks.values(), key=lambda one: numbered(one.id)):
        several = sorted(by_task.get(task.id, ()), key=lambda one: numbered(one.rater))
        work = [one for one in several if one.purpose == "work"]
        if plan.kind != "labels":
            main += [row for one in work for row in rows(task, one)]
        elif task.gold is None:
            main.append(humans_row(plan, task, work))
        repeats += [row for one in several if one.purpose == "repeat" for row in rows(task, one)]
        gold += [_gold_row(plan, task, one) for one in several if one.purpose == "gold"]
    apart = {"repeats.jsonl": repeats, "gold.jsonl": gold}
    return {FILES[plan.kind]: main, **{name: table for name, table in apart.items() if table}}


def _gold_row(plan: Plan, task: Task, one: Answered) -> Row:
    """The answer to a check beside the expected one, as the study stores both."""
    return {
        "task": task.id,
        "item": task.item,
        "rater": one.rater,
        "passed": kind_of(plan).passes(plan, task, one.answer),
        "expected": task.gold,
        "answer": one.answer,
        "seconds": one.seconds,
    }


def numbered(id: str) -> tuple[int, str]:
    """Sorts tasks and raters by their numbers.

    >>> sorted(["r10", "r2"], key=numbered)
    ['r2', 'r10']
    """
    return len(id), id


def rater_columns(plan: Plan, tasks: Mapping[str, Task], raters: Iterable[Rater], log: Log) -> dict[str, list[Any]]:
    """Every rater with speed, checks and the reason of an exclusion, as columns; under pseudonyms alone."""
    answers, reasons = log.answers(), {one.rater: one.body["reason"] for one in log.events() if one.kind == "excluded"}
    kind, rows = kind_of(plan), []
    for rater in raters:
        own = [one for one in answers if one.rater == rater.id]
        seconds = [one.seconds for one in own if one.seconds is not None]
        checks = [kind.passes(plan, tasks[one.task], one.answer) for one in own if one.purpose == "gold"]
        rows.append(
            {
                "rater": rater.id,
                "tasks": sum(one.purpose == "work" for one in own),
                "median_seconds": median(seconds) if seconds else None,
                "checks_passed": checks.count(True),
                "checks_failed": checks.count(False),
                "late": sum(one.late for one in own),
                "comments": sum(bool(one.comment) for one in own),
                "finished": rater.finished,
                "excluded": rater.excluded,
                "reason": reasons.get(rater.id, "") if rater.excluded else "",
            }
        )
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {"rater": []}


def _write_events(path: Path, events: Iterable[Event]) -> int:
    """The whole log in the order of arrival, those of excluded raters too; how many they are."""
    rows = [{**asdict(event), "at": event.at.isoformat()} for event in events]
    write_jsonl(path, rows)
    return len(rows)


def recipe_text(plan: Plan, tasks: Iterable[Task]) -> str:
    """The protocol as a recipe in TOML for ``captious study run``; empty for a kind that is no study of metrics."""
    tasks = list(tasks)
    if plan.kind not in ("ratings", "pairs", "ranking"):
        return ""
    title = f"{plan.title}: " + {"ratings": "ratings", "pairs": "preferences", "ranking": "ranks"}[plan.kind]
    facts: dict[str, Any] = {"title": title, "source": "captious studio export", "kind": "ratings"}
    layout: dict[str, Any] = {
        "ratings": FILES[plan.kind],
        "image": "image" if all(one.image for one in tasks) else "item",
    }
    if plan.kind == "pairs":
        facts["kind"] = "pairs"
        layout |= {"caption": "captions", "preferred": "preferred"}
    elif plan.kind == "ranking":  # ranks of one set cannot be compared with those of another
        facts |= {"rows": "each", "statistic": "sample_tau"}
        layout |= {"rating": "rank"}
    else:
        facts |= {"rows": "each", "statistic": "tau_b"}
        if scale := _scale(plan):
            facts["scale"] = scale
        layout["rating"] = "rating" if headline(plan) else plan.aspects[0].name
    layout["rater"] = "rater"
    if plan.kind != "pairs" and all(choice.system for task in tasks for choice in task.choices):
        layout["system"] = "system"
    return (
        "".join(f"{key} = {_toml(value)}\n" for key, value in facts.items())
        + "\n[[layouts]]\n"
        + "".join(f"{key} = {_toml(value)}\n" for key, value in layout.items())
    )


def _scale(plan: Plan) -> list[float]:
    """The ends of the scale of the one rating; none where a formula other than the mean makes it."""
    ends = {(aspect.points[0], aspect.points[-1]) for aspect in plan.aspects}
    if plan.formula is None:
        rated = next((aspect for aspect in plan.aspects if aspect.name == "overall"), plan.aspects[0])
        ends = {(rated.points[0], rated.points[-1])}
    elif plan.formula.text != "mean":
        return []
    return list(ends.pop()) if len(ends) == 1 else []


def _toml(value: Any) -> str:
    """A text, a number or a list of numbers as TOML writes them."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
