"""Every source as rows: files of any format, standard input, and objects in memory."""

from __future__ import annotations

import io
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from captious._core.files import read_regular
from captious.captions import CaptionSet, Item
from captious.errors import InputError
from captious.io._delimited import delimited_rows, line_rows, spreadsheet_rows
from captious.io._harnesses import HARNESSES, Harness, harness_of, translated
from captious.io.arrow import frame_rows, parquet_content, table_rows
from captious.io.columns import ID_COLUMNS
from captious.io.json_layouts import document_rows, json_document, json_lines, mapping_rows, record_rows
from captious.io.rows import (
    EXPECTED,
    Piece,
    Row,
    RowBlock,
    decoded,
    described,
    in_utf8,
    is_suspicious,
    refuse_unpacked,
    remove_halves,
)
from captious.options import Reading

PART = 1 << 20
"""Bytes that are unpacked at a time."""
GZIP = b"\x1f\x8b"
"""How a compressed file begins."""
_TEXTS = ("captions", "references")
"""Roles of objects that hold texts; the others hold ratings or scores."""


def rows_of(
    source: Any,
    format: str | None = None,
    role: str = "captions",
    ids: Sequence[str] | None = None,
    harnesses: bool = True,
    unpack_limit: int = Reading.unpack_limit,
) -> Iterator[Row]:
    """Rows of a path, of ``-`` for standard input, or of an object in memory, which messages call by its ``role``.

    A list of texts, or of lists of texts, is read by position: its rows have the ids ``ids``, else 0, 1, 2, … Without
    ``harnesses`` no columns of a file are renamed: those of questions look like a harness's log of answers.
    """
    return _singly(pieces_of(source, format, role, ids, harnesses, unpack_limit))


def pieces_of(
    source: Any,
    format: str | None = None,
    role: str = "captions",
    ids: Sequence[str] | None = None,
    harnesses: bool = True,
    unpack_limit: int = Reading.unpack_limit,
    cleaned: list[str] | None = None,
) -> Iterator[Piece]:
    """The same, with those rows in blocks that were read by columns.

    Places of rows that lost half a character in any column are added to ``cleaned``.
    """
    name = name_of(source, role)
    if isinstance(source, FileList):
        return _rows_of_files(source, format, unpack_limit)
    if not isinstance(source, (str, os.PathLike)):
        rows = _objects(source, name, role, ids)
        return _of_harness(rows, named_harness(format)) if role in _TEXTS else rows
    content = _content(source, unpack_limit)
    return _pieces_of_content(content, name, format, harnesses, unpack_limit, cleaned)


def _singly(pieces: Iterable[Piece]) -> Iterator[Row]:
    for piece in pieces:
        if isinstance(piece, RowBlock):
            yield from piece
        else:
            yield piece


class FileList(tuple[str, ...]):
    """Several files of references, whose captions of one id add up; a list of texts in memory is no such thing."""


def _rows_of_files(files: FileList, format: str | None, unpack_limit: int) -> Iterator[Piece]:
    """The rows of all files; of files with a caption on each line, all must have as many lines."""
    lengths: dict[str, int] = {}
    for file in files:
        rows = list(rows_of(file, format, unpack_limit=unpack_limit))
        if rows and rows[0].aligned:
            lengths[file] = len(rows)
            first, number = next(iter(lengths.items()))
            if len(rows) != number:
                raise InputError(f"{file}: has {len(rows):,} lines, {first} has {number:,}, expected as many in each")
        yield from rows


def named_harness(format: str | None) -> Harness | None:
    """The harness that a format names, if it names one."""
    return cast("Harness", format) if format in HARNESSES else None


def rows_of_content(
    content: bytes, name: str, format: str | None = None, unpack_limit: int = Reading.unpack_limit
) -> Iterator[Row]:
    """Rows of the unpacked content of a file; ``name`` is what messages call it."""
    return _singly(_pieces_of_content(content, name, format, True, unpack_limit))


