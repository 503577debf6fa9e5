"""Every format as rows that remember where they came from: JSON, JSON Lines, CSV, TSV, XLSX, Parquet, objects."""

from __future__ import annotations

import ast
import codecs
import csv
import gzip
import io
import json
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

import numpy as np

from captious._files import decode_utf8, read_regular
from captious.captions import CaptionSet, Item
from captious.errors import InputError
from captious.io._harnesses import HARNESSES, Harness, harness_of, translated
from captious.io.columns import ID_COLUMNS, IMAGE_COLUMNS
from captious.options import Reading

EXPECTED = "a path, {id: caption}, a list of captions or of records, a data frame, an Arrow table or a CaptionSet"
GZIP = b"\x1f\x8b"
"""How a compressed file begins."""
_TEXTS = ("captions", "references")
"""Roles of objects that hold texts; the others hold ratings or scores."""


class Row(NamedTuple):
    """One record and its place in the source, such as ``preds.jsonl: row 17``."""

    where: str
    fields: dict[str, Any]
    keyed: bool = False
    """Whether the format says the id, as COCO annotations and dictionaries do; it stands in the column ``id``."""
    aligned: bool | None = False
    """Whether the id is the number of the line; None for captions in memory that stand by position."""


class RowBlock(Sequence[Row]):
    """Rows of a table by their columns. A row is made when it is looked at, which most never are."""

    def __init__(
        self, name: str, first: int, columns: Mapping[str, list[Any]], unit: str = "row", keyed: bool = False
    ) -> None:
        self.name, self.first, self.columns, self.unit, self.keyed = name, first, columns, unit, keyed

    @classmethod
    def of_records(cls, records: Sequence[Any], name: str, first: int = 1, unit: str = "row") -> RowBlock | None:
        """The block of records, if they are dictionaries with the same keys."""
        if set(map(type, records)) != {dict}:
            return None
        names = records[0].keys()
        if not names or any(record.keys() != names for record in records):
            return None
        return cls(name, first, {key: [record[key] for record in records] for key in names}, unit)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, index: int) -> Row:  # type: ignore[override]  # no slices
        fields = {column: values[index] for column, values in self.columns.items()}
        return Row(self.place(index), fields, self.keyed)

    def __iter__(self) -> Iterator[Row]:
        for index, values in enumerate(zip(*self.columns.values(), strict=True)):
            yield Row(self.place(index), dict(zip(self.columns, values, strict=True)), self.keyed)

    def place(self, index: int) -> str:
        """Where a row stands: by its id where the format says it, otherwise by its number."""
        return f"{self.name}: " + (
            f"id {self.columns['id'][index]!r}" if self.keyed else f"{self.unit} {self.first + index}"
        )


Piece = Row | RowBlock


def rows_of(
    source: Any,
    format: str | None = None,
    role: str = "captions",
    ids: Sequence[str] | None = None,
    harnesses: bool = True,
) -> Iterator[Row]:
    """Rows of a path, of ``-`` for standard input, or of an object in memory, which messages call by its ``role``.

    A list of texts, or of lists of texts, is read by position: its rows have the ids ``ids``, else 0, 1, 2, … Without
    ``harnesses`` no columns of a file are renamed: those of questions look like a harness's log of answers.
    """
    return _singly(pieces_of(source, format, role, ids, harnesses))


def pieces_of(
    source: Any,
    format: str | None = None,
    role: str = "captions",
    ids: Sequence[str] | None = None,
    harnesses: bool = True,
) -> Iterator[Piece]:
    """The same, with those rows in blocks that were read by columns."""
    name = name_of(source, role)
    if isinstance(source, FileList):
        return _rows_of_files(source, format)
    if not isinstance(source, (str, os.PathLike)):
        rows = _objects(source, name, role, ids)
        return _of_harness(rows, named_harness(format)) if role in _TEXTS else rows
    return _pieces_of_content(_content(source), name, format, harnesses)


def _singly(pieces: Iterable[Piece]) -> Iterator[Row]:
    for piece in pieces:
        if isinstance(piece, RowBlock):
            yield from piece
        else:
            yield piece


class FileList(tuple[str, ...]):
    """Several files of references, whose captions of one id add up; a list of texts in memory is no such thing."""


def _rows_of_files(files: FileList, format: str | None) -> Iterator[Piece]:
    """The rows of all files; of files with a caption on each line, all must have as many lines."""
    lengths: dict[str, int] = {}
    for file in files:
        rows = list(rows_of(file, format))
        if rows and rows[0].aligned:
            lengths[file] = len(rows)
            first, number = next(iter(lengths.items()))
            if len(rows) != number:
                raise InputError(f"{file}: has {len(rows):,} lines, {first} has {number:,}, expected as many in each")
        yield from rows


