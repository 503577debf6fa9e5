"""``captious score``: scores of a file or of shards, or the report of an existing run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import click

from captious.cli.session import USUAL, Metrics, Session
from captious.errors import InputError
from captious.options import Argument, Engine, Option, Output, Reading

if TYPE_CHECKING:
    from captious._by_language import LanguageReports
    from captious.captions import CaptionSet
    from captious.io.storage import Storage
    from captious.render import Result
    from captious.runs import Report

Keep = Annotated[
    str | None,
    Option("Also write ids that pass, such as 'cider > 0.3'.", metavar="FILTER", panel=Engine.title, rare=True),
]
Predictions = Annotated[str, Argument("Candidate captions; '-' for standard input.", metavar="PREDICTIONS")]
TAR = re.compile(r"\.(tar|tgz)(\.gz)?$", re.IGNORECASE)
# Exit code if some shards failed; the command names them.
PARTLY = 3


def score(
    predictions: Predictions,
    session: Session,
    engine: Engine,
    metrics: Metrics = USUAL,
    worst: Annotated[int, Option("Also print this number of worst items.", min=0)] = 0,
    where: Annotated[
        str | None, Option("Only worst items that pass, such as 'words > 4'.", metavar="FILTER", rare=True)
    ] = None,
    explain: Annotated[str | None, Option("Also print why this item has its scores.", metavar="ID")] = None,
    keep: Keep = None,
    by_file: Annotated[
        bool, Option("Dense captions: a value for each file of references, and the mean of these.", rare=True)
    ] = False,
    add: Annotated[tuple[str, ...], Option("Metrics to add to the run in --out.", metavar="METRICS")] = (),
    no_references: Annotated[bool, Option("Do not store references in the run.", rare=True)] = False,
    no_rows: Annotated[bool, Option("Do not store statistics of items in the run.", rare=True)] = False,
) -> None:
    """Score captions: print a table with intervals; with --out, write everything.

    --out FOLDER writes the HTML report, the values of every item and all tables.
    --out scores.csv writes one file; also .json, .parquet, .html and .tex.
    --metrics all takes every metric that the data allow and that needs no model.

    A pattern or a folder means shards: run the same command again to resume. Languages of a column "language" are
    scored separately. A run prints its report.

    Example: captious score preds.json --references refs.json
    Example: captious score preds.json --images photos/ --metrics clipscore,specs
    Example: captious score preds.json --videos clips/ --metrics clipscore,emscore
    Example: captious score dense.json -r val_1.json --metrics densecap,soda
    Example: captious score 'shards/{000..499}.tar' --metrics clipscore -o scores/
    Example: captious score preds.json --references refs.json -o run1 --add spice
    Example: captious score run1 --explain 1002
    """
    from captious._evaluate import evaluate
    from captious.metrics.requests import choose_metrics

    chosen = choose_metrics(add or metrics)  # a misspelt name is reported before anything is read
    kind = _get_source_kind(predictions, session.output)
    if kind == "run" and not add:
        _show_run(predictions, session, worst, where, explain)
        return
    if engine.engine is not None or kind == "shards":
        _score_shards(predictions, session, engine, metrics, worst, where, explain, keep, add, no_references, no_rows)
        return
    if by_file and add:
        raise InputError("by_file=True is for a new run; name the metrics to add, such as densecap(files=1)")
    for name, value in {"jobs": engine.jobs, "gpus": engine.gpus, "keep": keep}.items():
        if value:
            raise InputError(f"{name}={value!r} is for shards; name several, or pass engine=...")
    if session.runtime.judging.dry_run:
        session.deliver_plan({predictions: session.read(predictions)}, add or metrics)
        return
    if add:
        report = _add_metrics(predictions, session, add, explain)
        session = replace(session, output=replace(session.output, overwrite=True))
    else:
        with session.working() as step:
            captions = session.read(predictions)
            if explain is not None:
                captions.position(explain)  # an unknown id is reported before anything is computed
            if by_file:
                from captious.metrics.dense.by_file import split_by_file

                chosen = split_by_file(chosen, captions)
            sets = _split_languages(captions)
            if len(sets) > 1:
                from captious._by_language import evaluate_by_language

                languages = evaluate_by_language(captions, chosen, resampling=session.resampling, progress=step)
            else:
                captions = next(iter(sets.values()), captions)
                report = evaluate(captions, chosen, resampling=session.resampling, progress=step)
                report = _set_storage(report, no_references, no_rows)
                if explain is not None:
                    report = replace(report, explanations=report.explain(explain))
        if len(sets) > 1:
            _show_languages(languages, session, worst, where, explain, no_references, no_rows)
            return
    session.deliver_runs(report)
    _print_worst(report, worst, where, session.output)


def _get_source_kind(predictions: str, output: Output) -> Literal["file", "shards", "run"]:
    """Return the kind of a source; for a plain file, nothing that only shards and runs need is imported."""
    path = Path(predictions)
    try:
        if predictions == "-" or (path.is_file() and not TAR.search(path.name)):
            return "file"
    except (OSError, ValueError):  # an invalid file name, which the reader reports
        return "file"
    from captious.io.shards import is_one_file, is_sharded
    from captious.runs import is_output

    if is_output(predictions):  # a folder that is not a run, such as a comparison, is refused when it is opened
        return "run"
    # A single tar without an output folder is read like any other file.
    in_memory = output.out is None and is_one_file(predictions)
    return "shards" if is_sharded(predictions) and not in_memory else "file"


def _split_languages(captions: CaptionSet) -> Mapping[str, CaptionSet]:
    """Split the captions by language, if they have a language column; empty otherwise."""
    from captious._core.languages import LANGUAGE_COLUMN

    if LANGUAGE_COLUMN not in captions.columns:
        return {}
    from captious._by_language import has_languages, split_languages

    return split_languages(captions) if has_languages(captions) else {}


def _set_storage(report: Report, no_references: bool, no_rows: bool) -> Report:
    """Return the report with the options that say whether a saved run stores references and rows."""
    from captious.runs.source import MemoryItems

    assert isinstance(report.source, MemoryItems)
    return replace(report, source=replace(report.source, store_references=not no_references, store_rows=not no_rows))


def _show_languages(
    result: LanguageReports,
    session: Session,
    worst: int,
    where: str | None,
    explain: str | None,
    no_references: bool,
    no_rows: bool,
) -> None:
    """Print the table of languages, then the explained item and the worst items of each language."""
    reports = {code: _set_storage(report, no_references, no_rows) for code, report in result.reports.items()}
    for code, report in reports.items():
        if explain is not None and explain in report.captions:
            reports[code] = replace(report, explanations=report.explain(explain))
    session.deliver(replace(result, reports=reports))
    for report in reports.values():
        if report.explanations is not None and not session.output.json:
            report.explanations.print()
        _print_worst(report, worst, where, session.output)


def _add_metrics(predictions: str, session: Session, add: Sequence[str], explain: str | None) -> Report:
    """Compute more metrics for the run in --out on the same captions, and return its report."""
    from captious._evaluate import add_metrics
    from captious.runs import is_run, open_run

    out = session.output.out
    if out is None or not is_run(out):
        raise InputError(f"{out or 'add=...'}: no run to add metrics to; pass out=..., a folder that score wrote")
    with replace(session, output=replace(session.output, out=None)).working() as step:
        run = open_run(out, images=session.reading.images)
        captions = run.captions if is_run(predictions) else session.read(predictions)
        report = add_metrics(run, add, session.resampling, progress=step, captions=captions)
        return report if explain is None else replace(report, explanations=report.explain(explain))


def _show_run(folder: str, session: Session, worst: int, where: str | None, explain: str | None) -> None:
    """Print the report of a run again."""
    from captious.runs import open_run

    with session.working():
        report = open_run(folder, images=session.reading.images)
        if explain is not None:
            report = replace(report, explanations=report.explain(explain))
    session.deliver(report)
    _print_worst(report, worst, where, session.output)


def _print_worst(report: Report, worst: int, where: str | None, output: Output) -> None:
    if worst and not (output.json or output.latex or output.csv):
        items = report.worst(worst, where=where)
        (items.in_percent() if output.percent else items).print()


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
    no_rows: bool,
) -> None:
    """Score shards into a folder, and print the report, the written files and the shards that failed."""
    from captious.io.storage import Storage
    from captious.runs.shards.scoring import score_shards

    output = session.output
    printing = replace(session, output=replace(output, out=None))
    if session.runtime.judging.dry_run:
        _print_shards_plan(source, add or metrics, printing)
        return
    out = _get_shards_folder(source, output.out)
    if keep is not None:
        _check_filter(keep, (*metrics, *add), source, session.reading)
    folder = Storage.at(out)
    written = [folder.get_address("report.html")]
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
            store_rows=not no_rows,
            overwrite=output.overwrite,
        )
        if explain is not None:
            report = replace(report, explanations=report.explain(explain))
        if output.percent or explain is not None:
            report.write(percent=output.percent)
        shown: list[Result] = [report]
        if keep is not None:
            written.append(folder.get_address("kept.parquet"))
            shown = _keep_items(report, out, keep, written[-1], engine, output.json, step)
    if worst:
        shown.append(report.worst(worst, where=where))
    for result in shown[:1] if output.json or output.latex or output.csv else shown:
        printing.deliver(result)
    click.echo(f"written: {', '.join(written)}", err=True)
    if report.failed:
        _exit_after_failures(report, folder)


def _print_shards_plan(source: str, metrics: Sequence[str], session: Session) -> None:
    """Print the number of requests that judges would make for shards, without making any."""
    from captious.runs.shards.shard_plan import plan_shards

    with session.working() as step:
        plan = plan_shards(source, metrics, session.reading, step)
    session.deliver(plan)


def _get_shards_folder(source: str, out: str | Path | None) -> str | Path:
    """Return the folder for the scores of shards; raise InputError if it is missing or the name of a file."""
    from captious.render.document import is_file

    if out is None:
        raise InputError(f"{source}: {_explain_shards(source)}, such as out=scores")
    if is_file(out):
        raise InputError(f"{out}: is the name of a file, expected that of a folder for the scores of shards")
    return out


def _keep_items(
    report: Report, out: str | Path, filter: str, ids: str, engine: Engine, json: bool, step: Callable[[str], None]
) -> list[Result]:
    """Write the ids of the items that pass a filter; return the results to print, merged into one for JSON."""
    from captious.runs.keep_items import keep as keep_items

    selection = keep_items(out, filter, out=ids, engine=engine, overwrite=True, progress=step)
    if json:
        return [replace(report.document(), data={**report.data(), "kept": selection.data()})]
    return [report, selection]


def _exit_after_failures(report: Report, folder: Storage) -> NoReturn:
    """Print the shards that failed, and exit with the code for a partial result."""
    from captious.runs.folder import FAILED
    from captious.runs.shards.scoring import format_failures

    failed = format_failures(report.failed, len(report.failed) + len(report.parts))
    where = f"left out and listed in {folder.get_address(FAILED)}"
    click.echo(f"captious: {failed}, {where}; the same command again tries them again", err=True)
    raise click.exceptions.Exit(PARTLY)


def _check_filter(text: str, metrics: Metrics, source: str, reading: Reading) -> None:
    """Raise InputError for a wrong filter before any scoring; a name may be a column of the first shard."""
    from captious.io.shards import expand, read_shard
    from captious.metrics.registry import parse_all
    from captious.runs.filters import FilterSchema, UnknownName, list_run_columns, parse_filter
    from captious.runs.run_tables import make_items_table

    labels = {str(metric): metric.label for metric in parse_all(metrics)}
    texts = {"id": "VARCHAR", "candidates": "VARCHAR[]", "references": "VARCHAR[]", "image": "VARCHAR"}
    types = {**texts, **dict.fromkeys(labels, "DOUBLE")}
    try:
        parse_filter(text, FilterSchema(list_run_columns(types, labels), labels))
    except UnknownName:
        from captious.runs.filters import connect, get_column_types

        captions = read_shard(expand(source, reading.format)[0], reading, images=False).captions
        with connect() as connection:
            connection.register("items", make_items_table(captions, {}, list(labels)))
            types = get_column_types(connection.table("items"))
        parse_filter(text, FilterSchema(list_run_columns(types, labels), labels))


def _explain_shards(source: str) -> str:
    """Explain why a source is scored as shards, and what to do if that was not intended."""
    from captious.io.storage import is_remote

    if is_remote(source):
        return "what is at an address is scored as shards, into a folder: download a single file, or pass out=..."
    if Path(source).is_dir():
        return "is a folder, whose files are scored as shards, into a folder: name one file, or pass out=..."
    return "shards are scored into a folder; pass out=..."
