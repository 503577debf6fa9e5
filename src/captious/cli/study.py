"""``captious study``: which metrics agree with people, and whether their differences are real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from captious.cli.commands import CommandGroup, command
from captious.cli.params import Omit, Only, Rare
from captious.cli.session import All, EloPoints, Folds, Items, Permutations, Seeds, Session, Word, name_files
from captious.cli.study_audit import audit
from captious.cli.study_calibrate import calibrate
from captious.cli.study_choose import choose
from captious.cli.study_estimate import estimate
from captious.cli.study_inputs import SHOWN, UNUSED, find_recipe
from captious.cli.study_plan import plan
from captious.cli.study_threshold import threshold
from captious.errors import InputError
from captious.options import Argument, Option, Resampling
from captious.study.study_options import StudyInput

if TYPE_CHECKING:
    from captious.study import Study

app = CommandGroup("study")


@command(app)
def run(
    study_input: StudyInput,
    session: Annotated[Session, UNUSED, Rare("language", "missing", "endpoint")],
    test: Annotated[Literal["permutation", "bootstrap", "williams"], Option("Test behind the ranks.")] = "permutation",
    permutations: Permutations | None = None,
    where: Annotated[
        str | None, Option("Only captions that pass a filter, such as 'words > 10'.", metavar="FILTER")
    ] = None,
    digits: Annotated[
        int | None, Option("Round values of metrics to this number of decimals first.", min=0, max=15, rare=True)
    ] = None,
    most_references: Annotated[
        int | None, Option("Only the first references of each caption.", min=1, max=1000, rare=True)
    ] = None,
) -> None:
    """Correlate metrics with ratings, with intervals over images, tests between metrics, and ranks.

    Example: captious study run flickr8k-expert --data flickr8k --metrics "bleu(n=4),rouge,cider"
    Example: captious study run flickr8k-expert --data flickr8k --images photos/ --metrics clipscore,refclipscore
    Example: captious study run ratings.jsonl --references refs.json --where 'words > 10 and system != "human"'
    """
    if session.runtime.judging.dry_run:
        _print_dry_run(study_input, session)
        return
    with session.working() as step:
        options = {"test": test, "permutations": permutations, "where": where}
        study = _compute_correlations(study_input, session, step, digits, most_references, **options)
        study.document()  # intervals and tests are computed here, while progress is shown
    session.deliver(study)


def _compute_correlations(
    study_input: StudyInput,
    session: Session,
    step: Callable[[str], None],
    digits: int | None = None,
    most_references: int | None = None,
    **options: Any,
) -> Study:
    from captious.study import Ratings, correlate, load_ratings, load_scores

    ratings, recipe = load_ratings(study_input, session.reading)
    recipe = recipe if digits is None else replace(recipe, digits=digits)
    if most_references is not None:
        if not isinstance(ratings, Ratings):
            raise InputError(f"{ratings.name}: has pairs; most_references=... is for ratings")
        ratings = ratings.limit_references(most_references)
    scores = load_scores(ratings, recipe, study_input, session.reading.missing, step)
    options |= {"statistic": study_input.statistic, "resampling": session.resampling, "progress": step}
    return correlate(ratings, scores, recipe=recipe, **options)


def _print_dry_run(study_input: StudyInput, session: Session, added: Sequence[str] = ()) -> None:
    """Print the requests that the metrics would send to chat models about the rated captions."""
    from captious.metrics.registry import DEFAULT
    from captious.study import load_ratings

    ratings, _ = load_ratings(study_input, session.reading)
    if ratings.captions is None:
        raise InputError(f"{ratings.name}: ratings without captions, so nothing would be asked")
    metrics = [*(study_input.metrics or [DEFAULT]), *(name for name in added if not Path(name).is_file())]
    session.deliver_plan({ratings.name: ratings.captions}, metrics)


@command(app)
def agreement(
    study_input: Annotated[StudyInput, Omit("metrics", "scores", "scores_id_column", "statistic", "rows", "ties")],
    session: Annotated[Session, Only("missing", "id_column", "candidate_column", "samples", "seed", "level", "json")],
    measurement: Annotated[
        Literal["nominal", "ordinal", "interval", "ratio"] | None,
        Option("Level of measurement; by default that of the recipe, or interval; for pairs nominal."),
    ] = None,
) -> None:
    """Krippendorff's alpha, the score of a person used as a metric, and every rater against the others."""
    from captious.study import load_ratings, rater_agreement

    with session.working() as step:
        ratings, _ = load_ratings(find_recipe(study_input, session.reading), session.reading)
        step("agreement")
        result = rater_agreement(ratings, measurement, session.resampling)
    session.deliver(result)


