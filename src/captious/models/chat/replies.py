"""The reply store: request digest → raw response, kept for good, shared by processes, whole after any crash."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from captious.errors import InputError

VERSION = 1
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS reply (digest TEXT PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, "
    "model TEXT NOT NULL, request TEXT NOT NULL, response TEXT NOT NULL, seconds REAL NOT NULL)",
    "CREATE TRIGGER IF NOT EXISTS reply_kept BEFORE DELETE ON reply "
    "BEGIN SELECT RAISE(ABORT, 'replies are never deleted'); END",
    "CREATE TRIGGER IF NOT EXISTS reply_unchanged BEFORE UPDATE ON reply "
    "BEGIN SELECT RAISE(ABORT, 'replies are never changed'); END",
    f"PRAGMA user_version = {VERSION}",
)
AT_ONCE = 500
"""Digests in one query."""


class ReplyStore:
    """Replies in one SQLite file, which can be copied and sent along with a result.

    Every reply is on the disk before `put` returns. Rows are only added.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        with self._refusing():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise InputError(f"{path}: a reply store of format {version}, expected {VERSION}")
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA recursive_triggers = ON")
            if version == 0:
                for statement in SCHEMA:
                    self._connection.execute(statement)

    def __len__(self) -> int:
        (number,) = self._connection.execute("SELECT count(*) FROM reply").fetchone()
        return int(number)

    def get(self, digests: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The raw responses that are there, by digest."""
        return {digest: json.loads(response) for digest, response in self._select("digest, response", digests)}

    def has(self, digests: Sequence[str]) -> set[str]:
        """Those of the digests that have a response."""
        return {digest for (digest,) in self._select("digest", digests)}

    def _select(self, columns: str, digests: Sequence[str]) -> Iterator[tuple[str, ...]]:
        for start in range(0, len(digests), AT_ONCE):
            part = digests[start : start + AT_ONCE]
            query = f"SELECT {columns} FROM reply WHERE digest IN ({','.join('?' * len(part))})"
            with self._lock, self._refusing():
                rows = self._connection.execute(query, part).fetchall()
            yield from rows

    def put(self, digest: str, request: Mapping[str, Any], response: Mapping[str, Any], seconds: float) -> None:
        """Keep a response. One that is there already stays, whichever process brought it."""
        row = (digest, str(request["model"]), _text(request), _text(response), seconds)
        with self._lock, self._refusing():
            self._connection.execute(
                "INSERT INTO reply (digest, model, request, response, seconds) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (digest) DO NOTHING",
                row,
            )

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"{self.path}: cannot be used as a store of replies ({error})") from None


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value)
