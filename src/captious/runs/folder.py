"""The run folder that ``captious score`` writes, from a file, from values in memory and from shards alike.

::

    run/
      captious-run.json           the marker: metrics with their numbers, reading options, and names of parts
      items/PART.parquet          one row per item; the summary of the part as metadata
      rows/PART.parquet           statistics of every item, unless they are left out
      types/METRIC/PART.npy       sorted hashes of the distinct types that a metric counts in a part
      states/METRIC/…             corpus states of metrics, if shards were scored
      report.html, items.csv, …   the report and its tables

A file is one part, or several if it is large; a shard is one part. Every file is written atomically. A shard is
finished once its part exists and was scored under the marker. So a run that was stopped at any moment is resumed by
the same call, which scores the missing shards.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from captious._core.files import OUTPUT, OWN, RUN, digest, remove_drafts
from captious._core.hashing import Hashes
from captious._core.languages import LANGUAGES
from captious.errors import InputError
from captious.io.storage import Shard, Storage, is_remote
from captious.runs.marker import REWARDS, Marker, MetricFacts
from captious.runs.run_tables import COUNTS, make_captions
from captious.runs.summary import PartSummary
from captious.text.tokenizers import TOKENIZERS

if TYPE_CHECKING:
    import pyarrow as pa

    from captious.captions import CaptionSet

# The key of the summary in the schema metadata of a part's Parquet file.
KEY = b"captious"
REPORT = ("report.html", "report.json", "report.tex", "report.txt")
# Tables of the report.
TABLES = ("scores.csv", "unscored.csv", "faults.csv", "shards.csv", "steps.csv", "items.csv")
FAILED = "failed-shards.txt"
FOLDERS = ("items", "rows", "types", "states")
# Number of summaries that are read at a time.
READERS = 8
# Items per row group: few, because a whole row group is read for a single item.
ROW_GROUP = 4096
# Number of hash ranges that are counted one after the other, to limit memory.
RANGES = 16
WROTE = "expected a folder that captious score wrote"


@dataclass(frozen=True)
class Run:
    """A run folder on a disk or on an object store. It is picklable, because workers write into it."""

    address: str
    marker: Marker

    @classmethod
    def at(cls, address: str | os.PathLike[str]) -> Run:
        """Open the run in a folder or at an address such as ``s3://bucket/run``. Only its marker is read."""
        storage = Storage.at(address)
        if not storage.exists(RUN):
            why = "no such folder" if not is_remote(storage.address) and not Path(storage.address).exists() else ""
            raise InputError(f"{storage.address}: {why or _describe_other_output(storage) or f'no {RUN}'}, {WROTE}")
        return cls(storage.address, Marker.from_json(storage.read(RUN), storage.get_address(RUN)))

    def __repr__(self) -> str:
        return f"<Run {self.address}: {self.marker.items:,} items, {', '.join(self.metrics)}>"

    @property
    def storage(self) -> Storage:
        """The folder of the files."""
        return Storage.at(self.address)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The written forms of the metrics, which are the names of their columns."""
        return tuple(one.metric for one in self.marker.metrics)

    @property
    def labels(self) -> dict[str, str]:
        """The label of each metric, by its written form."""
        return {one.metric: one.label for one in self.marker.metrics}

    @property
    def facts(self) -> dict[str, MetricFacts]:
        """The facts of each metric in the marker, by its written form."""
        return {one.metric: one for one in self.marker.metrics}

    @property
    def has_rows(self) -> bool:
        """True if the statistics of every item are stored."""
        return self.marker.reading.get("store_rows") is not False

    @property
    def names(self) -> list[str]:
        """The names of the parts. Raises InputError if shards are not scored yet."""
        marker = self.marker
        if not marker.complete:
            names = [shard.name for shard in marker.shards]
            left = [name for name in names if name not in self.find_finished()]
            example = f", such as {left[0]}" if left else ""
            are = "is" if len(left) == 1 else "are"
            raise InputError(
                f"{self.address}: {len(left)} of {format_shards(len(names))} {are} not scored yet{example}; "
                "score the same shards again to resume"
            )
        if not marker.parts and not marker.shards:
            raise InputError(
                f"{self.address}: names no part with an item, expected at least one; score the captions again"
            )
        return list(marker.parts)

    def parts(self) -> list[str]:
        """Return the addresses of the items' Parquet files, in order, for a reader that opens them itself."""
        files = [self.items_name(name) for name in self.names]
        for file in files:
            self._refuse_outside(file)
        return [self.storage.get_address(file) for file in files]

    def items_name(self, part: str) -> str:
        """Return the path in the folder of the items of a part."""
        return f"items/{part}.parquet"

    def rows_name(self, part: str) -> str:
        """Return the path in the folder of the item statistics of a part."""
        return f"rows/{part}.parquet"

    def types_name(self, part: str, metric: str) -> str:
        """Return the path in the folder of the hashes of the distinct types that a metric counts in a part."""
        return f"types/{name_metric_folder(metric)}/{part}.npy"

    def open(self, name: str) -> IO[bytes]:
        """Open a file of the folder for reading."""
        self._refuse_outside(name)
        return self.storage.open(name)

    def _refuse_outside(self, name: str) -> None:
        """Raise InputError if a file is a link out of the folder: a run may come from an untrusted source."""
        if not is_remote(self.address):
            path = Path(self.address) / name
            # Not Path.resolve, which raises RuntimeError for a loop of links; opening one fails in one line.
            if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.address)):
                raise InputError(f"{path}: is a link that leads out of the run, expected a file")

    @contextmanager
    def parquet(self, name: str) -> Iterator[Any]:
        """Open a Parquet file of the folder; every error of a damaged file becomes an InputError of one line."""
        import pyarrow as pa

        from captious.io.arrow import open_parquet

        where = self.storage.get_address(name)
        if not self.storage.exists(name):
            raise InputError(f"{where}: is missing, {WROTE}")
        try:
            with self.open(name) as file:
                opened = open_parquet(file)
                names = opened.schema_arrow.names
                if twice := [column for column, number in Counter(names).items() if number > 1]:
                    raise InputError(f"{where}: column {twice[0]!r} occurs twice, {WROTE}")
                yield opened
        except InputError:
            raise
        except (OSError, ValueError, pa.ArrowException):
            raise InputError(f"{where}: is damaged, expected the scores of captious; remove it") from None

    def table(self, part: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the items of a part: all columns, or those named."""
        import pyarrow as pa

        name = self.items_name(part)
        with self.parquet(name) as file:
            self.check_schema(part, file, columns)
            table = file.read(columns)
        if "id" in table.column_names and table["id"].null_count:
            raise InputError(f"{self.storage.get_address(name)}: an item has no id, {WROTE}")
        strings = [one for one in ("id", "unscored") if one in table.column_names]
        for column in strings:  # a text of another width is a text
            if table.schema.field(column).type != pa.string():
                table = table.set_column(table.column_names.index(column), column, table[column].cast(pa.string()))
        return table

    def check_schema(self, part: str, file: Any, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the schema of a part's open file; raise InputError if items or columns are missing or wrong."""
        schema: pa.Schema = file.schema_arrow
        items, expected = file.metadata.num_rows, self.marker.parts.get(part)
        if expected is not None and items != expected:
            where = self.storage.get_address(self.items_name(part))
            raise InputError(f"{where}: has {items} items, the marker says {expected}")
        optional = [column for column in ("references", "image", "unscored", *COUNTS) if column in schema.names]
        for column in columns if columns is not None else ("id", "candidates", *optional, *self.metrics):
            self._refuse_column(self.items_name(part), schema, column)
        return schema

    def _refuse_column(self, name: str, schema: pa.Schema, column: str) -> None:
        """Raise InputError if a file has no such column, or one of another type."""
        import pyarrow as pa

        where, types = self.storage.get_address(name), pa.types
        if schema.get_field_index(column) < 0:  # -1 also if several columns have the name
            raise InputError(f"{where}: no column {column!r}, expected a file that captious score wrote")
        kind = schema.field(column).type
        text = types.is_string(kind) or types.is_large_string(kind)
        expected = ""
        if column in ("id", "image", "unscored"):
            expected = "" if text or (column != "id" and types.is_null(kind)) else "texts"
        elif column in ("candidates", "references"):
            lists = (types.is_list(kind) or types.is_large_list(kind)) and not types.is_nested(kind.value_type)
            expected = "" if lists and str(kind.value_type).endswith("string") else "lists of texts"
        elif column in self.metrics or column in COUNTS:
            expected = "" if types.is_floating(kind) or types.is_integer(kind) else "numbers"
        if expected:
            raise InputError(f"{where}: column {column!r} contains {kind}, expected {expected}")

    def rows(self, part: str, columns: Sequence[str]) -> pa.Table:
        """Read the statistics of a part's items."""
        import pyarrow as pa

        with self.parquet(self.rows_name(part)) as file:
            stored = set(file.schema_arrow.names)
            table = file.read([column for column in columns if column in stored])
        expected = self.marker.parts.get(part)
        if expected is not None and len(table) != expected:
            where = self.storage.get_address(self.rows_name(part))
            raise InputError(f"{where}: has {len(table)} rows, the marker says {expected} items")
        assert isinstance(table, pa.Table)
        return table

    def captions(self, parts: Sequence[str] | None = None) -> CaptionSet:
        """Read the captions of all parts, or of these, as they were scored."""
        tables = [self.table(part).replace_schema_metadata() for part in (self.names if parts is None else parts)]
        cleaned = self.marker.reading.get("cleaned", 0)
        cleaned = cleaned if isinstance(cleaned, int) else 0
        captions = make_captions(join_tables(tables), self.metrics, self.marker.name, self.marker.skipped, cleaned)
        return replace(self._restore_settings(captions), selection=str(self.marker.reading.get("list", "")))

    def _restore_settings(self, captions: CaptionSet) -> CaptionSet:
        """Return the captions with the language, the settings and the tokenizer that reading chose."""
        settings, tokenizer = self.marker.reading.get("settings"), self.marker.reading.get("tokenizer", "")
        return replace(
            captions,
            language=self.language,
            settings={str(key): str(value) for key, value in settings.items()} if isinstance(settings, dict) else {},
            tokenizer=tokenizer if tokenizer in TOKENIZERS else "",
        )

    @property
    def language(self) -> str:
        """The code of the captions' language; empty if none was named."""
        code = str(self.marker.reading.get("language", ""))
        return code if code in LANGUAGES else ""

    def take(self, indices: Sequence[int]) -> CaptionSet:
        """Read the captions at these positions among all items, in this order; only parts that contain one are read."""
        import pyarrow as pa

        names = self.names
        ends = np.cumsum([self.marker.parts[name] for name in names])
        parts = np.searchsorted(ends, indices, side="right")
        tables: list[pa.Table] = []
        # Position of each requested item in the joined tables, which are in the order of parts.
        positions = np.zeros(len(indices), dtype=np.int64)
        for part in np.unique(parts).tolist():
            chosen = np.flatnonzero(parts == part)
            first = int(ends[part - 1]) if part else 0
            rows = np.asarray(indices, dtype=np.int64)[chosen] - first
            positions[chosen] = sum(map(len, tables)) + np.arange(len(chosen))
            # pa.array(rows) would import pandas if it is installed: half of the time of a gate on small runs.
            wanted = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)])
            tables.append(self.table(names[part]).replace_schema_metadata().take(wanted))
        if not tables:
            return self.captions(names[:1]).take([])
        captions = make_captions(join_tables(tables), self.metrics, self.marker.name).take(positions.tolist())
        return self._restore_settings(captions)

    def summary(self, part: str) -> PartSummary:
        """Read the summary of a part."""
        name = self.items_name(part)
        with self.parquet(name) as file:
            try:
                return PartSummary.from_json(file.schema_arrow.metadata[KEY])
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
                where = self.storage.get_address(name)
                raise InputError(f"{where}: is damaged, expected the scores of captious; remove it") from None

    def summaries(self) -> list[PartSummary]:
        """Read the summaries of all parts, in their order."""
        with ThreadPoolExecutor(READERS) as pool:
            summaries = list(pool.map(self.summary, self.names))
        for one in summaries:
            described = {metric.metric for metric in one.metrics}
            if one.items and (missing := [key for key in self.metrics if key not in described]):
                where = self.storage.get_address(self.items_name(one.name))
                raise InputError(f"{where}: does not mention {missing[0]}, expected the scores of captious; remove it")
        return summaries

    def find_finished(self) -> dict[str, PartSummary]:
        """Return the summaries of the finished shards by name, in the order of the marker; skip outdated parts."""
        files = set(self.storage.names("items"))
        shards = [shard for shard in self.marker.shards if f"{shard.name}.parquet" in files]
        with ThreadPoolExecutor(READERS) as pool:
            summaries = pool.map(lambda shard: self.summary(shard.name), shards)
            pairs = list(zip(shards, summaries, strict=True))
        return {shard.name: one for shard, one in pairs if self.is_current(shard, one)}

    def is_current(self, shard: Shard, summary: PartSummary) -> bool:
        """Return True if a part was scored from this shard in its present size, under this marker."""
        return (summary.marker, summary.size) == (self.marker.digest, shard.size)

    def write_marker(self) -> None:
        self.storage.write(RUN, self.marker.to_json().encode("utf-8", "replace"))

    def write_part(
        self, summary: PartSummary, items: pa.Table, types: Mapping[str, Hashes], rows: pa.Table | None = None
    ) -> None:
        """Write a part. The items are written last, because their file marks the part as finished."""
        for metric, hashes in types.items():
            content = io.BytesIO()
            np.save(content, hashes)
            self.storage.write(self.types_name(summary.name, metric), content.getvalue())
        if rows is not None:
            self.storage.write(self.rows_name(summary.name), write_parquet(rows))
        content_of_items = write_parquet(items.replace_schema_metadata({KEY: summary.to_json()}), ROW_GROUP)
        self.storage.write(self.items_name(summary.name), content_of_items)

    def count_distinct(self, metric: str) -> int:
        """Count the distinct types of a metric over all parts."""
        names = [self.types_name(part, metric) for part, items in self.marker.parts.items() if items]

        def read_hashes(name: str) -> Hashes:
            try:
                with self.open(name) as file:
                    array: Hashes = np.load(io.BytesIO(file.read()), allow_pickle=False).astype(np.uint64)
                return array
            except (OSError, ValueError, EOFError, TypeError):
                where = self.storage.get_address(name)
                raise InputError(f"{where}: is damaged, expected the scores of captious") from None

        return count_unique(map(read_hashes, names))

    def files(self) -> list[str]:
        """List the files of the parts, types and states, which a copy of the run needs."""
        names = [name for part in self.names for name in (self.items_name(part), self.rows_name(part))]
        for metric in map(name_metric_folder, self.metrics):
            for folder in (f"types/{metric}", f"states/{metric}"):
                names += [f"{folder}/{name}" for name in self.storage.names(folder)]
        return [name for name in names if self.storage.exists(name)]

    def tidy(self) -> None:
        """Remove the drafts of killed workers and empty folders; call it when all shards are finished."""
        if not is_remote(self.address):
            for name in FOLDERS:
                for folder, _, _ in os.walk(Path(self.address) / name, topdown=False):
                    remove_drafts(Path(folder))
                    with suppress(OSError):
                        Path(folder).rmdir()

    def discard(self) -> None:
        """Remove the files that captious wrote, and nothing else; the marker is removed last."""
        parts = dict.fromkeys([*(shard.name for shard in self.marker.shards), *self.marker.parts])
        names = [name for part in parts for name in (self.items_name(part), self.rows_name(part))]
        for metric in map(name_metric_folder, self.metrics):
            for folder in (f"types/{metric}", f"states/{metric}"):
                names += [f"{folder}/{name}" for name in self.storage.names(folder)]
        for name in [*names, *REPORT, *TABLES, FAILED, RUN]:
            self.storage.remove(name)
        self.tidy()
        if not is_remote(self.address):
            with suppress(OSError):
                Path(self.address).rmdir()


