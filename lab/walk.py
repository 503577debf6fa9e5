"""Trace ``captious score``: which modules a reader passes through on the way from the command to the report.

The script runs one real command in this process and records its calls with ``sys.setprofile``::

    captious score PREDICTIONS -r REFERENCES -m "bleu,cider,clipscore(weights=captious-mini)" --images IMAGES --out TMP

Only code in files of the package captious counts. Other packages and generated code (the methods of a dataclass) are
skipped. The trace starts before captious is imported and follows the main thread.

- Modules imported: entries ``captious`` and ``captious.*`` of ``sys.modules`` at the end of the run.
- Modules called: modules with at least one call event besides the module's own body. A class body is such an event, so
  a module that defines a class counts as soon as it is imported.
- Changes of module: calls in another module than the call before. Returns do not count.
- The walk: the modules in the order in which a function of theirs was first called, each with its first three
  functions. Class bodies, lambdas and comprehensions are left out.

The feature store and the report go to an empty temporary directory, so that two runs print the same numbers.
``captious demo`` writes a sample::

    PYTHONPATH=src python lab/walk.py SAMPLE/predictions/expert.json SAMPLE/references.json SAMPLE/images
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import tempfile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

METRICS = "bleu,cider,clipscore(weights=captious-mini)"


class Trace:
    """A profile function that follows the calls inside one package."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.modules: set[str] = set()
        self.functions: dict[str, list[str]] = {}
        self.changes = 0
        self._current = ""
        self._homes: dict[CodeType, str] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Record one event of the interpreter."""
        if event != "call":
            return
        code = frame.f_code
        module = self._homes.get(code)
        if module is None:
            module = self._homes[code] = self._home(frame)
        if not module:
            return
        self.modules.add(module)
        self.changes += module != self._current
        self._current = module
        if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):  # not set: a class body
            functions = self.functions.setdefault(module, [])
            if code.co_name not in functions:
                functions.append(code.co_name)

    def _home(self, frame: FrameType) -> str:
        """Name the module of a call; an empty string where the call does not count."""
        name: str = frame.f_globals.get("__name__", "")
        code = frame.f_code
        inside = name.partition(".")[0] == self.package and Path(code.co_filename).is_file()
        return name if inside and code.co_name != "<module>" else ""


def trace_score(predictions: Path, references: Path, images: Path, metrics: str) -> Trace:
    """Run the command under a trace. What it prints goes to standard error."""
    trace = Trace("captious")
    with tempfile.TemporaryDirectory() as directory:
        os.environ["CAPTIOUS_HOME"] = os.environ["CAPTIOUS_CACHE"] = str(Path(directory) / "home")
        sys.argv = ["captious", "score", str(predictions), "-r", str(references), "-m", metrics]
        sys.argv += ["--images", str(images), "--out", str(Path(directory) / "run")]
        stdout, sys.stdout = sys.stdout, sys.stderr
        sys.setprofile(trace)
        try:
            from captious.cli.app import main as captious

            captious()
        except SystemExit as stop:
            if stop.code:
                raise
        finally:
            sys.setprofile(None)
            sys.stdout = stdout
    return trace


def main() -> None:
    """Trace one command and print its numbers and its walk."""
    parser = argparse.ArgumentParser(description="Trace captious score: modules imported, called, and their order.")
    parser.add_argument("predictions", type=Path, help="Candidate captions.")
    parser.add_argument("references", type=Path, help="Their references.")
    parser.add_argument("images", type=Path, help="Directory of the images.")
    parser.add_argument("--metrics", "-m", default=METRICS, help=f"Default: {METRICS}")
    arguments = parser.parse_args()
    trace = trace_score(arguments.predictions, arguments.references, arguments.images, arguments.metrics)

    imported = [name for name in sys.modules if name.partition(".")[0] == "captious"]
    print(f"modules imported    {len(imported):6,}")
    print(f"modules called      {len(trace.modules):6,}")
    print(f"changes of module   {trace.changes:6,}")
    print(f"\nthe walk: {len(trace.functions)} modules in the order of the first call of a function")
    for number, (module, functions) in enumerate(trace.functions.items(), 1):
        listed = ", ".join(functions[:3]) + (", ..." if len(functions) > 3 else "")
        print(f"{number:4}  {module.removeprefix('captious.'):28}  {listed}")


if __name__ == "__main__":
    main()
