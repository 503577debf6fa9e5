"""``run_tasks``: one function over many tasks, with three executors that return the same results.

A task is a small value, such as the address of a shard, and so is its result: the worker reads and writes the data.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from captious.errors import InputError
from captious.options import Engine, get_runtime

Task = TypeVar("Task")
Result = TypeVar("Result")
# Runs once in each worker and returns the function of a task, which keeps what is costly to make, such as a model.
Setup = Callable[[], Callable[[Task], Result]]


@dataclass(frozen=True)
class Finished(Generic[Result]):
    """The outcome of a task: its result, or a one-line error."""

    index: int
    """The index of the task."""
    result: Result | None = None
    error: str = ""
    deaths: tuple[str, ...] = ()
    """The reasons for the deaths of earlier workers of the task. Empty if the task failed: its error has them."""


def describe_deaths(ends: Iterable[Finished[Any]], what: str = "task") -> str:
    """Return a line that says how many tasks were begun again because a worker died; nothing if none was.

    >>> describe_deaths([Finished(0, 1), Finished(1, 4, deaths=("signal 9", "signal 9"))])
    '1 task was begun again, because a worker process died (signal 9)'
    """
    repeated = [end.deaths for end in ends if end.deaths]
    causes = ", ".join(dict.fromkeys(cause for deaths in repeated for cause in deaths))
    number = f"1 {what} was" if len(repeated) == 1 else f"{len(repeated):,} {what}s were"
    return f"{number} begun again, because a worker process died ({causes})" if repeated else ""


def run_tasks(
    setup: Setup[Task, Result], tasks: Sequence[Task], engine: Engine = Engine()
) -> Generator[Finished[Result], None, None]:
    """Run every task and yield each when it ends, in any order.

    ``setup``, tasks and results must be picklable. An `InputError` fails only its task; any other exception is a bug
    and is raised. A worker that dies is replaced, and its task starts again, at most three times. By default, several
    tasks run in processes if there are several cores. The executor affects only the order in which tasks end.

    >>> from functools import partial
    >>> [end.result for end in run_tasks(partial(partial, pow, 2), [1, 2, 3], Engine("serial"))]
    [2, 4, 8]
    """
    from captious.engines.processes import count_cores, run_in_processes

    several = len(tasks) > 1 and (engine.jobs or count_cores()) > 1
    executor = engine.engine or ("processes" if several else "serial")
    if executor == "serial":
        return _run_serially(setup, tasks)
    if executor == "processes":
        return _log_deaths(run_in_processes(setup, tasks, engine))
    from captious.engines.ray import run_on_ray

    return _log_deaths(run_on_ray(setup, tasks, engine))


def _log_deaths(ends: Generator[Finished[Result], None, None]) -> Generator[Finished[Result], None, None]:
    """Yield the tasks as they end; then log how many were started again."""
    repeated: list[Finished[Any]] = []
    with closing(ends):
        for end in ends:
            repeated += [end] if end.deaths else []
            yield end
    if line := describe_deaths(repeated):
        get_runtime().log(line)


def _run_serially(setup: Setup[Any, Any], tasks: Sequence[Any]) -> Generator[Finished[Any], None, None]:
    """Run one task after the other, in this process."""
    if not tasks:
        return
    work = setup()
    for index, task in enumerate(tasks):
        try:
            yield Finished(index, work(task))
        except InputError as error:
            yield Finished(index, error=str(error))
