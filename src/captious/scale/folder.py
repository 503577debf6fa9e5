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

import json
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._files import digest, load_json, refuse_irregular, sweep, whole_file
from captious._version import __version__
from captious.errors import InputError
from captious.scale.summary import Hashes, ShardSummary

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "captious-shards.json"
FORMAT = 1
"""Of the folder; one of another format is refused."""
KEY = b"captious"
"""Of the summary in the schema metadata of a shard's Parquet file."""
FACTS = ("id", "candidates", "words", "unscored")
"""Columns of a shard's Parquet file besides the metrics'."""
PARTS = 16
"""Ranges of hashes that are united one after the other, to bound memory."""


@dataclass(frozen=True)
class Shard:
    """A file of captions among many."""

    name: str
    """Unique among the shards; the file of its scores has it too."""
    address: str
    size: int


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
        """Of everything but the addresses of the shards, which may have been moved."""
        shards = [(shard.name, shard.size) for shard in self.shards]
        facts = (self.metrics, shards, dict(self.reading), self.version, self.format)
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
        ours, theirs = ({shard.name: shard.size for shard in one.shards} for one in (self, other))
        for more, fewer, what in ((theirs, ours, "no longer there"), (ours, theirs, "new")):
            if names := [name for name in more if name not in fewer]:
                return f"of its {_shards(len(theirs))} {len(names)} {_are(names)} {what}, such as {names[0]}"
        if names := [name for name, size in ours.items() if size != theirs[name]]:
            first = f"{names[0]} ({theirs[names[0]]:,} bytes, now {ours[names[0]]:,})"
            return f"of its {_shards(len(theirs))} {len(names)} changed in size, such as {first}"
        return "its shards have another order" if list(ours) != list(theirs) else ""


def _option(manifest: Manifest, name: str) -> str:
    return f"{name}={manifest.reading[name]}" if name in manifest.reading else f"no {name}=..."


def _shards(number: int) -> str:
    return f"{number:,} shard{'' if number == 1 else 's'}"


def _are(names: Collection[str]) -> str:
    return "is" if len(names) == 1 else "are"


