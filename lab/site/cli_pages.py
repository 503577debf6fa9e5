"""Pages of the command line reference, from the commands themselves."""

from __future__ import annotations

import re
from typing import Any

from captious.cli.app import build_app
from captious.cli.help import format_argument, format_default, format_flags, format_value
from captious.cli.params import Param
from captious.options import Argument, get_choices

FOLDER = "reference/cli"
# Characters of choices that stand beside the flag; more would push the text off the screen of a phone.
WIDE = 30
# A larger bound is that of the machine, not of the option.
UNLIMITED = 2**62


def cli_pages() -> dict[str, str]:
    """Markdown by path: a page for each group of commands, and one for the commands outside groups."""
    root: Any = build_app()
    everyday = {name: command for name, command in root.commands.items() if not hasattr(command, "commands")}
    groups = {name: command for name, command in root.commands.items() if hasattr(command, "commands")}
    text = f"# Everyday commands\n\n{root.help}\n\n"
    text += "`--help` of a command shows the usual options, and `--help-all` all of them. "
    text += "Results go to standard output, progress and warnings to standard error.\n\n"
    pages = {f"{FOLDER}/index.md": text + "".join(_command("captious", *pair) for pair in everyday.items())}
    for name, group in groups.items():
        pages[f"{FOLDER}/{name}.md"] = f"# captious {name}\n\n{_markdown(group.help)}\n\n" + "".join(
            _command(f"captious {name}", *pair) for pair in group.commands.items()
        )
    return pages


def _command(prefix: str, name: str, command: Any) -> str:
    path = f"{prefix} {name}"
    arguments = [param for param in command.own_params if isinstance(param.option, Argument)]
    usage = " ".join([path, *map(format_argument, arguments), "[OPTIONS]"])
    prose, examples = _without_examples(command.help or "")
    parts = [f"## {path}", _markdown(prose), f"```text\n{usage}\n```"]
    if examples:
        parts.append("```sh\n" + "\n".join(examples) + "\n```")
    for panel, params in _panels(command.own_params).items():
        if params:
            parts.append(f"| {panel} | |\n|---|---|\n" + "\n".join(map(_row, params)))
    return "\n\n".join(parts) + "\n\n"


def _without_examples(text: str) -> tuple[str, list[str]]:
    examples = re.findall(r"^Example: (.*)$", text, re.MULTILINE)
    return re.sub(r"^Example: .*\n?", "", text, flags=re.MULTILINE).strip(), examples


def _panels(params: list[Param]) -> dict[str, list[Param]]:
    """Parameters by the panel in which the help shows them: first the command's own."""
    panels: dict[str, list[Param]] = {"Arguments": [], "Options": []}
    for param in params:
        panel = param.panel or "Options"
        panels.setdefault("Arguments" if isinstance(param.option, Argument) else panel, []).append(param)
    return panels


def _row(param: Param) -> str:
    name, text = format_argument(param).strip("[]"), param.option.help
    if not isinstance(param.option, Argument):
        choices = [str(choice) for choice in get_choices(param.kind)]
        value = "|".join(choices) if choices and len("|".join(choices)) <= WIDE else format_value(param)
        name = f"{format_flags(param)} {value}".strip()
        if choices and "|" not in value:
            text += " Choices: " + ", ".join(f"`{choice}`" for choice in choices) + "."
    notes = "; ".join(_notes(param))
    return f"| `{name}` | {_cell(_markdown(text))}{f' *({_cell(notes)})*' if notes else ''} |"


def _notes(param: Param) -> list[str]:
    """Environment variable, default, bounds and whether it is required, in words."""
    option, notes = param.option, []
    if option.env:
        notes.append(f"env `{option.env}`")
    if default := format_default(param.default):
        notes.append(f"default `{default}`")
    largest = option.max if option.max is not None and option.max < UNLIMITED else None
    bounds = [f"at least {option.min}"] * (option.min is not None) + [f"at most {largest}"] * (largest is not None)
    if bounds:
        notes.append(", ".join(bounds))
    return [*notes, "required"] if param.required and not isinstance(option, Argument) else notes


def _markdown(text: str) -> str:
    """Help text with its flags as code."""
    return re.sub(r"(?<![\w`-])(--[a-z][\w-]*)", r"`\1`", text.strip())


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
