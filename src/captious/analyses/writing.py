"""A finding as one self-contained page, and as a folder with page and data, written whole."""

from __future__ import annotations

from html import escape
from pathlib import Path

from captious.analyses.finding import Finding
from captious.files import MARKER, whole_folder
from captious.report.frame import frame, rows_of
from captious.report.run import dumped
from captious.study.summary import plain


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
    return dumped(plain(summary))


def save(finding: Finding, folder: str | Path, overwrite: bool = False) -> None:
    """Write ``report.html`` and ``captious-run.json``."""
    with whole_folder(folder, overwrite) as draft:
        (draft / "report.html").write_text(page(finding), encoding="utf-8")
        (draft / MARKER).write_text(data(finding), encoding="utf-8")
