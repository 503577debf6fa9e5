"""Setups and tasks for the tests of the executors; workers import them from here."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

from captious.errors import InputError
from captious.options import get_runtime


def reciprocals():
    def work(task):
        if task == 0:
            raise InputError("task 0: is zero, expected another number")
        return 1 / task

    return work


def divisions():
    """Without a guard: 0 is a bug."""
    return lambda task: 1 / task


def visible():
    """Which process it is, and the GPUs that CUDA would show it."""
    return lambda task: (os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"])


def refused():
    raise InputError("weights.npz: is not there, expected a file of weights")


def faulty():
    raise LookupError("the setup has a bug")


def deadly():
    os.kill(os.getpid(), signal.SIGKILL)


def unpicklable_results():
    return lambda task: lambda: task


class Unpicklable(Exception):
    """Takes two arguments and shows one, so pickle cannot make it again."""

    def __init__(self, name, place):
        super().__init__(f"{name} in {place}")


def unpicklable_bugs():
    def work(task):
        raise Unpicklable("bug", f"task {task}")

    return work


def settings(variable):
    """What a task sees of the runtime and of the environment."""

    def setup():
        get_runtime().log("the setup says this")

        def work(task):
            get_runtime().log("a task says this")
            print("printed by a task")
            sys.stdin.read()
            return get_runtime().batch, get_runtime().workers, os.environ.get(variable)

        return work

    return setup()


def recorded(folder: Path, deaths: int):
    """Tasks leave a line for each attempt; multiples of 3 kill their worker in the first ``deaths`` attempts."""
    with (folder / "setups").open("a") as setups:
        setups.write(f"{os.getpid()}\n")
    return partial(_record, folder, deaths)


def _record(folder: Path, deaths: int, task: int):
    path = folder / f"task-{task}"
    with path.open("a") as attempts:
        attempts.write(f"{os.getpid()}\n")
    if task % 3 == 0 and len(path.read_text().split()) <= deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return task * task, os.getpid()


def written(folder: Path):
    """Tasks write a file; while ``folder/pipe`` exists, task 3 and those after it say who they are there and wait."""
    return partial(_write, folder)


def _write(folder: Path, task: int):
    pipe = folder / "pipe"
    if task >= 3 and pipe.exists():
        with pipe.open("w") as reader:
            reader.write(f"{os.getpid()}\n")
        time.sleep(600)  # until somebody kills this process
    (folder / f"{task}.partial").write_text(str(task * task))
    (folder / f"{task}.partial").rename(folder / f"{task}.txt")


def on_nodes(folder: Path, doomed: str):
    """Tasks say which Ray node they are on; those of the doomed node announce themselves, all wait until it is lost."""
    import ray

    return partial(_stay, folder, doomed, ray.get_runtime_context().get_node_id())


def _stay(folder: Path, doomed: str, node: str, task: int):
    if node == doomed:
        with (folder / "pipe").open("w") as reader:
            reader.write(f"{os.getpid()}\n")
        time.sleep(600)
    while not (folder / "lost").exists():
        time.sleep(0.05)
    return task, node


class Idler:
    """A Ray actor of somebody else."""

    def here(self):
        return True
