"""The ``captious`` command: its subcommands, and one place where errors become one line and exit code 2."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer._completion_shared import Shells, install

from captious._core.files import FULL
from captious._version import __version__
from captious.cli import everyday
from captious.cli.commands import CommandGroup
from captious.cli.session import AUDIT, JUDGE, MODELS
from captious.errors import InputError, nearest

GROUPS = {
    "study": (JUDGE, "Metrics against people: correlations with intervals, tests, agreement, power."),
    "probe": (
        JUDGE,
        "Encoders, painters, metrics and captions under test: details, retrieval, hubness, classes, word order, "
        "pictures, invented objects, stress.",
    ),
    "studio": (JUDGE, "Collect people's judgments of captions on pages of your own."),
    "bias": (AUDIT, "Bias amplification (LIC) for gender, race, age or any label."),
    "style": (AUDIT, "Contrastive n-grams: fit styles, see their words, explain and check captions."),
    "train": (MODELS, "Train encoders: clip, longclip, specs; and umic, a learned metric."),
    "make": (
        MODELS,
        "Make data: detail units, scene graphs, idf corpora, objects, wrong and edited captions, pictures.",
    ),
    "cache": (MODELS, "List what captious stores on this machine, and free space."),
}
"""Groups of commands with their panel and their line in the help; each is the ``app`` of the module of its name."""


_LONG = re.compile(r"\S{400,}")
"""A word that would fill the screen: a path or an id of thousands of characters, of which the ends are shown."""
UsageError: Any = typer.BadParameter.__base__
"""What typer raises for a command line that it cannot parse; the class itself is not among its public names."""


def build(groups: Container[str] = GROUPS) -> typer.Typer:
    """The everyday commands, and all groups; the modules of those that are not asked for are not imported."""
    app = typer.Typer(
        cls=CommandGroup,
        help="Judge image captions: exact metrics with error bars, no Java.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    everyday.register(app)
    for name, (panel, line) in GROUPS.items():
        commands = import_module(f"captious.cli.{name}").app if name in groups else typer.Typer()
        app.add_typer(commands, name=name, cls=CommandGroup, help=line, rich_help_panel=panel)
    app.callback()(_options)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"captious {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", "-V", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Judge image captions: exact metrics with error bars, no Java."""


def main() -> None:
    """Run the command line. A group that the first word does not name is not imported."""
    if sys.argv[1:2] == ["--install-completion"] and sys.argv[2:] in ([shell.value] for shell in Shells):
        shell, path = install(sys.argv[2], prog_name="captious")
        typer.echo(f"{shell} completion installed in {path}")
        typer.echo("Completion will take effect once you restart the terminal")
        return
    if sys.argv[1:2] in (["--show-completion"], ["--install-completion"]) and sys.argv[2:]:
        # Typer takes the name of a shell only where it is told not to look for the shell that runs.
        os.environ["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
    # A shell that completes a line hands it over in a variable: bash in the first, the others in the second.
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = line.split() if "_CAPTIOUS_COMPLETE" in os.environ else sys.argv
    first = next((word for word in words[1:] if not word.startswith("-")), "")
    run(command_tree(first))


@cache
def command_tree(group: str) -> Callable[..., Any]:
    """The everyday commands and this group, parsed once: typer reads every option anew at each call of its app."""
    return typer.main.get_command(build((group,)))


def run(app: Callable[..., Any], name: str = "captious") -> None:
    """Run a tree of commands; a mistake of the user is one line on standard error and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows "?" instead of failing
            if os.name == "nt" and not stream.isatty():
                stream.reconfigure(encoding="utf-8")  # a file or another program gets what it gets on other systems
    try:
        with _without_library_warnings():
            sys.exit(app(prog_name=name, standalone_mode=False) or 0)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            command = error.ctx.command_path if error.ctx else name
            message = " ".join(error.format_message().split()).rstrip(".")
            if type(error).__name__ == "NoSuchOption":
                message = f"no option {error.option_name}{_meant(error)}"
            _say(command, f"{message} See: {command} -h" if message.endswith("?") else f"{message}; see: {command} -h")
        sys.exit(2)
    except InputError as error:
        _say("captious", " ".join(str(error).split()))
        sys.exit(2)
    except RecursionError:
        _say("captious", "a value in a file is nested too deeply to be read")
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        reason = error.strerror or str(error)
        done = "written" if error.errno in FULL else "read or written"
        _say("captious", f"{where}cannot be {done} ({reason})")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


@contextmanager
def _without_library_warnings() -> Iterator[None]:
    """Warnings of NumPy, Pillow and model libraries are not the user's; ``python -W`` and PYTHONWARNINGS show them."""
    if sys.warnoptions:
        yield
        return
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _say(who: str, message: str) -> None:
    """Print an error: on one line, or on a terminal with its beginning in color and lines that break between words."""
    message = _LONG.sub(lambda word: f"{word[0][:160]}…{word[0][-40:]}", _neutral(message))
    if not sys.stderr.isatty():
        sys.stderr.write(f"{who}: {message}\n")
        return
    from captious.render.terminal import complain

    complain(who, message)


def _meant(error: Any) -> str:
    """The option that an unknown one was meant to be: one that it begins or abbreviates, or the nearest in spelling."""
    option = error.option_name
    params = error.ctx.command.params if error.ctx else ()
    flags = [flag for param in params for flag in (*param.opts, *param.secondary_opts) if flag.startswith("--")]
    letters = ".*".join(map(re.escape, option.strip("-")))
    for fits in (lambda flag: flag.startswith(option), lambda flag: re.fullmatch(f"--{letters}.*", flag) is not None):
        if option.startswith("--") and (meant := list(filter(fits, flags))):
            return f"; did you mean {min(meant, key=len)}?"
    return nearest(option, flags).replace("'", "")


def _neutral(text: str) -> str:
    """Text that cannot drive the terminal; ids and file names come from files that others wrote."""
    if text.isprintable():
        return text
    from captious.render.terminal import neutral

    return neutral(text)
