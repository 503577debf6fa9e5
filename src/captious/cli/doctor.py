"""``captious doctor``: what is wrong with my files, before any number."""

from __future__ import annotations

import json
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
    from rich.markup import escape

    from captious.io.check import examine
    from captious.io.join import Columns
    from captious.report.terminal import output

    columns = Columns(id_column, candidate_column, references_column)
    findings = examine(predictions, references, images=images, several=several, columns=columns)
    errors = [finding for finding in findings if finding.level == "error"]
    if as_json:
        typer.echo(
            json.dumps([{"level": f.level, "message": f.message} for f in findings], ensure_ascii=False, indent=2)
        )
    else:
        console = output()
        colors = {"error": "red", "warning": "yellow", "note": "cyan"}
        for finding in findings:
            mark = f"[{colors[finding.level]}]{finding.level}[/]"
            console.print(f"{mark}: {escape(finding.message)}", highlight=False, soft_wrap=True)
        if not findings:
            console.print("[green]nothing wrong found[/green]")
    if errors:
        raise typer.Exit(2)
