"""``captious study``: which metric agrees with people, and is the difference real."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from captious.cli import options as o

app = typer.Typer(
    help="Metrics against people: correlations with intervals, tests, agreement, power.", no_args_is_help=True
)


class TestName(str, Enum):
    """The test behind the rank clusters."""

    permutation = "permutation"
    bootstrap = "bootstrap"
    williams = "williams"


class AlphaLevel(str, Enum):
    """What differences between ratings mean."""

    nominal = "nominal"
    ordinal = "ordinal"
    interval = "interval"
    ratio = "ratio"


class Variant(str, Enum):
    """Which tau."""

    b = "b"
    c = "c"


class RowsOf(str, Enum):
    """How ratings become rows."""

    each = "each"
    mean = "mean"


Source = Annotated[
    str, typer.Argument(help="A recipe (captious study recipes), a recipe in TOML, or a file with ratings.")
]
Data = Annotated[Path | None, typer.Option("--data", help="Folder with the data of a recipe.")]
References = Annotated[str | None, typer.Option("--references", "-r", help="References by image, for a file.")]
Rating = Annotated[str | None, typer.Option("--rating", help="Column of the rating or ratings.")]
Group = Annotated[str | None, typer.Option("--group", help="Column of the image: its captions are drawn together.")]
System = Annotated[str | None, typer.Option("--system", help="Column of the system that wrote the caption.")]
RaterColumn = Annotated[str | None, typer.Option("--rater", help="Column of the rater, one rating a row.")]
CaptionColumn = Annotated[str | None, typer.Option("--candidate-column", help="Column of the captions.")]
Scale = Annotated[str | None, typer.Option("--scale", help="Lowest and highest rating, such as 1,5.")]
ScoresFile = Annotated[
    list[str] | None, typer.Option("--scores", help="File of a metric computed elsewhere: id and columns of numbers.")
]
MetricsOption = Annotated[str | None, typer.Option("--metrics", "-m", help='Such as "bleu(n=4),rouge,cider".')]
Statistic = Annotated[
    str | None, typer.Option("--statistic", help="Headline: tau_b, tau_c, pearson, spearman, sample_tau, …")
]
TauOption = Annotated[Variant | None, typer.Option("--tau", help="Headline tau, if not the recipe's.")]
RowsOption = Annotated[RowsOf | None, typer.Option("--rows", help="Every rating a row, or the mean of a caption's.")]
Permutations = Annotated[int | None, typer.Option("--permutations", min=1, help="Of the permutation test.")]


@app.command()
def run(
    source: Source,
    data: Data = None,
    metrics: MetricsOption = None,
    scores: ScoresFile = None,
    references: References = None,
    rating: Rating = None,
    group: Group = None,
    system: System = None,
    rater: RaterColumn = None,
    candidate_column: CaptionColumn = None,
    scale: Scale = None,
    tau: TauOption = None,
    rows: RowsOption = None,
    statistic: Statistic = None,
    test: Annotated[TestName, typer.Option("--test", help="Test behind the rank clusters.")] = TestName.permutation,
    permutations: Permutations = None,
    samples: o.Samples = 1000,
    seed: o.Seed = 12345,
    level: o.Level = 0.95,
    missing: o.OnMissing = o.Missing.error,
    images: o.Images = None,
    out: o.Out = None,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    latex: o.AsLatex = False,
) -> None:
    """Correlate metrics with ratings, with intervals over images, tests between metrics, and rank clusters.

    Example: captious study run flickr8k-expert --data flickr8k --metrics "bleu(n=4),rouge,cider"
    """
    from captious.files import refuse_occupied
    from captious.report import terminal
    from captious.report.run import dumped
    from captious.study.opening import limits, open_source, scores_for
    from captious.study.run import study
    from captious.study.show import print_study
    from captious.study.summary import summarise

    if out is not None:
        refuse_occupied(out, overwrite)
    columns = {"rating": rating, "image": group, "system": system, "rater": rater, "caption": candidate_column}
    changes = {"tau": tau and tau.value, "rows": rows and rows.value, "scale": limits(scale)}
    with terminal.steps() as step:
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
        table = made.table()
        if out is not None:
            step("writing")
            made.save(str(out), overwrite)
    terminal.warn(made.warnings)
    if as_json:
        typer.echo(dumped(summarise(made)), nl=False)
    elif latex:
        typer.echo(made.to_latex(), nl=False)
    else:
        print_study(made, table)
    if out is not None:
        typer.echo(f"written: {out / 'study.html'}", err=True)


@app.command()
def agreement(
    source: Source,
    data: Data = None,
    level: Annotated[AlphaLevel, typer.Option("--level", help="Scale of the ratings.")] = AlphaLevel.interval,
    rating: Rating = None,
    group: Group = None,
    system: System = None,
    rater: RaterColumn = None,
    candidate_column: CaptionColumn = None,
    scale: Scale = None,
    samples: o.Samples = 1000,
    seed: o.Seed = 12345,
    confidence: Annotated[float, typer.Option("--confidence", help="Confidence level of the intervals.")] = 0.95,
    as_json: o.AsJson = False,
) -> None:
    """Krippendorff's alpha, what a person would reach in the place of a metric, and every rater against the others."""
    from captious.errors import InputError
    from captious.report import terminal
    from captious.study.agreement import alpha
    from captious.study.opening import limits, open_source
    from captious.study.rated import Preferences
    from captious.study.raters import ceiling, ordered, raters
    from captious.study.show import agreement_text

    columns = {"rating": rating, "image": group, "system": system, "rater": rater, "caption": candidate_column}
    ratings, _ = open_source(source, data, columns=columns, scale=limits(scale))
    if isinstance(ratings, Preferences):
        raise InputError(f"{source}: holds pairs with one answer each, agreement needs ratings")
    found = alpha(ratings, level.value, samples=samples, seed=seed, confidence=confidence)
    top, each = ceiling(ratings, samples, seed, confidence), raters(ratings, level.value)
    resampling = f"bootstrap({samples},images,seed={seed},{confidence:.0%})"
    if ordered(ratings):
        terminal.warn(["the ratings of every item stand in ascending order: columns are not raters"])
    if as_json:
        summary = {"alpha": asdict(found), "ceiling": asdict(top), "raters": [asdict(one) for one in each]}
        _echo({**summary, "ci": resampling})
    else:
        typer.echo(agreement_text(found, top, each, confidence, resampling))


