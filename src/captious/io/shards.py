"""Shards: finding the files of a source (`expand`), and reading one of them (`read_shard`).

A shard is a file of captions that fits into the memory of one worker and is read and scored separately.
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
from captious.errors import InputError, format_one_line
from captious.io._braces import expand_braces
from captious.io._harnesses import HARNESSES
from captious.io.arrow import read_parquet_blocks
from captious.io.columns import AMBIGUOUS
from captious.io.formats import FORMATS as TABLES
from captious.io.formats import GZIP, LINES, parse_rows, read_rows, unpack, unpack_parts
from captious.io.join import (
    REPEATED,
    SKIP_ONE,
    Gathered,
    gather_candidates,
    gather_references,
    generalize_complaint,
    join,
    select_caption_columns,
)
from captious.io.json_layouts import parse_json_row
from captious.io.read import refuse_unused
from captious.io.rows import Piece, Row, convert_to_utf8, refuse_unpacked
from captious.io.storage import MAGIC, Disk, Storage, is_remote, split_address
from captious.io.storage import Shard as Shard
from captious.io.tars import KEY, read_tar
from captious.options import Reading

# Formats of shards by the ending of a file's name; ``.gz`` may follow any of them. Lines of text have no ids.
FORMATS = {ending: name for ending, name in TABLES.items() if name not in (LINES, "xlsx")}
FORMATS |= {".tar": "tar", ".tgz": "tar"}
ENDINGS = ", ".join(FORMATS)
LONGEST_NAME, LONGEST_EXAMPLE = 120, 300
NO_ITEM = "a shard without an item"
NO_REFERENCES = "no references"
DAMAGED_GZIP = "damaged gzip"
HALF = "half a character, removed"


def guess_format(address: str) -> str | None:
    """Return the format according to the suffix of a file name; None if unknown."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(address).suffixes if suffix.lower() != ".gz"]
    return FORMATS.get(suffixes[-1]) if suffixes else None


def is_sharded(source: Any) -> bool:
    """Return True if a source means shards: a pattern, a remote address, or a folder of shards; False for one file.

    >>> is_sharded("shards/{000..499}.parquet"), is_sharded("captions.json"), is_sharded({"7": "a dog"})
    (True, False, False)
    """
    if not isinstance(source, (str, os.PathLike)):
        return False
    text = os.fspath(source)
    if _exists(text, Path.is_file):
        return guess_format(text) == "tar"
    if is_remote(text) or MAGIC.search(text) or next(expand_braces(text)) != text:
        return True
    files = Disk(text).sizes() if _exists(text, Path.is_dir) else {}
    return files.keys().isdisjoint(OWN) and any(map(guess_format, files))


def is_one_file(source: Any) -> bool:
    """Return True if a source is a single local file; a tar can then be read like other files."""
    return isinstance(source, (str, os.PathLike)) and _exists(os.fspath(source), Path.is_file)


def expand(source: Any, format: str | None = None) -> tuple[Shard, ...]:
    """Return the shards of a source in natural order: ``shard-2`` before ``shard-10``.

    Parameters
    ----------
    source
        A path, or an address with a scheme (``s3://…``), with braces (``{000..499}``, ``{train,val}``) and globs
        (``*``, ``?``, ``[0-9]``, ``**``); a folder, which means the shards directly in it; or a list of these.
    format
        The format of files whose suffix does not tell it.
    """
    if format in HARNESSES:
        raise InputError(f"format={format!r} is for one file, expected a single file in place of shards")
    sources = list(source) if isinstance(source, (list, tuple)) else [source]
    files: dict[str, int] = {}
    same: dict[str, str] = {}
    for one in sources:
        if not isinstance(one, (str, os.PathLike)):
            raise InputError(f"shards: {type(one).__name__}, expected a path, a pattern, an address or a list of these")
        for address, size in _find_files(os.fspath(one), format).items():
            identity = address if is_remote(address) else os.path.realpath(address)
            if identity in same:
                again = "" if same[identity] == address else f", also as {same[identity]}"
                raise InputError(f"{address}: is named more than once{again}, expected every shard once")
            same[identity] = address
            files[address] = size
    if not files:
        raise InputError("shards: none is named, expected a path, a pattern, an address or a list of these")
    _refuse_mixed(files, format)
    addresses = sorted(files, key=_get_natural_key)
    names = _make_unique_names(addresses)
    return tuple(Shard(name, address, files[address]) for name, address in zip(names, addresses, strict=True))


