"""CSV and TSV with a header line."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from captious.errors import InputError
from captious.readers.rows import Row, text_of

_QUOTED_CELL = re.compile(r'(?:^|\t)"(?:[^"\t\n]|"")*[\t\n](?:[^"]|"")*"(?:\t|\r?$)', re.MULTILINE)
NUMBERED_REFERENCE = re.compile(r"ref(?:erence)?s?[ _-]?\d+", re.IGNORECASE)


def rows(content: bytes, name: str, delimiter: str) -> Iterator[Row]:
    """Rows of a delimited file.

    Columns ``reference_1``, ``reference_2``, … are gathered into ``references``; a cell that holds a JSON list is one.
    """
    text = text_of(content, name)
    # Captions with a quotation mark here and there are common in TSV, where nothing needs quoting.
    bare = delimiter == "\t" and not _QUOTED_CELL.search(text)
    quoting: Literal[0, 3] = csv.QUOTE_NONE if bare else csv.QUOTE_MINIMAL
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting, strict=True)
    try:
        header = [column.strip() for column in next(reader, [])]
        if not header:
            raise InputError(f"{name}: is empty, expected a header line and captions")
        numbered = [index for index, column in enumerate(header) if NUMBERED_REFERENCE.fullmatch(column)]
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
    except csv.Error as error:
        raise InputError(f"{name}: line {reader.line_num}: not valid delimited text ({error})") from None


def _cell(cell: str) -> Any:
    if cell.startswith("[") and cell.endswith("]"):
        try:
            value = json.loads(cell)
        except json.JSONDecodeError:
            return cell
        return value if isinstance(value, list) else cell
    return cell
