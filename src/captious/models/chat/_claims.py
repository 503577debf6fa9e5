"""Locks on questions that are being asked, so that no two processes pay for the same one.

A claim is a lock on one byte of a file next to the reply store. The system releases it when the process ends.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock

from captious._core.files import PRIVATE

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
