"""The data model of what a result shows: a document of sections, which each output format renders in its own way.

Cells keep numbers. The terminal and the page round them, LaTeX marks the best; CSV, Parquet and JSON keep all digits.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from captious._core.files import OUTPUT, refuse_existing, refuse_occupied, whole_folder, write_atomically
from captious._core.types import Floats
from captious.errors import InputError, format_suggestion, require

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console

NAN = float("nan")
Tone: TypeAlias = Literal["", "good", "bad", "unsure", "strong", "struck", "quiet"]
ChartKind: TypeAlias = Literal["intervals", "lines", "bars", "dots", "scatter", "histogram"]


class Span(NamedTuple):
    """A piece of text with a tone; ``weight`` from 0 to 1 is how strongly a good or bad tone is drawn.

    ``href`` makes it a link on the page: ``#fragment``, or a path relative to the page. Other addresses are dropped.
    """

    text: str
    tone: Tone = ""
    weight: float = 1.0
    href: str = ""


@dataclass(frozen=True)
class Phrase:
    """Text of several spans; allowed wherever a document takes text for readers."""

    spans: tuple[Span, ...]

    @classmethod
    def of(cls, *parts: str | Span) -> Phrase:
        """Make a phrase of plain strings and spans.

        >>> str(Phrase.of("a ", Span("red", "bad"), " car"))
        'a red car'
        """
        return cls(tuple(Span(part) if isinstance(part, str) else part for part in parts))

    def __str__(self) -> str:
        return "".join(span.text for span in self.spans)


def link(text: str, href: str) -> Phrase:
    """Make a text that links to another part of the page."""
    return Phrase((Span(text, href=href),))


def open_evidence(key: str) -> str:
    """Return the address that opens the ``Evidence`` with this key, for the ``href`` of a span, a cell or a dot."""
    return f"#open={quote(key)}"


def is_local(href: str) -> bool:
    """Return True if a link stays in the page or its folder."""
    return bool(href) and (href.startswith("#") or re.fullmatch(r"(?!/)[^:\\?#]*", href) is not None)


def name_several(names: Sequence[str]) -> str:
    """Name the last of several metrics, which most tables end with, and the number of the others.

    >>> name_several(["CIDEr-D"]), name_several(["ROUGE-L", "CIDEr-D"]), name_several(["BLEU-4", "ROUGE-L", "CIDEr-D"])
    ('CIDEr-D', 'ROUGE-L and CIDEr-D', 'CIDEr-D and 2 more')
    """
    return f"{names[-1]} and {len(names) - 1} more" if len(names) > 2 else " and ".join(names)


class HasInterval(Protocol):
    """A value with an interval, such as the estimates of ``captious.stats``."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


class HasPicture(Protocol):
    """An image in memory, such as those of ``captious.captions``."""

    def picture(self) -> Image: ...


@dataclass(frozen=True)
class Cell:
    """A number with its interval or its standard deviation; NaN if there is none."""

    value: float
    low: float = NAN
    high: float = NAN
    sd: float = NAN
    mark: str = ""
    """A sign after the value, such as † or *; the table's note says what it means."""
    limits: tuple[float, float] | None = None
    """Ends of the bar that the page draws; by default those of the column."""
    note: str = ""
    """A text that the page shows when the reader points at the cell."""
    decimals: int | None = None
    """The decimals, in place of the column's."""
    scale: float | None = None
    """The factor, in place of the column's, even if scores are shown × 100: 1 for a count among scores."""
    href: str = ""
    """Makes the value a link on the page, as that of a ``Span``."""

    @classmethod
    def of(cls, estimate: HasInterval, mark: str = "") -> Cell:
        """Make the cell of an estimate."""
        return cls(estimate.value, estimate.low, estimate.high, mark=mark)


Value: TypeAlias = str | Phrase | int | float | bool | Cell | None


