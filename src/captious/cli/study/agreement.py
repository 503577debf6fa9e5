"""``captious study agreement``: do people agree with each other?"""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.study import shared as s
from captious.options import LEVEL, SAMPLES, SEED, Resampling


class AlphaLevel(str, Enum):
    """What differences between ratings mean."""

    nominal = "nominal"
    ordinal = "ordinal"
    interval = "interval"
    ratio = "ratio"


def agreement(
    source: s.Source,
    data: s.Data = None,
    level: Annotated[AlphaLevel, typer.Option("--level", help="Scale of the ratings.")] = AlphaLevel.interval,
    rating: s.Rating = None,
    group: s.Group = None,
    system: s.System = None,
    rater: s.RaterColumn = None,
    candidate_column: s.CaptionColumn = None,
    scale: s.Scale = None,
    samples: o.Samples = SAMPLES,
    seed: o.Seed = SEED,
    confidence: Annotated[float, typer.Option("--confidence", help="Confidence level of the intervals.")] = LEVEL,
    as_json: o.AsJson = False,
) -> None:
    """Krippendorff's alpha, what a person would reach in the place of a metric, and every rater against the others."""
    from captious.errors import InputError
    from captious.render import terminal
    from captious.study.agreement import alpha, ceiling, ordered, raters
    from captious.study.load import limits, open_source
    from captious.study.ratings import Preferences
    from captious.study.show import agreement_text

    columns = s.columns(rating, group, system, candidate_column, rater)
    ratings, _ = open_source(source, data, columns=columns, scale=limits(scale))
    if isinstance(ratings, Preferences):
        raise InputError(f"{source}: holds pairs with one answer each, agreement needs ratings")
    how = Resampling(samples, seed, confidence)
    found = alpha(ratings, level.value, how)
    top, each = ceiling(ratings, how), raters(ratings, level.value)
    resampling = f"bootstrap({samples},images,seed={seed},{confidence:.0%})"
    if ordered(ratings):
        terminal.warn(["the ratings of every item stand in ascending order: columns are not raters"])
    if as_json:
        summary = {"alpha": asdict(found), "ceiling": asdict(top), "raters": [asdict(one) for one in each]}
        s.echo({**summary, "ci": resampling})
    else:
        typer.echo(agreement_text(found, top, each, confidence, resampling))
