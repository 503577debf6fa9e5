"""Tasks and their ends, by the executors that run them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from captious.engines.tasks import Finished, run_tasks
from captious.errors import InputError
from captious.options import Engine


def reciprocals() -> Callable[[int], float]:
    def work(task: int) -> float:
        if task == 0:
            raise InputError("task 0: is zero, expected another number")
        return 1 / task

    return work


@pytest.mark.parametrize("executor", ["serial"])
def test_an_input_error_ends_its_task_alone(executor):
    ends = sorted(run_tasks(reciprocals, [4, 0, 2], Engine(executor)), key=lambda end: end.index)
    assert ends == [
        Finished(0, 0.25),
        Finished(1, error="task 0: is zero, expected another number"),
        Finished(2, 0.5),
    ]
