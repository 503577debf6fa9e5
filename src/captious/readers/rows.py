"""What every format is turned into first: rows that remember where they came from."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captious.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class Row:
    """One record and its place in the source, such as ``preds.jsonl: row 17``."""

    where: str
    fields: dict[str, Any]


FORMATS = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def rows_of(source: Any, format: str | None = None) -> Iterator[Row]:
    """Rows of a path, ``-`` for standard input, a dictionary, or a pandas or Arrow table."""
    from captious.readers import delimited, json_files, jsonl, tabular

    if isinstance(source, dict):
        return json_files.mapping_rows(source, "dict")
    if isinstance(source, (list, tuple)):
        return json_files.record_rows(source, "list")
    if not isinstance(source, (str, Path)):
        return tabular.table_rows(source, type(source).__name__)
    name, content = name_of(source), _content(source)
    kind = format or _format_of(name, content)
    if kind == "json":
        return json_files.rows(content, name)
    if kind == "jsonl":
        return jsonl.rows(content, name)
    if kind in ("csv", "tsv"):
        return delimited.rows(content, name, "\t" if kind == "tsv" else ",")
    if kind == "parquet":
        return tabular.parquet_rows(content, name)
    known = sorted(set(FORMATS.values()))
    raise InputError(f"{name}: unknown format {kind!r}, expected one of {', '.join(known)}{nearest(kind, known)}")


def name_of(source: Any) -> str:
    """What messages call a source."""
    if isinstance(source, (str, Path)):
        return "standard input" if str(source) == "-" else str(source)
    return type(source).__name__


def text_of(content: bytes, name: str) -> str:
    """Decode UTF-8, with or without a byte-order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name}: line {line}: byte 0x{content[error.start]:02x} at offset {error.start} is not UTF-8"
        ) from None


def _content(source: str | Path) -> bytes:
    name = name_of(source)
    try:
        content = sys.stdin.buffer.read() if name == "standard input" else Path(source).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{name}: is a folder, expected a file of captions") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror})") from None
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise InputError(f"{name}: damaged gzip file ({error})") from None
    if not content.strip():
        raise InputError(f"{name}: is empty, expected captions")
    return content


def _format_of(name: str, content: bytes) -> str:
    suffixes = [suffix for suffix in Path(name).suffixes if suffix != ".gz"]
    if suffixes and suffixes[-1].lower() in FORMATS:
        return FORMATS[suffixes[-1].lower()]
    if content[:4] == b"PAR1":
        return "parquet"
    first_line = content.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
    if first_line[:1] in (b"{", b"["):
        return "json"
    return "tsv" if b"\t" in first_line else "csv"
