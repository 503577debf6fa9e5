"""The plan and the tasks of a study as its database keeps them: frozen when the study begins."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from captious._records import from_json
from captious.errors import InputError, require
from captious.studio.plan import Plan
from captious.studio.rows import dump, stamp
from captious.studio.schema import slot, study, task
from captious.studio.slots import generator
from captious.studio.tasks import Task

if TYPE_CHECKING:
    import sqlalchemy as sa
else:
    sa = require("sqlalchemy", "studio")


def freeze(connection: sa.Connection, plan: Plan, tasks: Sequence[Task], at: datetime) -> None:
    """Store a plan, its tasks in a random order, and a free slot for every answer that is wanted."""
    for id, count in Counter(one.id for one in tasks).items():
        if count > 1 or "\0" in id:
            raise InputError(f"{plan.path}: task {id!r} {'is there twice' if count > 1 else 'has a null character'}")
    work = [one for one in tasks if one.gold is None]
    order = generator(plan.seed, "tasks").permutation(len(work))
    ordered = [work[index] for index in order] + [one for one in tasks if one.gold is not None]
    rows = [
        {"id": one.id, "position": position, "gold": int(one.gold is not None), "payload": _payload(plan, one)}
        for position, one in enumerate(ordered)
    ]
    if rows:
        connection.execute(task.insert(), rows)
    for place in range(plan.overlap):
        free = sa.select(task.c.id, sa.literal(place), task.c.position).where(task.c.gold == 0)
        connection.execute(slot.insert().from_select(["task", "place", "position"], free))
    digests = {"digest": plan_digest(plan), "tasks_digest": tasks_digest([row["payload"] for row in rows])}
    values = {"begun": stamp(at), "toml": plan.text, "plan": dump(_to_json(plan))}
    connection.execute(study.insert().values(**digests, **values))


def _payload(plan: Plan, one: Task) -> str:
    try:
        return dump(one.to_dict())
    except InputError as error:
        raise InputError(f"{plan.path}: task {one.id!r} has {error}") from None


def plan_digest(plan: Plan) -> str:
    """The digest of a plan: that of its text; of its values where it was made without one."""
    return plan.digest or hashlib.sha256(dump(_to_json(plan)).encode()).hexdigest()


def tasks_digest(payloads: Sequence[str]) -> str:
    """Of the tasks as the database has them, in their order."""
    return hashlib.sha256("\n".join(payloads).encode()).hexdigest()


def _to_json(plan: Plan) -> dict[str, Any]:
    return {**asdict(plan), "path": str(plan.path), "text": "", "digest": ""}


def thaw(data: dict[str, Any], text: str, digest: str) -> Plan:
    """The plan that was frozen. Its text is not parsed again: what a later captious refuses was right at the time."""
    plan: Plan = from_json(Plan, data)
    return replace(plan, text=text, digest=digest)
