"""What the commands of ``captious analyse`` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from captious.captions import CaptionSet
    from captious.probes.finding import Finding
    from captious.probes.vectors import Pictured

Encoders = Annotated[
    str,
    typer.Option("--encoder", "-e", help="Hub id, folder, checkpoint file or captious-mini; several with commas."),
]
Prefix = Annotated[str, typer.Option("--prefix", help="Words before every text, such as 'A photo depicts '.")]
DEFAULT = "openai/clip-vit-base-patch32"


def names(text: str) -> list[str]:
    """The parts of a list with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def deliver(finding: Finding, out: Path | None, overwrite: bool, as_json: bool) -> None:
    """Write a finding where that is wanted, and print it."""
    from captious.probes.finding import data, print_finding, save

    if out is not None:
        save(finding, out, overwrite)
    if as_json:
        typer.echo(data(finding), nl=False)
    else:
        print_finding(finding)
    if out is not None:
        typer.echo(f"written: {out / 'report.html'}", err=True)


def spaces(
    captions: CaptionSet, encoders: str, prefix: str, step: Callable[[str], None]
) -> tuple[list[Pictured], list[str]]:
    """The images and captions in the space of each encoder, and what a reader should know."""
    from captious.models import load as loading
    from captious.probes.vectors import embed

    found, notes = [], []
    for name in names(encoders):
        step(name)
        space = embed(captions, loading.load(name), prefix)
        found.append(space)
        notes += [f"{space.encoder}: left out: {number:,} ({reason})" for reason, number in space.dropped.items()]
        if space.cut:
            notes.append(f"{space.encoder}: {space.cut:,} captions are longer than the encoder reads")
    return found, notes