def named_harness(format: str | None) -> Harness | None:
    """The harness that a format names, if it names one."""
    return cast("Harness", format) if format in HARNESSES else None


def rows_of_content(content: bytes, name: str, format: str | None = None) -> Iterator[Row]:
    """Rows of the unpacked content of a file; ``name`` is what messages call it."""
    return _singly(_pieces_of_content(content, name, format, True))


def _pieces_of_content(content: bytes, name: str, format: str | None, harnesses: bool) -> Iterator[Piece]:
    harness = named_harness(format)
    content = in_utf8(content, name)
    format = _format_of(name, content) if format is None or harness else format
    if format not in BINARY and (offset := content.find(b"\0")) >= 0:
        raise InputError(f"{name}: byte {offset} is null, expected text in UTF-8; is it UTF-16, or no text at all?")
    rows = _READERS[format](content, name)
    rows = _of_harness(rows, harness) if harnesses else rows
    return _sound(rows) if format not in BINARY and _is_suspicious(content) else rows


def _of_harness(pieces: Iterator[Piece], harness: Harness | None) -> Iterator[Piece]:
    """The rows with the usual columns, where they are a harness's; the first row tells which, unless it is named.

    Rows without an id, as trainers log them, are numbered 0, 1, 2, …
    """
    first = next(pieces, None)
    if first is None:
        return
    row = first[0] if isinstance(first, RowBlock) else first
    harness = harness or harness_of(row.fields)
    if harness is None:
        yield first
        yield from pieces
        return
    for number, row in enumerate(_singly(chain([first], pieces))):
        yield Row(row.where, {"id": number, **translated(harness, row.fields, row.where)}, keyed=True)


def in_utf8(content: bytes, name: str) -> bytes:
    """The content with UTF-16, which PowerShell and Excel write with a byte-order mark, turned into UTF-8."""
    if not content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content
    try:
        return content.decode("utf-16").encode()
    except UnicodeError:
        raise InputError(f"{name}: begins as UTF-16 and is not UTF-16 throughout, expected text in UTF-8") from None


DEPTH = 50
"""Lists within lists that a value may have: more is a mistake, and nothing could write it."""
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_NESTED = re.compile(rb"[\[{]{%d}" % DEPTH)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _is_suspicious(content: bytes) -> bool:
    """Whether JSON has an escape that may be half a character, or brackets that may be a deeply nested value."""
    return bool(_HALF_CHARACTER.search(content) or _NESTED.search(content.translate(None, _NO_BRACKETS)))


