"""Tables of a study's database, and conversions of their rows.

The same tables serve SQLite and PostgreSQL. Every statement is built once, at import, because building one takes longer
than running it. Times are texts in UTC that sort as the times do. Raters are numbers, shown as r1, r2, …
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from captious._core.records import from_json
from captious.errors import InputError, UnknownKey, format_one_line, require
from captious.studio.collect._events import OWNER, Event, Slot, make_generator
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.study_plan import Plan

if TYPE_CHECKING:
    import sqlalchemy as sa
else:
    sa = require("sqlalchemy", "studio")

# Tables, the triggers that keep the log append-only, and migrations

metadata = sa.MetaData()
# Text that both databases sort by its bytes.
Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

version = sa.Table("schema_version", metadata, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False))
study = sa.Table(
    "study",
    metadata,
    sa.Column("digest", Text, primary_key=True),
    sa.Column("tasks_digest", Text, nullable=False),
    sa.Column("begun", Text, nullable=False),
    sa.Column("toml", Text, nullable=False),
    sa.Column("plan", Text, nullable=False),
)
task = sa.Table(
    "task",
    metadata,
    sa.Column("id", Text, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False, unique=True),
    sa.Column("gold", sa.Integer, nullable=False),
    sa.Column("payload", Text, nullable=False),
)
rater = sa.Table(
    "rater",
    metadata,
    sa.Column("number", Number, primary_key=True),
    sa.Column("token", Text, unique=True),
    sa.Column("events", sa.Integer, nullable=False, server_default="0"),
)
identity = sa.Table(
    "identity",
    metadata,
    sa.Column("rater", Number, primary_key=True, autoincrement=False),
    sa.Column("source", Text, nullable=False),
    sa.Column("person", Text, nullable=False),
    sa.Column("body", Text, nullable=False),
    sa.UniqueConstraint("source", "person"),
)
# Visits of raters of a panel: the hash of a random token, and the panel's parameters.
session = sa.Table(
    "session",
    metadata,
    sa.Column("number", Number, primary_key=True),
    sa.Column("token", Text, nullable=False, unique=True),
    sa.Column("rater", Number, nullable=False),
    sa.Column("body", Text, nullable=False),
    sa.Index("session_rater", "rater"),
)
event = sa.Table(
    "event",
    metadata,
    sa.Column("seq", Number, primary_key=True),
    sa.Column("key", Text, nullable=False, unique=True),
    sa.Column("at", Text, nullable=False),
    sa.Column("study", Text, nullable=False),
    sa.Column("rater", Number, nullable=False),
    sa.Column("n", sa.Integer, nullable=False),
    sa.Column("task", Text),
    sa.Column("kind", Text, nullable=False),
    sa.Column("body", Text, nullable=False),
    sa.UniqueConstraint("rater", "n"),
    sa.Index("event_rater_task", "rater", "task"),
    sqlite_autoincrement=True,
)
slot = sa.Table(
    "slot",
    metadata,
    sa.Column("task", Text, primary_key=True),
    sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("rater", Number),
    sa.Column("lease", Text),
    sa.Column("done", sa.Integer, nullable=False, server_default="0"),
    sa.Index("slot_next", "done", "place", "position"),
    sa.Index("slot_rater", "rater"),
)

# Tables whose rows are never changed, removed or replaced.
FROZEN = ("event", "task", "study")
_SQLITE = """
CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END;
CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, 'rows of {table} are never removed'); END;
CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} WHEN EXISTS (SELECT 1 FROM {table} WHERE {taken})
BEGIN SELECT RAISE(ABORT, 'rows of {table} are never replaced'); END;
"""
# With recursive_triggers off, as other programs have it, INSERT OR REPLACE fires no DELETE trigger: hence the third.
_TAKEN = {
    "event": "seq = NEW.seq OR key = NEW.key OR (rater = NEW.rater AND n = NEW.n)",
    "task": "id = NEW.id OR position = NEW.position",
    "study": "1",
}
_POSTGRESQL = """
CREATE TRIGGER {table}_frozen BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION captious_refuse();
CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION captious_refuse();
ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_frozen;
ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_no_truncate;
"""
_REFUSE = """
CREATE FUNCTION captious_refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'rows of %% are never changed, removed or replaced', TG_TABLE_NAME; END $$
"""


def _create_tables(connection: sa.Connection) -> None:
    """Create all tables and triggers of version 1, that is all but the sessions."""
    metadata.create_all(connection, [table for table in metadata.sorted_tables if table not in (version, session)])
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_REFUSE)
        for table in FROZEN:
            connection.exec_driver_sql(_POSTGRESQL.format(table=table))
        return
    for table in FROZEN:
        for statement in _SQLITE.format(table=table, taken=_TAKEN[table]).strip().split("END;"):
            if statement.strip():
                connection.exec_driver_sql(f"{statement}END;")


def _add_sessions(connection: sa.Connection) -> None:
    """Create the table of sessions (version 2), which were made of the panel's ids before."""
    session.create(connection, checkfirst=True)


