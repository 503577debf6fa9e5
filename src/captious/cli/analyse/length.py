"""``captious analyse length``: does a metric still agree with people when captions get long?"""

from __future__ import annotations

from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.analyse.shared import deliver
from captious.cli.study import shared as s


def length(
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
    samples: o.Samples = 1000,
    seed: o.Seed = 12345,
    level: o.Level = 0.95,
    missing: o.OnMissing = o.Missing.error,
    images: o.Images = None,
    out: o.Out = None,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    device: o.Device = "auto",
    batch: o.Batch = o.BATCH,
    precision: o.Precision = o.AUTO,
    no_cache: o.NoCache = False,
    upright: o.Upright = False,
) -> None:
    """The correlation with people by caption length, in words or in an encoder's tokens, with intervals.

    Example: captious analyse length ratings.jsonl --images photos/ --metrics clipscore,specs --tokens captious-mini
    """
    from captious.analyses.length import length_finding
    from captious.encoders import loading
    from captious.files import refuse_occupied
    from captious.study.lengths import lengths
    from captious.study.opening import numbers, open_source, scores_for
    from captious.study.run import study

    if out is not None:
        refuse_occupied(out, overwrite)
    cuts = [int(cut) for cut in numbers(edges, "--edges", "10,20,40")] if edges else None
    columns = s.columns(rating, group, system, candidate_column)
    with o.encoding(device, batch, precision, no_cache, upright) as step:
        ratings, recipe = open_source(source, data, references, images, columns)
        found = scores_for(ratings, metrics, scores, missing.value, step)
        made = study(ratings, found, recipe=recipe, statistic=statistic, samples=samples, seed=seed, level=level)
        step("buckets")
        buckets = lengths(made, cuts, loading.load(tokens) if tokens else None)
    deliver(length_finding(made, buckets), out, overwrite, as_json)
