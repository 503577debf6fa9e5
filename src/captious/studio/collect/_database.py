"""Database access of the log: SQLite or PostgreSQL, transactions, and errors of an unavailable database."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from captious._core.files import make_private, refuse_irregular
from captious.errors import InputError, format_one_line, require

if TYPE_CHECKING:
    import sqlalchemy as sa
else:
    sa = require("sqlalchemy", "studio")

# Seconds to wait for another process that is writing, for a free connection, or for a server that does not answer.
BUSY = 10.0
# Maximum number of connections of one process; further threads wait.
POOL = 48
# PostgreSQL's codes for a conflict of two transactions: serialization failure, deadlock, unique violation. Run again,
# the transaction sees what the other one stored.
AGAIN = ("40001", "40P01", "23505")
T = TypeVar("T")
# The write lock of each SQLite file, shared by all `Database` objects of this process.
_write_locks: dict[str, threading.Lock] = {}
_write_locks_guard = threading.Lock()


class DatabaseAway(OSError):
    """The database cannot be reached or written: disk full, read-only, server down. Nothing was stored."""


class Database:
    """One database, shared by all threads of this process."""

    def __init__(self, address: str | Path) -> None:
        self.url = parse_database_url(address)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self.name = str(self.url.database) if self.sqlite else self.url.render_as_string(hide_password=True)
        self.engine = _make_sqlite_engine(self.url) if self.sqlite else _make_postgresql_engine(self.url)
        with _write_locks_guard:
            self._write_lock = _write_locks.setdefault(os.path.realpath(self.name), threading.Lock())

    @property
    def absent(self) -> bool:
        """Whether the SQLite file does not exist yet; False for PostgreSQL, where the owner creates databases."""
        return self.sqlite and not Path(self.name).exists()

    @contextmanager
    def reading(self, snapshot: bool = False) -> Iterator[sa.Connection]:
        """Open a transaction for reading, and roll it back at the end.

        All statements of a transaction see the same state of the database in SQLite; in PostgreSQL only with
        ``snapshot``.
        """
        repeatable = snapshot and not self.sqlite
        engine = self.engine.execution_options(isolation_level="REPEATABLE READ") if repeatable else self.engine
        with self._convert_errors(), engine.connect() as connection:  # closing a connection rolls back
            self._begin(connection, "BEGIN")
            yield connection

    def write(self, change: Callable[[sa.Connection], T]) -> T:
        """Run a change in one transaction, commit it, and return the result of the change.

        If PostgreSQL reports a conflict with another transaction, the change is run again, three times in all. SQLite
        has one writer at a time: threads of this process wait for a lock here, other processes for the lock of the
        file.
        """
        with self._convert_errors(), self._write_lock if self.sqlite else nullcontext():
            for _ in range(2):
                try:
                    return self._apply_change(change)
                except sa.exc.DBAPIError as error:
                    if getattr(error.orig, "sqlstate", None) not in AGAIN:
                        raise
            return self._apply_change(change)  # the last attempt: a conflict is an error

    def _apply_change(self, change: Callable[[sa.Connection], T]) -> T:
        with self.engine.begin() as connection:
            self._begin(connection, "BEGIN IMMEDIATE")  # locks the file now, not at the first statement that writes
            return change(connection)

    def _begin(self, connection: sa.Connection, statement: str) -> None:
        """Begin the transaction in SQLite; PostgreSQL's driver begins it itself."""
        if self.sqlite:
            # SQLAlchemy's recipe, a listener of the event "begin", would slow down every statement.
            cast(sqlite3.Connection, connection.connection.driver_connection).execute(statement)

    def make(self) -> None:
        """Create the SQLite file unless it exists, and set its WAL mode, in which raters can read while one writes.

        The file remembers the mode. For PostgreSQL there is nothing to do.
        """
        if self.sqlite:
            with suppress(OSError):  # if it cannot be created, SQLite reports why
                make_private(self.name)  # the journal gets the same file mode
            with self.raw() as connection:
                connection.execute("PRAGMA journal_mode=WAL")

    @contextmanager
    def raw(self) -> Iterator[sqlite3.Connection]:
        """Open a connection of SQLite's own driver, outside of a transaction."""
        with self._convert_errors():
            connection = self.engine.raw_connection()
            try:
                yield cast(sqlite3.Connection, connection.driver_connection)
            finally:
                connection.close()

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Raise `DatabaseAway` for errors of an unavailable database; let other errors through."""
        try:
            yield
        except sa.exc.TimeoutError as error:
            raise DatabaseAway(errno.EIO, "all connections are in use", self.name) from error
        except (sa.exc.DatabaseError, sa.exc.InterfaceError, sqlite3.Error) as error:
            cause = getattr(error, "orig", None) or error
            if not _is_away(cause):
                raise
            raise DatabaseAway(errno.EIO, format_one_line(cause), self.name) from error


def _is_away(error: BaseException) -> bool:
    """Return True if a driver's error means that the database is unavailable, not that a statement is wrong."""
    if isinstance(error, sqlite3.Error):
        # Subclasses such as IntegrityError are errors of a statement. SQLite raises DatabaseError itself if the file is
        # damaged or is not a database.
        return type(error) in (sqlite3.OperationalError, sqlite3.DatabaseError)
    psycopg = require("psycopg", "studio-postgres")
    # psycopg reports read-only as InternalError, a full disk and a lost connection as OperationalError.
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError))


def parse_database_url(database: str | Path) -> sa.URL:
    """Parse the address of a database: a path, ``sqlite:///…`` or ``postgresql://…``."""
    text = str(database)
    if "://" not in text:
        refuse_irregular(text)
        return sa.URL.create("sqlite", database=text)
    try:
        url = sa.make_url(text)
    except sa.exc.ArgumentError:
        raise InputError("the database is neither a path nor an address such as postgresql://host/name") from None
    if url.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        require("psycopg", "studio-postgres")
        return url.set(drivername="postgresql+psycopg")
    if url.drivername in ("sqlite", "sqlite+pysqlite") and url.database and url.database != ":memory:":
        refuse_irregular(url.database)
        return url
    raise InputError(f"database {url.drivername}://…: expected a file of SQLite, or postgresql://…")


def _make_postgresql_engine(url: sa.URL) -> sa.Engine:
    options = {"pool_size": 8, "max_overflow": POOL - 8, "pool_timeout": BUSY, "pool_pre_ping": True}
    return sa.create_engine(url, connect_args={"connect_timeout": int(BUSY)}, **options)


def _make_sqlite_engine(url: sa.URL) -> sa.Engine:
    options = {"pool_size": 8, "max_overflow": POOL - 8, "pool_timeout": BUSY}
    engine = sa.create_engine(url, connect_args={"timeout": BUSY, "check_same_thread": False}, **options)
    sa.event.listen(engine, "connect", _set_up_sqlite)
    return engine


def _set_up_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions itself
    # FULL: a committed rating survives a power failure. Recursive triggers: INSERT OR REPLACE fires the triggers that
    # forbid to delete rows.
    for setting in ("synchronous=FULL", "recursive_triggers=ON"):
        connection.execute(f"PRAGMA {setting}")
