"""Tasks in processes of this machine.

A thread for each process gives it one task at a time. A process that dies is replaced, and its task begins again in
the new one. Processes end with the one that started them, however that ends.
"""

from __future__ import annotations

import os
import re
import subprocess
import traceback
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, cast

from captious.engines._worker import ATTEMPTS, Answer, Log, Worker, packed, portable, refuse_split_gpus, slots
from captious.engines.child import GONE, Child, Pipes
from captious.engines.tasks import Finished, Setup
from captious.errors import InputError
from captious.options import Engine, Runtime, current

THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
"""Environment variables that limit the threads of libraries, which would otherwise take every core in each process."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def process_count(engine: Engine, tasks: int) -> int:
    """Processes that work on so many tasks."""
    return min(engine.jobs or len(_gpus_of_workers(engine)) or cores(), tasks)


def run_in_processes(
    setup: Setup[Any, Any], tasks: Sequence[Any], engine: Engine
) -> Generator[Finished[Any], None, None]:
    """Run tasks in ``engine.jobs`` processes; if it is 0, in one per core, or in as many as the GPUs hold."""
    gpus = _gpus_of_workers(engine)
    jobs = process_count(engine, len(tasks))
    threads = max(1, cores() // max(1, jobs))
    runtime = current()
    start = portable(runtime, threads), packed(setup)
    waiting: SimpleQueue[tuple[int, bytes]] = SimpleQueue()
    for numbered in [(index, packed(task)) for index, task in enumerate(tasks)]:
        waiting.put(numbered)
    answers: SimpleQueue[tuple[int | None, Answer]] = SimpleQueue()
    environment = dict.fromkeys(THREADS, str(threads))
    visible = [{"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]} if gpus else {} for number in range(jobs)]
    processes = [WorkerProcess(start, {**environment, **one}) for one in visible]
    feeders = [Thread(target=_feed, args=(process, waiting, answers), daemon=True) for process in processes]
    try:
        for feeder in feeders:
            feeder.start()
        yield from _finished(answers, len(tasks), jobs, Log(runtime.log))
    finally:
        for process in processes:
            process.stop()
        for feeder in feeders:
            feeder.join()
        for process in processes:
            process.close()


def visible_gpus() -> list[str]:
    """The GPUs that CUDA shows to this process, by their numbers."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip()]
    devices = (match for path in Path("/dev").glob("nvidia*") if (match := re.fullmatch(r"nvidia(\d+)", path.name)))
    return sorted((match[1] for match in devices), key=int)


def _gpus_of_workers(engine: Engine) -> list[str]:
    """What CUDA shows to each worker that the GPUs of this machine hold; nothing where workers need none."""
    if not engine.gpus:
        return []
    refuse_split_gpus(engine)
    names, each = visible_gpus(), max(1, int(engine.gpus))
    held = slots(len(names), engine.gpus)
    if not held:
        has = f"{len(names)} GPU{'' if len(names) == 1 else 's'}"
        raise InputError(f"gpus={engine.gpus:g}: each worker asks for so many, and this machine has {has}")
    groups = [",".join(names[first : first + each]) for first in range(0, len(names) - each + 1, each)]
    return [groups[number % len(groups)] for number in range(held)]


def _finished(
    answers: SimpleQueue[tuple[int | None, Answer]], unfinished: int, processes: int, log: Log
) -> Iterator[Finished[Any]]:
    """The ends of all tasks. Where processes die while they start, the others go on."""
    while unfinished:
        index, answer = answers.get()
        log.show(answer.log)
        answer.raise_bug()
        if index is not None:
            unfinished -= 1
            yield Finished(index, answer.result, answer.error, answer.deaths)
        elif isinstance(answer, NotStarted) and processes > 1:
            processes -= 1
            log.show([f"{answer.error}: going on with {processes}"])
        elif answer.error:
            raise InputError(answer.error)


def _feed(
    process: WorkerProcess, waiting: SimpleQueue[tuple[int, bytes]], answers: SimpleQueue[tuple[int | None, Answer]]
) -> None:
    """What a thread does: it gives its process one task after the other."""
    try:
        while True:
            ready = process.start()
            answers.put((None, ready))
            if ready.failed:
                return
            try:
                index, task = waiting.get_nowait()
            except Empty:
                return
            answers.put((index, process.run(task)))
    except Exception as error:  # such as a result that cannot be unpickled here
        answers.put((None, Answer(bug=error, traceback=traceback.format_exc())))


class NotStarted(Answer):
    """Every process that was to start died before its setup was done."""


class WorkerProcess:
    """A process that does one task at a time, and the next process where that one dies."""

    def __init__(self, setup: tuple[Runtime, bytes], environment: Mapping[str, str]) -> None:
        self.setup = setup
        self.environment = environment
        self.child: Child | None = None
        self._stopped = False
        self._starting = Lock()

    def start(self) -> Answer:
        """Start a process unless one is running; the answer is that of the setup."""
        for _ in range(ATTEMPTS):
            if self.child is not None:
                return Answer()
            with self._starting:
                if self._stopped:
                    return Answer(error="stopped")
                self.child = Child(serve, self.environment)
            try:
                self.child.pipes.send(self.setup)
                answer: Answer = self.child.pipes.receive()
            except GONE:
                reason = self._bury()
                continue
            if answer.failed:
                self.child.close()
                self.child = None
            return answer
        return NotStarted(error=f"{ATTEMPTS} worker processes died while they started ({reason})")

    def run(self, task: bytes) -> Answer:
        """Run a task, where its process dies again in a new one."""
        deaths: list[str] = []
        for _ in range(ATTEMPTS):
            ready = self.start()
            if self.child is None:  # the setup failed this time
                return ready
            try:
                self.child.pipes.send(task)
                answer: Answer = self.child.pipes.receive()
                return replace(answer, log=ready.log + answer.log, deaths=tuple(deaths))
            except GONE:
                deaths.append(self._bury())
        return Answer(error=f"the process that worked on it died {ATTEMPTS} times ({deaths[-1]})")

    def stop(self) -> None:
        """End the process, also in the midst of a task."""
        with self._starting:
            self._stopped = True
            if self.child is not None:
                self.child.kill()

    def close(self) -> None:
        """Close the pipes of a process that was stopped."""
        if self.child is not None:
            self.child.close()

    def _bury(self) -> str:
        """Close what is left of a process that closed its pipe; gives the reason of its death."""
        child, self.child = cast(Child, self.child), None
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(timeout=5)
        child.close()
        return _cause(child.process.returncode)


def _cause(code: int) -> str:
    """Why a process died, as its exit code says.

    >>> _cause(-9), _cause(-11), _cause(3)
    ('signal 9; out of memory?', 'signal 11', 'exit code 3')
    """
    if code >= 0:
        return f"exit code {code}"
    return f"signal {-code}{'; out of memory?' if code == -9 else ''}"


def serve(parent: Pipes) -> None:
    """What a process does: the setup, then tasks, until its parent is gone."""
    messages: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_listen, args=(parent, messages), daemon=True).start()
    runtime, setup = messages.get()
    worker = Worker(runtime)
    parent.send(worker.start(setup))
    while True:
        parent.send(worker.run(messages.get()))


def _listen(parent: Pipes, messages: SimpleQueue[Any]) -> None:
    """Take the messages of the parent; when it is gone, end the process in the midst of its task."""
    with suppress(*GONE):
        while True:
            messages.put(parent.receive())
    os._exit(1)