@dataclass(frozen=True)
class Column:
    """Format of a column's cells. Numbers in files are neither scaled nor rounded."""

    name: str
    kind: Literal["text", "number", "p"] = "number"
    """A column of p-values prints ``< 0.001`` for the small ones."""
    decimals: int | None = 4
    """The decimals of a float; None prints as many as it needs. Integers are printed as they are."""
    scale: float = 1.0
    """The shown number is multiplied by this, 100 for shares in percent."""
    percent: int | None = None
    """Decimals if scores are shown × 100; None for a column without scores."""
    unit: str = ""
    """The unit after every number, such as ``%``."""
    signed: bool = False
    """Positive numbers get a plus sign."""
    higher_is_better: bool | None = None
    """If it is set, the best value of the column is marked."""
    spread: Literal["interval", "half"] = "interval"
    """An interval is printed in a column of its own, or as ± half of its width after the value."""
    level: float | None = None
    """Confidence level, for the heading of the intervals."""
    bold: bool = False
    bar: bool = False
    """The page draws each value, and its interval, as a bar."""
    fault: bool = False
    """Whether its values count faults: the bars have the color of what is wrong."""
    key: str = ""
    """Name in CSV, Parquet, JSON and pandas; without it the name in lower case, with underscores."""
    latex: str | None = ""
    """Heading in LaTeX, in its own markup; without it the name. None leaves the column out of LaTeX."""
    href: str = ""
    """Makes the heading a link on the page, as that of a ``Span``."""

    @property
    def heading(self) -> str:
        """Heading of the intervals."""
        return "interval" if self.level is None else f"{100 * self.level:.4g}% interval"


@dataclass(frozen=True)
class Figure:
    """A number in the plain answer, printed with the digits of its column in a table, also if scores are × 100."""

    value: float | Cell | HasInterval
    column: Column
    interval: bool = True
    """Whether the interval is printed after the number, if there is one."""

    def __str__(self) -> str:
        from captious.render._cells import format_figure

        return format_figure(self)


Answer: TypeAlias = str | Sequence[str | Figure]


@dataclass(frozen=True)
class Text:
    """Paragraphs, or bullets."""

    paragraphs: Sequence[str | Phrase]
    title: str = ""
    bullets: bool = False
    detail: bool = False
    """Whether it is shown on the page only; the terminal and the notebook leave it out."""


@dataclass(frozen=True)
class Table:
    """Columns and rows of values. A column given as a string is a column of text with that name."""

    key: str
    """Name of its file and of its entry in JSON."""
    title: str
    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Value]]
    note: str = ""
    breaks: Sequence[int] = ()
    """Indices of rows that begin a new group; a line is drawn above them."""
    detail: bool = False
    """Whether it is shown on the page and in files only; the terminal, the notebook and LaTeX leave it out."""
    turned: bool = False
    """The page shows each row as a column, in the colors of the items' systems. Rows have one name each."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.key!r}: a row of {len(row)} cells under {len(self.columns)} columns")

    @property
    def heads(self) -> tuple[Column, ...]:
        """The columns; a name becomes a column of text."""
        return tuple(Column(one, "text") if isinstance(one, str) else one for one in self.columns)

    @property
    def labels(self) -> int:
        """Number of leading text columns, which name the row; at least one."""
        numbers = [index for index, column in enumerate(self.heads) if column.kind != "text"]
        return max(1, numbers[0] if numbers else 1)

    def cut_after(self, shown: int, what: str) -> list[Table]:
        """Return the first ``shown`` rows with a note on how many are left out, and all rows as a detail ``all_key``.

        A table with at most ``shown`` rows is returned unchanged. ``what`` is the noun for rows, such as raters.
        """
        left = len(self.rows) - shown
        if left <= 0:
            return [self]
        note = "; ".join(filter(None, (self.note, f"{left:,} more {what} are in the files and in JSON")))
        return [replace(self, rows=self.rows[:shown], note=note), replace(self, key=f"all_{self.key}", detail=True)]


@dataclass(frozen=True)
class Series:
    """Values of one color in a chart; ``x`` are names of rows or ticks, or numbers."""

    name: str
    x: Sequence[str] | Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    hollow: Sequence[bool] = ()
    """Points drawn as rings, such as those that are not significant."""
    labels: Sequence[str] = ()
    """Texts that are shown when the reader points at a dot."""
    names: Sequence[str] = ()
    """Texts next to the dots of a scatter chart, or marks, such as †, of the values of intervals."""
    hrefs: Sequence[str] = ()
    """Links of the dots of lines and scatter charts, as that of a ``Span``."""


@dataclass(frozen=True)
class Chart:
    """A small chart.

    ``intervals``: a row per value with its interval (a forest plot). ``dots``: a row per name with a dot per value and
    a bar at the mean of each series; where the series have intervals, a dot with its interval for each of them.
    ``bars``: a row per value. ``lines``: over named ticks or numbers, with whiskers where there are intervals.
    ``scatter``: a dot per pair, and the mean of y in steps of x. ``histogram``: a bar per bin; ``x`` are the edges of
    the bins, one more than values.
    """

    kind: ChartKind
    series: Sequence[Series]
    title: str = ""
    note: str = ""
    x: str = ""
    """Title of the horizontal axis."""
    y: str = ""
    reference: float | None = None
    """A dashed line, such as chance or no difference."""
    reference_name: str = ""
    bounds: Sequence[float] = ()
    """Further dashed lines of a chart of rows, without names, such as the ends of what counts as equal."""
    decimals: int = 1
    bands: Sequence[int] = ()
    """A number per row of a chart of rows; rows of equal number share a shade."""
    trend: bool = True
    """Whether a scatter chart draws the mean of y in steps of x. Without it the dots are few: large, and unshifted."""
    hrefs: Mapping[str, str] = field(default_factory=dict)
    """Links of the rows of a chart of rows, by name: of the name and of its dots or bar."""


class ItemMetric(NamedTuple):
    """A metric whose values the explorer shows."""

    key: str
    label: str
    higher_is_better: bool = True
    range: tuple[float, float] = (0.0, math.inf)
    percent: bool = False
    """Whether its values are shown × 100 if scores are."""
    explained: bool = False
    """Whether the items' ``explain`` explains its values."""


