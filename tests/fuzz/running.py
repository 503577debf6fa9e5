"""Running a case in this process, under a watchdog, and what came of it."""

import contextlib
import io
import os
import re
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from tests.fuzz.cases import case_of

from captious.cli.app import build_app, run
from captious.render import progress, terminal

# Seconds, and seconds of work, after which a case counts as a hang: far more than METEOR's tables and torch take.
LIMIT, BUSY = 600.0, 120.0
# Bytes that a case may take beyond what this process has already.
MEMORY = 6 << 30
APP = build_app()
REFUSED, ACCEPTED, SILENT, CRASHED, HUNG, UNCLEAN = (
    "clean refusal",
    "accepted rightly",
    "accepted wrongly",
    "traceback",
    "hang",
    "unclean",
)
OUTCOMES = (REFUSED, ACCEPTED, SILENT, CRASHED, HUNG, UNCLEAN)
# The exit code of a result without some of its shards, which it names.
FAILED_SHARDS = 3
# Every line on standard error starts with one of these; another is a library's.
OURS = ("captious", "warning: ", "written: ", "note: ")


# With one of these a result says what it does without.
SAID = ("warning: ", "left out", "cannot be used", "could not be painted")


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Hang(BaseException):
    """Raised in a case that takes too long; no ``except Exception`` stops it."""


@dataclass(frozen=True)
class Outcome:
    """What came of a case, and why where that is bad."""

    kind: str
    why: str = ""
    code: int = 0
    error: str = ""


def run_case(seed, number, root):
    """Make and run one case in a folder of its own below ``root``; gives the case and its outcome."""
    folder = Path(tempfile.mkdtemp(dir=root))
    try:
        case = case_of(seed, number, folder)
        return case, outcome_of(case, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def outcome_of(case, folder):
    """Run a case in its folder."""
    before, logged = _listing(folder), []
    try:
        code, out, error = _run(case.arguments, folder, logged)
    except Hang:
        return Outcome(HUNG, f"longer than {LIMIT:g} s, or {BUSY:g} s of work")
    except BaseException:  # a traceback is what this looks for
        return Outcome(CRASHED, traceback.format_exc(limit=-4))
    lines = [line for line in error.split("\n") if line]
    new = sorted(_listing(folder) - before)
    strangers = [line for line in lines if not line.startswith(OURS) and line not in logged]
    faults = []
    if code not in (0, 2) and not _is_verdict(case.arguments[0], code, error):
        faults.append(f"exit code {code}")
    if strangers:
        faults.append(f"on standard error: {strangers[0][:200]}")
    if _CONTROL.search(out + error):
        faults.append("control characters reach the terminal")
    if any(name.endswith((".part", ".old")) for name in new):
        faults.append(f"left behind: {new[0]}")
    if code == 2:
        checked = out and (case.arguments[0] == "check" or case.arguments[:2] == ("studio", "check"))
        messages = [line for line in lines if line not in logged and "compiling METEOR's tables" not in line]
        if len(messages) != 1 and not checked:
            faults.append(f"{len(messages)} lines on standard error")
        if out and not checked:
            faults.append("printed a result before it refused")
        if new:
            faults.append(f"left behind: {new[0]}")
    if faults:
        return Outcome(UNCLEAN, "; ".join(faults), code, error)
    if code == 2:
        return Outcome(REFUSED, "", code, error)
    if case.wrong and not any(words in text for words in SAID for text in (out, error)):
        return Outcome(SILENT, "exit code 0 and no warning", code, error)
    return Outcome(ACCEPTED, "", code, error)


def _is_verdict(command, code, error):
    """Return True for exit codes that are results: a gate's *worse* and *undecided*, and shards that failed."""
    return (command == "gate" and code in (1, 3)) or (code == FAILED_SHARDS and "left out and listed in" in error)


def _listing(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _run(arguments, folder, logged):
    """Exit code, standard output and standard error, of descriptors too: libraries in C write there."""
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as error,
        _descriptors(out, error),
        _no_network(),
        _limited(),
        mock.patch.object(progress, "make_rich_text", _recording(logged)),
        mock.patch.object(sys, "argv", ["captious", *arguments]),
        contextlib.chdir(folder),
    ):
        try:
            run(APP)
            code = 0
        except SystemExit as exit:
            code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        return code, _content(out), _content(error)


def _recording(logged):
    """In place of what makes lines of the log: it remembers them, to tell them from lines of libraries."""

    def words(line, *arguments):
        logged.append(str(line))
        return terminal.make_rich_text(line, *arguments)

    return words


def _content(file):
    file.seek(0)
    return file.read().decode("utf-8", "replace")


@contextlib.contextmanager
def _descriptors(out, error):
    """Standard streams and their descriptors go to these files; standard input is empty."""
    kept = [os.dup(number) for number in (0, 1, 2)]
    null = os.open(os.devnull, os.O_RDONLY)
    streams = [
        io.TextIOWrapper(os.fdopen(os.dup(file.fileno()), "wb", buffering=0), "utf-8", write_through=True)
        for file in (out, error)
    ]
    before = sys.stdin, sys.stdout, sys.stderr
    for source, number in ((null, 0), (out.fileno(), 1), (error.fileno(), 2)):
        os.dup2(source, number)
    sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(os.fdopen(os.dup(0), "rb"), encoding="utf-8"), *streams
    try:
        yield
    finally:
        sys.stdin.close()
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in streams:
            stream.close()
        for number, copy in enumerate(kept):
            os.dup2(copy, number)
            os.close(copy)
        os.close(null)


@contextlib.contextmanager
def _no_network():
    def refuse(*arguments):
        raise OSError(101, "Network is unreachable")

    with mock.patch.object(socket.socket, "connect", refuse), mock.patch.object(socket, "getaddrinfo", refuse):
        yield


@contextlib.contextmanager
def _limited():
    """No case takes longer than `LIMIT`, nor much more memory than others."""

    began, worked = time.monotonic(), time.process_time()

    def stop(number, frame):
        if time.monotonic() - began > LIMIT or time.process_time() - worked > BUSY:
            raise Hang

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    handler = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, BUSY, 1.0)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
