"""A user's script that is killed in mid-run."""

from __future__ import annotations

import os
import select
import subprocess
import sys

# Without a guard against being imported again.
SCRIPT = """
import sys
from functools import partial
from pathlib import Path
from captious.engines.tasks import run_tasks
from captious.options import Engine
from tests.engines import work

folder = Path(sys.argv[1])
engine = Engine(sys.argv[2], jobs=2, address=sys.argv[3] or None)
tasks = [task for task in range(8) if not (folder / f"{task}.txt").exists()]
for end in run_tasks(partial(work.written, folder), tasks, engine):
    print(tasks[end.index], end.error)
"""


def ended(pid):
    """Wait until a process has ended; it need not be a child of this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return _readable(descriptor)
    finally:
        os.close(descriptor)


def _readable(descriptor):
    """Whether something can be read within a minute. Unlike select, poll takes descriptors above 1,023."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(60_000))


def announced(pipe, count):
    """Wait for the pids of workers that wait, from the named pipe in which they announce themselves."""
    descriptor = os.open(pipe, os.O_RDWR)  # so that opening it does not wait
    try:
        text = ""
        while len(set(text.split())) < count or not text.endswith("\n"):
            assert _readable(descriptor), f"only these workers came within a minute: {text}"
            text += os.read(descriptor, 4096).decode()
    finally:
        os.close(descriptor)
    return set(map(int, text.split()))


class Driver:
    """The script, once both of its workers are at a task that waits."""

    def __init__(self, folder, executor, address=""):
        self.folder = folder
        (folder / "script.py").write_text(SCRIPT)
        self.command = [sys.executable, folder / "script.py", folder, executor, address]
        self.options = {
            "env": {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        }

    def __enter__(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.process = subprocess.Popen(self.command, start_new_session=True, **self.options)
        try:
            self.workers = announced(pipe, 2)
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.communicate()
        (self.folder / "pipe").unlink()

    def again(self):
        """The same script once more, with tasks that do not wait."""
        return subprocess.run(self.command, **self.options)