def _pieces_of_content(
    content: bytes,
    name: str,
    format: str | None,
    harnesses: bool,
    unpack_limit: int,
    cleaned: list[str] | None = None,
) -> Iterator[Piece]:
    harness = named_harness(format)
    content = in_utf8(content, name)
    format = _format_of(name, content) if format is None or harness else format
    if format in BINARY:
        rows = BINARY[format](content, name, unpack_limit)
    else:
        content = _without_nulls(content, name)
        rows = _READERS[format](content, name)
    rows = _of_harness(rows, harness) if harnesses else rows
    return _sound(rows, cleaned) if format not in BINARY and is_suspicious(content) else rows


def _without_nulls(content: bytes, name: str) -> bytes:
    """Text with a null byte here and there as text with another control character, which is removed from captions.

    Python's reader of CSV refuses null bytes before version 3.11.
    """
    number = content.count(b"\0")
    if number > max(len(content) // 50, 1):
        offset = content.find(b"\0")
        raise InputError(
            f"{name}: byte {offset} is null, expected text in UTF-8; is it UTF-16, or no text at all? UTF-16 is "
            f"converted by: iconv -f UTF-16{'LE' if offset % 2 else 'BE'} -t UTF-8 OLD > NEW"
        )
    return content.replace(b"\0", b"\1") if number else content


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


def _sound(pieces: Iterator[Piece], cleaned: list[str] | None) -> Iterator[Piece]:
    """The rows without halves of characters (lone surrogates), up to one with a value nested too deeply."""
    for row in _singly(pieces):
        yield remove_halves(row, None if cleaned is None else cleaned.append)


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


def repeated_files(systems: Sequence[str], folder: Path = Path()) -> list[str]:
    """Return a line for each file that is given twice and not named, which is nearly always a mistake.

    >>> repeated_files(["p.json", "q.json", "./p.json", "twin=p.json"])
    ["p.json is given twice, as 'p' and 'p-2'"]
    """
    names: dict[Path, list[str]] = {}
    for system, (name, path) in zip(systems, named_files(systems, folder).items(), strict=True):
        if system == path:
            names.setdefault(Path(path), []).append(name)
    times = {2: "twice"}
    return [
        f"{path} is given {times.get(len(own), f'{len(own)} times')}, as {' and '.join(map(repr, own))}"
        for path, own in names.items()
        if len(own) > 1
    ]


def _objects(source: Any, name: str, role: str, ids: Sequence[str] | None) -> Iterator[Piece]:
    """Rows of what Python programs hold."""
    if isinstance(source, CaptionSet):
        return _items(source, name, role)
    if isinstance(source, Mapping):
        _refuse_splits(source, name)
        return document_rows(source, name)
    if hasattr(source, "to_dict") and hasattr(source, "iloc"):  # pandas: a frame, or a series of captions
        return frame_rows(source, name) if hasattr(source, "columns") else mapping_rows(source.to_dict(), name)
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return table_rows(source, name)
    if isinstance(source, (bytes, bytearray, memoryview, set, frozenset, type)) or not isinstance(source, Iterable):
        raise InputError(f"{name}: {described(source)}, expected {_expected(role)}")
    entries = source if isinstance(source, (list, tuple)) else list(source)
    first = entries[0] if entries else None
    if isinstance(first, Item):
        return _items(entries, name, role)
    if isinstance(first, (str, list, tuple, np.ndarray)):
        return _by_position(entries, name, ids)
    if not entries or isinstance(first, Mapping):
        return record_rows(entries, name)
    texts = "a caption, a list of captions, or a record with id and caption" if role in _TEXTS else "a record"
    raise InputError(f"{name}: entry 1: is {described(first)}, expected {texts}")


def _refuse_splits(source: Mapping[Any, Any], name: str) -> None:
    """Refuse a DatasetDict of Hugging Face, whose values are data sets: one of its splits is meant."""
    first = next(iter(source.values()), None)
    if hasattr(first, "features") and hasattr(first, "info"):
        splits = ", ".join(map(str, source))
        raise InputError(
            f"{name}: is a {type(source).__name__} with the splits {splits}; pass one of them, such as "
            f"data[{str(next(iter(source)))!r}]"
        )


def _expected(role: str) -> str:
    return EXPECTED if role in _TEXTS else "a path, a data frame, an Arrow table or a list of records"


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
            raise InputError(f"{name}: entry {number}: is {described(item)}, expected an Item")
        texts: dict[str, Any] = {"candidates": item.candidates}
        if role != "captions":
            texts = {"references": item.references or item.candidates}
        elif item.references:
            texts["references"] = item.references
        yield Row(f"{name}: id {item.id!r}", {"id": item.id, **texts, **item.fields})


def read_text(path: str | Path) -> str:
    """The text of a file, unpacked where it is compressed."""
    return decoded(_content(path), name_of(path))


def _content(source: str | os.PathLike[str], unpack_limit: int = Reading.unpack_limit) -> bytes:
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
    return unpack(content, name, unpack_limit)


def unpack(content: bytes, name: str, limit: int = Reading.unpack_limit) -> bytes:
    """The content of a file, unpacked where it is compressed; nothing but white space is refused."""
    if content[:2] == GZIP:
        parts, size = [], 0
        try:
            for part in filter(None, unpack_parts(io.BytesIO(content))):
                parts.append(part)
                size += len(part)
                refuse_unpacked(size, len(content), limit, name)
        except (EOFError, zlib.error) as error:
            raise InputError(f"{name}: damaged gzip file ({error})") from None
        content = b"".join(parts)
    if not content or content.isspace():
        raise InputError(f"{name}: is empty, expected captions")
    return content


def unpack_parts(file: IO[bytes]) -> Iterator[bytes | None]:
    """Unpack a gzip file part by part, so that whoever counts them can stop; None after each member that is whole."""
    packed = file.read(PART)
    while packed:
        if not packed.strip(b"\0"):  # padding behind the last member
            packed = file.read(PART)
            continue
        unpacker = zlib.decompressobj(wbits=31)
        while packed and not unpacker.eof:
            part = bytes(PART)
            while len(part) == PART:  # otherwise more is waiting inside
                part = unpacker.decompress(packed, PART)
                packed = unpacker.unconsumed_tail
                yield part
            packed = unpacker.unused_data or file.read(PART)
        if not unpacker.eof:
            raise EOFError("cut short")
        yield None


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


def _webdataset(content: bytes, name: str, unpack_limit: int) -> Iterator[Row]:
    """Rows of a tar of WebDataset, a sample each; the first damage or sample without a caption is refused."""
    from captious.io.tars import KEY, tar_rows

    def refuse(reason: str, example: str) -> None:
        raise InputError(example)

    for row in tar_rows(io.BytesIO(content), name, Reading(), True, refuse):
        yield Row(row.where, {**row.fields, "id": row.fields[KEY]}, keyed=True)


_READERS: dict[str, Callable[[bytes, str], Iterator[Piece]]] = {
    "json": json_document,
    "jsonl": json_lines,
    "csv": partial(delimited_rows, delimiter=","),
    "tsv": partial(delimited_rows, delimiter="\t"),
    "txt": line_rows,
}
LINES = "txt"
BINARY: dict[str, Callable[[bytes, str, int], Iterator[Piece]]] = {
    "parquet": parquet_content,
    "xlsx": spreadsheet_rows,
    "webdataset": _webdataset,
}
"""Formats that are no text; their readers know how much a part may unpack to."""
FORMATS = {f".{name}": name for name in (*_READERS, *BINARY) if name != "webdataset"}
FORMATS |= {".ndjson": "jsonl", ".pq": "parquet", ".tar": "webdataset", ".tgz": "webdataset"}