class Statement(NamedTuple):
    """A tuple of a scene graph: (object,), (object, attribute) or (subject, relation, object)."""

    parts: tuple[str, ...]
    matched: bool | None = None
    """Whether the other graph has the same tuple; None without a comparison."""


@dataclass(frozen=True)
class Graph:
    """A scene graph: objects as nodes, attributes as chips, relations as arrows. On the page and in notebooks.

    An object is identified by its words: tuples that begin or end with the same words are about one object.
    """

    statements: Sequence[Statement]
    missed: Sequence[tuple[str, ...]] = ()
    """Tuples that only the other graph has; they are listed, not drawn."""
    title: str = ""
    replaces: str = ""
    """Key of the table with the same content for terminals and files; the page and the notebook leave it out."""


@dataclass(frozen=True)
class Items:
    """Items to explore on the page: searched, sorted by a metric, drawn in charts. Texts are only read by index."""

    ids: Sequence[str]
    metrics: Sequence[ItemMetric]
    systems: Sequence[str]
    values: Sequence[Sequence[Floats]]
    """One value per item, by system and metric; NaN if there is none."""
    texts: Sequence[Sequence[Sequence[str]]]
    """The candidate texts by system and item."""
    references: Sequence[Sequence[str]] = ()
    """The references by item."""
    reasons: Sequence[Sequence[Mapping[str, str]]] = ()
    """The reasons why items have no value, by system, metric and id."""
    images: Sequence[str | HasPicture | None] = ()
    """The path of each item's image, or the image itself."""
    fields: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Additional columns, by name and item."""
    limit: int = 5000
    """Texts and images of at most this number of items are on the page: the worst, the best, and a random remainder."""
    language: str = ""
    """The code of the texts' language, by which a browser chooses letter forms."""
    count_words: Callable[[Sequence[str]], Sequence[int]] | None = None
    """Counts the words of texts in languages without spaces between words."""
    explain: Callable[[int, int, Sequence[int]], Sequence[Why]] | None = None
    """Explains the values of items, by system, metric and items; called for as many items as fit on the page.

    It returns an empty list if the explanations are no longer available.
    """


class Why(NamedTuple):
    """Explanation of an item's value, which the page shows on demand."""

    summary: str
    """The explanation in one line, shown before it is opened."""
    sections: Sequence[Section]


class Picture(NamedTuple):
    """A picture by its path, in memory, or as pixels (height × width × 3 bytes); without one, ``title`` says why."""

    source: str | HasPicture | npt.NDArray[np.uint8] | None
    title: str = ""
    href: str = ""


