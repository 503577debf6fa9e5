"""What is at work, on standard error: the step and bars where that is a terminal, a line a minute where it is none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from captious.render.terminal import make_rich_text, make_stderr_console

Advance = Callable[[str, float, float], None]
FIRST_STEP = "reading"
# Seconds between two lines of progress where standard error is no terminal.
MINUTE = 60.0


class Display(NamedTuple):
    """What to call as work goes on."""

    step: Callable[[str], None]
    """A function that is called with the name of each step as it begins."""
    advance: Advance
    """A function that is called with what is counted, how much is done, and of how much."""
    log: Callable[[str], None]
    """A function that is called with each message for the user."""


@contextmanager
def display(every: float = MINUTE) -> Iterator[Display]:
    """A spinner with the step and bars beneath.

    Where standard error is no terminal, log lines appear, and every so many seconds a line that says what is at work.
    """
    console = make_stderr_console()

    def log(line: str) -> None:
        console.print(make_rich_text(line, "yellow"), soft_wrap=True)

    if not console.is_terminal:
        status = Status()
        with _call_repeatedly(every, lambda: log(status.line())):
            yield Display(status.begin, status.advance, log)
        return
    from rich.console import Group
    from rich.live import Live
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.spinner import Spinner

    spinner = Spinner("dots", text=make_rich_text(FIRST_STEP))
    parts = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    bars = Progress(TextColumn("{task.description}", markup=False), *parts, console=console)
    tasks: dict[str, tuple[TaskID, float]] = {}

    def advance(what: str, done: float, total: float) -> None:
        if what not in tasks:
            # What was done before this run is left out, or the time left would be guessed far too short.
            before = done if done > 1 else 0
            tasks[what] = (bars.add_task(what, total=total - before), before)
            if str(spinner.text) == FIRST_STEP:  # whoever counts has read
                spinner.update(text=make_rich_text(what))
        task, before = tasks[what]
        bars.update(task, completed=done - before, total=total - before, visible=done < total)

    with Live(Group(spinner, bars), console=console, transient=True):
        yield Display(lambda step: spinner.update(text=make_rich_text(step)), advance, log)


@contextmanager
def _call_repeatedly(every: float, call: Callable[[], None]) -> Iterator[None]:
    """Call a function every so many seconds, in a thread that ends with the block."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(every):
            call()

    threading.Thread(target=repeat, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


class Status:
    """What is at work, as a line: the step and its minutes, or what is counted, how far it is, and the time left."""

    def __init__(self) -> None:
        self._step, self._since = FIRST_STEP, time.monotonic()
        self._counted: tuple[str, float, float] | None = None
        self._before: dict[str, tuple[float, float]] = {}
        """When each count stood where, at its beginning or at the last line."""

    def begin(self, step: str) -> None:
        """A step begins."""
        self._step, self._since, self._counted = step, time.monotonic(), None

    def advance(self, what: str, done: float, total: float) -> None:
        """So many of a count are done."""
        self._before.setdefault(what, (time.monotonic(), done))
        self._counted = (what, done, total) if done < total else None

    def line(self) -> str:
        """How far the work is; the time left is guessed from the pace since the last line."""
        now = time.monotonic()
        if self._counted is None:
            return f"{self._step}: {(now - self._since) / 60:.0f} min so far"
        what, done, total = self._counted
        then, before = self._before[what]
        self._before[what] = (now, done)
        left = f", {(now - then) / (done - before) * (total - done) / 60:.0f} min left" if done > before else ""
        return f"{what}: {done:g} of {total:g}{left}"
