"""Corpus states of metrics, stored in the folder of a run.

::

    states/METRIC/DIGEST-NAME-SIZE.state     of one shard, until it is merged
    states/METRIC/DIGEST-CORPUS.merged       of several shards together
    states/METRIC/DIGEST-CORPUS.json         which shards these are; written last

The first digest is that of the marker; CORPUS is the digest of the shards by name and size. Shards that are added
later are prepared and merged into the existing state. If a shard changed, all shards are prepared again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from captious._core.files import digest
from captious.errors import InputError
from captious.io.shards import Shard
from captious.io.storage import is_remote
from captious.metrics.contract import Metric
from captious.runs.folder import Run, name_metric_folder
from captious.text.corpus_states import State

# Largest number of state files that are copied from an object store at a time.
DOWNLOADED = 64
# Shards by name and size.
Members = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class CorpusStates:
    """The stored states of one metric."""

    run: Run
    metric: Metric

    @property
    def _folder(self) -> str:
        return f"states/{name_metric_folder(str(self.metric))}"

    @property
    def _prefix(self) -> str:
        return f"{self.run.marker.digest}-"

    @property
    def _class(self) -> type[State]:
        assert self.metric.corpus_state is not None, "only metrics that need the whole corpus have states"
        return self.metric.corpus_state

    def find_prepared(self, shards: Sequence[Shard]) -> set[str]:
        """Return the names of the shards whose state is stored, by itself or merged with other shards of the list."""
        files = set(self.run.storage.names(self._folder))
        merged = self._find_largest(_identify_shards(shards))
        return {one.name for one in shards if self._format_file_name(one) in files or (one.name, one.size) in merged}

    def find_merged(self, shards: Sequence[Shard]) -> Members:
        """Return the largest merged subset of these shards, for `is_prepared`."""
        return self._find_largest(_identify_shards(shards))

    def is_prepared(self, shard: Shard, merged: Members) -> bool:
        """Return True if the state of a shard is stored. Only the file of this shard is looked up."""
        if (shard.name, shard.size) in merged:
            return True
        return self.run.storage.exists(f"{self._folder}/{self._format_file_name(shard)}")

    def has_any(self) -> bool:
        """Return True if any state is stored that is not empty, of a shard or merged."""
        sizes = self.run.storage.sizes(self._folder)
        return any(size for name, size in sizes.items() if name.startswith(self._prefix))

    def save(self, shard: Shard, state: State | None) -> None:
        """Write the state of a shard; None becomes an empty file."""
        name = f"{self._folder}/{self._format_file_name(shard)}"
        if state is None:
            self.run.storage.write(name, b"")
            return
        with self._upload(name) as path:
            state.save(path)

    def merge(self, shards: Sequence[Shard]) -> str:
        """Merge the states of all these shards, remove the single ones, and return the digest of the corpus."""
        storage, members = self.run.storage, _identify_shards(shards)
        corpus, before = _hash_members(members), self._find_largest(members)
        merged = f"{self._folder}/{self._prefix}{corpus}"
        sizes = storage.sizes(self._folder)
        if before != members:
            full = [self._format_file_name(one) for one in shards if (one.name, one.size) not in before]
            full = [name for name in full if sizes[name]]
            full += [f"{self._prefix}{_hash_members(before)}.merged"] if before else []
            if not full:
                raise InputError(f"shards: none of them contains an item that {self.metric} can score")
            with self._upload(f"{merged}.merged") as path:
                self._merge_files(full, path)
            storage.write(f"{merged}.json", json.dumps(sorted(members)).encode())
        for name in sizes:
            if name.startswith(self._prefix) and not name.startswith(f"{self._prefix}{corpus}."):
                storage.remove(f"{self._folder}/{name}")
        return corpus

    def _merge_files(self, names: Sequence[str], out: Path) -> None:
        """Merge files of the folder; from an object store, at most `DOWNLOADED` at a time.

        More are merged in as many groups, each by itself first: a state is read once for each level of groups.
        """
        with ExitStack() as stack:
            if not is_remote(self.run.address) or len(names) <= DOWNLOADED:
                paths = [stack.enter_context(self._download(f"{self._folder}/{name}")) for name in names]
            else:
                paths, size = [], -(-len(names) // DOWNLOADED)
                for first in range(0, len(names), size):
                    paths.append(stack.enter_context(_make_temporary_path()))
                    self._merge_files(names[first : first + size], paths[-1])
            self._class.merge_files(paths, out)

    def open(self, corpus: str) -> State:
        """Load the merged state of a corpus digest."""
        name = f"{self._folder}/{self._prefix}{corpus}.merged"
        if not self.run.storage.exists(name):
            raise InputError(f"{self.run.storage.get_address(name)}: is missing, expected the state of {self.metric}")
        with self._download(name) as path:
            return self._class.load(path)

    def _find_largest(self, wanted: Members) -> Members:
        """Return the largest subset of these shards whose states have been merged."""
        best: Members = frozenset()
        files = set(self.run.storage.names(self._folder))
        for name in files:
            if name.startswith(self._prefix) and name.endswith(".json") and f"{name[:-5]}.merged" in files:
                members = frozenset((str(one), int(size)) for one, size in json.loads(self._read(name)))
                if members <= wanted and len(members) > len(best):
                    best = members
        return best

    def _read(self, name: str) -> bytes:
        return self.run.storage.read(f"{self._folder}/{name}")

    def _format_file_name(self, shard: Shard) -> str:
        return f"{self._prefix}{shard.name}-{shard.size}.state"

    @contextmanager
    def _download(self, name: str) -> Iterator[Path]:
        """Provide a local path of a stored file. Memory-mapped content stays readable after the block."""
        if not is_remote(self.run.address):
            yield Path(self.run.address) / name
            return
        with _make_temporary_path() as path:
            path.write_bytes(self.run.storage.read(name))
            yield path

    @contextmanager
    def _upload(self, name: str) -> Iterator[Path]:
        """Provide a local path to write; at the end of the block its content is stored under the name."""
        if not is_remote(self.run.address):
            yield Path(self.run.address) / name
            return
        with _make_temporary_path() as path:
            yield path
            self.run.storage.write(name, path.read_bytes())


@contextmanager
def _make_temporary_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="captious-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "state"


def _identify_shards(shards: Sequence[Shard]) -> Members:
    return frozenset((one.name, one.size) for one in shards)


def _hash_members(members: Members) -> str:
    return digest(json.dumps(sorted(members)).encode())
