"""``captious reproduce``: published numbers computed again from released outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from captious.cli.params import Only
from captious.cli.session import Session
from captious.errors import InputError
from captious.options import Argument, Option


def reproduce(
    session: Annotated[Session, Only("device", "out", "overwrite", "json", "latex", "csv")],
    entry: Annotated[
        str | None, Argument("Name of a paper, or an entry of your own in TOML; without it, a list.")
    ] = None,
    data: Annotated[Path | None, Option("Folder of the released files.", metavar="FOLDER")] = None,
    only: Annotated[str, Option("Only tables or rows with this in their name.", metavar="WORD")] = "",
    slow: Annotated[bool, Option("Run tables that need a GPU on a CPU too, which takes days.", rare=True)] = False,
) -> None:
    """Score a paper's released outputs: published numbers, computed ones, and why they differ. Exit code 1 on a miss.

    Example: captious reproduce
    Example: captious reproduce magic --data MAGIC/image_captioning/inference_result
    Example: captious reproduce my-paper.toml --data outputs/
    """
    from captious.reproductions import EntryCatalog, find_entry, list_entries
    from captious.reproductions.comparison import reproduce as compute

    if entry is None:
        if data is not None or only:
            raise InputError("data=... and only=... are for one entry; name it, or pass nothing for the list")
        hint = "captious reproduce NAME --data FOLDER scores the files of one"
        with session.working():
            document = EntryCatalog(list_entries()).document()
        session.deliver_short(document, 1, hint)
        return
    paper = find_entry(entry)
    if data is None:
        advice = f"; get them from: {paper.source}" if paper.source else ""
        raise InputError(f"{paper.name}: name the folder of its files with data=...{advice}")
    with session.working() as step:
        result = compute(paper, data, only=only, slow=slow, progress=step)
    session.deliver(result)
    raise click.exceptions.Exit(result.exit_code)