def _sound(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """The rows, up to one with half a character (a lone surrogate) or a value nested too deeply: neither is of use."""
    for row in _singly(pieces):
        _refuse_unsound(row)
        yield row


def _refuse_unsound(row: Row) -> None:
    for column, value in row.fields.items():
        name = column if str(column).isprintable() else ascii(column)
        if _depth(value) > DEPTH:
            raise InputError(f"{row.where}: {name} is nested more than {DEPTH} deep, expected a plain value")
        try:
            json.dumps([column, value], ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise InputError(f"{row.where}: {name} holds half a character ({half!r}), expected valid Unicode") from None


def _depth(value: Any) -> int:
    """How many lists and objects are within each other."""
    depth, level = 0, [value]
    while inner := [one for one in level if isinstance(one, (list, dict))]:
        depth += 1
        level = [part for one in inner for part in (one.values() if isinstance(one, dict) else one)]
    return depth


def name_of(source: Any, role: str = "captions") -> str:
    """What messages call a source: a file by its path, a set by its name, other objects by their role."""
    if isinstance(source, FileList):
        return " and ".join(source)
    if isinstance(source, (str, os.PathLike)):
        return "standard input" if str(source) == "-" else os.fsdecode(source)
    return source.name if isinstance(source, CaptionSet) and role == "captions" else role


def stem_of(path: str | os.PathLike[str]) -> str:
    """The name of a file without its folder and the endings of formats.

    >>> stem_of("runs/model-0.2.jsonl.gz"), stem_of("v1.5")
    ('model-0.2', 'v1.5')
    """
    stem = Path(path)
    while stem.suffix.lower() in {".gz", *FORMATS}:
        stem = stem.with_suffix("")
    return stem.name or os.fspath(path)


def named_files(systems: Sequence[str], folder: Path = Path()) -> dict[str, str]:
    """Files by the name of the system: that before ``=``, or the file's, with its folder or a number where it repeats.

    >>> named_files(("runs/a.json", "runs/b.v2.jsonl.gz", "old/a.json", "RL=ck1/results.json"))
    {'runs-a': 'runs/a.json', 'b.v2': 'runs/b.v2.jsonl.gz', 'old-a': 'old/a.json', 'RL': 'ck1/results.json'}
    """
    names, paths = [], []
    for system in systems:
        name, equals, path = system.partition("=")
        if not equals or not name or (folder / system).exists():
            name, path = stem_of(system), system
        names.append(name)
        paths.append(path)
    repeated = {name for name, number in Counter(names).items() if number > 1}
    unique: dict[str, str] = {}
    for name, path in zip(names, paths, strict=True):
        parent = Path(path).parent.name
        longer = f"{parent}-{name}" if name in repeated and parent else name
        number = sum(one == longer or one.rpartition("-")[0] == longer for one in unique) + 1
        unique[longer if longer not in unique else f"{longer}-{number}"] = path
    return unique


def _objects(source: Any, name: str, role: str, ids: Sequence[str] | None) -> Iterator[Piece]:
    """Rows of what Python programs hold."""
    if isinstance(source, CaptionSet):
        return _items(source, name, role)
    if isinstance(source, Mapping):
        return _document(source, name)
    if hasattr(source, "to_dict") and hasattr(source, "iloc"):  # pandas: a frame, or a series of captions
        return _frame(source, name) if hasattr(source, "columns") else _mapping(source.to_dict(), name)
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return _table(source, name)
    if isinstance(source, (bytes, bytearray, memoryview, set, frozenset, type)) or not isinstance(source, Iterable):
        raise InputError(f"{name}: {_a(source)}, expected {_expected(role)}")
    entries = source if isinstance(source, (list, tuple)) else list(source)
    first = entries[0] if entries else None
    if isinstance(first, Item):
        return _items(entries, name, role)
    if isinstance(first, (str, list, tuple, np.ndarray)):
        return _by_position(entries, name, ids)
    if not entries or isinstance(first, Mapping):
        return _records(entries, name)
    texts = "a caption, a list of captions, or a record with id and caption" if role in _TEXTS else "a record"
    raise InputError(f"{name}: entry 1: is {_a(first)}, expected {texts}")


def _expected(role: str) -> str:
    return EXPECTED if role in _TEXTS else "a path, a data frame, an Arrow table or a list of records"


def _a(value: Any) -> str:
    """A value in a message: its type, and itself where that is short."""
    shown = repr(value)
    return shown if value is None else f"{type(value).__name__}{f' ({shown})' if len(shown) <= 40 else ''}"


def _by_position(entries: Sequence[Any], name: str, ids: Sequence[str] | None) -> Iterator[Row]:
    keys: Sequence[Any] = range(len(entries)) if ids is None else ids
    if len(entries) != len(keys):
        transposed = all(isinstance(entry, (list, tuple)) and len(entry) == len(keys) for entry in entries)
        hint = f"; if each list is one reference of every caption, pass list(zip(*{name}))" if transposed else ""
        raise InputError(f"{name}: {len(entries)} for {len(keys)} captions, expected one each, in their order{hint}")
    for number, (key, entry) in enumerate(zip(keys, entries, strict=True), start=1):
        yield Row(f"{name}: entry {number}", {"id": key, "caption": entry}, keyed=True, aligned=None)


def _items(items: Iterable[Any], name: str, role: str) -> Iterator[Row]:
    """Rows of items; as references those that they have, else their candidates."""
    for number, item in enumerate(items, start=1):
        if not isinstance(item, Item):
            raise InputError(f"{name}: entry {number}: is {_a(item)}, expected an Item")
        texts: dict[str, Any] = {"candidates": item.candidates}
        if role != "captions":
            texts = {"references": item.references or item.candidates}
        elif item.references:
            texts["references"] = item.references
        yield Row(f"{name}: id {item.id!r}", {"id": item.id, **texts, **item.fields})


def _frame(frame: Any, name: str) -> Iterator[Row]:
    """Rows of a pandas frame; its index has the ids where no column has."""
    _refuse_repeated(list(map(str, frame.columns)), name)
    columns = {str(column): _cells(frame.iloc[:, number]) for number, column in enumerate(frame.columns)}
    if isinstance(frame.index.name, str):
        columns.setdefault(frame.index.name, frame.index.tolist())
    names = [column for column in ID_COLUMNS if column in columns]
    if all(column in IMAGE_COLUMNS and not isinstance(next(iter(columns[column]), ""), str) for column in names):
        columns["id"] = frame.index.tolist()
    return _rows_of_columns(columns, name)


def _cells(series: Any) -> list[Any]:
    """The values of a column, missing ones as None; what Arrow has no type for, such as images, as it is."""
    import pyarrow as pa

    try:
        values: list[Any] = pa.Array.from_pandas(series).to_pylist()
        return values
    except (pa.ArrowException, TypeError, ValueError):
        return list(series.tolist())


def _rows_of_columns(columns: Mapping[str, Sequence[Any]], name: str) -> Iterator[Row]:
    for number, values in enumerate(zip(*columns.values(), strict=True), start=1):
        yield Row(f"{name}: row {number}", dict(zip(columns, values, strict=True)))


def read_text(path: str | Path) -> str:
    """The text of a file, unpacked where it is compressed."""
    return decoded(_content(path), name_of(path))


def decoded(content: bytes, name: str) -> str:
    """Decode UTF-8, with or without a byte-order mark, or UTF-16 with one."""
    return decode_utf8(in_utf8(content, name), name)


def _content(source: str | os.PathLike[str]) -> bytes:
    name = name_of(source)
    try:
        content = sys.stdin.buffer.read() if name == "standard input" else read_regular(source)
    except FileNotFoundError:
        expected = f", expected {EXPECTED}" if isinstance(source, str) and _is_caption(name) else ""
        raise InputError(f"{name}: no such file{expected}") from None
    except IsADirectoryError:
        files = sorted(path.name for path in Path(name).iterdir() if path.suffix in (".jsonl", ".json", ".csv"))
        such = f", such as {Path(name) / files[0]}" if files else ""
        raise InputError(f"{name}: is a folder, expected a file of captions{such}") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror})") from None
    return unpack(content, name)


