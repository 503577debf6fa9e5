"""``captious gate``: a verdict for CI, with files and exit codes that CI servers read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from captious.cli.messages import with_flags
from captious.cli.params import Omit, params_of
from captious.cli.session import Metrics, Session
from captious.errors import InputError
from captious.options import Argument, Option, Output

if TYPE_CHECKING:
    from captious.gating import Gate

SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable that names the file of a step's summary."""
LARGEST_SUMMARY = 1024 * 1024
"""Bytes of a step summary; of a larger one GitHub shows nothing."""
PANEL = "For CI"
WARN_OR_FAIL = Literal["warn", "fail"]


def gate(
    base: Annotated[str, Argument("A run, a file of captions, or a lock file.", metavar="BASE")],
    session: Annotated[Session, Omit("dry_run")],
    new: Annotated[str | None, Argument("A run, or a file of captions.", metavar="NEW")] = None,
    metrics: Metrics = (),
    margin: Annotated[
        tuple[str, ...], Option("What may be lost: 0.02, 1%, cider=0.02,rouge=1%, or a TOML file.", metavar="MARGIN")
    ] = (),
    undecided: Annotated[
        WARN_OR_FAIL | None, Option("Exit code where it cannot tell: 0 (warn) or 1 (fail), not 3.")
    ] = None,
    update: Annotated[bool, Option("Write the values of NEW into the lock file BASE.")] = False,
    values_only: Annotated[bool, Option("Lock the values without the statistics of items.")] = False,
    plan: Annotated[bool, Option("Test nothing; say which margins the items can confirm.")] = False,
    changed: Annotated[float, Option("Of a plan: share of captions that change.", min=0, max=1)] = 0.2,
    summary: Annotated[bool, Option(f"Append Markdown to the file of ${SUMMARY}.", panel=PANEL)] = False,
    markdown: Annotated[Path | None, Option("Write Markdown for a comment.", metavar="FILE", panel=PANEL)] = None,
    junit: Annotated[Path | None, Option("Write JUnit XML.", metavar="FILE", panel=PANEL)] = None,
    link: Annotated[
        str | None, Option("Address in the Markdown; on GitHub that of the run.", metavar="URL", panel=PANEL)
    ] = None,
) -> None:
    """Test that NEW is not worse than BASE by more than a margin, on the same items.

    Exit code 0: a loss of more than the margin is ruled out in every metric. 1: it is shown in one. 3: the items cannot
    tell; how many would is printed. 2: the input cannot be used.

    --margin 0.02 is in the unit of the metric, --margin 1% a share of the value of BASE.
    --update writes the lock file BASE: expected values, their signatures, and the statistics of the items.

    Example: captious gate base/ new.json --references refs.json --metrics cider,rouge --margin cider=0.02,rouge=1%
    Example: captious gate base.json new.json --references refs.json --margin gate.toml --junit gate.xml --summary
    Example: captious gate gate.lock.json new.json --references refs.json --metrics cider --update
    Example: captious gate base.json --references refs.json --plan --changed 0.2
    """
    from captious import gating

    if plan or update:
        for name, value in {"summary": summary, "markdown": markdown, "junit": junit, "undecided": undecided}.items():
            if value:
                raise InputError(f"{name}={value!r} is for a verdict; plan=True and update=True give none")
    if plan and update:
        raise InputError("plan=True as well as update=True, expected one of them")
    if values_only and not update:
        raise InputError("values_only=True is for a lock file; pass update=True as well")
    if plan:
        _plan(base, new, session, metrics, margin, changed)
        return
    if new is None:
        raise InputError("no NEW, expected the captions to test; plan=True plans a gate without them")
    if update:
        _update(base, new, session, metrics, values_only)
        return
    for path, sign in ((markdown, gating.MARK), (junit, gating.SUITE)):
        _refuse_other(path, sign, session.output.overwrite)
    try:
        target = _summary_file() if summary else None
        with session.working() as step:
            result = gating.gate(
                base,
                new,
                metrics or None,
                margin or None,
                session.resampling,
                progress=step,
                reading=session.reading,
                undecided=undecided,
            )
    except InputError as error:
        _write_error(with_flags(str(error), params_of(gate)), junit, summary)
        raise
    shown = result.to_markdown(_run_address() if link is None else link)
    if junit is not None:
        _write(junit, result.to_junit())
    if markdown is not None:
        _write(markdown, shown)
    if target is not None:
        _append(target, shown)
    with _no_commands(session.output):
        session.deliver(result)
    raise typer.Exit(_announced(result))


def _announced(result: Gate) -> int:
    """The exit code, after a line on standard error where it is not that of the verdict."""
    if result.verdict == "undecided" and result.undecided == "warn":
        typer.echo("captious: warning: the gate cannot tell, and --undecided warn lets it pass", err=True)
    return result.exit_code


def _plan(
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


def _update(base: str, new: str, session: Session, metrics: Metrics, values_only: bool) -> None:
    """Write a lock file, and print what it expects."""
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
    typer.echo(f"written: {base}", err=True)


def _refuse_other(path: Path | None, sign: str, overwrite: bool) -> None:
    """Refuse to replace a file, unless an earlier gate wrote it."""
    from captious._files import refuse_existing

    ours = path is not None and path.is_file() and sign.encode() in path.read_bytes()[:300]
    refuse_existing(path, overwrite or ours)


def _write(path: Path, text: str) -> None:
    from captious._files import whole_file

    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8", errors="replace")


def _write_error(message: str, junit: Path | None, summary: bool) -> None:
    """Say in the files that CI shows why there is no verdict."""
    from captious.gating.junit import junit_error
    from captious.render import Document

    if junit is not None:
        _write(junit, junit_error(message))
    if summary and os.environ.get(SUMMARY):
        _append(Path(os.environ[SUMMARY]), Document("captious gate: no verdict", message).to_markdown())


def _summary_file() -> Path:
    path = os.environ.get(SUMMARY)
    if not path:
        raise InputError(f"summary=True: ${SUMMARY} is not set, expected the file of a step's summary")
    return Path(path)


def _append(path: Path, text: str) -> None:
    """Append to a step's summary, unless GitHub would then show nothing of it."""
    content = f"{text}\n".encode("utf-8", "replace")
    if (path.stat().st_size if path.exists() else 0) + len(content) > LARGEST_SUMMARY:
        typer.echo(f"captious: warning: {path}: the summary is full, and nothing was added", err=True)
        return
    with path.open("ab") as file:
        file.write(content)


def _run_address() -> str:
    """The address of the run on GitHub; nothing elsewhere."""
    parts = [os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    return f"{parts[0]}/{parts[1]}/actions/runs/{parts[2]}" if all(parts) else ""


@contextmanager
def _no_commands(output: Output) -> Iterator[None]:
    """Print captions, on GitHub in a block in which no line is a command of the runner, such as ``::error::``."""
    guarded = os.environ.get("GITHUB_ACTIONS") == "true" and not (output.json or output.csv or output.latex)
    token = secrets.token_hex(16)
    if guarded:
        typer.echo(f"::stop-commands::{token}")
    try:
        yield
    finally:
        if guarded:
            typer.echo(f"::{token}::")
