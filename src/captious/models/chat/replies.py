"""The reply store: raw responses by request digest, append-only, shared by processes, crash-safe."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from captious._core.files import PRIVATE, get_data_folder, make_private
from captious.errors import InputError

VERSION = 2
UNCHANGED = (
    "CREATE TRIGGER IF NOT EXISTS reply_unchanged BEFORE UPDATE ON reply "
    "BEGIN SELECT RAISE(ABORT, 'replies are never changed'); END"
)
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS reply (digest TEXT PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, "
    "model TEXT NOT NULL, request TEXT NOT NULL, response TEXT NOT NULL, seconds REAL NOT NULL, "
    "checksum TEXT NOT NULL DEFAULT '')",
    "CREATE TRIGGER IF NOT EXISTS reply_kept BEFORE DELETE ON reply "
    "BEGIN SELECT RAISE(ABORT, 'replies are never deleted'); END",
    UNCHANGED,
    "CREATE TABLE IF NOT EXISTS failure (digest TEXT PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, "
    "reason TEXT NOT NULL)",
    f"PRAGMA user_version = {VERSION}",
)
# Statements that convert a store of format 1, whose replies had no checksums.
CHECKSUMS = (
    "BEGIN IMMEDIATE",
    "DROP TRIGGER IF EXISTS reply_unchanged",
    "ALTER TABLE reply ADD COLUMN checksum TEXT NOT NULL DEFAULT ''",
    "UPDATE reply SET checksum = captious_checksum(digest, response)",
    UNCHANGED,
    f"PRAGMA user_version = {VERSION}",
    "COMMIT",
)
# Seconds to wait for the lock of another process.
PATIENCE = 60.0
# Digests in one query.
AT_ONCE = 500


def get_default_path() -> Path:
    """Return the path of the user's own store."""
    return get_data_folder() / "replies.db"


def compute_checksum(digest: str, response: Any) -> str:
    """Hash a reply with its digest, to detect later changes."""
    return hashlib.sha256(f"{digest} {response}".encode("utf-8", "replace")).hexdigest()[:16]


class ReplyRecord(NamedTuple):
    """A response with its request."""

    digest: str
    request: Mapping[str, Any]
    response: Mapping[str, Any]
    seconds: float


