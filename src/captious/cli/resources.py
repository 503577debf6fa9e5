"""``captious resources``: tables that captious uses and does not ship."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from captious.cli import options as o

app = typer.Typer(help="Tables that captious uses and does not ship.", no_args_is_help=True)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Whose tables: meteor.")],
    path: Annotated[Path, typer.Argument(help="Folder with meteor-1.5.jar and data/paraphrase-en.gz.")],
) -> None:
    """Compile tables from where you have them and keep them; the sources are not needed afterwards."""
    from captious.errors import InputError, nearest
    from captious.metrics.meteor import resources
    from captious.render.progress import display

    if name != "meteor":
        raise InputError(f"no resource {name!r}, known: meteor{nearest(name, ['meteor'])}")
    with display() as (step, _, _):
        step("compiling METEOR's tables")
        target = resources.add(path)
    typer.echo(f"written: {target}")


@app.command("list")
def list_(as_json: o.AsJson = False) -> None:
    """Which tables are found on this computer, and by their content."""
    from captious.errors import InputError
    from captious.metrics.meteor import resources
    from captious.metrics.meteor.engine import MODULES

    try:
        found = resources.load()
        modules = [module for module in MODULES if module != "paraphrase" or found.has_paraphrases]
        row = {"resource": "meteor", "modules": "+".join(modules), "content": found.hash(modules)}
    except InputError as error:
        row = {"resource": "meteor", "missing": str(error)}
    if as_json:
        typer.echo(json.dumps([row], indent=2))
    else:
        typer.echo("\t".join(row.values()))