@app.command()
def power(
    tau: Annotated[float, typer.Option("--tau", help="Difference in tau-b that should be found.")],
    items: Annotated[int, typer.Option("--items", help="Captions to be rated.")] = 500,
    raters: Annotated[int, typer.Option("--raters", help="Ratings per caption.")] = 3,
    levels: Annotated[int, typer.Option("--levels", help="Points of the rating scale.")] = 5,
    base: Annotated[float, typer.Option("--base", help="Tau-b of the weaker metric.")] = 0.45,
    alike: Annotated[float, typer.Option("--alike", help="Correlation of the two metrics' errors.")] = 0.6,
    noise: Annotated[float, typer.Option("--noise", help="Noise of a rating against the spread of quality.")] = 0.8,
    alpha: Annotated[float, typer.Option("--alpha", help="Level of the test.")] = 0.05,
    seed: o.Seed = 12345,
    as_json: o.AsJson = False,
) -> None:
    """How many captions and ratings a comparison of two metrics needs, by simulation."""
    from captious.study.power import power as powered
    from captious.study.show import power_text

    found = powered(
        tau, items, raters=raters, levels=levels, tau=base, alike=alike, noise=noise, alpha=alpha, seed=seed
    )
    if as_json:
        _echo(asdict(found))
    else:
        typer.echo(power_text(found))


