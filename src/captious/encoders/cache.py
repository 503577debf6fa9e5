"""The feature cache: rows by key, in memory and on disk, shared by every process of a user without locks.

A store is a list of segments, newest first. Rows are written every few seconds, so that a kill loses little; what
cannot be written stays in memory, and what cannot be read counts as absent. Reading a segment touches its file, which
is how the least recently used ones are found when room is short.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt

from captious.encoders import pruning
from captious.encoders.compaction import compact
from captious.encoders.segments import (
    SUFFIX,
    Damaged,
    Keys,
    Places,
    Rows,
    Segment,
    Space,
    read,
    unique_keys,
    write,
)

FLUSH_BYTES = 32 << 20
FLUSH_SECONDS = 5.0
MEMORY_BYTES = 2 << 30
"""Rows that are on no disk are kept for later calls up to this size."""
TOUCH_SECONDS = 60.0
CHUNK_BYTES = 4 << 20
Lengths = npt.NDArray[np.int32]


class Store:
    """Rows of one space. ``root`` is the folder of all stores; without one, rows live as long as the process."""

    def __init__(self, space: Space, root: Path | None = None, log: Callable[[str], None] = lambda line: None) -> None:
        self.space, self.root, self.log = space, root, log
        self.folder = root / space.folder if root is not None else None
        self.segments: list[Segment] = []
        self.damaged: dict[Path, str] = {}
        self._touched: dict[Path, float] = {}
        self._pending: list[tuple[Keys, Rows, Lengths]] = []
        self._since = 0.0
        self._writable = True

    def refresh(self) -> None:
        """See what other processes wrote or removed since."""
        self._writable = True
        memory = [segment for segment in self.segments if segment.path is None]
        known = {segment.path: segment for segment in self.segments if segment.path is not None}
        listed = self._listed()
        for _ in range(10):
            before = listed
            try:
                found = [known.get(path) or self._opened(path) for path in listed]
            except FileNotFoundError:  # merged or pruned between listing and opening
                listed = self._listed()
                continue
            self.segments = memory + [segment for segment in found if segment is not None]
            known = {segment.path: segment for segment in self.segments if segment.path is not None}
            # A merge while the folder was read can hide both the sources and what came of them: read it again.
            listed = self._listed()
            if listed == before:
                return

    def gather(self, keys: Keys) -> tuple[Rows, Lengths, npt.NDArray[np.bool_]]:
        """Rows and lengths of keys, and which were found; fastest where keys are sorted."""
        rows = np.empty((len(keys), *self.space.shape), self.space.dtype)
        lengths = np.zeros(len(keys), np.int32)
        found = np.zeros(len(keys), bool)
        left = np.arange(len(keys))
        for segment in list(self.segments):
            at = segment.places(keys[left])
            here = at >= 0
            if here.any() and self._copy(segment, at[here], left[here], rows, lengths):
                found[left[here]] = True
                left = left[~here]
            if not len(left):
                break
        return rows, lengths, found

    def holds(self, key: bytes) -> bool:
        """Whether one key is here with a sound row."""
        return any(segment.holds(key) for segment in self.segments)

    def put(self, keys: Keys, rows: Rows, lengths: Lengths | None = None) -> None:
        """Keep rows; they are written, and found by others, within seconds."""
        if not len(keys):
            return
        if not self._pending:
            self._since = time.monotonic()
        known = np.zeros(len(keys), np.int32) if lengths is None else np.asarray(lengths, np.int32)
        self._pending.append((keys, rows, known))
        size = sum(rows.nbytes for _, rows, _ in self._pending)
        if size >= FLUSH_BYTES or time.monotonic() - self._since >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting."""
        if not self._pending:
            return
        keys, rows, lengths = (np.concatenate(parts) for parts in zip(*self._pending, strict=True))
        self._pending = []
        distinct, first, _ = unique_keys(keys)
        segment = Segment(distinct, lengths[first], rows[first])
        self.segments.insert(0, self._written(segment) if self.folder is not None and self._writable else segment)

    def settle(self) -> None:
        """Write what is waiting, merge small segments, and keep to the size limit."""
        self.flush()
        if self.folder is not None and self.root is not None and self._writable:
            try:
                if compact(self.folder, self.space):
                    self.refresh()
                pruning.shrink(self.root, pruning.limit())
            except OSError as error:
                self._without(error)
        kept = np.cumsum([0 if s.path else s.rows.nbytes for s in self.segments])
        self.segments = [s for s, size in zip(self.segments, kept, strict=True) if s.path or size <= MEMORY_BYTES]

    def _listed(self) -> list[Path]:
        if self.folder is None or not self.folder.is_dir():
            return []
        try:
            return sorted((path for path in self.folder.iterdir() if path.suffix == SUFFIX), reverse=True)
        except OSError as error:
            self._without(error)
            return []

    def _opened(self, path: Path) -> Segment | None:
        if path in self.damaged:
            return None
        try:
            return read(path, self.space)
        except Damaged as error:
            self._condemn(path, str(error))
            return None

    def _written(self, segment: Segment) -> Segment:
        assert self.folder is not None and self.root is not None
        try:
            return read(write(self.folder, self.space, segment), self.space)
        except FileNotFoundError as error:
            if not self.root.is_dir():  # it cannot even be made
                self._without(error)
            return segment  # else pruned by another process at once: the rows are still here
        except (OSError, Damaged) as error:
            self._without(error)
            return segment

    def _copy(self, segment: Segment, at: Places, to: Places, rows: Rows, lengths: Lengths) -> bool:
        """Read rows of a segment, by several threads where they are many; false where they are damaged."""
        step = max(1, CHUNK_BYTES // max(1, prod(self.space.shape) * rows.itemsize))

        def copy(start: int) -> bool:
            places = at[start : start + step]
            rows[to[start : start + step]] = part = segment.rows[places]
            return segment.sound(part, places)

        starts = range(0, len(at), step)
        if len(starts) > 1:
            with ThreadPoolExecutor(4) as pool:
                sound = all(pool.map(copy, starts))
        else:
            sound = all(map(copy, starts))
        if sound:
            lengths[to] = segment.lengths[at]
            self._touch(segment)
        elif segment.path is not None:
            self._condemn(segment.path, "its rows are damaged (checksum differs)")
            self.segments = [other for other in self.segments if other is not segment]
        return sound

    def _touch(self, segment: Segment) -> None:
        now = time.monotonic()
        if segment.path is not None and now - self._touched.get(segment.path, -TOUCH_SECONDS) >= TOUCH_SECONDS:
            self._touched[segment.path] = now
            with suppress(OSError):
                os.utime(segment.path)

    def _condemn(self, path: Path, why: str) -> None:
        self.damaged[path] = why
        self.log(f"feature cache: {path.name} {why}; it is skipped (captious cache lists it)")

    def _without(self, error: Exception) -> None:
        self._writable = False
        reason = (error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split())
        self.log(f"feature cache: {self.folder} cannot be used ({reason}); going on without it")
