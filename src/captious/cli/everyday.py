"""``captious keep``, ``compare``, ``arena``, ``view``, ``check`` and ``demo``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from captious.cli.commands import replace_arguments
from captious.cli.params import Only, list_params
from captious.cli.session import (
    USUAL,
    Browser,
    EloPoints,
    Listening,
    Metrics,
    Permutations,
    Runs,
    Session,
    SystemFiles,
    open_browser,
)
from captious.errors import InputError
from captious.options import (
    PERMUTATIONS,
    SEED,
    Argument,
    Engine,
    Option,
    Output,
    Reading,
    Runtime,
)

if TYPE_CHECKING:
    from captious.render import Document

DEMO = Session(output=Output(out=Path("demo-report")))


def keep(
    runs: Annotated[
        tuple[str, ...],
        Argument("Folder that captious score wrote; several are joined by id, NAME=FOLDER each.", metavar="RUNS"),
    ],
    filter: Annotated[str, Argument("Such as 'clipscore > 0.28 and words > 4'.", metavar="FILTER")],
    session: Annotated[Session, Only("out", "overwrite", "json")],
    engine: Annotated[Engine, Only("engine", "jobs", "address")],
    write: Annotated[Literal["ids", "shards"], Option("Write the ids that pass, or the shards with them.")] = "ids",
    best: Annotated[
        str | None, Option("Keep the best of several captions of an image, or of several runs.", metavar="METRIC")
    ] = None,
    unique: Annotated[
        str | None, Option("Keep the first of items with the same caption, image or column.", metavar="COLUMN")
    ] = None,
    sample: Annotated[int | None, Option("Keep a random sample of this size.", min=1, metavar="N")] = None,
    seed: Annotated[int, Option("Random seed, kept in the result.", min=0, max=2**63 - 1)] = SEED,
) -> None:
    """Print how many items of a run pass a filter and why the others do not; with --out, write those that pass.

    --out kept.parquet writes ids; also .jsonl and .txt.
    --out kept/ --write shards writes new shards, Parquet, JSONL or tar, with the rows or samples that pass.

    A filter has and, or, not; < <= > >= == !=, also 0.2 < cider < 2; + - * /; words, characters, candidates;
    caption has "dog", caption matches "dogs?"; id in ("7", "12"); cider is missing; columns of the input;
    top(clipscore, 0.3) for the 30 % with the highest values, bottom(...), quantile(...). An item without a value that
    the filter needs does not pass. Of several runs, recap.cider or cider@recap is the value in one.

    Example: captious keep run/ 'clipscore > 0.28 and words > 4' --out kept.parquet
    Example: captious keep run/ 'top(clipscore, 0.3)' --out kept/ --write shards
    Example: captious keep recap=runA/ alt=runB/ 'recap.cider > alt.cider' --out kept.parquet
    Example: captious keep run/ 'width >= 512' --unique caption --sample 1000 --seed 1 --out kept.txt
    """
    from captious.io.formats import name_files
    from captious.runs.keep_items import keep

    output = session.output
    printing = replace(session, output=replace(output, out=None))
    # A single run may be NAME=FOLDER too, unless a folder has this whole text as its name.
    is_named = len(runs) > 1 or ("=" in runs[0] and not Path(runs[0]).exists())
    with printing.working() as step:
        selection = keep(
            name_files(runs) if is_named else runs[0],
            filter,
            out=output.out,
            write=write,
            best=best,
            unique=unique,
            sample=sample,
            seed=seed,
            engine=engine,
            overwrite=output.overwrite,
            progress=step,
        )
    printing.deliver(selection)
    if output.out is not None:
        click.echo(f"written: {output.out}", err=True)


def compare(
    systems: SystemFiles,
    session: Session,
    metrics: Metrics = USUAL,
    test: Annotated[Literal["randomization", "bootstrap"], Option("Paired test.")] = "randomization",
    permutations: Permutations = PERMUTATIONS,
    every_pair: Annotated[bool, Option("Test all pairs, not only against the first.")] = False,
) -> None:
    """Compare systems on the same items with paired tests, Holm-adjusted over the systems.

    Folders that captious score wrote are compared without scoring again, on the metrics that all of them have,
    shard by shard.

    Example: captious compare a.json b.json c.json --references refs.json
    Example: captious compare XE=ck0/results.json RL=ck1/results.json --references refs.json
    Example: captious compare XE=run0/ RL=run1/
    """
    from captious._compare import compare
    from captious.metrics.registry import parse_all
    from captious.runs import is_run

    parse_all(metrics)  # a misspelt name is reported before anything is read
    paths = systems.files()
    tests: dict[str, Any] = {"test": test, "permutations": permutations, "every_pair": every_pair}
    runs = {name: path for name, path in paths.items() if is_run(path)}
    if len(runs) == len(paths) and session.reading != Reading(missing=session.reading.missing):
        name = next(one.name for one in fields(Reading) if getattr(session.reading, one.name) != one.default)
        raise InputError(f"{name}=... is for captions; folders of runs are compared as they are")
    # Without --metrics, runs are compared on the metrics that all of them have.
    wanted = None if runs and metrics == USUAL else metrics
    if session.runtime.judging.dry_run:
        session.deliver_plan({name: session.read(path) for name, path in paths.items()}, metrics)
        return
    with session.working() as step:
        result = compare(
            {name: path if name in runs else session.read(path) for name, path in paths.items()},
            wanted,
            resampling=session.resampling,
            progress=step,
            missing=session.reading.missing,
            **tests,
        )
    session.deliver_runs(result)


def arena(
    systems: SystemFiles,
    session: Session,
    model: Annotated[str, Option("Chat model that judges: its name at the endpoint, or local:FOLDER.", metavar="NAME")],
    comparisons: Annotated[
        int | None, Option("Maximum number of comparisons, drawn at random, equally for all pairs.", min=1)
    ] = None,
    prompt: Annotated[Path | None, Option("File with your own prompt.", metavar="FILE", rare=True)] = None,
    baselines: Annotated[
        tuple[str, ...], Option("Files of baselines: systems are compared only with these.", metavar="FILES")
    ] = (),
    assign: Annotated[
        str | None,
        Option("Column that names the one baseline of each item; all by default.", metavar="NAME", rare=True),
    ] = None,
    orders: Annotated[
        Literal["both", "one"], Option("Compare in both orders, or in one drawn at random.", rare=True)
    ] = "both",
    elo: EloPoints = "bradley-terry",
) -> None:
    """Let a chat model say which of two captions is better, for every two systems and every item, in both orders.

    It sees the image, the references, or both. The result has win rates, Elo points with intervals, and what
    influenced the judge: the order of the captions, and their length. --out FOLDER writes every verdict with reasons.

    With --baselines, each system is compared only with these and gets the score of CapArena-Auto: wins minus losses
    per 100 comparisons, the mean over the baselines.

    Example: captious arena a.json b.json c.json --images photos/ --model gpt-4o-mini
    Example: captious arena a.json b.json --references refs.json --model gpt-4o-mini --comparisons 500
    Example: captious arena ours.json --baselines gpt4o.json,cogvlm.json --images photos/ --model gpt-4o
    """
    from captious import _arena
    from captious.io.formats import name_files

    paths = systems.files()
    with session.working() as step:
        sets = {name: session.read_and_warn(path) for name, path in paths.items()}
        options: dict[str, Any] = {
            "missing": session.reading.missing,
            "comparisons": comparisons,
            "prompt": prompt or "",
            "baselines": {name: session.read_and_warn(path) for name, path in name_files(baselines).items()} or None,
            "assign": assign,
            "orders": orders,
            "elo": elo,
        }
        if session.runtime.judging.dry_run:
            session.deliver(_arena.plan_arena(sets, model, session.resampling, **options))
            return
        result = _arena.arena(sets, model, resampling=session.resampling, progress=step, **options)
    session.deliver(result)


def view(
    runs: Runs,
    session: Annotated[Session, Only("images", "videos", "out", "overwrite")],
    listening: Listening,
    audio: Annotated[Path | None, Option("Folder of the sounds, found by file name or id.", metavar="FOLDER")] = None,
    most_size: Annotated[str, Option("Largest total size of the videos that --out copies.", metavar="SIZE")] = "500MB",
    browser: Browser = True,
) -> None:
    """Explore runs in a browser: sort, filter and compare all items, and see each in full.

    Runs are joined by item id, and with human ratings. The command opens the browser, prints the link and serves it
    until Ctrl-C. With --out it writes a folder of up to 20,000 items instead, which any web server can show. The first
    page of a reward run shows the reward and the watched metrics over the steps.

    Example: captious view run1/
    Example: captious view baseline=run1/ ours=run2/ --ratings export/ratings.jsonl --images photos/
    Example: captious view run1/ --videos clips/
    Example: captious view run1/ --out site/
    """
    if session.output.out is not None:
        if listening != Listening():
            raise InputError("out=... as well as host=... or port=..., expected a folder to write or a server")
        _write_site(runs, session, Path(session.output.out), audio, most_size)
        return
    from captious.render.terminal import warn
    from captious.studio.explore.explorer_server import ExplorerServer

    report = _get_reward_report(runs, session)
    images, videos = _find_image_folder(runs, session), session.reading.videos
    listener = (listening.host, listening.port)
    server = ExplorerServer.of(runs.folders(), runs.ratings, images, *listener, audio, videos, report)
    warn(server.warnings)
    click.echo(f"Open {server.link}")
    _print_columns(runs)
    click.echo("Ctrl-C ends it.", err=True)
    if browser:
        open_browser(server.link)
    server.run()


def _print_columns(runs: Runs) -> None:
    """Print on standard error which columns the runs were scored from."""
    from captious.runs.folder import open_runs
    from captious.runs.marker import COLUMNS

    folders = runs.folders()
    paths = folders.values() if isinstance(folders, dict) else folders
    found = [(name or Path(path).name, run) for path in paths for name, run in open_runs(path).items()]
    for name, run in found:
        if line := run.marker.reading.get(COLUMNS):
            click.echo(f"{name}: {line}" if len(found) > 1 else line, err=True)


def _find_image_folder(runs: Runs, session: Session) -> Path | None:
    """Return the folder of --images, or the one that this user named when a run was scored; the first run counts."""
    if session.reading.images is not None:
        return Path(session.reading.images)
    from captious.runs.image_folders import recall_images

    folders = runs.folders()
    recalled = map(recall_images, folders.values() if isinstance(folders, dict) else folders)
    folder = next(filter(None, recalled), None)
    if folder is not None:
        click.echo(f"note: images are shown from {folder}", err=True)
    return folder


def _get_reward_report(runs: Runs, session: Session) -> Callable[[], Document] | None:
    """Return a function that makes the page of a reward run; None unless the only run is one."""
    from captious.runs import is_reward_run

    folders = runs.folders()
    folder, *others = folders.values() if isinstance(folders, dict) else folders
    if others or not is_reward_run(folder):
        return None
    from captious.render import Text, link
    from captious.rewarding import read_drift

    def report() -> Document:
        document = read_drift(folder, session.reading.images).document()
        explorer = "index.html" if session.output.out else "./"
        captions = Text([link("All captions in the explorer", explorer)], detail=True)
        return replace(document, sections=[*document.sections, captions])

    return report


def _write_site(runs: Runs, session: Session, out: Path, audio: Path | None, most_size: str) -> None:
    from captious._core.files import refuse_occupied
    from captious.render.progress import display
    from captious.render.terminal import warn
    from captious.studio.explore.explorer_table import open_table
    from captious.studio.explore.site import export_site

    refuse_occupied(out, session.output.overwrite)
    with display() as shown:
        images, videos = _find_image_folder(runs, session), session.reading.videos
        table = open_table(runs.folders(), runs.ratings, images, audio, videos)
        report = _get_reward_report(runs, session)
        document = report() if report else None
        step = partial(shown.advance, "images")
        unreadable = export_site(table, out, session.output.overwrite, step, document, most_size)
    number = f"{unreadable} image{'s' * (unreadable != 1)} could not be read"
    warn([*table.warnings, *([number] if unreadable else [])])
    _print_columns(runs)
    click.echo(f"written: {out / 'index.html'}", err=True)


def check(
    predictions: Annotated[
        tuple[str, ...], Argument("Files of captions, each checked by itself; '-' for standard input.")
    ],
    session: Annotated[
        Session,
        Only(
            "references",
            "images",
            "videos",
            "missing",
            "events",
            "items",
            "several",
            "format",
            "id_column",
            "references_id_column",
            "candidate_column",
            "references_column",
            "language",
            "unpack_limit",
            "json",
        ),
    ],
    questions: Annotated[
        str | None, Option("File of questions about the items, for metrics such as captionqa and dsg.", metavar="FILE")
    ] = None,
) -> None:
    """Examine files of captions and report everything that is wrong. Exit code 2 if anything must be fixed."""
    from captious.cli.score import score
    from captious.io.check import Findings, check
    from captious.render import Document

    # Findings name Python arguments. They are replaced by options of `captious score`, which has one for each of them.
    options = list_params(score)
    results = [check(Path(file), reading=session.reading, questions=questions) for file in predictions]
    results = [
        replace(
            one,
            findings=Findings(
                replace(finding, message=replace_arguments(finding.message, options)) for finding in one.findings
            ),
        )
        for one in results
    ]
    if len(results) == 1:
        session.deliver(results[0])
    else:
        sections = [replace(result.findings.text(), title=result.name) for result in results]
        data = {"files": [result.document().data for result in results]}
        session.deliver(Document(f"{len(results)} files", sections=sections, data=data, name="check"))
    if any(result.errors for result in results):
        raise click.exceptions.Exit(2)


def demo(
    session: Annotated[Session, Only("out", "overwrite")] = DEMO,
    files: Annotated[Path | None, Option("Copy the files of the demo set there instead.", metavar="FOLDER")] = None,
) -> None:
    """Score four captioners of the demo set, test their differences, and write the HTML report.

    CLIPScore and SPECS use captious-mini, a small encoder for drawn scenes that needs no torch.
    With --files FOLDER, copy captions, references, images and ratings into a folder, to try commands on.
    """
    if files is not None:
        if session.output.out != DEMO.output.out:
            raise InputError("--files copies files and writes no report; leave out --out")
        _copy_demo_files(files, session.output.overwrite)
        return
    from captious._compare import compare
    from captious._demo import demo as sample_set
    from captious.render.document import is_file

    with session.working() as step:
        result = compare(
            sample_set().systems,
            (*USUAL, "clipscore(weights=captious-mini)", "specs(weights=captious-mini-specs)"),
            # The demo stores nothing in the cache.
            runtime=Runtime(device="cpu", cache=False),
            progress=step,
        )
    session.deliver(result, sections=1)
    out = session.output.out or ""
    click.echo(
        "\nThe report has the test of every difference.\n"
        "By construction parrot < sloppy < solid < expert: see which metrics put them in that order.\n"
        f"Look at the captions, worst first:  {out if is_file(out) else Path(out) / 'report.html'}\n"
        f"Score your own:                     captious score preds.json --references refs.json\n"
        "With your photographs:              captious score preds.json --images photos/ --metrics clipscore,specs"
    )


def _copy_demo_files(folder: Path, overwrite: bool) -> None:
    """Copy the files of the demo set, and print what they are and commands that read them."""
    from captious._demo import CONTENTS
    from captious._demo import demo as sample_set

    target = sample_set().copy_files(folder, overwrite)
    width = max(map(len, CONTENTS))
    click.echo(f"{target}: 60 drawn scenes with captions, references, images and ratings")
    for name, content in CONTENTS.items():
        click.echo(f"  {name:{width}}  {content}")
    captions, references = target / "predictions", target / "references.json"
    click.echo(
        f"Score:    captious score {captions / 'expert.json'} -r {references}\n"
        f"Compare:  captious compare {captions / 'solid.json'} {captions / 'expert.json'} -r {references}\n"
        f"Study:    captious study run {target / 'ratings.jsonl'} -r {references}"
    )
