"""Rows of the database, and the values that they stand for.

Every statement is built once, when this file is read: to build one takes longer than to run it.
Times are texts in UTC that sort as the times do; raters are numbers, which people read as r1, r2, …
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from captious.errors import InputError, UnknownKey, one_line, require
from captious.studio.events import Event, Slot
from captious.studio.schema import event, rater, slot, task

if TYPE_CHECKING:
    import sqlalchemy as sa
else:
    sa = require("sqlalchemy", "studio")


def bind(name: str) -> sa.BindParameter[Any]:
    """A value that a statement gets when it runs."""
    return sa.bindparam(name)


WRITERS = 5_150_412
"""Number of PostgreSQL's advisory lock: writers share it, who reads the whole log holds it alone for a moment."""
SHARE_WRITING = sa.select(sa.func.pg_advisory_xact_lock_shared(WRITERS))
STOP_WRITING = sa.select(sa.func.pg_advisory_xact_lock(WRITERS))

LOCK_RATER = sa.select(rater.c.number).where(rater.c.number == bind("rater")).with_for_update()
COUNT_EVENT = (
    rater.update().where(rater.c.number == bind("of_rater")).values(events=rater.c.events + 1).returning(rater.c.events)
)
STORED = sa.select(event).where(event.c.key == bind("key"))
BODY = sa.select(event.c.body).where(event.c.seq == bind("seq"))
INSERT_EVENT = event.insert().returning(event.c.seq)
EVENTS_OF_RATER = sa.select(event).where(event.c.rater == bind("rater"), event.c.n > bind("n")).order_by(event.c.n)
EVENTS = (
    sa.select(event)
    .where(event.c.seq > bind("after"), event.c.seq <= bind("last"))
    .order_by(event.c.seq)
    .limit(bind("most"))
)
LAST_EVENT = sa.select(sa.func.max(event.c.seq))

_UNSEEN = ~sa.exists(1).where(event.c.rater == bind("rater"), event.c.task == slot.c.task)
_FREE = sa.or_(slot.c.lease.is_(None), slot.c.lease <= bind("now"), slot.c.lease > bind("far"))
NEXT_SLOT = (
    sa.select(slot.c.task, slot.c.place)
    .where(slot.c.done == 0, _FREE, _UNSEEN)
    .order_by(slot.c.place, slot.c.position)
    .limit(1)
    .with_for_update(of=slot, skip_locked=True)
)
"""The free slot with the fewest answers before it, of a task that the rater has never opened."""
_ANSWERED = sa.exists(1).where(event.c.rater == slot.c.rater, event.c.kind == "answered")
NEWCOMERS_SLOT = (
    sa.select(slot.c.task, slot.c.place)
    .where(slot.c.done == 0, slot.c.rater.is_not(None), ~_ANSWERED, _UNSEEN)
    .order_by(slot.c.lease, slot.c.position)
    .limit(1)
    .with_for_update(of=slot, skip_locked=True)
)
"""The slot that has been kept longest for somebody who has never answered anything."""
NEWCOMERS_PLACE = (
    sa.select(slot.c.place)
    .where(slot.c.task == bind("task"), slot.c.done == 0, slot.c.rater.is_not(None), ~_ANSWERED)
    .order_by(slot.c.lease)
    .limit(1)
)
SLOT_TO_COME = sa.select(slot.c.task).where(slot.c.done == 0, _UNSEEN).limit(1)
"""A task that others have open, and which may become free for the rater."""
LEASES = sa.select(sa.func.count()).select_from(slot).where(slot.c.done == 0, slot.c.lease > bind("now"))
SLOTS_OF_TASK = sa.select(slot).where(slot.c.task == bind("task")).order_by(slot.c.place).with_for_update()
SLOT = sa.select(slot).where(slot.c.task == bind("task"), slot.c.place == bind("place"))
SET_SLOT = slot.update().where(slot.c.task == bind("of_task"), slot.c.place == bind("of_place"))
SET_SLOT = SET_SLOT.values(rater=bind("rater"), lease=bind("lease"), done=bind("done"))
FREE_SLOTS = slot.update().where(slot.c.rater == bind("of_rater"), slot.c.done <= bind("of_done"))
FREE_SLOTS = FREE_SLOTS.values(rater=None, lease=None, done=0)
PAYLOAD = sa.select(task.c.payload).where(task.c.id == bind("id"))


def to_event(row: Any) -> Event:
    """The event of a row."""
    try:
        return Event(row.seq, row.key, time(row.at), f"r{row.rater}", row.n, row.kind, row.task, json.loads(row.body))
    except (ValueError, TypeError):
        raise InputError(f"event {row.seq} is damaged in the database; captious studio verify says more") from None


def to_slot(row: Any) -> Slot:
    """The slot of a row."""
    who = None if row.rater is None else f"r{row.rater}"
    return Slot(row.task, row.place, who, None if row.lease is None else time(row.lease), bool(row.done))


def set_slot(connection: sa.Connection, new: Slot) -> None:
    """Store a slot."""
    values = {
        "rater": None if new.rater is None else number_of(new.rater),
        "lease": None if new.lease is None else stamp(new.lease),
        "done": int(new.done),
    }
    connection.execute(SET_SLOT, {"of_task": new.task, "of_place": new.place, **values})


def number_of(rater: str) -> int:
    """The number of a rater.

    >>> number_of("r17")
    17
    """
    number = rater[1:]
    if not rater.startswith("r") or not number.isascii() or not number.isdigit() or len(number) > 18:
        raise UnknownKey(f"there is no rater {rater!r}; raters are r1, r2, …")
    return int(number)


_ENCODER = json.JSONEncoder(sort_keys=True, allow_nan=False)


def dump(value: Any) -> str:
    """A value in JSON, the same text for equal values."""
    try:
        return _ENCODER.encode(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"a value that the database cannot keep: {one_line(error)}") from None


def utc(now: datetime | None) -> datetime:
    """A time in UTC; the present one for None."""
    return datetime.now(timezone.utc) if now is None else now.astimezone(timezone.utc)


def stamp(at: datetime) -> str:
    """A time as text.

    >>> stamp(datetime(2026, 3, 1, tzinfo=timezone.utc))
    '2026-03-01T00:00:00.000000+00:00'
    """
    return at.isoformat(timespec="microseconds")


def time(stamp: str) -> datetime:
    """The time of a text."""
    return datetime.fromisoformat(stamp)
