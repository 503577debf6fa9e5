"""How much room the feature cache takes, what is in it, and what goes first when room is short."""

from __future__ import annotations

import os
import re
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

from captious._files import data_folder
from captious._typing import Bools, Ints, Ints32
from captious.errors import InputError
from captious.models._segments import (
    SUFFIX,
    Damaged,
    Keys,
    Rows,
    Segment,
    Space,
    as_keys,
    compact,
    facts_of,
    key_of,
    read,
    unique_keys,
    write,
)
from captious.options import Runtime, current

LIMIT_VARIABLE = "CAPTIOUS_CACHE_LIMIT"
LIMIT = "20GB"
DRAFTS = f".*{SUFFIX}.*.part"
STALE_SECONDS = 3600.0
"""A draft this old belongs to a process that was killed."""
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass
class Holding:
    """What the cache holds of one encoder and kind."""

    folder: Path
    encoder: str = ""
    fingerprint: str = ""
    kind: str = ""
    rows: int = 0
    segments: int = 0
    bytes: int = 0
    used: float = 0.0
    """When it was last read or written, in seconds of the clock."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Files that are skipped, with the reason."""


def cache_root() -> Path:
    """Where this user's features are kept."""
    return data_folder() / "features"


def parse_size(text: str) -> int:
    """Bytes of a size as people write it.

    >>> parse_size("2GB"), parse_size("1.5 MB"), parse_size("0")
    (2000000000, 1500000, 0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    if found is None:
        raise InputError(f"{text!r} is no size, expected such as 500MB or 2GB")
    number, unit, binary = found[1], found[2].upper(), found[3]
    return int(float(number) * (1024 ** "KMGT".index(unit) * 1024 if binary and unit else UNITS[unit]))


def show_size(size: float) -> str:
    """Bytes as people read them.

    >>> show_size(999), show_size(2_345_000_000)
    ('999 B', '2.3 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def size_limit() -> int:
    """The size the cache may have."""
    text = os.environ.get(LIMIT_VARIABLE) or LIMIT
    try:
        return parse_size(text)
    except InputError as error:
        raise InputError(f"{LIMIT_VARIABLE}: {error}") from None


def holdings(root: Path, check: bool = False) -> list[Holding]:
    """What is in the cache, the largest first; ``check`` reads every row, to find damage that shows only on use."""
    folders = [folder for folder in sorted(root.iterdir()) if folder.is_dir()] if root.is_dir() else []
    found = [_holding(folder, check) for folder in folders]
    return sorted((holding for holding in found if holding.segments), key=lambda it: -it.bytes)


def shrink(root: Path, keep: int) -> int:
    """Remove the least recently used segments until the cache takes no more than ``keep``; returns the bytes freed."""
    files = sorted((stat.st_mtime_ns, stat.st_size, path) for path, stat in _stats(root, f"*/*{SUFFIX}"))
    for path, stat in _stats(root, f"*/{DRAFTS}"):
        if time.time() - stat.st_mtime > STALE_SECONDS:
            _unlink(path)
    excess = sum(size for _, size, _ in files) - keep
    freed = 0
    for _, size, path in files:
        if freed >= excess:
            break
        freed += size * _unlink(path)
    return freed


def remove(root: Path, chosen: Callable[[Holding], bool]) -> int:
    """Remove whole holdings, damaged files and old drafts included; returns the bytes freed."""
    freed = 0
    for holding in filter(chosen, holdings(root)):
        for pattern in (f"*{SUFFIX}", DRAFTS):
            freed += sum(stat.st_size * _unlink(path) for path, stat in _stats(holding.folder, pattern))
        with suppress(OSError):  # it holds something that is not ours
            holding.folder.rmdir()
    return freed


def remove_damaged(root: Path) -> int:
    """Remove the files that are skipped; returns how many."""
    found = holdings(root, check=True)
    return sum(_unlink(holding.folder / name) for holding in found for name in holding.damaged)


def _holding(folder: Path, check: bool) -> Holding:
    fingerprint, _, kind = folder.name.partition("-")
    holding = Holding(folder, fingerprint=fingerprint, kind=kind)
    for path, stat in _stats(folder, f"*{SUFFIX}"):
        try:
            facts = facts_of(path)
            if (facts["fingerprint"], facts["kind"]) != (fingerprint, kind):
                raise Damaged(f"holds {facts['kind']} of {facts['fingerprint']}: it does not belong here")
            if check:
                _check(path, facts)
            holding.rows += facts["rows"]
            holding.encoder = facts["encoder"]
        except Damaged as error:
            holding.damaged[path.name] = str(error)
        except FileNotFoundError:  # merged or pruned meanwhile
            continue
        holding.segments += 1
        holding.bytes += stat.st_size
        holding.used = max(holding.used, stat.st_mtime)
    return holding


def _check(path: Path, facts: dict[str, Any]) -> None:
    space = Space(facts["encoder"], facts["fingerprint"], facts["kind"], tuple(facts["shape"]), facts["dtype"])
    segment = read(path, space)
    if not segment.sound(segment.rows, np.arange(len(segment))):
        raise Damaged("its rows are damaged (checksum differs)")


def _stats(folder: Path, pattern: str) -> Iterator[tuple[Path, os.stat_result]]:
    for path in list(folder.glob(pattern)):
        with suppress(FileNotFoundError):
            yield path, path.stat()


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


FLUSH_BYTES = 32 << 20
FLUSH_SECONDS = 5.0
MEMORY_BYTES = 2 << 30
"""Rows that are on no disk are kept for later calls up to this size."""
TOUCH_SECONDS = 60.0
CHUNK_BYTES = 4 << 20


class Store:
    """Rows of one space. ``root`` is the folder of all stores; without one, rows live as long as the process."""

    def __init__(self, space: Space, root: Path | None = None, log: Callable[[str], None] = lambda line: None) -> None:
        self.space, self.root, self.log = space, root, log
        self.folder = root / space.folder if root is not None else None
        self.segments: list[Segment] = []
        self.damaged: dict[Path, str] = {}
        self._touched: dict[Path, float] = {}
        self._pending: list[tuple[Keys, Rows, Ints32]] = []
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

    def gather(self, keys: Keys) -> tuple[Rows, Ints32, Bools]:
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

    def put(self, keys: Keys, rows: Rows, lengths: Ints32 | None = None) -> None:
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
                shrink(self.root, size_limit())
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

    def _copy(self, segment: Segment, at: Ints, to: Ints, rows: Rows, lengths: Ints32) -> bool:
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


MOST = 16
_OPEN: OrderedDict[tuple[Path | None, Space], Store] = OrderedDict()


def open_store(space: Space, runtime: Runtime | None = None) -> Store:
    """The store of a space, up to date with what other processes wrote; in memory alone where the cache is off."""
    runtime = runtime or current()
    root = cache_root() if runtime.cache and size_limit() else None
    store = _OPEN.setdefault((root, space), Store(space, root))
    _OPEN.move_to_end((root, space))
    store.log = runtime.log
    store.refresh()
    _forget()
    return store


def close_stores() -> None:
    """Forget what this process holds; what is on disk stays."""
    _OPEN.clear()


def _forget() -> None:
    """Drop the stores least recently used where there are many, or where they hold much memory."""
    while len(_OPEN) > MOST or (len(_OPEN) > 2 and sum(map(_memory, _OPEN.values())) > MEMORY_BYTES):
        _OPEN.popitem(last=False)


def _memory(store: Store) -> int:
    return sum(segment.rows.nbytes for segment in store.segments if segment.path is None)


SPACE = Space("", "paths", "content", (16,), "uint8")
SETTLED_SECONDS = 2.0


def mark(path: str) -> bytes | None:
    """The state of a file as a key; none where it is missing, no regular file, or changed a moment ago."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    if not S_ISREG(found.st_mode) or max(found.st_mtime, found.st_ctime) > time.time() - SETTLED_SECONDS:
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
