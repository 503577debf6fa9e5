"""``captious doctor``: what is wrong with my files, before any number."""

from __future__ import annotations

from typing import Annotated

import typer

from captious.cli import options as o


def doctor(
    predictions: Annotated[str, typer.Argument(help="Candidate captions; '-' for standard input.")],
    references: o.References = None,
    images: o.Images = None,
    several: o.Several = False,
    as_json: o.AsJson = False,
    id_column: o.IdColumn = None,
    candidate_column: o.CandidateColumn = None,
    references_column: o.ReferencesColumn = None,
) -> None:
    """Examine files of captions and say everything that is wrong with them. Exit code 2 if anything must be mended."""
    from captious.cli.params import deliver
    from captious.io.check import check
    from captious.options import Output, Reading

    reading = Reading(
        references,
        images,
        several=several,
        id_column=id_column,
        candidate_column=candidate_column,
        references_column=references_column,
    )
    result = check(predictions, reading=reading)
    deliver(result, Output(json=as_json))
    if result.errors:
        raise typer.Exit(2)
