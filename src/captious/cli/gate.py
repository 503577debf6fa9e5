"""``captious gate``: a verdict for CI, with the files and exit codes that CI servers read."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from captious.cli.commands import replace_arguments
from captious.cli.params import Omit, Rare, list_params
from captious.cli.session import Metrics, Session, ignore_closed_pipes
from captious.errors import InputError, format_one_line
from captious.options import Argument, Bounds, Option, Options, Output, Undecided

if TYPE_CHECKING:
    from captious.gating import Gate

# Environment variable with the path of a step's summary.
SUMMARY = "GITHUB_STEP_SUMMARY"
# Largest step summary in bytes; GitHub shows nothing of a larger one.
LARGEST_SUMMARY = 1024 * 1024


@dataclass(frozen=True)
class CIFiles(Options):
    """Files that CI servers read besides the exit code."""

    title = "For CI"

    summary: Annotated[bool, Option("Append Markdown to the file of $GITHUB_STEP_SUMMARY.")] = False
    markdown: Annotated[Path | None, Option("Write Markdown for a comment.", metavar="FILE", rare=True)] = None
    junit: Annotated[Path | None, Option("Write JUnit XML.", metavar="FILE")] = None
    link: Annotated[
        str | None, Option("Link in the Markdown; on GitHub, by default, that of the run.", metavar="URL", rare=True)
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """The requested files, by the names of their options."""
        files = {"summary": self.summary, "markdown": self.markdown, "junit": self.junit}
        return {name: value for name, value in files.items() if value}

    def write(self, result: Gate, target: Path | None) -> None:
        """Write the requested files; ``target`` is the file of the step's summary, if one is requested."""
        shown = result.to_markdown(_get_run_address() if self.link is None else self.link)
        if self.junit is not None:
            _write_text(self.junit, result.to_junit())
        if self.markdown is not None:
            _write_text(self.markdown, shown)
        if target is not None:
            _append_summary(target, shown)

    def write_error(self, message: str) -> None:
        """Write the reason why there is no verdict into the files that CI shows."""
        from captious.gating.junit import format_junit_error
        from captious.render import Document

        if self.junit is not None:
            _write_text(self.junit, format_junit_error(message))
        if self.summary and os.environ.get(SUMMARY):
            _append_summary(Path(os.environ[SUMMARY]), Document("captious gate: no verdict", message).to_markdown())


@dataclass(frozen=True)
class OtherTasks(Options):
    """Tasks of the command other than a test."""

    title = "Lock files and plans"

    update: Annotated[bool, Option("Write the values of NEW into the lock file BASE.")] = False
    values_only: Annotated[bool, Option("Lock the values without the statistics of items.", rare=True)] = False
    plan: Annotated[bool, Option("Test nothing; print which margins the items can confirm.")] = False
    changed: Annotated[float, Option("For a plan: share of captions that change.", min=0, max=1, rare=True)] = 0.2

    def refuse_contradictions(self, for_verdicts: Mapping[str, Any]) -> None:
        """Raise InputError for options that contradict each other.

        ``for_verdicts`` are the options in use that need a verdict; a plan and an update have none.
        """
        name = next(iter(for_verdicts), None)
        if name and (self.plan or self.update):
            raise InputError(f"{name}={for_verdicts[name]!r} is for a verdict; plan=True and update=True give none")
        if self.plan and self.update:
            raise InputError("plan=True as well as update=True, expected one of them")
        if self.values_only and not self.update:
            raise InputError("values_only=True is for a lock file; pass update=True as well")


def gate(
    base: Annotated[str, Argument("A run, a file of captions, or a lock file.", metavar="BASE")],
    session: Annotated[Session, Omit("dry_run", "interval"), Rare("endpoint", "latex", "csv", "device")],
    files: CIFiles,
    other: OtherTasks,
    new: Annotated[str | None, Argument("A run, or a file of captions.", metavar="NEW")] = None,
    metrics: Metrics = (),
    margin: Annotated[
        tuple[str, ...],
        Option("Loss that is allowed: 0.02, 1%, cider=0.02,rouge=1%, or a TOML file.", metavar="MARGIN"),
    ] = (),
    undecided: Annotated[
        Undecided | None, Option("Exit code if it cannot tell: 0 (warn) or 1 (fail) instead of 3.")
    ] = None,
    interval: Annotated[Bounds, Option("How bounds are made; the other two are narrower.")] = "studentized",
) -> None:
    """Test that NEW is not worse than BASE by more than a margin, on the same items.

    Exit code 0: a loss of more than the margin is ruled out in every metric. 1: it is shown in one. 3: the items cannot
    decide; the number needed is printed. 2: there is no verdict, because the input cannot be used.

    --margin 0.02 is in the unit of the metric, --margin 1% a share of the value of BASE.
    --update writes the lock file BASE: expected values, their signatures, and the statistics of the items.

    Example: captious gate base/ new.json --references refs.json --metrics cider,rouge --margin cider=0.02,rouge=1%
    Example: captious gate base.json new.json --references refs.json --margin gate.toml --junit gate.xml --summary
    Example: captious gate gate.lock.json new.json --references refs.json --metrics cider --update
    Example: captious gate base.json --references refs.json --plan --changed 0.2
    """
    other.refuse_contradictions(files.given | ({"undecided": undecided} if undecided else {}))
    if other.plan:
        _print_plan(base, new, session, metrics, margin, other.changed)
    elif new is None:
        raise InputError("no NEW, expected the captions to test; plan=True plans a gate without them")
    elif other.update:
        _update_lock(base, new, session, metrics, other.values_only)
    else:
        with _convert_crashes(files):
            _run_test(base, new, session, metrics, margin, undecided, interval, files)


