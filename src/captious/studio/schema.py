"""Tables of a study's database, the triggers that keep its log append-only, and the steps from version to version.

The same tables serve SQLite and PostgreSQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from captious.errors import InputError, require

if TYPE_CHECKING:
    import sqlalchemy as sa
else:
    sa = require("sqlalchemy", "studio")

metadata = sa.MetaData()
Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Text that both engines sort by its bytes."""
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
session = sa.Table(
    "session",
    metadata,
    sa.Column("number", Number, primary_key=True),
    sa.Column("token", Text, nullable=False, unique=True),
    sa.Column("rater", Number, nullable=False),
    sa.Column("body", Text, nullable=False),
    sa.Index("session_rater", "rater"),
)
"""Visits of raters whom a platform sent: the hash of a random token, and what the platform said of the visit."""
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

FROZEN = ("event", "task", "study")
"""Tables whose rows are never changed, removed or replaced."""
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


def first(connection: sa.Connection) -> None:
    """Version 1: all tables and triggers but the sessions of platforms."""
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


def second(connection: sa.Connection) -> None:
    """Version 2: the sessions of raters whom a platform sent, which were made of the platform's ids before."""
    session.create(connection, checkfirst=True)


MIGRATIONS = (first, second)
"""Each brings a database from one version to the next. Steps are added at the end; none is ever edited."""


def trigger_names(dialect: str) -> set[str]:
    """The triggers that a whole database has."""
    endings = ("frozen", "no_truncate") if dialect == "postgresql" else ("no_update", "no_delete", "no_replace")
    return {f"{table}_{ending}" for table in FROZEN for ending in endings}


def version_of(connection: sa.Connection) -> int:
    """The version of a database, 0 where it is empty."""
    tables = sa.inspect(connection).get_table_names()
    if version.name in tables:
        return connection.execute(sa.select(sa.func.max(version.c.version))).scalar() or 0
    if tables:
        raise InputError(f"{connection.engine.url.database}: is no database of a study; name another one")
    return 0


def migrate(connection: sa.Connection) -> None:
    """Bring a database to the present version, inside the transaction of the caller."""
    version.create(connection, checkfirst=True)
    for number, step in enumerate(MIGRATIONS, start=1):
        if number > (connection.execute(sa.select(sa.func.max(version.c.version))).scalar() or 0):
            step(connection)
            connection.execute(version.insert().values(version=number))
