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
from captious.studio.answer_rows import FILES, answer_tables, numbered, recipe_facts
from captious.studio.events import answers_of
from captious.studio.plan import Plan
from captious.studio.standing import RaterStanding
from captious.studio.tally import standing_of
from captious.studio.tasks import Task

if TYPE_CHECKING:
    from captious.studio.log import Log


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
    """The recipe of the answers in TOML, for ``captious study run``; empty for a kind that is no study of metrics."""
    facts = recipe_facts(plan, tasks)
    return f"{_toml(facts[0])}\n[[layouts]]\n{_toml(facts[1])}" if facts else ""


def _toml(table: Mapping[str, Any]) -> str:
    """Texts, numbers and lists of numbers as lines of TOML, which writes them as JSON does."""
    lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in table.items())
    return "".join(lines).replace("\x7f", "\\u007f")