def _exists(path: str, kind: Callable[[Path], bool]) -> bool:
    try:
        return kind(Path(path))
    except (OSError, ValueError):  # too long for a name, or with a null byte
        return False


def _find_files(source: str, format: str | None) -> dict[str, int]:
    """Return the files of a path, a pattern or an address, with their sizes."""
    if not is_remote(source):
        source = source.removeprefix("file://")
    if _exists(source, Path.is_file):  # a name may hold braces and brackets
        return _check_formats({source: Path(source).stat().st_size}, source, format)
    members = list(expand_braces(source))
    files: dict[str, int] = {}
    for pattern in filter(MAGIC.search, members):
        files |= _match_pattern(pattern, source, format)
    plain = [member for member in members if not MAGIC.search(member)]
    sizes = _find_sizes(plain)
    if members == [source] and plain and source not in sizes:
        return _list_folder(source, format)
    if missing := [address for address in plain if address not in sizes]:
        if len(missing) == len(members):
            raise InputError(
                f"{source}: none of its {len(members):,} files is there; it expands to {_format_members(members)}"
            )
        raise InputError(
            f"{source}: {len(missing):,} of its {len(members):,} files {'is' if len(missing) == 1 else 'are'} missing, "
            f"the first is {missing[0]}"
        )
    return files | _check_formats(sizes, source, format)


def _format_members(members: Sequence[str]) -> str:
    return members[0] if len(members) == 1 else f"{members[0]}, …, {members[-1]}"


def _check_formats(files: Mapping[str, int], source: str, format: str | None) -> dict[str, int]:
    """Return the files. Raise InputError if one has an unknown format."""
    for address in files:
        if format is None and guess_format(address) is None:
            ending = PurePosixPath(address).suffix
            unknown = f"{address}: {f'ends in {ending}' if ending else 'has no ending'}"
            raise InputError(f"{unknown}, expected one of {ENDINGS}, or pass reading=Reading(format=...)")
    return dict(files)


def _match_pattern(pattern: str, source: str, format: str | None) -> dict[str, int]:
    """Return the files of known formats that match a glob, with their sizes."""
    folder, rest = split_address(pattern)
    storage = Storage.at(folder)
    files = {storage.get_address(name): size for name, size in storage.glob(rest).items()}
    shards = {address: size for address, size in files.items() if format or guess_format(address)}
    expanded = "" if pattern == source else f", which {source} expands to"
    if not files:
        raise InputError(f"{pattern}: matches no file{expanded}")
    if not shards:
        first = min(files, key=_get_natural_key)
        raise InputError(f"{pattern}: matches {len(files):,} files such as {first}, none of which ends in {ENDINGS}")
    return shards


def _list_folder(address: str, format: str | None) -> dict[str, int]:
    """Return the shards directly in a folder, with their sizes."""
    storage = Storage.at(address)
    if not is_remote(address) and not _exists(address, Path.is_dir):
        raise InputError(f"{address}: no such file, and no folder of shards")
    sizes = storage.sizes()
    if not sizes and guess_format(address):
        raise InputError(f"{address}: no such file")
    shards = {storage.get_address(name): size for name, size in sizes.items() if format or guess_format(name)}
    if not shards:
        deeper = "; pass a pattern such as " + storage.get_address("**/*.parquet") + " for shards in folders below"
        raise InputError(f"{address}: contains no file that ends in {ENDINGS}{deeper}")
    return shards


def _find_sizes(addresses: Sequence[str]) -> dict[str, int]:
    """Return the sizes of the files that exist. A folder in an object store is listed only once."""
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
    """Raise InputError if files have different formats: crawls often contain tables of the samples next to the tars."""
    counts = Counter(format or guess_format(address) for address in files)
    if len(counts) > 1:
        listed = " and ".join(f"{number:,} {name}" for name, number in counts.most_common())
        name, _ = counts.most_common(1)[0]
        raise InputError(
            f"shards: files of several formats ({listed}), expected one; pass a pattern such as '*.{name}'"
        )


