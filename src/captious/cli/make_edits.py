"""``captious make edits``: captions changed on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import click

from captious._core.files import refuse_existing
from captious.cli.params import Only
from captious.cli.session import EditNames, Look, ObjectVocabulary, Session, deliver
from captious.errors import InputError
from captious.options import Argument, Option


def edits(
    captions: Annotated[str, Argument("Captions by id, in the formats of captious score; '-' for standard input.")],
    session: Annotated[
        Session,
        Only(
            *("references", "missing", "several", "format", "id_column", "references_id_column", "candidate_column"),
            "unpack_limit",
            *("references_column", "out", "overwrite", "json", "seed"),
        ),
    ],
    edits: EditNames = ("all",),
    copies: Annotated[int, Option("Edited captions of each kind, for each caption.", min=1, max=1000)] = 1,
    look: Look = 0,
    vocabulary: ObjectVocabulary = "coco-repaired",
) -> None:
    """Change captions on purpose: wrong, damaged, harmless or padded, each with what was changed.

    Inserted objects are absent from the image according to its references and the column objects.

    The name of a group means all its edits, and a TOML file contains your own; captious probe stress --list prints
    the names.

    Example: captious make edits preds.jsonl -r refs.json --edits inject,negate --out edited.jsonl
    """
    from captious.edits.edit_table import edit_captions, find_edits

    output = session.output
    wanted = find_edits(edits)
    if output.out is None and not look and not output.json:
        raise InputError("nothing to do with the edits: expected --out FILE, --look NUMBER or --json")
    refuse_existing(output.out, output.overwrite)
    # --out is a file of captions here and not the report that `working` and `deliver` expect, so both get no output.
    with replace(session, output=replace(output, out=None)).working() as step:
        texts = session.read_and_warn(captions)
        step("editing")
        result = edit_captions(
            texts, wanted, seed=session.resampling.seed, copies=copies, vocabulary=vocabulary, look=look
        )
        if output.out is not None:
            step("writing")
            result.save_lines(output.out)
    deliver(result, replace(output, out=None))
    if output.out is not None:
        click.echo(f"written: {output.out}", err=True)
