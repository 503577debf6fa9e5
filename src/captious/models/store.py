"""The feature cache: rows of numbers under the key of a content, on disk, shared by processes.

`open_store` opens the store of a space (one encoder, one kind of content). `open_file_index` opens the store of the
content that a file had, so that an unchanged file is not read again. `list_stores`, `shrink` and `remove` manage the
disk. Layout::

    features/                                  get_cache_root()
      4f1c0a2b9d3e-images/                     one Store: {fingerprint}-{kind}
        01795017…-5be1d2aa.arrow               one Segment, written once, never changed
        01795018…-0c44f1e0.arrow               newer segments are searched first
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np

from captious._core.files import get_data_folder
from captious._core.sizes import parse_size
from captious._core.types import Bools, Ints, Ints32
from captious.captions import ImageData, ImageSource
from captious.errors import InputError
from captious.models.segments import (
    SUFFIX,
    DamagedSegment,
    FeatureSpace,
    Keys,
    Rows,
    Segment,
    as_keys,
    compact,
    find_unique_keys,
    hash_content,
    read_header,
    read_segment,
    write_segment,
)
from captious.options import Runtime, get_runtime

# Pending rows are written when they reach this size or this age.
FLUSH_BYTES = 32 << 20
FLUSH_SECONDS = 5.0
# Rows that are only in memory are kept for later calls up to this size.
MEMORY_BYTES = 2 << 30
# Time between two updates of a segment's time of last use.
TOUCH_SECONDS = 60.0
# Size of the pieces in which threads copy rows.
CHUNK_BYTES = 4 << 20


class Store:
    """Rows of one space. ``root`` is the folder of all stores; if it is None, rows are only in memory."""

    def __init__(
        self, space: FeatureSpace, root: Path | None = None, log: Callable[[str], None] = lambda line: None
    ) -> None:
        self.space, self.root, self.log = space, root, log
        self.folder = root / space.folder if root is not None else None
        self.segments: list[Segment] = []  # in the order of search
        self.damaged: dict[Path, str] = {}
        self._touched: dict[Path, float] = {}  # time of the last `_touch`
        self._pending: list[tuple[Keys, Rows, Ints32]] = []
        self._since = 0.0  # time of the first pending row
        self._writable = True

    def refresh(self) -> None:
        """Update the list of segments with what other processes wrote or removed."""
        self._writable = True
        memory = [segment for segment in self.segments if segment.path is None]
        mapped = {segment.path: segment for segment in self.segments if segment.path is not None}
        listed = self._list_segments()
        for _ in range(10):  # usually once; the limit is for folders that other processes change all the time
            before = listed
            try:
                segments = [mapped.get(path) or self._map(path) for path in listed]
            except FileNotFoundError:  # merged or pruned between listing and opening
                listed = self._list_segments()
                continue
            self.segments = memory + [segment for segment in segments if segment is not None]
            mapped = {segment.path: segment for segment in self.segments if segment.path is not None}
            # A merge during the listing can hide both the old segments and the merged one: list again.
            listed = self._list_segments()
            if listed == before:
                return

    def gather(self, keys: Keys) -> tuple[Rows, Ints32, Bools]:
        """Return the row and the length (such as a number of tokens) of each key, and a mask of the keys that are
        stored; other rows are undefined. Sorted keys are fastest.
        """
        rows = np.empty((len(keys), *self.space.shape), self.space.dtype)
        lengths = np.zeros(len(keys), np.int32)
        stored = np.zeros(len(keys), bool)
        left = np.arange(len(keys))
        for segment in list(self.segments):
            at = segment.find_rows(keys[left])
            here = at >= 0
            if here.any() and self._copy(segment, at[here], left[here], rows, lengths):
                stored[left[here]] = True
                left = left[~here]
            if not len(left):
                break
        return rows, lengths, stored

    def has_intact_row(self, key: bytes) -> bool:
        """Return True if a key is stored with an intact row."""
        return any(segment.has_intact_row(key) for segment in self.segments)

    def put(self, keys: Keys, rows: Rows, lengths: Ints32 | None = None) -> None:
        """Store rows under keys. Within seconds they are on disk, visible to other processes."""
        if not len(keys):
            return
        if not self._pending:
            self._since = time.monotonic()
        lengths = np.zeros(len(keys), np.int32) if lengths is None else np.asarray(lengths, np.int32)
        self._pending.append((keys, rows, lengths))
        size = sum(rows.nbytes for _, rows, _ in self._pending)
        if size >= FLUSH_BYTES or time.monotonic() - self._since >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the pending rows."""
        if not self._pending:
            return
        keys, rows, lengths = (np.concatenate(parts) for parts in zip(*self._pending, strict=True))
        self._pending = []
        distinct, first, _ = find_unique_keys(keys)
        segment = Segment(distinct, lengths[first], rows[first])
        self.segments.insert(0, self._write(segment) if self.folder is not None and self._writable else segment)

    def settle(self) -> None:
        """Finish a series of `put`: write the pending rows, merge small segments, and shrink the cache to its size
        limit.
        """
        self.flush()
        if self.folder is not None and self.root is not None and self._writable:
            try:
                if compact(self.folder, self.space):
                    self.refresh()
                shrink(self.root, get_size_limit())
            except OSError as error:
                self._disable(error)
        # Of the rows that are only in memory, keep the newest segments up to MEMORY_BYTES.
        memory = np.cumsum([0 if s.path else s.rows.nbytes for s in self.segments])
        self.segments = [s for s, size in zip(self.segments, memory, strict=True) if s.path or size <= MEMORY_BYTES]

    def _list_segments(self) -> list[Path]:
        if self.folder is None or not self.folder.is_dir():
            return []
        try:
            return sorted((path for path in self.folder.iterdir() if path.suffix == SUFFIX), reverse=True)
        except OSError as error:
            self._disable(error)
            return []

    def _map(self, path: Path) -> Segment | None:
        if path in self.damaged:
            return None
        try:
            return read_segment(path, self.space)
        except DamagedSegment as error:
            self._skip(path, str(error))
            return None

    def _write(self, segment: Segment) -> Segment:
        """Write a segment and map it. If that fails, return the segment in memory."""
        assert self.folder is not None and self.root is not None
        try:
            return read_segment(write_segment(self.folder, self.space, segment), self.space)
        except FileNotFoundError as error:
            if not self.root.is_dir():  # the cache folder cannot be created
                self._disable(error)
            return segment  # or another process pruned the file at once
        except (OSError, DamagedSegment) as error:
            self._disable(error)
            return segment

    def _copy(self, segment: Segment, source: Ints, target: Ints, rows: Rows, lengths: Ints32) -> bool:
        """Copy rows and lengths of a segment from the indices ``source`` to the indices ``target``, with threads if
        there are many. Return False if a row is damaged.
        """
        step = max(1, CHUNK_BYTES // max(1, prod(self.space.shape) * rows.itemsize))

        def copy_chunk(start: int) -> bool:
            indices = source[start : start + step]
            rows[target[start : start + step]] = part = segment.rows[indices]
            return segment.is_intact(part, indices)

        starts = range(0, len(source), step)
        if len(starts) > 1:
            with ThreadPoolExecutor(4) as pool:
                intact = all(pool.map(copy_chunk, starts))
        else:
            intact = all(map(copy_chunk, starts))
        if intact:
            lengths[target] = segment.lengths[source]
            self._touch(segment)
        elif segment.path is not None:
            self._skip(segment.path, "its rows are damaged (checksum differs)")
            self.segments = [other for other in self.segments if other is not segment]
        return intact

    def _touch(self, segment: Segment) -> None:
        """Update the time of last use, by which segments are pruned."""
        now = time.monotonic()
        if segment.path is not None and now - self._touched.get(segment.path, -TOUCH_SECONDS) >= TOUCH_SECONDS:
            self._touched[segment.path] = now
            with suppress(OSError):
                os.utime(segment.path)

    def _skip(self, path: Path, why: str) -> None:
        self.damaged[path] = why
        self.log(f"feature cache: {path.name} {why}; it is skipped (captious cache show lists it)")

    def _disable(self, error: Exception) -> None:
        """Keep new rows in memory only, until the next `refresh`."""
        self._writable = False
        reason = (error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split())
        self.log(f"feature cache: {self.folder} cannot be used ({reason}); going on without it")


MOST_OPEN = 16
_OPEN: OrderedDict[tuple[Path | None, FeatureSpace], Store] = OrderedDict()


def open_store(space: FeatureSpace, runtime: Runtime | None = None) -> Store:
    """Open the store of a space and refresh it; it is only in memory if the cache is off. Stores stay open for later
    calls.
    """
    runtime = runtime or get_runtime()
    root = get_cache_root() if runtime.cache and get_size_limit() else None
    store = _OPEN.setdefault((root, space), Store(space, root))
    _OPEN.move_to_end((root, space))
    store.log = runtime.log
    store.refresh()
    # Close the least recently used stores. Two stay open even if their rows in memory are large.
    while len(_OPEN) > MOST_OPEN or (len(_OPEN) > 2 and sum(map(_count_memory, _OPEN.values())) > MEMORY_BYTES):
        _OPEN.popitem(last=False)
    return store


def close_stores() -> None:
    """Drop all stores of this process from memory; files on disk are kept."""
    _OPEN.clear()


def _count_memory(store: Store) -> int:
    return sum(segment.rows.nbytes for segment in store.segments if segment.path is None)


# Rows are the 16 bytes of a content key.
FILES = FeatureSpace("", "paths", "content", (16,), "uint8")
# A file that changed more recently may change again without a new time stamp.
SETTLED_SECONDS = 2.0


def open_file_index() -> Store:
    """Open the index of files: from the hash of a file's path, size and times (`get_file_state`) to the key of its
    content.
    """
    return open_store(FILES)


def get_file_state(path: ImageSource) -> bytes | None:
    """Hash path, size, times and inode of a file; None if it is missing, no regular file, or changed a moment ago."""
    if isinstance(path, ImageData):
        return None
    try:
        stat = Path(path).stat()
    except (OSError, ValueError):
        return None
    if not S_ISREG(stat.st_mode) or max(stat.st_mtime, stat.st_ctime) > time.time() - SETTLED_SECONDS:
        return None
    state = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
    return hash_content(os.fsencode(Path(path).absolute()) + b"\0" + repr(state).encode())


def lookup(index: Store, states: Sequence[bytes | None]) -> list[bytes | None]:
    """Look up the content key of each file; None if its state is not in the index."""
    with_state = [number for number, state in enumerate(states) if state is not None]
    contents: list[bytes | None] = [None] * len(states)
    if with_state:
        rows, _, stored = index.gather(as_keys(state for state in states if state is not None))
        for number, row, here in zip(with_state, rows, stored.tolist(), strict=True):
            contents[number] = row.tobytes() if here else None
    return contents


def record(index: Store, states: Sequence[bytes | None], contents: Sequence[bytes]) -> None:
    """Store the content keys of files; files without a state are skipped."""
    pairs = [(state, content) for state, content in zip(states, contents, strict=True) if state is not None]
    if pairs:
        rows = np.frombuffer(b"".join(content for _, content in pairs), np.uint8).reshape(-1, 16)
        index.put(as_keys(state for state, _ in pairs), rows)


LIMIT_VARIABLE = "CAPTIOUS_CACHE_LIMIT"
LIMIT = "20GB"
# Files that are being written, before they get their final name.
DRAFTS = f".*{SUFFIX}.*.part"
# A draft this old belongs to a process that was killed.
STALE_SECONDS = 3600.0


def get_cache_root() -> Path:
    """Return the folder of this user's feature cache."""
    return get_data_folder() / "features"


def require_disk() -> None:
    """Raise InputError if there is no cache on disk, for calls that only fill it."""
    root = get_cache_root()
    if not get_size_limit():
        raise InputError(f"the cache is switched off ({LIMIT_VARIABLE} is 0): there is nothing to fill")
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{root}: cannot be made ({error.strerror}); set CAPTIOUS_HOME to a folder of yours") from None


def get_size_limit() -> int:
    """Return the size limit of the cache, in bytes."""
    text = os.environ.get(LIMIT_VARIABLE) or LIMIT
    try:
        return parse_size(text)
    except InputError as error:
        raise InputError(f"{LIMIT_VARIABLE}: {error}") from None


@dataclass
class StoreInfo:
    """Size, use and damage of one store on disk."""

    folder: Path
    encoder: str = ""
    fingerprint: str = ""
    kind: str = ""
    rows: int = 0
    segments: int = 0
    bytes: int = 0
    used: float = 0.0
    """Time of last use, in seconds since the epoch."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Reasons by name of the damaged files."""


def list_stores(root: Path, check: bool = False) -> list[StoreInfo]:
    """List the stores of the cache, the largest first; ``check`` reads every row to find damage."""
    folders = [folder for folder in sorted(root.iterdir()) if folder.is_dir()] if root.is_dir() else []
    infos = [_read_info(folder, check) for folder in folders]
    return sorted((info for info in infos if info.segments), key=lambda info: -info.bytes)


def shrink(root: Path, keep: int) -> int:
    """Remove the least recently used segments until the cache has at most ``keep`` bytes; return the bytes freed."""
    files = sorted((stat.st_mtime_ns, stat.st_size, path) for path, stat in _list_stats(root, f"*/*{SUFFIX}"))
    for path, stat in _list_stats(root, f"*/{DRAFTS}"):
        if time.time() - stat.st_mtime > STALE_SECONDS:
            _unlink(path)
    excess = sum(size for _, size, _ in files) - keep
    freed = 0
    for _, size, path in files:
        if freed >= excess:
            break
        freed += size * _unlink(path)  # 0 if it could not be removed
    return freed


def remove(root: Path, chosen: Callable[[StoreInfo], bool]) -> int:
    """Remove the stores that ``chosen`` selects, with their damaged files and drafts; return the bytes freed."""
    freed = 0
    for info in filter(chosen, list_stores(root)):
        for pattern in (f"*{SUFFIX}", DRAFTS):
            freed += sum(stat.st_size * _unlink(path) for path, stat in _list_stats(info.folder, pattern))
        with suppress(OSError):  # something in it is not ours
            info.folder.rmdir()
    return freed


def remove_damaged(root: Path) -> int:
    """Remove damaged files; return their number."""
    return sum(_unlink(info.folder / name) for info in list_stores(root, check=True) for name in info.damaged)


def _read_info(folder: Path, check: bool) -> StoreInfo:
    fingerprint, _, kind = folder.name.partition("-")
    info = StoreInfo(folder, fingerprint=fingerprint, kind=kind)
    for path, stat in _list_stats(folder, f"*{SUFFIX}"):
        try:
            header = read_header(path)
            if (header["fingerprint"], header["kind"]) != (fingerprint, kind):
                raise DamagedSegment(f"contains {header['kind']} of {header['fingerprint']}: it does not belong here")
            if check:
                _check(path, header)
            info.rows += header["rows"]
            info.encoder = header["encoder"]
        except DamagedSegment as error:
            info.damaged[path.name] = str(error)
        except FileNotFoundError:  # merged or pruned meanwhile
            continue
        info.segments += 1
        info.bytes += stat.st_size
        info.used = max(info.used, stat.st_mtime)
    return info


def _check(path: Path, header: dict[str, Any]) -> None:
    """Read all rows of a segment. Raise DamagedSegment if one is damaged."""
    space = FeatureSpace(
        header["encoder"], header["fingerprint"], header["kind"], tuple(header["shape"]), header["dtype"]
    )
    segment = read_segment(path, space)
    if not segment.is_intact(segment.rows, np.arange(len(segment))):
        raise DamagedSegment("its rows are damaged (checksum differs)")


def _list_stats(folder: Path, pattern: str) -> Iterator[tuple[Path, os.stat_result]]:
    for path in list(folder.glob(pattern)):
        with suppress(FileNotFoundError):
            yield path, path.stat()


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
