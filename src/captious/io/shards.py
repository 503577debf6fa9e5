"""Shards: which files a source means (`expand`), and the captions of one of them (`read_shard`).

A shard is a file of captions, small enough for the memory of one worker, that is read and scored by itself.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from captious._core.files import OWN, digest
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError, one_line
from captious.io._braces import expand_braces
from captious.io._harnesses import HARNESSES
from captious.io.arrow import parquet_blocks
from captious.io.columns import AMBIGUOUS
from captious.io.formats import FORMATS as TABLES
from captious.io.formats import GZIP, LINES, rows_of, rows_of_content, unpack, unpack_parts
from captious.io.join import REPEATED, SKIP_ONE, Gathered, caption_columns, gather_candidates, gather_references, join
from captious.io.json_layouts import json_row
from captious.io.read import refuse_unused
from captious.io.rows import Piece, Row, in_utf8, refuse_unpacked
from captious.io.storage import MAGIC, Disk, Storage, is_remote, split_address
from captious.io.storage import Shard as Shard
from captious.io.tars import KEY, tar_rows
from captious.options import Reading

FORMATS = {ending: name for ending, name in TABLES.items() if name not in (LINES, "xlsx")}
FORMATS |= {".tar": "tar", ".tgz": "tar"}
"""Formats of shards by the ending of a file's name; ``.gz`` may follow any of them. Lines of text have no ids."""
ENDINGS = ", ".join(FORMATS)
LONGEST_NAME, LONGEST_EXAMPLE = 120, 300
NO_ITEM = "a shard without an item"
NO_REFERENCES = "no references"
DAMAGED_GZIP = "damaged gzip"
HALF = "half a character, removed"


