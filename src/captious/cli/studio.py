"""``captious studio``: collect people's judgments of captions, and explore captions and scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from captious.cli.params import Only, command
from captious.cli.session import Session
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
