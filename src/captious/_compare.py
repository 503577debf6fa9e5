"""``captious.compare``: paired tests between systems that captioned the same items."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple

import numpy as np

from captious._core.values import PlainState
from captious._evaluate import Scoring, evaluate_systems
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.formats import get_name
from captious.io.read import read_all
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement
from captious.metrics.registry import DEFAULT, parse_all
from captious.metrics.requests import Specs, check_specs
from captious.options import LEVEL, PERMUTATIONS, Missing, Option, Reading, Resampling, Runtime, check_value, using
from captious.render import Answer, Cell, Column, Document, Figure, Phrase, Result, Section, Span, Table, name_several
from captious.render.answers import NAMES, count_noun, format_p, join_names
from captious.render.exports import format_csv, get_provenance, write_csv
from captious.runs.folder import is_run, name_system_folders
from captious.runs.pairing import (
    count_unpaired,
    find_shared_ids,
    find_shared_metrics,
    find_shared_shards,
    load_statistics,
    restrict_to_items,
    restrict_to_shards,
)
from captious.runs.report import ITEMS, SHARDS, Report, open_run
from captious.runs.report_sections import (
    FEW_SHARDS,
    find_main_metric,
    get_own_scale,
    link_metric,
    link_system,
    lists_items,
    make_explorer,
    scale_cells,
    sort_items,
)
from captious.stats.bootstrap import warn_few_units
from captious.stats.ranks import Ranks, format_ranks, rank_note, shared_ranks
from captious.stats.resampling import (
    Convention,
    Resamples,
    Statistic,
    holm,
    paired_bootstrap,
    paired_randomization,
    sort_ids,
    swap_masks,
)
from captious.stats.tests import count_needed, normal_point

Test = Literal["randomization", "bootstrap"]
NAN = float("nan")
# The name of the paired tests in data frames and files.
DIFFERENCES = "differences"
# Largest number of systems that the title of the page names.
NAMED = 4


@dataclass(frozen=True)
class Difference:
    """One metric of two systems: the difference, its interval, and its test."""

    metric: str
    baseline: str
    system: str
    difference: float
    """Value of the system minus value of the baseline."""
    low: float
    high: float
    p: float
    p_holm: float
    """The p-value, adjusted over all systems compared on this metric."""
    items: int
    """The number of items that both systems have a value for."""
    better: str | None
    """The better system, if the adjusted p is below 1 − level: at a level of 95 %, below 0.05."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(PlainState, Result):
    """Reports of several systems on the same items or shards, and the paired tests between them."""

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

    @cached_property
    def ranks(self) -> dict[str, dict[str, Ranks]]:
        """The ranks of the systems on each metric, if every pair of at least three was tested; the best first.

        Two systems share a rank exactly if no test distinguishes them.
        """
        number = len(self.reports)
        ranks = {}
        for key, measurement in self._first.measurements.items():
            rows = [row for row in self.differences if row.metric == key]
            if number > 2 and len(rows) == number * (number - 1) // 2:
                sign = -1 if measurement.metric.higher_is_better else 1
                values = {name: sign * report.measurements[key].corpus for name, report in self.reports.items()}
                order = sorted(values, key=lambda name: np.nan_to_num(values[name], nan=np.inf))
                ranks[key] = shared_ranks(order, [(row.baseline, row.system) for row in rows if row.better])
        return ranks

    @property
    def _first(self) -> Report:
        return next(iter(self.reports.values()))

    @property
    def _items(self) -> int:
        """The number of items."""
        return self._first.size

    @property
    def _sharded(self) -> bool:
        return not lists_items(self._first)

    def document(self) -> Document:
        """Return the page: systems by metrics, every paired test, and the items to explore."""
        tables = [self._make_system_table(), *([self._make_rank_table()] if self.ranks else [])]
        tables += [self._make_test_table()] if self.differences else []
        return Document(
            f"{len(self.reports)} systems, {self._items:,} items",
            f"{', '.join(self.reports)}; differences by {self.test}",
            [*tables, *self._make_explorer()],
            warnings=[
                *self.warnings,
                *group_by_system({name: report.warnings for name, report in self.reports.items()}),
            ],
            notes=[
                *group_by_system({name: report.read_notes for name, report in self.reports.items()}),
                *([] if self._sharded else warn_few_units(self._items, self._first.resampling)),
                *group_by_system({name: report.notes for name, report in self.reports.items()}),
            ],
            signatures=group_by_system({name: report.signatures for name, report in self.reports.items()}),
            data=self.data(),
            answer=self._answer(),
            page=f"{name_several([self._first.label(key) for key in self._first.measurements])} of "
            + (", ".join(self.reports) if len(self.reports) <= NAMED else f"{len(self.reports)} systems"),
        )

    def _answer(self) -> Answer:
        """Return the plain answer: which system is better on which metric, with the main difference and its p-value."""
        if not self.differences:
            return ""
        if self.ranks:
            return self._answer_by_ranks()
        if len({row.system for row in self.differences}) == 1:
            return self._answer_pair(self.differences[0].system, self.differences)
        return self._answer_several()

    def _answer_several(self) -> list[str | Figure]:
        """Return which of several systems are better than the baseline on the main metric, and by how much."""
        key, baseline = find_main_metric(self._first), self.differences[0].baseline
        rows = [row for row in self.differences if row.metric == key and row.baseline == baseline]
        rows.sort(
            key=lambda row: (
                -row.difference if self._first.measurements[row.metric].metric.higher_is_better else row.difference
            )
        )
        parts: list[str | Figure] = [f"On {self._first.label(str(key))}, "]
        column = self._make_difference_column()
        for verb, some in (
            ("better than", [row for row in rows if row.better == row.system]),
            ("not distinguished from", [row for row in rows if row.better is None]),
            ("worse than", [row for row in rows if row.better == baseline]),
        ):
            for index, row in enumerate(some[:NAMES]):
                parts += ["" if not index else " and " if index == len(some) - 1 else ", ", f"{row.system} ("]
                parts += [Figure(row.difference, column), ")"]
            if some:
                more = f" and {len(some) - NAMES} more" if len(some) > NAMES else ""
                parts.append(f"{more} {'is' if len(some) == 1 else 'are'} {verb} {baseline}; ")
        return [*parts, "the other pairs were not tested."]

    def _answer_by_ranks(self) -> list[str | Figure]:
        """Return which systems are best on the main metric, if every pair of systems was tested."""
        key = find_main_metric(self._first) or ""
        ranks, metric = self.ranks[key], self._first.measurements[key].metric
        best = [name for name, one in ranks.items() if 1 in one]
        column = self._make_score_column(key)
        values: list[str | Figure] = []
        for name in best[:NAMES]:
            cell = scale_cells([self.reports[name]], key)[0]
            values += [" and " if values else "", f"{name} ", Figure(cell, column)]
        label = f"{'highest' if metric.higher_is_better else 'lowest'} {self._first.label(key)}"
        if len(best) == 1:
            agreed = sum(one[best[0]] == (1,) for one in self.ranks.values())
            rest = f"; it is the best on {agreed} of {len(self.ranks)} metrics" if len(self.ranks) > 1 else ""
            return [f"{best[0]} has the {label}, better than every other system: ", *values, f"{rest}."]
        return [f"No test distinguishes the systems with the {label}: ", *values, "."]

    def _answer_pair(self, system: str, rows: Sequence[Difference]) -> list[str | Figure]:
        """Return a sentence or two on one system against the baseline."""
        baseline, labels = rows[0].baseline, self._first.label
        won, lost, open_ = ([row for row in rows if row.better == name] for name in (system, baseline, None))
        main = next((row for row in rows if row.metric == find_main_metric(self._first)), rows[0])
        parts = []
        for verb, some in ((f"better than {baseline}", won), (f"worse than {baseline}", lost)):
            which = "every metric" if len(some) == len(rows) > 1 else join_names([labels(row.metric) for row in some])
            parts += [f"{verb} on {which}"] if some else []
        if not parts:
            return self._answer_undecided(system, main, len(rows))
        text = f"{system} is {' and '.join(parts)}"
        if open_:
            text += f"; no test distinguishes them on {join_names([labels(row.metric) for row in open_])}"
        shown = main if main.better else next(row for row in rows if row.better)
        sure = f"Holm-adjusted p {format_p(shown.p_holm)}"
        return [f"{text}. {labels(shown.metric)} differs by ", self._make_figure(shown), f", {sure}. "]

    def _answer_undecided(self, system: str, main: Difference, tests: int) -> list[str | Figure]:
        """Return what was found where no test shows a difference, and how many items would show it."""
        where = f"any of {tests} metrics" if tests > 1 else self._first.label(main.metric)
        start = f"Cannot tell {system} from {main.baseline} on {where}: "
        if main.difference == 0 or math.isnan(main.difference):
            same = "has the same value" if main.difference == 0 else "has no value"
            return [f"{start}{self._first.label(main.metric)} {same} on {count_noun(main.items, 'item')}. "]
        parts: list[str | Figure] = [f"{start}{self._first.label(main.metric)} differs by ", self._make_figure(main)]
        parts.append(f", Holm-adjusted p {format_p(main.p_holm)}, on {count_noun(main.items, 'item')}")
        if not math.isnan(main.low) and main.high > main.low and not self._sharded:
            # The width of an interval is twice the normal quantile of its level, in standard errors.
            error = (main.high - main.low) / (2 * normal_point((1 + self.level) / 2))
            more = count_needed(main.difference, error, main.items, self.level) - main.items
            if more > 0:
                parts.append(f"; about {more:,} more items would show a difference of that size four times in five")
        return [*parts, ". "]

    def _make_figure(self, row: Difference) -> Figure:
        own = get_own_scale(self._first.measurements[row.metric].metric)
        return Figure(Cell(row.difference, row.low, row.high, **own), self._make_difference_column())

    def _make_explorer(self) -> Sequence[Section]:
        return [] if self._sharded else [make_explorer(self.reports)]

    def _make_system_table(self) -> Table:
        reports, first = list(self.reports.values()), self._first
        baseline = next(iter(self.reports))
        differing = {(row.system, row.metric) for row in self.differences if row.better and row.baseline == baseline}
        columns: list[Column | str] = ["system"]
        linked = not self._sharded
        rows: list[list[Any]] = [[link_system(name) if linked else name] for name in self.reports]
        for key in first.measurements:
            columns.append(self._make_score_column(key))
            for name, row, cell in zip(self.reports, rows, scale_cells(reports, key), strict=True):
                row.append(replace(cell, mark="†" if (name, key) in differing else ""))
        spread = f"± is half of the {100 * self.level:.4g}% interval. " if first.intervals else ""
        note = f"{spread}† differs from {baseline}: {self.test}, Holm-adjusted p < {1 - self.level:.4g}"
        return Table("systems", "Systems", columns, rows, note if self.differences else spread.strip(), turned=True)

    def _make_score_column(self, key: str) -> Column:
        direction = self._first.measurements[key].metric.higher_is_better
        options: dict[str, Any] = {"key": key, "higher_is_better": direction, "percent": 1}
        href = "" if self._sharded else sort_items(key)
        return Column(self._first.label(key), **options, spread="half", bar=True, href=href)

    def _make_difference_column(self) -> Column:
        level = self.level if self._first.intervals else None
        return Column("difference", percent=2, signed=True, level=level, bold=True, bar=True)

    def _make_rank_table(self) -> Table:
        columns: list[Column | str] = ["metric", *(Column(name, "text") for name in self.reports)]
        rows: list[list[Any]] = [
            [link_metric(self._first, key), *(format_ranks(ranks[name]) for name in self.reports)]
            for key, ranks in self.ranks.items()
        ]
        return Table("ranks", "Ranks", columns, rows, rank_note("systems", self.level, self.test))

    def _make_test_table(self) -> Table:
        columns = (
            "metric",
            "systems",
            self._make_difference_column(),
            Column("p", "p"),
            Column("p (Holm)", "p", key="p_holm"),
            "better",
        )
        reach = {
            key: max(
                (abs(end) for row in self.differences if row.metric == key for end in _list_ends(row)), default=0.0
            )
            for key in self._first.measurements
        }
        own = {key: get_own_scale(one.metric) for key, one in self._first.measurements.items()}
        rows = []
        for row in self.differences:
            cell = Cell(
                row.difference, row.low, row.high, limits=(-reach[row.metric], reach[row.metric]), **own[row.metric]
            )
            better = Span(row.better, "strong") if row.better else Span("neither", "quiet")
            metric, systems = link_metric(self._first, row.metric), f"{row.system} − {row.baseline}"
            rows.append((metric, systems, cell, row.p, row.p_holm, Phrase((better,))))
        metrics = [row.metric for row in self.differences]
        several = len(set(metrics)) < len(metrics)
        starts = [index for index in range(1, len(metrics)) if several and metrics[index] != metrics[index - 1]]
        note = (
            f"{self.test}; p-values are two-sided. Holm's correction covers the tests of one metric. “better” names a "
            f"system where the corrected p is below {1 - self.level:.4g}"
        )
        return Table(DIFFERENCES, "Differences", columns, rows, note, breaks=starts)

    def data(self) -> dict[str, Any]:
        """Return the numbers of the systems, and the paired tests between them, as JSON values."""
        return {
            "test": self.test,
            "warnings": list(self.warnings),
            "systems": {name: {**get_provenance(), **report.data()} for name, report in self.reports.items()},
            "differences": [asdict(row) for row in self.differences],
            **({"ranks": self.ranks} if self.ranks else {}),
        }

    def _columns(self, table: str | None) -> Mapping[str, Sequence[Any]]:
        """Return the columns of a table; ``items`` has one row per system and item, with the columns of a report.

        ``differences`` has one row per test, with the system and the baseline in their own columns.
        """
        if table == DIFFERENCES and self.differences:
            return {field.name: [getattr(row, field.name) for row in self.differences] for field in fields(Difference)}
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

    def files(self, percent: bool = False) -> dict[str, str]:
        """Return the files of a saved result; the differences have the columns of a data frame."""
        texts = super().files(percent)
        return texts | ({f"{DIFFERENCES}.csv": format_csv(self._columns(DIFFERENCES))} if self.differences else {})

    def write_files(self, folder: Path) -> None:
        """Write the run of each system into its own folder; for shards, write the values of every shard."""
        for name, inner in name_system_folders(self.reports).items():
            (folder / inner).mkdir()
            if self._sharded:
                write_csv(self.reports[name]._columns(SHARDS), folder / inner / f"{SHARDS}.csv")
            else:
                self.reports[name].write_files(folder / inner)


