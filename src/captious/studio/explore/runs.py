"""Runs as ``captious score`` and ``compare`` wrote them: the items of every system, and what its metrics are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

from captious._files import MARKER, load_json
from captious.comparison import system_folders
from captious.errors import InputError, one_line
from captious.runs import ITEMS, refuse_shards

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Score:
    """One column of numbers to sort, filter and plot by: a metric, or what people said."""

    key: str
    """The written form of a metric, or the name of an aspect that people rated."""
    label: str
    higher: bool = True
    """Whether higher is better."""
    range: tuple[float, float | None] = (0.0, None)
    kind: Literal["metric", "rating"] = "metric"


@dataclass(frozen=True)
class Run:
    """The items of one system with its scores."""

    name: str
    root: Path
    """The folder that the user named."""
    folder: Path
    """Where ``items.parquet`` is."""
    scores: tuple[Score, ...]
    signatures: Mapping[str, str]
    """By the written form of the metric."""
    warnings: tuple[str, ...] = ()

    def items(self) -> pa.Table:
        """The items of the run with texts and scores, read anew: whoever needs a part of them keeps that alone."""
        return _read(self.folder / ITEMS)


def open_runs(folders: Sequence[str | Path] | Mapping[str, str | Path]) -> list[Run]:
    """Every system of these run folders; one that has been named by the user keeps that name.

    A system is called as in its run, and where two are called the same, by the folders of their runs.
    """
    named = isinstance(folders, Mapping)
    entries = list(folders.items()) if isinstance(folders, Mapping) else [("", folder) for folder in folders]
    if not entries:
        raise InputError("no run to explore, expected a folder that captious score wrote")
    opened = [(chosen, Path(folder), _open(Path(folder))) for chosen, folder in entries]
    names = [name for _, _, runs in opened for name in runs]
    repeated = {name for name, number in Counter(names).items() if number > 1}
    result: list[Run] = []
    for chosen, folder, runs in opened:
        for name, run in runs.items():
            shown = folder.resolve().name if name in repeated and len(runs) == 1 else name
            shown = f"{folder.resolve().name}-{name}" if name in repeated and len(runs) > 1 else shown
            if named:
                shown = chosen if len(runs) == 1 else f"{chosen}-{name}"
            result.append(replace(run, name=shown))
    return _numbered(result)


def _numbered(runs: Sequence[Run]) -> list[Run]:
    """The runs with a number after a name that an earlier one has."""
    counts: Counter[str] = Counter()
    result = []
    for run in runs:
        counts[run.name] += 1
        result.append(run if counts[run.name] == 1 else replace(run, name=f"{run.name}-{counts[run.name]}"))
    return result


def _open(folder: Path) -> dict[str, Run]:
    """The systems of one run folder by name."""
    facts = _facts(folder)
    if (folder / ITEMS).is_file():
        name = PurePath(str(facts.get("name") or folder.resolve().name)).name.split(".")[0]
        return {name: _run(name, folder, folder, facts)}
    systems = facts.get("systems")
    if isinstance(systems, Mapping):
        folders = {name: folder / inner for name, inner in system_folders(systems).items()}
        if folders and all((inner / ITEMS).is_file() for inner in folders.values()):
            return {name: _run(name, folder, inner, systems[name]) for name, inner in folders.items()}
    raise InputError(f"{folder}: holds no {ITEMS}, expected a folder that captious score or captious compare wrote")


def _facts(folder: Path) -> Mapping[str, Any]:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder, expected one that captious score wrote")
    refuse_shards(folder)
    try:
        facts = load_json(folder / MARKER)
    except FileNotFoundError:
        raise InputError(f"{folder}: no {MARKER}, expected a folder that captious score wrote") from None
    except ValueError as error:
        raise InputError(f"{folder / MARKER}: is no JSON ({error})") from None
    if not isinstance(facts, Mapping):
        raise InputError(f"{folder / MARKER}: is a {type(facts).__name__}, expected the facts of a run")
    return facts


def _run(name: str, root: Path, folder: Path, facts: Mapping[str, Any]) -> Run:
    path = folder / ITEMS
    columns = _columns(path)
    scores, signatures = [], {}
    for metric in facts.get("metrics", ()):
        try:
            key, (low, high) = str(metric["metric"]), metric["range"]
            score = Score(key, str(metric["label"]), bool(metric["higher_is_better"]), (low or 0.0, high))
        except (KeyError, TypeError, ValueError):
            raise InputError(f"{folder}: {MARKER} describes a metric in a way that this version cannot read") from None
        if key in columns:
            scores.append(score)
            signatures[key] = str(metric.get("signature", ""))
    if not scores:
        raise InputError(f"{path}: holds no score that {MARKER} names")
    return Run(name, root, folder, tuple(scores), signatures, tuple(map(str, facts.get("warnings", ()))))


def _columns(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    with _in_one_line(path):
        names: list[str] = pq.read_schema(path).names
    return names


@contextmanager
def _in_one_line(path: Path) -> Iterator[None]:
    """Whatever a damaged file makes the reader raise becomes one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: is no Parquet file that can be read ({one_line(error)})") from None


def _read(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _in_one_line(path):
        table = pq.read_table(path)
    lists = pa.list_(pa.string())
    try:
        for column, kind in (("id", pa.string()), ("candidates", lists), ("references", lists)):
            place = table.column_names.index(column)
            table = table.set_column(place, column, table[column].cast(kind))
    except (ValueError, pa.ArrowException):
        raise InputError(f"{path}: no column {column} of texts, expected a file that captious score wrote") from None
    return table


def reasons_of(text: str | None) -> dict[str, str]:
    """Why an item has no value, by metric, from the cell that says so.

    >>> reasons_of('{"cider": "no references"}')
    {'cider': 'no references'}
    """
    try:
        reasons = json.loads(text) if text else {}
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in reasons.items()} if isinstance(reasons, dict) else {}