def _get_natural_key(address: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return a sort key that compares digits as numbers."""
    parts = re.split(r"(\d+)", address)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part], address


_UNSAFE = re.compile(r"[^\w.+-]+")


def _make_unique_names(addresses: Sequence[str]) -> list[str]:
    """Make a name for each file: its stem, with as many parent folders as needed to make it unique.

    >>> _make_unique_names(["a/train/0.tar", "b/train/0.tar", "s3://bucket/c d/x.jsonl.gz"])
    ['a-train-0', 'b-train-0', 'x']
    """
    parts = [(*PurePosixPath(address.rpartition("://")[2]).parts[:-1], _get_stem(address)) for address in addresses]
    names = [_make_safe_name(one[-1:]) for one in parts]
    for depth in range(2, max(map(len, parts), default=0) + 1):
        repeated = _find_repeated(names)
        if not repeated:
            break
        names = [
            _make_safe_name(one[-depth:]) if name.casefold() in repeated else name
            for name, one in zip(names, parts, strict=True)
        ]
    repeated = _find_repeated(names)
    return [
        f"{name}-{digest(address.encode())}" if name.casefold() in repeated else name
        for name, address in zip(names, addresses, strict=True)
    ]


def _find_repeated(names: Sequence[str]) -> set[str]:
    """Return the names that occur more than once on a case-insensitive file system."""
    return {name for name, number in Counter(map(str.casefold, names)).items() if number > 1}


def _get_stem(address: str) -> str:
    """Return the name of a file without format suffixes."""
    path = PurePosixPath(address)
    while path.suffix.lower() in {".gz", *FORMATS}:
        path = path.with_suffix("")
    return path.name


def _make_safe_name(parts: Sequence[str]) -> str:
    name = "-".join(text for text in (_UNSAFE.sub("_", part).strip("._") for part in parts) if text) or "shard"
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{digest(name.encode())}"


@dataclass(frozen=True)
class ShardContent:
    """The captions of a shard, and the faults found while reading it."""

    captions: CaptionSet
    faults: Mapping[str, int] = field(default_factory=dict)
    """The number of rows, ids or samples that were left out, by reason."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """The first of each reason in full: file, row or key, what was found."""


@dataclass
class Faults:
    """Counts of unreadable rows by reason."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, example: str, number: int = 1) -> None:
        """Count a fault; the first of its reason is kept as the example."""
        self.counts[reason] += number
        self.examples.setdefault(reason, example[:LONGEST_EXAMPLE])


def read_shard(shard: Shard, reading: Reading = Reading(), images: bool = True, further: bool = True) -> ShardContent:
    """Read the captions of a shard.

    Unusable rows are left out and counted by reason, and so is the rest of a damaged tar or JSON Lines file. An id that
    occurs twice is counted in a tar and refused in a table, where several rows of an id usually form one item. Raise
    InputError if no row of a shard can be used; a shard without rows is empty.

    Parameters
    ----------
    shard
        A shard returned by `expand`.
    reading
        As in ``captious.read``. References that are not a column of the shards are a file by id, which each process
        reads once.
    images
        Whether to read the images and videos in the shard into the columns ``image`` and ``video``, as undecoded bytes.
    further
        Whether to read columns of a Parquet file other than ids and captions.
    """
    refuse_unused(reading)
    if reading.items is not None:
        raise InputError(f"items={reading.items!r} chooses among the items of one file, not of shards; leave it out")
    reading = reading if images else replace(reading, images=None, videos=None)
    faults = Faults()
    candidates = _gather_candidates(_read_rows(shard, reading, images, further, faults), shard, reading, faults)
    if candidates.event_files or reading.events is not None:
        raise InputError(f"{shard.address}: dense captions are read from a single file, not from shards; name one file")
    if not candidates.candidates:
        if faults.counts:
            raise InputError(f"{next(iter(faults.examples.values()))}; nothing of the shard can be used")
        faults.add(NO_ITEM, f"{shard.address}: contains no item")
        return _make_content(_make_empty_set(shard), faults)
    others = None if reading.references is None else _select_references(candidates, reading)
    references = candidates.references if others is None else others.references
    alone = sum(not references.get(key) for key in candidates.candidates) if others or references else 0
    if alone and reading.missing == "skip":
        first = next(key for key in candidates.candidates if not references.get(key))
        faults.add(NO_REFERENCES, f"{shard.address}: id {first!r} has no references", alone)
        if alone == len(candidates.candidates):
            return _make_content(replace(_make_empty_set(shard), skipped=alone), faults)
    return _make_content(join(candidates, others, reading, shard.address), faults)


def _make_content(captions: CaptionSet, faults: Faults) -> ShardContent:
    return ShardContent(captions, dict(faults.counts), faults.examples)


def _make_empty_set(shard: Shard) -> CaptionSet:
    return CaptionSet((), Ragged.of([]), Ragged.of([]), name=shard.address)


def _gather_candidates(rows: Iterable[Piece], shard: Shard, reading: Reading, faults: Faults) -> Gathered:
    """Collect candidates by id; unusable rows are counted as faults."""
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
        faults.add(generalize_complaint(complaint.removeprefix(f"{current.where}: ")), complaint)

    gathered = gather_candidates(rows, reading, complain, notice)
    # A row whose caption is of the wrong type leaves its id without a caption.
    for key in [key for key, texts in gathered.candidates.items() if not texts]:
        del gathered.candidates[key]
        gathered.references.pop(key, None)
    return gathered


def _read_rows(shard: Shard, reading: Reading, images: bool, further: bool, faults: Faults) -> Iterator[Piece]:
    """Yield the rows of a shard of any format."""
    name, format = shard.address, shard.format or reading.format
    with open_shard(shard) as file:
        if not shard.size:
            return
        if format == "parquet":
            choose = list if further else partial(select_caption_columns, reading=reading)
            yield from read_parquet_blocks(file, name, images, choose, reading.unpack_limit)
        elif format == "tar":
            yield from _read_tar(file, name, reading, images, faults)
        elif format == "jsonl":
            content = unpack_file(file, name, faults, limit=reading.unpack_limit).read()
            yield from _read_json_lines(content, name, faults)
        else:
            content = unpack_file(file, name, faults, limit=reading.unpack_limit).read()
            if DAMAGED_GZIP in faults.counts:
                raise InputError(faults.examples[DAMAGED_GZIP])
            if content.strip():
                yield from parse_rows(content, name, format, reading.unpack_limit)


@contextmanager
def open_shard(shard: Shard) -> Iterator[IO[bytes]]:
    """Open a shard. Raise InputError if its size has changed since the shards were listed."""
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
        raise InputError(f"{shard.address}: cannot be read ({format_one_line(error)})") from None


def _read_json_lines(content: bytes, name: str, faults: Faults) -> Iterator[Row]:
    """Yield the rows of a JSON Lines file; lines that are not JSON are counted as faults."""
    content = convert_to_utf8(content, name).removeprefix(codecs.BOM_UTF8)
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}: row {number}"
        try:
            row = parse_json_row(line, where, partial(faults.add, HALF))
        except InputError as error:
            faults.add("a line that is not a JSON object", str(error))
        else:
            yield row


