"""The shards that were scored, written again with the items that pass a filter: rows and members as they were.

A shard is read, filtered and written whole by one worker. Its file says that it is finished, so the same call again
goes on where the last one stopped.
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

MARKER = "captious-selection.json"
"""The file in a folder of rewritten shards that says what they were selected by, and from which scores."""
RECORD = 10_240
"""Bytes of which a tar has a multiple."""


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
    """Write every shard with the items that pass; those that are written already are skipped.

    ``named`` says how the items were selected. ``ids`` are those that pass, by shard, where the filter alone does not
    say it; ``types`` are the columns of all parts.
    """
    shards, reading = shards_to_write(scores)
    target = Storage.at(out)
    files = {shard: file_name(shard, reading) for shard in shards}
    _claim(target, files.values(), {"filter": named, "scores": digest(scores.marker.to_json().encode())}, overwrite)
    there = set(target.names())
    left = [shard for shard in shards if files[shard] not in there]
    step(f"writing {len(left):,} shards")
    rewriting = Rewriting(
        replace(scores, address=_absolute(scores.address)), filter, thresholds, _absolute(out), reading, types
    )
    failures: dict[str, str] = {}
    empty = frozenset[str]()
    tasks = [
        (replace(shard, address=_absolute(shard.address)), None if ids is None else ids.get(shard.name, empty))
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


def shards_to_write(scores: Run) -> tuple[list[Shard], Reading]:
    """The shards of a run and how they were read; a run of a file, or of shards that cannot be written, is refused."""
    shards = [shard for shard in scores.marker.shards if shard.name in scores.marker.parts]
    if not shards:
        raise InputError(f"{scores.address}: was scored from a file, not from shards; pass write='ids' instead")
    reading = _reading(scores.marker.reading)
    refuse_formats(shards, reading)
    return shards, reading


def _absolute(address: str) -> str:
    """An address that means the same in every working folder."""
    return address if is_remote(address) else str(Path(address).absolute())


def refuse_formats(shards: Iterable[Shard], reading: Reading) -> None:
    """Shards of a format that cannot be written as they were."""
    for shard in shards:
        format = shard.format or reading.format
        if format not in WRITERS:
            known = ", ".join(f".{name}" for name in WRITERS)
            raise InputError(f"{shard.address}: is {format}, write='shards' writes {known}; pass write='ids' instead")


def _reading(facts: Mapping[str, Any]) -> Reading:
    """How the shards were read, as far as it decides which row has which id."""
    names = ("several", "format", "id_column", "candidate_column", "references_column")
    return Reading(**{name: facts[name] for name in names if name in facts})


def _claim(target: Storage, files: Iterable[str], facts: Mapping[str, str], overwrite: bool) -> None:
    """Begin in an empty folder, or go on in one that was begun with the same filter and scores."""
    record = {"captious": __version__, **facts}
    if not is_remote(target.address):
        refuse_unwritable(Path(target.address))
    if target.exists(MARKER):
        try:
            there = json.loads(target.read(MARKER))
        except ValueError:
            there = None
        if there == record and not overwrite:
            return
        if not overwrite:
            before = there.get("filter") if isinstance(there, dict) else None
            why = f"were selected by {before!r}" if before != record["filter"] else "come from other scores"
            remedy = "pass overwrite=True to replace them, or name another folder"
            raise InputError(f"{target.address}: contains shards that {why}; {remedy}")
        for name in files:
            target.remove(name)
    elif target.names():
        raise InputError(f"{target.address}: exists and was not written by captious (no {MARKER}); name another folder")
    target.write(MARKER, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


def file_name(shard: Shard, reading: Reading) -> str:
    """The file of a rewritten shard: its name, and the ending of its format."""
    ending = ".gz" if shard.address.lower().endswith(".gz") else ""
    return f"{shard.name}.{shard.format or reading.format}{ending}"


@dataclass(frozen=True)
class Rewriting:
    """The setup that workers get."""

    scores: Run
    filter: Filter
    thresholds: Mapping[str, float]
    out: str
    reading: Reading
    types: Mapping[str, str]

    def __call__(self) -> Callable[[tuple[Shard, frozenset[str] | None]], int]:
        """The function of a shard and of the ids that pass, where they are known."""
        return self.rewrite

    def rewrite(self, task: tuple[Shard, frozenset[str] | None]) -> int:
        """Write a shard; gives how many of its items pass."""
        shard, known = task
        ids = self._passing(shard.name) if known is None else known
        with open_shard(shard) as file:
            write = WRITERS[shard.format or self.reading.format or ""]
            content = write(file, shard, self.reading, ids) if shard.size else b""
        Storage.at(self.out).write(file_name(shard, self.reading), content)
        return len(ids)

    def _passing(self, shard: str) -> frozenset[str]:
        connection = connect(threads=1)
        attach(connection, "run0", [self.scores.storage.get_address(self.scores.items_name(shard))], self.types)
        condition = self.filter.condition(self.thresholds)
        rows = connection.execute(f'SELECT id FROM "run0" WHERE {condition.sql}', condition.parameters).fetchall()
        return frozenset(row[0] for row in rows)


def _parquet(file: IO[bytes], shard: Shard, reading: Reading, ids: Collection[str]) -> bytes:
    """The rows of a Parquet file, row group by row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    passes = [_id(row, reading) in ids for row in read_parquet(file, shard.address, images=False)]
    file.seek(0)
    source, content, start = open_parquet(file), io.BytesIO(), 0
    compression = source.metadata.row_group(0).column(0).compression if source.metadata.num_row_groups else "SNAPPY"
    with pq.ParquetWriter(content, source.schema_arrow, compression=compression) as writer:
        for group in range(source.metadata.num_row_groups):
            table = source.read_row_group(group)
            writer.write_table(table.filter(pa.array(passes[start : start + len(table)], pa.bool_())))
            start += len(table)
    return content.getvalue()


