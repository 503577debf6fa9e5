"""Conversion of every source to rows: files of any format, standard input, and objects in memory."""

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

from captious._core.files import RUN, read_regular
from captious.captions import CaptionSet, Item
from captious.errors import InputError
from captious.io._dense_layouts import group_event_rows
from captious.io._harnesses import HARNESSES, Harness, find_harness, translate_row
from captious.io.columns import ID_COLUMNS
from captious.io.json_layouts import read_document, read_json, read_json_lines, read_mapping, read_records
from captious.io.rows import (
    EXPECTED,
    LeaveOut,
    Piece,
    Row,
    RowBlock,
    convert_to_utf8,
    decode_text,
    describe_value,
    is_suspicious,
    refuse_row,
    refuse_unpacked,
    remove_halves,
)
from captious.options import Reading

# Bytes that are unpacked at a time.
PART = 1 << 20
# First bytes of compressed files.
GZIP = b"\x1f\x8b"
# Roles of objects that hold texts; the others hold ratings or scores.
_TEXTS = ("captions", "references")


def read_rows(
    source: Any,
    format: str | None = None,
    role: str = "captions",
    ids: Sequence[str] | None = None,
    harnesses: bool = True,
    unpack_limit: int = Reading.unpack_limit,
) -> Iterator[Row]:
    """Yield the rows of a path, of ``-`` for standard input, or of an object, called ``role`` in messages.

    A list of texts, or of lists of texts, is read by position: its rows get the ids in ``ids``, or 0, 1, 2, … Without
    ``harnesses`` no columns of a file are renamed: those of questions look like a harness's log of answers.
    """
    return _iterate_rows(read_pieces(source, format, role, ids, harnesses, Reading(unpack_limit=unpack_limit)))


def read_pieces(
    source: Any,
    format: str | None = None,
    role: str = "captions",
    ids: Sequence[str] | None = None,
    harnesses: bool = True,
    reading: Reading = Reading(),
    cleaned: list[str] | None = None,
    leave_out: LeaveOut = refuse_row,
    remarks: list[str] | None = None,
) -> Iterator[Piece]:
    """Yield the rows of a source like `read_rows`, but in blocks if they are read by column.

    Places of rows from which a lone surrogate was removed are added to ``cleaned``, and sentences about what was not
    read to ``remarks``. ``leave_out`` is called for rows of JSON Lines, CSV and TSV that cannot be parsed. With
    ``reading.events``, a table with the columns of an event is one of dense captions even if it has more columns; with
    ``reading.frames``, numbered images of a tar are frames.
    """
    name = get_name(source, role)
    if (files := find_files(source)) is not None:
        return _read_files(files, format, reading)
    if not isinstance(source, (str, os.PathLike)):
        rows = _read_object(source, name, role, ids)
        always = reading.events is not None
        return group_event_rows(_translate_pieces(rows, get_harness(format)), name, always) if role in _TEXTS else rows
    content = _read_content(source, reading.unpack_limit)
    return _parse_pieces(content, name, format, harnesses, reading, cleaned, leave_out, remarks)


def _iterate_rows(pieces: Iterable[Piece]) -> Iterator[Row]:
    for piece in pieces:
        if isinstance(piece, RowBlock):
            yield from piece
        else:
            yield piece


class FileList(tuple[str, ...]):
    """Several files of references, whose captions are combined by id; not to be confused with a list of texts."""


def find_files(source: Any) -> FileList | None:
    """Return the files of a list of paths; None for other sources. A path is a `Path`, because a string may be a text.

    >>> find_files([Path("val_1.json"), Path("val_2.json")]), find_files(["a dog", "a cat"])
    (('val_1.json', 'val_2.json'), None)
    """
    if isinstance(source, FileList):
        return source
    is_list = isinstance(source, (list, tuple)) and bool(source) and all(isinstance(one, Path) for one in source)
    return FileList(map(str, source)) if is_list else None


def _read_files(files: FileList, format: str | None, reading: Reading) -> Iterator[Piece]:
    """Yield the rows of all files; files with one caption per line must have the same number of lines."""
    lengths: dict[str, int] = {}
    paths: set[str] = set()
    for file in files:
        if (path := os.path.realpath(file)) in paths:  # its captions would count twice, as in SODA's recall
            raise InputError(f"{file}: is given twice, expected different files of references")
        paths.add(path)
        rows = list(_iterate_rows(read_pieces(file, format, reading=reading)))
        if rows and rows[0].aligned:
            lengths[file] = len(rows)
            first, number = next(iter(lengths.items()))
            if len(rows) != number:
                raise InputError(f"{file}: has {len(rows):,} lines, {first} has {number:,}, expected as many in each")
        yield from rows


