"""``captious analyse``: what an encoder or a metric can tell apart. One file per command."""

from __future__ import annotations

import typer

from captious.cli.analyse import classification, compositionality, hubness, retrieval

app = typer.Typer(
    help="Encoders and metrics under test: retrieval, hubness, classes, word order.",
    no_args_is_help=True,
)
for _command in (
    retrieval.retrieval,
    hubness.hubness,
    classification.classification,
    compositionality.compositionality,
):
    app.command()(_command)
