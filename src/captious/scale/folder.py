"""The folder that scored shards are written to: a manifest, and one Parquet file per shard.

::

    scores/
      captious-shards.json        what is scored, by which metrics, and from which shards
      items/NAME.parquet          id, candidates, words, one column per metric, unscored; the summary as metadata
      types/INDEX/NAME.npy        hashes of the distinct things that a metric counts, sorted
      states/                     what metrics know of the whole corpus

Every file is written whole. A shard is finished once its Parquet file is there, scored under the folder's manifest.
So a run that was stopped at any moment is followed by the same one again, which does what is left.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._files import SHARDS_MARKER, digest, refuse_irregular, remove_drafts, sweep
from captious._hashing import Hashes
from captious._version import __version__
from captious.errors import InputError
from captious.io.shards import Shard
from captious.io.storage import Storage, is_remote
from captious.scale.summary import ShardSummary

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = SHARDS_MARKER
FORMAT = 1
"""Of the folder; one of another format is refused."""
KEY = b"captious"
"""Of the summary in the schema metadata of a shard's Parquet file."""
REPORT = ("report.html", "report.json", "report.tex", "report.txt", "scores.csv", "unscored.csv", "faults.csv")
"""Files of the report; those of other tables are always written."""
FOLDERS = ("items", "types", "states")
FACTS = ("id", "candidates", "words", "unscored")
"""Columns of a shard's Parquet file besides the metrics'."""
READERS = 8
"""Summaries that are read at a time."""
PARTS = 16
"""Ranges of hashes that are united one after the other, to bound memory."""


