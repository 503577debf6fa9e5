"""The log of a study: an append-only table of events in SQLite or PostgreSQL, and the slots that follow from it.

Every change is one transaction: an event is stored together with the slot that it changes, or neither is.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_type_hints

from captious.errors import InputError, UnknownKey, require
from captious.studio import slots as assignment
from captious.studio.events import Answered, Event, EventName, Page, Purpose, Rater, Recorded, Slot, answers_of
from captious.studio.plan import Plan
from captious.studio.schema import (
    MIGRATIONS,
    WRITERS,
    engine_of,
    event,
    identity,
    migrate,
    reachable,
    slot,
    study,
    url_of,
    version_of,
    write_ahead,
)
from captious.studio.schema import (
    rater as rater_table,
)
from captious.studio.schema import (
    task as task_table,
)
from captious.studio.slots import Opened, Progress
from captious.studio.tasks import Task

if TYPE_CHECKING:
    import sqlalchemy as sa
else:
    sa = require("sqlalchemy", "studio")

T = TypeVar("T")
NothingToDo = Literal["finished", "full", "wait"]
PERSON = {"prolific": "PROLIFIC_PID", "mturk": "workerId"}
"""The parameter that names the person, of those that a platform sends."""
CHUNK = 2000
KEY = re.compile(r"[!-~]{1,200}")
SERVER = {"late", "place"}
"""What the log adds to the body of an answer."""
_locks: dict[str, threading.Lock] = {}
_LOCKS = threading.Lock()


def database_of(plan: Plan, db: str | None = None) -> str:
    """Where the answers of a plan are kept: the database that is named, else a file beside the plan's own.

    >>> database_of(Plan(Path("studies/dogs.toml"), "Dogs", "ratings"))
    'studies/dogs.db'
    """
    return db or str(plan.path.with_suffix(".db"))


def open_log(plan: Plan, db: str | None = None) -> Log:
    """The log of a study that has begun, with the plan that it began with."""
    log = Log.open(database_of(plan, db))
    if not log.begun:
        raise InputError(f"{log.name}: holds no study yet; serve the plan {plan.path} first")
    log.check(plan)
    return log


class Log:
    """The events of one study. Several processes may open the same database; each has its own `Log`."""

    def __init__(self, url: sa.URL) -> None:
        self.url = url
        self.engine = engine_of(url)
        self._sqlite = url.get_backend_name() == "sqlite"
        self.name = str(url.database) if self._sqlite else url.render_as_string(hide_password=True)
        self._path: Path | None = None
        self._progress: dict[str, Progress] = {}
        self._tasks: dict[str, Task] = {}
        self._folding = threading.Lock()
        with _LOCKS:
            key = str(Path(self.name).resolve()) if self._sqlite else self.name
            self._writer = _locks.setdefault(key, threading.Lock())

    @classmethod
    def open(cls, database: str | Path) -> Log:
        """The log in a database: a path, ``sqlite:///…`` or ``postgresql://…``. Nothing is made before `begin`."""
        log = cls(url_of(database))
        if log._absent:
            return log
        with log._reading() as connection:
            version = version_of(connection)
        if version > len(MIGRATIONS):
            raise InputError(
                f"{log.name}: was written by a newer captious (version {version} of its tables, this one knows "
                f"{len(MIGRATIONS)}); install that one"
            )
        if 0 < version < len(MIGRATIONS):
            log._write(migrate)
        return log

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    # The study

    @property
    def begun(self) -> bool:
        """Whether the database holds a study."""
        if self._absent:
            return False
        with self._reading() as connection:
            return version_of(connection) > 0 and connection.execute(sa.select(study.c.digest)).first() is not None

    @property
    def _absent(self) -> bool:
        return self._sqlite and not Path(self.name).exists()

    def begin(self, plan: Plan, tasks: Sequence[Task]) -> None:
        """Freeze the plan and its tasks in the database, or check that the same plan is there already."""
        if self._sqlite:
            with reachable(self.url):
                write_ahead(self.engine)

        def freeze(connection: sa.Connection) -> bool:
            if not self._sqlite:  # two servers that begin at once
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(WRITERS)))
            if version_of(connection) == 0:
                migrate(connection)
            if connection.execute(sa.select(study.c.digest)).first() is not None:
                return False
            _insert_study(connection, plan, tasks)
            return True

        if not self._write(freeze):
            self.check(plan)
        self._path = plan.path

    def check(self, plan: Plan) -> None:
        """Refuse a plan that is not the one that the study began with."""
        if plan_digest(plan) != self.digest:
            raise InputError(
                f"{plan.path}: was edited after the study began; put the file back as it was ({self.name} keeps its "
                "text), or start a new study under another name"
            )
        self._path = plan.path

    @cached_property
    def digest(self) -> str:
        """Of the plan's text; every event has it."""
        with self._reading() as connection:
            return str(connection.execute(sa.select(study.c.digest)).scalar_one())

    def plan(self) -> Plan:
        """The plan as it was when the study began."""
        plan = self._plan
        return plan if self._path is None else Plan(**{**_shallow(plan), "path": self._path})

    @cached_property
    def _plan(self) -> Plan:
        with self._reading() as connection:
            row = connection.execute(sa.select(study.c.plan, study.c.toml, study.c.digest)).one()
        return _plan_from_json(json.loads(row.plan), row.toml, row.digest)

    def tasks(self) -> dict[str, Task]:
        """All tasks by id, in the order in which they are given out; those of gold are at the end."""
        with self._reading() as connection:
            rows = connection.execute(sa.select(task_table.c.id, task_table.c.payload).order_by(task_table.c.position))
            for id, payload in rows:
                if id not in self._tasks:
                    self._tasks[id] = Task.from_dict(json.loads(payload))
                self._tasks[id] = self._tasks.pop(id)
        return dict(self._tasks)

    def task(self, id: str) -> Task | None:
        """The task of an id."""
        if id not in self._tasks:
            with self._reading() as connection:
                query = sa.select(task_table.c.payload).where(task_table.c.id == id)
                payload = connection.execute(query).scalar()
            if payload is None:
                return None
            self._tasks[id] = Task.from_dict(json.loads(payload))
        return self._tasks[id]

    @cached_property
    def _gold(self) -> list[str]:
        with self._reading() as connection:
            query = sa.select(task_table.c.id).where(task_table.c.gold == 1).order_by(task_table.c.position)
            return list(connection.execute(query).scalars())

    @cached_property
    def _work(self) -> int:
        """The number of tasks that are not gold."""
        with self._reading() as connection:
            query = sa.select(sa.func.count()).select_from(task_table).where(task_table.c.gold == 0)
            return int(connection.execute(query).scalar_one())

    # Raters

    def add_raters(self, hashes: Sequence[str], names: Sequence[str] | None = None) -> list[Rater]:
        """One rater for each hash of a token; a hash that is known gives the rater who has it."""

        def add(connection: sa.Connection) -> list[int]:
            numbers = [_rater_of_token(connection, hash) or _new_rater(connection, hash) for hash in hashes]
            for number, name in zip(numbers, names or (), strict=False):
                _identify(connection, number, "name", f"{name} ({number})", {"name": name})
            return numbers

        return [self._rater(f"r{number}") for number in self._write(add)]

    def rater_by_token(self, hash: str) -> Rater | None:
        """The rater whose token has this hash."""
        with self._reading() as connection:
            number = _rater_of_token(connection, hash)
        return None if number is None else self._rater(f"r{number}")

    def rater_by_identity(self, source: str, identity: Mapping[str, str]) -> Rater:
        """The rater who has this identity on a platform; a new one where nobody has it."""
        person = identity.get(PERSON.get(source, "")) or json.dumps(dict(identity), sort_keys=True)

        def find(connection: sa.Connection) -> int:
            number = _rater_of_person(connection, source, person)
            if number is None:
                number = _new_rater(connection, None)
                _identify(connection, number, source, person, identity)
            return number

        with self._reading() as connection:
            number = _rater_of_person(connection, source, person)
        return self._rater(f"r{self._write(find) if number is None else number}")

    def forget(self, rater: str) -> None:
        """Erase who a rater is. The answers stay, under the pseudonym."""
        number = _number(rater)
        self._write(lambda connection: connection.execute(identity.delete().where(identity.c.rater == number)))

    def identities(self) -> dict[str, dict[str, str]]:
        """What is known of who the raters are, for those whose platform or owner said so."""
        with self._reading() as connection:
            rows = connection.execute(sa.select(identity.c.rater, identity.c.body).order_by(identity.c.rater))
            return {f"r{number}": json.loads(body) for number, body in rows}

    def raters(self) -> list[Rater]:
        """All raters, in the order in which they were added."""
        with self._reading() as connection:
            numbers = connection.execute(sa.select(rater_table.c.number).order_by(rater_table.c.number)).scalars().all()
            for number in numbers:
                self._read_progress(connection, f"r{number}")
        return [self._rater_of(f"r{number}") for number in numbers]

    def rater(self, id: str) -> Rater:
        """The rater of an id; refused where there is none."""
        with self._reading() as connection:
            query = sa.select(rater_table.c.number).where(rater_table.c.number == _number(id))
            if connection.execute(query).first() is None:
                raise UnknownKey(f"there is no rater {id!r} in {self.name}")
        return self._rater(id)

    def _rater(self, id: str) -> Rater:
        with self._reading() as connection:
            self._read_progress(connection, id)
        return self._rater_of(id)

    def _rater_of(self, id: str) -> Rater:
        progress = self._progress[id]
        return Rater(id, progress.excluded, progress.consented, progress.finished)

    # Pages

    def next_page(self, rater: str, now: datetime | None = None) -> Page | None:
        """The page that a rater has open, else the next one; None where there is nothing to do now.

        A new page takes a slot for the time of the lease. Slots whose lease has ended count as free.
        """
        at = _utc(now)
        return self._write(lambda connection: self._open_next(connection, rater, at))

    def _open_next(self, connection: sa.Connection, rater: str, at: datetime) -> Page | None:
        progress = self._lock(connection, rater)
        if progress.excluded or progress.finished:
            return None
        current = progress.current
        if current is not None and self._still_open(connection, rater, current, at):
            return self._page(current, sum(progress.done.values()))
        for purpose, task in assignment.due(self._plan, progress, self._work, self._gold, rater):
            place = None
            if purpose == "work":
                free = connection.execute(self._next_slot(rater, at)).first()
                if free is None:
                    continue
                task, place = free.task, free.place
            order = self._order(task, purpose, rater)
            opened = Opened(task, purpose, order, place, at)
            self._store_opened(connection, rater, opened, at)
            return self._page(opened, sum(progress.done.values()))
        return None

    def _still_open(self, connection: sa.Connection, rater: str, page: Opened, at: datetime) -> bool:
        """Whether the rater may go on with an open page; a lease that has ended begins again."""
        if page.place is None:
            return True
        query = sa.select(slot).where(slot.c.task == page.task, slot.c.place == page.place)
        row = connection.execute(query.with_for_update()).one()
        if row.rater != _number(rater) or row.done:
            return False
        if assignment.expired(_time(row.lease), at, self._plan.lease):
            self._store_opened(connection, rater, page, at)
        return True

    def _store_opened(self, connection: sa.Connection, rater: str, page: Opened, at: datetime) -> None:
        if page.place is not None:
            lease = at + timedelta(seconds=self._plan.lease)
            _set_slot(connection, Slot(page.task, page.place, rater, lease))
        body = {"purpose": page.purpose, "order": list(page.order), "place": page.place}
        self._insert(connection, rater, "opened", secrets.token_hex(16), page.task, body, at)

    def _next_slot(self, rater: str, at: datetime) -> sa.Select[Any]:
        """The free slot with the fewest answers before it, of a task that the rater has never opened."""
        had = sa.exists().where(event.c.rater == _number(rater), event.c.task == slot.c.task)
        far = _stamp(at + timedelta(seconds=self._plan.lease) + assignment.FAR)
        free = sa.or_(slot.c.lease.is_(None), slot.c.lease <= _stamp(at), slot.c.lease > far)
        query = sa.select(slot.c.task, slot.c.place).where(slot.c.done == 0, free, ~had)
        return query.order_by(slot.c.place, slot.c.position).limit(1).with_for_update(of=slot, skip_locked=True)

    def _order(self, id: str, purpose: Purpose, rater: str) -> tuple[str, ...]:
        task = self.task(id)
        assert task is not None
        rng = assignment.generator(self._plan.seed, f"order/{rater}/{id}/{purpose}")
        shown = task.things or tuple(choice.id for choice in task.choices)
        return tuple(shown[index] for index in rng.permutation(len(shown)))

    def page_of(self, rater: str, task: str, purpose: Purpose = "work") -> Page | None:
        """A page that the rater has opened before, with the answer; None where the rater has not."""
        with self._reading() as connection:
            progress = self._read_progress(connection, rater)
        before = 0
        for key, opened in progress.pages.items():
            if key == (task, purpose):
                return self._page(opened, before)
            before += opened.counts
        return None

    def history(self, rater: str) -> list[tuple[str, Purpose]]:
        """Task and purpose of every page that the rater has answered or has open, in order."""
        with self._reading() as connection:
            progress = self._read_progress(connection, rater)
        return [key for key, page in progress.pages.items() if page.counts or page is progress.current]

    def _page(self, opened: Opened, before: int) -> Page:
        """What the rater sees of an opened task; ``before`` are the pages that the rater has done before it."""
        task = self.task(opened.task)
        assert task is not None
        total = assignment.total_pages(self._plan, self._work, len(self._gold))
        answer = None if opened.answer is None else opened.answer.body["answer"]
        return Page(task, opened.purpose, opened.order, before + 1, max(total, before + 1), answer)

    def why_none(self, rater: str, now: datetime | None = None) -> NothingToDo:
        """Why a rater has nothing to do: the work is done, nothing was left from the start, or others have it open."""
        with self._reading() as connection:
            progress = self._read_progress(connection, rater)
            asked = assignment.wanted(self._plan, self._work)
            if progress.excluded or progress.finished or progress.done["work"] >= asked:
                return "finished"
            had = sa.exists().where(event.c.rater == _number(rater), event.c.task == slot.c.task)
            if connection.execute(sa.select(slot.c.task).where(slot.c.done == 0, ~had).limit(1)).first():
                return "wait"
        return "finished" if progress.done["work"] else "full"

    # Events

    def record(
        self,
        rater: str,
        kind: EventName,
        key: str,
        task: str | None = None,
        body: Mapping[str, Any] | None = None,
        now: datetime | None = None,
    ) -> Recorded:
        """Store what a rater did. The same key stores once; with another body, both are stored and the last counts."""
        if not KEY.fullmatch(key):
            raise InputError(f"key {key[:40]!r}: expected up to 200 letters, digits and signs")
        body = dict(body or {})
        if kind == "answered":
            body.setdefault("purpose", "work")
        at = _utc(now)
        return self._write(lambda connection: self._record(connection, rater, kind, key, task, body, at))

    def _record(
        self,
        connection: sa.Connection,
        rater: str,
        kind: EventName,
        key: str,
        task: str | None,
        body: dict[str, Any],
        at: datetime,
    ) -> Recorded:
        progress = self._lock(connection, rater)
        name = key
        while stored := connection.execute(sa.select(event).where(event.c.key == name)).first():
            before = json.loads(stored.body)
            if _same(rater, kind, task, body) == _same(f"r{stored.rater}", stored.kind, stored.task, before):
                return Recorded(stored.seq, False, before.get("late", False))
            name = f"{name}~{_same(rater, kind, task, body)}"
        if kind == "answered":
            body |= self._fill_slot(connection, progress, rater, task, body["purpose"], at)
        elif kind in assignment.FREEING:
            self._free_slots(connection, rater, task, all=kind == "excluded")
        seq = self._insert(connection, rater, kind, name, task, body, at)
        return Recorded(seq, True, body.get("late", False))

    def _fill_slot(
        self,
        connection: sa.Connection,
        progress: Progress,
        rater: str,
        task: str | None,
        purpose: Purpose,
        at: datetime,
    ) -> dict[str, Any]:
        """Mark the slot of an answer as done; gives the place of the answer, and whether it came too late for one."""
        if task is None or (task, purpose) not in progress.pages:
            raise InputError(f"rater {rater} has not opened task {task!r} ({purpose}), so it cannot be answered")
        if purpose != "work" or progress.excluded:
            return {"place": None, "late": False}
        place = assignment.place_of_answer(_slots_of(connection, task), rater, at, self._plan.lease)
        if place is not None:
            _set_slot(connection, Slot(task, place, rater, done=True))
        return {"place": place, "late": place is None}

    def _free_slots(self, connection: sa.Connection, rater: str, task: str | None, all: bool = False) -> None:
        update = slot.update().where(slot.c.rater == _number(rater)).values(rater=None, lease=None, done=0)
        if task is not None:
            update = update.where(slot.c.task == task)
        connection.execute(update if all else update.where(slot.c.done == 0))

    def exclude(self, rater: str, reason: str, now: datetime | None = None) -> Recorded:
        """Leave a rater out: the answers stay in the log, and their slots become free for others."""
        return self._record_owner(rater, "excluded", {"reason": reason}, now)

    def reinstate(self, rater: str, reason: str, now: datetime | None = None) -> Recorded:
        """Take an excluded rater back; answers fill those of their slots that are still free."""
        return self._record_owner(rater, "reinstated", {"reason": reason}, now)

    def release(self, rater: str, reason: str, now: datetime | None = None) -> Recorded:
        """Free what a rater has open, without waiting for the end of the lease."""
        return self._record_owner(rater, "released", {"reason": reason}, now)

    def _record_owner(self, rater: str, kind: EventName, body: dict[str, Any], now: datetime | None) -> Recorded:
        at = _utc(now)

        def write(connection: sa.Connection) -> Recorded:
            progress = self._lock(connection, rater)
            if kind == "excluded" and progress.excluded:
                raise InputError(f"rater {rater} is excluded already")
            if kind == "reinstated" and not progress.excluded:
                raise InputError(f"rater {rater} is not excluded")
            if kind == "released" and progress.current is None:
                raise InputError(f"rater {rater} has no task open")
            if kind == "reinstated":
                body["places"] = self._take_back(connection, progress, rater, at)
            else:
                self._free_slots(connection, rater, None, all=kind == "excluded")
            return Recorded(self._insert(connection, rater, kind, secrets.token_hex(16), None, body, at), True)

        return self._write(write)

    def _take_back(self, connection: sa.Connection, progress: Progress, rater: str, at: datetime) -> dict[str, int]:
        places = {}
        for page in sorted(progress.pages.values(), key=lambda page: page.task):
            if page.purpose == "work" and page.answer is not None:
                slots = _slots_of(connection, page.task)
                place = assignment.place_of_answer(slots, rater, at, self._plan.lease)
                if place is not None:
                    _set_slot(connection, Slot(page.task, place, rater, done=True))
                    places[page.task] = place
        return places

    def events(self, after: int = 0, rater: str | None = None) -> Iterator[Event]:
        """All events after a number, in the order of arrival."""
        with self._reading() as connection:
            if not self._sqlite:  # wait for writers at work, so that no lower number comes in later
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(WRITERS)))
            last = connection.execute(sa.select(sa.func.max(event.c.seq))).scalar() or 0
        while after < last:
            query = sa.select(event).where(event.c.seq > after, event.c.seq <= last).order_by(event.c.seq).limit(CHUNK)
            if rater is not None:
                query = query.where(event.c.rater == _number(rater))
            with self._reading() as connection:
                rows = connection.execute(query).all()
            yield from map(_event, rows)
            after = rows[-1].seq if rows else last

    def answers(self) -> list[Answered]:
        """The last answer of every rater to every task and purpose, in the order of their first answers."""
        return answers_of(self.events())

    def slots(self) -> list[Slot]:
        """All slots, by task and place."""
        with self._reading() as connection:
            return [_slot(row) for row in connection.execute(sa.select(slot).order_by(slot.c.task, slot.c.place))]

    # Transactions

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with reachable(self.url), self.engine.begin() as connection:
            yield connection

    def _write(self, change: Callable[[sa.Connection], T]) -> T:
        """Run a change in one transaction. SQLite has one writer at a time; threads of a process queue for it here."""
        with reachable(self.url), self._writer if self._sqlite else nullcontext():
            for attempt in range(3):
                try:
                    with self.engine.execution_options(writing=True).begin() as connection:
                        return change(connection)
                except sa.exc.OperationalError as error:
                    if attempt == 2 or getattr(error.orig, "sqlstate", None) not in ("40001", "40P01"):
                        raise
        raise AssertionError("the last attempt returns or raises")

    def _lock(self, connection: sa.Connection, rater: str) -> Progress:
        """Keep other transactions of this rater waiting until the present one ends; gives the rater's progress."""
        if not self._sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(WRITERS)))
        query = sa.select(rater_table.c.number).where(rater_table.c.number == _number(rater)).with_for_update()
        if connection.execute(query).first() is None:
            raise UnknownKey(f"there is no rater {rater!r} in {self.name}")
        return self._read_progress(connection, rater)

    def _read_progress(self, connection: sa.Connection, rater: str) -> Progress:
        """The progress of a rater, with the events that were stored since it was read last."""
        with self._folding:
            progress = self._progress.setdefault(rater, Progress())
        query = sa.select(event).where(event.c.rater == _number(rater), event.c.n > progress.n).order_by(event.c.n)
        rows = connection.execute(query).all()
        with self._folding:
            for row in rows:
                progress.add(_event(row))
        return progress

    def _insert(
        self,
        connection: sa.Connection,
        rater: str,
        kind: EventName,
        key: str,
        task: str | None,
        body: Mapping[str, Any],
        at: datetime,
    ) -> int:
        """Store one event; the rater's transactions are serialized by `_lock`."""
        number = _number(rater)
        count = rater_table.update().where(rater_table.c.number == number).values(events=rater_table.c.events + 1)
        n = connection.execute(count.returning(rater_table.c.events)).scalar_one()
        values = {"key": key, "at": _stamp(at), "study": self.digest, "rater": number, "n": n, "task": task}
        statement = event.insert().values(**values, kind=kind, body=_dump(body)).returning(event.c.seq)
        return int(connection.execute(statement).scalar_one())


