"""``captious study run``: correlations of metrics with ratings."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from captious.cli import options as o
from captious.cli.study import shared as s
from captious.options import LEVEL, SAMPLES, SEED

if TYPE_CHECKING:
    from captious.study.study import Study


class TestName(str, Enum):
    """The test behind the rank clusters."""

    permutation = "permutation"
    bootstrap = "bootstrap"
    williams = "williams"


def run(
    source: s.Source,
    data: s.Data = None,
    metrics: s.MetricsOption = None,
    scores: s.ScoresFile = None,
    references: s.References = None,
    rating: s.Rating = None,
    group: s.Group = None,
    system: s.System = None,
    rater: s.RaterColumn = None,
    candidate_column: s.CaptionColumn = None,
    scale: s.Scale = None,
    tau: s.TauOption = None,
    rows: s.RowsOption = None,
    statistic: s.Statistic = None,
    test: Annotated[TestName, typer.Option("--test", help="Test behind the rank clusters.")] = TestName.permutation,
    permutations: s.Permutations = None,
    samples: o.Samples = SAMPLES,
    seed: o.Seed = SEED,
    level: o.Level = LEVEL,
    missing: o.OnMissing = o.Missing.error,
    images: o.Images = None,
    out: o.Out = None,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    latex: o.AsLatex = False,
    device: o.Device = "auto",
    batch: o.Batch = o.BATCH,
    precision: o.Precision = o.AUTO,
    no_cache: o.NoCache = False,
    upright: o.Upright = False,
) -> None:
    """Correlate metrics with ratings, with intervals over images, tests between metrics, and rank clusters.

    Example: captious study run flickr8k-expert --data flickr8k --metrics "bleu(n=4),rouge,cider"
    Example: captious study run flickr8k-expert --data flickr8k --images photos/ --metrics clipscore,refclipscore
    """
    from captious._files import refuse_occupied
    from captious.study.load import limits, open_source, scores_for
    from captious.study.run import study

    if out is not None:
        refuse_occupied(out, overwrite)
    columns = s.columns(rating, group, system, candidate_column, rater)
    changes = {"tau": tau and tau.value, "rows": rows and rows.value, "scale": limits(scale)}
    with o.encoding(device, batch, precision, no_cache, upright) as step:
        ratings, recipe = open_source(source, data, references, images, columns, **changes)
        made = study(
            ratings,
            scores_for(ratings, metrics, scores, missing.value, step),
            recipe=recipe,
            statistic=statistic,
            samples=samples,
            permutations=permutations,
            seed=seed,
            level=level,
            test=test.value,
            progress=step,
        )
        made.table()  # the tests between metrics take their time here, while there is something to show it
        if out is not None:
            step("writing")
            made.save(str(out), overwrite)
    _show(made, as_json, latex)
    if out is not None:
        typer.echo(f"written: {out / 'study.html'}", err=True)


def _show(made: Study, as_json: bool, latex: bool) -> None:
    """Warnings on standard error, then the study in the form asked for."""
    from captious.render import terminal
    from captious.render.tables import dumps
    from captious.study.show import print_study
    from captious.study.summary import summarize

    terminal.warn(made.warnings)
    if as_json:
        typer.echo(dumps(summarize(made)))
    elif latex:
        typer.echo(made.to_latex(), nl=False)
    else:
        print_study(made, made.table())
