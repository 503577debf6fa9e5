"""The ``captious`` command: its subcommands, and the one place that turns errors into one line and exit code 2."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import click

from captious._core.files import FULL
from captious._version import __version__
from captious.cli import everyday
from captious.cli.commands import CommandGroup, LazyGroup
from captious.cli.completion import make_completion_options
from captious.cli.session import AUDIT, JUDGE, MODELS
from captious.errors import InputError, format_suggestion

# Groups of commands with their panel and help; each is the `app` of the module with its name.
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


# A word that would fill the screen, such as an id of thousands of characters; only its ends are shown.
_LONG = re.compile(r"\S{400,}")


@cache
def build_app() -> CommandGroup:
    """Build the tree of commands: the everyday ones, and the groups, which are imported when they are needed."""
    version = click.Option(
        ["--version", "-V"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Print the version.",
    )
    line = "Judge image captions: exact metrics with error bars, no Java."
    root = CommandGroup("captious", line, params=[version, *make_completion_options()])
    everyday.register(root)
    for name, (panel, text) in GROUPS.items():
        root.add_command(LazyGroup(name, text, panel))
    return root


def _print_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"captious {__version__}")
        ctx.exit()


def main() -> None:
    """Run the command line."""
    run(build_app())


def run(app: click.Command, name: str = "captious") -> None:
    """Run a tree of commands; a user error prints one line on standard error and exits with code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot encode a character shows "?" instead of failing.
            stream.reconfigure(errors="replace")
            if os.name == "nt" and not stream.isatty():
                stream.reconfigure(encoding="utf-8")  # files and pipes have the same bytes on all systems
    try:
        with _hide_library_warnings():
            sys.exit(app.main(prog_name=name, standalone_mode=False) or 0)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else name
        message = " ".join(error.format_message().split()).rstrip(".")
        if isinstance(error, click.NoSuchOption):
            message = f"no option {error.option_name}{_suggest_option(error)}"
        _print_error(
            command, f"{message} See: {command} -h" if message.endswith("?") else f"{message}; see: {command} -h"
        )
        sys.exit(2)
    except InputError as error:
        _print_error("captious", " ".join(str(error).split()))
        sys.exit(2)
    except RecursionError:
        _print_error("captious", "a value in a file is nested too deeply to be read")
        sys.exit(2)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        reason = error.strerror or str(error)
        done = "written" if error.errno in FULL else "read or written"
        _print_error("captious", f"{where}cannot be {done} ({reason})")
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)


@contextmanager
def _hide_library_warnings() -> Iterator[None]:
    """Hide warnings of NumPy, Pillow and model libraries, unless ``python -W`` or PYTHONWARNINGS is set."""
    if sys.warnoptions:
        yield
        return
    # Model libraries also warn through logging.
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _print_error(who: str, message: str) -> None:
    """Print an error on one line; on a terminal with its beginning in color, wrapped between words."""
    message = _LONG.sub(lambda word: f"{word[0][:160]}…{word[0][-40:]}", _escape_controls(message))
    if not sys.stderr.isatty():
        sys.stderr.write(f"{who}: {message}\n")
        return
    from captious.render.terminal import print_error

    print_error(who, message)


def _suggest_option(error: click.NoSuchOption) -> str:
    """Suggest an option for an unknown one: one that it begins or abbreviates, or the nearest in spelling."""
    option = error.option_name
    params = error.ctx.command.params if error.ctx else ()
    flags = [flag for param in params for flag in (*param.opts, *param.secondary_opts) if flag.startswith("--")]
    letters = ".*".join(map(re.escape, option.strip("-")))
    # First options that begin with the word (--ref: --references), then those that contain its letters in order.
    for fits in (lambda flag: flag.startswith(option), lambda flag: re.fullmatch(f"--{letters}.*", flag) is not None):
        if option.startswith("--") and (meant := list(filter(fits, flags))):
            return f"; did you mean {min(meant, key=len)}?"
    return format_suggestion(option, flags).replace("'", "")


def _escape_controls(text: str) -> str:
    """Escape characters that could drive the terminal; ids and file names come from files of others."""
    if text.isprintable():
        return text
    from captious.render.terminal import escape_controls

    return escape_controls(text)
