"""``run_tasks``: one function over many tasks, with three executors that return the same results.

A task is a small value, such as the address of a shard, and so is its result: the worker reads and writes the data.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from captious.errors import InputError
from captious.options import Engine

Task = TypeVar("Task")
Result = TypeVar("Result")
# A function that runs once in each worker, does the costly preparation, such as loading a model, and returns the
# function that runs a task.
Setup = Callable[[], Callable[[Task], Result]]


@dataclass(frozen=True)
class Finished(Generic[Result]):
    """The outcome of a task: its result, or a one-line error."""

    index: int
    """The index of the task."""
    result: Result | None = None
    error: str = ""


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
        return run_in_processes(setup, tasks, engine)
    from captious.engines.ray import run_on_ray

    return run_on_ray(setup, tasks, engine)


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