def plan_digest(plan: Plan) -> str:
    """The digest of a plan: that of its text; of its values where it was made without a text."""
    return plan.digest or hashlib.sha256(_dump(_plan_to_json(plan)).encode()).hexdigest()


def tasks_digest(payloads: Sequence[str]) -> str:
    """Of the tasks as the database has them, in their order."""
    return hashlib.sha256("\n".join(payloads).encode()).hexdigest()


def _insert_study(connection: sa.Connection, plan: Plan, tasks: Sequence[Task]) -> None:
    for id, count in Counter(task.id for task in tasks).items():
        if count > 1 or "\0" in id:
            raise InputError(f"{plan.path}: task {id!r} {'is there twice' if count > 1 else 'has a null character'}")
    work = [task for task in tasks if task.gold is None]
    order = assignment.generator(plan.seed, "tasks").permutation(len(work))
    ordered = [work[index] for index in order] + [task for task in tasks if task.gold is not None]
    rows = [
        {"id": task.id, "position": position, "gold": int(task.gold is not None), "payload": _dump(task.to_dict())}
        for position, task in enumerate(ordered)
    ]
    if rows:
        connection.execute(task_table.insert(), rows)
    for place in range(plan.overlap):
        values = sa.select(task_table.c.id, sa.literal(place), task_table.c.position).where(task_table.c.gold == 0)
        connection.execute(slot.insert().from_select(["task", "place", "position"], values))
    connection.execute(
        study.insert().values(
            digest=plan_digest(plan),
            tasks_digest=tasks_digest([row["payload"] for row in rows]),
            begun=_stamp(_utc(None)),
            toml=plan.text,
            plan=_dump(_plan_to_json(plan)),
        )
    )


