"""Who the raters are: pseudonyms, hashes of their tokens, and what may be erased: their identities and visits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from captious.errors import require
from captious.studio.rows import bind, dump
from captious.studio.schema import identity, rater, session

if TYPE_CHECKING:
    import sqlalchemy as sa
else:
    sa = require("sqlalchemy", "studio")

PERSON = {"prolific": "PROLIFIC_PID", "mturk": "workerId"}
"""The parameter that names the person, of those that a platform sends."""
OF_TOKEN = sa.select(rater.c.number).where(rater.c.token == bind("token"))
OF_PERSON = sa.select(identity.c.rater).where(identity.c.source == bind("source"), identity.c.person == bind("person"))
SESSION = sa.select(session.c.rater, session.c.body).where(session.c.token == bind("token"))
FIRST_SESSION = sa.select(session.c.token).where(session.c.rater == bind("rater")).order_by(session.c.number).limit(1)


class Visit(NamedTuple):
    """A session of a rater whom a platform sent."""

    rater: int
    parameters: dict[str, str]
    """What the platform said of this visit."""
    person: str
    """The hash of the rater's first token: the same in every visit, and known to nobody but the database."""


def of_token(connection: sa.Connection, hash: str) -> int | None:
    """The rater whose token has a hash."""
    return connection.execute(OF_TOKEN, {"token": hash}).scalar()


def add(connection: sa.Connection, hashes: Sequence[str], names: Sequence[str]) -> list[int]:
    """A rater for each hash; one that is known keeps its rater and name."""
    numbers = []
    for index, hash in enumerate(hashes):
        number = of_token(connection, hash)
        if number is None:
            number = _new(connection, hash)
            if names:
                _identify(connection, number, "name", str(number), {"name": names[index]})
        numbers.append(number)
    return numbers


def of_identity(connection: sa.Connection, source: str, parameters: Mapping[str, str]) -> int | None:
    """The rater who has come under these parameters of a platform before."""
    return connection.execute(OF_PERSON, {"source": source, "person": _person(source, parameters)}).scalar()


def find_or_add(connection: sa.Connection, source: str, parameters: Mapping[str, str]) -> int:
    """The rater of a platform's parameters; a new one where nobody has come under them."""
    number = of_identity(connection, source, parameters)
    if number is None:
        number = _new(connection, None)
        _identify(connection, number, source, _person(source, parameters), parameters)
    return number


def add_session(connection: sa.Connection, number: int, hash: str, parameters: Mapping[str, str]) -> None:
    """Keep the hash of a new token of a rater whom a platform sent."""
    connection.execute(session.insert().values(token=hash, rater=number, body=dump(dict(parameters))))


def of_session(connection: sa.Connection, hash: str) -> Visit | None:
    """The visit whose token has a hash."""
    stored = connection.execute(SESSION, {"token": hash}).first()
    if stored is None:
        return None
    person = connection.execute(FIRST_SESSION, {"rater": stored.rater}).scalar_one()
    return Visit(stored.rater, json.loads(stored.body), person)


def forget(connection: sa.Connection, number: int) -> None:
    """Erase who a rater is, with the visits, which hold the platform's ids too."""
    connection.execute(session.delete().where(session.c.rater == number))
    connection.execute(identity.delete().where(identity.c.rater == number))


def identities(connection: sa.Connection) -> dict[str, dict[str, str]]:
    """What is known of raters, by pseudonym."""
    rows = connection.execute(sa.select(identity.c.rater, identity.c.body).order_by(identity.c.rater))
    return {f"r{number}": json.loads(body) for number, body in rows}


def _new(connection: sa.Connection, hash: str | None) -> int:
    statement = rater.insert().values(token=hash).returning(rater.c.number)
    return int(connection.execute(statement).scalar_one())


def _identify(connection: sa.Connection, number: int, source: str, person: str, body: Mapping[str, str]) -> None:
    values = {"rater": number, "source": source, "person": person, "body": dump(dict(body))}
    connection.execute(identity.insert().values(**values))


def _person(source: str, parameters: Mapping[str, str]) -> str:
    return dump(parameters.get(PERSON.get(source, "")) or dict(parameters))