def get_harness(format: str | None) -> Harness | None:
    """Return the format if it is the name of a harness, else None."""
    return cast("Harness", format) if format in HARNESSES else None


def parse_rows(
    content: bytes, name: str, format: str | None = None, unpack_limit: int = Reading.unpack_limit
) -> Iterator[Row]:
    """Yield the rows of the unpacked content of a file; ``name`` is used in messages."""
    return _iterate_rows(_parse_pieces(content, name, format, True, Reading(unpack_limit=unpack_limit)))


def _parse_pieces(
    content: bytes,
    name: str,
    format: str | None,
    harnesses: bool,
    reading: Reading,
    cleaned: list[str] | None = None,
    leave_out: LeaveOut = refuse_row,
    remarks: list[str] | None = None,
) -> Iterator[Piece]:
    harness = get_harness(format)
    content = convert_to_utf8(content, name)
    format = _guess_format(name, content) if format is None or harness else format
    if format == WEBDATASET:
        rows: Iterator[Piece] = _read_webdataset(content, name, reading, remarks)
    elif format in BINARY:
        rows = BINARY[format](content, name, reading.unpack_limit)
    else:
        content = _replace_nulls(content, name)
        rows = _READERS[format](content, name, leave_out)
    if harnesses:
        rows = group_event_rows(_translate_pieces(rows, harness), name, reading.events is not None)
    is_text = format not in (*BINARY, WEBDATASET)
    return _remove_halves(rows, cleaned) if is_text and is_suspicious(content) else rows


