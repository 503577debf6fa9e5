"""The help of a command: its usage, what it does, and its options in panels, one line an option where it fits.

A panel has a title in words. Types that a reader can see from the name are left out, and so are bounds: who crosses one
is told.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from inspect import cleandoc
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from captious.options import Argument, get_choices

if TYPE_CHECKING:
    from rich.text import Text

    from captious.cli.params import Param

WIDEST = 100
"""Columns that the help takes at most; longer lines are hard to read."""
LEFT = 30
"""Columns of the names of options."""
LONGEST_CHOICES = 16
"""Characters of choices that stand beside the flag; longer ones stand in the text."""
LONGEST_UNBROKEN = 48
"""Characters of a list of choices that stays on one line."""
UNBROKEN = "\N{NO-BREAK SPACE}"
"""A space at which no line breaks; it is printed as any other."""
OPTIONS = "Options"
_HELP = ("--help, -h", "", "Show this message and exit.")


class HelpRow(NamedTuple):
    """A line of a panel."""

    panel: str
    name: str
    value: str
    text: str


def command_help(path: str, description: str, params: Sequence[Param]) -> str:
    """The help of a command."""
    arguments = [param for param in params if isinstance(param.option, Argument)]
    usage = " ".join([path, *map(_argument, arguments), "[OPTIONS]"])
    options = [_row(param) for param in params if not isinstance(param.option, Argument)]
    own = [row for row in options if row.panel == OPTIONS]
    rows = [
        *(HelpRow("Arguments", _argument(param), "", _text(param)) for param in arguments),
        *own,
        HelpRow(OPTIONS, *_HELP),
        *(row for row in options if row.panel != OPTIONS),
    ]
    return _drawn(usage, description, rows)


def group_help(path: str, description: str, options: Iterable[tuple[str, str]], commands: Iterable[HelpRow]) -> str:
    """The help of a group of commands."""
    rows = [*commands, *(HelpRow(OPTIONS, name, "", text) for name, text in options)]
    return _drawn(f"{path} COMMAND [ARGUMENTS]", description, rows)


def _argument(param: Param) -> str:
    name = param.option.metavar or param.name.upper()
    several = "..." if param.elements else ""
    return f"{name}{several}" if param.required else f"[{name}{several}]"


def _row(param: Param) -> HelpRow:
    flags = ", ".join([param.flag + param.negation, *param.option.flags])
    return HelpRow(param.panel or OPTIONS, flags, _value(param), _text(param))


def _value(param: Param) -> str:
    """What follows a flag."""
    if param.option.metavar or param.kind is bool:
        return param.option.metavar or ""
    if param.elements:
        return "LIST"
    if choices := get_choices(param.kind):
        listed = "|".join(map(str, choices))
        return listed if len(listed) <= LONGEST_CHOICES else param.name.strip("_").upper()
    return {int: "N", float: "N", Path: "PATH"}.get(param.kind, "TEXT")


def _text(param: Param) -> str:
    """The help text, with choices, default and environment variable."""
    choices = [str(choice) for choice in get_choices(param.kind)]
    parts = [param.option.help]
    if choices and _value(param) != "|".join(choices):
        parts.append(f"[{', '.join(choices)}]")
    if param.required and not isinstance(param.option, Argument):
        parts.append("[required]")
    if default := _default(param.default):
        parts.append(f"[default: {default}]")
    if param.option.env:
        parts.append(f"[env: {param.option.env}]")
    rest = (part if len(part) > LONGEST_UNBROKEN else part.replace(" ", UNBROKEN) for part in parts[1:])
    return " ".join([parts[0], *rest])


def _default(value: Any) -> str:
    """A default where it says something; absent values, zeros, switches and empty lists do not."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) if any(value) else ""
    return "" if isinstance(value, type) or not value or value is True else str(value)


def _drawn(usage: str, description: str, rows: Sequence[HelpRow]) -> str:
    from rich.console import Console
    from rich.text import Text

    width = min(shutil.get_terminal_size((80, 24)).columns, WIDEST)
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=sys.stdout.isatty(), highlight=False)
    console.print(Text.assemble(("Usage: ", "bold"), usage))
    for line in _paragraphs(description):
        console.print(Text(line), soft_wrap=False)
    left = min(LEFT, 2 + max(len(f"{row.name} {row.value}".strip()) for row in rows))
    for panel, members in groupby(rows, key=lambda row: row.panel):
        console.print()
        console.print(Text(panel, style="bold"))
        for row in members:
            for text in _lines(row, left, width):
                console.print(text, soft_wrap=True)
    return "\n".join(line.rstrip() for line in file.getvalue().split("\n"))


def _paragraphs(description: str) -> Iterator[str]:
    """The docstring: its paragraphs, each on lines of their own, then examples under one another."""
    for block in cleandoc(description).split("\n\n"):
        yield ""
        joined: list[str] = []
        for line in block.splitlines():
            # A line that begins with a flag or an example is its own; others go on with the line before.
            if joined and not line.startswith(("--", "Example:")):
                joined[-1] += f" {line}"
            else:
                joined.append(line)
        yield from joined


def _lines(row: HelpRow, left: int, width: int) -> Iterator[Text]:
    """The lines of an option: its name and value, and its text beside them or below."""
    from textwrap import wrap

    from rich.text import Text

    name = f"  {row.name} {row.value}".rstrip()
    texts = wrap(row.text, width - left - 2, break_long_words=False, break_on_hyphens=False) or [""]
    head = Text.assemble(("  ", ""), (row.name, "cyan"), (f" {row.value}" if row.value else "", "yellow"))
    if len(name) > left:
        yield head
        head = Text("")
    head.append(" " * (left + 2 - len(head.plain)))
    for text in texts:
        yield head.append(text.replace(UNBROKEN, " "))
        head = Text(" " * (left + 2))