def unpack(content: bytes, name: str) -> bytes:
    """The content of a file, unpacked where it is compressed; nothing but white space is refused."""
    if content[:2] == GZIP:
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise InputError(f"{name}: damaged gzip file ({error})") from None
    if not content or content.isspace():
        raise InputError(f"{name}: is empty, expected captions")
    return content


def _is_caption(text: str) -> bool:
    """Whether a text that names no file looks like a caption: several words, and no ending of a file's name."""
    return len(text.split()) > 1 and not re.search(r"\.\w{1,8}$", text)


def _format_of(name: str, content: bytes) -> str:
    suffixes = [suffix.lower() for suffix in Path(name).suffixes if suffix.lower() != ".gz"]
    named = FORMATS.get(suffixes[-1], "") if suffixes else ""
    if named and named not in (LINES, "xlsx"):
        return named
    if content[:4] == b"PAR1":
        return "parquet"
    from captious.io._spreadsheets import is_spreadsheet

    if is_spreadsheet(content):
        return "xlsx"
    if content[257:262] == b"ustar":
        return "webdataset"
    if content[:2] in (b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise InputError(f"{name}: is a pickle, which could run code; expected JSON, JSONL, CSV, TSV, XLSX or Parquet")
    if content[:4] in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"):
        raise InputError(
            f"{name}: is an archive, an old spreadsheet or a part of one, expected text or a whole XLSX file; save its "
            "table as CSV"
        )
    first_line = content.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
    if first_line[:1] in (b"{", b"["):
        return "json"
    if b"\t" in first_line:
        return "tsv"
    # Tables are called .txt too; one with a header names its ids.
    cells = {cell.strip().strip('"').lower() for cell in first_line.decode(errors="replace").split(",")}
    return LINES if named == LINES and cells.isdisjoint(ID_COLUMNS) else "csv"


_QUOTED_CELL = re.compile(rb'(?:^|\t)"(?:[^"\t\n]|"")*[\t\n](?:[^"]|"")*"(?:\t|\r?$)', re.MULTILINE)
_ENCLOSED = re.compile(rb'"(?:[^"]|"")*"')
_NUMBERED_REFERENCE = re.compile(r"(?:caption_)?ref(?:erence)?s?[ _-]?\d+", re.IGNORECASE)


def _delimited(content: bytes, name: str, delimiter: str) -> Iterator[Row]:
    """Rows of a delimited file.

    Columns ``reference_1``, ``reference_2``, … are gathered into ``references``; a cell that holds a list, as JSON or
    Python writes it, is one.
    """
    bare = delimiter == "\t" and not _is_quoted(content)
    quoting: Literal[0, 3] = csv.QUOTE_NONE if bare else csv.QUOTE_MINIMAL
    lines = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    try:
        header = [column.strip() for column in next(reader, [])]
        if not header:
            raise InputError(f"{name}: is empty, expected a header line and captions")
        _refuse_repeated(header, f"{name}: row 1")
        numbered = [index for index, column in enumerate(header) if _NUMBERED_REFERENCE.fullmatch(column)]
        for number, cells in enumerate(reader, start=2):
            if not cells:
                continue
            where = f"{name}: row {number}"
            if len(cells) != len(header):
                raise InputError(f"{where}: has {len(cells)} cells, expected {len(header)} ({', '.join(header)})")
            fields: dict[str, Any] = {
                column: _cell(cell)
                for index, (column, cell) in enumerate(zip(header, cells, strict=True))
                if index not in numbered
            }
            if numbered:
                fields["references"] = [cells[index] for index in numbered if cells[index].strip()]
            yield Row(where, fields)
    except UnicodeDecodeError:
        decoded(content, name)  # says where
    except csv.Error as error:
        raise InputError(f"{name}: line {reader.line_num}: not valid delimited text ({error})") from None


def _spreadsheet(content: bytes, name: str) -> Iterator[Row]:
    """Rows of the first sheet of a spreadsheet, whose first row names the columns."""
    from captious.io._spreadsheets import sheet_rows

    rows = sheet_rows(content, name)
    header = ["" if cell is None else str(cell).strip() for cell in next(rows, (0, []))[1]]
    named = [column for column in header if column]
    if not named:
        raise InputError(f"{name}: is empty, expected a header row and captions")
    _refuse_repeated(named, f"{name}: row 1")
    for number, cells in rows:
        if all(cell is None for cell in cells):
            continue
        where = f"{name}: row {number}"
        if len(cells) > len(header):
            raise InputError(f"{where}: has {len(cells)} cells, expected {len(header)} ({', '.join(header)})")
        cells += [None] * (len(header) - len(cells))
        values = ["" if cell is None else _cell(cell) if isinstance(cell, str) else cell for cell in cells]
        yield Row(where, {column: value for column, value in zip(header, values, strict=True) if column})


def _is_quoted(content: bytes) -> bool:
    """Whether the quotation marks of a TSV file enclose cells, as a CSV writer does it, or belong to the captions.

    Captions with a quotation mark here and there are common in TSV, where nothing needs quoting. A writer that quotes
    encloses every cell that has a mark and doubles the mark, or it encloses all cells of the header or of a column.
    """
    if b'"' not in content:
        return False
    if _QUOTED_CELL.search(content):
        return True
    rows = [line.split(b"\t") for line in content.removeprefix(codecs.BOM_UTF8).splitlines() if line]
    marked = [cell for cells in rows for cell in cells if b'"' in cell]
    if not all(map(_ENCLOSED.fullmatch, marked)):
        return False
    if all(cell[:1] == b'"' for cell in rows[0]) or any(b'""' in cell[1:-1] for cell in marked):
        return True
    return any(all(cell[:1] == b'"' for cell in column) for column in zip(*rows[1:], strict=False))


def _refuse_repeated(columns: Sequence[str], where: str) -> None:
    """Refuse a table in which two columns have one name: which of them is meant is unknown."""
    if repeated := [column for column, number in Counter(columns).items() if number > 1]:
        raise InputError(f"{where}: column {repeated[0]!r} occurs more than once, expected different names")


def _cell(cell: str) -> Any:
    if cell.startswith("[") and cell.endswith("]"):
        try:
            value = json.loads(cell)
        except json.JSONDecodeError:
            return printed_list(cell) or cell
        return value if isinstance(value, list) else cell
    return printed_list(cell) or cell


_STRING = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_STRINGS = rf"\s*{_STRING}(?:\s*,\s*{_STRING})*\s*,?\s*"
_PRINTED_LIST = re.compile(rf"\s*(?:\[{_STRINGS}\]|\(\s*{_STRING}\s*,(?:{_STRINGS})?\))\s*", re.DOTALL)
_LOOKS_PRINTED = re.compile(
    r"""\s*(?:array\()?(?:\[\s*(?:array\()?[\[(]*[bfru]?["'].*["'].*[\])]|\([bfru]?["'].*["'],.*\))\s*""", re.DOTALL
)


def printed_list(text: str) -> list[str] | None:
    r"""The texts of a list or tuple that Python has printed; None for any other text.

    ``['a dog' 'a cat']``, as NumPy prints an array, is none: Python itself would read it as one text.

    >>> printed_list("['a dog', \"a dog's ball\"]"), printed_list("['a dog' 'a cat']"), printed_list("[sic] a dog")
    (['a dog', "a dog's ball"], None, None)
    """
    if text.lstrip()[:1] not in ("[", "(") or not _PRINTED_LIST.fullmatch(text):
        return None
    try:
        return list(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError):  # an escape that is none, or a line break inside quotation marks
        return None


def text_list(value: Any, where: str, what: str) -> list[str] | None:
    """The texts of a field that holds a list, or a list as JSON or Python writes it; None where the field is empty.

    >>> [text_list(value, "row 3", "objects") for value in ('["dog", "cat"]', [], "")]
    [['dog', 'cat'], [], None]
    """
    texts = value.tolist() if hasattr(value, "tolist") else value
    if texts is None or texts == "" or texts != texts:  # an empty cell of a table is NaN
        return None
    if isinstance(texts, str):
        try:
            texts = json.loads(texts)
        except (ValueError, RecursionError):
            texts = printed_list(texts)
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) and text.strip() for text in texts):
        shown = " ".join(str(value).split())
        raise InputError(f"{where}: {what} are {shown[:60]!r}, expected a list of texts")
    return list(texts)


