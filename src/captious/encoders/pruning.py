"""How much room the feature cache takes, what is in it, and what goes first when room is short."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from captious.encoders.segments import SUFFIX, Damaged, Space, facts_of, read
from captious.errors import InputError
from captious.files import data_folder

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


def root() -> Path:
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


def limit() -> int:
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
