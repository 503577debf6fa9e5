"""``captious study combine``: metric + λ · another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captious.cli import options as o
from captious.cli.study import shared as s
from captious.options import LEVEL, SAMPLES, SEED

if TYPE_CHECKING:
    from captious.study.combine import Chosen, Combination

GRID = "0,0.1,0.2,0.5,1,2,5,10"


def combine(
    source: s.Source,
    data: s.Data = None,
    metrics: Annotated[
        str | None, typer.Option("--base", "--metrics", "-m", help='To what is added: "bleu(n=4),rouge,cider".')
    ] = None,
    add: Annotated[str | None, typer.Option("--add", help='Metrics to add, such as "imagine(painter=drawn)".')] = None,
    added: Annotated[
        str | None, typer.Option("--with", help="File of what is added; name@1, name@2, … are seeds.")
    ] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, help="Seeds of the metrics to add.")] = None,
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
    grid: Annotated[str, typer.Option("--grid", help="Factors that cross-validation tries.")] = GRID,
    folds: Annotated[int, typer.Option("--folds", min=0, help="Of the cross-validation; 0 for none.")] = 5,
    statistic: Annotated[str, typer.Option("--statistic", help="Correlation before and after.")] = "pearson",
    samples: o.Samples = SAMPLES,
    seed: o.Seed = SEED,
    level: o.Level = LEVEL,
    missing: o.OnMissing = o.Missing.error,
    images: o.Images = None,
    as_json: o.AsJson = False,
    device: o.Device = "auto",
    batch: o.Batch = o.BATCH,
    precision: o.Precision = o.AUTO,
    no_cache: o.NoCache = False,
    upright: o.Upright = False,
) -> None:
    """Metric + λ · another: the correlation with people before and after, mean ± sd over seeds, and the best λ.

    Example: captious study combine ratings.jsonl --references refs.json --base "rouge,cider" --add imagine --seeds 5
    """
    from captious.render.terminal import warn
    from captious.study.combine import by_seed, cross_validate, seeded
    from captious.study.combine import combine as combined
    from captious.study.load import numbers, open_source, scores_for
    from captious.study.run import study
    from captious.study.scores import read_scores

    _refuse(add, added, seeds)
    factors, tried = numbers(weights, "--weights", "0.5,1,2"), numbers(grid, "--grid", "0,0.5,1,2")
    columns = s.columns(rating, group, system, candidate_column)
    with o.encoding(device, batch, precision, no_cache, upright) as step:
        ratings, recipe = open_source(source, data, references, images, columns, rows=rows.value)
        base = scores_for(ratings, metrics, scores, missing.value, step)
        others = (
            seeded(ratings, add, seeds, step)
            if add is not None
            else read_scores(str(added), ratings.ids, ratings.name, missing.value)
        )
        made = study(ratings, [*base, *others], recipe=recipe, samples=0)
        step("combining")
        problem, kept = made.problem, made.scores[: len(base)]
        gathered = by_seed(made.scores[len(base) :])
        found = combined(
            problem, kept, gathered, weights=factors, statistic=statistic, samples=samples, seed=seed, level=level
        )
        chosen = (
            cross_validate(problem, kept, gathered, grid=tried, folds=folds, statistic=statistic, seed=seed)
            if folds
            else []
        )
    warn(made.warnings)
    named = {score.key.rsplit("@", 1)[0]: score.signature for score in made.scores[len(base) :]}
    if as_json:
        parts: dict[str, Sequence[Any]] = {"rows": found, "chosen": chosen}
        s.echo(
            {
                **{name: [asdict(row) for row in part] for name, part in parts.items()},
                "added": named,
                "ci": f"bootstrap({samples},images,seed={seed},{level:.0%})",
                "signatures": list(dict.fromkeys(score.signature for score in made.scores)),
            }
        )
        return
    _print(found, chosen, level, folds)
    for signature in filter(None, named.values()):
        typer.echo(f"\nadded: {signature}")


def _refuse(add: str | None, added: str | None, seeds: int | None) -> None:
    from captious.errors import InputError

    if (add is None) == (added is None):
        raise InputError("what is added: expected --add METRICS, or --with FILE of values computed elsewhere")
    if seeds is not None and add is None:
        raise InputError("--seeds is for --add; a file of --with has columns name@1, name@2, …")


def _print(found: Sequence[Combination], chosen: Sequence[Chosen], level: float, folds: int) -> None:
    from captious.study.show import chosen_table, combination_table

    typer.echo(str(combination_table(found, level)))
    if chosen:
        typer.echo(f"\n{folds}-fold cross-validation over images\n{chosen_table(chosen)}")
