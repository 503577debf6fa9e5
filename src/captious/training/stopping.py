"""Ctrl-C and SIGTERM: the step at work is finished, the checkpoint written, and only then the training ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Stop:
    """Set by Ctrl-C, SIGTERM or a test; the training ends after the step at work."""

    asked: bool = False


@contextmanager
def signals(stop: Stop) -> Iterator[None]:
    """Ctrl-C and SIGTERM ask to stop; a second one ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: Any) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