def looks_printed(text: str) -> bool:
    """Whether a text looks like a list or an array that a program has printed.

    >>> [looks_printed(text) for text in ("['a dog' 'a cat']", "['a dog', nan]", "[a dog's ball]", "a ['dog']")]
    [True, True, False, False]
    """
    return text.lstrip().startswith(("[", "(", "array(")) and _LOOKS_PRINTED.fullmatch(text) is not None


def _lines(content: bytes, name: str) -> Iterator[Row]:
    """A caption on each line, with the ids 0, 1, 2, …; an empty line is an empty caption."""
    for number, line in enumerate(decoded(content, name).removesuffix("\n").split("\n")):
        yield Row(f"{name}: line {number + 1}", {"id": number, "caption": line.strip()}, keyed=True, aligned=True)


_PART = 1 << 20
"""Bytes of JSON Lines that are parsed together: the whole file as text would take as much memory again, or more."""


def _jsonl(content: bytes, name: str) -> Iterator[Piece]:
    """Rows of a JSON Lines file; blank lines are passed over."""
    first, number = 0, 1
    while first < len(content):
        end = content.find(b"\n", first + _PART) + 1 or len(content)
        part = content[first:end]
        if (block := _plain_lines(part, name, number)) is not None:
            yield block
        else:
            yield from _single_lines(part, content, name, number)
        first, number = end, number + part.count(b"\n")


