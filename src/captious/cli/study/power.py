"""``captious study power``: how many ratings a comparison needs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.study import shared as s
from captious.options import SEED


def power(
    tau: Annotated[float, typer.Option("--tau", help="Difference in tau-b that should be found.")],
    items: Annotated[int, typer.Option("--items", help="Captions to be rated.")] = 500,
    raters: Annotated[int, typer.Option("--raters", help="Ratings per caption.")] = 3,
    levels: Annotated[int, typer.Option("--levels", help="Points of the rating scale.")] = 5,
    base: Annotated[float, typer.Option("--base", help="Tau-b of the weaker metric.")] = 0.45,
    alike: Annotated[float, typer.Option("--alike", help="Correlation of the two metrics' errors.")] = 0.6,
    noise: Annotated[float, typer.Option("--noise", help="Noise of a rating against the spread of quality.")] = 0.8,
    alpha: Annotated[float, typer.Option("--alpha", help="Level of the test.")] = 0.05,
    seed: o.Seed = SEED,
    as_json: o.AsJson = False,
) -> None:
    """How many captions and ratings a comparison of two metrics needs, by simulation."""
    from captious.study.power import power as powered
    from captious.study.show import power_text

    found = powered(
        tau, items, raters=raters, levels=levels, tau=base, alike=alike, noise=noise, alpha=alpha, seed=seed
    )
    if as_json:
        s.echo(asdict(found))
    else:
        typer.echo(power_text(found))
