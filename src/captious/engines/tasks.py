"""``run_tasks``: one function over many tasks, by three executors that give the same results.

A task is a small value, such as the address of a shard, and so is its result: data are read and written by the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from captious.errors import InputError
from captious.options import Engine, current

Task = TypeVar("Task")
Result = TypeVar("Result")
Setup = Callable[[], Callable[[Task], Result]]
"""Runs once in each worker and gives the function of a task. It holds what is costly to make, such as a model."""


@dataclass(frozen=True)
class Finished(Generic[Result]):
    """The end of a task: its result, or the one line that says why there is none."""

    index: int
    """The index of the task."""
    result: Result | None = None
    error: str = ""
    deaths: tuple[str, ...] = ()
    """Why each worker died that had the task before; nothing of a task that was given up, whose error says it."""


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
    """Run every task and yield each as it ends, in any order.

    ``setup``, tasks and results must be picklable. An `InputError` ends its task alone; any other exception is a fault
    of the program and is raised. A worker that dies is replaced, and its task begins again: three times at most. The
    log says how many tasks did.
    Without ``engine.engine``, several tasks go to processes if there are several cores. The executor decides the order
    in which tasks end, and nothing else.

    >>> from functools import partial
    >>> [end.result for end in run_tasks(partial(partial, pow, 2), [1, 2, 3], Engine("serial"))]
    [2, 4, 8]
    """
    from captious.engines.processes import cores, run_in_processes

    several = len(tasks) > 1 and (engine.jobs or cores()) > 1
    executor = engine.engine or ("processes" if several else "serial")
    if executor == "serial":
        return _serial(setup, tasks)
    if executor == "processes":
        return _with_deaths_logged(run_in_processes(setup, tasks, engine))
    from captious.engines.ray import run_on_ray

    return _with_deaths_logged(run_on_ray(setup, tasks, engine))


def _with_deaths_logged(ends: Generator[Finished[Result], None, None]) -> Generator[Finished[Result], None, None]:
    """Yield all ends, and then log how many tasks were begun again."""
    repeated: list[Finished[Any]] = []
    with closing(ends):
        for end in ends:
            repeated += [end] if end.deaths else []
            yield end
    if line := describe_deaths(repeated):
        current().log(line)


def _serial(setup: Setup[Any, Any], tasks: Sequence[Any]) -> Generator[Finished[Any], None, None]:
    """One task after the other, in this process."""
    if not tasks:
        return
    work = setup()
    for index, task in enumerate(tasks):
        try:
            yield Finished(index, work(task))
        except InputError as error:
            yield Finished(index, error=str(error))
