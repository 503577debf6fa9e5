"""Verification and backup of a study's database: nothing missing or changed, and slots that agree with the log."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from captious._core.files import PRIVATE, digest, refuse_existing, write_atomically
from captious.errors import InputError, format_one_line, require
from captious.render import Column, Document, Phrase, Result, Span, Table, Text
from captious.studio.collect import _database_tables as tables
from captious.studio.collect._database import DatabaseAway
from captious.studio.collect._database_tables import compute_tasks_digest, get_rater_name, to_event, to_slot
from captious.studio.collect._events import compute_slots
from captious.studio.collect.log import StudyLog

if TYPE_CHECKING:
    import sqlalchemy as sa
else:
    sa = require("sqlalchemy", "studio")

# Maximum number of listed problems of a check; the rest are counted.
LISTED = 5


@dataclass(frozen=True)
class Examination:
    """One check of the database, and the problems that it found."""

    name: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Verification(Result):
    """Problems of the database of a study."""

    name: str
    counts: dict[str, int]
    """Rows of each table."""
    examined: tuple[Examination, ...]

    def __repr__(self) -> str:
        return f"<Verification {self.name}: {len(self.problems)} problems>"

    @property
    def problems(self) -> tuple[str, ...]:
        """All problems, one line each."""
        return tuple(problem for one in self.examined for problem in one.problems)

    def document(self) -> Document:
        """Return the document of the checks and their problems."""
        rows = [(one.name, len(one.problems)) for one in self.examined]
        counts = ", ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for name, count in self.counts.items())
        lines = [Phrase.of(Span(problem, "bad")) for problem in self.problems]
        return Document(
            title=self.name,
            sections=(
                Table("examined", f"Examined: {counts}", ("part", Column("problems")), rows),
                Text(lines or [Phrase.of(Span("nothing is missing, and nothing was changed", "good"))]),
            ),
            data={
                "name": self.name,
                "rows": self.counts,
                "examined": {one.name: list(one.problems) for one in self.examined},
                "right": not self.problems,
            },
            name="verify",
        )


Examine = Callable[[StudyLog, "sa.Connection"], Iterable[str]]


def verify(log: StudyLog) -> Verification:
    """Verify a study's database. It reads one snapshot, so raters may continue meanwhile."""
    with log.database.reading(snapshot=True) as connection:
        log.read_owner_events(connection)
        examined = tuple(Examination(name, _list_problems(examine, log, connection)) for name, examine in EXAMINATIONS)
        counts = _count_rows(connection)
    return Verification(log.name, counts, examined)


def _list_problems(examine: Examine, log: StudyLog, connection: sa.Connection) -> tuple[str, ...]:
    try:
        problems = list(examine(log, connection))
    except (sa.exc.SQLAlchemyError, DatabaseAway, ValueError, KeyError) as error:
        problems = [f"cannot be examined ({format_one_line(error)})"]
    if len(problems) > LISTED:
        problems = [*problems[:LISTED], f"… and {len(problems) - LISTED:,} more"]
    return tuple(problems)


def _count_rows(connection: sa.Connection) -> dict[str, int]:
    """Count the rows of each table that can be read."""
    counts = {}
    for table in (tables.task, tables.rater, tables.event, tables.slot):
        rows = sa.select(sa.func.count()).select_from(table)
        rows = rows.where(tables.rater.c.number > 0) if table is tables.rater else rows  # row 0 is the owner
        with suppress(sa.exc.SQLAlchemyError):
            counts[table.name] = int(connection.execute(rows).scalar_one())
    return counts


def _check_file(log: StudyLog, connection: sa.Connection) -> Iterable[str]:
    """Run SQLite's integrity check. PostgreSQL has checksums of its own."""
    if log.database.sqlite:
        lines = connection.exec_driver_sql("PRAGMA integrity_check").scalars()
        yield from (f"{log.name}: {line}" for line in lines if line != "ok")


def _check_triggers(log: StudyLog, connection: sa.Connection) -> Iterable[str]:
    if log.database.sqlite:
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    else:
        query = "SELECT tgname FROM pg_trigger WHERE tgenabled = 'A'"
    names = set(connection.exec_driver_sql(query).scalars())
    for name in sorted(tables.list_triggers(connection.dialect.name) - names):
        yield f"trigger {name} is missing, so that rows could have been changed"


class _PlanVersion(NamedTuple):
    """A version of the plan, and the event from which on it was in force."""

    since: str
    seq: int
    toml: str
    digest: str
    tasks: int | None
    """The number of all tasks at that time; None if the beginning did not count them."""
    tasks_digest: str


def _read_versions(connection: sa.Connection) -> list[_PlanVersion]:
    """Read the original plan and those of all amendments."""
    row = connection.execute(sa.select(tables.study)).one()
    versions = [_PlanVersion("when the study began", 0, row.toml, row.digest, None, row.tasks_digest)]
    for stored in connection.execute(tables.EVENTS_OF_OWNER, {"of_owner": 0}):
        event = to_event(stored)
        if event.kind == "amended":
            body, since = event.body, f"when it was amended (event {event.seq})"
            texts = (body["toml"], body["digest"], body["tasks"], body["tasks_digest"])
            versions.append(_PlanVersion(since, event.seq, *texts))
    return versions


def _check_plan(log: StudyLog, connection: sa.Connection) -> Iterable[str]:
    """Check that texts match their digests, and that every event has the digest of the plan in force at its time."""
    versions = _read_versions(connection)
    for one in versions:
        if one.toml and digest(one.toml.encode()) != one.digest:
            yield f"the plan's text has digest {digest(one.toml.encode())}, and had {one.digest} {one.since}"
    for one, end in zip(versions, [*(later.seq for later in versions[1:]), None], strict=True):
        named = tables.event.c.study
        stored = sa.select(named, sa.func.count()).where(tables.event.c.seq >= one.seq).group_by(named)
        stored = stored if end is None else stored.where(tables.event.c.seq < end)
        for name, count in connection.execute(stored):
            if name != one.digest:
                yield f"{count:,} events belong to a plan of digest {name}, not to {one.digest}"


