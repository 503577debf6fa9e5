"""The answers of a study as files that other commands read: ``captious studio export``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from captious._files import MARKER, refuse_occupied, whole_folder
from captious.options import Resampling
from captious.render import Column, Document, Result, Table
from captious.render.tables import to_json, write_csv, write_jsonl
from captious.studio.answer_rows import Row, answer_rows, humans_row
from captious.studio.events import Answered, answers_of
from captious.studio.kinds import kind_of
from captious.studio.kinds.ratings import rated_aspect
from captious.studio.plan import Plan
from captious.studio.standing import RaterStanding
from captious.studio.tally import standing_of
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
    simulated_raters: int
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
        notes.append(f"go on with: {self.next}")
        data = {name: value for name, value in asdict(self).items() if name != "title"}
        title = f"{self.folder}: {self.title}"
        bots = f"{self.simulated_raters:,} raters are simulated: what they say is no result"
        warnings = [bots] if self.simulated_raters else []
        table = Table("files", title, ["file", Column("rows")], files)
        return Document(title, "", [table], warnings, notes, (), data, "export")


def export_study(log: Log, out: str | Path, overwrite: bool = False) -> Export:
    """Write everything that a study knows into a folder, whole or not at all."""
    refuse_occupied(Path(out), overwrite)
    plan, tasks, events = log.plan(), log.tasks(), list(log.events())
    answers = answers_of(events)
    tables = answer_tables(plan, tasks, answers)
    # The whole log in the order of arrival, excluded raters too.
    tables["events.jsonl"] = [{**vars(event), "at": event.at.isoformat()} for event in events]
    known = log.rater_ids()
    raters = standing_of(plan, tasks, events, known, resampling=Resampling(samples=0)).raters
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
        _next(plan, tasks.values(), Path(out) / FILES[plan.kind]),
    )
    with whole_folder(out, overwrite) as folder:
        for name, table in tables.items():
            write_jsonl(folder / name, table)
        if recipe := recipe_text(plan, tasks.values()):
            (folder / FILES[plan.kind]).with_suffix(".toml").write_text(recipe, encoding="utf-8")
        (folder / "study.toml").write_text(plan.text, encoding="utf-8")
        write_csv(rater_columns(raters), folder / "raters.csv")
        (folder / MARKER).write_text(to_json(result.document()), encoding="utf-8")
    return result


def _next(plan: Plan, tasks: Iterable[Task], file: Path) -> str:
    """The command that goes on with the answers in a file, as people type it."""
    name = quote(str(file))
    if plan.kind == "yesno":
        return f"captious probe recall {name}"
    if plan.kind == "labels":
        return f"captious bias lic CAPTIONS --label {plan.label} --labels {name}"
    if plan.kind == "ranking" and any(task.fields.get("style") for task in tasks):
        return f"captious style correlate MODEL {name}"
    return f"captious study run {quote(str(file.with_suffix('.toml')))}"


def answer_tables(plan: Plan, tasks: Mapping[str, Task], answers: Iterable[Answered]) -> dict[str, list[Row]]:
    """Rows by file: the answers themselves; those to checks and repeated tasks apart, where there are any.

    The order is that of the tasks and of the raters, not of arrival.
    """
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
            main += [row for one in work for row in answer_rows(plan, task, one)]
        elif task.gold is None:
            main.append(humans_row(plan, task, work))
        again = [one for one in several if one.purpose == "repeat"]
        repeats += [row for one in again for row in answer_rows(plan, task, one)]
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


def rater_columns(raters: Iterable[RaterStanding]) -> dict[str, list[Any]]:
    """Every rater with speed, checks, agreement, flags and exclusion, as columns; under pseudonyms alone."""
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
        for one in sorted(raters, key=lambda one: numbered(one.id))
    ]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {"rater": []}


def recipe_text(plan: Plan, tasks: Iterable[Task]) -> str:
    """The protocol as a recipe in TOML for ``captious study run``; empty for a kind that is no study of metrics."""
    tasks = list(tasks)
    facts: dict[str, Any] = {"title": plan.title, "source": "captious studio export"}
    # Ranks of one set cannot be compared with those of another set of the same image.
    group = "image" if plan.kind != "ranking" and all(task.image for task in tasks) else "item"
    layout = {"ratings": FILES[plan.kind], "image": group, "rater": "rater"}
    if plan.kind == "ratings":
        facts |= {"rows": "each", "statistic": "tau_b", **({"scale": scale} if (scale := _scale(plan)) else {})}
        layout |= {"rating": "rating"}
    elif plan.kind == "ranking":
        facts |= {"rows": "each", "statistic": "sample_tau"}
        layout |= {"rating": "rank"}
    elif plan.kind == "pairs":
        facts |= {"kind": "pairs"}
        layout |= {"caption": "captions", "preferred": "preferred"}
    else:
        return ""
    if plan.kind != "pairs" and all(choice.system for task in tasks for choice in task.choices):
        layout |= {"system": "system"}
    return f"{_toml(facts)}\n[[layouts]]\n{_toml(layout)}"


def _scale(plan: Plan) -> list[float]:
    """The ends of the scale of the one rating; none where a formula other than the mean makes it."""
    ends = {(aspect.points[0], aspect.points[-1]) for aspect in plan.aspects}
    if plan.formula is None:
        rated = rated_aspect(plan)
        ends = {(rated.points[0], rated.points[-1])}
    elif plan.formula.text != "mean":
        return []
    return list(ends.pop()) if len(ends) == 1 else []


def _toml(table: Mapping[str, Any]) -> str:
    """Texts, numbers and lists of numbers as lines of TOML, which writes them as JSON does."""
    lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in table.items())
    return "".join(lines).replace("\x7f", "\\u007f")
