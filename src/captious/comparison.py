"""``captious.compare``: paired tests between systems that captioned the same items."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import numpy as np

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.evaluation import ITEMS, Report, Specs, evaluate, explorer, metric_specs, on_scale, own_scale, settings_of
from captious.io.formats import name_of
from captious.io.read import read
from captious.metrics.measurement import Measurement
from captious.metrics.registry import DEFAULT, parse_all
from captious.options import LEVEL, PERMUTATIONS, Missing, Option, Reading, Resampling, Runtime, check_value
from captious.render import Cell, Column, Document, Phrase, Result, Section, Span, Table, link
from captious.render.tables import provenance
from captious.stats.resampling import (
    Convention,
    Statistic,
    bootstrap_weights,
    holm,
    paired_bootstrap,
    paired_randomization,
    swap_masks,
)

Test = Literal["randomization", "bootstrap"]
NAN = float("nan")


@dataclass(frozen=True)
class Difference:
    """One metric between two systems: the difference, its interval, and whether it may be chance."""

    metric: str
    baseline: str
    system: str
    difference: float
    """Value of the system minus value of the baseline."""
    low: float
    high: float
    p: float
    p_holm: float
    """Adjusted over all systems compared on this metric."""
    items: int
    """Those that both systems have a value for."""
    better: str | None
    """The system whose adjusted p lies below 1 − level, if one does: at a level of 95 %, below 0.05."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Reports of several systems on the same items, and the paired tests between them."""

    reports: Mapping[str, Report]
    differences: tuple[Difference, ...]
    test: str
    """The test with its number of permutations or resamples, and the seed."""
    warnings: tuple[str, ...] = ()
    level: float = LEVEL
    """Confidence level of the intervals and of ``better``."""

    def __repr__(self) -> str:
        numbers = f"{len(self._first.measurements)} metrics, {self._items} items"
        return f"<Comparison of {', '.join(self.reports)}: {numbers}, {self.test}>"

    @property
    def _first(self) -> Report:
        return next(iter(self.reports.values()))

    @property
    def _items(self) -> int:
        return len(self._first.captions)

    def document(self) -> Document:
        """Systems by metrics, every paired test, and the items to explore."""
        tables = [self._systems(), *([self._tests()] if self.differences else [])]
        return Document(
            f"{len(self.reports)} systems, {self._items:,} items",
            f"{', '.join(self.reports)}; differences by {self.test}",
            [*tables, *self._explorer()],
            warnings=[*self.warnings, *_by_system({name: report.warnings for name, report in self.reports.items()})],
            notes=_by_system({name: report.notes for name, report in self.reports.items()}),
            signatures=_by_system({name: report.signatures for name, report in self.reports.items()}),
            data=self.data(),
        )

    def _explorer(self) -> Sequence[Section]:
        return [explorer(self.reports)]

    def _metric(self, key: str) -> Phrase:
        """What tables call a metric, with a link to the items sorted by it."""
        return link(self._first.label(key), f"#sort={quote(key)}")

    def _systems(self) -> Table:
        reports, first = list(self.reports.values()), self._first
        baseline = next(iter(self.reports))
        differing = {(row.system, row.metric) for row in self.differences if row.better and row.baseline == baseline}
        columns: list[Column | str] = ["system"]
        rows: list[list[Any]] = [[name] for name in self.reports]
        for key, measurement in first.measurements.items():
            direction = measurement.metric.higher_is_better
            options: dict[str, Any] = {"key": key, "higher_is_better": direction, "percent": 1}
            columns.append(Column(first.label(key), **options, spread="half", bar=True))
            for row, cell in zip(rows, on_scale(reports, key), strict=True):
                row.append(replace(cell, mark="†" if (row[0], key) in differing else ""))
        spread = f"± is half of the {100 * self.level:.4g}% interval. " if first.intervals else ""
        note = f"{spread}† differs from {baseline}: {self.test}, Holm-adjusted p < {1 - self.level:.4g}"
        return Table("systems", "Systems", columns, rows, note if self.differences else spread.strip(), turned=True)

    def _tests(self) -> Table:
        level = self.level if self._first.intervals else None
        columns = (
            "metric",
            "systems",
            Column("difference", percent=2, signed=True, level=level, bold=True, bar=True),
            Column("p", "p"),
            Column("p (Holm)", "p", key="p_holm"),
            "better",
        )
        reach = {
            key: max((abs(end) for row in self.differences if row.metric == key for end in _ends(row)), default=0.0)
            for key in self._first.measurements
        }
        own = {key: own_scale(one.metric) for key, one in self._first.measurements.items()}
        rows = []
        for row in self.differences:
            cell = Cell(
                row.difference, row.low, row.high, limits=(-reach[row.metric], reach[row.metric]), **own[row.metric]
            )
            better = Span(row.better, "strong") if row.better else Span("neither", "quiet")
            rows.append(
                (self._metric(row.metric), f"{row.system} − {row.baseline}", cell, row.p, row.p_holm, Phrase((better,)))
            )
        metrics = [row.metric for row in self.differences]
        several = len(set(metrics)) < len(metrics)
        starts = [index for index in range(1, len(metrics)) if several and metrics[index] != metrics[index - 1]]
        note = (
            f"{self.test}; p-values are two-sided. Holm's correction covers the tests of one metric. “better” names a "
            f"system where the corrected p is below {1 - self.level:.4g}"
        )
        return Table("differences", "Differences", columns, rows, note, breaks=starts)

    def data(self) -> dict[str, Any]:
        """The numbers of the systems, and the paired tests between them, as JSON holds them."""
        return {
            "test": self.test,
            "warnings": list(self.warnings),
            "systems": {name: {**provenance(), **report.data()} for name, report in self.reports.items()},
            "differences": [asdict(row) for row in self.differences],
        }

    def _columns(self, table: str | None) -> Mapping[str, Sequence[Any]]:
        """Of ``items`` one row per system and item, with the columns of a report; otherwise a table."""
        if table != ITEMS:
            return super()._columns(table)
        parts = {name: report._columns(ITEMS) for name, report in self.reports.items()}
        systems = [name for name, part in parts.items() for _ in part["id"]]
        keys = dict.fromkeys(key for part in parts.values() for key in part)
        lacking = [None] * self._items
        return {
            "system": systems,
            **{key: [cell for part in parts.values() for cell in part.get(key, lacking)] for key in keys},
        }

    def write_files(self, folder: Path) -> None:
        """Write the values of every item, those of each system in a folder of its own."""
        for name, inner in system_folders(self.reports).items():
            (folder / inner).mkdir()
            self.reports[name].write_files(folder / inner)