def format_of(address: str) -> str | None:
    """The format that the ending of a file's name says; None where it says none."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(address).suffixes if suffix.lower() != ".gz"]
    return FORMATS.get(suffixes[-1]) if suffixes else None


def is_sharded(source: Any) -> bool:
    """Whether a source means shards: a pattern, an address with a scheme, a folder of shards; not one file.

    >>> is_sharded("shards/{000..499}.parquet"), is_sharded("captions.json"), is_sharded({"7": "a dog"})
    (True, False, False)
    """
    if not isinstance(source, (str, os.PathLike)):
        return False
    text = os.fspath(source)
    if _exists(text, Path.is_file):
        return format_of(text) == "tar"
    if is_remote(text) or MAGIC.search(text) or next(expand_braces(text)) != text:
        return True
    files = Disk(text).sizes() if _exists(text, Path.is_dir) else {}
    return files.keys().isdisjoint(OWN) and any(map(format_of, files))


def is_one_file(source: Any) -> bool:
    """Whether a source is a single file of this machine; a tar may then be read as any other file is."""
    return isinstance(source, (str, os.PathLike)) and _exists(os.fspath(source), Path.is_file)


def expand(source: Any, format: str | None = None) -> tuple[Shard, ...]:
    """The shards that a source means, in natural order: ``shard-2`` before ``shard-10``.

    Parameters
    ----------
    source
        A path, or an address with a scheme (``s3://…``), with braces (``{000..499}``, ``{train,val}``) and globs
        (``*``, ``?``, ``[0-9]``, ``**``); a folder, which means the shards directly in it; or a list of these.
    format
        The format of files whose names do not say it.
    """
    if format in HARNESSES:
        raise InputError(f"format={format!r} is for one file, expected a single file in place of shards")
    sources = list(source) if isinstance(source, (list, tuple)) else [source]
    files: dict[str, int] = {}
    same: dict[str, str] = {}
    for one in sources:
        if not isinstance(one, (str, os.PathLike)):
            raise InputError(f"shards: {type(one).__name__}, expected a path, a pattern, an address or a list of these")
        for address, size in _files_of(os.fspath(one), format).items():
            identity = address if is_remote(address) else os.path.realpath(address)
            if identity in same:
                again = "" if same[identity] == address else f", also as {same[identity]}"
                raise InputError(f"{address}: is named more than once{again}, expected every shard once")
            same[identity] = address
            files[address] = size
    if not files:
        raise InputError("shards: none is named, expected a path, a pattern, an address or a list of these")
    _refuse_mixed(files, format)
    addresses = sorted(files, key=_natural)
    names = _unique_names(addresses)
    return tuple(Shard(name, address, files[address]) for name, address in zip(names, addresses, strict=True))


def _exists(path: str, kind: Callable[[Path], bool]) -> bool:
    try:
        return kind(Path(path))
    except (OSError, ValueError):  # too long for a name, or with a null byte
        return False


def _files_of(source: str, format: str | None) -> dict[str, int]:
    """Files that a path, a pattern or an address means, with their sizes."""
    if not is_remote(source):
        source = source.removeprefix("file://")
    if _exists(source, Path.is_file):  # a name may hold braces and brackets
        return _known({source: Path(source).stat().st_size}, source, format)
    members = list(expand_braces(source))
    files: dict[str, int] = {}
    for pattern in filter(MAGIC.search, members):
        files |= _matches(pattern, source, format)
    plain = [member for member in members if not MAGIC.search(member)]
    sizes = _sizes(plain)
    if members == [source] and plain and source not in sizes:
        return _in_folder(source, format)
    if missing := [address for address in plain if address not in sizes]:
        if len(missing) == len(members):
            raise InputError(f"{source}: none of its {len(members):,} files is there; it expands to {_listed(members)}")
        raise InputError(
            f"{source}: {len(missing):,} of its {len(members):,} files {'is' if len(missing) == 1 else 'are'} missing, "
            f"the first is {missing[0]}"
        )
    return files | _known(sizes, source, format)


def _listed(members: Sequence[str]) -> str:
    return members[0] if len(members) == 1 else f"{members[0]}, …, {members[-1]}"


def _known(files: Mapping[str, int], source: str, format: str | None) -> dict[str, int]:
    """The files, all of which must be of a known format."""
    for address in files:
        if format is None and format_of(address) is None:
            ending = PurePosixPath(address).suffix
            unknown = f"{address}: {f'ends in {ending}' if ending else 'has no ending'}"
            raise InputError(f"{unknown}, expected one of {ENDINGS}, or pass reading=Reading(format=...)")
    return dict(files)


def _matches(pattern: str, source: str, format: str | None) -> dict[str, int]:
    """Files of known formats that a glob matches."""
    folder, rest = split_address(pattern)
    storage = Storage.at(folder)
    files = {storage.address_of(name): size for name, size in storage.glob(rest).items()}
    shards = {address: size for address, size in files.items() if format or format_of(address)}
    expanded = "" if pattern == source else f", which {source} expands to"
    if not files:
        raise InputError(f"{pattern}: matches no file{expanded}")
    if not shards:
        first = min(files, key=_natural)
        raise InputError(f"{pattern}: matches {len(files):,} files such as {first}, none of which ends in {ENDINGS}")
    return shards


def _in_folder(address: str, format: str | None) -> dict[str, int]:
    """The shards directly in a folder."""
    storage = Storage.at(address)
    if not is_remote(address) and not _exists(address, Path.is_dir):
        raise InputError(f"{address}: no such file, and no folder of shards")
    sizes = storage.sizes()
    if not sizes and format_of(address):
        raise InputError(f"{address}: no such file")
    shards = {storage.address_of(name): size for name, size in sizes.items() if format or format_of(name)}
    if not shards:
        deeper = "; pass a pattern such as " + storage.address_of("**/*.parquet") + " for shards in folders below"
        raise InputError(f"{address}: contains no file that ends in {ENDINGS}{deeper}")
    return shards


def _sizes(addresses: Sequence[str]) -> dict[str, int]:
    """Bytes of the files that exist. A folder of an object store is listed once; what it does not list is asked for."""
    split = [split_address(address) for address in addresses]
    stores = {folder: Storage.at(folder) for folder, _ in split}
    listed = {folder: store.sizes() for folder, store in stores.items() if is_remote(folder) and len(split) > 1}

    def size(folder: str, name: str) -> int | None:
        known = listed.get(folder)
        return known.get(name) if known else stores[folder].size(name)

    with ThreadPoolExecutor(16) as pool:
        sizes = list(pool.map(lambda one: size(*one), split)) if listed else [size(*one) for one in split]
    return {address: number for address, number in zip(addresses, sizes, strict=True) if number is not None}


def _refuse_mixed(files: Iterable[str], format: str | None) -> None:
    """One format for all: beside the tars of a crawl there often are tables of the same samples."""
    counts = Counter(format or format_of(address) for address in files)
    if len(counts) > 1:
        listed = " and ".join(f"{number:,} {name}" for name, number in counts.most_common())
        name, _ = counts.most_common(1)[0]
        raise InputError(
            f"shards: files of several formats ({listed}), expected one; pass a pattern such as '*.{name}'"
        )


def _natural(address: str) -> tuple[list[tuple[int, int, str]], str]:
    """A key that sorts digits as numbers."""
    parts = re.split(r"(\d+)", address)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part], address


_UNSAFE = re.compile(r"[^\w.+-]+")


def _unique_names(addresses: Sequence[str]) -> list[str]:
    """A name for each file: its stem, after the folders that tell it from others of that stem.

    >>> _unique_names(["a/train/0.tar", "b/train/0.tar", "s3://bucket/c d/x.jsonl.gz"])
    ['a-train-0', 'b-train-0', 'x']
    """
    parts = [(*PurePosixPath(address.rpartition("://")[2]).parts[:-1], _stem(address)) for address in addresses]
    names = [_safe(one[-1:]) for one in parts]
    for depth in range(2, max(map(len, parts), default=0) + 1):
        repeated = _repeated(names)
        if not repeated:
            break
        names = [
            _safe(one[-depth:]) if name.casefold() in repeated else name for name, one in zip(names, parts, strict=True)
        ]
    repeated = _repeated(names)
    return [
        f"{name}-{digest(address.encode())}" if name.casefold() in repeated else name
        for name, address in zip(names, addresses, strict=True)
    ]


def _repeated(names: Sequence[str]) -> set[str]:
    """Names that occur more than once on a file system that does not tell upper from lower case."""
    return {name for name, number in Counter(map(str.casefold, names)).items() if number > 1}


def _stem(address: str) -> str:
    """The name of a file without the endings of formats."""
    path = PurePosixPath(address)
    while path.suffix.lower() in {".gz", *FORMATS}:
        path = path.with_suffix("")
    return path.name


def _safe(parts: Sequence[str]) -> str:
    name = "-".join(text for text in (_UNSAFE.sub("_", part).strip("._") for part in parts) if text) or "shard"
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{digest(name.encode())}"


@dataclass(frozen=True)
class ShardContent:
    """The captions of a shard, and what of it could not be read."""

    captions: CaptionSet
    faults: Mapping[str, int] = field(default_factory=dict)
    """How often each reason occurred to leave something out."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """The first of each reason in full: file, row or key, what was found."""


@dataclass
class Faults:
    """What could not be read, counted by reason."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, example: str, number: int = 1) -> None:
        """Count a fault; the first of its reason is the example."""
        self.counts[reason] += number
        self.examples.setdefault(reason, example[:LONGEST_EXAMPLE])


def read_shard(shard: Shard, reading: Reading = Reading(), images: bool = True, further: bool = True) -> ShardContent:
    """The captions of a shard.

    A row that cannot be used is left out and counted by its reason. So is the rest of a tar, or of JSON Lines, that is
    damaged. An id that a tar holds twice is counted; one that a table holds twice is refused, because several rows of
    an id are mostly meant to be one item. A shard of which nothing can be used is an `InputError`, but one without any
    row is empty.

    Parameters
    ----------
    shard
        One of those that `expand` gives.
    reading
        As in ``captious.read``. References, where they are no column of the shards, are a file by id, which is read
        once by each process; of its ids those of the shard are used.
    images
        Whether images in the shard are wanted. If not, they are not read; otherwise they are the column ``image``, as
        bytes that are not decoded.
    further
        Whether other columns than ids and captions are wanted. If not, those of a Parquet file are not read.
    """
    refuse_unused(reading)
    if reading.items is not None:
        raise InputError(f"items={reading.items!r} chooses among the items of one file, not of shards; leave it out")
    reading = reading if images else replace(reading, images=None)
    faults = Faults()
    candidates = _candidates(_rows(shard, reading, images, further, faults), shard, reading, faults)
    if not candidates.candidates:
        if faults.counts:
            raise InputError(f"{next(iter(faults.examples.values()))}; nothing of the shard can be used")
        faults.add(NO_ITEM, f"{shard.address}: contains no item")
        return _content(_empty(shard), faults)
    others = None if reading.references is None else _references_of(candidates, reading)
    references = candidates.references if others is None else others.references
    alone = sum(not references.get(key) for key in candidates.candidates) if others or references else 0
    if alone and reading.missing == "skip":
        first = next(key for key in candidates.candidates if not references.get(key))
        faults.add(NO_REFERENCES, f"{shard.address}: id {first!r} has no references", alone)
        if alone == len(candidates.candidates):
            return _content(replace(_empty(shard), skipped=alone), faults)
    return _content(join(candidates, others, reading, shard.address), faults)


def _content(captions: CaptionSet, faults: Faults) -> ShardContent:
    return ShardContent(captions, dict(faults.counts), faults.examples)


def _empty(shard: Shard) -> CaptionSet:
    return CaptionSet((), Ragged.of([]), Ragged.of([]), name=shard.address)


def _candidates(rows: Iterable[Piece], shard: Shard, reading: Reading, faults: Faults) -> Gathered:
    """Candidates by id; rows that cannot be used are counted."""
    tar = shard.format == "tar"
    reading = replace(reading, id_column=reading.id_column or KEY) if tar else reading
    current = Row("", {})

    def notice(row: Row) -> None:
        nonlocal current
        current = row

    def complain(complaint: str) -> None:
        if (REPEATED in complaint and not tar) or AMBIGUOUS in complaint:
            raise InputError(complaint)
        complaint = complaint.removesuffix(SKIP_ONE)
        faults.add(_reason(complaint.removeprefix(f"{current.where}: ")), complaint)

    gathered = gather_candidates(rows, reading, complain, notice)
    # A row whose caption is of the wrong type leaves its id without a caption.
    for key in [key for key, texts in gathered.candidates.items() if not texts]:
        del gathered.candidates[key]
        gathered.references.pop(key, None)
    return gathered


_DETAILS = re.compile(r" ?\(.*| ?: found .*|,? expected .*", re.DOTALL)
_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|-?\b\d[\d.e+-]*\b")


def _reason(complaint: str) -> str:
    """A complaint about a row without the values that make it different from others of its kind.

    >>> _reason("caption is null (None), expected a string"), _reason("id is 1.5, expected a string")
    ('caption is null', 'id is …')
    """
    return _VALUE.sub("…", _DETAILS.sub("", complaint))


def _rows(shard: Shard, reading: Reading, images: bool, further: bool, faults: Faults) -> Iterator[Piece]:
    """Rows of a shard of any format."""
    name, format = shard.address, shard.format or reading.format
    with open_shard(shard) as file:
        if not shard.size:
            return
        if format == "parquet":
            choose = list if further else partial(caption_columns, reading=reading)
            yield from parquet_blocks(file, name, images, choose, reading.unpack_limit)
        elif format == "tar":
            yield from _tar_rows(file, name, reading, images, faults)
        elif format == "jsonl":
            content = unpacked(file, name, faults, limit=reading.unpack_limit).read()
            yield from _json_lines(content, name, faults)
        else:
            content = unpacked(file, name, faults, limit=reading.unpack_limit).read()
            if DAMAGED_GZIP in faults.counts:
                raise InputError(faults.examples[DAMAGED_GZIP])
            if content.strip():
                yield from rows_of_content(content, name, format, reading.unpack_limit)


@contextmanager
def open_shard(shard: Shard) -> Iterator[IO[bytes]]:
    """A shard that has the size it had when the shards were listed."""
    folder, name = split_address(shard.address)
    storage = Storage.at(folder)
    try:
        with storage.open_large(name) if shard.format == "tar" else storage.open(name) as file:
            size = file.seek(0, io.SEEK_END)
            if size != shard.size:
                raise InputError(f"{shard.address}: has {size} bytes, had {shard.size} when the shards were listed")
            file.seek(0)
            yield file
    except OSError as error:
        raise InputError(f"{shard.address}: cannot be read ({one_line(error)})") from None


def _json_lines(content: bytes, name: str, faults: Faults) -> Iterator[Row]:
    """Rows of a JSON Lines file; lines that are no JSON are counted."""
    content = in_utf8(content, name).removeprefix(codecs.BOM_UTF8)
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}: row {number}"
        try:
            row = json_row(line, where, partial(faults.add, HALF))
        except InputError as error:
            faults.add("a line that is not a JSON object", str(error))
        else:
            yield row


