"""The log of a study: an append-only table of events in SQLite or PostgreSQL, and the slots computed from it.

Every change is one transaction: an event is stored together with the slot that it changes, or neither is. A task has a
slot for each answer of the plan's overlap::

    task t1    slot 0    r1, done                    the event "answered" of r1
               slot 1    r2, leased until 10:40      the event "opened" of r2; free again after 10:40
               slot 2    free

A page is an opened task as its rater sees it. These methods return one::

    next_page     _reload_page    the open page, if nothing has to be stored
                  _take_page      in a write transaction: the open page, if its slot is still leased (`_is_kept`),
                                  else a due task in a free slot (`_open_task`)
    find_page, find_task_page     a page that was opened before, by the name in its URL, or by its task
                  _make_page      called by all of them: the task, the order of its captions, the answer so far
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from captious._core.records import from_json
from captious.errors import InputError, UnknownKey, require
from captious.studio.collect import _database_tables as tables
from captious.studio.collect._database import Database
from captious.studio.collect._database_tables import (
    MIGRATIONS,
    compute_plan_digest,
    dump,
    format_time,
    get_rater_name,
    get_rater_number,
    load_plan,
    migrate,
    read_version,
    set_slot,
    store_study,
    to_event,
    to_slot,
    to_utc,
)
from captious.studio.collect._events import (
    FAR,
    FREEING,
    OWNER,
    Answered,
    Event,
    EventName,
    Opened,
    Page,
    Purpose,
    Rater,
    RaterHistory,
    Recorded,
    Slot,
    StudyHistory,
    collect_answers,
    count_pages,
    count_work,
    extend_lease,
    find_answer_place,
    is_expired,
    list_due_tasks,
    make_generator,
)
from captious.studio.collect._texts import refuse_unwritten
from captious.studio.collect.kinds import kind_of
from captious.studio.collect.rating_tasks import Task, build_tasks, is_practice
from captious.studio.collect.study_plan import Plan, read_plan

if TYPE_CHECKING:
    import sqlalchemy as sa
else:
    sa = require("sqlalchemy", "studio")

NothingToDo = Literal["excluded", "finished", "full", "paused", "wait"]
# Events per query.
CHUNK = 2000
KEY = re.compile(r"[!-~]{1,200}")
# Keys that the log adds to the body of an answer.
ADDED = {"late", "place"}


def find_database(path: Path, db: str | None = None) -> str:
    """Return the address of a study's database: `db`, or a file next to the study's own.

    >>> find_database(Path("studies/dogs.toml"))
    'studies/dogs.db'
    """
    return db or str(path.with_suffix(".db"))


def open_log(path: Path, db: str | None = None) -> StudyLog:
    """Open the log of a study that has begun. Only the database is read: the TOML file may be edited or missing."""
    log = StudyLog.open(find_database(path, db))
    with log.close_on_error():
        if not log.begun:
            read_plan(path)  # raises if the file is missing or invalid
            raise InputError(f"{log.name}: contains no study yet; serve {path} first")
    log.path = path
    return log


def open_study(path: Path, db: str | None = None) -> tuple[Plan, StudyLog]:
    """Open a study with its database. The first time, the plan and its tasks are stored there and frozen."""
    plan = read_plan(path)
    log = StudyLog.open(find_database(path, db))
    with log.close_on_error():
        if log.begun:
            log.check(plan)
        else:
            refuse_unwritten(plan)
            log.begin(plan, build_tasks(plan))
        return log.plan(), log


class StudyNow:
    """Current state of a study: the plan in force with all amendments, and the owner's events."""

    def __init__(self, database: Database, plan: Plan, history: StudyHistory) -> None:
        self.database, self.plan, self.history = database, plan, history
        self.lease = timedelta(seconds=plan.lease)
        # Whether raters come without a personal link. Others may then take the slot of one who has not answered.
        self.anyone_may_enter = not plan.has_personal_links

    @cached_property
    def gold(self) -> list[str]:
        """The ids of gold and practice tasks."""
        query = sa.select(tables.task.c.id).where(tables.task.c.gold == 1).order_by(tables.task.c.position)
        with self.database.reading() as connection:
            return list(connection.execute(query).scalars())

    @cached_property
    def work(self) -> int:
        """The number of tasks that are not gold."""
        query = sa.select(sa.func.count()).select_from(tables.task).where(tables.task.c.gold == 0)
        with self.database.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def is_done(self, history: RaterHistory) -> bool:
        """Return True if a rater has finished.

        In a study with personal links and without a completion code, an amendment with more work reopens it.
        """
        if not history.finished or self.anyone_may_enter or not history.finished_at or self.plan.source.done:
            return history.finished
        return history.finished_at > self.history.widened