def _plain_lines(part: bytes, name: str, number: int) -> RowBlock | None:
    """Whole lines parsed as one list, if each is a record without another inside and all have the same keys.

    No record has a key twice if there are as many keys as there are quotation marks before a colon.
    """
    part = part.removesuffix(b"\n")
    lines = part.count(b"\n") + 1
    if part[:1] != b"{" or part.count(b"{") != lines or part.count(b"\n{") != lines - 1:
        return None
    try:
        records = json.loads(f"[{part.decode().replace(chr(10), f',{chr(10)}')}]")
    except (ValueError, RecursionError):
        return None
    block = RowBlock.of_records(records, name, number) if len(records) == lines else None
    if block is None or len(block.columns) * lines != part.count(b'":'):
        return None
    return None if _SPACED_COLON.search(part) and _SPACED_KEY.search(part) else block


_SPACED_COLON, _SPACED_KEY = re.compile(rb":(?<=[ \t\r]:)"), re.compile(rb'"[ \t\r]+:')


def _single_lines(part: bytes, content: bytes, name: str, first: int) -> Iterator[Row]:
    for number, line in enumerate(io.BytesIO(part), start=first):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n")
        except UnicodeDecodeError:
            text = decoded(content, name)  # says where
        if text and not text.isspace():
            yield _record(text, f"{name}: row {number}")


def json_row(content: bytes, where: str) -> Row:
    """The row that one JSON object is."""
    row = _record(decoded(content, where), where)
    if _is_suspicious(content):
        _refuse_unsound(row)
    return row


def _record(text: str, where: str) -> Row:
    try:
        record = _parsed(text, where)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        raise InputError(f"{where} column {error.colno}: not valid JSON ({error.msg}): {text[:60]!r}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON that can be read ({str(error)[:80]})") from None
    if not isinstance(record, dict):
        raise InputError(f'{where}: is {type(record).__name__}, expected an object such as {{"id": …}}')
    return Row(where, record)


