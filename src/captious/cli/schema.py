"""``captious schema``: the JSON Schema of what a command prints with ``--json``."""

from __future__ import annotations

import json
from typing import Annotated

import click

from captious.errors import InputError, format_choices
from captious.options import Argument


def schema(
    name: Annotated[
        tuple[str, ...], Argument("Name of the command, such as score or study run; without it, list all.")
    ] = (),
) -> None:
    """Print the JSON Schema of what a command prints with --json, for programs that read it.

    Numbers may be null: a value is missing, and the result says why. Later versions may add keys.

    Example: captious schema
    Example: captious schema score
    Example: captious schema study run
    """
    from captious.data import SCHEMAS

    schemas = json.loads(SCHEMAS.read_text(encoding="utf-8"))
    if not name:
        click.echo("\n".join(sorted(schemas)))
        return
    command = " ".join(name)
    if command not in schemas:
        raise InputError(f"{command}: no command with --json has this name{format_choices(command, sorted(schemas))}")
    click.echo(json.dumps(schemas[command], indent=2))