def _run_test(
    base: str,
    new: str,
    session: Session,
    metrics: Metrics,
    margin: tuple[str, ...],
    undecided: Undecided | None,
    interval: Bounds,
    files: CIFiles,
) -> None:
    """Compute the verdict, write the files, and exit with the verdict's code."""
    from captious import gating

    for path, sign in ((files.markdown, gating.MARK), (files.junit, gating.SUITE)):
        _refuse_foreign_file(path, sign, session.output.overwrite)
    try:
        target = _get_summary_file() if files.summary else None
        with session.working() as step:
            result = gating.gate(
                base,
                new,
                metrics or None,
                margin or None,
                resampling=session.resampling,
                progress=step,
                reading=session.reading,
                undecided=undecided,
                interval=interval,
            )
    except InputError as error:
        files.write_error(replace_arguments(str(error), list_params(gate)))
        raise
    files.write(result, target)
    with ignore_closed_pipes():
        with _stop_commands(session.output):
            session.deliver(result)
        if result.verdict == "undecided" and result.undecided == "warn":
            click.echo("captious: warning: the gate cannot tell, and --undecided warn lets it pass", err=True)
    raise click.exceptions.Exit(result.exit_code)


@contextmanager
def _convert_crashes(files: CIFiles) -> Iterator[None]:
    """Convert a crash to exit code 2: Python's own code, 1, would be read as the verdict *worse*."""
    try:
        yield
    except BrokenPipeError:  # click would exit with 1, which means *worse*
        raise click.exceptions.Exit(2) from None
    except (click.exceptions.Exit, InputError, OSError, RecursionError):
        raise
    except Exception as error:
        files.write_error(f"captious failed: {type(error).__name__}: {format_one_line(error)}")
        traceback.print_exc()
        raise click.exceptions.Exit(2) from None


def _print_plan(
    base: str, new: str | None, session: Session, metrics: Metrics, margin: tuple[str, ...], changed: float
) -> None:
    from captious.gating import plan_gate

    with session.working() as step:
        result = plan_gate(
            base,
            new,
            metrics or None,
            margin or None,
            session.resampling,
            progress=step,
            reading=session.reading,
            changed=changed,
        )
    session.deliver(result)


def _update_lock(base: str, new: str, session: Session, metrics: Metrics, values_only: bool) -> None:
    """Write a lock file, and print the values it expects."""
    from captious.gating import lock_system

    with session.working() as step:
        report = lock_system(
            base,
            new,
            metrics or None,
            session.resampling,
            progress=step,
            reading=session.reading,
            statistics=not values_only,
        )
    session.deliver(report)
    click.echo(f"written: {base}", err=True)


def _refuse_foreign_file(path: Path | None, sign: str, overwrite: bool) -> None:
    """Raise InputError if a file exists, unless an earlier gate wrote it."""
    from captious._core.files import refuse_existing

    is_own = path is not None and path.is_file() and sign.encode() in path.read_bytes()[:300]
    refuse_existing(path, overwrite or is_own)


def _write_text(path: Path, text: str) -> None:
    from captious._core.files import write_atomically

    with write_atomically(path) as draft:
        draft.write_text(text, encoding="utf-8", errors="replace")


def _get_summary_file() -> Path:
    path = os.environ.get(SUMMARY)
    if not path:
        raise InputError(f"summary=True: ${SUMMARY} is not set, expected the file of a step's summary")
    return Path(path)


def _append_summary(path: Path, text: str) -> None:
    """Append to a step's summary, unless that would make it too large for GitHub to show."""
    content = f"{text}\n".encode("utf-8", "replace")
    if (path.stat().st_size if path.exists() else 0) + len(content) > LARGEST_SUMMARY:
        click.echo(f"captious: warning: {path}: the summary is full, and nothing was added", err=True)
        return
    with path.open("ab") as file:
        file.write(content)


def _get_run_address() -> str:
    """Return the address of the run on GitHub; empty elsewhere."""
    parts = [os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    return f"{parts[0]}/{parts[1]}/actions/runs/{parts[2]}" if all(parts) else ""


@contextmanager
def _stop_commands(output: Output) -> Iterator[None]:
    """Stop GitHub's runner from reading printed captions as workflow commands, such as ``::error::``."""
    guarded = os.environ.get("GITHUB_ACTIONS") == "true" and not (output.json or output.csv or output.latex)
    token = os.urandom(16).hex()
    if guarded:
        click.echo(f"::stop-commands::{token}")
    try:
        yield
    finally:
        if guarded:
            click.echo(f"::{token}::")
