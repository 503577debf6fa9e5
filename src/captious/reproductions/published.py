"""Entries of the registry: the files that a paper released, the numbers that it printed, and how to compute them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from captious._core.records import parse_record, parse_toml, read_text, rule
from captious.errors import InputError, format_suggestion
from captious.render import Document, Result, Table, Text
from captious.render.document import Value

FOLDER = Path(__file__).parent / "entries"
Kind = Literal["score", "study", "lic", "count"]


@dataclass(frozen=True)
class PublishedRow:
    """One line of a published table with the printed numbers."""

    name: str = field(metadata=rule("what the paper calls it"))
    published: dict[str, float] = field(metadata=rule("a table of columns and printed numbers"))
    file: str | tuple[str, ...] = field(default=(), metadata=rule("a file, or a list of files of which one is enough"))
    """Captions of a system. ``FILE#key#key`` is a part of a JSON file."""
    metric: str = ""
    """The metric of a study: as captious writes it, or a column of the file of scores."""
    sd: dict[str, float] = field(default_factory=dict)
    """Printed standard deviations; a number within two of them is reproduced."""
    within: float | None = None
    """Largest difference of a reproduced number; by default half a unit of the last digit."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The known reason why a number is not reproduced, by column."""
    origin: str = ""
    """The source of the printed numbers, if it is not the paper."""


@dataclass(frozen=True)
class PublishedTable:
    """A published table and how its numbers are computed."""

    title: str = field(metadata=rule("the table and the data"))
    columns: dict[str, str] = field(metadata=rule("a table of names and metrics or statistics"))
    rows: tuple[PublishedRow, ...] = field(metadata=rule("a table for each line, [[tables.rows]]"))
    kind: Kind = "score"
    """``score``: columns are metrics of captions. ``study``: columns are statistics of agreement with people. ``lic``:
    columns are lic_m, lic_d and lic. ``count``: items of a file."""
    scale: float = 100.0
    """Printed numbers are values times this."""
    decimals: int = field(default=1, metadata=rule(low=0, high=12))
    """Printed decimals."""
    within: float | None = None
    references: str | tuple[str, ...] = field(default=(), metadata=rule("a file, or a list of which one is enough"))
    reading: dict[str, Any] = field(default_factory=dict)
    """Names of columns, as options of ``captious score`` in Python."""
    objects: str | tuple[str, ...] = field(default=(), metadata=rule("a file, or a list of which one is enough"))
    """Objects of images for CHAIR; ``{objects}`` in a metric is their table."""
    ratings: str = ""
    """A recipe of ``captious study``, or a file of ratings."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of ``captious study run`` in Python."""
    scores: str | tuple[str, ...] = field(default=(), metadata=rule("a file, or a list of which one is enough"))
    preset: str = ""
    """Preset of ``captious bias lic``."""
    classifier: str = "linear"
    vocabulary: str = ""
    """File of words for each captioner, such as ``vocabulary/{model}.txt``."""
    gpu: bool = False
    """Whether a CPU would take days."""

    def __post_init__(self) -> None:
        for row in self.rows:
            unknown = [name for name in (*row.published, *row.sd, *row.reasons) if name not in self.columns]
            if unknown:
                known = ", ".join(self.columns)
                hint = format_suggestion(unknown[0], self.columns)
                raise InputError(f"{self.title}: {row.name}: no column {unknown[0]!r}, columns: {known}{hint}")


@dataclass(frozen=True)
class PublishedEntry:
    """A paper whose outputs were released, and what it printed of them."""

    name: str
    title: str = field(metadata=rule("a line of text"))
    tables: tuple[PublishedTable, ...] = field(metadata=rule("a table for each, that is a line [[tables]]"))
    citation: str = ""
    source: str = ""
    """The source of the files."""
    notes: tuple[str, ...] = field(default=(), metadata=rule("a list of lines"))

    @property
    def numbers(self) -> int:
        """The number of printed numbers."""
        return sum(len(row.published) for table in self.tables for row in table.rows)


@dataclass(frozen=True)
class PublishedCell:
    """One printed number and the computed one."""

    table: str
    row: str
    column: str
    published: float
    computed: float | None
    """None if it could not be run."""
    within: float
    """Largest difference of a reproduced number."""
    decimals: int
    reason: str = ""
    """The reason why the number is missed, or was not computed."""
    items: int | None = None
    """The number of captions or ratings that it was computed from."""
    left_out: int = 0
    """The number of items of the references without a caption of the system."""
    origin: str = ""
    """The source of the printed number, if it is not the paper."""

    @property
    def difference(self) -> float | None:
        """The computed number less the printed one."""
        return None if self.computed is None else self.computed - self.published

    @property
    def verdict(self) -> Literal["reproduced", "missed", "not run"]:
        """Whether the printed number follows from the computed one."""
        if self.difference is None:
            return "not run"
        return "reproduced" if abs(self.difference) <= self.within else "missed"

    def describe_items(self) -> str:
        """Return the number of items, and of how many if some are left out.

        >>> PublishedCell("T", "ours", "BLEU", 1.0, 1.0, 0.1, 1, items=4982, left_out=18).describe_items()
        '4,982 of 5,000'
        """
        if self.items is None:
            return ""
        return f"{self.items:,} of {self.items + self.left_out:,}" if self.left_out else f"{self.items:,}"


def read_entry(path: Path) -> PublishedEntry:
    """Read an entry from a TOML file."""
    table = parse_toml(read_text(path, "reproduction entry"), str(path), "reproduction entry")
    return parse_record(PublishedEntry, {"name": path.stem, **table}, str(path))


def list_entries() -> Mapping[str, PublishedEntry]:
    """Return the built-in entries by name."""
    return {path.stem: read_entry(path) for path in sorted(FOLDER.glob("*.toml"))}


def find_entry(name: str) -> PublishedEntry:
    """Find a built-in entry, or read one from a TOML file."""
    if name.endswith(".toml"):
        return read_entry(Path(name))
    path = FOLDER / f"{name}.toml"
    if not re.fullmatch(r"[\w-]+", name) or not path.is_file():
        names = sorted(one.stem for one in FOLDER.glob("*.toml"))
        raise InputError(
            f"{name[:60]!r}: no such entry, expected one of {', '.join(names)}, or a TOML file"
            f"{format_suggestion(name, names)}"
        )
    return read_entry(path)


@dataclass(frozen=True, repr=False)
class EntryCatalog(Result):
    """The papers that can be reproduced."""

    entries: Mapping[str, PublishedEntry]

    def __repr__(self) -> str:
        return f"EntryCatalog({', '.join(self.entries)})"

    def document(self) -> Document:
        """Build the list of entries: what they have, and where to get the files."""
        rows: list[list[Value]] = [[one.name, one.title, one.numbers] for one in self.entries.values()]
        overview = Table("entries", "Released outputs with published numbers", ["name", "what", "numbers"], rows)
        details = [
            Text([one.title, f"source: {one.source}", one.citation, *one.notes], name, bullets=True)
            for name, one in self.entries.items()
        ]
        return Document(overview.title, "", [overview, *details], data=self.entries, name="entries")
