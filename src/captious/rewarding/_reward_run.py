"""The folder of a reward run: a run with one part per check and rank, which ``captious view`` opens.

An item is one caption of one step, named ``STEP-RANK-NUMBER``. In addition to its values it has the columns ``step``,
``prompt`` and ``reward``. A part is written whole under the name of its step, so that a training that is killed and
resumed writes no step twice; steps that were written after the resumed checkpoint are moved aside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from captious._core.files import RUN, is_draft
from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.storage import is_remote
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement
from captious.metrics.registry import parse
from captious.rewarding._scaling import Scaling
from captious.rewarding._signs import StepCheck
from captious.runs import Run, is_reward_run
from captious.runs.marker import REWARDS, Marker, MetricFacts
from captious.runs.run_tables import hash_types, hide_machine_paths, make_items_table, make_rows_table
from captious.runs.summary import summarize_part

SUPERSEDED = "superseded"
_PART = re.compile(r"step-(\d+)-(\d+)")


@dataclass(frozen=True)
class LogPlan:
    """The content of each check in a reward run."""

    rewards: Mapping[str, float]
    """The rewarded metrics by written form, with their weights."""
    held_out: tuple[str, ...] = ()
    """Watched metrics whose fall is a sign."""
    diversity: tuple[str, ...] = ()
    """Watched metrics of all captions of a prompt."""
    every: int = 5
    scalings: Mapping[str, Scaling] = field(default_factory=dict)
    """The scaling of values to rewards, by written form, if it is not the identity."""
    probe: tuple[str, ...] = ()
    """The items whose captions are checked each time; without them the captions of the batch are."""

    @classmethod
    def of_record(cls, record: Any, where: str) -> LogPlan:
        """Parse the plan from the marker of a folder, which may come from an untrusted source."""
        try:
            rewards = {str(key): float(weight) for key, weight in record["rewards"].items()}
            held_out, diversity = (tuple(map(str, record[key])) for key in ("held_out", "diversity"))
            scaled = {str(key): Scaling.of_record(one) for key, one in record.get("scalings", {}).items()}
            probe = tuple(map(str, record.get("probe", ())))
            return cls(rewards, held_out, diversity, int(record["every"]), scaled, probe)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise InputError(f"{where}: is not of a reward run, expected one that captious.rewards wrote") from None

    def to_record(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        lists = {"held_out": list(self.held_out), "diversity": list(self.diversity)}
        scaled = {key: one.to_record() for key, one in self.scalings.items()}
        further = {**({"scalings": scaled} if scaled else {}), **({"probe": list(self.probe)} if self.probe else {})}
        return {"rewards": dict(self.rewards), **lists, "every": self.every, **further}


@dataclass(frozen=True)
class LoggedStep:
    """The stored captions of one step, of all ranks."""

    step: int
    ids: list[str]
    prompts: list[str]
    texts: list[str]
    references: list[list[str]]
    images: list[str | None]
    reward: Floats
    values: Mapping[str, Floats]
    """Values by written form of the metric: rewarded, watched, and metrics of all captions of a prompt."""


class _CountedPart(NamedTuple):
    version: tuple[int, int]
    """When its file was written, and its size."""
    rows: int


@dataclass(frozen=True)
class RewardLog:
    """The folder of a reward run."""

    run: Run
    plan: LogPlan = field(default_factory=lambda: LogPlan({}))
    counted: Mapping[str, _CountedPart] = field(default_factory=dict)
    """The parts whose rows were counted already; a part of the same name that was written again is another file."""

    @property
    def folder(self) -> Path:
        """The path of the folder."""
        return Path(self.run.address)

    @classmethod
    def begin(cls, folder: str | Path, metrics: Sequence[Metric], plan: LogPlan) -> RewardLog:
        """Start a new log, or open the existing one of the same plan."""
        path = Path(folder)
        if is_remote(str(folder)):
            raise InputError(f"{folder}: is an address, expected a folder of this machine")
        # List the folder before looking for the marker: ranks start together, and each writes the marker first.
        occupied = path.exists() and (not path.is_dir() or any(not is_draft(one.name) for one in path.iterdir()))
        if (path / RUN).exists():
            log = open_log(path)
            if log.plan != plan:
                raise InputError(
                    f"{path}: contains the checks of other rewards or with other settings, expected the same; "
                    "name another folder, or remove this one"
                )
            return log
        if occupied:
            raise InputError(f"{path}: is not a reward run, expected an empty or a new folder")
        path.mkdir(parents=True, exist_ok=True)
        facts = tuple(MetricFacts.of(metric) for metric in metrics)
        log = cls(Run(str(path), Marker(path.name, facts, reading={REWARDS: plan.to_record()})), plan)
        log.run.write_marker()
        return log

    def write(self, step: int, rank: int, captions: CaptionSet, measurements: Mapping[str, Measurement]) -> RewardLog:
        """Write a check of a rank, then the marker that lists all parts; return the log with the new part."""
        captions, name = hide_machine_paths(captions), f"step-{step:07d}-{rank}"
        summary = summarize_part(name, self.run, captions, measurements)
        items = make_items_table(captions, measurements, self.run.metrics)
        self.run.write_part(summary, items, hash_types(measurements), make_rows_table(measurements))
        log = self.refresh()
        log.run.write_marker()
        return log

    def refresh(self) -> RewardLog:
        """Return the log with all parts in the folder, including those of other ranks. Only new parts are opened."""
        counted = {}
        for name in self.list_parts():
            try:
                counted[name] = self._count_rows(name)
            except (FileNotFoundError, InputError):  # its rank moved it aside, for the training is resumed
                if (self.folder / self.run.items_name(name)).exists():
                    raise
        parts = {name: one.rows for name, one in counted.items()}
        marker = replace(self.run.marker, parts=parts, items=sum(parts.values()))
        return replace(self, run=replace(self.run, marker=marker), counted=counted)

    def _count_rows(self, name: str) -> _CountedPart:
        """Return the number of rows of a part; a part that was counted before is not opened again."""
        facts = (self.folder / self.run.items_name(name)).stat()
        version, known = (facts.st_mtime_ns, facts.st_size), self.counted.get(name)
        if known and known.version == version:
            return known
        with self.run.parquet(self.run.items_name(name)) as file:
            return _CountedPart(version, int(file.metadata.num_rows))

    def list_parts(self) -> list[str]:
        """Return the names of the parts in the order of steps and ranks."""
        names = [Path(name).stem for name in self.run.storage.names("items")]
        return sorted((name for name in names if _PART.fullmatch(name)), key=_parse_part_name)

    def list_steps(self, rank: int | None = None) -> list[int]:
        """Return the steps that were checked, by any rank or by one."""
        pairs = map(_parse_part_name, self.list_parts())
        return sorted({step for step, own in pairs if rank is None or own == rank})

    def supersede(self, step: int, rank: int) -> int:
        """Move away the parts of a rank from this step on, written before the training was resumed; count them."""
        later = [
            name
            for name in self.list_parts()
            if _parse_part_name(name)[1] == rank and _parse_part_name(name)[0] >= step
        ]
        for name in later:
            for file in (self.run.items_name(name), self.run.rows_name(name)):
                source, target = self.folder / file, self.folder / SUPERSEDED / file
                if source.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    source.replace(target)
        if later:
            self.refresh().run.write_marker()
        return len(later)

    def read(self, rank: int | None = None) -> list[LoggedStep]:
        """Read the captions of every step, of all ranks or of one."""
        by_step: dict[int, list[str]] = {}
        for name in self.list_parts():
            step, own = _parse_part_name(name)
            if rank is None or own == rank:
                by_step.setdefault(step, []).append(name)
        return [self._read_step(step, names) for step, names in sorted(by_step.items())]

    def _read_step(self, step: int, names: Sequence[str]) -> LoggedStep:
        run = replace(self.run, marker=replace(self.run.marker, parts={}))
        tables = [run.table(name).replace_schema_metadata() for name in names]
        rows = [row for table in tables for row in table.to_pylist()]
        keys = [*run.metrics, *self.plan.diversity]

        def read_numbers(key: str) -> Floats:
            try:
                return np.array([np.nan if row.get(key) is None else float(row[key]) for row in rows], dtype=np.float64)
            except (TypeError, ValueError):
                where = run.storage.get_address(run.items_name(names[0]))
                raise InputError(
                    f"{where}: column {key!r} contains no numbers, expected what captious.rewards wrote"
                ) from None

        return LoggedStep(
            step,
            [row["id"] for row in rows],
            [str(row.get("prompt")) for row in rows],
            [(row["candidates"] or [""])[0] for row in rows],
            [row.get("references") or [] for row in rows],
            [row.get("image") for row in rows],
            read_numbers("reward"),
            {key: read_numbers(key) for key in keys},
        )

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label of each metric, by its written form."""
        return {**{key: _find_label(key) for key in self.plan.diversity}, **self.run.labels}

    def check(self, logged: LoggedStep) -> StepCheck:
        """Return the numbers of a step that are compared with the start."""
        signs = {key: 1.0 if self.run.facts[key].higher_is_better else -1.0 for key in self.plan.held_out}
        watched = {key: sign * logged.values[key] for key, sign in signs.items()}
        return StepCheck.of(logged.step, logged.prompts, logged.texts, logged.reward, watched)


def open_log(folder: str | Path) -> RewardLog:
    """Open the log in a folder that ``captious.rewards`` wrote."""
    run = Run.at(folder)
    if not is_reward_run(folder):
        raise InputError(f"{folder}: is not of a reward run, expected one that captious.rewards wrote")
    plan = LogPlan.of_record(run.marker.reading[REWARDS], run.storage.get_address(RUN))
    missing = [key for key in (*plan.rewards, *plan.held_out) if key not in run.metrics]
    if missing:
        raise InputError(f"{folder}: {missing[0]} is not among its metrics, expected what captious.rewards wrote")
    return RewardLog(run, plan).refresh()


def _find_label(key: str) -> str:
    """Return the label of a metric, or its written form if it is not installed."""
    try:
        return parse(key).label
    except InputError:
        return key


def _parse_part_name(name: str) -> tuple[int, int]:
    match = _PART.fullmatch(name)
    assert match
    return int(match[1]), int(match[2])
