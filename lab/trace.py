"""Trace the way of the data through captious: which modules a command imports, which files and functions it calls.

::

    python -m lab.trace score preds.json --references refs.json --out run     a row of the table in CONTRIBUTING.md
    python -m lab.trace --files score preds.json --references refs.json       and the files, in the order of first calls
    python -m lab.trace --functions score preds.json --references refs.json   and every function with its calls
    python -m lab.trace --imports score preds.json --references refs.json     and the modules

The trace goes to standard error, behind whatever the command prints.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import captious

ROOT = f"{Path(captious.__file__).parent}/"
OPTIONS = ("--files", "--functions", "--imports")
# Functions that a plain file should reach once.
ONCE = ("Report._document", "parse_all", "refuse_occupied", "sweep", "Report._signatures")


class Trace:
    """Calls of functions of captious, counted; files in the order of their first call."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.files: dict[str, None] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Count a call; what runs while a module is imported is no call."""
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        if event == "call" and is_function and code.co_filename.startswith(ROOT):
            name = code.co_filename.removeprefix(ROOT)
            self.calls[name, getattr(code, "co_qualname", code.co_name)] += 1
            self.files.setdefault(name)

    def lines(self, options: set[str]) -> list[str]:
        """Return the table, and what the options ask for."""
        modules = sorted(name for name in sys.modules if name == "captious" or name.startswith("captious."))
        row = (len(modules), len(self.files), len(self.calls), sum(self.calls.values()))
        lines = ["| modules imported | files called | functions called | calls |", f"| {' | '.join(map(str, row))} |"]
        again = {name: number for (_, name), number in self.calls.items() if name in ONCE and number > 1}
        lines += [f"more than once: {name} × {number}" for name, number in again.items()]
        if "--files" in options:
            lines.append(" → ".join(self.files))
        if "--imports" in options:
            lines += modules
        if "--functions" in options:
            lines += [f"{number:7,}  {file}: {name}" for (file, name), number in sorted(self.calls.items())]
        return lines


def main() -> None:
    """Run the command line behind the options and print what it did."""
    arguments = sys.argv[1:]
    options = set()
    while arguments and arguments[0] in OPTIONS:
        options.add(arguments.pop(0))
    trace = Trace()
    sys.argv = ["captious", *arguments]
    sys.setprofile(trace)
    threading.setprofile(trace)
    try:
        from captious.cli.app import main as run_command

        run_command()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        print("\n".join(trace.lines(options)), file=sys.stderr)


if __name__ == "__main__":
    main()