def _add_owner_row(connection: sa.Connection) -> None:
    """Insert row 0 of the raters (version 3), which numbers the owner's events, so that a gap shows."""
    connection.execute(rater.insert().values(number=0))


# Each migrates a database to the next version. Migrations are appended, never edited.
MIGRATIONS = (_create_tables, _add_sessions, _add_owner_row)


def list_triggers(dialect: str) -> set[str]:
    """Return the names of the triggers that a complete database has."""
    endings = ("frozen", "no_truncate") if dialect == "postgresql" else ("no_update", "no_delete", "no_replace")
    return {f"{table}_{ending}" for table in FROZEN for ending in endings}


def read_version(connection: sa.Connection) -> int:
    """Return the schema version of a database, 0 if it is empty."""
    tables = sa.inspect(connection).get_table_names()
    if version.name in tables:
        return connection.execute(sa.select(sa.func.max(version.c.version))).scalar() or 0
    if tables:
        raise InputError(f"{connection.engine.url.database}: is not a database of a study; name another one")
    return 0


def migrate(connection: sa.Connection) -> None:
    """Apply the missing migrations, inside the transaction of the caller."""
    version.create(connection, checkfirst=True)
    for number, step in enumerate(MIGRATIONS, start=1):
        if number > (connection.execute(sa.select(sa.func.max(version.c.version))).scalar() or 0):
            step(connection)
            connection.execute(version.insert().values(version=number))


# Events and slots


def bind(name: str) -> sa.BindParameter[Any]:
    """Return a parameter of a prepared statement."""
    return sa.bindparam(name)


# PostgreSQL's advisory lock: writers share it; a reader of the whole log takes it exclusively for a moment.
WRITERS = 5_150_412
SHARE_WRITING = sa.select(sa.func.pg_advisory_xact_lock_shared(WRITERS))
STOP_WRITING = sa.select(sa.func.pg_advisory_xact_lock(WRITERS))

LOCK_RATER = sa.select(rater.c.number).where(rater.c.number == bind("rater")).with_for_update()
COUNT_EVENT = (
    rater.update().where(rater.c.number == bind("of_rater")).values(events=rater.c.events + 1).returning(rater.c.events)
)
STORED = sa.select(event).where(event.c.key == bind("key"))
BODY = sa.select(event.c.body).where(event.c.seq == bind("seq"))
INSERT_EVENT = event.insert().returning(event.c.seq)
_OF_RATER = sa.select(event).where(event.c.rater == bind("rater"), event.c.n > bind("n"))
EVENTS_OF_OWNER = sa.select(event).where(event.c.rater == 0, event.c.n > bind("of_owner")).order_by(event.c.n)
# New events of a rater and of the owner in one statement, so that an amendment is in force at once everywhere.
EVENTS_OF_RATER = sa.union_all(_OF_RATER, EVENTS_OF_OWNER.order_by(None)).order_by("n")
EVENTS = (
    sa.select(event)
    .where(event.c.seq > bind("after"), event.c.seq <= bind("last"))
    .order_by(event.c.seq)
    .limit(bind("most"))
)
LAST_EVENT = sa.select(sa.func.max(event.c.seq))