def _replace_nulls(content: bytes, name: str) -> bytes:
    """Replace a few null bytes by another control character, which is removed from captions later.

    Python's csv reader refuses null bytes before version 3.11.
    """
    number = content.count(b"\0")
    if number > max(len(content) // 50, 1):
        offset = content.find(b"\0")
        raise InputError(
            f"{name}: byte {offset} is null, expected text in UTF-8; is it UTF-16, or no text at all? UTF-16 is "
            f"converted by: iconv -f UTF-16{'LE' if offset % 2 else 'BE'} -t UTF-8 OLD > NEW"
        )
    return content.replace(b"\0", b"\1") if number else content


def _translate_pieces(pieces: Iterator[Piece], harness: Harness | None) -> Iterator[Piece]:
    """Rename the columns of a harness's log; the first row tells which harness, unless it is given.

    Rows without an id, as trainers log them, are numbered 0, 1, 2, …
    """
    first = next(pieces, None)
    if first is None:
        return
    row = first[0] if isinstance(first, RowBlock) else first
    harness = harness or find_harness(row.fields)
    if harness is None:
        yield first
        yield from pieces
        return
    for number, row in enumerate(_iterate_rows(chain([first], pieces))):
        yield Row(row.where, {"id": number, **translate_row(harness, row.fields, row.where)}, keyed=True)


def _remove_halves(pieces: Iterator[Piece], cleaned: list[str] | None) -> Iterator[Piece]:
    """Yield the rows without lone surrogates; a value nested too deeply raises InputError."""
    for row in _iterate_rows(pieces):
        yield remove_halves(row, None if cleaned is None else cleaned.append)


def get_name(source: Any, role: str = "captions") -> str:
    """Return the name of a source in messages: the path of a file, the name of a set, else the role."""
    if (files := find_files(source)) is not None:
        return " and ".join(files)
    if isinstance(source, (str, os.PathLike)):
        return "standard input" if str(source) == "-" else os.fsdecode(source)
    return source.name if isinstance(source, CaptionSet) and role == "captions" else role


def get_stem(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without folder and format suffixes.

    >>> get_stem("runs/model-0.2.jsonl.gz"), get_stem("v1.5")
    ('model-0.2', 'v1.5')
    """
    stem = Path(path)
    while stem.suffix.lower() in {".gz", *FORMATS}:
        stem = stem.with_suffix("")
    return stem.name or os.fspath(path)


def name_files(systems: Sequence[str], folder: Path = Path()) -> dict[str, str]:
    """Map system names to files: the part before ``=``, or the file's stem with its folder or a number if it repeats.

    >>> name_files(("runs/a.json", "runs/b.v2.jsonl.gz", "old/a.json", "RL=ck1/results.json"))
    {'runs-a': 'runs/a.json', 'b.v2': 'runs/b.v2.jsonl.gz', 'old-a': 'old/a.json', 'RL': 'ck1/results.json'}
    """
    names, paths = [], []
    for system in systems:
        name, equals, path = system.partition("=")
        if not equals or not name or (folder / system).exists():
            name, path = get_stem(system), system
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


def describe_repeated_files(systems: Sequence[str], folder: Path = Path()) -> list[str]:
    """Return a line for each file that is given twice and not named, which is nearly always a mistake.

    >>> describe_repeated_files(["p.json", "q.json", "./p.json", "twin=p.json"])
    ["p.json is given twice, as 'p' and 'p-2'"]
    """
    names: dict[Path, list[str]] = {}
    for system, (name, path) in zip(systems, name_files(systems, folder).items(), strict=True):
        if system == path:
            names.setdefault(Path(path), []).append(name)
    times = {2: "twice"}
    return [
        f"{path} is given {times.get(len(own), f'{len(own)} times')}, as {' and '.join(map(repr, own))}"
        for path, own in names.items()
        if len(own) > 1
    ]


def _read_object(source: Any, name: str, role: str, ids: Sequence[str] | None) -> Iterator[Piece]:
    """Yield the rows of a Python object."""
    if isinstance(source, CaptionSet):
        return _read_items(source, name, role)
    if isinstance(source, Mapping):
        _refuse_splits(source, name)
        return read_document(source, name)
    if hasattr(source, "to_dict") and hasattr(source, "iloc"):  # pandas: a frame, or a series of captions
        if not hasattr(source, "columns"):
            return read_mapping(source.to_dict(), name)
        from captious.io.arrow import read_frame

        return read_frame(source, name)
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        from captious.io.arrow import read_table

        return read_table(source, name)
    if isinstance(source, (bytes, bytearray, memoryview, set, frozenset, type)) or not isinstance(source, Iterable):
        raise InputError(f"{name}: {describe_value(source)}, expected {_describe_expected(role)}")
    entries = source if isinstance(source, (list, tuple)) else list(source)
    first = entries[0] if entries else None
    if isinstance(first, Item):
        return _read_items(entries, name, role)
    if isinstance(first, (str, list, tuple, np.ndarray)):
        return _read_by_position(entries, name, ids)
    if not entries or isinstance(first, Mapping):
        return read_records(entries, name)
    texts = "a caption, a list of captions, or a record with id and caption" if role in _TEXTS else "a record"
    raise InputError(f"{name}: entry 1: is {describe_value(first)}, expected {texts}")


def _refuse_splits(source: Mapping[Any, Any], name: str) -> None:
    """Raise InputError for a Hugging Face DatasetDict: the user has to pass one of its splits."""
    first = next(iter(source.values()), None)
    if hasattr(first, "features") and hasattr(first, "info"):
        splits = ", ".join(map(str, source))
        raise InputError(
            f"{name}: is a {type(source).__name__} with the splits {splits}; pass one of them, such as "
            f"data[{str(next(iter(source)))!r}]"
        )


def _describe_expected(role: str) -> str:
    return EXPECTED if role in _TEXTS else "a path, a data frame, an Arrow table or a list of records"


def _read_by_position(entries: Sequence[Any], name: str, ids: Sequence[str] | None) -> Iterator[Row]:
    keys: Sequence[Any] = range(len(entries)) if ids is None else ids
    if len(entries) != len(keys):
        transposed = all(isinstance(entry, (list, tuple)) and len(entry) == len(keys) for entry in entries)
        hint = f"; if each list is one reference of every caption, pass list(zip(*{name}))" if transposed else ""
        raise InputError(f"{name}: {len(entries)} for {len(keys)} captions, expected one each, in their order{hint}")
    for number, (key, entry) in enumerate(zip(keys, entries, strict=True), start=1):
        yield Row(f"{name}: entry {number}", {"id": key, "caption": entry}, keyed=True, aligned=None)


def _read_items(items: Iterable[Any], name: str, role: str) -> Iterator[Row]:
    """Yield the rows of items; in the role of references, their references or else their candidates."""
    for number, item in enumerate(items, start=1):
        if not isinstance(item, Item):
            raise InputError(f"{name}: entry {number}: is {describe_value(item)}, expected an Item")
        texts: dict[str, Any] = {"candidates": item.candidates}
        if role != "captions":
            texts = {"references": item.references or item.candidates}
        elif item.references:
            texts["references"] = item.references
        yield Row(f"{name}: id {item.id!r}", {"id": item.id, **texts, **item.fields})


def read_text(path: str | Path) -> str:
    """Read a text file, decompressed if necessary."""
    return decode_text(_read_content(path), get_name(path))


def _read_content(source: str | os.PathLike[str], unpack_limit: int = Reading.unpack_limit) -> bytes:
    name = get_name(source)
    try:
        content = sys.stdin.buffer.read() if name == "standard input" else read_regular(source)
    except FileNotFoundError:
        expected = f", expected {EXPECTED}" if isinstance(source, str) and _is_caption(name) else ""
        raise InputError(f"{name}: no such file{expected}") from None
    except IsADirectoryError:
        files = sorted(path.name for path in Path(name).iterdir() if path.suffix in (".jsonl", ".json", ".csv"))
        such = f", such as {Path(name) / files[0]}" if files else ""
        if any(Path(name).glob(f"*/{RUN}")):
            such = f"; the folder contains runs: name them, such as {Path(name) / '*'}"
        raise InputError(f"{name}: is a folder, expected a file of captions{such}") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror})") from None
    return unpack(content, name, unpack_limit)


def unpack(content: bytes, name: str, limit: int = Reading.unpack_limit) -> bytes:
    """Return the content, decompressed if it is gzip. Raise InputError if there is only white space."""
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
    """Decompress a gzip file in parts, so that the caller can stop early; yield None after each complete member."""
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
    """Return True if a text that is no file looks like a caption: several words, and no file suffix."""
    return len(text.split()) > 1 and not re.search(r"\.\w{1,8}$", text)


def _guess_format(name: str, content: bytes) -> str:
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


def _read_webdataset(content: bytes, name: str, reading: Reading, remarks: list[str] | None) -> Iterator[Row]:
    """Yield a row per sample of a WebDataset tar. Raise InputError at the first damage or sample without a caption."""
    from captious.io.tars import KEY, NUMBERED, read_tar

    def refuse(reason: str, example: str) -> None:
        if reason != NUMBERED:
            raise InputError(example)
        if remarks is not None:
            remarks.append(example)

    for row in read_tar(io.BytesIO(content), name, Reading(frames=reading.frames), True, refuse):
        yield Row(row.where, {**row.fields, "id": row.fields[KEY]}, keyed=True)


def _read_delimited(content: bytes, name: str, leave_out: LeaveOut, delimiter: str) -> Iterator[Piece]:
    from captious.io._delimited import read_delimited

    return read_delimited(content, name, delimiter, leave_out)


def _read_lines(content: bytes, name: str, leave_out: LeaveOut) -> Iterator[Piece]:
    from captious.io._delimited import read_lines

    return read_lines(content, name)


def _read_spreadsheet(content: bytes, name: str, unpack_limit: int) -> Iterator[Piece]:
    from captious.io._delimited import read_spreadsheet

    return read_spreadsheet(content, name, unpack_limit)


def _read_parquet(content: bytes, name: str, unpack_limit: int) -> Iterator[Piece]:
    from captious.io.arrow import parse_parquet

    return parse_parquet(content, name, unpack_limit)


_READERS: dict[str, Callable[[bytes, str, LeaveOut], Iterator[Piece]]] = {
    "json": read_json,
    "jsonl": read_json_lines,
    "csv": partial(_read_delimited, delimiter=","),
    "tsv": partial(_read_delimited, delimiter="\t"),
    "txt": _read_lines,
}
LINES = "txt"
# Formats that are no text; their readers know how much a part may unpack to.
BINARY: dict[str, Callable[[bytes, str, int], Iterator[Piece]]] = {
    "parquet": _read_parquet,
    "xlsx": _read_spreadsheet,
}
WEBDATASET = "webdataset"
FORMATS = {f".{name}": name for name in (*_READERS, *BINARY)}
FORMATS |= {".ndjson": "jsonl", ".pq": "parquet", ".tar": WEBDATASET, ".tgz": WEBDATASET}