class Line(NamedTuple):
    """A text of a gallery's entry, with its label and pictures."""

    text: str | Phrase
    label: str = ""
    pictures: Sequence[Picture] = ()


class Meter(NamedTuple):
    """A share from 0 to 1, drawn as a bar between its label and a text."""

    label: str
    share: float
    text: str = ""


@dataclass(frozen=True)
class Entry:
    """One card of a gallery."""

    id: str
    lines: Sequence[Line]
    picture: Picture | None = None
    facts: Sequence[str] = ()
    meters: Sequence[Meter] = ()
    references: Sequence[str] = ()


@dataclass(frozen=True)
class Gallery:
    """Texts with pictures, one entry after another; on the page, and in a notebook if it replaces a table."""

    title: str
    entries: Sequence[Entry]
    note: str = ""
    replaces: str = ""
    """Key of the table with the same content without pictures, for terminals and files; the page leaves it out."""


@dataclass(frozen=True)
class Evidence:
    """Cards that the page opens in a panel when a reader follows a link to them; only the page has them.

    ``open_evidence(key)`` is the ``href`` of such links. An entry that several panels share is on the page once.
    """

    key: str
    title: str
    entries: Sequence[Entry]
    note: str = ""


@dataclass(frozen=True)
class Group:
    """Sections under one title, which the page folds; the terminal leaves it out."""

    title: str
    sections: Sequence[Section]


Section: TypeAlias = Text | Table | Chart | Graph | Items | Gallery | Evidence | Group


