"""``captious studio``: collect people's judgments of captions, and explore captions and scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from captious.cli.params import Only, command
from captious.cli.session import Session
from captious.errors import InputError
from captious.options import Argument, Option
from captious.studio.plan import KindName

app = typer.Typer(help="Collect people's judgments of captions on pages of your own.", no_args_is_help=True)
Database = Annotated[
    str | None,
    Option("Where the answers are: a file, or postgresql://…; STUDY.db, if not given.", env="CAPTIOUS_STUDIO_DB"),
]
Raters = Annotated[int, Option("Number of raters.", min=1, max=100_000)]
PublicUrl = Annotated[str | None, Option("Address of the study for people, if not this machine's.", metavar="URL")]
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
def serve(
    study: StudyFile,
    db: Database = None,
    host: Annotated[str, Option("Address to listen on; 0.0.0.0 for all.", metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[int, Option("Port to listen on; 0 for a free one.", min=0, max=65_535)] = 8765,
    public_url: PublicUrl = None,
    owner_token_file: Annotated[
        Path | None, Option("File of the owner's token, else a new one.", metavar="FILE")
    ] = None,
) -> None:
    """Serve a study: pages for raters, and a page for you that only your link opens. Ctrl-C stops it; nothing is lost.

    The first time, the study and its tasks are frozen in the database; the files are not read again afterwards.

    Example: captious studio serve study.toml
    Example: captious studio serve study.toml --db postgresql://studio@db/study --public-url https://rate.example.org
    """
    from captious.studio.server import StudyServer, open_study

    plan, log = open_study(study, db)
    server = StudyServer.of(plan, log, host, port, public_url, owner_token_file)
    typer.echo(f"{plan.title}\n  owner    {server.owner_link}")
    invited = f"captious studio invite {study} --raters 20 --public-url {server.address} > links.csv"
    typer.echo(f"  raters   {server.rater_link or invited}\n  answers  {log.name}\nCtrl-C stops the server.")
    server.run()
    typer.echo("stopped; every answer that was confirmed is stored", err=True)


@command(app)
def invite(
    study: StudyFile,
    db: Database = None,
    raters: Raters = 10,
    public_url: PublicUrl = None,
) -> None:
    """Make a personal link for each of some new raters, as CSV. A link is printed once and stored nowhere.

    Example: captious studio invite study.toml --raters 20 > links.csv
    """
    from captious.studio.access import Rules
    from captious.studio.server import HOST, PORT, open_study
    from captious.studio.server import invite as new_links

    Rules.of_server(HOST, public_url)  # refuses what is no address
    plan, log = open_study(study, db)
    if plan.source.name != "links":
        raise InputError(f"{study}: raters come by source = {plan.source.name!r}, expected 'links' for personal links")
    links = new_links(log, raters, (public_url or f"http://{HOST}:{PORT}").rstrip("/"))
    log.close()
    typer.echo("rater,link\n" + "\n".join(f"{rater},{link}" for rater, link in links))
