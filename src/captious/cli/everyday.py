"""``captious score``, ``keep``, ``compare``, ``gate``, ``arena``, ``view``, ``check``, ``metrics`` and ``demo``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, get_type_hints

import typer

from captious.cli.gate import gate
from captious.cli.messages import with_flags
from captious.cli.params import Only, command, params_of
from captious.cli.session import (
    EVERYDAY,
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
    choices_of,
    without_none,
)

if TYPE_CHECKING:
    from captious._by_language import LanguageReports
    from captious.io.storage import Storage
    from captious.metrics.contract import Metric
    from captious.render import Document, Result
    from captious.runs import Report

Keep = Annotated[
    str | None,
    Option("Also write ids that pass, such as 'cider > 0.3'.", metavar="FILTER", panel=Engine.title),
]
Predictions = Annotated[str, Argument("Candidate captions; '-' for standard input.", metavar="PREDICTIONS")]
USUAL = ("bleu", "rouge", "cider")
DEMO = Session(output=Output(out=Path("demo-report")))


PARTLY = 3
"""Exit code of a command that did its work but for some shards, which it names."""
NAMES = ("score", "keep", "compare", "gate", "arena", "view", "check", "metrics", "demo")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for function in (score, keep, compare, gate, arena, view, check, metrics, demo):
        command(app, panel=EVERYDAY)(function)


def score(
    predictions: Predictions,
    session: Session,
    engine: Engine,
    metrics: Metrics = USUAL,
    worst: Annotated[int, Option("Also print this number of worst items.", min=0)] = 0,
    where: Annotated[str | None, Option("Only worst items that pass, such as 'words > 4'.", metavar="FILTER")] = None,
    explain: Annotated[str | None, Option("Also print why this item has its scores.", metavar="ID")] = None,
    keep: Keep = None,
    add: Annotated[tuple[str, ...], Option("Metrics to add to the run in --out.", metavar="METRICS")] = (),
    no_references: Annotated[bool, Option("Do not store references in the run.")] = False,
) -> None:
    """Score captions: print a table with intervals; with --out, write everything.

    --out FOLDER writes the HTML report, the values of every item and all tables.
    --out scores.csv writes one file; also .json, .parquet, .html and .tex.
    --metrics all takes every metric that the data allow and that needs no model.
    --explain 1002 shows why item 1002 has its scores.

    A pattern or a folder means shards, which are scored into the folder of --out. Run the same command again to resume.
    If there is a column language, each language is scored by itself. The folder of a run prints its report again.

    Example: captious score preds.json --references refs.json
    Example: captious score preds.json --images photos/ --metrics clipscore,specs
    Example: captious score 'shards/{000..499}.tar' --metrics clipscore -o scores/
    Example: captious score preds.json --references refs.json -o run1 --add spice
    Example: captious score run1 --explain 1002
    """
    from captious._by_language import by_language, evaluate_by_language, names_languages
    from captious._evaluate import evaluate
    from captious.io.shards import is_sharded
    from captious.metrics.registry import parse_all
    from captious.runs import is_run

    parse_all(add or metrics)  # a misspelt name is said before anything is read
    if not add and is_run(predictions):
        _show_run(predictions, session, worst, where, explain)
        return
    if engine.engine is not None or (is_sharded(predictions) and not _fits_in_memory(predictions, session.output)):
        _score_shards(predictions, session, engine, metrics, worst, where, explain, keep, add, no_references)
        return
    for name, value in {"jobs": engine.jobs, "gpus": engine.gpus, "keep": keep}.items():
        if value:
            raise InputError(f"{name}={value!r} is for shards; name several, or pass engine=...")
    if session.runtime.judging.dry_run:
        session.deliver_plan({predictions: session.read(predictions)}, add or metrics)
        return
    if add:
        report = _added(predictions, session, add, explain)
        session = replace(session, output=replace(session.output, overwrite=True))
    else:
        with session.working() as step:
            captions = session.read(predictions)
            if explain is not None:
                captions.position(explain)  # an unknown id is said before anything is computed
            sets = by_language(captions) if names_languages(captions) else {}
            if len(sets) > 1:
                languages = evaluate_by_language(captions, metrics, session.resampling, progress=step)
            else:
                captions = next(iter(sets.values()), captions)
                report = evaluate(captions, metrics, session.resampling, progress=step)
                report = replace(report, store_references=not no_references)
                if explain is not None:
                    report = replace(report, explanations=report.explain(explain))
        if len(sets) > 1:
            _show_languages(languages, session, worst, where, explain, no_references)
            return
    session.deliver(report)
    _print_worst(report, worst, where, session.output)


def _show_languages(
    result: LanguageReports, session: Session, worst: int, where: str | None, explain: str | None, no_references: bool
) -> None:
    """Print the table of languages, and the explained item and the worst ones of each language after it."""
    reports = {code: replace(report, store_references=not no_references) for code, report in result.reports.items()}
    for code, report in reports.items():
        if explain is not None and explain in report.captions:
            reports[code] = replace(report, explanations=report.explain(explain))
    session.deliver(replace(result, reports=reports))
    for report in reports.values():
        if report.explanations is not None and not session.output.json:
            report.explanations.print()
        _print_worst(report, worst, where, session.output)


def _fits_in_memory(predictions: str, output: Output) -> bool:
    """Whether a tar is read as any other file is: a single one, whose scores go into no folder."""
    from captious.io.shards import is_one_file

    return output.out is None and is_one_file(predictions)


def _added(predictions: str, session: Session, add: Sequence[str], explain: str | None) -> Report:
    """The report of the run in --out with more metrics, computed on the same captions."""
    from captious._evaluate import add_metrics
    from captious.runs import is_run, read_run

    out = session.output.out
    if out is None or not is_run(out):
        raise InputError(f"{out or 'add=...'}: no run to add metrics to; pass out=..., a folder that score wrote")
    with replace(session, output=replace(session.output, out=None)).working() as step:
        run = read_run(out, images=session.reading.images)
        captions = run.captions if is_run(predictions) else session.read(predictions)
        report = add_metrics(run, add, session.resampling, progress=step, captions=captions)
        return report if explain is None else replace(report, explanations=report.explain(explain))


def _show_run(folder: str, session: Session, worst: int, where: str | None, explain: str | None) -> None:
    """Print the report of a run again."""
    from captious.runs import read_run

    with session.working():
        report = read_run(folder, images=session.reading.images)
        if explain is not None:
            report = replace(report, explanations=report.explain(explain))
    session.deliver(report)
    _print_worst(report, worst, where, session.output)


def _print_worst(report: Report, worst: int, where: str | None, output: Output) -> None:
    if worst and not (output.json or output.latex or output.csv):
        listed = report.worst(worst, where=where)
        (listed.in_percent() if output.percent else listed).print()


def _score_shards(
    source: str,
    session: Session,
    engine: Engine,
    metrics: Metrics,
    worst: int,
    where: str | None,
    explain: str | None,
    keep: str | None,
    add: Sequence[str],
    no_references: bool,
) -> None:
    """Score shards into a folder, print the report, and say what was written and which shards failed."""
    from captious.io.storage import Storage
    from captious.scale.scoring import score_shards

    output = session.output
    printing = replace(session, output=replace(output, out=None))
    if session.runtime.judging.dry_run:
        _print_shards_plan(source, add or metrics, printing)
        return
    out = _folder_for_shards(source, output.out)
    if keep is not None:
        _check_filter(keep, (*metrics, *add), source, session.reading)
    folder = Storage.at(out)
    written = [folder.address_of("report.html")]
    with printing.working() as step:
        report = score_shards(
            source,
            metrics,
            out=out,
            reading=session.reading,
            resampling=session.resampling,
            engine=engine,
            progress=step,
            add=add or None,
            store_references=not no_references,
            overwrite=output.overwrite,
        )
        if explain is not None:
            report = replace(report, explanations=report.explain(explain))
        if output.percent or explain is not None:
            report.write(percent=output.percent)
        shown: list[Result] = [report]
        if keep is not None:
            written.append(folder.address_of("kept.parquet"))
            shown = _kept(report, out, keep, written[-1], engine, output.json, step)
    if worst:
        shown.append(report.worst(worst, where=where))
    for result in shown[:1] if output.json or output.latex or output.csv else shown:
        printing.deliver(result)
    typer.echo(f"written: {', '.join(written)}", err=True)
    if report.failed:
        _exit_partly(report, folder)


def _print_shards_plan(source: str, metrics: Sequence[str], session: Session) -> None:
    """Print what judges would be asked about shards; nothing is asked."""
    from captious.scale.plan import plan_shards

    with session.working() as step:
        plan = plan_shards(source, metrics, session.reading, step)
    session.deliver(plan)


def _folder_for_shards(source: str, out: str | Path | None) -> str | Path:
    """The folder that the scores of shards go to; a missing one, or the name of a file, is refused."""
    from captious.render.document import is_file

    if out is None:
        raise InputError(f"{source}: {_what_is_sharded(source)}, such as out=scores")
    if is_file(out):
        raise InputError(f"{out}: is the name of a file, expected that of a folder for the scores of shards")
    return out


def _kept(
    report: Report, out: str | Path, filter: str, ids: str, engine: Engine, json: bool, step: Callable[[str], None]
) -> list[Result]:
    """Write the ids of the items that pass a filter; gives the results to print, as JSON one of both."""
    from captious.scale.keep import keep as keep_items

    selection = keep_items(out, filter, ids, engine=engine, overwrite=True, progress=step)
    if json:
        return [replace(report.document(), data={**report.data(), "kept": selection.data()})]
    return [report, selection]


def _exit_partly(report: Report, folder: Storage) -> NoReturn:
    """Name the shards that failed, and end with the exit code that says so."""
    from captious.runs.folder import FAILED
    from captious.scale.scoring import failed_line

    failed = failed_line(report.failed, len(report.failed) + len(report.parts))
    listed = f"left out and listed in {folder.address_of(FAILED)}"
    typer.echo(f"captious: {failed}, {listed}; the same command again tries them again", err=True)
    raise typer.Exit(PARTLY)


def _check_filter(text: str, metrics: Metrics, source: str, reading: Reading) -> None:
    """Say what is wrong with a filter before anything is scored; a name may be a column of the first shard."""
    from captious.filters import FilterSchema, UnknownName, parse_filter, run_columns
    from captious.io.shards import expand, read_shard
    from captious.metrics.registry import parse_all
    from captious.runs.tables import items_table

    labels = {str(metric): metric.label for metric in parse_all(metrics)}
    texts = {"id": "VARCHAR", "candidates": "VARCHAR[]", "references": "VARCHAR[]", "image": "VARCHAR"}
    types = {**texts, **dict.fromkeys(labels, "DOUBLE")}
    try:
        parse_filter(text, FilterSchema(run_columns(types, labels), labels))
    except UnknownName:
        from captious.filters import column_types, connect

        captions = read_shard(expand(source, reading.format)[0], reading, images=False).captions
        with connect() as connection:
            connection.register("items", items_table(captions, {}, list(labels)))
            types = column_types(connection.table("items"))
        parse_filter(text, FilterSchema(run_columns(types, labels), labels))


def _what_is_sharded(source: str) -> str:
    """Why a source is scored as shards, and what to do if that was not meant."""
    from captious.io.storage import is_remote

    if is_remote(source):
        return "what is at an address is scored as shards, into a folder: download a single file, or pass out=..."
    if Path(source).is_dir():
        return "is a folder, whose files are scored as shards, into a folder: name one file, or pass out=..."
    return "shards are scored into a folder; pass out=..."


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
    seed: Annotated[int, Option("Random seed, kept in the result.")] = SEED,
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
    from captious.io.formats import named_files
    from captious.scale.keep import keep

    output = session.output
    printing = replace(session, output=replace(output, out=None))
    with printing.working() as step:
        selection = keep(
            named_files(runs) if len(runs) > 1 or ("=" in runs[0] and not Path(runs[0]).exists()) else runs[0],
            filter,
            output.out,
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
        typer.echo(f"written: {output.out}", err=True)


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

    parse_all(metrics)  # a misspelt name is said before anything is read
    paths = systems.files()
    tests: dict[str, Any] = {"test": test, "permutations": permutations, "every_pair": every_pair}
    runs = {name: path for name, path in paths.items() if is_run(path)}
    if len(runs) == len(paths) and session.reading != Reading(missing=session.reading.missing):
        name = next(one.name for one in fields(Reading) if getattr(session.reading, one.name) != one.default)
        raise InputError(f"{name}=... is for captions; folders of runs are compared as they are")
    wanted = None if runs and metrics == USUAL else metrics
    if session.runtime.judging.dry_run:
        session.deliver_plan({name: session.read(path) for name, path in paths.items()}, metrics)
        return
    with session.working() as step:
        result = compare(
            {name: path if name in runs else session.read(path) for name, path in paths.items()},
            wanted,
            session.resampling,
            progress=step,
            missing=session.reading.missing,
            **tests,
        )
    session.deliver(result)


def arena(
    systems: SystemFiles,
    session: Session,
    model: Annotated[str, Option("Chat model that judges: its name at the endpoint, or local:FOLDER.", metavar="NAME")],
    comparisons: Annotated[
        int | None, Option("Maximum number of comparisons, drawn at random, equally for all pairs.", min=1)
    ] = None,
    prompt: Annotated[Path | None, Option("File with your own prompt.", metavar="FILE")] = None,
    baselines: Annotated[
        tuple[str, ...], Option("Files of baselines: systems are compared only with these.", metavar="FILES")
    ] = (),
    assign: Annotated[
        str | None, Option("Column that names the one baseline of each item; all by default.", metavar="NAME")
    ] = None,
    orders: Annotated[Literal["both", "one"], Option("Compare in both orders, or in one drawn at random.")] = "both",
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
    from captious.io.formats import named_files

    paths = systems.files()
    with session.working() as step:
        sets = {name: session.read(path) for name, path in paths.items()}
        options: dict[str, Any] = {
            "missing": session.reading.missing,
            "comparisons": comparisons,
            "prompt": prompt or "",
            "baselines": {name: session.read(path) for name, path in named_files(baselines).items()} or None,
            "assign": assign,
            "orders": orders,
            "elo": elo,
        }
        if session.runtime.judging.dry_run:
            session.deliver(_arena.plan_arena(sets, model, session.resampling, **options))
            return
        result = _arena.arena(sets, model, session.resampling, progress=step, **options)
    session.deliver(result)


def view(
    runs: Runs,
    session: Annotated[Session, Only("images", "out", "overwrite")],
    listening: Listening,
    audio: Annotated[Path | None, Option("Folder of the sounds, found by file name or id.", metavar="FOLDER")] = None,
    browser: Annotated[bool, Option("Print the link, but do not open a browser.")] = True,
) -> None:
    """Explore runs in a browser: sort, filter and compare all items, and see each in full.

    Runs are joined by item id, and with human ratings. The command opens the browser, prints the link and serves it
    until Ctrl-C. With --out it writes a folder of up to 20,000 items instead, which any web server can show. The first
    page of a reward run shows the reward and the watched metrics over the steps.

    Example: captious view run1/
    Example: captious view baseline=run1/ ours=run2/ --ratings export/ratings.jsonl --images photos/
    Example: captious view run1/ --out site/
    """
    if session.output.out is not None:
        if listening != Listening():
            raise InputError("out=... as well as host=... or port=..., expected a folder to write or a server")
        _write_site(runs, session, Path(session.output.out), audio)
        return
    from captious.studio.explore.server import ExplorerServer

    place = (listening.host, listening.port)
    report = _reward_report(runs, session)
    server = ExplorerServer.of(runs.folders(), runs.ratings, session.reading.images, *place, audio, report)
    typer.echo(f"Open {server.link}")
    typer.echo("Ctrl-C ends it.", err=True)
    if browser:
        open_browser(server.link)
    server.run()


def _reward_report(runs: Runs, session: Session) -> Callable[[], Document] | None:
    """What shows the page of a reward run, where one is looked at alone."""
    from captious.render import Text, link
    from captious.rewarding import is_reward_run, read_drift

    folders = runs.folders()
    folder, *others = folders.values() if isinstance(folders, dict) else folders
    if others or not is_reward_run(folder):
        return None

    def report() -> Document:
        document = read_drift(folder, session.reading.images).document()
        explorer = "index.html" if session.output.out else "./"
        captions = Text([link("All captions in the explorer", explorer)], detail=True)
        return replace(document, sections=[*document.sections, captions])

    return report


def _write_site(runs: Runs, session: Session, out: Path, audio: Path | None) -> None:
    from captious._files import refuse_occupied
    from captious.render.progress import display
    from captious.render.terminal import warn
    from captious.studio.explore.site import export_site
    from captious.studio.explore.table import open_table

    refuse_occupied(out, session.output.overwrite)
    with display() as shown:
        table = open_table(runs.folders(), runs.ratings, session.reading.images, audio)
        report = _reward_report(runs, session)
        document = report() if report else None
        unreadable = export_site(table, out, session.output.overwrite, partial(shown.advance, "images"), document)
    number = f"{unreadable} image{'s' * (unreadable != 1)} could not be read"
    warn([*table.warnings, *([number] if unreadable else [])])
    typer.echo(f"written: {out / 'index.html'}", err=True)


def check(
    predictions: Annotated[
        tuple[str, ...], Argument("Files of captions, each checked by itself; '-' for standard input.")
    ],
    session: Annotated[
        Session,
        Only(
            "references",
            "images",
            "several",
            "format",
            "id_column",
            "candidate_column",
            "references_column",
            "language",
            "json",
        ),
    ],
    questions: Annotated[
        str | None, Option("File of questions about the items, for metrics such as captionqa and dsg.", metavar="FILE")
    ] = None,
) -> None:
    """Examine files of captions and report everything that is wrong. Exit code 2 if anything must be fixed."""
    from captious.io.check import Findings, check
    from captious.render import Document

    # What is found names arguments of Python; a command that scores has the options that they are.
    options = params_of(score)
    results = [check(Path(file), reading=session.reading, questions=questions) for file in predictions]
    results = [
        replace(
            one,
            findings=Findings(
                replace(finding, message=with_flags(finding.message, options)) for finding in one.findings
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
        raise typer.Exit(2)


def metrics(
    session: Annotated[Session, Only("json")],
    name: Annotated[str | None, Argument("Print the card of this metric.")] = None,
    markdown: Annotated[bool, Option("Print the card as Markdown source.")] = False,
) -> None:
    """List the metrics, or print one metric's card: formula, parameters, needs, citation."""
    from captious.metrics.registry import metric_class, names, parse
    from captious.render import Document, Table
    from captious.render.terminal import output

    if name is None:
        classes = [metric_class(one) for one in names()]
        rows = [
            (one.name, _headline(one), ", ".join(one().needs) or "—", "higher" if one().higher_is_better else "lower")
            for one in classes
        ]
        table = Table("metrics", "Metrics", ("name", "what it is", "needs", "better"), rows)
        note = "captious metrics NAME prints the card of a metric; --metrics all is every one that needs no model"
        data = {"metrics": [{"name": one.name, **dict(facts(one))} for one in classes]}
        session.deliver(Document("Metrics", sections=[table], notes=[note], data=data))
        return
    metric = metric_class(parse(name).name)
    if session.output.json:
        parts = {"facts": dict(facts(metric)), "parameters": parameter_rows(metric)}
        session.deliver(Document(metric.name, data={"name": metric.name, **parts}))
    elif markdown:
        typer.echo(card(metric), nl=False)
    else:
        from rich.markdown import Markdown

        output().print(Markdown(card(metric)))


