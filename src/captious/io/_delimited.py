"""Readers of CSV, TSV, spreadsheets, and text files with one caption per line."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal

from captious.errors import InputError
from captious.io.printed import parse_printed_list
from captious.io.rows import LeaveOut, Piece, Row, RowBlock, decode_text, refuse_repeated, refuse_row

_QUOTED_CELL = re.compile(rb'(?:^|\t)"(?:[^"\t\n]|"")*[\t\n](?:[^"]|"")*"(?:\t|\r?$)', re.MULTILINE)
_ENCLOSED = re.compile(rb'"(?:[^"]|"")*"')
_NUMBERED_CAPTION = re.compile(rb"[^\t\n]+#\d+\t")
_NUMBERED_REFERENCE = re.compile(r"(?:caption_)?ref(?:erence)?s?[ _-]?\d+", re.IGNORECASE)


def read_delimited(content: bytes, name: str, delimiter: str, leave_out: LeaveOut = refuse_row) -> Iterator[Piece]:
    """Read the rows of a delimited file.

    Columns ``reference_1``, ``reference_2``, … are merged into ``references``; a cell with a list in JSON or Python
    syntax is parsed.
    """
    if delimiter == "\t" and _NUMBERED_CAPTION.match(content):
        yield _read_numbered_captions(content, name)
        return
    unquoted = delimiter == "\t" and not _is_quoted(content)
    head = content[:65_536].partition(b"\n")[0]
    if delimiter == "," and b"," not in head:
        # Spreadsheets of countries with a decimal comma separate cells by semicolons.
        delimiter = ";" if b";" in head else "\t" if b"\t" in head else ","
    quoting: Literal[0, 3] = csv.QUOTE_NONE if unquoted else csv.QUOTE_MINIMAL
    lines = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    try:
        header = [column.strip() for column in next(reader, [])]
        if not header:
            raise InputError(f"{name}: is empty, expected a header line and captions")
        refuse_repeated(header, f"{name}: row 1")
        numbered = [index for index, column in enumerate(header) if _NUMBERED_REFERENCE.fullmatch(column)]
        for number, cells in enumerate(_read_long_cells(reader), start=2):
            if not cells:
                continue
            where = f"{name}: row {number}"
            if len(cells) != len(header):
                complaint = f"has {len(cells)} cells, expected {len(header)} ({', '.join(header)})"
                leave_out(f"{where}: {complaint}", where)
                continue
            fields: dict[str, Any] = {
                column: _parse_cell(cell)
                for index, (column, cell) in enumerate(zip(header, cells, strict=True))
                if index not in numbered
            }
            if numbered:
                fields["references"] = [cells[index] for index in numbered if cells[index].strip()]
            yield Row(where, fields)
    except UnicodeDecodeError:
        decode_text(content, name)  # raises InputError with the line
    except csv.Error as error:
        raise InputError(f"{name}: line {reader.line_num}: not valid delimited text ({error})") from None


def _read_numbered_captions(content: bytes, name: str) -> RowBlock:
    """Read Flickr8k and Flickr30k captions, ``1000.jpg#0<tab>A child …`` on each line, with the image's name as id."""
    ids, texts = [], []
    for number, line in enumerate(decode_text(content, name).removesuffix("\n").split("\n"), start=1):
        key, tab, text = line.partition("\t")
        if not tab or "#" not in key:
            raise InputError(f"{name}: line {number}: {line[:40]!r}, expected image#number, a tab and a caption")
        ids.append(key.rpartition("#")[0])
        texts.append(text.strip())
    return RowBlock(name, 1, {"id": ids, "caption": texts}, unit="line")


def _read_long_cells(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """Read rows with cells of any length. The limit of the csv module is global, so it is restored after each batch."""
    rows = [[""]]
    while rows:
        limit = csv.field_size_limit(2**31 - 1)
        try:
            rows = list(islice(reader, 1000))
        finally:
            csv.field_size_limit(limit)
        yield from rows


def read_spreadsheet(content: bytes, name: str, unpack_limit: int) -> Iterator[Row]:
    """Read the rows of the first sheet of a spreadsheet; its first row contains the column names.

    A cell with a formula error becomes None, and the place of its row names the error.
    """
    from captious.io._spreadsheets import ErrorCell, read_sheet

    rows = read_sheet(content, name, unpack_limit)
    first = next(rows, (0, []))[1]
    header = ["" if cell is None or isinstance(cell, ErrorCell) else str(cell).strip() for cell in first]
    named = [column for column in header if column]
    if not named:
        raise InputError(f"{name}: is empty, expected a header row and captions")
    refuse_repeated(named, f"{name}: row 1")
    for number, cells in rows:
        if all(cell is None for cell in cells):
            continue
        where = f"{name}: row {number}"
        if len(cells) > len(header):
            raise InputError(f"{where}: has {len(cells)} cells, expected {len(header)} ({', '.join(header)})")
        cells += [None] * (len(header) - len(cells))
        values = ["" if cell is None else _parse_cell(cell) if isinstance(cell, str) else cell for cell in cells]
        errors = [
            f"{cell.code} in {column}"
            for column, cell in zip(header, cells, strict=True)
            if column and isinstance(cell, ErrorCell)
        ]
        if errors:
            where = f"{where} ({', '.join(errors)})"
            values = [None if isinstance(value, ErrorCell) else value for value in values]
        yield Row(where, {column: value for column, value in zip(header, values, strict=True) if column})


def _is_quoted(content: bytes) -> bool:
    """Return True if quotation marks in a TSV file enclose cells, as CSV writers do, and are not part of the captions.

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


def _parse_cell(cell: str) -> Any:
    if cell.startswith("[") and cell.endswith("]"):
        try:
            value = json.loads(cell)
        except json.JSONDecodeError:
            return parse_printed_list(cell) or cell
        return value if isinstance(value, list) else cell
    return parse_printed_list(cell) or cell


def read_lines(content: bytes, name: str) -> Iterator[Row]:
    """Read one caption per line, with the ids 0, 1, 2, …; an empty line is an empty caption."""
    for number, line in enumerate(decode_text(content, name).removesuffix("\n").split("\n")):
        yield Row(f"{name}: line {number + 1}", {"id": number, "caption": line.strip()}, keyed=True, aligned=True)