@dataclass(frozen=True)
class ShardFolder:
    """A folder of scored shards. It is picklable: workers write into it."""

    path: Path
    manifest: Manifest

    @classmethod
    def read(cls, path: str | Path) -> ShardFolder:
        """A folder that is there, finished or not."""
        path = Path(path)
        expected = "expected a folder that captious score wrote from shards"
        try:
            record = load_json(path / MANIFEST)
            if record["format"] != FORMAT:
                raise InputError(f"{path}: has format {record['format']}, expected {FORMAT}; score the shards again")
            return cls(path, Manifest.of_record(record))
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{path}: no {MANIFEST}, {expected}") from None
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{path / MANIFEST}: cannot be read, {expected}") from None

    @classmethod
    def open(cls, path: str | Path, manifest: Manifest, overwrite: bool = False) -> ShardFolder:
        """The folder to write these scores to: a new one, or one that holds a part of them already.

        One that holds other scores is refused, or with ``overwrite`` emptied of what captious wrote. One that holds
        other things is always refused.
        """
        path = Path(path)
        refuse_irregular(path)
        if path.exists() and not path.is_dir():
            raise InputError(f"{path}: is a file, expected the name of a folder to write")
        sweep(path / MANIFEST)
        if (path / MANIFEST).exists():
            folder = cls.read(path)
            change = manifest.change_from(folder.manifest)
            if not overwrite and not change:
                return folder
            if not overwrite:
                raise InputError(
                    f"{path}: holds other scores: {change}; pass overwrite=True to replace them, or name another folder"
                )
            folder.discard()
        elif path.is_dir() and any(path.iterdir()):
            raise InputError(
                f"{path}: exists and was not written by captious from shards (no {MANIFEST}); name another folder"
            )
        folder = cls(path, manifest)
        with whole_file(path / MANIFEST) as draft:
            draft.write_text(manifest.to_json(), encoding="utf-8")
        return folder

    def items_file(self, shard: str) -> Path:
        """The Parquet file of a shard."""
        return self.path / "items" / f"{shard}.parquet"

    def types_file(self, shard: str, metric: str) -> Path:
        """The hashes of the distinct things that a metric counts in a shard."""
        return self.path / "types" / str(self.manifest.metrics.index(metric)) / f"{shard}.npy"

    @property
    def states(self) -> Path:
        """The folder of what metrics know of the corpus."""
        return self.path / "states"

    def finished(self) -> dict[str, ShardSummary]:
        """Summaries of the finished shards by name, in the order of the manifest."""
        summaries = {shard.name: self._summary(shard.name) for shard in self.manifest.shards}
        return {name: one for name, one in summaries.items() if one is not None}

    def _summary(self, shard: str) -> ShardSummary | None:
        """The summary of a shard; None where its file is not there, or was scored under another manifest."""
        import pyarrow.parquet as pq
        from pyarrow import ArrowException

        file = self.items_file(shard)
        try:
            summary = ShardSummary.from_json(pq.read_schema(file).metadata[KEY])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, ArrowException):
            raise InputError(f"{file}: is damaged, expected the scores of a shard; remove it") from None
        return summary if summary.manifest == self.manifest.digest else None

    def summaries(self) -> list[ShardSummary]:
        """Of all shards, in the order of the manifest; a folder with shards that are not finished is refused."""
        finished = self.finished()
        names = [shard.name for shard in self.manifest.shards]
        if left := [name for name in names if name not in finished]:
            raise InputError(
                f"{self.path}: {len(left)} of {_shards(len(names))} {_are(left)} not scored yet, such as {left[0]};"
                " score the same shards again to go on"
            )
        return list(finished.values())

    def write_shard(self, summary: ShardSummary, items: pa.Table, types: Mapping[str, Hashes]) -> None:
        """Write the scores of a shard; the Parquet file comes last, for with it the shard is finished."""
        import pyarrow.parquet as pq

        for metric, hashes in types.items():
            with whole_file(self.types_file(summary.shard, metric)) as draft, draft.open("wb") as file:
                np.save(file, hashes)
        with whole_file(self.items_file(summary.shard)) as draft:
            pq.write_table(items.replace_schema_metadata({KEY: summary.to_json()}), draft, compression="zstd")

    def table(self, shard: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The items of a shard: the columns `FACTS` and one per metric, or those named."""
        import pyarrow.parquet as pq

        return pq.read_table(self.items_file(shard), columns=columns, partitioning=None)

    def distinct(self, metric: str) -> int:
        """How many distinct things a metric counts over all shards."""
        arrays = [np.load(self.types_file(shard.name, metric), mmap_mode="r") for shard in self.manifest.shards]
        return count_distinct(arrays)

    def discard(self) -> None:
        """Remove what captious wrote from shards, and nothing else; the manifest goes last."""
        for shard in self.manifest.shards:
            self.items_file(shard.name).unlink(missing_ok=True)
            for metric in self.manifest.metrics:
                self.types_file(shard.name, metric).unlink(missing_ok=True)
        shutil.rmtree(self.states, ignore_errors=True)
        (self.path / MANIFEST).unlink(missing_ok=True)


def count_distinct(arrays: Iterable[Hashes]) -> int:
    """How many different hashes are in sorted arrays, one range of hashes after the other.

    >>> count_distinct([np.array([1, 5], dtype=np.uint64), np.array([5, 2**63], dtype=np.uint64)])
    3
    """
    arrays = list(arrays)
    bounds = np.array([part * 2**64 // PARTS for part in range(1, PARTS)], dtype=np.uint64)
    splits = [np.split(array, np.searchsorted(array, bounds)) for array in arrays]
    return sum(len(np.unique(np.concatenate(part))) for part in zip(*splits, strict=True))