def _tar_rows(file: IO[bytes], name: str, reading: Reading, images: bool, faults: Faults) -> Iterator[Row]:
    """Rows of a tar, of which only texts are in memory. Images are read from the file when somebody looks at them."""
    with unpacked(file, name, faults, tempfile.TemporaryFile, reading.unpack_limit) as tar:
        source = os.fdopen(os.dup(tar.fileno()), "rb") if images else tar
        yield from tar_rows(source, name, reading, images, faults.add)


def unpacked(
    file: IO[bytes],
    name: str,
    faults: Faults,
    target: Callable[[], IO[bytes]] = io.BytesIO,
    limit: int = Reading.unpack_limit,
) -> IO[bytes]:
    """The file, or a new one with what can be unpacked of it where it is compressed; damage is counted."""
    compressed, size = file.read(len(GZIP)) == GZIP, file.seek(0, io.SEEK_END)
    file.seek(0)
    if not compressed:
        return file
    out, start = target(), 0
    try:
        for part in unpack_parts(file):
            if part is None:
                start = out.tell()
                continue
            out.write(part)
            refuse_unpacked(out.tell(), size, limit, name)
    except EOFError as error:
        faults.add(DAMAGED_GZIP, f"{name}: damaged gzip file ({error})")
    except zlib.error as error:
        faults.add(DAMAGED_GZIP, f"{name}: damaged gzip file ({error})")
        out.truncate(start)
    out.seek(0)
    return out


