"""The ``captious`` command: its subcommands, and the one place that turns errors into one line and exit code 2."""

from __future__ import annotations

import codecs
import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import click

from captious._core.files import FULL
from captious._version import __version__
from captious.cli.commands import CommandGroup, LazyCommand, LazyGroup
from captious.cli.session import AUDIT, EVERYDAY, JUDGE, MODELS
from captious.errors import InputError, format_suggestion

# Everyday commands with the module of each; its function has the name of the command.
COMMANDS = {
    "score": "score",
    "keep": "everyday",
    "compare": "everyday",
    "gate": "gate",
    "arena": "everyday",
    "view": "everyday",
    "check": "everyday",
    "metrics": "cards",
    "demo": "everyday",
    "schema": "schema",
}
# Groups of commands with their panel and help; each is the `app` of the module with its name.
GROUPS = {
    "study": (JUDGE, "Metrics against people: correlations with intervals, tests, agreement, power."),
    "probe": (
        JUDGE,
        "Encoders, painters, metrics and captions under test: details, retrieval, hubness, classes, word order, "
        "pictures, invented objects, stress.",
    ),
    "cost": (JUDGE, "Operations of one score by encoders and chat models, and the agreement that they buy."),
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


# Shells with completion, and the word for the user's own.
SHELLS = ("bash", "zsh", "fish")
CURRENT = "current"
# A word that would fill the screen, such as an id of thousands of characters; only its ends are shown.
_LONG = re.compile(r"\S{400,}")


@cache
def build_app() -> CommandGroup:
    """Build the tree of commands. The module of a command or a group is imported when it is needed."""
    version = click.Option(
        ["--version", "-V"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Print the version.",
    )
    text = "Install completion for your shell, or for bash, zsh or fish."
    install = _make_completion_option("--install-completion", "install_script", text)
    show = _make_completion_option("--show-completion", "print_script", "Print the script of completion instead.")
    line = "Judge image captions: exact metrics with error bars, no Java."
    root = CommandGroup("captious", line, params=[version, install, show])
    members: list[LazyCommand | LazyGroup] = [
        *(LazyCommand(name, module, EVERYDAY) for name, module in COMMANDS.items()),
        *(LazyGroup(name, text, panel) for name, (panel, text) in GROUPS.items()),
        LazyCommand("judge-noise", "judge_noise", JUDGE),
        LazyCommand("reproduce", "reproduce", JUDGE),
    ]
    # The help prints a panel for each run of commands with the same one, so those of a panel are added together.
    for member in sorted(members, key=lambda one: (EVERYDAY, JUDGE, AUDIT, MODELS).index(one.panel)):
        root.add_command(member)
    return root


def _print_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"captious {__version__}")
        ctx.exit()


def _make_completion_option(flag: str, action: str, text: str) -> click.Option:
    """Return an option that runs a function of `captious.cli.completion` for a shell; without one, for the user's."""

    def callback(ctx: click.Context, param: click.Parameter, shell: str | None) -> None:
        if shell is not None and not ctx.resilient_parsing:
            from captious.cli import completion

            getattr(completion, action)(_find_shell() if shell == CURRENT else shell)
            ctx.exit()

    return click.Option(
        [flag],
        type=click.Choice([*SHELLS, CURRENT]),
        is_flag=False,
        flag_value=CURRENT,
        is_eager=True,
        expose_value=False,
        callback=callback,
        help=text,
    )


def _find_shell() -> str:
    """Return the name of the user's shell; raise InputError if it has no completion."""
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise InputError(f"$SHELL is {name!r}, expected {', '.join(SHELLS)}; name one of them after the option")
    return name


# Replacements of characters that a terminal cannot encode, such as τ on a Windows console (cp1252).
_PLAIN = {
    "τ": "tau",
    "ρ": "rho",
    "α": "alpha",
    "κ": "kappa",
    "Δ": "Delta",
    "λ": "lambda",
    "Σ": "sum",
    "σ": "sigma",
    "−": "-",
    "–": "-",
    "—": "-",
    "×": "x",
    "±": "+/-",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "≈": "~",
    "→": "->",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "…": "...",
    "·": "-",
    "√": "sqrt",
    "∞": "inf",
    "✓": "yes",
    "✗": "no",
    "²": "^2",
    "³": "^3",
    "₁": "1",
    "₂": "2",
    "½": "1/2",
    "█": "#",
    "▁": "_",
    "←": "<-",
}
# The error handler of standard output and standard error.
PLAIN_ERRORS = "captious-plain"


def replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Return plain characters for those that a stream cannot encode, "?" for any other: the handler `PLAIN_ERRORS`.

    >>> "τ-b − 1, 猫".encode("cp1252", PLAIN_ERRORS)
    b'tau-b - 1, ?'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(character, "?") for character in error.object[error.start : error.end]), error.end


codecs.register_error(PLAIN_ERRORS, replace_unencodable)


def main() -> None:
    """Run the command line."""
    run(build_app())


def run(app: click.Command, name: str = "captious") -> None:
    """Run a tree of commands; a user error prints one line on standard error and exits with code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAIN_ERRORS)
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