def _read_tar(file: IO[bytes], name: str, reading: Reading, images: bool, faults: Faults) -> Iterator[Row]:
    """Yield the rows of a tar. Only texts are kept in memory; images are read from the file on access."""
    with unpack_file(file, name, faults, tempfile.TemporaryFile, reading.unpack_limit) as tar:
        source = os.fdopen(os.dup(tar.fileno()), "rb") if images else tar
        yield from read_tar(source, name, reading, images, faults.add)


def unpack_file(
    file: IO[bytes],
    name: str,
    faults: Faults,
    target: Callable[[], IO[bytes]] = io.BytesIO,
    limit: int = Reading.unpack_limit,
) -> IO[bytes]:
    """Return the file, or a decompressed copy of it; damage is counted as a fault."""
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


def _select_references(candidates: Gathered, reading: Reading) -> Gathered:
    """Return the references for the ids of a shard."""
    if not isinstance(reading.references, (str, os.PathLike)):
        kind = type(reading.references).__name__
        raise InputError(f"references: {kind}, expected the path of a file, which every worker reads")
    address = os.fspath(reading.references)
    stored = _read_references(
        address,
        _get_version(address),
        reading.unpack_limit,
        reading.id_column,
        reading.references_id_column,
        reading.references_column,
    )
    return Gathered(
        references={key: stored.references[key] for key in candidates.candidates if key in stored.references},
        fields={key: stored.fields[key] for key in candidates.candidates if key in stored.fields},
        references_column=stored.references_column,
    )


def _get_version(address: str) -> tuple[int | None, ...]:
    """Return a value that changes when a file is rewritten."""
    if is_remote(address):
        folder, name = split_address(address)
        return (Storage.at(folder).size(name),)
    try:
        state = Path(address).stat()
    except OSError:  # open() reports it
        return ()
    return state.st_mtime_ns, state.st_size, state.st_ino


@lru_cache(maxsize=1)
def _read_references(
    address: str, version: tuple[int | None, ...], unpack_limit: int, *columns: str | None
) -> Gathered:
    """Read all references of a file by id, once per process and version of the file."""
    reading = Reading(id_column=columns[0], references_id_column=columns[1], references_column=columns[2])
    if is_remote(address):
        folder, name = split_address(address)
        content = unpack(Storage.at(folder).read(name), address, unpack_limit)
        rows = parse_rows(content, address, unpack_limit=unpack_limit)
    else:
        rows = read_rows(address, role="references", unpack_limit=unpack_limit)
    return gather_references(rows, reading)
