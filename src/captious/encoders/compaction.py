"""Many small segments become few large ones, while others read and write.

The merged segment is in place before its sources go, so nobody finds a key missing; a process that has the sources
mapped keeps them until it closes them. Two processes that merge at once leave rows twice, until the next merge.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np

from captious.encoders.segments import SUFFIX, Damaged, Segment, Space, read, unique_keys, write

MANY = 8
SMALL_BYTES = 64 << 20
LARGE_BYTES = 256 << 20


def compact(folder: Path, space: Space) -> int:
    """Merge the small segments of a folder if there are many; returns how many it merged."""
    sizes = {}
    for path in sorted(folder.glob(f"*{SUFFIX}"), reverse=True):
        with suppress(FileNotFoundError):
            sizes[path] = path.stat().st_size
    small = [path for path, size in sizes.items() if size < SMALL_BYTES]
    if len(small) < MANY:
        return 0
    merged, group, held = 0, list[Segment](), 0
    for path in small:
        if held + sizes[path] > LARGE_BYTES:
            merged, group, held = merged + _merge(folder, space, group), [], 0
        segment = _sound(path, space)
        if segment is not None:
            group.append(segment)
            held += sizes[path]
    return merged + _merge(folder, space, group)


def _sound(path: Path, space: Space) -> Segment | None:
    try:
        segment = read(path, space)
    except (Damaged, FileNotFoundError):
        return None
    return segment if segment.sound(segment.rows, np.arange(len(segment))) else None


def _merge(folder: Path, space: Space, group: list[Segment]) -> int:
    if len(group) < 2:
        return 0
    keys, first, _ = unique_keys(np.concatenate([segment.keys for segment in group]))
    lengths = np.concatenate([segment.lengths for segment in group])[first]
    rows = np.concatenate([segment.rows for segment in group])[first]
    write(folder, space, Segment(keys, lengths, rows))
    for segment in group:
        assert segment.path is not None
        with suppress(OSError):  # another process was faster, or has it open where that forbids it
            segment.path.unlink()
    return len(group)