class ReplyStore:
    """Replies in one SQLite file, which can be copied and published with a result.

    Every reply is on the disk before `put` returns. Rows are only added.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.claims = Claims(path.with_name(f"{path.name}.asking"))
        self._lock = Lock()
        with self._report_errors():
            self._connection = self._connect()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version not in range(VERSION + 1):
                raise InputError(f"{path}: a reply store of format {version}, expected {VERSION}")
            tables = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master")}
            if version == 0 and tables and "reply" not in tables:
                raise InputError(f"{path}: a database of another program, expected a store of replies")
            if version == 0:
                self._create()
            elif version == 1 and not self._fixed:
                self._add_checksums()
            self._checked = version != 1 or not self._fixed
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA recursive_triggers = ON")

    def _connect(self) -> sqlite3.Connection:
        # A read-only store, such as one that came with a data set.
        self._fixed = fixed = self.path.exists() and not os.access(self.path, os.W_OK)
        address = f"{self.path.absolute().as_uri()}?mode=ro&immutable=1" if fixed else str(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        make_private(self.path)
        return sqlite3.connect(address, timeout=PATIENCE, isolation_level=None, check_same_thread=False, uri=fixed)

    def _create(self) -> None:
        """Create the tables; retry while another process does the same, as SQLite does not wait at every step."""
        end = time.monotonic() + PATIENCE
        for statement in ("PRAGMA journal_mode = WAL", *SCHEMA):
            while True:
                try:
                    self._connection.execute(statement)
                    break
                except sqlite3.OperationalError as error:
                    if "locked" not in str(error) or time.monotonic() > end:
                        raise
                    time.sleep(0.02)

    def _add_checksums(self) -> None:
        self._connection.create_function("captious_checksum", 2, compute_checksum, deterministic=True)
        try:
            for statement in CHECKSUMS:
                self._connection.execute(statement)
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version != VERSION:  # another process has not done it either
                raise

    def __len__(self) -> int:
        (number,) = self._connection.execute("SELECT count(*) FROM reply").fetchone()
        return int(number)

    def get(self, digests: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the stored raw responses by digest; raise InputError if one was changed after it was stored."""
        columns = "digest, response, checksum" if self._checked else "digest, response, NULL"
        return {
            digest: self._parse_response(digest, response, stored)
            for digest, response, stored in self._select(columns, digests)
        }

    def _parse_response(self, digest: str, text: Any, stored: str | None) -> dict[str, Any]:
        try:
            response = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            response = None
        if not isinstance(response, dict) or stored not in (None, compute_checksum(digest, text)):
            raise InputError(
                f"{self.path}: reply {digest[:12]} was changed or damaged after it was stored; "
                "take another copy of the store"
            )
        return response

    def has(self, digests: Sequence[str]) -> set[str]:
        """Return the digests that have a response."""
        return {digest for (digest,) in self._select("digest", digests)}

    def _select(self, columns: str, digests: Sequence[str], table: str = "reply") -> Iterator[Any]:
        for start in range(0, len(digests), AT_ONCE):
            part = digests[start : start + AT_ONCE]
            query = f"SELECT {columns} FROM {table} WHERE digest IN ({','.join('?' * len(part))})"
            with self._lock, self._report_errors():
                rows = self._connection.execute(query, part).fetchall()
            yield from rows

    def put(self, *records: ReplyRecord) -> None:
        """Store responses, all or none of them. An existing response is kept, whichever process wrote it."""
        rows = []
        for one in records:
            request, response = json.dumps(one.request), json.dumps(one.response)
            values = (one.digest, str(one.request["model"]), request, response, one.seconds)
            rows.append((*values, compute_checksum(one.digest, response)))
        with self._lock, self._report_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(
                    "INSERT INTO reply (digest, model, request, response, seconds, checksum) VALUES (?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT (digest) DO NOTHING",
                    rows,
                )
                self._connection.execute("COMMIT")
            except sqlite3.Error:
                self._connection.execute("ROLLBACK")
                raise

    def put_failure(self, digest: str, reason: str) -> None:
        """Store why a question had no reply, for a replay; any other run asks it again."""
        with self._lock, self._report_errors():
            self._connection.execute(
                "INSERT INTO failure (digest, reason) VALUES (?, ?) "
                "ON CONFLICT (digest) DO UPDATE SET reason = excluded.reason, at = CURRENT_TIMESTAMP",
                (digest, reason),
            )

    def failures(self, digests: Sequence[str]) -> dict[str, str]:
        """Return why questions had no reply, by digest."""
        return dict(self._select("digest, reason", digests, "failure"))

    def close(self) -> None:
        """Close the file."""
        self.claims.close()
        self._connection.close()

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"{self.path}: cannot be used as a store of replies ({error})") from None


# Locks on questions that are being asked, so that no two processes pay for the same one.
#
# A claim is a lock on one byte of a file next to the reply store. The system releases it when the process ends.
# Digits of a digest that select the byte to lock: 60 bits, so that two questions hardly ever share one.
HEXADECIMAL = 15


class Claims:
    """Claims of this process on the questions of one store; thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._own: set[str] = set()
        self._lock = Lock()
        self._file: int | None = None

    def take(self, digest: str) -> bool:
        """Claim a question; return False if it is claimed already. If files cannot be locked, every claim succeeds."""
        with self._lock:
            if digest in self._own:
                return False
            try:
                if self._file is None:
                    self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE)
                taken = _lock_byte(self._file, int(digest[:HEXADECIMAL], 16))
            except OSError:
                taken = True
            if taken:
                self._own.add(digest)
            return taken

    def give_back(self, *digests: str) -> None:
        """Release claims of this process."""
        with self._lock:
            for digest in self._own.intersection(digests):
                self._own.discard(digest)
                if self._file is not None:
                    with suppress(OSError):
                        _unlock_byte(self._file, int(digest[:HEXADECIMAL], 16))

    def close(self) -> None:
        """Release all claims of this process."""
        with self._lock:
            self._own.clear()
            if self._file is not None:
                os.close(self._file)
            self._file = None


if sys.platform == "win32":
    import msvcrt

    def _lock_byte(file: int, offset: int) -> bool:
        os.lseek(file, offset, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _unlock_byte(file: int, offset: int) -> None:
        os.lseek(file, offset, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock_byte(file: int, offset: int) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _unlock_byte(file: int, offset: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, offset)