_UNSEEN = ~sa.exists(1).where(event.c.rater == bind("rater"), event.c.task == slot.c.task)
_FREE = sa.or_(slot.c.lease.is_(None), slot.c.lease <= bind("now"), slot.c.lease > bind("far"))
# The free slot of the lowest place, of a task that the rater has never opened.
NEXT_SLOT = (
    sa.select(slot.c.task, slot.c.place)
    .where(slot.c.done == 0, _FREE, _UNSEEN)
    .order_by(slot.c.place, slot.c.position)
    .limit(1)
    .with_for_update(of=slot, skip_locked=True)
)
# Like `NEXT_SLOT` without a lock, the first 200: for studies with strata.
NEXT_SLOTS = (
    sa.select(slot.c.task, slot.c.place)
    .where(slot.c.done == 0, _FREE, _UNSEEN)
    .order_by(slot.c.place, slot.c.position)
    .limit(200)
)
THIS_SLOT = (
    sa.select(slot.c.task, slot.c.place)
    .where(slot.c.task == bind("task"), slot.c.place == bind("place"), slot.c.done == 0, _FREE, _UNSEEN)
    .with_for_update(of=slot, skip_locked=True)
)
_ANSWERED = sa.exists(1).where(event.c.rater == slot.c.rater, event.c.kind == "answered")
# The slot with the oldest lease of a rater who has never answered anything.
NEWCOMERS_SLOT = (
    sa.select(slot.c.task, slot.c.place)
    .where(slot.c.done == 0, slot.c.rater.is_not(None), ~_ANSWERED, _UNSEEN)
    .order_by(slot.c.lease, slot.c.position)
    .limit(1)
    .with_for_update(of=slot, skip_locked=True)
)
NEWCOMERS_PLACE = (
    sa.select(slot.c.place)
    .where(slot.c.task == bind("task"), slot.c.done == 0, slot.c.rater.is_not(None), ~_ANSWERED)
    .order_by(slot.c.lease)
    .limit(1)
)
# A task that is leased to others and may become free for the rater.
SLOT_TO_COME = sa.select(slot.c.task).where(slot.c.done == 0, _UNSEEN).limit(1)
LEASES = sa.select(sa.func.count()).select_from(slot).where(slot.c.done == 0, slot.c.lease > bind("now"))
SLOTS_OF_TASK = sa.select(slot).where(slot.c.task == bind("task")).order_by(slot.c.place).with_for_update()
SLOT = sa.select(slot).where(slot.c.task == bind("task"), slot.c.place == bind("place"))
SET_SLOT = slot.update().where(slot.c.task == bind("of_task"), slot.c.place == bind("of_place"))
SET_SLOT = SET_SLOT.values(rater=bind("rater"), lease=bind("lease"), done=bind("done"))
FREE_SLOTS = slot.update().where(slot.c.rater == bind("of_rater"), slot.c.done <= bind("of_done"))
FREE_SLOTS = FREE_SLOTS.values(rater=None, lease=None, done=0)
LEASED = sa.select(slot).where(slot.c.lease.is_not(None)).order_by(slot.c.task, slot.c.place).with_for_update()
PAYLOAD = sa.select(task.c.payload).where(task.c.id == bind("id"))


def to_event(row: Any) -> Event:
    """Convert a row to an event."""
    try:
        return Event(
            row.seq,
            row.key,
            parse_time(row.at),
            get_rater_name(row.rater),
            row.n,
            row.kind,
            row.task,
            json.loads(row.body),
        )
    except (ValueError, TypeError):
        raise InputError(f"event {row.seq} is damaged in the database; see captious studio verify") from None


def to_slot(row: Any) -> Slot:
    """Convert a row to a slot."""
    who = None if row.rater is None else get_rater_name(row.rater)
    return Slot(row.task, row.place, who, None if row.lease is None else parse_time(row.lease), bool(row.done))


def set_slot(connection: sa.Connection, new: Slot) -> None:
    """Store a slot."""
    values = {
        "rater": None if new.rater is None else get_rater_number(new.rater),
        "lease": None if new.lease is None else format_time(new.lease),
        "done": int(new.done),
    }
    connection.execute(SET_SLOT, {"of_task": new.task, "of_place": new.place, **values})


def get_rater_number(rater: str) -> int:
    """Return the number of a rater; raise `UnknownKey` if the name is malformed.

    >>> get_rater_number("r17")
    17
    """
    number = rater[1:]
    if not re.fullmatch(r"r[1-9][0-9]{0,17}", rater):
        raise UnknownKey(f"there is no rater {rater!r}; raters are r1, r2, …")
    return int(number)


