"""States of metrics on disk: those of shards are saved, merged with bounded memory, and opened memory-mapped.

Only a metric that declares `Metric.needs_corpus` has a state to save; every other one is prepared in each worker.

- ``save_state(metric.prepare(shard), path)``: pass 1, one file for each shard and metric;
- ``merge_states(paths, out)``: the state of all; merging merged files in any tree gives the same file;
- ``metric.measure(shard, open_state(out))``: pass 2, equal to the shard's part of the measurement of the whole set.

Files are written whole or not at all and hold a line of JSON and two arrays, never a pickle. Foreign, damaged or cut
files, and files of different kinds together, are refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from captious._files import refuse_irregular
from captious.errors import InputError
from captious.text.counts import LONGEST_HEADER, CorpusState

MODULES = {
    "captious-idf": "captious.text.idf",
    "captious-known": "captious.metrics.diversity",
    "captious-token-weights": "captious.metrics.bertscore",
    "captious-moments": "captious.metrics.clip.specs",
}
"""Where the class of a state is, by the first key of its file; imported when such a file is opened."""


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Shared(Generic[T]):
    """A state that is the same for every shard, such as a model: merging only checks that."""

    value: T
    key: str

    def merge(self, other: Shared[T]) -> Shared[T]:
        """The state itself."""
        if self.key != other.key:
            raise InputError(f"cannot merge shards scored by {self.key} and {other.key}")
        return self


def save_state(state: Any, path: str | Path) -> None:
    """Write the state that the `Metric.prepare` of a metric with `Metric.needs_corpus` returned."""
    if not isinstance(state, CorpusState):
        raise InputError(
            f"a state of type {type(state).__name__} is the same for every shard: prepare it in each worker"
        )
    state.save(path)


def open_state(path: str | Path) -> CorpusState:
    """The state in a file, its arrays memory-mapped."""
    return _class_of(path).open(path)


def merge_states(paths: Sequence[str | Path], out: str | Path) -> None:
    """Write the state of all shards together, from the files of their states."""
    classes = {_class_of(path): path for path in paths}
    if len(classes) != 1:
        kinds = " and ".join(f"{path} ({one.kind.what})" for one, path in classes.items()) or "none"
        raise InputError(f"states to merge: {kinds}, expected files of one kind")
    next(iter(classes)).merge_files(paths, out)


def _class_of(path: str | Path) -> type[CorpusState]:
    refuse_irregular(path)
    try:
        with Path(path).open("rb") as file:
            facts = json.loads(file.readline(LONGEST_HEADER))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); make it with: captious score") from None
    except (ValueError, RecursionError):
        facts = None
    key = next(iter(facts), "") if isinstance(facts, dict) else ""
    if key in MODULES:
        import_module(MODULES[key])
    for state in CorpusState.__subclasses__():  # those of metrics in other packages too
        if state.kind.key == key:
            return state
    raise InputError(f"{path}: is no state of a metric; make one with: captious score")