def _plan_to_json(plan: Plan) -> dict[str, Any]:
    data = asdict(plan)
    return {**data, "path": str(plan.path), "text": "", "digest": ""}


def _plan_from_json(data: dict[str, Any], text: str, digest: str) -> Plan:
    plan: Plan = _value(Plan, data)
    return Plan(**{**_shallow(plan), "text": text, "digest": digest})


def _shallow(plan: Plan) -> dict[str, Any]:
    return {field.name: getattr(plan, field.name) for field in fields(plan)}


def _value(kind: Any, data: Any) -> Any:
    """A value of a type, from what JSON made of it."""
    if is_dataclass(kind) and isinstance(data, dict):
        types = get_type_hints(kind)
        return kind(**{name: _value(types[name], value) for name, value in data.items() if name in types})  # type: ignore[operator]
    if isinstance(data, list):
        return tuple(_value(get_args(kind)[0], item) for item in data)
    return Path(data) if kind is Path else data


def _rater_of_token(connection: sa.Connection, hash: str) -> int | None:
    return connection.execute(sa.select(rater_table.c.number).where(rater_table.c.token == hash)).scalar()


def _rater_of_person(connection: sa.Connection, source: str, person: str) -> int | None:
    query = sa.select(identity.c.rater).where(identity.c.source == source, identity.c.person == person)
    return connection.execute(query).scalar()


