"""``captious make graphs``: scene graphs of captions (SPICE)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import click

from captious._core.files import refuse_existing
from captious.cli.params import Only
from captious.cli.session import Session
from captious.options import Argument, Option


def graphs(
    captions: Annotated[str, Argument("Captions by id, in the formats of captious score; '-' for standard input.")],
    session: Annotated[
        Session,
        Only(
            *("references", "missing", "several", "format", "unpack_limit"),
            *("id_column", "references_id_column", "candidate_column", "references_column"),
            *("out", "overwrite", "json", "cache"),
        ),
    ],
    parser: Annotated[str, Option("spaCy model that parses: name or folder.", metavar="MODEL")] = "en_core_web_sm",
) -> None:
    """Parse captions into scene graphs: objects, attributes, relations. With references, show what SPICE matches.

    The first captions are printed. --out graphs.jsonl has the tuples of all; --out FOLDER also has a page of drawings.

    Example: captious make graphs preds.json --out graphs.jsonl
    Example: captious make graphs preds.json --references refs.json --out graphs/
    """
    from captious.metrics.spice.listing import build_scene_graphs

    output = session.output
    tuples_file = output.out if output.out is not None and Path(output.out).suffix.lower() == ".jsonl" else None
    if tuples_file is not None:
        # Written below; only a folder is left to `deliver`.
        refuse_existing(tuples_file, output.overwrite)
        session = replace(session, output=replace(output, out=None))
    with session.working() as step:
        result = build_scene_graphs(session.read_and_warn(captions), parser, step)
        if tuples_file is not None:
            step("writing")
            result.save_lines(tuples_file)
    session.deliver(result)
    if tuples_file is not None:
        click.echo(f"written: {tuples_file}", err=True)
