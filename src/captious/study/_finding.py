"""What an analysis found, as one value that a terminal, a page and a file of data are made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from captious._files import MARKER, whole_folder
from captious.render.tables import dumps
from captious.report.frame import frame, rows_of
from captious.stats.bootstrap import Estimate


class Grid(NamedTuple):
    """A table: words in the first ``words`` columns, numbers in the others."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1


class Figure(NamedTuple):
    """A picture as SVG, and what it shows."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Finding:
    """An analysis with everything that moves its numbers."""

    title: str
    about: str
    grids: tuple[Grid, ...]
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


def per_cent(value: float) -> str:
    """A share as it is printed.

    >>> per_cent(0.92871), per_cent(float("nan"))
    ('92.87', '—')
    """
    return "—" if value != value else f"{100 * value:.2f}"


def between(estimate: Estimate) -> str:
    """The interval of a share."""
    return "—" if estimate.low != estimate.low else f"{per_cent(estimate.low)} – {per_cent(estimate.high)}"


def plain_name(names: str) -> str:
    """Sources without their folders.

    >>> plain_name("data/swap_obj.json, data/swap_att.json")
    'swap_obj.json, swap_att.json'
    """
    return ", ".join(PurePath(name).name for name in names.split(", "))


def called(encoder: str) -> str:
    """The name in an encoder's mark.

    >>> called("captious-mini#ad1cd87d5ad8")
    'captious-mini'
    """
    return encoder.partition("#")[0]


def marks(encoders: Iterable[str]) -> tuple[str, ...]:
    """Lines for the signatures, one per encoder."""
    return tuple(f"encoder:{encoder}" for encoder in dict.fromkeys(encoders))


WIDTH = 150


def print_finding(finding: Finding) -> None:
    """Its tables, then notes and signatures."""
    from rich.table import Table
    from rich.text import Text

    from captious.render.terminal import output

    console = output()
    if not console.is_terminal:
        console.width = WIDTH
    for grid in finding.grids:
        table = Table(title=Text(grid.title), title_justify="left")
        for place, column in enumerate(grid.columns):
            table.add_column(Text(column), justify="left" if place < grid.words else "right", overflow="fold")
        for row in grid.rows:
            table.add_row(*map(Text, row))
        console.print(table)
    for note in finding.notes:
        console.print(Text(note), soft_wrap=True)
    for line in finding.signatures:
        console.print(Text(line, style="dim"), soft_wrap=True)


def page(finding: Finding) -> str:
    """The HTML text; whatever captions hold reaches it escaped."""
    parts = [f"<h1>{escape(finding.title)}</h1><p>{escape(finding.about)}</p>"]
    for grid in finding.grids:
        parts.append(f"<h2>{escape(grid.title)}</h2>{rows_of(grid.columns, grid.rows, grid.words)}")
    for figure in finding.figures:
        parts.append(f"<figure>{figure.svg}<figcaption>{escape(figure.caption)}</figcaption></figure>")
    if finding.notes:
        parts.append("<h2>Notes</h2><ul>" + "".join(f"<li>{escape(note)}</li>" for note in finding.notes) + "</ul>")
    return frame(finding.title, "".join(parts), " · ".join(finding.signatures))


def data(finding: Finding) -> str:
    """Everything as JSON."""
    summary = {"title": finding.title, **finding.data, "notes": finding.notes, "signatures": finding.signatures}
    return dumps(summary) + "\n"


def save(finding: Finding, folder: str | Path, overwrite: bool = False) -> None:
    """Write ``report.html`` and ``captious-run.json``."""
    with whole_folder(folder, overwrite) as draft:
        (draft / "report.html").write_text(page(finding), encoding="utf-8")
        (draft / MARKER).write_text(data(finding), encoding="utf-8")
