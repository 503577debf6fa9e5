"""What every result inherits: it describes itself as a document, and the writers do the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captious._files import MARKER, whole_folder

if TYPE_CHECKING:
    from rich.console import Console

    from captious.render.document import Document


class Result(ABC):
    """A result that shows itself as a ``Document``.

    A dataclass that inherits from it is declared with ``repr=False`` and defines a ``__repr__`` of one line.
    """

    @abstractmethod
    def document(self) -> Document:
        """Everything the result shows."""

    def write_files(self, folder: Path) -> None:  # noqa: B027 - most results have nothing more to write
        """Write what the document does not hold, such as values per item, into a run's folder."""

    def __str__(self) -> str:
        from captious.render.terminal import plain_text

        return plain_text(self.document())

    def _repr_html_(self) -> str:
        from captious.render.html import notebook

        return notebook(self.document())

    def print(self, console: Console | None = None) -> None:
        """Show the result on the terminal."""
        from captious.render.terminal import print_document

        print_document(self.document(), console)

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write a folder whole: the page, LaTeX, text, a CSV file per table, and ``captious-run.json``."""
        from captious.render import html, latex, tables, terminal

        document = self.document()
        with whole_folder(path, overwrite) as folder:
            self.write_files(folder)
            for key, table in document.tables.items():
                tables.write_csv(table, folder / f"{key}.csv")
            texts = {
                f"{document.name}.html": html.page(document),
                f"{document.name}.tex": latex.document(document),
                f"{document.name}.txt": terminal.plain_text(document, width=terminal.WIDE) + "\n",
                MARKER: tables.to_json(document),
            }
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8", errors="replace")

    def to_latex(self) -> str:
        """The tables for a paper."""
        from captious.render import latex

        return latex.document(self.document())

    def to_pandas(self, table: str | None = None) -> Any:
        """A table as a data frame: the first, or the one of this key."""
        from captious.render.tables import to_pandas

        return to_pandas(self.document().table(table))

    def to_json(self) -> str:
        """The data of the document as JSON text."""
        from captious.render.tables import to_json

        return to_json(self.document())
