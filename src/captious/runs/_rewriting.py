"""Shards written again with only the items that pass a filter; rows and archive members are unchanged.

One worker reads, filters and writes a shard. A shard is finished if its file exists, so the same call resumes an
interrupted one.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from captious._core.files import digest, refuse_unwritable
from captious._version import __version__
from captious.engines.tasks import run_tasks
from captious.errors import InputError
from captious.io.arrow import open_parquet, read_parquet
from captious.io.join import get_row_id
from captious.io.json_layouts import parse_json_row
from captious.io.rows import Row
from captious.io.shards import Faults, Shard, open_shard, unpack_file
from captious.io.storage import Storage, is_remote
from captious.io.tars import BLOCK, KEY, iterate_members, read_samples, split_key
from captious.options import LARGEST, Engine, Reading, get_runtime
from captious.runs.filters import Filter, attach, connect
from captious.runs.folder import Run

# The file in a folder of rewritten shards with their filter, and the digest of their scores.
MARKER = "captious-selection.json"
# The size of a tar file is a multiple of this number of bytes.
RECORD = 10_240


def rewrite_shards(
    scores: Run,
    filter: Filter,
    thresholds: Mapping[str, float],
    out: str,
    engine: Engine,
    overwrite: bool,
    step: Callable[[str], None],
    named: str,
    types: Mapping[str, str],
    ids: Mapping[str, frozenset[str]] | None = None,
) -> None:
    """Write every shard with the items that pass; shards that are written already are skipped.

    ``named`` says how the items were selected. ``ids`` are those that pass, by shard, if the filter was narrowed
    further; ``types`` are the columns of all parts.
    """
    shards, reading = find_writable_shards(scores)
    target = Storage.at(out)
    files = {shard: format_file_name(shard, reading) for shard in shards}
    _claim_folder(
        target, files.values(), {"filter": named, "scores": digest(scores.marker.to_json().encode())}, overwrite
    )
    names = set(target.names())
    left = [shard for shard in shards if files[shard] not in names]
    step(f"writing {len(left):,} shards")
    rewriting = Rewriting(
        replace(scores, address=_make_absolute(scores.address)), filter, thresholds, _make_absolute(out), reading, types
    )
    failures: dict[str, str] = {}
    empty = frozenset[str]()
    tasks = [
        (replace(shard, address=_make_absolute(shard.address)), None if ids is None else ids.get(shard.name, empty))
        for shard in left
    ]
    for number, end in enumerate(run_tasks(rewriting, tasks, engine), start=1):
        if end.error:
            failures[left[end.index].name] = end.error
        get_runtime().progress("shards written", len(shards) - len(left) + number, len(shards))
    if failures:
        name, why = next(iter(failures.items()))
        raise InputError(
            f"{out}: {len(failures):,} of {len(shards):,} shards failed, such as {name}: {why}; run it again to resume"
        )


def find_writable_shards(scores: Run) -> tuple[list[Shard], Reading]:
    """Return the shards of a run and how they were read; raise InputError if they cannot be rewritten."""
    shards = [shard for shard in scores.marker.shards if shard.name in scores.marker.parts]
    if not shards:
        raise InputError(f"{scores.address}: was scored from a file, not from shards; pass write='ids' instead")
    reading = _restore_reading(scores.marker.reading)
    refuse_formats(shards, reading)
    return shards, reading


def _make_absolute(address: str) -> str:
    """Return the address in a form that does not depend on the working folder."""
    return address if is_remote(address) else str(Path(address).absolute())


def refuse_formats(shards: Iterable[Shard], reading: Reading) -> None:
    """Raise InputError if a shard has a format that cannot be rewritten."""
    for shard in shards:
        format = shard.format or reading.format
        if format not in WRITERS:
            known = ", ".join(f".{name}" for name in WRITERS)
            raise InputError(f"{shard.address}: is {format}, write='shards' writes {known}; pass write='ids' instead")


def _restore_reading(facts: Mapping[str, Any]) -> Reading:
    """Return the reading options that determine the id of each row."""
    names = ("several", "format", "id_column", "candidate_column", "references_column")
    return Reading(**{name: facts[name] for name in names if name in facts})


def _claim_folder(target: Storage, files: Iterable[str], facts: Mapping[str, str], overwrite: bool) -> None:
    """Start in an empty folder, or resume in one that was begun with the same filter and scores."""
    record = {"captious": __version__, **facts}
    if not is_remote(target.address):
        refuse_unwritable(Path(target.address))
    if target.exists(MARKER):
        try:
            stored = json.loads(target.read(MARKER))
        except ValueError:
            stored = None
        if stored == record and not overwrite:
            return
        if not overwrite:
            before = stored.get("filter") if isinstance(stored, dict) else None
            why = f"were selected by {before!r}" if before != record["filter"] else "come from other scores"
            remedy = "pass overwrite=True to replace them, or name another folder"
            raise InputError(f"{target.address}: contains shards that {why}; {remedy}")
        for name in files:
            target.remove(name)
    elif target.names():
        raise InputError(f"{target.address}: exists and was not written by captious (no {MARKER}); name another folder")
    target.write(MARKER, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


def format_file_name(shard: Shard, reading: Reading) -> str:
    """Return the file name of a rewritten shard: its name with the extension of its format."""
    ending = ".gz" if shard.address.lower().endswith(".gz") else ""
    return f"{shard.name}.{shard.format or reading.format}{ending}"


@dataclass(frozen=True)
class Rewriting:
    """Picklable setup of a worker that rewrites shards."""

    scores: Run
    filter: Filter
    thresholds: Mapping[str, float]
    out: str
    reading: Reading
    types: Mapping[str, str]

    def __call__(self) -> Callable[[tuple[Shard, frozenset[str] | None]], int]:
        """Return the function that rewrites one shard; its ids are given, or None to apply the filter."""
        return self.rewrite

    def rewrite(self, task: tuple[Shard, frozenset[str] | None]) -> int:
        """Write one shard and return the number of items that pass."""
        shard, known = task
        ids = self._select_ids(shard.name) if known is None else known
        with open_shard(shard) as file:
            write = WRITERS[shard.format or self.reading.format or ""]
            content = write(file, shard, self.reading, ids) if shard.size else b""
        Storage.at(self.out).write(format_file_name(shard, self.reading), content)
        return len(ids)

    def _select_ids(self, shard: str) -> frozenset[str]:
        connection = connect(threads=1)
        attach(connection, "run0", [self.scores.storage.get_address(self.scores.items_name(shard))], self.types)
        condition = self.filter.condition(self.thresholds)
        rows = connection.execute(f'SELECT id FROM "run0" WHERE {condition.sql}', condition.parameters).fetchall()
        return frozenset(row[0] for row in rows)


def _filter_parquet(file: IO[bytes], shard: Shard, reading: Reading, ids: Collection[str]) -> bytes:
    """Return the Parquet file with only the rows of these ids, row group by row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    passes = [_get_id(row, reading) in ids for row in read_parquet(file, shard.address, images=False)]
    file.seek(0)
    source, content, start = open_parquet(file), io.BytesIO(), 0
    compression = source.metadata.row_group(0).column(0).compression if source.metadata.num_row_groups else "SNAPPY"
    with pq.ParquetWriter(content, source.schema_arrow, compression=compression) as writer:
        for group in range(source.metadata.num_row_groups):
            table = source.read_row_group(group)
            writer.write_table(table.filter(pa.array(passes[start : start + len(table)], pa.bool_())))
            start += len(table)
    return content.getvalue()


