"""One BLAS thread while our own threads share the work.

OpenBLAS splits even small products over all cores and lets its threads spin while they wait for each other. On a busy
machine that makes a small model ten times slower; chunks in threads of our own do not wait.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

MOST = 8
_LOCK = Lock()
_INSIDE = [0, 0]  # how many blocks are open, and the number of threads before the first

T = TypeVar("T")
R = TypeVar("R")


def in_threads(work: Callable[[T], R], parts: Iterable[T]) -> list[R]:
    """``work`` of every part, in order, by a thread per core with one BLAS thread each."""
    parts = list(parts)
    with one_thread():
        if len(parts) < 2:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(min(MOST, os.cpu_count() or 1, len(parts))) as pool:
            return list(pool.map(work, parts))


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold NumPy's OpenBLAS to one thread inside the block; another BLAS is left alone."""
    found = _switches()
    if found is None:
        yield
        return
    get, put = found
    with _LOCK:
        if _INSIDE[0] == 0:
            _INSIDE[1] = get()
            put(1)
        _INSIDE[0] += 1
    try:
        yield
    finally:
        with _LOCK:
            _INSIDE[0] -= 1
            if _INSIDE[0] == 0:
                put(_INSIDE[1])


@lru_cache(maxsize=1)
def _switches() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """The functions of the OpenBLAS in NumPy's wheels that tell and set the number of threads."""
    try:
        from numpy.linalg import _umath_linalg

        library = ctypes.CDLL(_umath_linalg.__file__)
    except (ImportError, OSError, TypeError):
        return None
    for start, end in (("scipy_", "64_"), ("", "64_"), ("scipy_", ""), ("", "")):
        try:
            names = (f"{start}openblas_{verb}_num_threads{end}" for verb in ("get", "set"))
            get, put = (getattr(library, name) for name in names)
        except AttributeError:
            continue
        get.restype, put.argtypes, put.restype = ctypes.c_int, [ctypes.c_int], None
        return get, put
    return None
