"""``captious study lengths``: does a metric still agree when captions get long?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.study import shared as s
from captious.options import LEVEL, SAMPLES, SEED


def lengths(
    source: s.Source,
    data: s.Data = None,
    metrics: s.MetricsOption = None,
    scores: s.ScoresFile = None,
    references: s.References = None,
    rating: s.Rating = None,
    group: s.Group = None,
    system: s.System = None,
    candidate_column: s.CaptionColumn = None,
    edges: Annotated[str | None, typer.Option("--edges", help="First lengths of new buckets, such as 10,20.")] = None,
    tokens: Annotated[
        str | None, typer.Option("--tokens", help="Count tokens of this encoder instead of words.")
    ] = None,
    statistic: s.Statistic = None,
    samples: o.Samples = SAMPLES,
    seed: o.Seed = SEED,
    level: o.Level = LEVEL,
    missing: o.OnMissing = o.Missing.error,
    images: o.Images = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="SVG file to write.")] = None,
    out: o.Out = None,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    device: o.Device = "auto",
    batch: o.Batch = o.BATCH,
    precision: o.Precision = o.AUTO,
    no_cache: o.NoCache = False,
    upright: o.Upright = False,
) -> None:
    """The correlation with people by caption length, in words or in an encoder's tokens, with intervals and a plot.

    Example: captious study lengths ratings.jsonl --metrics rouge,cider --plot lengths.svg
    Example: captious study lengths ratings.jsonl --images photos/ --metrics clipscore,specs --tokens captious-mini
    """
    from captious._files import refuse_occupied, whole_file
    from captious.errors import InputError
    from captious.models import load as loading
    from captious.study._finding import data as as_data
    from captious.study._finding import print_finding, save
    from captious.study._lengths_finding import length_finding
    from captious.study.lengths import lengths as regimes
    from captious.study.load import numbers, open_source, scores_for
    from captious.study.run import study

    if plot is not None and plot.suffix.lower() != ".svg":
        raise InputError(f"{plot}: the plot is written as SVG, expected a name that ends in .svg")
    if out is not None:
        refuse_occupied(out, overwrite)
    cuts = [int(cut) for cut in numbers(edges, "--edges", "10,20,40")] if edges else None
    columns = s.columns(rating, group, system, candidate_column)
    with o.encoding(device, batch, precision, no_cache, upright) as step:
        ratings, recipe = open_source(source, data, references, images, columns)
        found = scores_for(ratings, metrics, scores, missing.value, step)
        made = study(ratings, found, recipe=recipe, statistic=statistic, samples=samples, seed=seed, level=level)
        step("buckets")
        finding = length_finding(made, regimes(made, cuts, loading.load(tokens) if tokens else None))
    if plot is not None:
        with whole_file(plot) as draft:
            draft.write_text(finding.figures[0].svg, encoding="utf-8")
    if out is not None:
        save(finding, out, overwrite)
    typer.echo(as_data(finding), nl=False) if as_json else print_finding(finding)
    if out is not None:
        typer.echo(f"written: {out / 'report.html'}", err=True)
    if plot is not None:
        typer.echo(f"written: {plot}", err=True)
