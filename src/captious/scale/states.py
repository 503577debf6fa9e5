"""What metrics must know of the whole corpus, in the folder of scored shards.

::

    states/DIGEST/INDEX/NAME-SIZE.state     of one shard, until all are merged
    states/DIGEST/INDEX.state               of all shards

The digest is that of the manifest, the index that of the metric in it. A shard that changed is prepared again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from captious.errors import InputError
from captious.io.shards import Shard
from captious.io.storage import is_remote
from captious.metrics.contract import Metric
from captious.scale.folder import ShardFolder
from captious.text.states import State


@dataclass(frozen=True)
class CorpusStates:
    """The states of one metric."""

    folder: ShardFolder
    metric: Metric

    @property
    def _name(self) -> str:
        """The folder of the shards' states; the merged one has this name with an ending."""
        manifest = self.folder.manifest
        return f"states/{manifest.digest}/{manifest.metrics.index(str(self.metric))}"

    @property
    def _class(self) -> type[State]:
        assert self.metric.corpus_state is not None, "only metrics that need the whole corpus have states"
        return self.metric.corpus_state

    def prepared(self) -> set[str]:
        """Shards whose state is there."""
        there = set(self.folder.storage.names(self._name))
        return {shard.name for shard in self.folder.manifest.shards if _file_name(shard) in there}

    def begun(self) -> bool:
        """Whether any state is there that is not empty, of a shard or of all."""
        return self.merged() or any(self.folder.storage.sizes(self._name).values())

    def save(self, shard: Shard, state: State | None) -> None:
        """Write the state of a shard; an empty file for None."""
        name = f"{self._name}/{_file_name(shard)}"
        if state is None:
            self.folder.storage.write(name, b"")
            return
        with self._to_write(name) as path:
            state.save(path)

    def merged(self) -> bool:
        """Whether the states of all shards have been merged."""
        return self.folder.storage.exists(f"{self._name}.state")

    def merge(self) -> None:
        """Merge the states of all shards, which are then removed."""
        storage = self.folder.storage
        sizes = storage.sizes(self._name)
        full = [name for name in map(_file_name, self.folder.manifest.shards) if sizes[name]]
        if not full:
            raise InputError(f"shards: none of them holds an item that {self.metric} can score")
        with ExitStack() as stack:
            paths = [stack.enter_context(self._to_read(f"{self._name}/{name}")) for name in full]
            with self._to_write(f"{self._name}.state") as path:
                self._class.merge_files(paths, path)
        for name in sizes:
            storage.remove(f"{self._name}/{name}")

    def open(self) -> State:
        """The state of all shards."""
        with self._to_read(f"{self._name}.state") as path:
            return self._class.load(path)

    @contextmanager
    def _to_read(self, name: str) -> Iterator[Path]:
        """A file as a path of this machine. What is memory-mapped stays readable after the block."""
        if not is_remote(self.folder.address):
            yield Path(self.folder.address) / name
            return
        with _temporary() as path:
            path.write_bytes(self.folder.storage.read(name))
            yield path

    @contextmanager
    def _to_write(self, name: str) -> Iterator[Path]:
        """A path of this machine to write whole; what it holds at the end of the block gets the name."""
        if not is_remote(self.folder.address):
            yield Path(self.folder.address) / name
            return
        with _temporary() as path:
            yield path
            self.folder.storage.write(name, path.read_bytes())


@contextmanager
def _temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="captious-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "state"


def _file_name(shard: Shard) -> str:
    return f"{shard.name}-{shard.size}.state"
