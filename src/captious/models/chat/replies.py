"""The reply store: request digest → raw response, kept for good, shared by processes, whole after any crash."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from captious._files import data_folder, make_private
from captious.errors import InputError

VERSION = 1
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS reply (digest TEXT PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, "
    "model TEXT NOT NULL, request TEXT NOT NULL, response TEXT NOT NULL, seconds REAL NOT NULL)",
    "CREATE TRIGGER IF NOT EXISTS reply_kept BEFORE DELETE ON reply "
    "BEGIN SELECT RAISE(ABORT, 'replies are never deleted'); END",
    "CREATE TRIGGER IF NOT EXISTS reply_unchanged BEFORE UPDATE ON reply "
    "BEGIN SELECT RAISE(ABORT, 'replies are never changed'); END",
    "CREATE TABLE IF NOT EXISTS failure (digest TEXT PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, "
    "reason TEXT NOT NULL)",
    f"PRAGMA user_version = {VERSION}",
)
AT_ONCE = 500
"""Digests in one query."""


def default_path() -> Path:
    """The user's own store."""
    return data_folder() / "replies.db"


class Record(NamedTuple):
    """A response with what was asked."""

    digest: str
    request: Mapping[str, Any]
    response: Mapping[str, Any]
    seconds: float


class ReplyStore:
    """Replies in one SQLite file, which can be copied and sent along with a result.

    Every reply is on the disk before `put` returns. Rows are only added.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        with self._refusing():
            self._connection = self._connect()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise InputError(f"{path}: a reply store of format {version}, expected {VERSION}")
            tables = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master")}
            if version == 0 and tables and "reply" not in tables:
                raise InputError(f"{path}: a database of another program, expected a store of replies")
            if version == 0:
                self._create()
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA recursive_triggers = ON")

    def _connect(self) -> sqlite3.Connection:
        fixed = self.path.exists() and not os.access(self.path, os.W_OK)  # such as one that came with a data set
        address = f"{self.path.absolute().as_uri()}?mode=ro&immutable=1" if fixed else str(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        make_private(self.path)
        return sqlite3.connect(address, timeout=60, isolation_level=None, check_same_thread=False, uri=fixed)

    def _create(self) -> None:
        """Make the tables; another process may be about to do the same."""
        self._connection.execute("PRAGMA journal_mode = WAL")
        for statement in SCHEMA:
            self._connection.execute(statement)

    def __len__(self) -> int:
        (number,) = self._connection.execute("SELECT count(*) FROM reply").fetchone()
        return int(number)

    def get(self, digests: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The raw responses that are there, by digest."""
        return {digest: json.loads(response) for digest, response in self._select("digest, response", digests)}

    def has(self, digests: Sequence[str]) -> set[str]:
        """The digests that have a response."""
        return {digest for (digest,) in self._select("digest", digests)}

    def _select(self, columns: str, digests: Sequence[str], table: str = "reply") -> Iterator[Any]:
        for start in range(0, len(digests), AT_ONCE):
            part = digests[start : start + AT_ONCE]
            query = f"SELECT {columns} FROM {table} WHERE digest IN ({','.join('?' * len(part))})"
            with self._lock, self._refusing():
                rows = self._connection.execute(query, part).fetchall()
            yield from rows

    def put(self, *records: Record) -> None:
        """Keep responses, all or none of them. One that is there already stays, whichever process brought it."""
        rows = [
            (one.digest, str(one.request["model"]), json.dumps(one.request), json.dumps(one.response), one.seconds)
            for one in records
        ]
        with self._lock, self._refusing():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(
                    "INSERT INTO reply (digest, model, request, response, seconds) VALUES (?, ?, ?, ?, ?) "
                    "ON CONFLICT (digest) DO NOTHING",
                    rows,
                )
                self._connection.execute("COMMIT")
            except sqlite3.Error:
                self._connection.execute("ROLLBACK")
                raise

    def put_failure(self, digest: str, reason: str) -> None:
        """Keep why a question had no reply, for a replay; it is asked again by any other run."""
        with self._lock, self._refusing():
            self._connection.execute(
                "INSERT INTO failure (digest, reason) VALUES (?, ?) "
                "ON CONFLICT (digest) DO UPDATE SET reason = excluded.reason, at = CURRENT_TIMESTAMP",
                (digest, reason),
            )

    def failures(self, digests: Sequence[str]) -> dict[str, str]:
        """Why questions had no reply, by digest."""
        return dict(self._select("digest, reason", digests, "failure"))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"{self.path}: cannot be used as a store of replies ({error})") from None