def _describe_other_output(storage: Storage) -> str:
    """Describe a folder that captious wrote and that is not a run; empty if it is not from captious."""
    if not storage.exists(OUTPUT):
        return ""
    try:
        record = json.loads(storage.read(OUTPUT))
    except (ValueError, RecursionError):
        return ""
    for key, kind in {
        "systems": "a comparison: name the folder of one of its systems",
        "languages": "a report of several languages: name the folder of one of them",
    }.items():
        if isinstance(record, dict) and key in record:
            return f"is {kind}"
    return "is not a run"


def open_runs(address: str | os.PathLike[str]) -> dict[str, Run]:
    """Open the runs of a folder by the name of their system: one with an empty name, or those of a comparison."""
    if inner := _find_system_runs(Storage.at(address)):
        return {name: Run.at(folder) for name, folder in inner.items()}
    return {"": Run.at(address)}


def has_runs(path: Any) -> bool:
    """Return True if a path or an address is a run, or a comparison with the run of each system."""
    return is_run(path) or (_is_path(path) and bool(_find_system_runs(Storage.at(path))))


def _find_system_runs(storage: Storage) -> dict[str, str]:
    """Return the run folder of each system if the folder is a comparison, else an empty dict."""
    if storage.exists(RUN) or not storage.exists(OUTPUT):
        return {}
    names = parse_system_folders(storage.read(OUTPUT))
    folders = {name: storage.get_address(inner) for name, inner in names.items()}
    return folders if all(map(is_run, folders.values())) else {}


