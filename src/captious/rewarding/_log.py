"""The folder of a reward run: a scored folder with a part for each check of each rank, which ``captious view`` opens.

An item is one caption of one step, named ``STEP-RANK-NUMBER``. Beside its values it has the columns ``step``,
``prompt`` and ``reward``. A part is written whole under the name of its step, so that a training that is killed and
resumed writes no step twice; what a training had written beyond the step where it is resumed is moved aside.
"""

from __future__ import annotations

import json
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
from captious.runs import Run
from captious.runs.marker import Marker, MetricFacts
from captious.runs.summary import part_summary
from captious.runs.tables import items_table, rows_table, types_of, without_machine_paths

KEY = "rewards"
"""The entry of the marker that makes a run a reward run."""
SUPERSEDED = "superseded"
_PART = re.compile(r"step-(\d+)-(\d+)")


@dataclass(frozen=True)
class LogPlan:
    """What a reward run records of each check."""

    rewards: Mapping[str, float]
    """The rewarded metrics by written form, with their weights."""
    held_out: tuple[str, ...] = ()
    """Watched metrics whose fall is a sign."""
    diversity: tuple[str, ...] = ()
    """Watched metrics of all captions of a prompt."""
    every: int = 5
    scalings: Mapping[str, Scaling] = field(default_factory=dict)
    """How values become rewards, by written form, where they do not stay as they are."""
    probe: tuple[str, ...] = ()
    """The items whose captions are checked each time; without them the captions of the batch are."""

    @classmethod
    def of_record(cls, record: Any, where: str) -> LogPlan:
        """The plan again from the marker of a folder, which may come from somebody else."""
        try:
            rewards = {str(key): float(weight) for key, weight in record["rewards"].items()}
            held_out, diversity = (tuple(map(str, record[key])) for key in ("held_out", "diversity"))
            scaled = {str(key): Scaling.of_record(one) for key, one in record.get("scalings", {}).items()}
            probe = tuple(map(str, record.get("probe", ())))
            return cls(rewards, held_out, diversity, int(record["every"]), scaled, probe)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise InputError(f"{where}: is not of a reward run, expected one that captious.rewards wrote") from None

    def to_record(self) -> dict[str, Any]:
        """The plan as JSON."""
        lists = {"held_out": list(self.held_out), "diversity": list(self.diversity)}
        scaled = {key: one.to_record() for key, one in self.scalings.items()}
        further = {**({"scalings": scaled} if scaled else {}), **({"probe": list(self.probe)} if self.probe else {})}
        return {"rewards": dict(self.rewards), **lists, "every": self.every, **further}


