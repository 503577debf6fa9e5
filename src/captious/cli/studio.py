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
    session: Annotated[Session, Only("references", "images", "missing", "overwrite", "json")],
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
    reading = session.reading
    text = new_plan(
        study,
        kind,
        template,
        captions=captions,
        tasks=tasks,
        references=reading.references,
        images=reading.images,
        ids=ids,
        missing=reading.missing,
        title=title,
    )
    number = len(build_tasks(parse_plan(text, study)))
    with whole_file(study) as draft:
        draft.write_text(text, encoding="utf-8")
    facts = {"file": str(study), "tasks": number}
    line = f"{study}: {number:,} tasks; change it as you like, then: captious studio check {study}"
    typer.echo(json.dumps(facts, indent=2) if session.output.json else line)


@command(app)
def check(study: StudyFile, session: Annotated[Session, Only("json")]) -> None:
    """Everything that is wrong with a study, the raters, time and cost it takes, and which difference it would find.

    Exit code 2 if anything must be mended.
    """
    from captious.studio.check import check_plan
    from captious.studio.plan import read_plan

    with session.working() as step:
        step("checking files, images and power")
        result = check_plan(read_plan(study))
    session.deliver(result)
    if result.errors:
        raise typer.Exit(2)