def parse_system_folders(marker: bytes) -> dict[str, str]:
    """Return the folder of each system, if the JSON is that of a comparison, else an empty dict."""
    try:
        return name_system_folders(map(str, json.loads(marker)["systems"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def name_system_folders(names: Iterable[str]) -> dict[str, str]:
    """Return the folder name of each system in a saved comparison; a number makes equal names distinct.

    >>> name_system_folders(["a/b", "a b", "c"])
    {'a/b': 'a-b', 'a b': 'a-b-2', 'c': 'c'}
    """
    folders: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        plain = re.sub(r"[^\w.-]+", "-", name).strip(".-") or "system"
        folders[name] = f"{plain}-{number}" if plain in folders.values() else plain
    return folders


def is_run(path: Any) -> bool:
    """Return True if a path or an address is a folder that ``captious score`` wrote."""
    return _is_path(path) and Storage.at(path).exists(RUN)


def is_reward_run(folder: str | os.PathLike[str]) -> bool:
    """Return True if a folder was written by ``captious.rewards``; only its marker is checked."""
    path = Path(folder) / RUN
    if is_remote(os.fspath(folder)) or not path.is_file():
        return False
    try:
        return REWARDS in json.loads(path.read_bytes())["reading"]
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return False


def is_output(path: Any) -> bool:
    """Return True if a path or an address is any folder that captious wrote: a run, a comparison, a site."""
    return _is_path(path) and any(Storage.at(path).exists(name) for name in OWN)


def _is_path(path: Any) -> bool:
    return isinstance(path, (str, os.PathLike)) and bool(os.fspath(path))


def join_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Join the items of several parts. A column whose type differs between parts becomes text."""
    import pyarrow as pa

    if len(tables) == 1:
        return tables[0]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:
        kinds: dict[str, set[str]] = {}
        for table in tables:
            for one in table.schema:
                kinds.setdefault(one.name, set()).add(str(one.type))
        mixed = {name for name, types in kinds.items() if len(types - {"null"}) > 1}
        return pa.concat_tables([_convert_to_text(table, mixed) for table in tables], promote_options="permissive")


def _convert_to_text(table: pa.Table, columns: Collection[str]) -> pa.Table:
    import pyarrow as pa

    for index, name in enumerate(table.column_names):
        if name in columns:
            texts = [None if one is None else str(one) for one in table[name].to_pylist()]
            table = table.set_column(index, name, pa.array(texts, pa.string()))
    return table


def write_parquet(table: pa.Table, row_group: int | None = None) -> bytes:
    """Return a table as the content of a Parquet file with ``row_group`` rows per row group."""
    import pyarrow.parquet as pq

    content = io.BytesIO()
    # With page checksums a reader detects a flipped bit; zstd alone does not.
    pq.write_table(table, content, row_group_size=row_group, compression="zstd", write_page_checksum=True)
    return content.getvalue()


def name_metric_folder(metric: str) -> str:
    """Return the folder name of a metric: its written form in characters valid in file names, and a digest.

    >>> name_metric_folder("bleu(n=4)")
    'bleu-n-4-b38a2782'
    """
    plain = re.sub(r"\W+", "-", metric).strip("-")[:40]
    return f"{plain}-{digest(metric.encode())[:8]}"


def format_shards(number: int) -> str:
    """Return a number of shards in words."""
    return f"{number:,} shard{'' if number == 1 else 's'}"


def count_unique(arrays: Iterable[Hashes]) -> int:
    """Count the distinct hashes in sorted arrays, one range of hashes after the other to limit memory.

    >>> count_unique([np.array([1, 5], dtype=np.uint64), np.array([5, 2**63], dtype=np.uint64)])
    3
    """
    arrays = list(arrays)
    # Hashes are uniform, so a RANGES-th of them is in memory at a time; sorted arrays are split by binary search.
    bounds = np.array([part * 2**64 // RANGES for part in range(1, RANGES)], dtype=np.uint64)
    splits = [np.split(array, np.searchsorted(array, bounds)) for array in arrays]
    return sum(len(np.unique(np.concatenate(part))) for part in zip(*splits, strict=True))