@dataclass(frozen=True)
class Manifest:
    """What a folder holds the scores of. Folders of equal digest hold the same scores."""

    metrics: tuple[str, ...]
    """Written forms."""
    shards: tuple[Shard, ...]
    reading: Mapping[str, Any] = field(default_factory=dict)
    """Options of reading that are not at their default, and digests of files that they name."""
    version: str = __version__
    format: int = FORMAT

    @cached_property
    def digest(self) -> str:
        """Of all but the addresses of shards, which may be moved, and their sizes, which stand in each one's scores."""
        names = [shard.name for shard in self.shards]
        facts = (self.metrics, names, dict(self.reading), self.version, self.format)
        return digest(json.dumps(facts, sort_keys=True).encode())

    def to_json(self) -> str:
        """As it stands in the folder."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Manifest:
        """The manifest from its JSON value; a KeyError or TypeError where it is none."""
        shards = tuple(Shard(**one) for one in record["shards"])
        return cls(tuple(record["metrics"]), shards, record["reading"], record["version"], record["format"])

    def change_from(self, other: Manifest) -> str:
        """The first thing that the other manifest has differently; empty where their digests agree."""
        if self.version != other.version:
            return f"it is of captious {other.version}, this is {self.version}"
        if self.metrics != other.metrics:
            return f"it holds {', '.join(other.metrics)}, now it is {', '.join(self.metrics)}"
        if self.reading != other.reading:
            names = {**self.reading, **other.reading}
            name = next(name for name in names if self.reading.get(name) != other.reading.get(name))
            return f"it was read with {_option(other, name)}, now it is {_option(self, name)}"
        return self._change_of_shards(other)

    def _change_of_shards(self, other: Manifest) -> str:
        ours, theirs = ([shard.name for shard in one.shards] for one in (self, other))
        for more, fewer, what in ((theirs, ours, "no longer there"), (ours, theirs, "new")):
            if names := sorted(set(more).difference(fewer)):
                return f"of its {_shards(len(theirs))} {len(names)} {_are(names)} {what}, such as {names[0]}"
        return "its shards have another order" if ours != theirs else ""


def _option(manifest: Manifest, name: str) -> str:
    return f"{name}={manifest.reading[name]}" if name in manifest.reading else f"no {name}=..."


def _shards(number: int) -> str:
    return f"{number:,} shard{'' if number == 1 else 's'}"


def _are(names: Collection[str]) -> str:
    return "is" if len(names) == 1 else "are"


@dataclass(frozen=True)
class ShardFolder:
    """A folder of scored shards, on a disk or on an object store. It is picklable: workers write into it."""

    address: str
    manifest: Manifest

    @property
    def storage(self) -> Storage:
        """Where the files are."""
        return Storage.at(self.address)

    @classmethod
    def read(cls, address: str | os.PathLike[str]) -> ShardFolder:
        """A folder that is there, finished or not."""
        storage = Storage.at(address)
        address = storage.address
        expected = "expected a folder that captious score wrote from shards"
        if not storage.exists(MANIFEST):
            raise InputError(f"{address}: no {MANIFEST}, {expected}")
        try:
            record = json.loads(storage.read(MANIFEST))
            if record["format"] != FORMAT:
                raise InputError(f"{address}: has format {record['format']}, expected {FORMAT}; score the shards again")
            return cls(address, Manifest.of_record(record))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{storage.address_of(MANIFEST)}: cannot be read, {expected}") from None

    @classmethod
    def open(cls, address: str | os.PathLike[str], manifest: Manifest, overwrite: bool = False) -> ShardFolder:
        """The folder to write these scores to: a new one, or one that holds a part of them already.

        One that holds other scores is refused, or with ``overwrite`` emptied of what captious wrote. One that holds
        other things is always refused.
        """
        address = Storage.at(address).address
        folder = cls(address, manifest)
        if not is_remote(address):
            _refuse_file(Path(address))
        if folder.storage.exists(MANIFEST):
            there = cls.read(address)
            change = manifest.change_from(there.manifest) or folder._changed_shards(there)
            if change and not overwrite:
                remedy = "pass overwrite=True to replace them, or name another folder"
                raise InputError(f"{address}: holds other scores: {change}; {remedy}")
            if overwrite:
                there.discard()
        elif folder.storage.names() or (not is_remote(address) and _occupied(Path(address))):
            raise InputError(
                f"{address}: exists and was not written by captious from shards (no {MANIFEST}); name another folder"
            )
        folder.storage.write(MANIFEST, manifest.to_json().encode())
        return folder

    def _changed_shards(self, there: ShardFolder) -> str:
        """How shards changed after they were scored; one that failed may be mended, and is scored as it is now."""
        before = {shard.name: shard.size for shard in there.manifest.shards}
        others = [shard for shard in self.manifest.shards if shard.size != before[shard.name]]
        scored = [shard for shard in others if self.storage.exists(self.items_name(shard.name))]
        changed = [shard for shard in scored if self._summary(shard) is None]
        if not changed:
            return ""
        first = f"{changed[0].name} ({before[changed[0].name]:,} bytes, now {changed[0].size:,})"
        return f"of its {_shards(len(before))} {len(changed)} changed since they were scored, such as {first}"

    def items_name(self, shard: str) -> str:
        """The Parquet file of a shard, in the folder."""
        return f"items/{shard}.parquet"

    def types_name(self, shard: str, metric: str) -> str:
        """The hashes of the distinct things that a metric counts in a shard."""
        return f"types/{self.manifest.metrics.index(metric)}/{shard}.npy"

    def finished(self) -> dict[str, ShardSummary]:
        """Summaries of the finished shards by name, in the order of the manifest."""
        there = set(self.storage.names("items"))
        shards = [shard for shard in self.manifest.shards if f"{shard.name}.parquet" in there]
        with ThreadPoolExecutor(READERS) as pool:
            summaries = list(pool.map(self._summary, shards))
        return {one.shard: one for one in summaries if one is not None}

    def _summary(self, shard: Shard) -> ShardSummary | None:
        """The summary of a shard that has a file; None where that is of another manifest, or the shard has changed."""
        import pyarrow.parquet as pq
        from pyarrow import ArrowException

        name = self.items_name(shard.name)
        try:
            with self.storage.open(name) as file:
                summary = ShardSummary.from_json(pq.read_schema(file).metadata[KEY])
        except (OSError, ValueError, KeyError, TypeError, ArrowException):
            raise self._damaged(name) from None
        return summary if (summary.manifest, summary.size) == (self.manifest.digest, shard.size) else None

    def _damaged(self, name: str) -> InputError:
        where = self.storage.address_of(name)
        return InputError(f"{where}: is damaged, expected the scores of a shard; remove it")

    def summaries(self) -> list[ShardSummary]:
        """Of all shards, in the order of the manifest; a folder with shards that are not finished is refused."""
        finished = self.finished()
        names = [shard.name for shard in self.manifest.shards]
        if left := [name for name in names if name not in finished]:
            raise InputError(
                f"{self.address}: {len(left)} of {_shards(len(names))} {_are(left)} not scored yet, such as {left[0]};"
                " score the same shards again to go on"
            )
        return list(finished.values())

    def write_shard(self, summary: ShardSummary, items: pa.Table, types: Mapping[str, Hashes]) -> None:
        """Write the scores of a shard; the Parquet file comes last, for with it the shard is finished."""
        import pyarrow.parquet as pq

        for metric, hashes in types.items():
            content = io.BytesIO()
            np.save(content, hashes)
            self.storage.write(self.types_name(summary.shard, metric), content.getvalue())
        content = io.BytesIO()
        pq.write_table(items.replace_schema_metadata({KEY: summary.to_json()}), content, compression="zstd")
        self.storage.write(self.items_name(summary.shard), content.getvalue())

    def table(self, shard: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The items of a shard: the columns `FACTS` and one per metric, or those named."""
        import pyarrow.parquet as pq
        from pyarrow import ArrowException

        name = self.items_name(shard)
        try:
            with self.storage.open(name) as file:
                return pq.read_table(file, columns=columns)
        except (OSError, ArrowException):
            raise self._damaged(name) from None

    def distinct(self, metric: str) -> int:
        """How many distinct things a metric counts over all shards."""
        names = [self.types_name(shard, metric) for shard, summary in self.finished().items() if summary.items]
        return count_distinct(np.load(io.BytesIO(self.storage.read(name))) for name in names)

    def tidy(self) -> None:
        """Once all shards are finished, remove what killed workers left, and folders that are empty."""
        if not is_remote(self.address):
            for name in FOLDERS:
                for folder, _, _ in os.walk(Path(self.address) / name, topdown=False):
                    remove_drafts(Path(folder))
                    with suppress(OSError):
                        Path(folder).rmdir()

    def discard(self) -> None:
        """Remove what captious wrote from shards, and nothing else; the manifest goes last."""
        names = [self.items_name(shard.name) for shard in self.manifest.shards]
        states = f"states/{self.manifest.digest}"
        folders = [f"{parent}/{index}" for index, _ in enumerate(self.manifest.metrics) for parent in ("types", states)]
        for folder in (*folders, states):
            names += [f"{folder}/{name}" for name in self.storage.names(folder)]
        for name in [*names, *REPORT, MANIFEST]:
            self.storage.remove(name)
        self.tidy()
        if not is_remote(self.address):
            with suppress(OSError):
                Path(self.address).rmdir()


def _refuse_file(path: Path) -> None:
    refuse_irregular(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: is a file, expected the name of a folder to write")
    sweep(path / MANIFEST)


def _occupied(path: Path) -> bool:
    return path.is_dir() and any(path.iterdir())


def count_distinct(arrays: Iterable[Hashes]) -> int:
    """How many different hashes are in sorted arrays, one range of hashes after the other.

    >>> count_distinct([np.array([1, 5], dtype=np.uint64), np.array([5, 2**63], dtype=np.uint64)])
    3
    """
    arrays = list(arrays)
    bounds = np.array([part * 2**64 // PARTS for part in range(1, PARTS)], dtype=np.uint64)
    splits = [np.split(array, np.searchsorted(array, bounds)) for array in arrays]
    return sum(len(np.unique(np.concatenate(part))) for part in zip(*splits, strict=True))