@dataclass(frozen=True)
class LoggedStep:
    """The captions of one step, of all ranks, as they are stored."""

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
        """Where it is."""
        return Path(self.run.address)

    @classmethod
    def begun(cls, folder: str | Path, metrics: Sequence[Metric], plan: LogPlan) -> RewardLog:
        """A new log, or that of the same plan which already exists."""
        path = Path(folder)
        if is_remote(str(folder)):
            raise InputError(f"{folder}: is an address, expected a folder of this machine")
        # Listed before the marker is looked for: ranks begin together, and each writes the marker before anything else.
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
        log = cls(Run(str(path), Marker(path.name, facts, reading={KEY: plan.to_record()})), plan)
        log.run.write_marker()
        return log

    def write(self, step: int, rank: int, captions: CaptionSet, measurements: Mapping[str, Measurement]) -> RewardLog:
        """Write a check of a rank, whole, and then the marker that lists all parts; gives the log with it."""
        captions, name = without_machine_paths(captions), f"step-{step:07d}-{rank}"
        summary = part_summary(name, self.run, captions, measurements)
        items = items_table(captions, measurements, self.run.metrics)
        self.run.write_part(summary, items, types_of(measurements), rows_table(measurements))
        log = self.refreshed()
        log.run.write_marker()
        return log

    def refreshed(self) -> RewardLog:
        """The log with all parts that are there now, those of other ranks too. Only new ones are opened."""
        counted = {}
        for name in self.parts():
            try:
                counted[name] = self._counted(name)
            except (FileNotFoundError, InputError):  # its rank moved it aside, for the training is resumed
                if (self.folder / self.run.items_name(name)).exists():
                    raise
        parts = {name: one.rows for name, one in counted.items()}
        marker = replace(self.run.marker, parts=parts, items=sum(parts.values()))
        return replace(self, run=replace(self.run, marker=marker), counted=counted)

    def _counted(self, name: str) -> _CountedPart:
        """The rows of a part; it is opened only if it was not counted before."""
        facts = (self.folder / self.run.items_name(name)).stat()
        version, known = (facts.st_mtime_ns, facts.st_size), self.counted.get(name)
        if known and known.version == version:
            return known
        with self.run.parquet(self.run.items_name(name)) as file:
            return _CountedPart(version, int(file.metadata.num_rows))

    def parts(self) -> list[str]:
        """The names of the parts in the order of steps and ranks."""
        names = [Path(name).stem for name in self.run.storage.names("items")]
        return sorted((name for name in names if _PART.fullmatch(name)), key=_step_and_rank)

    def steps(self, rank: int | None = None) -> list[int]:
        """The steps that were checked, by any rank or by one."""
        pairs = map(_step_and_rank, self.parts())
        return sorted({step for step, own in pairs if rank is None or own == rank})

    def supersede(self, step: int, rank: int) -> int:
        """Move aside what a rank wrote at this step and later, before the training was resumed; gives their number."""
        later = [name for name in self.parts() if _step_and_rank(name)[1] == rank and _step_and_rank(name)[0] >= step]
        for name in later:
            for file in (self.run.items_name(name), self.run.rows_name(name)):
                source, target = self.folder / file, self.folder / SUPERSEDED / file
                if source.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    source.replace(target)
        if later:
            self.refreshed().run.write_marker()
        return len(later)

    def read(self, rank: int | None = None) -> list[LoggedStep]:
        """The captions of every step, of all ranks or of one."""
        by_step: dict[int, list[str]] = {}
        for name in self.parts():
            step, own = _step_and_rank(name)
            if rank is None or own == rank:
                by_step.setdefault(step, []).append(name)
        return [self._step(step, names) for step, names in sorted(by_step.items())]

    def _step(self, step: int, names: Sequence[str]) -> LoggedStep:
        run = replace(self.run, marker=replace(self.run.marker, parts={}))
        tables = [run.table(name).replace_schema_metadata() for name in names]
        rows = [row for table in tables for row in table.to_pylist()]
        keys = [*run.metrics, *self.plan.diversity]

        def numbers(key: str) -> Floats:
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
            numbers("reward"),
            {key: numbers(key) for key in keys},
        )

    @cached_property
    def labels(self) -> dict[str, str]:
        """What each metric is called, by its written form."""
        return {**{key: _label(key) for key in self.plan.diversity}, **self.run.labels}

    def check(self, logged: LoggedStep) -> StepCheck:
        """The numbers of a step that are compared with the start."""
        signs = {key: 1.0 if self.run.facts[key].higher_is_better else -1.0 for key in self.plan.held_out}
        watched = {key: sign * logged.values[key] for key, sign in signs.items()}
        return StepCheck.of(logged.step, logged.prompts, logged.texts, logged.reward, watched)


def open_log(folder: str | Path) -> RewardLog:
    """The log of a folder that ``captious.rewards`` wrote."""
    run = Run.at(folder)
    if not is_reward_run(folder):
        raise InputError(f"{folder}: is not of a reward run, expected one that captious.rewards wrote")
    plan = LogPlan.of_record(run.marker.reading[KEY], run.storage.get_address(RUN))
    missing = [key for key in (*plan.rewards, *plan.held_out) if key not in run.metrics]
    if missing:
        raise InputError(f"{folder}: {missing[0]} is not among its metrics, expected what captious.rewards wrote")
    return RewardLog(run, plan).refreshed()


def is_reward_run(folder: str | Path) -> bool:
    """Whether a folder is one that ``captious.rewards`` wrote; nothing else is checked."""
    path = Path(folder) / RUN
    if is_remote(str(folder)) or not path.is_file():
        return False
    try:
        record = json.loads(path.read_bytes())
        return KEY in record["reading"]
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return False


def _label(key: str) -> str:
    """What a metric is called; its written form if it is not known here."""
    try:
        return parse(key).label
    except InputError:
        return key


def _step_and_rank(name: str) -> tuple[int, int]:
    match = _PART.fullmatch(name)
    assert match
    return int(match[1]), int(match[2])