class Result(ABC):
    """A result that shows itself as a ``Document``.

    A dataclass that inherits from it is declared with ``repr=False`` and defines a ``__repr__`` of one line.
    """

    json_file: ClassVar[str] = OUTPUT
    """The file of a saved folder that has the data of the document."""

    @abstractmethod
    def document(self) -> Document:
        """Return everything the result shows."""

    def write_files(self, folder: Path) -> None:  # noqa: B027 - most results have nothing more to write
        """Write data that is not in the document, such as values per item, into a run's folder."""

    def __str__(self) -> str:
        from captious.render.terminal import format_text

        return format_text(self.document())

    def _repr_html_(self) -> str:
        from captious.render.notebook import render_notebook

        return render_notebook(self.document())

    def plot(self, name: str | None = None, *, ax: Any = None) -> Any:
        """Draw the result with matplotlib and return the figure; needs the extra ``plot``, and no network.

        ``name`` is what to draw: a table with values by its key, such as ``differences``; ``items``, the distribution
        of the values per item; or a kind of chart, such as ``scatter``. By default it is the first that there is.
        ``ax`` draws into axes of your own: into one, or into as many as the plot has panels.
        ``result.plot().savefig("figure.pdf")`` writes a file for a paper; also PNG and SVG.
        """
        from captious.render._matplotlib import draw_plot
        from captious.render._plots import find_plot

        return draw_plot(find_plot(self.document(), name), ax)

    def in_percent(self) -> Document:
        """Return the document with scores × 100 and one decimal, as papers print them.

        JSON, CSV and data frames keep the original values. ``report.in_percent().print()`` and ``.to_latex()`` print
        them so, and a notebook shows ``report.in_percent()``.
        """
        document = self.document()
        sections = [_scale_section(section) for section in document.sections]
        signatures = [*document.signatures, *(["shown:x100"] if document.signatures else [])]
        return replace(
            document,
            sections=sections,
            notes=[*document.notes, PERCENT],
            signatures=signatures,
            answer=_scale_answer(document.answer),
        )

    def print(self, console: Console | None = None, *, signatures: bool = False) -> None:
        """Print the result on the terminal; ``signatures`` prints each signature in full."""
        from captious.render.terminal import print_document

        print_document(self.document(), console, signatures=signatures)

    def save(self, path: str | Path, overwrite: bool = False, *, percent: bool = False) -> None:
        """Write a folder atomically: the page, LaTeX, text, a CSV file per table, and the data as JSON.

        A path that ends in ``.csv``, ``.json``, ``.parquet``, ``.html``, ``.tex`` or ``.txt`` is one file: the page,
        the text, or the first table. ``percent`` shows scores × 100 where people read them.
        """
        _refuse_kind(path)
        if is_file(path):
            refuse_existing(path, overwrite)
            with write_atomically(path) as draft:
                suffix = Path(path).suffix.lower()
                shown = self.in_percent() if percent and suffix != ".json" else self.document()
                _write_file(shown, draft, suffix)
            return
        with whole_folder(path, overwrite) as folder:
            self.write_files(folder)
            for name, text in self.files(percent).items():
                (folder / name).write_text(text, encoding="utf-8", errors="replace", newline="")

    def files(self, percent: bool = False) -> dict[str, str]:
        """Return the texts of a saved result by file name: a CSV file per table, the page, LaTeX, text and JSON."""
        from captious.render import _latex as latex
        from captious.render import exports, html, terminal
        from captious.render._hidden_folders import remove_folders

        document = self.in_percent() if percent else self.document()
        shared = remove_folders(document)
        return {
            **{f"{key}.csv": exports.format_csv(table) for key, table in document.tables.items()},
            f"{document.name}.html": html.render_page(document),
            f"{document.name}.tex": latex.format_document(shared),
            f"{document.name}.txt": terminal.format_text(shared, terminal.WIDE, signatures=True) + "\n",
            self.json_file: exports.to_json(self.document()),
        }

    def to_latex(self) -> str:
        """Return the tables for a paper."""
        from captious.render import _latex as latex

        return latex.format_document(self.document())

    def to_markdown(self, link: str = "") -> str:
        """Return texts and tables as GitHub's Markdown, short enough for a comment; ``link`` is the address of more."""
        from captious.render._markdown import format_markdown

        return format_markdown(self.document(), link)

    def to_pandas(self, table: str | None = None) -> Any:
        """Return a table as a data frame: the first, or the one with this key."""
        return require("pandas", "pandas").DataFrame(self._columns(table))

    def to_arrow(self, table: str | None = None) -> Any:
        """Return a table as a ``pyarrow.Table``: the first, or the one with this key."""
        from captious.render.exports import to_arrow

        return to_arrow(self._columns(table))

    def to_csv(self, path: str | Path, table: str | None = None) -> None:
        """Write a table as CSV: the first, or the one with this key. Numbers have full precision, a missing one is
        empty.
        """
        from captious.render.exports import write_csv

        columns = self._columns(table)
        with write_atomically(path) as draft:
            write_csv(columns, draft)

    def _columns(self, table: str | None) -> Mapping[str, Sequence[Any]]:
        """Return the columns of a table for data frames and files."""
        from captious.render.exports import get_columns

        return get_columns(self.document().table(table))

    def to_dict(self) -> dict[str, Any]:
        """Return the data of the document as the plain values of its JSON."""
        import json

        values: dict[str, Any] = json.loads(self.to_json())
        return values

    def to_json(self) -> str:
        """Return the data of the document as JSON text."""
        from captious.render.exports import to_json

        return to_json(self.document())


# Suffixes of paths that ask for one file instead of a folder.
FILES = (".csv", ".json", ".parquet", ".html", ".tex", ".txt")
# Suffixes of files in formats that a result cannot be written in.
OTHER_FILES = (".xlsx", ".xls", ".ods", ".tsv", ".jsonl", ".md", ".docx", ".yaml", ".yml", ".pkl", ".gz", ".zip")
# Suffixes of pictures, which no result writes; a folder of such a name would be a surprise.
PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".gif", ".webp")
PERCENT = "Scores are shown × 100."


def is_file(path: str | Path) -> bool:
    """Return True if a path asks for one file; an existing folder of that name does not."""
    return Path(path).suffix.lower() in FILES and not Path(path).is_dir()


def refuse_output(path: str | Path, overwrite: bool = False) -> None:
    """Raise InputError, before any work, if an output already exists or its file type is not supported."""
    _refuse_kind(path)
    (refuse_existing if is_file(path) else refuse_occupied)(Path(path), overwrite)


def _refuse_kind(path: str | Path) -> None:
    if Path(path).suffix.lower() in PICTURES and not Path(path).is_dir():
        raise InputError(
            f"{path}: pictures are not written; expected a folder, whose page has the charts, or a file that ends in "
            f"{', '.join(FILES)}"
        )
    if Path(path).suffix.lower() in OTHER_FILES and not Path(path).is_dir():
        raise InputError(f"{path}: expected a folder, or a file that ends in {', '.join(FILES)}")


