"""The ``captious`` command: its subcommands, and one place where errors become one line and exit code 2."""

from __future__ import annotations

import io
import os
import sys

import typer

from captious._version import __version__
from captious.cli import (
    bias,
    cache,
    everyday,
    make,
    probe,
    study,
    style,
    train,
)
from captious.cli.session import AUDIT, JUDGE, MODELS
from captious.errors import InputError

app = typer.Typer(
    help="Judge image captions: exact metrics with error bars, no Java.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
everyday.register(app)
app.add_typer(study.app, name="study", rich_help_panel=JUDGE)
app.add_typer(probe.app, name="probe", rich_help_panel=JUDGE)
app.add_typer(bias.app, name="bias", rich_help_panel=AUDIT)
app.add_typer(style.app, name="style", rich_help_panel=AUDIT)
app.add_typer(train.app, name="train", rich_help_panel=MODELS)
app.add_typer(make.app, name="make", rich_help_panel=MODELS)
app.add_typer(cache.app, name="cache", rich_help_panel=MODELS)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"captious {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Judge image captions: exact metrics with error bars, no Java."""


def main() -> None:
    """Run the command line."""
    run(app)


def run(app: typer.Typer) -> None:
    """Run a tree of commands; a mistake of the user is one line on standard error and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows "?" instead of failing
    try:
        app()
    except InputError as error:
        sys.stderr.write(f"captious: {' '.join(str(error).split())}\n")
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"captious: {where}cannot be read or written ({error.strerror or error})\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