@app.command()
def combine(
    source: Source,
    added: Annotated[str, typer.Option("--with", help="File of what is added; name@1, name@2, … are seeds.")],
    data: Data = None,
    metrics: MetricsOption = None,
    scores: ScoresFile = None,
    references: References = None,
    rating: Rating = None,
    group: Group = None,
    system: System = None,
    candidate_column: CaptionColumn = None,
    rows: Annotated[RowsOf, typer.Option("--rows", help="Mean of a caption's ratings, or every one.")] = RowsOf.mean,
    weights: Annotated[str, typer.Option("--weights", help="Factors of what is added, such as 0.5,1,2.")] = "1",
    statistic: Annotated[str, typer.Option("--statistic", help="Correlation before and after.")] = "pearson",
    samples: o.Samples = 1000,
    seed: o.Seed = 12345,
    level: o.Level = 0.95,
    missing: o.OnMissing = o.Missing.error,
    as_json: o.AsJson = False,
) -> None:
    """Metric + λ · another: the correlation with people before and after, mean ± sd over seeds."""
    from captious.report import terminal
    from captious.study.combination import by_seed
    from captious.study.combination import combine as combined
    from captious.study.opening import numbers, open_source, scores_for
    from captious.study.run import study
    from captious.study.scores import read_scores
    from captious.study.show import combination_table

    factors = numbers(weights, "--weights", "0.5,1,2")
    columns = {"rating": rating, "image": group, "system": system, "caption": candidate_column}
    with terminal.steps() as step:
        ratings, recipe = open_source(source, data, references, columns=columns, rows=rows.value)
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
        _echo({"rows": [asdict(row) for row in found], "ci": f"bootstrap({samples},images,seed={seed},{level:.0%})"})
    else:
        typer.echo(str(combination_table(found, level)))


@app.command()
def lengths(
    source: Source,
    data: Data = None,
    metrics: MetricsOption = None,
    scores: ScoresFile = None,
    references: References = None,
    rating: Rating = None,
    group: Group = None,
    system: System = None,
    candidate_column: CaptionColumn = None,
    edges: Annotated[str | None, typer.Option("--edges", help="First lengths of new buckets, such as 10,20.")] = None,
    statistic: Statistic = None,
    samples: o.Samples = 1000,
    seed: o.Seed = 12345,
    level: o.Level = 0.95,
    missing: o.OnMissing = o.Missing.error,
    plot: Annotated[Path | None, typer.Option("--plot", help="SVG file to write.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """The correlation by length of the caption in words, with intervals and a plot."""
    from captious.files import whole_file
    from captious.report import terminal
    from captious.study.lengths import chart
    from captious.study.lengths import lengths as regimes
    from captious.study.opening import numbers, open_source, scores_for
    from captious.study.printed import NAMES
    from captious.study.run import study
    from captious.study.show import lengths_table

    cuts = [int(cut) for cut in numbers(edges, "--edges", "10,20,40")] if edges else None
    columns = {"rating": rating, "image": group, "system": system, "caption": candidate_column}
    with terminal.steps() as step:
        ratings, recipe = open_source(source, data, references, columns=columns)
        found = scores_for(ratings, metrics, scores, missing.value, step)
        made = study(ratings, found, recipe=recipe, statistic=statistic, samples=samples, seed=seed, level=level)
        step("buckets")
        buckets = regimes(made, cuts)
    labels = {score.key: score.label for score in made.scores}
    headline = made.options.statistic
    if plot is not None:
        title = f"{NAMES.get(headline, headline)} × 100 by caption length, {ratings.name}"
        with whole_file(plot) as draft:
            draft.write_text(chart(buckets, labels, title), encoding="utf-8")
    if as_json:
        _echo({"buckets": [asdict(bucket) for bucket in buckets], "signature": made.signature})
    else:
        typer.echo(f"{lengths_table(buckets, labels, headline, level)}\n{made.signature}")
    if plot is not None:
        typer.echo(f"written: {plot}", err=True)


@app.command()
def recipes(as_json: o.AsJson = False) -> None:
    """The benchmarks that have a recipe: their protocol, and where to get the data."""
    from captious.study.recipes import RECIPES
    from captious.study.show import recipe_text

    if as_json:
        _echo({name: asdict(recipe) for name, recipe in RECIPES.items()})
    else:
        typer.echo("\n".join(map(recipe_text, RECIPES.values())))


def _echo(summary: dict[str, Any]) -> None:
    from captious.report.run import dumped
    from captious.study.summary import plain

    typer.echo(dumped(plain(summary)), nl=False)
