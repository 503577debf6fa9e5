"""Runs as ``captious score`` and ``compare`` wrote them: the items of every system, and what its metrics are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

from captious.errors import InputError
from captious.runs.folder import Run as ScoredRun
from captious.runs.folder import joined, runs_in

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
    run: ScoredRun

    @property
    def folder(self) -> Path:
        """Where the items are."""
        return Path(self.run.address)

    @property
    def scores(self) -> tuple[Score, ...]:
        """The metrics of the run."""
        return tuple(
            Score(one.metric, one.label, one.higher_is_better, (one.range[0] or 0.0, one.range[1]))
            for one in self.run.marker.metrics
        )

    @property
    def signatures(self) -> Mapping[str, str]:
        """By the written form of the metric."""
        return {one.metric: one.signature for one in self.run.marker.metrics}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the run says before its numbers are trusted."""
        return self.run.marker.warnings

    def items(self) -> pa.Table:
        """The items of the run with texts and scores, read anew: whoever needs a part of them keeps that alone."""
        import pyarrow as pa

        table = joined([self.run.table(part).replace_schema_metadata() for part in self.run.names])
        if "references" not in table.column_names:
            none = pa.array([[]] * len(table), pa.list_(pa.string()))
            table = table.append_column("references", none)
        return table


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
    runs = {}
    for name, run in runs_in(folder).items():
        shown = name or PurePath(run.marker.name or folder.resolve().name).name.split(".")[0]
        if not run.metrics:
            raise InputError(f"{run.address}: holds no score that its marker names")
        runs[shown] = Run(shown, folder, run)
    return runs