def system_folders(names: Iterable[str]) -> dict[str, str]:
    """The folder of each system in a saved comparison: its name, with its number where another has the same.

    >>> system_folders(["a/b", "a b", "c"])
    {'a/b': 'a-b', 'a b': 'a-b-2', 'c': 'c'}
    """
    folders: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        plain = re.sub(r"[^\w.-]+", "-", name).strip(".-") or "system"
        folders[name] = f"{plain}-{number}" if plain in folders.values() else plain
    return folders


def compare(
    systems: Mapping[str, Any] | Sequence[Any],
    metrics: Specs = DEFAULT,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    test: Test = "randomization",
    permutations: int = PERMUTATIONS,
    every_pair: bool = False,
    convention: Convention = "two-sided",
) -> Comparison:
    """Test every system against the first, or every pair, on every metric, with Holm's correction per metric.

    Parameters
    ----------
    systems
        Captions by the name of the system, each as ``evaluate`` takes them, or its report. In a list, the names are
        those of the files and sets, else ``system-1``, ``system-2``, …
    metrics, runtime, progress, references, images
        As in ``evaluate``.
    resampling
        How the bootstrap makes intervals and, with ``test="bootstrap"``, p-values. A difference counts where p is
        below 1 − ``level``.
    missing
        Items that a system lacks: an error, or left out of all systems with ``skip``.
    test
        ``randomization`` swaps captions between the two systems, ``bootstrap`` resamples items.
    permutations
        How many permutations the randomization test draws.
    every_pair
        Test all pairs, not only against the first system.
    convention
        How the bootstrap test counts; ``sacrebleu`` is one-sided for a clear difference.

    >>> references = {"1": "a cat sits", "2": "a dog runs"}
    >>> systems = {"a": {"1": "a cat", "2": "a dog"}, "b": {"1": "a cat sits", "2": "a dog"}}
    >>> compare(systems, "rouge", references=references).differences[0].better is None
    True
    """
    resampling, runtime = settings_of(resampling, runtime, progress)
    systems = named_systems(systems)
    specs = metric_specs(metrics)
    if len(systems) < 2:
        raise InputError(f"{len(systems)} system given, expected at least two to compare")
    tests = PairedTest(resampling, test, permutations, every_pair, convention)
    reading = Reading(references, images, missing)
    sets = align({name: read(captions, reading=reading) for name, captions in systems.items()}, missing)
    parsed = parse_all(specs, sets.values())
    reports = {
        name: evaluate(captions, parsed, resampling, runtime, _prefixed(progress, name))
        for name, captions in sets.items()
    }

    def shared(baseline: str, system: str, key: str) -> StatisticPair:
        ours, theirs = _shared(reports[baseline].measurements[key], reports[system].measurements[key])
        return StatisticPair(ours.statistic, theirs.statistic, len(sets[baseline]) - len(ours.reasons))

    differences = tests.differences(reports, shared, progress)
    return Comparison(reports, tuple(differences), tests.name, _remarks(sets, differences), resampling.level)