@command(app)
def systems(
    study_input: Annotated[StudyInput, Omit("metrics", "scores", "scores_id_column", "statistic", "rows", "ties")],
    session: Annotated[
        Session,
        Only("missing", "id_column", "candidate_column", "samples", "seed", "level", "interval", *SHOWN),
    ],
    aspects: Annotated[
        tuple[str, ...], Option("Columns of further ratings, one for each aspect.", metavar="NAMES")
    ] = (),
    over: Annotated[
        Literal["images", "images+raters"] | None,
        Option("What the bootstrap draws; by default also raters, if at least three are named."),
    ] = None,
    difference: Annotated[float | None, Option("State the power to find this difference, such as 0.2.")] = None,
    elo: EloPoints = "bradley-terry",
) -> None:
    """Which system people prefer: means or win rates with intervals, tests between systems, strengths, power.

    A folder that captious studio export wrote, or a file in it, is read by its recipe, with all aspects.

    Example: captious study systems export/
    Example: captious study systems ratings.jsonl --system captioner --difference 0.2
    Example: captious study systems ratings.csv --aspects fluency,accuracy --out result/
    """
    from captious.study import load_ratings
    from captious.study import systems as rank_systems

    study_input = study_input if aspects else find_recipe(study_input, session.reading)
    with session.working() as step:
        ratings, _ = load_ratings(study_input, session.reading, aspects)
        step("systems")
        result = rank_systems(ratings, over=over, difference=difference, resampling=session.resampling, elo=elo)
    session.deliver(result)


for function in (estimate, plan, choose, threshold, calibrate, audit):
    command(app)(function)


@command(app)
def power(
    difference: Annotated[float, Option("Difference in tau-b that should be found: 0.03, or 3 of tau × 100.")],
    session: Annotated[Session, Only("seed", "level", "json")] = Session(resampling=Resampling(samples=400)),
    items: Items = 500,
    raters: Annotated[int, Option("Ratings per caption.")] = 3,
    levels: Annotated[int, Option("Points of the rating scale.")] = 5,
    tau: Annotated[float, Option("Tau-b of the weaker metric: 0.45, or 45 of tau × 100.")] = 0.45,
    alike: Annotated[float, Option("Correlation of the two metrics' errors.")] = 0.6,
    noise: Annotated[float, Option("Noise of a rating against the spread of quality.")] = 0.8,
) -> None:
    """How many captions and ratings a comparison of two metrics needs, by simulation."""
    from captious.study import simulate_power

    with session.working() as step:
        step("simulating")
        result = simulate_power(
            difference,
            items,
            raters=raters,
            levels=levels,
            tau=tau,
            alike=alike,
            noise=noise,
            resampling=session.resampling,
        )
    session.deliver(result)


@command(app)
def combine(
    study_input: StudyInput,
    session: Annotated[Session, UNUSED, Rare("language", "missing", "endpoint", "id_column")],
    add: Annotated[
        tuple[str, ...],
        Option("Metrics to add, or files of values: id and name@1, name@2, … for seeds.", metavar="LIST"),
    ] = (),
    seeds: Seeds | None = None,
    factors: Annotated[tuple[float, ...], Option("Factors of the added metric, such as 0.5,1,2.", rare=True)] = (1.0,),
    folds: Folds = 5,
) -> None:
    """Metric + λ · another: the correlation with people before and after, mean ± sd over seeds, and the best λ.

    Rows and statistic are those of captious study run; ImaginE's tables use --rows mean --statistic pearson.

    Example: captious study combine ratings.jsonl --references refs.json --metrics "rouge,cider" --add imagine --seeds 5
    """
    from captious.study import combine_metrics, load_ratings, load_scores
    from captious.study.metric_agreement.combine import collect_others

    if session.runtime.judging.dry_run:
        _print_dry_run(study_input, session, add)
        return
    with session.working() as step:
        ratings, recipe = load_ratings(study_input, session.reading)
        missing, id_column = session.reading.missing, study_input.scores_id_column
        others = collect_others(ratings, add, seeds, recipe=recipe, id_column=id_column, missing=missing, progress=step)
        base = load_scores(ratings, recipe, study_input, missing, step)
        step("combining")
        result = combine_metrics(
            ratings,
            base,
            others,
            recipe=recipe,
            factors=factors,
            folds=folds,
            statistic=study_input.statistic,
            resampling=session.resampling,
        )
    session.deliver(result)


