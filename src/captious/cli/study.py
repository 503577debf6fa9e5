"""``captious study``: which metric agrees with people, and is the difference real."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captious.cli import options as o

if TYPE_CHECKING:
    from captious.study.rated import Preferences, Ratings
    from captious.study.recipe import Recipe
    from captious.study.scores import Scores
    from captious.study.study import Study

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
    from captious.study.run import study
    from captious.study.summary import summarise

    if out is not None:
        refuse_occupied(out, overwrite)
    with terminal.steps() as step:
        columns = (rating, group, system, rater, candidate_column)
        ratings, recipe = _open(source, data, references, columns, scale, tau, rows, images)
        found = _scores(ratings, metrics, scores, missing.value, step)
        made = study(
            ratings,
            found,
            recipe=recipe,
            statistic=statistic,
            samples=samples,
            permutations=permutations,
            seed=seed,
            level=level,
            test=test.value,
            progress=step,
        )
        shown = made.table()
        if out is not None:
            step("writing")
            made.save(str(out), overwrite)
    terminal.warn(made.warnings)
    if as_json:
        typer.echo(dumped(summarise(made)), nl=False)
    elif latex:
        typer.echo(made.to_latex(), nl=False)
    else:
        _print(made, shown)
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
    from dataclasses import asdict

    from captious.errors import InputError
    from captious.report.run import dumped
    from captious.study.agreement import alpha
    from captious.study.rated import Preferences
    from captious.study.raters import ceiling, ordered, raters
    from captious.study.summary import plain
    from captious.study.table import Table

    columns = (rating, group, system, rater, candidate_column)
    ratings, _ = _open(source, data, None, columns, scale, None, None, None)
    if isinstance(ratings, Preferences):
        raise InputError(f"{source}: holds pairs with one answer each, agreement needs ratings")
    found = alpha(ratings, level.value, samples=samples, seed=seed, confidence=confidence)
    top = ceiling(ratings, samples, seed, confidence)
    each = raters(ratings, level.value)
    if as_json:
        summary = {"alpha": asdict(found), "ceiling": asdict(top), "raters": [asdict(one) for one in each]}
        typer.echo(dumped(plain({**summary, "seed": seed, "samples": samples, "ordered": ordered(ratings)})), nl=False)
        return
    e = found.estimate
    typer.echo(
        f"Krippendorff's alpha ({found.level}): {e.value:.4f}  {confidence:.0%} interval {e.low:.4f} – {e.high:.4f}\n"
        f"{found.ratings:,} ratings of {found.units:,} items by {found.raters} raters; {found.single} items with one "
        f"rating left out; bootstrap({samples},images,seed={seed})\n"
        f"human ceiling, one rater against the others: τ-b {100 * top.tau_b.value:.2f} "
        f"({100 * top.tau_b.low:.2f} – {100 * top.tau_b.high:.2f}), τ-c {100 * top.tau_c.value:.2f} "
        f"({100 * top.tau_c.low:.2f} – {100 * top.tau_c.high:.2f}), Pearson {top.pearson.value:.4f}\n"
    )
    head = ("ratings", "rater", "mean", "sd", "bias", "r with others", "τ-b", "alpha without")
    lines = [
        (
            f"{one.ratings:,}",
            one.name,
            *(f"{value:.3f}" for value in (one.mean, one.spread, one.bias, one.pearson, one.tau_b, one.alpha_without)),
        )
        for one in each[:50]
    ]
    typer.echo(str(Table(head, tuple(lines))).replace("nan", "  —"))
    if len(each) > 50:
        typer.echo(f"… and {len(each) - 50} more raters, in --json")
    if ordered(ratings):
        typer.echo("the ratings of every item stand in ascending order: columns are not raters", err=True)


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
    from dataclasses import asdict

    from captious.report.run import dumped
    from captious.study.power import power as powered

    found = powered(
        tau, items, raters=raters, levels=levels, tau=base, alike=alike, noise=noise, alpha=alpha, seed=seed
    )
    if as_json:
        typer.echo(dumped(asdict(found)), nl=False)
        return
    typer.echo(
        f"{items:,} captions, {items * raters:,} ratings: a difference of {tau:g} in tau-b is found with power "
        f"{found.power:.2f} (standard error {found.error:.4f}); {found.detectable:.3f} would be found with power 0.80\n"
        f"for power 0.80: {found.needed:,} captions, {found.ratings:,} ratings; "
        f"for 0.90: {found.needed_90:,} captions, {found.needed_90 * raters:,} ratings\n"
        f"assumed: {found.assumed}"
    )


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
    weights: Annotated[str, typer.Option("--weights", help="Factors of what is added, such as 0.5,1,2.")] = "1",
    statistic: Annotated[str, typer.Option("--statistic", help="Correlation before and after.")] = "pearson",
    samples: o.Samples = 1000,
    seed: o.Seed = 12345,
    level: o.Level = 0.95,
    missing: o.OnMissing = o.Missing.error,
    as_json: o.AsJson = False,
) -> None:
    """Metric + λ · another: the correlation with people before and after, mean ± sd over seeds."""
    from dataclasses import asdict

    from captious.errors import InputError
    from captious.report import terminal
    from captious.report.run import dumped
    from captious.study.combination import by_seed
    from captious.study.combination import combine as combined
    from captious.study.run import study
    from captious.study.scores import read_scores
    from captious.study.summary import plain
    from captious.study.table import Table, interval, value

    try:
        factors = [float(part) for part in weights.split(",")]
    except ValueError:
        raise InputError(f"--weights {weights}: expected numbers such as 0.5,1,2") from None
    with terminal.steps() as step:
        columns = (rating, group, system, None, candidate_column)
        ratings, recipe = _open(source, data, references, columns, None, None, o_rows_mean(), None)
        base = _scores(ratings, metrics, scores, missing.value, step)
        others = read_scores(added, ratings.ids, ratings.name, missing.value)
        made = study(ratings, [*base, *others], recipe=recipe, samples=0)
        parts = {score.key: score for score in made.scores}
        rows = combined(
            made.problem,
            [parts[score.key] for score in base],
            by_seed([parts[score.key] for score in others]),
            weights=factors,
            statistic=statistic,
            samples=samples,
            seed=seed,
            level=level,
        )
    if as_json:
        typer.echo(dumped(plain({"rows": [asdict(row) for row in rows], "seed": seed, "samples": samples})), nl=False)
        return
    lines = [
        (
            f"{row.weight:g}",
            f"{row.metric} + {row.other}",
            value(row.before, statistic),
            value(row.after, statistic) + (f" ± {value(row.spread, statistic)}" if row.seeds > 1 else ""),
            value(row.gain.value, statistic),
            interval(row.gain, statistic),
            str(row.seeds),
        )
        for row in rows
    ]
    head = ("λ", "metrics", f"{statistic} before", "after", "gain", f"{level:.0%} interval", "seeds")
    typer.echo(str(Table(head, tuple(lines))))


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
    edges: Annotated[
        str | None, typer.Option("--edges", help="First lengths of new buckets, such as 10,20,40.")
    ] = None,
    statistic: Statistic = None,
    samples: o.Samples = 1000,
    seed: o.Seed = 12345,
    level: o.Level = 0.95,
    missing: o.OnMissing = o.Missing.error,
    plot: Annotated[Path | None, typer.Option("--plot", help="SVG file to write.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """The correlation by length of the caption in words, with intervals and a plot."""
    from dataclasses import asdict

    from captious.errors import InputError
    from captious.files import whole_file
    from captious.report import terminal
    from captious.report.run import dumped
    from captious.study.lengths import chart
    from captious.study.lengths import lengths as regimes
    from captious.study.run import study
    from captious.study.summary import plain
    from captious.study.table import NAMES, Table, interval, value

    try:
        cuts = [int(part) for part in edges.split(",")] if edges else None
    except ValueError:
        raise InputError(f"--edges {edges}: expected whole numbers such as 10,20,40") from None
    with terminal.steps() as step:
        columns = (rating, group, system, None, candidate_column)
        ratings, recipe = _open(source, data, references, columns, None, None, None, None)
        found = _scores(ratings, metrics, scores, missing.value, step)
        made = study(ratings, found, recipe=recipe, statistic=statistic, samples=samples, seed=seed, level=level)
        step("buckets")
        buckets = regimes(made, cuts)
    labels = {score.key: score.label for score in made.scores}
    name = NAMES.get(made.options.statistic, made.options.statistic)
    if plot is not None:
        with whole_file(plot) as draft:
            draft.write_text(
                chart(buckets, labels, f"{name} × 100 by caption length, {ratings.name}"), encoding="utf-8"
            )
    if as_json:
        typer.echo(
            dumped(plain({"buckets": [asdict(bucket) for bucket in buckets], "signature": made.signature})), nl=False
        )
        return
    lines = [
        (
            bucket.label,
            label,
            f"{bucket.items:,}",
            f"{bucket.rows:,}",
            value(bucket.estimates[key].value, made.options.statistic),
            interval(bucket.estimates[key], made.options.statistic),
        )
        for bucket in buckets
        for key, label in labels.items()
    ]
    typer.echo(str(Table(("words", "metric", "captions", "rows", name, f"{level:.0%} interval"), tuple(lines))))
    typer.echo(made.signature)
    if plot is not None:
        typer.echo(f"written: {plot}", err=True)


@app.command()
def recipes(as_json: o.AsJson = False) -> None:
    """The benchmarks that have a recipe: their protocol, and where to get the data."""
    from captious.study.recipes import RECIPES

    if as_json:
        from dataclasses import asdict

        typer.echo(json.dumps({name: asdict(recipe) for name, recipe in RECIPES.items()}, indent=2, ensure_ascii=False))
        return
    for name, recipe in RECIPES.items():
        typer.echo(f"{name}\n  " + "\n  ".join(recipe.protocol()))
        files = "; or ".join(" + ".join([layout.ratings, *layout.references[:1]]) for layout in recipe.layouts)
        typer.echo(f"  files: {files}\n  source: {recipe.source}\n  {recipe.citation}\n")


def o_rows_mean() -> RowsOf:
    """ImaginE correlates with the mean rating."""
    return RowsOf.mean


def _open(
    source: str,
    data: Path | None,
    references: str | None,
    columns: tuple[str | None, ...],
    scale: str | None,
    tau: Variant | None,
    rows: RowsOf | None,
    images: Path | None,
) -> tuple[Ratings | Preferences, Recipe]:
    from dataclasses import replace

    from captious.errors import InputError
    from captious.study.gathering import open_ratings, open_recipe
    from captious.study.recipe import Layout, Recipe
    from captious.study.run import recipe_named

    limits: tuple[float, float] | None = None
    if scale is not None:
        try:
            low, high = (float(part) for part in scale.split(","))
        except ValueError:
            raise InputError(f"--scale {scale}: expected the lowest and the highest rating, such as 1,5") from None
        limits = (low, high)
    rating, group, system, rater, caption = columns
    recipe = recipe_named(source)
    layout = Layout(source, image=group, rating=rating, system=system, rater=rater, caption=caption)
    made = recipe or Recipe(source, (layout,), title=f"ratings of {source}")
    changes = {"tau": tau and tau.value, "rows": rows and rows.value, "scale": limits}
    made = replace(made, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]
    if recipe is None:
        return open_ratings(source, references, columns=layout, recipe=made, images=images), made
    if data is None:
        raise InputError(f"{source}: name the folder of its data with --data; get it from: {recipe.source}")
    return open_recipe(made, data, images), made


def _scores(
    ratings: Ratings | Preferences, metrics: str | None, files: list[str] | None, missing: str, step: object
) -> list[Scores]:
    from captious.metrics.registry import DEFAULT
    from captious.study.run import measure
    from captious.study.scores import read_scores

    found: list[Scores] = []
    for path in files or ():
        found += read_scores(path, ratings.ids, ratings.name, missing)  # type: ignore[arg-type]
    if metrics is not None or not found:
        found = [*measure(ratings, metrics or DEFAULT, step), *found]  # type: ignore[arg-type]
    return found


def _print(study: Study, shown: object) -> None:
    from rich.table import Table as Rich
    from rich.text import Text

    from captious.report import terminal
    from captious.study.table import Table

    assert isinstance(shown, Table)
    console = terminal.output()
    for line in study.protocol:
        console.print(Text(line, style="dim"), soft_wrap=True)
    table = Rich(title=f"{study.ratings.name}: agreement with people", title_justify="left")
    for place, column in enumerate(shown.columns):
        table.add_column(column, justify="left" if place == 1 else "right", style="bold" if place == 2 else "")
    last = ""
    for row in shown.rows:
        if last and row[0] != last:
            table.add_section()
        last = row[0]
        table.add_row(*map(Text, row))
    console.print(table)
    for note in shown.notes:
        console.print(Text(note), soft_wrap=True)
    console.print(Text(study.signature, style="dim"), soft_wrap=True)
    for score in study.scores:
        console.print(Text(score.signature, style="dim"), soft_wrap=True)