class StatisticPair(NamedTuple):
    """One metric of two systems on what both have a value for."""

    baseline: Statistic
    system: Statistic
    items: int


@dataclass(frozen=True)
class PairedTest:
    """How systems are tested: items, or shards, are resampled or change sides."""

    resampling: Resampling = Resampling()
    test: Test = "randomization"
    permutations: int = PERMUTATIONS
    every_pair: bool = False
    convention: Convention = "two-sided"

    def __post_init__(self) -> None:
        check_value("test", self.test, Test, Option(""))
        check_value("convention", self.convention, Convention, Option(""))
        check_value("permutations", self.permutations, int, Option("", min=1))
        if self.test == "bootstrap" and not self.resampling.samples:
            raise InputError(
                "samples=0: the bootstrap test needs resamples, expected at least 1 or test='randomization'"
            )

    @property
    def name(self) -> str:
        """The test with its number of permutations or resamples, and the seed."""
        number = self.permutations if self.test == "randomization" else self.resampling.samples
        sacrebleu = ",sacrebleu" if self.convention == "sacrebleu" else ""
        return f"paired {self.test}({number},seed={self.resampling.seed}){sacrebleu}"

    def differences(
        self,
        reports: Mapping[str, Any],
        paired: Callable[[str, str, str], StatisticPair],
        progress: Callable[[str], None] | None = None,
    ) -> list[Difference]:
        """Every test of a metric that can be resampled, with Holm's correction; ``paired`` gives what is tested."""
        names = list(reports)
        pairs = list(combinations(names, 2)) if self.every_pair else [(names[0], other) for other in names[1:]]
        tested = [key for key, measurement in reports[names[0]].measurements.items() if measurement.additive]
        rows: dict[str, list[Difference]] = {key: [] for key in tested}
        for baseline, system in pairs if tested else []:
            if progress:
                progress(f"{baseline} and {system}")
            shared = [paired(baseline, system, key) for key in tested]
            for key, one, (p, low, high) in zip(tested, shared, self._tested(shared), strict=True):
                gap = one.system.value - one.baseline.value
                row = Difference(key, baseline, system, gap, low, high, p, p_holm=p, items=one.items, better=None)
                rows[key].append(row)
        return [row for key in tested for row in _adjusted(rows[key], reports[names[0]], self.resampling.level)]

    def _tested(self, pairs: Sequence[StatisticPair]) -> list[tuple[float, float, float]]:
        """p-value, and ends of the interval, of each pair; all share the draws."""
        statistics = [(one.baseline, one.system) for one in pairs]
        units, resampling = len(statistics[0][0].rows), self.resampling
        bootstrapped = [(NAN, NAN, NAN)] * len(statistics)
        if resampling.samples:
            draws = bootstrap_weights(units, resampling.samples, resampling.seed)
            bootstrapped = paired_bootstrap(statistics, draws, resampling.level, self.convention)
        if self.test == "bootstrap":
            return bootstrapped
        p_values = paired_randomization(statistics, swap_masks(units, self.permutations, resampling.seed))
        return [(p, low, high) for p, (_, low, high) in zip(p_values, bootstrapped, strict=True)]


