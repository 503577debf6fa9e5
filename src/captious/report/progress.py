"""What is at work, on standard error where that is a terminal: the step, and a bar for what is being encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from captious.report.terminal import messages


class Display(NamedTuple):
    """What to call as work goes on."""

    step: Callable[[str], None]
    """With the name of each step as it begins."""
    encoded: Callable[[str, int, int], None]
    """With what is encoded, how many are done, of how many."""
    log: Callable[[str], None]
    """With a line that a person should see."""


@contextmanager
def display() -> Iterator[Display]:
    """A spinner with the step and bars beneath; nothing but log lines where standard error is no terminal."""
    from rich.console import Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
    from rich.spinner import Spinner
    from rich.text import Text

    console = messages()

    def log(line: str) -> None:
        console.print(Text(line, style="yellow"), soft_wrap=True)

    if not console.is_terminal:
        yield Display(lambda step: None, lambda what, done, total: None, log)
        return
    spinner = Spinner("dots", text=Text("reading"))
    bars = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
    )
    tasks: dict[str, TaskID] = {}

    def encoded(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = bars.add_task(what, total=total)
        bars.update(tasks[what], completed=done, total=total, visible=done < total)

    with Live(Group(spinner, bars), console=console, transient=True):
        yield Display(lambda step: spinner.update(text=Text(step)), encoded, log)
