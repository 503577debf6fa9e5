"""A worker of any executor: it runs the setup once, then one task at a time, and returns exceptions as answers."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from captious.errors import InputError, format_one_line
from captious.options import Engine, Runtime, using

# Number of workers that may die on a task before the task is reported as failed.
ATTEMPTS = 3

# Largest pickled setup or task, in bytes. Data do not need to fit: a task names files, which the worker reads.
LARGEST = 256 * 2**20


class WorkerTraceback(Exception):
    """The traceback in the worker, as the cause of the same exception in this process."""

    def __str__(self) -> str:
        return f"in the worker:\n\n{self.args[0]}"


@dataclass(frozen=True)
class Answer:
    """The outcome of a setup or of a task."""

    result: Any = None
    error: str = ""
    """The line of an `InputError`."""
    bug: Exception | None = None
    """Any other exception."""
    traceback: str = ""
    """The traceback of the bug."""
    log: tuple[str, ...] = ()
    """Lines for a person to see."""
    deaths: tuple[str, ...] = ()
    """The reason for the death of each worker that had the task before."""

    @property
    def failed(self) -> bool:
        """Whether there is no result."""
        return bool(self.error) or self.bug is not None

    def raise_bug(self) -> None:
        """Raise the bug, if there is one, as it was raised in the worker."""
        if self.bug is not None:
            raise self.bug from WorkerTraceback(self.traceback)


class Log:
    """A log of many workers that shows each distinct line once."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show, self._lines = show, set[str]()

    def show(self, lines: Iterable[str]) -> None:
        """Show the lines that are new."""
        for line in lines:
            if line not in self._lines:
                self._lines.add(line)
                self._show(line)


class Worker:
    """A setup and its tasks under a runtime; log lines are sent with the answers."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.work: Callable[[Any], Any]

    def start(self, setup: bytes) -> Answer:
        """Run the setup."""
        answer = self._answer(lambda: unpack(setup)())
        # The function stays here, so that it need not be picklable.
        self.work, answer = answer.result, replace(answer, result=None)
        return answer

    def run(self, task: bytes) -> Answer:
        """Run one task."""
        return self._answer(lambda: _check_picklable(self.work(unpack(task))))

    def _answer(self, function: Callable[[], Any]) -> Answer:
        """Call a function under the runtime; return its result or exception, with the log lines that it wrote."""
        lines: list[str] = []
        with using(replace(self.runtime, log=lines.append)):
            try:
                answer = Answer(function())
            except InputError as error:
                answer = Answer(error=str(error))
            except Exception as error:
                answer = Answer(bug=_make_picklable(error), traceback=traceback.format_exc())
        return replace(answer, log=tuple(lines))


def _check_picklable(result: Any) -> Any:
    try:
        pickle.dumps(result)
    except Exception as error:
        raise RuntimeError(f"a result cannot be pickled: {error}") from error
    return result


def _make_picklable(error: Exception) -> Exception:
    """Return the exception itself, or a RuntimeError with its message if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def refuse_split_gpus(engine: Engine) -> None:
    """Raise InputError for a fractional number of GPUs above 1, which no worker can have."""
    if engine.gpus > 1 and engine.gpus % 1:
        raise InputError(f"gpus={engine.gpus}: expected a part of one GPU, such as 0.5, or a whole number of GPUs")


def count_slots(gpus: float, share: float) -> int:
    """Count the workers that fit on the GPUs of a machine, with ``share`` GPUs each; none has parts of two GPUs.

    >>> count_slots(2, 0.4), count_slots(5, 2), count_slots(0, 0.5)
    (4, 2, 0)
    """
    # 1e-9, because a quotient such as 1 / 0.1 may be rounded to just below a whole number.
    return int(gpus // share) if share >= 1 else int(gpus) * int(1 / share + 1e-9)


def make_portable(runtime: Runtime, threads: int) -> Runtime:
    """Return a runtime for a worker: without callbacks to this process's terminal, and with a worker's threads."""
    return replace(runtime, progress=Runtime.progress, log=Runtime.log, workers=runtime.workers or threads)


def pack(value: Any, dumps: Callable[[Any], bytes] = pickle.dumps) -> bytes:
    """Pickle a setup or a task for another process; raise InputError if it cannot be pickled or is too large."""
    try:
        content = dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(f"{format_one_line(error)}: worker processes cannot get it; {_REMEDY}") from error
    if len(content) > LARGEST:
        size = f"{len(content) / 2**20:.0f} MB, expected at most {LARGEST / 2**20:.0f} MB"
        raise InputError(
            f"the setup or task of a worker process takes {size}: pass the path of a file instead of its content"
        )
    return content


def unpack(content: bytes) -> Any:
    """Unpickle a setup or a task; raise InputError if this process cannot import its functions or classes."""
    try:
        return pickle.loads(content)
    except (AttributeError, ImportError) as error:
        raise InputError(f"{format_one_line(error)}: a worker process does not know it; {_REMEDY}") from error


_REMEDY = 'define it at the top of a module that can be imported, or pass engine="serial"'