class StudyLog:
    """The events of one study. Several processes may open the same database; each has its own `StudyLog`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.name = database.name
        # The file of the study, if it is known: names of other files are relative to its folder.
        self.path: Path | None = None
        self._now: StudyNow | None = None
        self._tasks: dict[str, Task] = {}
        self._counted_strata: Counter[str] = Counter()
        # Cache of raters by the hash of their token, which never changes.
        self._holders: dict[str, int] = {}
        self._histories: dict[str, RaterHistory] = {}
        # The last event that `_read_histories` has read.
        self._last = 0
        self._state_lock = threading.Lock()

    @classmethod
    def open(cls, database: str | Path) -> StudyLog:
        """Open the log in a database: a path, ``sqlite:///…`` or ``postgresql://…``. `begin` creates the tables."""
        log = cls(Database(database))
        with log.close_on_error():
            version = log._read_version()
            if version > len(MIGRATIONS):
                raise InputError(
                    f"{log.name}: was written by a newer captious (version {version} of its tables; this one knows "
                    f"{len(MIGRATIONS)}); install a newer one"
                )
            if 0 < version < len(MIGRATIONS):
                log.database.write(migrate)
        return log

    def close(self) -> None:
        """Close all connections."""
        self.database.engine.dispose()

    @contextmanager
    def close_on_error(self) -> Iterator[None]:
        """Close all connections if the block raises, so that SQLite removes its WAL files."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _read_version(self) -> int:
        if self.database.absent:
            return 0
        with self.database.reading() as connection:
            return read_version(connection)

    # The study: frozen when it begins

    @property
    def begun(self) -> bool:
        """Whether the database contains a study."""
        if self._read_version() == 0:
            return False
        with self.database.reading() as connection:
            return connection.execute(sa.select(tables.study.c.digest)).first() is not None

    def begin(self, plan: Plan, tasks: Sequence[Task]) -> None:
        """Store and freeze the plan and its tasks, or check that the same plan is stored."""
        self.database.make()

        def start(connection: sa.Connection) -> None:
            if not self.database.sqlite:  # two servers may begin at once
                connection.execute(tables.STOP_WRITING)
            if read_version(connection) == 0:
                migrate(connection)
            if connection.execute(sa.select(tables.study.c.digest)).first() is None:
                store_study(connection, plan, tasks, to_utc(None))

        self.database.write(start)
        self.check(plan)

    def check(self, plan: Plan) -> None:
        """Raise `InputError` if a plan is not the one of the study."""
        if compute_plan_digest(plan) != self.digest:
            raise InputError(
                f'{plan.path}: was edited after the study began; run captious studio amend {plan.path} --why "…" to '
                f"amend the study, or captious studio show {plan.path} --original > {plan.path} to get its text back"
            )
        self.path = plan.path

    @property
    def digest(self) -> str:
        """The digest of the plan in force; every event stores the digest of its time."""
        return self.now.plan.digest

    def plan(self) -> Plan:
        """Return the plan in force: the original with all amendments."""
        plan = self.now.plan
        if self.path is not None and plan.path != self.path:
            plan = self.now.plan = replace(plan, path=self.path)
        return plan

    @property
    def now(self) -> StudyNow:
        """The state of the study as this process last read it; every transaction of a rater updates it."""
        if self._now is None:
            self._now = self._read_study()
        return self._now

    def _read_study(self) -> StudyNow:
        with self.database.reading() as connection:
            row = connection.execute(sa.select(tables.study)).one()
            stored = connection.execute(tables.EVENTS_OF_OWNER, {"of_owner": 0}).all()
        try:
            plan = load_plan(json.loads(row.plan), row.toml, row.digest, row.digest)
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{self.name}: the plan is damaged in the database") from None
        return self._apply_events(StudyNow(self.database, plan, StudyHistory()), stored)

    def _apply_events(self, now: StudyNow, stored: Sequence[Any]) -> StudyNow:
        """Return the state with more events of the owner."""
        history, plan = now.history, now.plan
        for row in stored:
            history = history.with_event(to_event(row))
        if history.n == now.history.n:
            return now
        if history.amended is not None and history.amended is not now.history.amended:
            body = history.amended.body
            try:
                plan = load_plan(body["plan"], body["toml"], body["digest"], plan.origin)
            except (ValueError, TypeError, KeyError):
                raise InputError(f"{self.name}: event {history.amended.seq} is damaged in the database") from None
        return StudyNow(self.database, plan, history)

    def read_updates(self) -> StudyNow:
        """Read the owner's new events, perhaps written by another process; return the state."""
        with self.database.reading() as connection:
            return self.read_owner_events(connection)

    def read_owner_events(self, connection: sa.Connection) -> StudyNow:
        """Read the owner's new events inside a transaction; return the state."""
        stored = connection.execute(tables.EVENTS_OF_OWNER, {"of_owner": self.now.history.n}).all()
        with self._state_lock:
            self._now = self._apply_events(self.now, stored)
        return self._now

    @property
    def begun_at(self) -> datetime:
        """The time at which the study began."""
        with self.database.reading() as connection:
            return tables.parse_time(connection.execute(sa.select(tables.study.c.begun)).scalar_one())

    def tasks(self) -> dict[str, Task]:
        """Return all tasks by id, in the order in which they are given out; gold tasks are last."""
        with self.database.reading() as connection:
            stored = connection.execute(
                sa.select(tables.task.c.id, tables.task.c.payload).order_by(tables.task.c.position)
            )
            return {id: self._parse_task(id, payload) for id, payload in stored}

    def task(self, id: str) -> Task | None:
        """Return the task of an id; None if there is none."""
        if id in self._tasks:
            return self._tasks[id]
        with self.database.reading() as connection:
            return self._read_task(connection, id)

    def _read_task(self, connection: sa.Connection, id: str) -> Task | None:
        if id not in self._tasks:
            payload = connection.execute(tables.PAYLOAD, {"id": id}).scalar()
            return None if payload is None else self._parse_task(id, payload)
        return self._tasks[id]

    def _parse_task(self, id: str, payload: str) -> Task:
        if id not in self._tasks:
            try:
                self._tasks[id] = from_json(Task, json.loads(payload))
            except (ValueError, TypeError, KeyError):
                raise InputError(f"{self.name}: task {id!r} is damaged in the database") from None
        return self._tasks[id]

    # Raters

    def add_raters(self, hashes: Sequence[str], names: Sequence[str] | None = None) -> list[Rater]:
        """Add a rater for each hash of a token; a known hash returns its rater."""
        numbers = self.database.write(lambda connection: tables.add_raters(connection, hashes, names or ()))
        return [self._read_rater(number) for number in numbers]

    def find_rater_by_token(self, hash: str) -> Rater | None:
        """Return the rater whose token has this hash; None if there is none."""
        number = self._holders.get(hash)
        if number is None:
            with self.database.reading() as connection:
                number = tables.find_rater_by_token(connection, hash)
            if number is None:
                return None
            self._holders[hash] = number
        return self._read_rater(number)

    def find_rater_by_identity(self, panel: str, person: str, parameters: Mapping[str, str]) -> Rater:
        """Return the rater with this id on a panel; add one with all parameters of the visit if there is none."""
        with self.database.reading() as connection:
            number = tables.find_rater_by_identity(connection, panel, person)
        if number is None:
            number = self.database.write(
                lambda connection: tables.find_or_add_rater(connection, panel, person, parameters)
            )
        return self._read_rater(number)

    def begin_visit(self, rater: str, hash: str, identity: Mapping[str, str]) -> None:
        """Store the hash of a new token of a panel's rater, with the panel's parameters."""
        self.database.write(lambda connection: tables.add_session(connection, get_rater_number(rater), hash, identity))

    def find_visit(self, hash: str) -> tuple[Rater, tables.PlatformVisit] | None:
        """Return the visit whose token has this hash, and its rater. It is not cached: a visit may be forgotten."""
        with self.database.reading() as connection:
            visit = tables.find_visit(connection, hash)
            if visit is None:
                return None
            rater = f"r{visit.rater}"
            return self._make_rater(rater, self._read_history(connection, rater)), visit

    def forget(self, rater: str) -> None:
        """Delete the identity of a rater. The answers stay, under the pseudonym; a second visit makes a new rater."""
        self.database.write(lambda connection: tables.forget_rater(connection, get_rater_number(rater)))

    def identities(self) -> dict[str, dict[str, str]]:
        """Return the identities of raters by pseudonym, as far as their panel or the owner gave them."""
        with self.database.reading() as connection:
            return tables.read_identities(connection)

    def raters(self) -> list[Rater]:
        """Return all raters, in the order in which they were added."""
        ids = self.list_rater_ids()
        self._read_histories()
        return [self._make_rater(id, self._histories.get(id, RaterHistory())) for id in ids]

    def list_rater_ids(self) -> list[str]:
        """Return the ids of all raters, without reading their events."""
        with self.database.reading() as connection:
            query = sa.select(tables.rater.c.number).where(tables.rater.c.number > 0).order_by(tables.rater.c.number)
            return [f"r{number}" for number in connection.execute(query).scalars()]

    def _read_rater(self, number: int) -> Rater:
        with self.database.reading() as connection:
            return self._make_rater(f"r{number}", self._read_history(connection, f"r{number}"))

    def _make_rater(self, id: str, history: RaterHistory) -> Rater:
        done = self.now.is_done(history)
        return Rater(
            id, history.excluded, history.consented, done, history.surveyed, history.screened, history.withdrawn
        )

    # Pages

    def next_page(self, rater: str, now: datetime | None = None) -> Page | None:
        """Return the open page of a rater, else the next one; None if there is nothing to do now.

        A new page leases a slot. Slots with an expired lease count as free.
        """
        at = to_utc(now)
        return self._reload_page(rater, at) or self.database.write(
            lambda connection: self._take_page(connection, rater, at)
        )

    def _reload_page(self, rater: str, at: datetime) -> Page | None:
        """Return the open page of a rater if nothing has to be stored. Without the write lock, so a reload never
        blocks.
        """
        with self._state_lock:
            known = self._histories.get(rater)
            if known is None or known.current is None:
                return None
        with self.database.reading() as connection:
            history = self._read_history(connection, rater)
            with self._state_lock:
                page = history.current
            if page is None or self._may_not_work(history):
                return None
            if page.place is not None:
                kept = to_slot(connection.execute(tables.SLOT, {"task": page.task, "place": page.place}).one())
                if kept.rater != rater or kept.lease is None or is_expired(kept.lease, at, self.now.lease):
                    return None
            return self._make_page(connection, history, page)

    def _take_page(self, connection: sa.Connection, rater: str, at: datetime) -> Page | None:
        history = self._lock_rater(connection, rater)
        if self._may_not_work(history):
            return None
        page = history.current
        if page is None or not self._is_kept(connection, rater, page, at):
            page = self._open_task(connection, rater, history, at)
        return None if page is None else self._make_page(connection, history, page)

    def _may_not_work(self, history: RaterHistory) -> bool:
        return history.excluded or self.now.history.paused is not None or self.now.is_done(history)

    def _is_kept(self, connection: sa.Connection, rater: str, page: Opened, at: datetime) -> bool:
        """Return True if the rater may continue an open page. An expired lease is renewed if nobody took the slot."""
        if page.place is None:
            return True
        slot = self._read_slots(connection, page.task)[page.place]
        if slot.rater != rater or slot.lease is None:
            return False
        if is_expired(slot.lease, at, self.now.lease):
            self._store_opened(connection, rater, page, at, secrets.token_hex(16))
        return True

    def _open_task(self, connection: sa.Connection, rater: str, history: RaterHistory, at: datetime) -> Opened | None:
        for purpose, id in list_due_tasks(self.now.plan, history, self.now.work, self.now.gold, rater):
            place = None
            if purpose in ("work", "practice"):  # no practice if nothing is left to do
                times = {"now": format_time(at), "far": format_time(at + self.now.lease + FAR)}
                asked = {"rater": get_rater_number(rater), **times}
                free: Any = self._find_stratum_slot(connection, history, asked) if self.now.plan.stratum else None
                free = free or connection.execute(tables.NEXT_SLOT, asked).first()
                if free is None and self.now.anyone_may_enter:
                    free = connection.execute(tables.NEWCOMERS_SLOT, {"rater": get_rater_number(rater)}).first()
                if free is None:
                    continue
                id, place = free if purpose == "work" else (id, None)
            order = self._draw_order(connection, id, purpose, rater)
            page = Opened(id, purpose, order, place, at, secrets.token_hex(16))
            self._store_opened(connection, rater, page, at, page.name)
            return page
        return None

    def _find_stratum_slot(
        self, connection: sa.Connection, history: RaterHistory, asked: Mapping[str, Any]
    ) -> tuple[str, int] | None:
        """Return a free slot of the stratum that the rater has seen least relative to its size.

        None if there is none, or if another transaction has just taken it.
        """
        slots = [(str(task), int(place)) for task, place in connection.execute(tables.NEXT_SLOTS, asked)]
        with self._state_lock:
            work = [page.task for page in history.pages.values() if page.purpose == "work"]
        seen = Counter(self._find_stratum(connection, task) for task in work)
        first: dict[str, tuple[str, int]] = {}
        for task, place in slots:
            if place == slots[0][1]:  # tasks with the fewest answers first, as without strata
                first.setdefault(self._find_stratum(connection, task), (task, place))
        if not first:
            return None
        task, place = first[min(first, key=lambda name: (seen[name] + 1) / self._strata[name])]
        free = connection.execute(tables.THIS_SLOT, {**asked, "task": task, "place": place}).first()
        return None if free is None else (task, place)

    def _find_stratum(self, connection: sa.Connection, id: str) -> str:
        """Return the stratum of a task's item."""
        task = self._read_task(connection, id)
        return "" if task is None else str(task.fields.get(self.now.plan.stratum))

    @property
    def _strata(self) -> Counter[str]:
        """The number of tasks of every stratum, without gold; recomputed when tasks were added."""
        if self._counted_strata.total() != self.now.work:
            work = [task for task in self.tasks().values() if task.gold is None]
            self._counted_strata = Counter(str(task.fields.get(self.now.plan.stratum)) for task in work)
        return self._counted_strata

    def _draw_order(self, connection: sa.Connection, id: str, purpose: Purpose, rater: str) -> tuple[str, ...]:
        task = self._read_task(connection, id)
        assert task is not None
        rng = make_generator(self.now.plan.seed, f"order/{rater}/{id}/{purpose}")
        return kind_of(self.now.plan).draw_order(self.now.plan, task, rng)

    def _store_opened(self, connection: sa.Connection, rater: str, page: Opened, at: datetime, key: str) -> None:
        if page.place is not None:
            set_slot(connection, Slot(page.task, page.place, rater, at + self.now.lease))
        body = {"purpose": page.purpose, "order": list(page.order), "place": page.place}
        self._insert(connection, rater, "opened", key, page.task, body, at)

    def _make_page(self, connection: sa.Connection, history: RaterHistory, opened: Opened) -> Page:
        """Return an opened task as the rater sees it."""
        task = self._read_task(connection, opened.task)
        assert task is not None
        with self._state_lock:
            pages = history.list_pages_before(opened)
        practice = sum(map(is_practice, self.now.gold))
        number = len(pages) + 1
        total = count_pages(self.now.plan, self.now.work, len(self.now.gold) - practice)
        total = practice if opened.purpose == "practice" else total
        body = self._read_body(connection, opened.answer)
        answer, comment = body.get("answer"), body.get("comment", "")
        previous = pages[-1].name if pages else ""
        return Page(
            task, opened.purpose, opened.order, number, max(total, number), answer, comment, opened.name, previous
        )

    def _read_body(self, connection: sa.Connection, seq: int | None) -> dict[str, Any]:
        """Return the body of an event; empty if `seq` is None."""
        if seq is None:
            return {}
        body: dict[str, Any] = json.loads(connection.execute(tables.BODY, {"seq": seq}).scalar_one())
        return body

    def find_page(self, rater: str, name: str) -> Page | None:
        """Return an opened page of the rater by the name in its URL; None if there is none."""
        with self.database.reading() as connection:
            history = self._read_history(connection, rater)
            with self._state_lock:
                opened = next((page for page in history.pages.values() if page.name == name), None)
            return None if opened is None else self._make_page(connection, history, opened)

    def find_task_page(self, rater: str, task: str, *purposes: Purpose) -> Page | None:
        """Return an opened page of the rater by its task, with the answer; None if there is none.

        Of several purposes, the first under which the rater has opened the task counts; the default is ``work``.
        """
        with self.database.reading() as connection:
            history = self._read_history(connection, rater)
            pages = [history.pages.get((task, purpose)) for purpose in purposes or ("work",)]
            opened = next(filter(None, pages), None)
            return None if opened is None else self._make_page(connection, history, opened)

    def history(self, rater: str) -> list[tuple[str, Purpose]]:
        """Return task and purpose of every page that the rater has answered or has open, in the order of opening."""
        with self.database.reading() as connection:
            history = self._read_history(connection, rater)
        with self._state_lock:
            return [key for key, page in history.pages.items() if page.counts or page is history.current]

    def explain_no_page(self, rater: str) -> NothingToDo:
        """Return why a rater has nothing to do: excluded, finished, study paused, study full, or tasks leased to
        others.
        """
        with self.database.reading() as connection:
            history = self._read_history(connection, rater)
            if history.excluded:
                return "excluded"
            if self.now.is_done(history) or history.done["work"] >= count_work(self.now.plan, self.now.work):
                return "finished"
            if self.now.history.paused is not None:
                return "paused"
            if connection.execute(tables.SLOT_TO_COME, {"rater": get_rater_number(rater)}).first():
                return "wait"
        return "finished" if history.done["work"] else "full"

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
        """Store an event of a rater, once for a key; with another body, both are stored and the last counts."""
        if not KEY.fullmatch(key):
            raise InputError(f"key {key[:40]!r}: expected up to 200 letters, digits and signs")
        stored = dict(body or {})
        if kind == "answered":
            stored.setdefault("purpose", "work")
        at = to_utc(now)
        return self.database.write(lambda connection: self._record(connection, rater, kind, key, task, stored, at))

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
        history = self._lock_rater(connection, rater)
        same = _hash_event(rater, kind, task, body)
        while stored := connection.execute(tables.STORED, {"key": key}).first():
            event = to_event(stored)
            if _hash_event(event.rater, event.kind, event.task, event.body) == same:
                return Recorded(event.seq, False, event.body.get("late", False))
            key = f"{key}~{same}"
        if task is not None and not history.has_opened(task):
            raise InputError(f"rater {rater} has not opened task {task!r}, so nothing can be stored for it")
        if kind == "answered":
            body |= self._fill_slot(connection, history, rater, task, body["purpose"], at)
        elif kind in FREEING:
            self._free_slots(connection, rater, kind)
        seq = self._insert(connection, rater, kind, key, task, body, at)
        return Recorded(seq, True, body.get("late", False))

    def _fill_slot(
        self,
        connection: sa.Connection,
        history: RaterHistory,
        rater: str,
        task: str | None,
        purpose: Purpose,
        at: datetime,
    ) -> dict[str, Any]:
        """Mark the slot of an answer as done; return its place, and whether the answer was too late for one."""
        if task is None or (task, purpose) not in history.pages:
            raise InputError(f"rater {rater} has not opened task {task!r} for {purpose}, so it cannot be answered")
        if purpose != "work" or history.excluded:
            return {"place": None, "late": False}
        now = self.now
        place = find_answer_place(self._read_slots(connection, task), rater, now.history.get_lease_time(at), now.lease)
        if place is None and now.anyone_may_enter:
            place = connection.execute(tables.NEWCOMERS_PLACE, {"task": task}).scalar()
        if place is not None:
            set_slot(connection, Slot(task, place, rater, done=True))
        return {"place": place, "late": place is None}

    def _free_slots(self, connection: sa.Connection, rater: str, kind: EventName) -> None:
        values = {"of_rater": get_rater_number(rater), "of_done": int(kind == "excluded")}
        connection.execute(tables.FREE_SLOTS, values)

    def exclude(self, rater: str, reason: str, now: datetime | None = None) -> Recorded:
        """Exclude a rater: the answers stay in the log, and their slots become free for others."""
        return self._record_owner(rater, "excluded", {"reason": reason}, now)

    def reinstate(self, rater: str, reason: str, now: datetime | None = None) -> Recorded:
        """Reinstate an excluded rater; the answers fill the slots of their tasks that are still free."""
        return self._record_owner(rater, "reinstated", {"reason": reason}, now)

    def release(self, rater: str, reason: str, now: datetime | None = None) -> Recorded:
        """Release the open pages of a rater before their leases expire."""
        return self._record_owner(rater, "released", {"reason": reason}, now)

    def withdraw(self, rater: str, reason: str, now: datetime | None = None) -> Recorded:
        """Withdraw the personal link of a rater who has never opened it."""
        return self._record_owner(rater, "withdrawn", {"reason": reason}, now)

    def _record_owner(self, rater: str, kind: EventName, body: dict[str, Any], now: datetime | None) -> Recorded:
        at = to_utc(now)

        def change(connection: sa.Connection) -> Recorded:
            history = self._lock_rater(connection, rater)
            _refuse_needless(rater, kind, history)
            if kind == "reinstated":
                body["places"] = self._take_back(connection, history, rater, at)
            else:
                self._free_slots(connection, rater, kind)
            return Recorded(self._insert(connection, rater, kind, secrets.token_hex(16), None, body, at), True)

        return self.database.write(change)

    def _take_back(self, connection: sa.Connection, history: RaterHistory, rater: str, at: datetime) -> dict[str, int]:
        """Fill free slots with the answers of a rater; return the place of each that got one, by task."""
        answered = [page.task for page in history.pages.values() if page.purpose == "work" and page.answer]
        places = {}
        for task in sorted(answered):  # locked in the same order everywhere, which avoids deadlocks
            clock = self.now.history.get_lease_time(at)
            place = find_answer_place(self._read_slots(connection, task), rater, clock, self.now.lease)
            if place is not None:
                set_slot(connection, Slot(task, place, rater, done=True))
                places[task] = place
        return places

    # Commands of the owner

    def amend(
        self,
        plan: Plan,
        tasks: Sequence[Task],
        why: str,
        changes: Sequence[Mapping[str, Any]],
        base: str,
        now: datetime | None = None,
    ) -> Recorded:
        """Put an amended plan in force, with its new tasks, in one transaction.

        ``changes`` is the difference to the plan of digest ``base``; `captious.studio.collect.amend` makes it.
        """

        def change(connection: sa.Connection, at: datetime) -> dict[str, Any]:
            if self.digest != base:
                raise InputError(f"{self.name}: the study was amended meanwhile by somebody else; look, and try again")
            number, stored = tables.add_tasks(connection, plan, tasks)
            amended = {"toml": plan.text, "plan": tables.to_json(plan), "digest": compute_plan_digest(plan)}
            return {"why": why, "changes": list(changes), **amended, "tasks": number, "tasks_digest": stored}

        return self._record_study("amended", change, now)

    def pause(self, why: str, message: str = "", now: datetime | None = None) -> Recorded:
        """Pause the study: nobody gets a new task. Answers to open pages are stored; leases do not expire."""

        def change(connection: sa.Connection, at: datetime) -> dict[str, Any]:
            if self.now.history.paused is not None:
                raise InputError(f"{self.name}: the study is paused already")
            return {"why": why, "message": message}

        return self._record_study("paused", change, now)

    def resume(self, now: datetime | None = None) -> Recorded:
        """Resume the study after a pause; all leases are extended by its length."""

        def change(connection: sa.Connection, at: datetime) -> dict[str, Any]:
            paused = self.now.history.paused
            if paused is None:
                raise InputError(f"{self.name}: the study is not paused")
            for row in connection.execute(tables.LEASED).all():
                set_slot(connection, extend_lease(to_slot(row), paused, at))
            return {}

        return self._record_study("resumed", change, now)

    def store_address(self, address: str) -> None:
        """Store the address under which raters reach the server, unless it is stored already."""
        if self.read_updates().history.address != address:
            self._record_study("served", lambda connection, at: {"address": address})

    def _record_study(
        self,
        kind: EventName,
        change: Callable[[sa.Connection, datetime], dict[str, Any]],
        now: datetime | None = None,
    ) -> Recorded:
        """Record an event of the owner about the study, while nobody else writes."""
        at = to_utc(now)

        def store(connection: sa.Connection) -> int:
            if not self.database.sqlite:
                connection.execute(tables.STOP_WRITING)
            self.read_owner_events(connection)
            body = change(connection, at)
            study = body.get("digest", self.digest)
            return self._insert(connection, OWNER, kind, secrets.token_hex(16), None, body, at, study)

        seq = self.database.write(store)
        self.read_updates()
        return Recorded(seq, True)

    # Reading

    def events(self, after: int = 0, rater: str | None = None) -> Iterator[Event]:
        """Yield all events after a number, in the order of arrival; only those of `rater` if it is given."""
        with self.database.reading() as connection:
            if not self.database.sqlite:  # wait for running writers: their sequence numbers may be lower than the last
                connection.execute(tables.STOP_WRITING)
            last = connection.execute(tables.LAST_EVENT).scalar() or 0
        while after < last:
            with self.database.reading() as connection:
                stored = connection.execute(tables.EVENTS, {"after": after, "last": last, "most": CHUNK}).all()
            if not stored:
                return
            yield from (to_event(row) for row in stored if rater in (None, get_rater_name(row.rater)))
            after = stored[-1].seq

    def answers(self) -> list[Answered]:
        """Return the last answer of every rater to every task and purpose, in the order of their first answers."""
        return collect_answers(self.events())

    def slots(self) -> list[Slot]:
        """Return all slots, by task and place."""
        with self.database.reading() as connection:
            return [
                to_slot(row)
                for row in connection.execute(sa.select(tables.slot).order_by(tables.slot.c.task, tables.slot.c.place))
            ]

    def count_leases(self, now: datetime | None = None) -> int:
        """Count the slots that are leased to raters now."""
        with self.database.reading() as connection:
            clock = self.read_owner_events(connection).history.get_lease_time(to_utc(now))
            return int(connection.execute(tables.LEASES, {"now": format_time(clock)}).scalar_one())

    def _read_slots(self, connection: sa.Connection, task: str) -> list[Slot]:
        return [to_slot(row) for row in connection.execute(tables.SLOTS_OF_TASK, {"task": task})]

    # Inside a transaction

    def _lock_rater(self, connection: sa.Connection, rater: str) -> RaterHistory:
        """Lock a rater until the transaction ends, and return the rater's history."""
        if not self.database.sqlite:
            connection.execute(tables.SHARE_WRITING)
            connection.execute(tables.LOCK_RATER, {"rater": get_rater_number(rater)})
        return self._read_history(connection, rater)

    def _read_history(self, connection: sa.Connection, rater: str) -> RaterHistory:
        """Read the new events of a rater and of the owner; return the rater's history."""
        history = self._histories.get(rater, RaterHistory())
        last = {"rater": get_rater_number(rater), "n": history.n, "of_owner": self.now.history.n}
        stored = connection.execute(tables.EVENTS_OF_RATER, last).all()
        with self._state_lock:
            history = self._histories.setdefault(rater, history)
            for row in stored:
                if row.rater:
                    history.add(to_event(row))
            self._now = self._apply_events(self.now, [row for row in stored if not row.rater])
        return history

    def _read_histories(self) -> None:
        """Read the new events of all raters."""
        for event in self.events(after=self._last):
            with self._state_lock:
                if event.rater != OWNER:
                    self._histories.setdefault(event.rater, RaterHistory()).add(event)
                self._last = max(self._last, event.seq)
        self.read_updates()

    def _insert(
        self,
        connection: sa.Connection,
        rater: str,
        kind: EventName,
        key: str,
        task: str | None,
        body: Mapping[str, Any],
        at: datetime,
        study: str | None = None,
    ) -> int:
        """Insert an event under the next number of its rater, or of the owner; return its sequence number."""
        number = 0 if rater == OWNER else get_rater_number(rater)
        n = connection.execute(tables.COUNT_EVENT, {"of_rater": number}).scalar()
        if n is None:
            raise UnknownKey(f"there is no rater {rater!r} in {self.name}")
        values = {
            "key": key,
            "at": format_time(at),
            "study": study or self.digest,
            "rater": number,
            "n": n,
            "task": task,
        }
        return int(connection.execute(tables.INSERT_EVENT, {**values, "kind": kind, "body": dump(body)}).scalar_one())


def _refuse_needless(rater: str, kind: EventName, history: RaterHistory) -> None:
    """Raise `InputError` if an owner's command would change nothing."""
    if kind == "excluded" and history.excluded:
        raise InputError(f"rater {rater} is excluded already")
    if kind == "reinstated" and not history.excluded:
        raise InputError(f"rater {rater} is not excluded")
    if kind == "withdrawn" and history.withdrawn:
        raise InputError(f"the link of rater {rater} is withdrawn already")
    if kind == "withdrawn" and history.joined:
        raise InputError(f"rater {rater} has opened the link; captious studio exclude removes the answers")
    if kind == "released" and history.current is None:
        raise InputError(f"rater {rater} has no task open")


def _hash_event(rater: str, kind: str, task: str | None, body: Mapping[str, Any]) -> str:
    """Return a digest that is equal for equal events. Seconds are ignored: a repeated click may differ in them."""
    said = {name: value for name, value in body.items() if name not in ADDED | {"seconds"}}
    return hashlib.sha256(dump([rater, kind, task, said]).encode()).hexdigest()[:16]
