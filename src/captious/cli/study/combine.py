"""``captious study combine``: metric + λ · another."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.study import shared as s


def combine(
    source: s.Source,
    added: Annotated[str, typer.Option("--with", help="File of what is added; name@1, name@2, … are seeds.")],
    data: s.Data = None,
    metrics: s.MetricsOption = None,
    scores: s.ScoresFile = None,
    references: s.References = None,
    rating: s.Rating = None,
    group: s.Group = None,
    system: s.System = None,
    candidate_column: s.CaptionColumn = None,
    rows: Annotated[
        s.RowsOf, typer.Option("--rows", help="Mean of a caption's ratings, or every one.")
    ] = s.RowsOf.mean,
    weights: Annotated[str, typer.Option("--weights", help="Factors of what is added, such as 0.5,1,2.")] = "1",
    statistic: Annotated[str, typer.Option("--statistic", help="Correlation before and after.")] = "pearson",
    samples: o.Samples = 1000,
    seed: o.Seed = 12345,
    level: o.Level = 0.95,
    missing: o.OnMissing = o.Missing.error,
    images: o.Images = None,
    as_json: o.AsJson = False,
    device: o.Device = "auto",
    batch: o.Batch = o.BATCH,
    precision: o.Precision = o.AUTO,
    no_cache: o.NoCache = False,
    upright: o.Upright = False,
) -> None:
    """Metric + λ · another: the correlation with people before and after, mean ± sd over seeds."""
    from captious.study.combination import by_seed
    from captious.study.combination import combine as combined
    from captious.study.opening import numbers, open_source, scores_for
    from captious.study.run import study
    from captious.study.scores import read_scores
    from captious.study.show import combination_table

    factors = numbers(weights, "--weights", "0.5,1,2")
    columns = s.columns(rating, group, system, candidate_column)
    with o.encoding(device, batch, precision, no_cache, upright) as step:
        ratings, recipe = open_source(source, data, references, images, columns, rows=rows.value)
        base = scores_for(ratings, metrics, scores, missing.value, step)
        others = read_scores(added, ratings.ids, ratings.name, missing.value)
        made = study(ratings, [*base, *others], recipe=recipe, samples=0)
        step("combining")
        found = combined(
            made.problem,
            made.scores[: len(base)],
            by_seed(made.scores[len(base) :]),
            weights=factors,
            statistic=statistic,
            samples=samples,
            seed=seed,
            level=level,
        )
    if as_json:
        s.echo({"rows": [asdict(row) for row in found], "ci": f"bootstrap({samples},images,seed={seed},{level:.0%})"})
    else:
        typer.echo(str(combination_table(found, level)))