def _filter_jsonl(file: IO[bytes], shard: Shard, reading: Reading, ids: Collection[str]) -> bytes:
    """Return the lines of these ids, byte for byte."""
    lines = []
    for line in unpack_file(file, shard.address, Faults(), limit=LARGEST).read().splitlines(keepends=True):
        try:
            row = parse_json_row(line.lstrip(b"\xef\xbb\xbf"), shard.address) if line.strip() else None
        except InputError:
            continue  # it was left out when the shard was scored
        if row is not None and _get_id(row, reading) in ids:
            lines.append(line if line.endswith(b"\n") else line + b"\n")
    return _compress_like(b"".join(lines), shard)


def _filter_tar(file: IO[bytes], shard: Shard, reading: Reading, ids: Collection[str]) -> bytes:
    """Return the archive members of these ids with their headers, byte for byte."""
    tar = unpack_file(file, shard.address, Faults(), limit=LARGEST)
    reading = replace(reading, id_column=reading.id_column or KEY)
    samples = read_samples(tar, shard.address, reading, False, _ignore_fault)
    keys = {key for key, row in samples if _get_id(row, reading) in ids}
    # Copy the bytes of a member with its header and padding, and with headers of other kinds before it:
    #   begin ─▶ [PAX header …] [header] [content, padded to 512 bytes] ◀─ end
    parts, begin = [], 0
    for member in iterate_members(tar, shard.address, _ignore_fault):
        end = member.start + -(-member.size // BLOCK) * BLOCK
        if split_key(member.name)[0] in keys:
            tar.seek(begin)
            parts.append(tar.read(end - begin))
        begin = end
    content = b"".join(parts) + bytes(2 * BLOCK)
    return _compress_like(content + bytes(-len(content) % RECORD), shard)


def _get_id(row: Row, reading: Reading) -> str | None:
    """Return the id of a row, or None if it has no valid one."""
    return get_row_id(row, reading.id_column, lambda complaint: None)


def _compress_like(content: bytes, shard: Shard) -> bytes:
    """Compress the content if the shard was compressed. The gzip time is 0, so equal content gives equal bytes."""
    return gzip.compress(content, mtime=0) if shard.address.lower().endswith(".gz") else content


def _ignore_fault(reason: str, example: str) -> None:
    """Ignore a fault: faults were counted when the shard was scored."""


WRITERS: dict[str, Callable[[IO[bytes], Shard, Reading, Collection[str]], bytes]] = {
    "parquet": _filter_parquet,
    "jsonl": _filter_jsonl,
    "tar": _filter_tar,
}
