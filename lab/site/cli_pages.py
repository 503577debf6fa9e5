"""Pages of the command line reference, from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from captious.cli.app import build

FOLDER = "reference/cli"
KINDS = {
    "int range": "INTEGER",
    "int": "INTEGER",
    "float range": "NUMBER",
    "float": "NUMBER",
    "str": "TEXT",
    "path": "PATH",
}
"""What the tables call the types of values."""
WIDE = 30
"""Characters of choices that stand beside the flag; more would push the text off the screen of a phone."""
UNLIMITED = 2**62
"""A larger bound is that of the machine, not of the option."""


def cli_pages() -> dict[str, str]:
    """Markdown by path: a page for each group of commands, and one for the commands outside groups."""
    root: Any = typer.main.get_command(build())
    everyday = {name: command for name, command in root.commands.items() if not hasattr(command, "commands")}
    groups = {name: command for name, command in root.commands.items() if hasattr(command, "commands")}
    text = f"# Everyday commands\n\n{root.help}\n\n"
    text += "Every command has `--help`. Results go to standard output, progress and warnings to standard error.\n\n"
    pages = {f"{FOLDER}/index.md": text + "".join(_command("captious", *pair) for pair in everyday.items())}
    for name, group in groups.items():
        pages[f"{FOLDER}/{name}.md"] = f"# captious {name}\n\n{_markdown(group.help)}\n\n" + "".join(
            _command(f"captious {name}", *pair) for pair in group.commands.items()
        )
    return pages


def _command(prefix: str, name: str, command: Any) -> str:
    path = f"{prefix} {name}"
    context = typer.Context(command, info_name=path)
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    usage = " ".join([path, *map(_argument, arguments), "[OPTIONS]"])
    prose, examples = _without_examples(command.help or "")
    parts = [f"## {path}", _markdown(prose), f"```text\n{usage}\n```"]
    if examples:
        parts.append("```sh\n" + "\n".join(examples) + "\n```")
    for panel, params in _panels(command).items():
        records = {param: record for param in params if (record := param.get_help_record(context))}
        rows = [
            _row(_argument(param).strip("[]") if panel == "Arguments" else names, text)
            for param, (names, text) in records.items()
        ]
        if rows:
            parts.append(f"| {panel} | |\n|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n\n"


def _argument(param: Any) -> str:
    name = (param.metavar or param.name.upper()) + "..." * (param.nargs != 1)
    return name if param.required else f"[{name}]"


def _without_examples(text: str) -> tuple[str, list[str]]:
    examples = re.findall(r"^Example: (.*)$", text, re.MULTILINE)
    return re.sub(r"^Example: .*\n?", "", text, flags=re.MULTILINE).strip(), examples


def _panels(command: Any) -> Mapping[str, list[Any]]:
    """Parameters by the panel in which the help shows them: first the command's own."""
    panels: dict[str, list[Any]] = {"Arguments": [], "Options": []}
    for param in command.params:
        panel = param.rich_help_panel or "Options"
        panels.setdefault("Arguments" if param.param_type_name == "argument" else panel, []).append(param)
    return panels


def _row(names: str, help_text: str) -> str:
    text, details = re.fullmatch(r"(.*?)(?:\s+\[([^\[\]]*)\])?", help_text, re.DOTALL).groups()  # type: ignore[union-attr]
    notes = "; ".join(_notes(details or ""))
    for kind, word in KINDS.items():
        names = names.replace(f"<{kind}>", word)
    if (choices := re.search(r"<(.*\|.*)>", names)) and len(choices[1]) > WIDE:
        names = names.replace(choices[0], "NAME")
        text += " Choices: " + ", ".join(f"`{choice}`" for choice in choices[1].split("|")) + "."
    return f"| `{names}` | {_cell(_markdown(text))}{f' *({_cell(notes)})*' if notes else ''} |"


def _notes(details: str) -> Iterator[str]:
    """Default, bounds and environment variable, in words."""
    for detail in filter(None, details.split("; ")):
        bound = re.fullmatch(r"(?:(\S+?)<=)?x(?:([<>]=?)(\S+))?", detail)
        if bound:
            low = bound[1] or (bound[3] if (bound[2] or "").startswith(">") else None)
            high = bound[3] if (bound[2] or "").startswith("<") and float(bound[3]) < UNLIMITED else None
            yield ", ".join([f"at least {low}"] * bool(low) + [f"at most {high}"] * bool(high))
        else:
            key, _, value = detail.partition(": ")
            yield f"{key} `{value}`" if value else key


def _markdown(text: str) -> str:
    """Help text with its flags as code."""
    return re.sub(r"(?<![\w`-])(--[a-z][\w-]*)", r"`\1`", text.strip())


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
