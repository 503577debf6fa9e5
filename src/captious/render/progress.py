"""What is at work, on standard error: the step and bars where that is a terminal, a line now and then where asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from captious.render.terminal import messages, words

Advance = Callable[[str, float, float], None]


class Display(NamedTuple):
    """What to call as work goes on."""

    step: Callable[[str], None]
    """Called with the name of each step as it begins."""
    advance: Advance
    """Called with what is counted, how much is done, and of how much."""
    log: Callable[[str], None]
    """Called with a line that a person should see."""


@contextmanager
def display(every: float | None = None) -> Iterator[Display]:
    """A spinner with the step and bars beneath.

    Where standard error is no terminal, only log lines appear, and with ``every`` a line of progress after so many
    seconds.
    """
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

    console = messages()

    def log(line: str) -> None:
        console.print(words(line, "yellow"), soft_wrap=True)

    if not console.is_terminal:
        yield Display(lambda step: None, lines(log, every) if every else lambda what, done, total: None, log)
        return
    spinner = Spinner("dots", text=words("reading"))
    parts = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    bars = Progress(TextColumn("{task.description}", markup=False), *parts, console=console)
    tasks: dict[str, tuple[TaskID, float]] = {}

    def advance(what: str, done: float, total: float) -> None:
        if what not in tasks:
            # What was done before this run is left out, or the time left would be guessed far too short.
            before = done if done > 1 else 0
            tasks[what] = (bars.add_task(what, total=total - before), before)
        task, before = tasks[what]
        bars.update(task, completed=done - before, total=total - before, visible=done < total)

    with Live(Group(spinner, bars), console=console, transient=True):
        yield Display(lambda step: spinner.update(text=words(step)), advance, log)


def lines(log: Callable[[str], None], every: float) -> Advance:
    """Progress as lines: how far, and how long still at the pace since the last line."""
    last: dict[str, tuple[float, float]] = {}

    def advance(what: str, done: float, total: float) -> None:
        now = time.monotonic()
        then, before = last.setdefault(what, (now, done))
        if now - then >= every and done > before:
            last[what] = (now, done)
            left = (now - then) / (done - before) * (total - done)
            log(f"{what}: {done:g} of {total:g}, {left / 60:.0f} min left")

    return advance