def card(metric: type[Metric]) -> str:
    """A metric's card as Markdown: what it is, what it needs, its parameters, whom to cite."""
    body = (inspect.getdoc(metric) or "").partition("\n")[2]
    lines = [f"# {metric.name}", "", _headline(metric), *_body(body), "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in facts(metric)]
    parameters = parameter_rows(metric)
    if parameters:
        lines += ["", "| parameter | default | values |", "|---|---|---|"]
        lines += [f"| `{name}` | `{default}` | {values} |" for name, default, values in parameters]
    return "\n".join(lines) + "\n"


def _direction(kind: type[Metric]) -> str:
    """Which values are better, by variant where the variants differ."""
    variants = [
        (f"{name}={value}", kind(**{name: value})) for name, values in kind.variants.items() for value in values
    ]
    directions: dict[str, list[str]] = {}
    for written, metric in variants:
        directions.setdefault("higher" if metric.higher_is_better else "lower", []).append(f"`{written}`")
    if len(directions) < 2:
        return "higher" if kind().higher_is_better else "lower"
    return "; ".join(f"{direction} for {', '.join(written)}" for direction, written in directions.items())


def facts(kind: type[Metric]) -> list[tuple[str, str]]:
    """Needs, range, direction, whether it explains its values, variants, citation."""
    from captious._languages import language_named

    metric = kind()
    low, high = metric.range
    rows = [
        ("needs", ", ".join(metric.needs) or "candidates only"),
        ("range", "no limits" if math.isinf(low) else f"{low:g} to {'no limit' if math.isinf(high) else f'{high:g}'}"),
        ("better", _direction(kind)),
    ]
    if metric.languages:
        rows.append(("languages", ", ".join(language_named(code).name for code in metric.languages) + " only"))
    if metric.explains:
        rows.append(("explains single values", "yes, with `captious score --explain ID` and `report.explain(id)`"))
    for name, values in metric.variants.items():
        members = ", ".join(f"`{metric.name}({name}={value})`" for value in values)
        rows.append((f"without {name} it stands for", members))
    if metric.citation:
        rows.append(("cite", metric.citation))
    return rows


def parameter_rows(metric: type[Metric]) -> list[tuple[str, str, str]]:
    """Name, default and legal values of each parameter."""
    hints = get_type_hints(metric)
    return [
        (field.name, _default(field.default), _values(metric.name, field.name, hints[field.name]))
        for field in fields(metric)
    ]


_STYLE = "a file that `captious style fit` wrote"
_PROMPTS = "a folder with other prompts"
_MODEL = "a hub id, a folder, a checkpoint file or `captious-mini`"
TEXTS = {
    "tokenizer": (
        "`auto` (that of the language), `ptb`, `13a`, `13a-cased`, `intl`, `intl-cased`, `whitespace`, `plain`, "
        "`char`; `zh`, `zh-char`, `zh-jieba`; `ja-mecab`, `ja-sudachi`; `ko-mecab`; `th-char`, `th-newmm`, "
        "`th-newmm-composed`"
    ),
    "idf": "`refs`, the name of an idf corpus, or its path",
    "against": "`refs`, or the path of a file of captions",
    "modules": "some of `exact+stem+synonym+paraphrase`",
    "resources": "a folder with METEOR's data, or a compiled file",
    "model": "the name of a chat model at the endpoint, or `local:` and a folder or hub id",
    "onlystyle.model": _STYLE,
    "stylecider.model": _STYLE,
    "prompt": "a text file with another prompt",
    "faithscore.prompt": _PROMPTS,
    "rlaifv.prompt": _PROMPTS,
    "dcscore.prompt": _PROMPTS,
    "vdc.prompt": _PROMPTS,
    "autodq.prompt": _PROMPTS,
    "questions": "a file of questions; without it the column `questions`",
    "autodq.questions": "a file of events; without it the column `events`, or the model",
    "answers": "a file of stored answers, or `column`",
    "category": "a category of questions",
    "style": "the style of all items; without it the column says it",
    "column": "the column of the styles",
    "prefix": "words before every caption",
    "weights": _MODEL,
    "bertscore.weights": "a language model: a hub id or a folder",
    "bleurt.weights": "a BLEURT checkpoint of the PyTorch port: a hub id or a folder",
    "sbert.weights": "a model of sentence-transformers: a hub id or a folder",
    "fense.weights": "a model of sentence-transformers: a hub id or a folder",
    "fluency": "a detector (folder or checkpoint file), a file of probabilities, or `error_probability`, the column",
    "spider.spice": "`spacy`, or a file that the original SPICE wrote",
    "capture.weights": "a model of sentence-transformers: a hub id or a folder",
    "capture.parser": "a model of spaCy, or the folder or hub id of a FACTUAL model",
    "umic.weights": "a folder that `captious train umic` wrote",
    "short": _MODEL,
    "long": _MODEL,
    "regions": "a folder with an `.npz` file of region features for each image",
    "painter": "a folder or hub id of a diffusers pipeline, `guided:` with an image decoder, or `drawn`",
    "scheduler": "a scheduler of diffusers by its class name",
    "guide": "the encoder that guides a painter of `guided:`",
}
"""What a parameter that is a text takes, by its name, with the metric before it where that differs."""


def _headline(metric: type[Metric]) -> str:
    return (inspect.getdoc(metric) or "").partition("\n")[0]


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f'"{value}"' if value == "" or str(value) != str(value).strip() else str(value)


def _values(metric: str, name: str, hint: Any) -> str:
    hint = without_none(hint)
    if choices := choices_of(hint):
        return ", ".join(f"`{choice}`" for choice in choices)
    numbers = {int: "a whole number", float: "a number", bool: "`yes`, `no`"}
    return numbers.get(hint) or TEXTS.get(f"{metric}.{name}") or TEXTS.get(name, "a text")


def _body(text: str) -> list[str]:
    """The docstring's text, its doctest as a code block."""
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        if line.startswith(">>>") and not fenced:
            lines.append("```python")
            fenced = True
        if fenced and not line.strip():
            lines.append("```")
            fenced = False
        lines.append(line.replace("::", ":") if line.endswith("::") else line)
    return [*lines, "```"] if fenced else lines


def demo(session: Annotated[Session, Only("out", "overwrite")] = DEMO) -> None:
    """Score four captioners of the demo set, test their differences, and write the HTML report.

    CLIPScore and SPECS use captious-mini, a small encoder for drawn scenes that needs no torch.
    """
    from captious._compare import compare
    from captious._demo import demo as sample_set
    from captious.render.document import is_file

    with session.working() as step:
        result = compare(
            sample_set().systems,
            (*USUAL, "clipscore(weights=captious-mini)", "specs(weights=captious-mini-specs)"),
            # A first look at captious leaves nothing in the cache.
            runtime=Runtime(device="cpu", cache=False),
            progress=step,
        )
    session.deliver(result)
    out = session.output.out or ""
    typer.echo(
        "\nBy construction parrot < sloppy < solid < expert: see which metrics put them in that order.\n"
        f"Look at the captions, worst first:  {out if is_file(out) else Path(out) / 'report.html'}\n"
        f"Score your own:                     captious score preds.json --references refs.json\n"
        "With your photographs:              captious score preds.json --images photos/ --metrics clipscore,specs"
    )
