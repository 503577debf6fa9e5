"""The stores a process has open, so that the metrics of one run share what was encoded, with and without a disk."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from captious.encoders import pruning
from captious.encoders.cache import MEMORY_BYTES, Store
from captious.encoders.runtime import Runtime, current
from captious.encoders.segments import Space

MOST = 16
_OPEN: OrderedDict[tuple[Path | None, Space], Store] = OrderedDict()


def open_store(space: Space, runtime: Runtime | None = None) -> Store:
    """The store of a space, up to date with what other processes wrote; in memory alone where the cache is off."""
    runtime = runtime or current()
    root = pruning.root() if runtime.cache and pruning.limit() else None
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
