"""Executor that runs tasks in processes of this machine.

One thread for each process sends it one task at a time. A process that dies is replaced, and its task starts again in
the new one. Processes exit with their parent, even if it is killed.
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

from captious.engines._worker import ATTEMPTS, Answer, Log, Worker, count_slots, make_portable, pack, refuse_split_gpus
from captious.engines.child import GONE, Child, Pipes
from captious.engines.tasks import Finished, Setup
from captious.errors import InputError
from captious.options import Engine, Runtime, get_runtime

# Environment variables that limit the threads of libraries; by default each process would use every core.
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


def count_cores() -> int:
    """Count the CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_processes(engine: Engine, tasks: int) -> int:
    """Return ``engine.jobs``, or as many processes as fit on the GPUs, or one per core; at most one per task."""
    return min(engine.jobs or len(_list_worker_gpus(engine)) or count_cores(), tasks)


def run_in_processes(
    setup: Setup[Any, Any], tasks: Sequence[Any], engine: Engine
) -> Generator[Finished[Any], None, None]:
    """Run tasks in worker processes, and yield the outcome of each as soon as it is finished.

    There are ``engine.jobs`` processes; if it is 0, as many as fit on the GPUs, or one per core if workers need no GPU.
    """
    gpus = _list_worker_gpus(engine)
    jobs = count_processes(engine, len(tasks))
    threads = max(1, count_cores() // max(1, jobs))
    runtime = get_runtime()
    start = make_portable(runtime, threads), pack(setup)
    waiting: SimpleQueue[tuple[int, bytes]] = SimpleQueue()
    for index_and_task in [(index, pack(task)) for index, task in enumerate(tasks)]:
        waiting.put(index_and_task)
    answers: SimpleQueue[tuple[int | None, Answer]] = SimpleQueue()
    environment = dict.fromkeys(THREADS, str(threads))
    gpu_settings = [{"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]} if gpus else {} for number in range(jobs)]
    processes = [WorkerProcess(start, {**environment, **one}) for one in gpu_settings]
    feeders = [Thread(target=_send_tasks, args=(process, waiting, answers), daemon=True) for process in processes]
    try:
        for feeder in feeders:
            feeder.start()
        yield from _yield_finished(answers, len(tasks), jobs, Log(runtime.log))
    finally:
        # Killing the processes first wakes the threads that wait for an answer; pipes are closed when no thread uses
        # them any more.
        for process in processes:
            process.stop()
        for feeder in feeders:
            feeder.join()
        for process in processes:
            process.close()


def list_visible_gpus() -> list[str]:
    """List the GPUs that are visible to this process, by their CUDA numbers."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip()]
    devices = (match for path in Path("/dev").glob("nvidia*") if (match := re.fullmatch(r"nvidia(\d+)", path.name)))
    return sorted((match[1] for match in devices), key=int)


def _list_worker_gpus(engine: Engine) -> list[str]:
    """List CUDA_VISIBLE_DEVICES, such as 0,1, for each worker that fits on this machine; empty if none needs a GPU."""
    if not engine.gpus:
        return []
    refuse_split_gpus(engine)
    names, per_worker = list_visible_gpus(), max(1, int(engine.gpus))
    workers = count_slots(len(names), engine.gpus)
    if not workers:
        has = f"{len(names)} GPU{'' if len(names) == 1 else 's'}"
        raise InputError(f"gpus={engine.gpus:g}: each worker asks for so many, and this machine has {has}")
    starts = range(0, len(names) - per_worker + 1, per_worker)
    groups = [",".join(names[first : first + per_worker]) for first in starts]
    # Workers that take a part of a GPU share it: with gpus=0.5 the second round starts at the first GPU again.
    return [groups[number % len(groups)] for number in range(workers)]


def _yield_finished(
    answers: SimpleQueue[tuple[int | None, Answer]], unfinished: int, processes: int, log: Log
) -> Iterator[Finished[Any]]:
    """Yield the outcomes of all tasks; raise the first bug. If a process cannot be started, the others continue.

    The index of an answer is that of its task; None for the answer of a setup.
    """
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


def _send_tasks(
    process: WorkerProcess, waiting: SimpleQueue[tuple[int, bytes]], answers: SimpleQueue[tuple[int | None, Answer]]
) -> None:
    """Send waiting tasks one by one to a process, and put its answers into the queue; runs in a thread of its own."""
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
    """The answer if ``ATTEMPTS`` processes in a row died before their setup was done."""


class WorkerProcess:
    """A process that runs one task at a time, and is replaced if it dies."""

    def __init__(self, setup: tuple[Runtime, bytes], environment: Mapping[str, str]) -> None:
        self.setup = setup
        self.environment = environment
        self.child: Child | None = None
        self._stopped = False
        self._starting = Lock()  # so that `stop` in another thread never misses a process that is just being started

    def start(self) -> Answer:
        """Start a process and run the setup in it, unless it is running already; return the outcome of the setup.

        If the process dies during the setup, another one is started, ``ATTEMPTS`` in all.
        """
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
                reason = self._close_dead_process()
                continue
            if answer.failed:  # the setup raised an exception; the process itself is fine but useless
                self.child.close()
                self.child = None
            return answer
        return NotStarted(error=f"{ATTEMPTS} worker processes died while they started ({reason})")

    def run(self, task: bytes) -> Answer:
        """Run a task; if its process dies, run the task again in a new one, ``ATTEMPTS`` times in all."""
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
                deaths.append(self._close_dead_process())
        return Answer(error=f"the process that worked on it died {ATTEMPTS} times ({deaths[-1]})")

    def stop(self) -> None:
        """Kill the process, also during a task."""
        with self._starting:
            self._stopped = True
            if self.child is not None:
                self.child.kill()

    def close(self) -> None:
        """Close the pipes of a process that was stopped."""
        if self.child is not None:
            self.child.close()

    def _close_dead_process(self) -> str:
        """Close the pipes of a process that died; return the reason of its death."""
        child, self.child = cast(Child, self.child), None
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(timeout=5)
        child.close()
        return _describe_exit(child.process.returncode)


def _describe_exit(code: int) -> str:
    """Describe why a process died, from its exit code.

    >>> _describe_exit(-9), _describe_exit(-11), _describe_exit(3)
    ('signal 9; out of memory?', 'signal 11', 'exit code 3')
    """
    if code >= 0:
        return f"exit code {code}"
    return f"signal {-code}{'; out of memory?' if code == -9 else ''}"


def serve(parent: Pipes) -> None:
    """Run the setup, then tasks, until the parent exits; the main function of a worker process."""
    messages: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_listen, args=(parent, messages), daemon=True).start()
    runtime, setup = messages.get()
    worker = Worker(runtime)
    parent.send(worker.start(setup))
    while True:
        parent.send(worker.run(messages.get()))


def _listen(parent: Pipes, messages: SimpleQueue[Any]) -> None:
    """Receive the messages of the parent; when it exits, exit too, even during a task."""
    with suppress(*GONE):
        while True:
            messages.put(parent.receive())
    os._exit(1)