def _json(content: bytes, name: str) -> Iterator[Piece]:
    """Rows of a JSON document, whatever of the known layouts it has."""
    text = decoded(content, name)
    try:
        document = _parsed(text, name)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and error.lineno > 1:
            return _jsonl(content, name)
        raise InputError(
            f"{name}: line {error.lineno} column {error.colno} (offset {error.pos} of {len(text)}): "
            f"not valid JSON ({error.msg}); is the file cut short?"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON that can be read ({str(error)[:80]})") from None
    if isinstance(document, Mapping):
        return _document(document, name)
    if isinstance(document, list):
        return _records(document, name)
    raise InputError(f"{name}: contains a JSON {type(document).__name__}, expected a list or an object of captions")


def _document(document: Mapping[Any, Any], name: str) -> Iterator[Piece]:
    """Rows of a dictionary: Karpathy's splits, COCO annotations, or captions by id."""
    if _has_sentences(document):
        return _sentences(document, name)
    if isinstance(document.get("annotations"), list):
        return _annotations(document, name)
    for key in WRAPPERS:
        if _are_records(document.get(key)):
            return _records(document[key], name)
    return _mapping(document, name)


WRAPPERS = ("results", "predictions", "captions", "outputs", "data", "items")
"""Keys under which programs put a list of records; an id of an image has none of these names."""


def _are_records(entries: Any) -> bool:
    """Whether a value is a list of records with ids, and not the captions of one image."""
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], Mapping):
        return False
    return not entries[0].keys().isdisjoint(ID_COLUMNS)


def _mapping(document: Mapping[Any, Any], name: str) -> Iterator[Piece]:
    """Rows of ``{id: caption}``, ``{id: [captions]}``, ``{id: [{"caption": …}]}`` or ``{id: {column: value}}``.

    A list of objects with a ``question`` each, as CaptionQA's files have it, is the column ``questions``.
    """
    values = list(document.values())
    kinds = set(map(type, values))
    if kinds == {str} or (kinds == {list} and set(map(type, chain.from_iterable(values))) == {str}):
        yield RowBlock(name, 1, {"id": list(document), "caption": values}, keyed=True)
        return
    for key, value in document.items():
        where = f"{name}: id {key!r}"
        if isinstance(value, str):  # much quicker than asking for a Mapping
            yield Row(where, {"id": key, "caption": value}, keyed=True)
        elif isinstance(value, Mapping):
            rest = {column: entry for column, entry in value.items() if column not in ("id", "image_id")}
            yield Row(where, {"id": key, **rest}, keyed=True)
        elif isinstance(value, list) and value and all(_is_question(entry) for entry in value):
            yield Row(where, {"id": key, "questions": value}, keyed=True)
        elif isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
            yield Row(where, {"id": key, "caption": [entry.get("caption") for entry in value]}, keyed=True)
        else:
            yield Row(where, {"id": key, "caption": value}, keyed=True)


def _is_question(entry: Any) -> bool:
    return isinstance(entry, Mapping) and "question" in entry and "caption" not in entry


def _annotations(document: Mapping[str, Any], name: str) -> Iterator[Row]:
    listed = document.get("images")
    images = [image for image in listed if isinstance(image, Mapping)] if isinstance(listed, list) else []
    files = {str(image.get("id")): image.get("file_name") for image in images}
    for number, annotation in enumerate(document["annotations"], start=1):
        where = f"{name}: annotation {number}"
        if not isinstance(annotation, Mapping):
            raise InputError(f"{where}: is {type(annotation).__name__}, expected an object with image_id and caption")
        fields = {"id": annotation.get("image_id"), "caption": annotation.get("caption")}
        if image := files.get(str(annotation.get("image_id"))):
            fields["image"] = image
        yield Row(where, fields, keyed=True)


def _has_sentences(document: Mapping[str, Any]) -> bool:
    images = document.get("images")
    return isinstance(images, list) and bool(images) and isinstance(images[0], Mapping) and "sentences" in images[0]


def _sentences(document: Mapping[str, Any], name: str) -> Iterator[Row]:
    """Karpathy's splits: images with their sentences."""
    for number, image in enumerate(document["images"], start=1):
        where = f"{name}: image {number}"
        sentences = image.get("sentences") if isinstance(image, Mapping) else None
        if not isinstance(sentences, list) or not all(isinstance(sentence, Mapping) for sentence in sentences):
            raise InputError(f"{where}: has no list of sentences, expected objects with the text as raw")
        key = next((image[column] for column in ("cocoid", "imgid", "filename") if column in image), None)
        fields = {"id": key, "caption": [sentence.get("raw") for sentence in sentences]}
        extra = {"image": image.get("filename"), "split": image.get("split")}
        yield Row(where, fields | {column: value for column, value in extra.items() if value is not None}, keyed=True)


def _records(document: Sequence[Any], name: str) -> Iterator[Piece]:
    """Rows of a list of records, such as COCO results."""
    if (block := RowBlock.of_records(document, name, unit="entry")) is not None:
        yield block
        return
    for number, record in enumerate(document, start=1):
        where = f"{name}: entry {number}"
        if not isinstance(record, Mapping):
            raise InputError(f"{where}: is {type(record).__name__}, expected an object with an id and a caption")
        yield Row(where, dict(record))


