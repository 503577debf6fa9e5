"""Tables and documents as data at full precision: CSV, Parquet, JSON, pandas. NaN becomes null only here."""

from __future__ import annotations

import csv
import io
import json
import math
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from captious._version import __version__
from captious.render._cells import has_interval
from captious.render.document import Cell, Column, Document, Phrase, Table


def to_json_value(value: Any) -> Any:
    """Convert a value for JSON: NaN and infinities are null, arrays are lists, dataclasses are objects.

    >>> to_json_value({"a": float("nan"), "b": np.array([1.0, np.inf]), "c": (np.int64(3), True)})
    {'a': None, 'b': [1.0, None], 'c': [3, True]}
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Phrase):
        return str(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (np.bool_, np.integer)):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): to_json_value(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return to_json_value(value.tolist())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json_value(entry) for entry in value]
    if is_dataclass(value) and not isinstance(value, type):
        return to_json_value(asdict(value))
    return str(value)


def dumps(value: Any, indent: int | None = 2) -> str:
    """Return strict JSON text: no NaN, non-ASCII characters as they are."""
    return json.dumps(to_json_value(value), indent=indent, ensure_ascii=False, allow_nan=False)


def to_json(document: Document) -> str:
    """Return the document as JSON text: answer, data or else tables, warnings, notes and signatures."""
    data = document.data or {"tables": {key: get_records(table) for key, table in document.tables.items()}}
    lines = {"warnings": document.warnings, "notes": document.notes, "signatures": document.signatures}
    answer = {"answer": document.answer_text} if document.answer else {}
    return dumps({**get_provenance(), "title": document.title, **answer, **lines, **data}) + "\n"


def get_provenance() -> dict[str, Any]:
    """Return the versions of captious, Python and NumPy, and the operating system."""
    environment = {"python": platform.python_version(), "numpy": np.__version__, "system": platform.system()}
    return {"captious": __version__, "environment": environment}


def get_columns(table: Table) -> dict[str, list[Any]]:
    """Return plain values by column; intervals and standard deviations have columns of their own."""
    plain: dict[str, list[Any]] = {}
    for index, column in enumerate(table.heads):
        cells = [row[index] for row in table.rows]
        name = _make_unique_name(column, plain)
        plain[name] = to_json_value([cell.value if isinstance(cell, Cell) else cell for cell in cells])
        spreads = {"low": any(map(has_interval, cells)), "high": any(map(has_interval, cells))}
        spreads["sd"] = any(isinstance(cell, Cell) and not math.isnan(cell.sd) for cell in cells)
        for part in (part for part, wanted in spreads.items() if wanted):
            ends = [getattr(cell, part) if isinstance(cell, Cell) else None for cell in cells]
            plain[f"{name}_{part}"] = to_json_value(ends)
    return plain


def get_records(table: Table) -> list[dict[str, Any]]:
    """Return a dictionary per row."""
    plain = get_columns(table)
    return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]


def write_csv(table: Table | Mapping[str, Iterable[Any]], path: Path) -> None:
    """Write a table, or columns, in the format of `format_csv`, one row at a time."""
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        _write_csv(table, file)


def format_csv(table: Table | Mapping[str, Iterable[Any]]) -> str:
    """Format a table, or columns, as CSV: a missing number is an empty field, and the texts of a list are joined by
    bars.

    A text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    file = io.StringIO()
    _write_csv(table, file)
    return file.getvalue()


def _write_csv(table: Table | Mapping[str, Iterable[Any]], file: TextIO) -> None:
    plain = get_columns(table) if isinstance(table, Table) else table
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_quote_formula, plain))
    for row in zip(*plain.values(), strict=True):
        writer.writerow(
            _quote_formula(" | ".join(cell) if isinstance(cell, (list, tuple)) else to_json_value(cell)) for cell in row
        )


# Beginning of a text that a spreadsheet would take for a formula; a signed number is no formula.
_FORMULA = re.compile(r"[=+\-@\t](?![\d.,]+$)")


def _quote_formula(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would take for a formula.

    >>> _quote_formula("=1+1"), _quote_formula("-12.5"), _quote_formula("a - b"), _quote_formula(-1.5)
    ("'=1+1", '-12.5', 'a - b', -1.5)
    """
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\r\n", "\n").replace("\r", "\n")  # before Python 3.13, csv does not quote "\r"
    return f"'{text}" if _FORMULA.match(text) else text


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object per line."""
    with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.writelines(_encode_line(row) + "\n" for row in rows)


_PLAIN = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def _encode_line(row: Mapping[str, Any]) -> str:
    """Encode a row as one line of strict JSON. Most rows are plain values, which need no converted copy."""
    # The encoder raises ValueError for NaN and TypeError for arrays; only then is a converted copy made.
    try:
        return _PLAIN.encode(row)
    except (ValueError, TypeError):
        return dumps(row, indent=None)


def write_parquet(path: Path, values: Mapping[str, Any]) -> None:
    """Write columns as a Parquet file, with the types of ``to_arrow``."""
    import pyarrow.parquet as pq

    pq.write_table(to_arrow(values), path)


def write_parquet_parts(path: Path, parts: Iterable[Any]) -> None:
    """Write Arrow tables with the same columns into one file; only one is in memory at a time."""
    import pyarrow.parquet as pq

    parts = iter(parts)
    first = next(parts)
    with pq.ParquetWriter(path, first.schema) as writer:
        for part in chain([first], parts):
            writer.write_table(part)


def to_arrow(values: Mapping[str, Any]) -> Any:
    """Convert columns to an Arrow table; values without a common Arrow type become JSON text."""
    import pyarrow as pa

    arrow = (pa.Array, pa.ChunkedArray)
    return pa.table({name: one if isinstance(one, arrow) else _make_array(list(one)) for name, one in values.items()})


def _make_array(values: Sequence[Any]) -> Any:
    import pyarrow as pa

    try:
        if not any(isinstance(value, Mapping) for value in values):
            return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        pass
    return pa.array([json.dumps(to_json_value(value)) for value in values], pa.string())


def _make_unique_name(column: Column, taken: Mapping[str, Any]) -> str:
    """Return a column's name in files, with a number if it is taken."""
    name = column.key or re.sub(r"\W+", "_", column.name.lower()).strip("_") or "column"
    number = 2
    unique = name
    while unique in taken:
        unique, number = f"{name}_{number}", number + 1
    return unique
