"""The tests that a contributor to a metric needs, on the base install with pytest and hypothesis: ``make quick``.

``python -m lab.quick`` runs them; ``python -m lab.quick tests/study -x`` runs others, with options of pytest. A test
or a file of tests that needs a package of an extra is skipped with the reason. That is so here alone: ``make test``
installs every extra, and a package that is missing there is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from captious.errors import MissingExtra

# Folders of tests that are run whole.
WHOLE = ("_core", "text", "stats", "io", "render", "contract")
METRICS = ("bleu", "rouge", "cider", "lcs", "diversity", "names", "function", "declarations", "explanation")
ROOMS = (
    "captions",
    "options",
    "evaluate",
    "compare",
    "scorer",
    "import",
)
COMMANDS = ("cli", "params", "boundary", "refusals", "tree")
# Packages whose examples in docstrings are run.
CODE = ("text", "stats", "io", "render", "metrics", "runs")
PATHS = (
    *(f"tests/{name}" for name in WHOLE),
    *(f"tests/metrics/test_{name}.py" for name in METRICS),
    *(f"tests/test_{name}.py" for name in ROOMS),
    *(f"tests/runs/test_{name}.py" for name in ("runs", "report_files")),
    *(f"tests/cli/test_{name}.py" for name in COMMANDS),
    *(f"src/captious/{name}" for name in CODE),
)


class WithoutExtras:
    """A plugin of pytest: what fails for want of an extra is skipped."""

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        """A file whose imports need an extra is skipped."""
        report: Any = yield
        if report.failed and report.call.excinfo is not None and (reason := missing(report.call.excinfo.value)):
            report.outcome, report.longrepr, report.result = "skipped", (collector.nodeid, 0, f"Skipped: {reason}"), []
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """A test that comes to need an extra is skipped."""
        report: Any = yield
        if report.failed and call.excinfo is not None and (reason := missing(call.excinfo.value)):
            report.outcome, report.longrepr = "skipped", (str(item.path), item.location[1] or 0, f"Skipped: {reason}")
        return report


def missing(error: BaseException | None) -> str:
    """Which package an error is about that is not installed; nothing for another error."""
    while error is not None:
        if isinstance(error, MissingExtra):
            return str(error)
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] not in (
            "captious",
            "tests",
            "lab",
        ):
            return f"{error.name} is not installed"
        error = getattr(error, "cause", None) or error.__cause__
    return ""


def main(arguments: list[str]) -> int:
    """Run pytest on the paths that the arguments name, or on all of `PATHS`."""
    paths = () if any(Path(argument.partition("::")[0]).exists() for argument in arguments) else PATHS
    return pytest.main(["--doctest-ignore-import-errors", "-rs", *paths, *arguments], [WithoutExtras()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