def _new_rater(connection: sa.Connection, hash: str | None) -> int:
    statement = rater_table.insert().values(token=hash).returning(rater_table.c.number)
    return int(connection.execute(statement).scalar_one())


def _identify(connection: sa.Connection, number: int, source: str, person: str, body: Mapping[str, str]) -> None:
    connection.execute(identity.insert().values(rater=number, source=source, person=person, body=_dump(body)))


def _slots_of(connection: sa.Connection, task: str) -> list[Slot]:
    query = sa.select(slot).where(slot.c.task == task).order_by(slot.c.place).with_for_update()
    return [_slot(row) for row in connection.execute(query)]


def _set_slot(connection: sa.Connection, new: Slot) -> None:
    values = {
        "rater": None if new.rater is None else _number(new.rater),
        "lease": None if new.lease is None else _stamp(new.lease),
        "done": int(new.done),
    }
    connection.execute(slot.update().where(slot.c.task == new.task, slot.c.place == new.place).values(**values))


def _slot(row: Any) -> Slot:
    rater = None if row.rater is None else f"r{row.rater}"
    return Slot(row.task, row.place, rater, None if row.lease is None else _time(row.lease), bool(row.done))


def _event(row: Any) -> Event:
    return Event(row.seq, row.key, _time(row.at), f"r{row.rater}", row.n, row.kind, row.task, json.loads(row.body))


def _same(rater: str, kind: str, task: str | None, body: Mapping[str, Any]) -> str:
    """Equal for events that say the same; the time a page took may differ between a click and its repetition."""
    said = {name: value for name, value in body.items() if name not in SERVER | {"seconds"}}
    return hashlib.sha256(_dump([rater, kind, task, said]).encode()).hexdigest()[:16]


def _number(rater: str) -> int:
    number = rater[1:]
    if not rater.startswith("r") or not number.isascii() or not number.isdigit() or len(number) > 18:
        raise UnknownKey(f"there is no rater {rater!r}; raters are r1, r2, …")
    return int(number)


def _dump(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _utc(now: datetime | None) -> datetime:
    return (now or datetime.now(timezone.utc)).astimezone(timezone.utc)


def _stamp(at: datetime) -> str:
    """A time whose texts sort as the times do."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _time(stamp: str) -> datetime:
    return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
