"""A Python child process that communicates over pipes: it runs tasks, or decodes images.

A pool of ``concurrent.futures`` would import the caller's main script again, lose all work when one process dies, and
leave processes running when the caller is killed. A child process exits when its pipe is closed.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import IO, Any, cast

PROGRAM = "import sys; sys.path[:] = {path!r}; from captious.engines.child import serve; serve({module!r}, {name!r})"
# Exceptions of sending and receiving after the other process has exited.
GONE = (OSError, EOFError, pickle.UnpicklingError)


@dataclass(frozen=True)
class Pipes:
    """The two pipes to another process."""

    incoming: IO[bytes]
    outgoing: IO[bytes]

    def send(self, message: object) -> None:
        """Send a message; arrays in it are not copied first."""
        pickle.dump(message, self.outgoing, protocol=5)
        self.outgoing.flush()

    def receive(self) -> Any:
        """Wait for the next message."""
        return pickle.load(self.incoming)


class Child:
    """A process that calls one function with the `Pipes` to this process; it inherits the file ``descriptors``."""

    def __init__(
        self,
        function: Callable[[Pipes], None],
        environment: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        program = PROGRAM.format(path=sys.path, module=function.__module__, name=function.__name__)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
            pass_fds=descriptors,
        )
        self.pipes = Pipes(cast(IO[bytes], self.process.stdout), cast(IO[bytes], self.process.stdin))

    def kill(self) -> None:
        """Kill the process. A thread that waits for a message of it gets one of the exceptions `GONE`."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Kill the process and close its pipes, which no other thread may use any more."""
        self.kill()
        for pipe in (self.pipes.outgoing, self.pipes.incoming):
            with suppress(OSError):  # unsent data to a process that has exited
                pipe.close()


def serve(module: str, name: str) -> None:
    """Run one function in the child process, until it returns or the parent closes its pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent handles it
    parent = Pipes(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # a library's prints go to stderr, not between the messages
    with suppress(EOFError, BrokenPipeError):
        getattr(import_module(module), name)(parent)
