"""The help of a command: usage, description, and options in panels, one line per option if it fits.

``--help`` shows the options that most users need, ``--help-all`` also the rare ones. Types that are clear from the name
are left out, and so are bounds: a value out of bounds is refused with a message.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from inspect import cleandoc
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from click import style

from captious.cli.params import Param
from captious.options import Argument, get_choices

# Largest width of the help; longer lines are hard to read.
WIDEST = 100
# Largest width of the names of options.
LEFT = 30
# Longest choices that are shown after the flag; longer ones are part of the text.
LONGEST_CHOICES = 16
# Longest list of choices that is kept on one line.
LONGEST_UNBROKEN = 48
# Prevents line breaks while text is wrapped; printed as a normal space.
UNBROKEN = "\N{NO-BREAK SPACE}"
# A command with at most this many options shows its rare ones in `--help` too.
FIRST_SCREEN = 20
OPTIONS = "Options"
_HELP = (
    ("--help, -h", "", "Show the usual options and exit."),
    ("--help-all", "", "Show all options and exit."),
)


class HelpRow(NamedTuple):
    """A line of a panel."""

    panel: str
    name: str
    value: str
    text: str


def format_command_help(path: str, description: str, params: Sequence[Param], full: bool = False) -> str:
    """Format the help of a command, with its rare options if ``full``."""
    arguments = [param for param in params if isinstance(param.option, Argument)]
    usage = " ".join([path, *map(format_argument, arguments), "[OPTIONS]"])
    all_options = [param for param in params if not isinstance(param.option, Argument)]
    # A short list needs no second page.
    full = full or len(all_options) <= FIRST_SCREEN
    options = [_make_row(param) for param in all_options if full or not param.rare]
    rows = [
        *(HelpRow("Arguments", format_argument(param), "", _format_text(param)) for param in arguments),
        *(row for row in options if row.panel == OPTIONS),
        *(HelpRow(OPTIONS, *help_row) for help_row in _HELP),
        *(row for row in options if row.panel != OPTIONS),
    ]
    left_out = len(all_options) - len(options)
    more = f"{left_out} more option{'s' * (left_out > 1)}: {path} --help-all"
    return _format_page(usage, description, rows, more if left_out else "")


def format_group_help(
    path: str, description: str, options: Iterable[tuple[str, str]], commands: Iterable[HelpRow]
) -> str:
    """Format the help of a group of commands."""
    rows = [*commands, *(HelpRow(OPTIONS, name, "", text) for name, text in options)]
    return _format_page(f"{path} COMMAND [ARGUMENTS]", description, rows)


def format_argument(param: Param) -> str:
    """Format an argument for the usage: in brackets if it is optional, with dots if there may be several."""
    name = param.option.metavar or param.name.upper()
    several = "..." if param.elements else ""
    return f"{name}{several}" if param.required else f"[{name}{several}]"


def _make_row(param: Param) -> HelpRow:
    return HelpRow(param.panel or OPTIONS, format_flags(param), format_value(param), _format_text(param))


def format_flags(param: Param) -> str:
    """Return all flags of an option."""
    return ", ".join([param.flag + param.negation, *param.option.flags])


def format_value(param: Param) -> str:
    """Return the placeholder or choices after a flag."""
    if param.option.metavar or param.kind is bool:
        return param.option.metavar or ""
    if param.elements:
        return "LIST"
    if choices := get_choices(param.kind):
        joined = "|".join(map(str, choices))
        return joined if len(joined) <= LONGEST_CHOICES else param.name.strip("_").upper()
    return {int: "N", float: "N", Path: "PATH"}.get(param.kind, "TEXT")


def _format_text(param: Param) -> str:
    """Format the help text, with choices, default and environment variable."""
    choices = [str(choice) for choice in get_choices(param.kind)]
    parts = [param.option.help]
    if choices and format_value(param) != "|".join(choices):
        parts.append(f"[{', '.join(choices)}]")
    if param.required and not isinstance(param.option, Argument):
        parts.append("[required]")
    if default := format_default(param.default):
        parts.append(f"[default: {default}]")
    if param.option.env:
        parts.append(f"[env: {param.option.env}]")
    rest = (part if len(part) > LONGEST_UNBROKEN else part.replace(" ", UNBROKEN) for part in parts[1:])
    return " ".join([parts[0], *rest])


def format_default(value: Any) -> str:
    """Format a default value; empty if there is none, or if it is False, True, zero or an empty list."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) if any(value) else ""
    # The default of a required option is the class `inspect.Parameter.empty`.
    return "" if isinstance(value, type) or not value or value is True else str(value)


def _format_page(usage: str, description: str, rows: Sequence[HelpRow], end: str = "") -> str:
    width = min(shutil.get_terminal_size((80, 24)).columns, WIDEST)
    lines = [style("Usage: ", bold=True) + usage]
    for line in _split_paragraphs(description):
        lines += _wrap(line, width)
    left = min(LEFT, 2 + max(len(f"{row.name} {row.value}".strip()) for row in rows))
    for panel, members in groupby(rows, key=lambda row: row.panel):
        lines += ["", style(panel, bold=True)]
        for row in members:
            lines += _format_row(row, left, width)
    lines += ["", end] if end else []
    return "\n".join(lines) + "\n"


def _wrap(text: str, width: int) -> list[str]:
    return wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _split_paragraphs(description: str) -> Iterator[str]:
    """Split a docstring into its paragraphs and examples, one line each, with an empty line before each block."""
    for block in cleandoc(description).split("\n\n"):
        yield ""
        joined: list[str] = []
        for line in block.splitlines():
            # A flag or an example starts a new line; other lines continue the line before.
            if joined and not line.startswith(("--", "Example:")):
                joined[-1] += f" {line}"
            else:
                joined.append(line)
        yield from joined


def _format_row(row: HelpRow, left: int, width: int) -> Iterator[str]:
    """Yield the lines of an option: its name and value, then its help text to the right, or below if the name is too
    long.
    """
    # `head` is `name` with colors, whose invisible characters must not count in the width.
    name = f"  {row.name} {row.value}".rstrip()
    head = "  " + style(row.name, fg="cyan") + (style(f" {row.value}", fg="yellow") if row.value else "")
    if len(name) > left:
        yield head
        name = head = ""
    head += " " * (left + 2 - len(name))
    for text in _wrap(row.text, width - left - 2):
        yield (head + text.replace(UNBROKEN, " ")).rstrip()
        head = " " * (left + 2)
