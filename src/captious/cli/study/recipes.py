"""``captious study recipes``: the benchmarks that have one."""

from __future__ import annotations

from dataclasses import asdict

import typer

from captious.cli import options as o
from captious.cli.study import shared as s


def recipes(as_json: o.AsJson = False) -> None:
    """The benchmarks that have a recipe: their protocol, and where to get the data."""
    from captious.study.recipes import RECIPES
    from captious.study.show import recipe_text

    if as_json:
        s.echo({name: asdict(recipe) for name, recipe in RECIPES.items()})
    else:
        typer.echo("\n".join(map(recipe_text, RECIPES.values())))
