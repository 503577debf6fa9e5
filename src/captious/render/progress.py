"""Progress on standard error: the current step and bars on a terminal, otherwise one line a minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from captious.render.terminal import make_rich_text, make_stderr_console

Advance = Callable[[str, float, float], None]
FIRST_STEP = "reading"
# Seconds between two lines of progress if standard error is no terminal.
MINUTE = 60.0


class Display(NamedTuple):
    """Callbacks that report progress."""

    step: Callable[[str], None]
    """A function that is called with the name of each step as it begins."""
    advance: Advance
    """A function that is called with the name of what is counted, the number done, and the total."""
    log: Callable[[str], None]
    """A function that is called with each message for the user."""


@contextmanager
def display(every: float = MINUTE) -> Iterator[Display]:
    """Show a spinner with the current step, and progress bars below it.

    If standard error is no terminal, log lines appear, and every ``every`` seconds a line with the current progress.
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
            # A resumed run starts above 1. What was done before is left out: it would make the pace look far too fast.
            before = done if done > 1 else 0
            tasks[what] = (bars.add_task(what, total=total - before), before)
            # Counting begins after reading, so the spinner must not show "reading" any more.
            if str(spinner.text) == FIRST_STEP:
                spinner.update(text=make_rich_text(what))
        task, before = tasks[what]
        bars.update(task, completed=done - before, total=total - before, visible=done < total)

    with Live(Group(spinner, bars), console=console, transient=True):
        yield Display(lambda step: spinner.update(text=make_rich_text(step)), advance, log)


@contextmanager
def _call_repeatedly(every: float, call: Callable[[], None]) -> Iterator[None]:
    """Call a function every ``every`` seconds, in a thread that ends with the block."""
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
    """Progress as one line: the step and its duration, or what is counted with the number done and the time left."""

    def __init__(self) -> None:
        self._step, self._since = FIRST_STEP, time.monotonic()
        self._counted: tuple[str, float, float] | None = None
        # Time and number done of each count, at its beginning or at the last line.
        self._before: dict[str, tuple[float, float]] = {}

    def begin(self, step: str) -> None:
        """Record the beginning of a step."""
        self._step, self._since, self._counted = step, time.monotonic(), None

    def advance(self, what: str, done: float, total: float) -> None:
        """Record that ``done`` of ``total`` are done."""
        self._before.setdefault(what, (time.monotonic(), done))
        self._counted = (what, done, total) if done < total else None

    def line(self) -> str:
        """Return the progress as a line; the time left is estimated from the pace since the last line."""
        now = time.monotonic()
        if self._counted is None:
            return f"{self._step}: {(now - self._since) / 60:.0f} min so far"
        what, done, total = self._counted
        then, before = self._before[what]
        self._before[what] = (now, done)
        left = f", {(now - then) / (done - before) * (total - done) / 60:.0f} min left" if done > before else ""
        return f"{what}: {done:g} of {total:g}{left}"
