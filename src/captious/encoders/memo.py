"""Which content a file had when it was last read, so that a second run need not read its images.

A file is known by its path, size, inode and times of change. A file that changed within the last seconds is read again:
a later change could leave all of these as they are.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from captious.encoders.cache import Store
from captious.encoders.segments import Space, as_keys, key_of

SPACE = Space("", "paths", "content", (16,), "uint8")
SETTLED_SECONDS = 2.0


def mark(path: str) -> bytes | None:
    """The state of a file as a key; none where it is missing, no regular file, or changed a moment ago."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode) or max(found.st_mtime, found.st_ctime) > time.time() - SETTLED_SECONDS:
        return None
    state = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
    return key_of(os.fsencode(Path(path).absolute()) + b"\0" + repr(state).encode())


def recall(store: Store, marks: Sequence[bytes | None]) -> list[bytes | None]:
    """The content key of each file, where its state is known."""
    known = [place for place, key in enumerate(marks) if key is not None]
    contents: list[bytes | None] = [None] * len(marks)
    if known:
        rows, _, found = store.gather(as_keys(key for key in marks if key is not None))
        for place, row, here in zip(known, rows, found.tolist(), strict=True):
            contents[place] = row.tobytes() if here else None
    return contents


def remember(store: Store, marks: Sequence[bytes | None], contents: Sequence[bytes]) -> None:
    """Keep the content keys of files whose state is known."""
    pairs = [(key, content) for key, content in zip(marks, contents, strict=True) if key is not None]
    if pairs:
        rows = np.frombuffer(b"".join(content for _, content in pairs), np.uint8).reshape(-1, 16)
        store.put(as_keys(key for key, _ in pairs), rows)