def compare(
    systems: Mapping[str, Any] | Sequence[Any],
    metrics: Specs | None = None,
    *,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    language: str | None = None,
    reading: Reading = Reading(),
    test: Test = "randomization",
    permutations: int = PERMUTATIONS,
    every_pair: bool = False,
    convention: Convention = "two-sided",
) -> Comparison:
    """Test every system against the first, or every pair, on every metric, with Holm's correction per metric.

    Parameters
    ----------
    systems
        Captions by the name of the system, each as ``evaluate`` takes them; or its report, or the folder of its run,
        which is not scored again. In a list, the names are those of the files and sets, else ``system-1``, …
    metrics
        As in ``evaluate``. Of reports and runs, those to compare on; without it, all that they share.
    runtime, progress, references, images, language, reading
        As in ``evaluate``.
    resampling
        How the bootstrap makes intervals and, with ``test="bootstrap"``, p-values. A difference is significant if p is
        below 1 − ``level``.
    missing
        Items or shards that a system does not have: an error, or left out with ``skip``. A shard that could
        not be scored is always left out.
    test
        ``randomization`` swaps captions between the two systems, ``bootstrap`` resamples items. If all are runs of
        more than 200,000 items, or of items without statistics, whole shards change sides and are resampled.
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
    scoring = Scoring.of(resampling, runtime, progress, reading, references, images, missing, language)
    systems = name_systems(systems)
    specs = None if metrics is None else check_specs(metrics)
    if len(systems) < 2:
        raise InputError(f"{len(systems)} system given, expected at least two to compare")
    tests = PairedTest(resampling, test, permutations, every_pair, convention)
    paired = pair_reports(systems, specs, scoring)
    reports = paired.reports
    if not paired.sharded:
        differences = tests.compute_differences(reports, paired.statistics, progress)
        return Comparison(
            reports, tuple(differences), tests.name, _list_remarks(reports, differences), resampling.level
        )
    differences = tests.compute_differences(reports, paired.statistics, progress) if paired.units > 1 else []
    remarks = [*paired.remarks, *_warn_of_references(reports)]
    for row in differences:
        if alone := count_unpaired(reports[row.baseline], reports[row.system], row.metric):
            remarks.append(f"{row.metric}: {alone:,} items have a value of only one of {row.baseline} and {row.system}")
    return Comparison(reports, tuple(differences), f"{tests.name} of shards", tuple(remarks), resampling.level)


@dataclass(frozen=True)
class PairedReports:
    """Reports of systems on the same items or shards in the same order, for paired tests."""

    reports: Mapping[str, Report]
    statistics: Callable[[str, str, str], StatisticPair]
    """Returns a metric of two systems on their shared items, by the names of the systems and the written form."""
    units: int
    """The number of resampled items, or of shards with items."""
    sharded: bool = False
    remarks: tuple[str, ...] = ()
    """Warnings on tests of shards."""


def pair_reports(
    systems: Mapping[str, Any],
    specs: Sequence[str | Metric] | None,
    scoring: Scoring,
    *,
    by_id: bool = False,
) -> PairedReports:
    """Score captions, open runs, and align all systems to the same items; settings of metrics must agree.

    ``by_id`` puts the items into the order of their ids, so that the order of a file cannot move the last digit.
    """
    wanted = None if specs is None else list(map(str, parse_all(specs)))
    stored = {name: report for name, one in systems.items() if (report := open_report(one, wanted)) is not None}
    if len(stored) == len(systems) and all(report.unit == "shard" for report in stored.values()):
        return _pair_shards(stored, wanted, scoring.resampling, scoring.reading.missing)
    stored = {name: load_statistics(report) for name, report in stored.items()}
    with using(scoring.runtime):
        reports, items = _align_reports(systems, stored, specs, wanted, scoring, by_id)
    return PairedReports(reports, partial(_pair_systems, reports), items)


def _align_reports(
    systems: Mapping[str, Any],
    stored: Mapping[str, Report],
    specs: Sequence[str | Metric] | None,
    wanted: Sequence[str] | None,
    scoring: Scoring,
    by_id: bool,
) -> tuple[dict[str, Report], int]:
    """Return the report of every system on the items that all share, and the number of these items.

    A stored report is narrowed to them; captions are read and scored.
    """
    reading, resampling = scoring.reading, scoring.resampling
    sets = read_all({name: get_captions(one) for name, one in systems.items() if name not in stored}, reading)
    keys = find_shared_metrics(stored, wanted) if stored else []
    ids = {name: _get_ids(stored[name]) if name in stored else sets[name].ids for name in systems}
    order = find_shared_ids(ids, reading.missing)
    order = [order[index] for index in sort_ids(order)] if by_id else order
    sets = {name: _take_items(captions, order) for name, captions in sets.items()}
    parsed = parse_all(keys or specs or DEFAULT, sets.values())
    reports = {name: restrict_to_items(report, keys, order, resampling) for name, report in stored.items()}
    reports |= evaluate_systems(sets, parsed, resampling, scoring.progress) if sets else {}
    reports = {name: reports[name] for name in systems}
    if stored:
        find_shared_metrics(reports, keys)  # captions that were scored now have the settings of today
    return reports, len(order)


def _pair_systems(reports: Mapping[str, Report], baseline: str, system: str, key: str) -> StatisticPair:
    """Return the statistics of a metric for two systems, on the items for which both have a value."""
    return pair_statistics(reports[baseline].measurements[key], reports[system].measurements[key])


def open_report(system: Any, wanted: Sequence[str] | None) -> Report | None:
    """Return the system if it is a report, or the report of its run folder; None for captions to be scored."""
    if isinstance(system, Report):
        # A report in memory has its captions, so that missing metrics can be computed.
        lacks = wanted is not None and any(key not in system.measurements for key in wanted)
        return None if lacks and not system.source.address else system
    return open_run(system) if is_run(system) else None


def get_captions(system: Any) -> Any:
    """Return the captions of a system that may be a report."""
    return system.captions if isinstance(system, Report) else system


def _get_ids(report: Report) -> Sequence[str]:
    """Return the ids of a report whose units are items."""
    return next(iter(report)).ids if report.measurements else report.captions.ids


def _take_items(captions: CaptionSet, order: Sequence[str]) -> CaptionSet:
    if captions.ids == tuple(order):
        return captions
    left_out = len(captions) - len(order)
    return replace(captions.take(captions.positions(order)), skipped=captions.skipped + left_out)


def _pair_shards(
    reports: Mapping[str, Report],
    wanted: Sequence[str] | None,
    resampling: Resampling,
    missing: Missing,
) -> PairedReports:
    """Align runs of shards to the shards that all have: shards are resampled and swapped."""
    shards = find_shared_shards(reports, missing)
    keys = find_shared_metrics(reports, wanted)
    left_out = {name: len(report.parts) - len(shards) for name, report in reports.items()}
    reports = {name: restrict_to_shards(report, keys, shards, resampling) for name, report in reports.items()}

    def statistics(baseline: str, system: str, key: str) -> StatisticPair:
        first, second = (reports[name].measurements[key] for name in (baseline, system))
        scored = min(one.signature.items - one.signature.unscored for one in (first, second))
        return StatisticPair(first.statistic, second.statistic, scored)

    units = sum(1 for part in next(iter(reports.values())).parts if part.items)
    remarks = [
        f"{number:,} shard{' of ' + name + ' is' if number == 1 else 's of ' + name + ' are'} left out, which another "
        "system has not"
        for name, number in left_out.items()
        if number
    ]
    if units < 2:
        remarks.append(f"{units} shard with items: nothing can be tested, expected at least two shards")
    elif units < FEW_SHARDS:
        remarks.append(f"the tests compare {units} shards; below {FEW_SHARDS} they are rough")
    return PairedReports(reports, statistics, units, True, tuple(remarks))


# Largest number of values in the rows of pairs that are tested together, to limit memory.
TOGETHER = 1 << 24


class StatisticPair(NamedTuple):
    """One metric of two systems on the items for which both have a value."""

    baseline: Statistic
    system: Statistic
    items: int


@dataclass(frozen=True)
class PairedTest:
    """Settings of a paired test: items or shards are resampled or swapped."""

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

    def compute_differences(
        self,
        reports: Mapping[str, Any],
        paired: Callable[[str, str, str], StatisticPair],
        progress: Callable[[str], None] | None = None,
    ) -> list[Difference]:
        """Test every metric that can be resampled, with Holm's correction; ``paired`` returns the statistics of two."""
        names = list(reports)
        pairs = list(combinations(names, 2)) if self.every_pair else [(names[0], other) for other in names[1:]]
        tested = [key for key, measurement in reports[names[0]].measurements.items() if measurement.additive]
        rows: dict[str, list[Difference]] = {key: [] for key in tested}
        for together in self._split_batches(pairs, reports, tested):
            if progress:
                progress(" · ".join(f"{baseline} and {system}" for baseline, system in together))
            asked = [(key, baseline, system) for baseline, system in together for key in tested]
            shared = [paired(baseline, system, key) for key, baseline, system in asked]
            for (key, baseline, system), one, (p, low, high) in zip(
                asked, shared, self._run_tests(shared), strict=True
            ):
                gap = one.system.value - one.baseline.value
                row = Difference(key, baseline, system, gap, low, high, p, p_holm=p, items=one.items, better=None)
                rows[key].append(row)
        return [row for key in tested for row in _adjust(rows[key], reports[names[0]], self.resampling.level)]

    @staticmethod
    def _split_batches(
        pairs: Sequence[tuple[str, str]], reports: Mapping[str, Any], tested: Sequence[str]
    ) -> Iterator[Sequence[tuple[str, str]]]:
        """Yield groups of pairs that are tested with the same draws; the size of a group is limited by memory."""
        rows = [reports[pairs[0][0]].measurements[key].rows for key in tested] if pairs else []
        number = max(1, TOGETHER // max(1, sum(one.size for one in rows)))
        for first in range(0, len(pairs) if tested else 0, number):
            yield pairs[first : first + number]

    def _run_tests(self, pairs: Sequence[StatisticPair]) -> list[tuple[float, float, float]]:
        """Return p-value and interval ends of each pair; all share the draws."""
        statistics = [(one.baseline, one.system) for one in pairs]
        units, resampling = len(statistics[0][0].rows), self.resampling
        bootstrapped = [(NAN, NAN, NAN)] * len(statistics)
        if resampling.samples:
            draws = Resamples(units, resampling.samples, resampling.seed)
            bootstrapped = paired_bootstrap(statistics, draws, resampling.level, self.convention, resampling.interval)
        if self.test == "bootstrap":
            return bootstrapped
        p_values = paired_randomization(statistics, swap_masks(units, self.permutations, resampling.seed))
        return [(p, low, high) for p, (_, low, high) in zip(p_values, bootstrapped, strict=True)]


def name_systems(systems: Any) -> dict[str, Any]:
    """Return systems by name; those of a list get the names of their files and sets, or numbers."""
    if isinstance(systems, Mapping):
        return {str(name): one for name, one in systems.items()}
    if not isinstance(systems, (list, tuple)):
        raise InputError(f"systems: {type(systems).__name__}, expected {{name: captions}} or a list of captions")
    sets = list(systems)
    numbered = [f"system-{number}" for number in range(1, len(sets) + 1)]
    sources = [one.name if isinstance(one, Report) else get_name(one) for one in sets]
    names = [
        number if source == "captions" else PurePath(source).name.split(".")[0] or source
        for source, number in zip(sources, numbered, strict=True)
    ]
    # Files of the same name in different folders are named by their paths.
    unique = next((choice for choice in (names, sources) if len(set(choice)) == len(choice)), numbered)
    return dict(zip(unique, sets, strict=True))


def _adjust(rows: Sequence[Difference], report: Report, level: float) -> list[Difference]:
    """Return the tests of one metric with Holm's correction, and the better system if there is one."""
    adjusted = []
    for row, p in zip(rows, holm([row.p for row in rows]), strict=True):
        higher = report.measurements[row.metric].metric.higher_is_better
        winner = row.system if (row.difference > 0) == higher else row.baseline
        adjusted.append(replace(row, p_holm=p, better=winner if p < 1 - level else None))
    return adjusted


def _list_ends(row: Difference) -> list[float]:
    return [end for end in (row.difference, row.low, row.high) if end == end]


def group_by_system(lines: Mapping[str, Sequence[str]]) -> list[str]:
    """Return each line once, prefixed by the names of its systems unless all systems have it."""
    systems: dict[str, list[str]] = {}
    for name, texts in lines.items():
        for text in texts:
            systems.setdefault(text, []).append(name)
    return [text if len(names) == len(lines) else f"{', '.join(names)}: {text}" for text, names in systems.items()]


def pair_statistics(baseline: Measurement, system: Measurement) -> StatisticPair:
    """Return one metric of two systems on the items for which both have a row, so that the test stays paired."""
    first, second = _mask_unshared(baseline, system)
    return StatisticPair(first.statistic, second.statistic, len(first.ids) - len(first.reasons))


def _mask_unshared(baseline: Measurement, system: Measurement) -> tuple[Measurement, Measurement]:
    if not baseline.reasons and not system.reasons:
        return baseline, system
    without = np.isnan(np.asarray(baseline.rows)).any(axis=1) | np.isnan(np.asarray(system.rows)).any(axis=1)
    reasons = {key: "" for key, left_out in zip(baseline.ids, without.tolist(), strict=True) if left_out}
    first, second = (
        replace(side, rows=np.where(without[:, None], np.nan, np.asarray(side.rows)), reasons=reasons)
        for side in (baseline, system)
    )
    return first, second


def _list_remarks(reports: Mapping[str, Report], differences: Sequence[Difference]) -> tuple[str, ...]:
    """Return warnings on the tests."""
    remarks = _warn_of_references(reports)
    items = next(iter(reports.values())).size
    remarks += [
        f"{row.metric}: {row.baseline} and {row.system} are tested on the {row.items} items both have"
        for row in differences
        if row.items < items
    ]
    return tuple(dict.fromkeys(remarks))


def _warn_of_references(reports: Mapping[str, Report]) -> list[str]:
    fingerprints = {next(iter(report)).signature.fingerprint for report in reports.values()}
    different = "the systems are scored against different references: their values do not compare"
    return [different] if len(fingerprints) > 1 else []


def align_systems(systems: Mapping[str, CaptionSet], missing: Missing = "error") -> dict[str, CaptionSet]:
    """Return the systems on the items that all of them have, in the order of the first."""
    order = find_shared_ids({name: captions.ids for name, captions in systems.items()}, missing)
    return {name: _take_items(captions, order) for name, captions in systems.items()}