def named_systems(systems: Any) -> dict[str, Any]:
    """Systems by name; those of a list are called by their files and sets, else by numbers."""
    if isinstance(systems, Mapping):
        return {str(name): _captions(one) for name, one in systems.items()}
    if not isinstance(systems, (list, tuple)):
        raise InputError(f"systems: {type(systems).__name__}, expected {{name: captions}} or a list of captions")
    sets = [_captions(one) for one in systems]
    numbered = [f"system-{number}" for number in range(1, len(sets) + 1)]
    sources = [name_of(one) for one in sets]
    names = [
        number if source == "captions" else PurePath(source).name.split(".")[0] or source
        for source, number in zip(sources, numbered, strict=True)
    ]
    # Two files of one name in different folders are called by their paths.
    unique = next((choice for choice in (names, sources) if len(set(choice)) == len(choice)), numbered)
    return dict(zip(unique, sets, strict=True))


def _captions(system: Any) -> Any:
    return system.captions if isinstance(system, Report) else system


def _adjusted(rows: Sequence[Difference], report: Report, level: float) -> list[Difference]:
    """The tests of one metric with Holm's correction, and the winner where there is one."""
    adjusted = []
    for row, p in zip(rows, holm([row.p for row in rows]), strict=True):
        higher = report.measurements[row.metric].metric.higher_is_better
        winner = row.system if (row.difference > 0) == higher else row.baseline
        adjusted.append(replace(row, p_holm=p, better=winner if p < 1 - level else None))
    return adjusted


def _ends(row: Difference) -> list[float]:
    return [end for end in (row.difference, row.low, row.high) if end == end]


def _by_system(lines: Mapping[str, Sequence[str]]) -> list[str]:
    """Each line once, with the names of the systems that have it where not all have."""
    systems: dict[str, list[str]] = {}
    for name, texts in lines.items():
        for text in texts:
            systems.setdefault(text, []).append(name)
    return [text if len(names) == len(lines) else f"{', '.join(names)}: {text}" for text, names in systems.items()]


def _shared(baseline: Measurement, system: Measurement) -> tuple[Measurement, Measurement]:
    """Both on the items that both have a row for, so that the test stays paired."""
    if not baseline.reasons and not system.reasons:
        return baseline, system
    without = np.isnan(np.asarray(baseline.rows)).any(axis=1) | np.isnan(np.asarray(system.rows)).any(axis=1)
    reasons = {key: "" for key, left_out in zip(baseline.ids, without.tolist(), strict=True) if left_out}
    ours, theirs = (
        replace(side, rows=np.where(without[:, None], np.nan, np.asarray(side.rows)), reasons=reasons)
        for side in (baseline, system)
    )
    return ours, theirs


def _remarks(systems: Mapping[str, CaptionSet], differences: list[Difference]) -> tuple[str, ...]:
    """What a reader of the tests should know."""
    remarks = []
    if len({captions.fingerprint for captions in systems.values()}) > 1:
        remarks.append("the systems are scored against different references: their values do not compare")
    items = len(next(iter(systems.values())))
    remarks += [
        f"{row.metric}: {row.baseline} and {row.system} are tested on the {row.items} items both have"
        for row in differences
        if row.items < items
    ]
    return tuple(dict.fromkeys(remarks))


def _prefixed(progress: Callable[[str], None] | None, name: str) -> Callable[[str], None] | None:
    return (lambda step: progress(f"{name}: {step}")) if progress else None


def align(systems: Mapping[str, CaptionSet], missing: Missing = "error") -> dict[str, CaptionSet]:
    """The systems on the items all of them have, in the order of the first."""
    (first, baseline), *others = systems.items()
    for name, captions in others if missing == "error" else ():
        missing_here = [key for key in baseline.ids if key not in captions]
        lacking = missing_here + [key for key in captions.ids if key not in baseline]
        if lacking:
            raise InputError(
                f"{first} and {name} differ in {len(lacking)} ids ({', '.join(lacking[:5])}), expected the same items; "
                "pass missing='skip' to compare on those they share"
            )
    order = [key for key in baseline.ids if all(key in captions for _, captions in others)]
    if not order:
        raise InputError(f"{', '.join(systems)} have no item id in common")
    aligned = {}
    for name, captions in systems.items():
        left_out = len(captions) - len(order)
        aligned[name] = replace(captions.take(captions.positions(order)), skipped=captions.skipped + left_out)
    return aligned