def _jsonl(file: IO[bytes], shard: Shard, reading: Reading, ids: Collection[str]) -> bytes:
    """The lines of a JSONL file, as they are."""
    lines = []
    for line in unpack_file(file, shard.address, Faults(), limit=LARGEST).read().splitlines(keepends=True):
        try:
            row = parse_json_row(line.lstrip(b"\xef\xbb\xbf"), shard.address) if line.strip() else None
        except InputError:
            continue  # it was left out when the shard was scored
        if row is not None and _id(row, reading) in ids:
            lines.append(line if line.endswith(b"\n") else line + b"\n")
    return _packed(b"".join(lines), shard)


def _tar(file: IO[bytes], shard: Shard, reading: Reading, ids: Collection[str]) -> bytes:
    """The members of the samples, with their headers, byte for byte."""
    tar = unpack_file(file, shard.address, Faults(), limit=LARGEST)
    reading = replace(reading, id_column=reading.id_column or KEY)
    samples = read_samples(tar, shard.address, reading, False, _ignore)
    keys = {key for key, row in samples if _id(row, reading) in ids}
    parts, begin = [], 0
    for member in iterate_members(tar, shard.address, _ignore):
        end = member.start + -(-member.size // BLOCK) * BLOCK
        if split_key(member.name)[0] in keys:
            tar.seek(begin)
            parts.append(tar.read(end - begin))
        begin = end
    content = b"".join(parts) + bytes(2 * BLOCK)
    return _packed(content + bytes(-len(content) % RECORD), shard)


def _id(row: Row, reading: Reading) -> str | None:
    """The id of a row; None where it has none that can be used."""
    return get_row_id(row, reading.id_column, lambda complaint: None)


def _packed(content: bytes, shard: Shard) -> bytes:
    """The content, compressed where the shard was, without a time: the same content gives the same bytes."""
    return gzip.compress(content, mtime=0) if shard.address.lower().endswith(".gz") else content


def _ignore(reason: str, example: str) -> None:
    """Faults were counted when the shard was scored."""


WRITERS: dict[str, Callable[[IO[bytes], Shard, Reading, Collection[str]], bytes]] = {
    "parquet": _parquet,
    "jsonl": _jsonl,
    "tar": _tar,
}