def get_rater_name(number: int) -> str:
    """Return the name of a rater by number; 0 is the owner.

    >>> get_rater_name(17), get_rater_name(0)
    ('r17', 'owner')
    """
    return f"r{number}" if number else OWNER


_ENCODER = json.JSONEncoder(sort_keys=True, allow_nan=False)


def dump(value: Any) -> str:
    """Encode a value as JSON, with the same text for equal values."""
    try:
        return _ENCODER.encode(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"a value that the database cannot keep: {format_one_line(error)}") from None


def to_utc(now: datetime | None) -> datetime:
    """Convert a time to UTC; None is the current time."""
    return datetime.now(timezone.utc) if now is None else now.astimezone(timezone.utc)


def format_time(at: datetime) -> str:
    """Format a time as text that sorts like the time.

    >>> format_time(datetime(2026, 3, 1, tzinfo=timezone.utc))
    '2026-03-01T00:00:00.000000+00:00'
    """
    return at.isoformat(timespec="microseconds")


def parse_time(stamp: str) -> datetime:
    """Parse the text of a time."""
    return datetime.fromisoformat(stamp)


# Raters: pseudonyms and hashes of tokens; identities and visits, which can be deleted

RATER_OF_TOKEN = sa.select(rater.c.number).where(rater.c.token == bind("token"))
RATER_OF_PERSON = sa.select(identity.c.rater).where(
    identity.c.source == bind("source"), identity.c.person == bind("person")
)
SESSION = sa.select(session.c.rater, session.c.body).where(session.c.token == bind("token"))
FIRST_SESSION = sa.select(session.c.token).where(session.c.rater == bind("rater")).order_by(session.c.number).limit(1)


class PlatformVisit(NamedTuple):
    """A session of a rater who came from a panel."""

    rater: int
    parameters: dict[str, str]
    """The panel's parameters of this visit."""
    person: str
    """The hash of the rater's first token: the same in every visit, and secret."""


def find_rater_by_token(connection: sa.Connection, hash: str) -> int | None:
    """Return the rater whose token has this hash; None if there is none."""
    return connection.execute(RATER_OF_TOKEN, {"token": hash}).scalar()


def add_raters(connection: sa.Connection, hashes: Sequence[str], names: Sequence[str]) -> list[int]:
    """Insert a rater for each hash; a known hash keeps its rater and name."""
    numbers = []
    for index, hash in enumerate(hashes):
        number = find_rater_by_token(connection, hash)
        if number is None:
            number = _insert_rater(connection, hash)
            if names:
                _insert_identity(connection, number, "name", str(number), {"name": names[index]})
        numbers.append(number)
    return numbers


def find_rater_by_identity(connection: sa.Connection, panel: str, person: str) -> int | None:
    """Return the rater with this id on a panel; None if there is none."""
    return connection.execute(RATER_OF_PERSON, {"source": panel, "person": dump(person)}).scalar()


def find_or_add_rater(connection: sa.Connection, panel: str, person: str, parameters: Mapping[str, str]) -> int:
    """Return the rater with this id on a panel; insert one if there is none."""
    number = find_rater_by_identity(connection, panel, person)
    if number is None:
        number = _insert_rater(connection, None)
        _insert_identity(connection, number, panel, dump(person), parameters)
    return number


def add_session(connection: sa.Connection, number: int, hash: str, parameters: Mapping[str, str]) -> None:
    """Insert a session: the hash of a new token of a panel's rater."""
    connection.execute(session.insert().values(token=hash, rater=number, body=dump(dict(parameters))))


def find_visit(connection: sa.Connection, hash: str) -> PlatformVisit | None:
    """Return the visit whose token has this hash; None if there is none."""
    stored = connection.execute(SESSION, {"token": hash}).first()
    if stored is None:
        return None
    person = connection.execute(FIRST_SESSION, {"rater": stored.rater}).scalar_one()
    return PlatformVisit(stored.rater, json.loads(stored.body), person)


def forget_rater(connection: sa.Connection, number: int) -> None:
    """Delete the identity of a rater, and the sessions, which contain the panel's ids too."""
    connection.execute(session.delete().where(session.c.rater == number))
    connection.execute(identity.delete().where(identity.c.rater == number))