class _Repeated(Exception):
    """A key of a JSON object that occurs more than once in it."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise _Repeated(next(key for key, number in Counter(key for key, _ in pairs).items() if number > 1))
    return unique


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _parsed(text: str, name: str) -> Any:
    """The value that JSON writes. An object with a key twice is refused."""
    try:
        if text[:1] == "{":
            value, end = _DECODER.raw_decode(text)
            if end == len(text):
                return value
        return _DECODER.decode(text)  # with white space around it, or something behind it, which is an error
    except _Repeated as error:
        (key,) = error.args
        raise InputError(
            f"{name}: {key!r} occurs more than once in one JSON object, expected different names or ids"
        ) from None


def _parquet(content: bytes, name: str) -> Iterator[Row]:
    """Rows of a Parquet file."""
    return parquet_rows(io.BytesIO(content), name)


def parquet_rows(file: IO[bytes], name: str, images: bool = True) -> Iterator[Row]:
    """Rows of an open Parquet file; without ``images`` a column of their bytes is not even read."""
    return chain.from_iterable(parquet_blocks(file, name, images))


def parquet_blocks(
    file: IO[bytes], name: str, images: bool = True, choose: Callable[[list[str]], list[str]] = list
) -> Iterator[RowBlock]:
    """The same as blocks of rows. ``choose`` names the columns that are read, out of all of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        parquet = pq.ParquetFile(file)
        _refuse_repeated(parquet.schema_arrow.names, name)
        columns = choose([field.name for field in parquet.schema_arrow if images or not _holds_images(field)])
        # Without Arrow's threads: workers are processes already, and one that ends soon after a read may not abort.
        table = parquet.read(columns, use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{name}: not a whole Parquet file ({str(error).splitlines()[0]})") from None
    return _blocks(table, name)


def _holds_images(field: Any) -> bool:
    """Whether a column holds images themselves, as bytes or as data sets hold them."""
    kind = str(field.type)
    return field.name in IMAGE_COLUMNS and kind.startswith(("binary", "large_binary", "struct"))


def _table(table: Any, name: str) -> Iterator[Row]:
    """Rows of an Arrow table, or of anything that gives one, such as a polars frame."""
    import pyarrow as pa

    if not isinstance(table, pa.Table):
        try:
            table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else pa.table(table)
        except (TypeError, ValueError, AttributeError):
            raise InputError(f"{name}: {_a(table)}, expected {EXPECTED}") from None
    _refuse_repeated(table.column_names, name)
    yield from chain.from_iterable(_blocks(table, name))


def _blocks(table: Any, name: str) -> Iterator[RowBlock]:
    """The rows of an Arrow table."""
    first = 1
    for batch in table.to_batches(max_chunksize=65536):
        yield RowBlock(name, first, dict(zip(table.column_names, map(_column, batch.columns), strict=True)))
        first += len(batch)


def _column(column: Any) -> list[Any]:
    """The values of a column of Arrow."""
    try:
        values: list[Any] = column.to_pylist()
        return values
    except UnicodeDecodeError:
        return [_cell_of(scalar) for scalar in column]


def _cell_of(scalar: Any) -> Any:
    """A value of Arrow; text that is not UTF-8 as bytes, which whoever expects text refuses."""
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.as_buffer().to_pybytes() if hasattr(scalar, "as_buffer") else list(map(_cell_of, scalar.values))


def _webdataset(content: bytes, name: str) -> Iterator[Row]:
    """Rows of a tar of WebDataset, a sample each; the first damage or sample without a caption is refused."""
    from captious.io.tars import KEY, tar_rows

    def refuse(reason: str, example: str) -> None:
        raise InputError(example)

    for row in tar_rows(io.BytesIO(content), name, Reading(), True, refuse):
        yield Row(row.where, {**row.fields, "id": row.fields[KEY]}, keyed=True)


_READERS: dict[str, Callable[[bytes, str], Iterator[Piece]]] = {
    "json": _json,
    "jsonl": _jsonl,
    "csv": partial(_delimited, delimiter=","),
    "tsv": partial(_delimited, delimiter="\t"),
    "parquet": _parquet,
    "txt": _lines,
    "xlsx": _spreadsheet,
    "webdataset": _webdataset,
}
LINES = "txt"
BINARY = ("parquet", "xlsx", "webdataset")
"""Formats that are no text."""
FORMATS = {f".{name}": name for name in _READERS if name != "webdataset"}
FORMATS |= {".ndjson": "jsonl", ".pq": "parquet", ".tar": "webdataset", ".tgz": "webdataset"}
"""Formats by the ending of a file's name."""
