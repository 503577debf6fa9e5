"""How encoders run: device, batch, precision, cache. No part of a metric's name, so it is set around a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

Precision = Literal["auto", "fp32", "bf16", "fp16"]


def _quiet(what: str, done: int, total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Runtime:
    """Where and how to encode.

    ``device`` is ``auto`` (a GPU where there is one), ``cpu``, ``cuda`` or ``cuda:1``. ``precision`` ``auto`` is fp32
    on a CPU and fp16 on a GPU. ``batch`` is halved where memory runs out. ``upright`` turns images as their EXIF tag
    says, which the reference implementations do not. ``progress`` is called with what is encoded, how many are done, of
    how many; ``log`` with a line a person should see.
    """

    device: str = "auto"
    batch: int = 256
    precision: Precision = "auto"
    cache: bool = True
    workers: int = 0
    """Threads that decode images; 0 for one per core."""
    upright: bool = False
    progress: Callable[[str, int, int], None] = _quiet
    log: Callable[[str], None] = lambda line: None


_DEFAULT = Runtime()
_CURRENT: ContextVar[Runtime] = ContextVar("captious_runtime", default=_DEFAULT)


def current() -> Runtime:
    """The runtime in force.

    >>> current().batch
    256
    >>> with using(Runtime(batch=8)):
    ...     current().batch
    8
    """
    return _CURRENT.get()


@contextmanager
def using(runtime: Runtime) -> Iterator[None]:
    """Encode this way inside the block."""
    token = _CURRENT.set(runtime)
    try:
        yield
    finally:
        _CURRENT.reset(token)
