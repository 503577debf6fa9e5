"""``captious study``: which metric agrees with people, and is the difference real. One file per command."""

from __future__ import annotations

import typer

from captious.cli.study import agreement, combine, lengths, power, recipes, run

app = typer.Typer(
    help="Metrics against people: correlations with intervals, tests, agreement, power.", no_args_is_help=True
)
for _command in (run.run, agreement.agreement, power.power, combine.combine, lengths.lengths, recipes.recipes):
    app.command()(_command)