def _write_file(document: Document, path: Path, suffix: str) -> None:
    from captious.render import _latex as latex
    from captious.render import exports, html, terminal
    from captious.render._hidden_folders import remove_folders

    if suffix == ".parquet":
        exports.write_parquet(path, exports.get_columns(document.table()))
    elif suffix == ".csv":
        exports.write_csv(document.table(), path)
    else:
        writers: dict[str, Callable[[Document], str]] = {
            ".json": exports.to_json,
            ".html": html.render_page,
            ".tex": lambda shown: latex.format_document(remove_folders(shown)),
            ".txt": lambda shown: terminal.format_text(remove_folders(shown), terminal.WIDE, signatures=True) + "\n",
        }
        path.write_text(writers[suffix](document), encoding="utf-8", errors="replace", newline="\n")


def _scale_answer(answer: Answer) -> Answer:
    if isinstance(answer, str):
        return answer
    return [replace(part, column=_scale_column(part.column)) if isinstance(part, Figure) else part for part in answer]


def _scale_column(column: Column) -> Column:
    if column.percent is None:
        return column
    return replace(column, scale=100 * column.scale, decimals=column.percent)


def _scale_section(section: Section) -> Section:
    """Return a section with score columns and item values × 100."""
    if isinstance(section, Group):
        return replace(section, sections=[_scale_section(one) for one in section.sections])
    if isinstance(section, Table):
        return replace(section, columns=[_scale_column(one) for one in section.heads])
    if isinstance(section, Items):
        factors = [100.0 if metric.percent else 1.0 for metric in section.metrics]
        values = [[factor * one for factor, one in zip(factors, system, strict=True)] for system in section.values]
        metrics = [
            metric._replace(range=(factor * metric.range[0], factor * metric.range[1]))
            for factor, metric in zip(factors, section.metrics, strict=True)
        ]
        return replace(section, metrics=metrics, values=values)
    return section


@dataclass(frozen=True, repr=False)
class Document(Result):
    """Everything that a result shows; it is a result itself."""

    title: str
    about: str = ""
    sections: Sequence[Section] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    signatures: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    """Content of the JSON; by default the tables."""
    name: str = "report"
    """Stem of its files: ``report.html``, ``report.tex``, ``report.txt``."""
    answer: Answer = ""
    """The plain answer: one or two sentences that every output has before its tables."""
    page: str = ""
    """The title of the page, such as ``CIDEr-D on captions.json``, for its tab and PDF; by default ``title``."""

    def document(self) -> Document:
        """Return the document itself."""
        return self

    def __repr__(self) -> str:
        return f"<Document {self.title!r}: {len(self.sections)} sections>"

    @property
    def answer_text(self) -> str:
        """The plain answer as a text."""
        return "".join(map(str, self.answer)).strip()

    def walk(self, sections: Sequence[Section] | None = None) -> Iterator[Section]:
        """Yield every section, including those inside groups."""
        for section in self.sections if sections is None else sections:
            yield section
            if isinstance(section, Group):
                yield from self.walk(section.sections)

    def cut_after(self, shown: int) -> Document:
        """Return the document with its later sections as details: only pages and files have them."""
        details = [
            replace(section, detail=True) if isinstance(section, (Text, Table)) else section
            for section in self.sections[shown:]
        ]
        return replace(self, sections=[*self.sections[:shown], *details])

    @property
    def tables(self) -> dict[str, Table]:
        """All tables by key."""
        tables = [section for section in self.walk() if isinstance(section, Table)]
        by_key = {table.key: table for table in tables}
        if len(by_key) < len(tables):
            raise ValueError(f"document {self.title!r}: two tables share a key")
        return by_key

    def table(self, key: str | None = None) -> Table:
        """Return a table by its key, or the first."""
        tables = self.tables
        if key is None and tables:
            return next(iter(tables.values()))
        if key not in tables:
            raise InputError(
                f"no table {key!r}, expected one of {', '.join(tables)}{format_suggestion(str(key), tables)}"
            )
        return tables[key]
