"""Processes killed at a chosen moment: at the n-th time that they open, rename, make or remove something in a folder.

A parent imports everything once and forks a child for each kill. SIGKILL leaves a child no time to clean up.
"""

import os
import signal
import sys
from pathlib import Path

EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.truncate"}


def run_killed(arguments, place, moment):
    """Run a command in a child that dies at a moment; gives its exit code, negative for a signal, and its moments.

    With a moment of 0 it ends by itself.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run(arguments, place, moment, writing)
    os.close(writing)
    with os.fdopen(reading) as stream:
        count = len(stream.read())
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), count


def _run(arguments, place, moment, writing):
    """In the child: every event is a byte in the pipe, so that the parent can count them."""
    from captious.cli.app import main

    left = moment

    def watch(event, values):
        nonlocal left
        if event not in EVENTS or not isinstance(values[0], (str, bytes, os.PathLike)):
            return
        if str(place) in os.fsdecode(values[0]) and not (event == "open" and values[1] in ("r", "rb")):
            os.write(writing, b".")
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.argv = ["captious", *map(str, arguments)]
        sys.addaudithook(watch)
        main()
    except SystemExit as exit:
        code = exit.code or 0
    finally:
        os._exit(code if isinstance(code, int) else 1)


def leftovers(folder):
    """Drafts that nobody will finish."""
    return [path.name for path in Path(folder).rglob(".*") if path.name.endswith((".part", ".old"))]
