"""A training on the terminal: progress with the time left, and what came of it in a few lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from captious.render.terminal import messages

if TYPE_CHECKING:
    from captious.train.run import Outcome


Report = Callable[[str, int, int], None]
EVERY = 30.0
"""Seconds between lines of progress where standard error is a file."""


@contextmanager
def progress() -> Iterator[tuple[Report, Callable[[str], None]]]:
    """Bars on standard error, or a line now and then where that is no terminal; and a way to say something above."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Left

    console = messages()

    def say(line: str) -> None:
        console.print(f"  {line}", highlight=False, markup=False)

    if not console.is_terminal:
        yield lines(say), say
        return
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), Left())
    with Progress(*parts, console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                # What was done before is left out, or the time left would be guessed far too short.
                tasks[what] = (bar.add_task(what, total=total - done + 1), done - 1)
            number, before = tasks[what]
            bar.update(number, completed=done - before)

        yield report, say


def lines(say: Callable[[str], None], every: float = EVERY) -> Report:
    """Progress as lines: how far, and how long still at the pace since the last line."""
    last: dict[str, tuple[float, int]] = {}

    def report(what: str, done: int, total: int) -> None:
        now = time.monotonic()
        told, before = last.setdefault(what, (now, done))
        if now - told >= every and done > before:
            last[what] = (now, done)
            left = (now - told) / (done - before) * (total - done)
            say(f"{what}: {done} of {total}, {left / 60:.0f} min left")

    return report


def outcome_lines(outcome: Outcome) -> list[str]:
    """What a user should see when a training ends."""
    lines = [f"{outcome.steps} of {outcome.of} steps on {outcome.examples} examples"]
    if outcome.last:
        lines.append(f"loss {outcome.last['loss']:.4g}, {outcome.last['samples_per_second']:,.0f} samples a second")
    checks = outcome.validations
    if checks:
        for name, value in checks[-1]["validation"].items():
            lines.append(f"  {name:20} {checks[0]['validation'][name]:7.2f} -> {value:7.2f}")
    lines.append(f"model: {outcome.folder}/   curves: {outcome.folder / 'curves.html'}")
    if outcome.best is not None:
        lines.append(f"best in validation: {outcome.best}/")
    return lines
