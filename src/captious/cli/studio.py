"""``captious studio``: collect what people say of captions, and go on with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captious.cli.params import Only, command
from captious.cli.session import Out, Session
from captious.options import Argument, Option

if TYPE_CHECKING:
    from captious.studio.log import Log

app = typer.Typer(help="Ask people: rating studies from one file, and what came of them.", no_args_is_help=True)

StudyFile = Annotated[Path, Argument("The study, a TOML file.", metavar="STUDY.TOML")]
Database = Annotated[
    str | None,
    Option(
        "Database of the answers: a file, or postgresql://…; STUDY.db, if not given.",
        metavar="URL",
        env="CAPTIOUS_STUDIO_DB",
    ),
]


@command(app)
def export(
    study: StudyFile,
    out: Out,
    session: Annotated[Session, Only("overwrite", "json")],
    db: Database = None,
) -> None:
    """Write the answers as files that study, style, probe recall and bias read; the log and the raters too.

    Answers of excluded raters are left out and counted. Late answers are there and marked.

    Example: captious studio export study.toml --out export/ && captious study run export/ratings.jsonl
    """
    from captious.studio.export import export_study

    with session.working() as step, _opened(study, db) as log:
        step("exporting")
        result = export_study(log, out, session.output.overwrite)
    session.deliver(result)


@contextmanager
def _opened(study: Path, db: str | None) -> Iterator[Log]:
    """The log of a study that has begun, closed at the end."""
    from captious.studio.log import open_log
    from captious.studio.plan import read_plan

    with closing(open_log(read_plan(study), db)) as log:
        yield log