def _references_of(candidates: Gathered, reading: Reading) -> Gathered:
    """The references of the ids of a shard."""
    if not isinstance(reading.references, (str, os.PathLike)):
        kind = type(reading.references).__name__
        raise InputError(f"references: {kind}, expected the path of a file, which every worker reads")
    address = os.fspath(reading.references)
    stored = _read_references(
        address,
        _version(address),
        reading.unpack_limit,
        reading.id_column,
        reading.references_id_column,
        reading.references_column,
    )
    return Gathered(
        references={key: stored.references[key] for key in candidates.candidates if key in stored.references},
        fields={key: stored.fields[key] for key in candidates.candidates if key in stored.fields},
    )


def _version(address: str) -> tuple[int | None, ...]:
    """What changes when somebody writes a file."""
    if is_remote(address):
        folder, name = split_address(address)
        return (Storage.at(folder).size(name),)
    try:
        state = Path(address).stat()
    except OSError:  # whoever reads it says so
        return ()
    return state.st_mtime_ns, state.st_size, state.st_ino


@lru_cache(maxsize=1)
def _read_references(
    address: str, version: tuple[int | None, ...], unpack_limit: int, *columns: str | None
) -> Gathered:
    """All references of a file by id, once a process for each version of the file."""
    reading = Reading(id_column=columns[0], references_id_column=columns[1], references_column=columns[2])
    if is_remote(address):
        folder, name = split_address(address)
        content = unpack(Storage.at(folder).read(name), address, unpack_limit)
        rows = rows_of_content(content, address, unpack_limit=unpack_limit)
    else:
        rows = rows_of(address, role="references", unpack_limit=unpack_limit)
    return gather_references(rows, reading)