def _check_tasks(log: StudyLog, connection: sa.Connection) -> Iterable[str]:
    payloads = connection.execute(tables.PAYLOADS).scalars().all()
    versions = _read_versions(connection)
    # The study row has no number of tasks; the first amendment tells how many there were before.
    counts = [one.tasks for one in versions[1:]]
    changes = [one for amendment in log.now.history.amendments[:1] for one in amendment.changes]
    first = next((one["from"] for one in changes if one["key"] == "tasks"), counts[0] if counts else len(payloads))
    for one, count in zip(versions, [first, *counts], strict=True):
        if compute_tasks_digest(payloads[:count]) != one.tasks_digest:
            yield f"the {len(payloads[:count]):,} tasks are not those that the study had {one.since}"
    if counts and len(payloads) != counts[-1]:
        yield f"there are {len(payloads):,} tasks, and the last amendment says {counts[-1]:,}"


def _check_numbers(log: StudyLog, connection: sa.Connection) -> Iterable[str]:
    """Check that the events of a rater are numbered 1, 2, …, and that the rater's row has the last number."""
    last = dict(connection.execute(sa.select(tables.rater.c.number, tables.rater.c.events)).all())
    numbers = connection.execute(sa.select(tables.event.c.rater, tables.event.c.n)).all()
    by_rater: dict[int, set[int]] = {number: set() for number in last}
    for rater, n in numbers:
        by_rater.setdefault(rater, set()).add(n)
    for rater, stored in sorted(by_rater.items()):
        name = get_rater_name(rater)
        if rater not in last:
            yield f"{name}: has {len(stored):,} events, and is no rater of the study"
            continue
        missing = sorted(set(range(1, last[rater] + 1)) - stored)
        if missing:
            yield f"{name}: event {_format_few(missing)} of {last[rater]:,} is missing"
        extra = sorted(n for n in stored if n > last[rater])
        if extra:
            yield f"{name}: event {_format_few(extra)} is there, and the rater's row counts {last[rater]:,} events"


def _check_references(log: StudyLog, connection: sa.Connection) -> Iterable[str]:
    """Check that events and slots refer to existing tasks, and answers to opened pages."""
    tasks = set(connection.execute(sa.select(tables.task.c.id)).scalars())
    opened = set()
    for row in connection.execute(sa.select(tables.event).order_by(tables.event.c.seq)):
        event = to_event(row)
        if event.task is not None and event.task not in tasks:
            yield f"event {event.seq} of {event.rater}: task {event.task!r} does not exist"
        elif event.kind == "opened":
            opened.add((event.rater, event.task, event.body["purpose"]))
        elif event.kind == "answered" and (event.rater, event.task, event.body["purpose"]) not in opened:
            yield f"event {event.seq} of {event.rater}: answers task {event.task!r}, which was not opened before"


def _check_slots(log: StudyLog, connection: sa.Connection) -> Iterable[str]:
    work = connection.execute(sa.select(tables.task.c.id).where(tables.task.c.gold == 0)).scalars()
    events = map(to_event, connection.execute(sa.select(tables.event).order_by(tables.event.c.seq)))
    expected = compute_slots(log.plan(), list(work), events)
    stored = {(row.task, row.place): to_slot(row) for row in connection.execute(sa.select(tables.slot))}
    for key in sorted(expected.keys() | stored.keys()):
        if expected.get(key) != stored.get(key):
            is_now, should_be = (slots.get(key, "missing") for slots in (stored, expected))
            yield f"place {key[1]} of task {key[0]!r}: is {is_now}, and the log says {should_be}"


def _format_few(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:LISTED]))
    return shown if len(numbers) <= LISTED else f"{shown}, …"


EXAMINATIONS: tuple[tuple[str, Examine], ...] = (
    ("file", _check_file),
    ("triggers", _check_triggers),
    ("plan", _check_plan),
    ("tasks", _check_tasks),
    ("numbers of events", _check_numbers),
    ("tasks of events", _check_references),
    ("slots as the log says", _check_slots),
)


def back_up(log: StudyLog, path: str | Path, overwrite: bool = False) -> int:
    """Make a copy of a study's database while raters continue: an SQLite file, or a script of ``pg_dump``.

    Returns the size of the copy in bytes.
    """
    refuse_existing(path, overwrite)
    with write_atomically(path, PRIVATE) as draft:
        if log.database.sqlite:
            _copy_sqlite(log, draft)
        else:
            _dump_postgresql(log, draft)
    return Path(path).stat().st_size


def _copy_sqlite(log: StudyLog, draft: Path) -> None:
    target = sqlite3.connect(draft)
    with log.database.raw() as source:
        source.backup(target)
    target.execute("PRAGMA journal_mode=DELETE")  # one file, without a WAL journal
    target.close()


def _dump_postgresql(log: StudyLog, draft: Path) -> None:
    program = shutil.which("pg_dump")
    if program is None:
        raise InputError("pg_dump is not installed, which copies a PostgreSQL database; it comes with PostgreSQL")
    url = log.database.url
    # The password is passed in the environment, because all users of the machine can see arguments.
    environment = {**os.environ, **({"PGPASSWORD": str(url.password)} if url.password else {})}
    address = url.set(drivername="postgresql", password=None).render_as_string()
    command = [program, "--no-owner", "--file", str(draft), "--dbname", address]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InputError(f"pg_dump failed: {' '.join(done.stderr.split())[:300]}")
