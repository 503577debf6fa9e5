"""``captious studio``: collect people's judgments of captions, and explore captions and scores."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from captious.cli.params import Only, command
from captious.cli.session import Host, HumanRatings, Out, Port, Runs, Session
from captious.options import Argument, Option
from captious.studio.plan import KindName

app = typer.Typer(help="Collect people's judgments of captions on pages of your own.", no_args_is_help=True)
StudyFile = Annotated[Path, Argument("The study: a TOML file, as captious studio new writes it.", metavar="STUDY")]


@command(app)
def new(
    study: StudyFile,
    session: Annotated[Session, Only("references", "images", "overwrite", "json")],
    kind: Annotated[KindName | None, Option("Kind of task.")] = None,
    template: Annotated[
        str | None,
        Option(
            "Protocol of a paper: capeval1k, imagine-entities, imagine-likert, onlystyle-ranking, relic-age, thumb.",
            metavar="NAME",
        ),
    ] = None,
    captions: Annotated[
        tuple[str, ...], Option("Files of captions, each a system; NAME=FILE names it.", metavar="FILES", words=True)
    ] = (),
    tasks: Annotated[
        str | None, Option("File of ready tasks instead of captions: entities, sets, images.", metavar="FILE")
    ] = None,
    ids: Annotated[str | None, Option("File of the ids to ask about, one a line.", metavar="FILE")] = None,
    title: Annotated[str | None, Option("Title of the study.", metavar="TEXT")] = None,
) -> None:
    """Write a study that you can read and change: a TOML file with comments.

    Example: captious studio new study.toml --kind ratings --captions preds/*.jsonl --images photos/
    Example: captious studio new study.toml --template relic-age --images photos/
    """
    from captious._files import refuse_existing, whole_file
    from captious.studio.new import new_plan
    from captious.studio.plan import parse_plan
    from captious.studio.tasks import build_tasks

    refuse_existing(study, session.output.overwrite)
    files = {"references": session.reading.references, "images": session.reading.images, "tasks": tasks, "ids": ids}
    text = new_plan(study, kind, template, captions=captions, title=title, **files)
    mistakes: list[str] = []
    number = len(build_tasks(parse_plan(text, study), mistakes.append))
    with whole_file(study) as draft:
        draft.write_text(text, encoding="utf-8")
    if session.output.json:
        typer.echo(json.dumps({"file": str(study), "tasks": number, "mistakes": mistakes}, indent=2))
        return
    typer.echo(f"{study}: {number:,} tasks; change it as you like, then: captious studio check {study}")
    for mistake in mistakes:
        typer.echo(f"to be mended: {mistake}", err=True)


@command(app)
def explore(
    runs: Runs,
    session: Annotated[Session, Only("images")],
    ratings: HumanRatings = None,
    host: Host = "127.0.0.1",
    port: Port = 0,
) -> None:
    """Look at the items of runs in a browser: all of them, joined by id, with what people said.

    Example: captious studio explore run1/ run2/ --ratings export/ratings.jsonl --images photos/
    """
    from captious.studio.explore.server import ExplorerServer

    server = ExplorerServer.of(_run_folders(runs), ratings, session.reading.images, host, port)
    typer.echo(f"Open {server.link}")
    typer.echo("Ctrl-C ends it.", err=True)
    server.run()


@command(app, "export-site")
def export_site(
    runs: Runs,
    out: Out,
    session: Annotated[Session, Only("images", "overwrite")],
    ratings: HumanRatings = None,
) -> None:
    """Write the explorer of runs as a folder that any web server can show, up to 20,000 items.

    Example: captious studio export-site run1/ --out site/
    """
    from captious._files import refuse_occupied
    from captious.render.progress import display
    from captious.render.terminal import warn
    from captious.studio.explore.site import export_site as write
    from captious.studio.explore.table import join

    refuse_occupied(out, session.output.overwrite)
    images = session.reading.images
    with display() as shown:
        table = join(_run_folders(runs), ratings, images)
        unreadable = write(table, out, session.output.overwrite, images, partial(shown.advance, "images"))
    number = f"{unreadable} image{'s' * (unreadable != 1)} could not be read"
    warn([*table.warnings, *([number] if unreadable else [])])
    typer.echo(f"written: {out / 'index.html'}", err=True)


def _run_folders(runs: tuple[str, ...]) -> dict[str, str] | list[str]:
    """Folders by the name that they were given; where none has a name, the folders alone."""
    if all("=" not in run or Path(run).exists() for run in runs):
        return list(runs)
    from captious.io.formats import named_files

    return named_files(runs)