def read_identities(connection: sa.Connection) -> dict[str, dict[str, str]]:
    """Return the identities by pseudonym: panel's parameters with those of the last visit, or a name."""
    rows = connection.execute(sa.select(identity.c.rater, identity.c.body).order_by(identity.c.rater))
    identities = {get_rater_name(number): json.loads(body) for number, body in rows}
    for number, body in connection.execute(sa.select(session.c.rater, session.c.body).order_by(session.c.number)):
        identities[get_rater_name(number)] = {**identities.get(get_rater_name(number), {}), **json.loads(body)}
    return identities


def _insert_rater(connection: sa.Connection, hash: str | None) -> int:
    statement = rater.insert().values(token=hash).returning(rater.c.number)
    return int(connection.execute(statement).scalar_one())


def _insert_identity(connection: sa.Connection, number: int, source: str, person: str, body: Mapping[str, str]) -> None:
    values = {"rater": number, "source": source, "person": person, "body": dump(dict(body))}
    connection.execute(identity.insert().values(**values))


# The plan and the tasks, stored when the study begins; an amendment adds tasks and slots, and changes none


def store_study(connection: sa.Connection, plan: Plan, tasks: Sequence[Task], at: datetime) -> None:
    """Store a plan, its tasks in random order, and a free slot for every answer."""
    _, stored_digest = add_tasks(connection, plan, tasks)
    digests = {"digest": compute_plan_digest(plan), "tasks_digest": stored_digest}
    values = {"begun": format_time(at), "toml": plan.text, "plan": dump(to_json(plan))}
    connection.execute(study.insert().values(**digests, **values))


def add_tasks(connection: sa.Connection, plan: Plan, tasks: Sequence[Task]) -> tuple[int, str]:
    """Append tasks, and add free slots up to the overlap; return the number and the digest of all tasks.

    Gives the number and the digest of all tasks.
    """
    for id, count in Counter(one.id for one in tasks).items():
        if count > 1 or "\0" in id:
            raise InputError(f"{plan.path}: task {id!r} {'occurs twice' if count > 1 else 'has a null character'}")
    payloads = list(connection.execute(PAYLOADS).scalars())
    first = len(payloads)
    work = [one for one in tasks if one.gold is None]
    order = make_generator(plan.seed, f"tasks/{first}" if first else "tasks").permutation(len(work))
    ordered = [work[index] for index in order] + [one for one in tasks if one.gold is not None]
    rows = [
        {"id": one.id, "position": position, "gold": int(one.gold is not None), "payload": _encode_task(plan, one)}
        for position, one in enumerate(ordered, first)
    ]
    if rows:
        connection.execute(task.insert(), rows)
    for place in range(plan.overlap):
        has_it = sa.exists(1).where(slot.c.task == task.c.id, slot.c.place == place)
        free = sa.select(task.c.id, sa.literal(place), task.c.position).where(task.c.gold == 0, ~has_it)
        connection.execute(slot.insert().from_select(["task", "place", "position"], free))
    payloads += [str(row["payload"]) for row in rows]
    return len(payloads), compute_tasks_digest(payloads)


PAYLOADS = sa.select(task.c.payload).order_by(task.c.position)


def _encode_task(plan: Plan, one: Task) -> str:
    try:
        return dump(one.to_dict())
    except InputError as error:
        raise InputError(f"{plan.path}: task {one.id!r} has {error}") from None


def compute_plan_digest(plan: Plan) -> str:
    """Return the digest of a plan's text, or of its values if it has no text."""
    return plan.digest or hashlib.sha256(dump(to_json(plan)).encode()).hexdigest()


def compute_tasks_digest(payloads: Sequence[str]) -> str:
    """Return the digest of the stored tasks, in their order."""
    return hashlib.sha256("\n".join(payloads).encode()).hexdigest()


def to_json(plan: Plan) -> dict[str, Any]:
    """Convert a plan to JSON values, without its text and digests, which have columns of their own."""
    kept = {"path": str(plan.path), "text": "", "digest": "", "words": dict(plan.own_words)}
    values = {**asdict(plan), **kept}
    del values["origin"]
    return values


def load_plan(data: Mapping[str, Any], text: str, digest: str, origin: str = "") -> Plan:
    """Load a stored plan. Its text is not parsed again, so a newer captious with stricter rules can still read it."""
    plan: Plan = from_json(Plan, data)
    return replace(plan, text=text, digest=digest, origin=origin)
