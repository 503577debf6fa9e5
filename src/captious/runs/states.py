"""What metrics must know of the whole corpus, in the folder of a run.

::

    states/METRIC/DIGEST-NAME-SIZE.state     of one shard, until it is merged
    states/METRIC/DIGEST-CORPUS.merged       of several shards together
    states/METRIC/DIGEST-CORPUS.json         which shards these are; written last

The first digest is that of the marker; CORPUS stands for the shards by name and size. Shards that come later are
prepared alone and merged with what is there. A shard that changed is prepared again, and all others with it.
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
from captious.runs.folder import Run, metric_folder
from captious.text.states import State

DOWNLOADED = 64
"""Files of states that are copied from an object store at a time."""
Members = frozenset[tuple[str, int]]
"""Shards by name and size."""


@dataclass(frozen=True)
class CorpusStates:
    """The states of one metric."""

    run: Run
    metric: Metric

    @property
    def _folder(self) -> str:
        return f"states/{metric_folder(str(self.metric))}"

    @property
    def _prefix(self) -> str:
        return f"{self.run.marker.digest}-"

    @property
    def _class(self) -> type[State]:
        assert self.metric.corpus_state is not None, "only metrics that need the whole corpus have states"
        return self.metric.corpus_state

    def prepared(self, shards: Sequence[Shard]) -> set[str]:
        """The names of the shards whose state is there, alone or merged with others of them."""
        there = set(self.run.storage.names(self._folder))
        merged = self._merged(_members(shards))
        return {one.name for one in shards if self._file_name(one) in there or (one.name, one.size) in merged}

    def merged_shards(self, shards: Sequence[Shard]) -> Members:
        """The most of these shards whose states have been merged, for `is_prepared`."""
        return self._merged(_members(shards))

    def is_prepared(self, shard: Shard, merged: Members) -> bool:
        """Whether the state of a shard is there; only its own file is asked for, however many there are."""
        if (shard.name, shard.size) in merged:
            return True
        return self.run.storage.exists(f"{self._folder}/{self._file_name(shard)}")

    def begun(self) -> bool:
        """Whether any state is there that is not empty, of a shard or of all."""
        sizes = self.run.storage.sizes(self._folder)
        return any(size for name, size in sizes.items() if name.startswith(self._prefix))

    def save(self, shard: Shard, state: State | None) -> None:
        """Write the state of a shard; an empty file for None."""
        name = f"{self._folder}/{self._file_name(shard)}"
        if state is None:
            self.run.storage.write(name, b"")
            return
        with self._to_write(name) as path:
            state.save(path)

    def merge(self, shards: Sequence[Shard]) -> str:
        """Merge the states of all these shards, and remove those of each; gives what stands for the corpus."""
        storage, members = self.run.storage, _members(shards)
        corpus, before = _digest(members), self._merged(members)
        merged = f"{self._folder}/{self._prefix}{corpus}"
        sizes = storage.sizes(self._folder)
        if before != members:
            full = [self._file_name(one) for one in shards if (one.name, one.size) not in before]
            full = [name for name in full if sizes[name]]
            full += [f"{self._prefix}{_digest(before)}.merged"] if before else []
            if not full:
                raise InputError(f"shards: none of them holds an item that {self.metric} can score")
            with self._to_write(f"{merged}.merged") as path:
                self._merge_files(full, path)
            storage.write(f"{merged}.json", json.dumps(sorted(members)).encode())
        for name in sizes:
            if name.startswith(self._prefix) and not name.startswith(f"{self._prefix}{corpus}."):
                storage.remove(f"{self._folder}/{name}")
        return corpus

    def _merge_files(self, names: Sequence[str], out: Path) -> None:
        """Merge files of the folder; of an object store, at most `DOWNLOADED` at a time.

        More are merged in as many groups, each by itself first: a state is read once for each level of groups.
        """
        with ExitStack() as stack:
            if not is_remote(self.run.address) or len(names) <= DOWNLOADED:
                paths = [stack.enter_context(self._to_read(f"{self._folder}/{name}")) for name in names]
            else:
                paths, size = [], -(-len(names) // DOWNLOADED)
                for first in range(0, len(names), size):
                    paths.append(stack.enter_context(_temporary()))
                    self._merge_files(names[first : first + size], paths[-1])
            self._class.merge_files(paths, out)

    def open(self, corpus: str) -> State:
        """The state of all shards that ``corpus`` stands for."""
        name = f"{self._folder}/{self._prefix}{corpus}.merged"
        if not self.run.storage.exists(name):
            raise InputError(f"{self.run.storage.get_address(name)}: is missing, expected the state of {self.metric}")
        with self._to_read(name) as path:
            return self._class.load(path)

    def _merged(self, wanted: Members) -> Members:
        """The most of these shards whose states have been merged."""
        best: Members = frozenset()
        there = set(self.run.storage.names(self._folder))
        for name in there:
            if name.startswith(self._prefix) and name.endswith(".json") and f"{name[:-5]}.merged" in there:
                members = frozenset((str(one), int(size)) for one, size in json.loads(self._read(name)))
                if members <= wanted and len(members) > len(best):
                    best = members
        return best

    def _read(self, name: str) -> bytes:
        return self.run.storage.read(f"{self._folder}/{name}")

    def _file_name(self, shard: Shard) -> str:
        return f"{self._prefix}{shard.name}-{shard.size}.state"

    @contextmanager
    def _to_read(self, name: str) -> Iterator[Path]:
        """A file as a path of this machine. What is memory-mapped stays readable after the block."""
        if not is_remote(self.run.address):
            yield Path(self.run.address) / name
            return
        with _temporary() as path:
            path.write_bytes(self.run.storage.read(name))
            yield path

    @contextmanager
    def _to_write(self, name: str) -> Iterator[Path]:
        """A path of this machine to write whole; what it holds at the end of the block gets the name."""
        if not is_remote(self.run.address):
            yield Path(self.run.address) / name
            return
        with _temporary() as path:
            yield path
            self.run.storage.write(name, path.read_bytes())


@contextmanager
def _temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="captious-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "state"


def _members(shards: Sequence[Shard]) -> Members:
    return frozenset((one.name, one.size) for one in shards)


def _digest(members: Members) -> str:
    return digest(json.dumps(sorted(members)).encode())
