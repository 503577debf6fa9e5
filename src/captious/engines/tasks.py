"""``run_tasks``: one function over many tasks, by three executors that give the same results.

A task is a small value, such as the address of a shard, and so is its result: data are read and written by the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from captious.errors import InputError
from captious.options import Engine

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


def run_tasks(
    setup: Setup[Task, Result], tasks: Sequence[Task], engine: Engine = Engine()
) -> Generator[Finished[Result], None, None]:
    """Run every task and yield each as it ends, in any order.

    ``setup``, tasks and results must be picklable. An `InputError` ends its task alone; any other exception is a fault
    of the program and is raised. A worker that dies is replaced, and its task begins again: three times at most.
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
        return run_in_processes(setup, tasks, engine)
    from captious.engines.ray import run_on_ray

    return run_on_ray(setup, tasks, engine)


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