@command(app)
def lengths(
    study_input: StudyInput,
    session: Annotated[Session, UNUSED, Rare("language", "missing", "endpoint")],
    edges: Annotated[tuple[int, ...], Option("Lengths at which a new bucket begins, such as 10,20.")] = (),
    tokens: Annotated[str | None, Option("Count tokens of this encoder instead of words.", metavar="MODEL")] = None,
) -> None:
    """Print the correlation with people by caption length, in words or in an encoder's tokens, with a chart.

    Example: captious study lengths ratings.jsonl --metrics rouge,cider --out lengths/
    Example: captious study lengths ratings.jsonl --images photos/ --metrics clipscore,specs --tokens captious-mini
    """
    from captious.models import loading
    from captious.study import length_regimes

    if session.runtime.judging.dry_run:
        _print_dry_run(study_input, session)
        return
    with session.working() as step:
        study = _compute_correlations(study_input, session, step)
        step("buckets")
        result = length_regimes(study, edges or None, loading.load(tokens) if tokens else None)
    session.deliver(result)


@command(app)
def leaderboard(
    session: Annotated[Session, Only(*SHOWN)],
    word: Word = None,
    dataset: Annotated[str | None, Option("Only this data set.", metavar="NAME")] = None,
    metric: Annotated[str | None, Option("Only this metric.", metavar="METRIC")] = None,
    all: All = False,
) -> None:
    """How well metrics agree with people on published data: computed, stored and printed numbers beside each other.

    It prints the data sets and their best metrics, or the numbers of one data set.

    Example: captious study leaderboard
    Example: captious study leaderboard flickr8k-expert
    Example: captious study leaderboard --metric cider --all
    """
    from captious.study import leaderboard as board

    with session.working():
        result = board(dataset, metric)
        if word is not None:
            result = result.search(word)
    if all or len(result.datasets) == 1:
        session.deliver(result)
        return
    hint = "captious study leaderboard WORD prints the numbers of a data set or metric, and --all prints everything"
    session.deliver_short(result.document(), 1, hint)


@command(app)
def advise(
    captions: Annotated[
        tuple[str, ...],
        Argument("Files of captions, one for each system; NAME=FILE names a system.", metavar="CAPTIONS"),
    ],
    session: Annotated[Session, Omit("several", "samples", "seed", "interval", "percent")],
    for_: Annotated[
        Literal["ratings", "pairs", "systems", "checkpoints"] | None,
        Option("What the metric must order; by default systems for several files, otherwise ratings."),
    ] = None,
    domain: Annotated[
        Literal["photographs", "video", "audio", "generated images", "drawn scenes"] | None,
        Option("What the captions describe; by default the evidence on photographs is taken."),
    ] = None,
    budget: Annotated[float | None, Option("Budget for chat models, with --prices.", min=0, metavar="USD")] = None,
    all: All = False,
) -> None:
    """Which metric to trust for your captions, from the closest evidence, and what nobody has tested.

    It sends no requests, and scores only a few items to measure how long each metric takes.

    Example: captious study advise preds.jsonl -r refs.json
    Example: captious study advise first.json second.json -r refs.json --for systems
    """
    from captious.study import advise as advised

    files = name_files(captions)
    with session.working() as step:
        sets = {name: session.read_and_warn(file) for name, file in files.items()}
        result = advised(
            sets,
            purpose=for_,
            domain=domain,
            budget=budget,
            resampling=session.resampling,
            progress=step,
        )
    if all:
        session.deliver(result)
        return
    hint = "--all prints the other evidence, what was never tested, and how many items are needed"
    session.deliver_short(result.document(), 2, hint)


@command(app)
def recipes(session: Annotated[Session, Only("json")], word: Word = None, all: All = False) -> None:
    """List the benchmarks that have a recipe; with a word, their protocol and where to get the data.

    Example: captious study recipes
    Example: captious study recipes flickr8k
    """
    from captious.study.recipes import Catalog

    catalog = Catalog() if word is None else Catalog().search(word)
    if all or len(catalog.recipes) <= 2:
        session.deliver(catalog)
        return
    hint = "captious study recipes NAME prints the protocol and the source of one, and --all prints all of them"
    session.deliver_short(catalog.document(), 1, hint)
