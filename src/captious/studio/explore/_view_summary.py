"""Summary of a view: values with intervals, the test between two systems, and agreement with human ratings.

Every number is about the captions that pass the filters. If all pass, a metric has the value and the interval that the
run stores, those of its report. Otherwise its value comes from the item statistics that the run keeps, so that the
BLEU of a selection is that of a corpus of these captions, with an interval computed as the run computed its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from captious._core.types import Floats, Ints
from captious.errors import InputError
from captious.metrics.contract import Metric
from captious.metrics.statistic_rows import Rows, TypeSets, item_means, join_rows
from captious.options import PERMUTATIONS, Resampling
from captious.runs.filters import parse_filter
from captious.runs.run_tables import parse_rows
from captious.runs.stored import find_known_metrics
from captious.stats.bootstrap import FEW, Estimate, bootstrap, estimate, warn_few_units
from captious.stats.correlation import Spearman, spearman
from captious.stats.kendall import Kendall
from captious.stats.resampling import Statistic, paired_randomization, sort_ids, swap_masks
from captious.studio.explore._views import EVERYTHING, Explorer, Passing, View
from captious.studio.explore.explorer_table import ItemTable

# Largest number of captions of a system in a summary; of more, every n-th is used.
MOST = 50_000
# Budget of one interval or test: items times resamples.
DRAWS = 4_000_000
# Fewest resamples, whatever the budget.
FEWEST = 200
# Largest run whose item statistics are loaded.
HELD = 1_000_000
# Largest number of tests (pairs of systems times scores) that a static page stores.
TESTED = 100
# Fewest captions for an interval of a rank correlation.
RANKED = 10


class _Measured(NamedTuple):
    """Statistics of a score of one system for some items."""

    rows: Rows
    """One row an item, NaN if it has no value."""
    metric: Metric | None
    """The metric that aggregates sums of rows; None for the mean."""

    @property
    def scored(self) -> Any:
        """A mask of the items that have a value."""
        rows = self.rows.counts if isinstance(self.rows, TypeSets) else self.rows
        return ~np.isnan(rows).any(axis=1)

    def compute_statistic(self, chosen: Any) -> Statistic:
        """Return the statistic of the chosen items, which must all have a value, for resampling."""
        rows = np.asarray(self.rows)[chosen]
        total = rows.sum(axis=0)
        aggregate = _compute_mean if self.metric is None else self.metric.aggregate
        return Statistic(rows, aggregate, total, float(aggregate(total[None, :])[0]) if len(rows) else math.nan)

    def compute_value(self) -> float:
        """Return the value of all items."""
        if isinstance(self.rows, TypeSets):
            assert self.metric is not None
            return float(self.metric.aggregate(self.rows.total()[None, :])[0]) if len(self.rows.tokens) else math.nan
        return self.compute_statistic(self.scored).value

    def estimate(self, resampling: Resampling) -> Estimate:
        """Return the value of all items with its interval; counts of distinct types have no interval."""
        if isinstance(self.rows, TypeSets):
            return Estimate(self.compute_value())
        statistic = self.compute_statistic(self.scored)
        number = len(statistic.rows)
        if number < 2:
            return Estimate(statistic.value)
        return bootstrap({"": statistic}, _limit_samples(resampling, number))[""]


def _compute_mean(sums: Floats) -> Floats:
    """Divide sums of the rows (value, 1) of `item_means`: the mean over items."""
    with np.errstate(invalid="ignore"):
        return sums[:, 0] / sums[:, 1]


def _limit_samples(resampling: Resampling, number: int) -> Resampling:
    """Return the resampling with fewer samples if there are very many items."""
    return replace(resampling, samples=_limit_draws(resampling.samples, number))


def _limit_draws(samples: int, number: int) -> int:
    return min(samples, max(FEWEST, DRAWS // max(1, number)))


@dataclass(eq=False)
class Summaries:
    """Summaries of views, with a cache of what does not depend on filters."""

    explorer: Explorer
    # Keys: (system, score) for item statistics, ("whole", system, score) for a value, ("p", system, system, score).
    _facts: dict[Any, Any] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def table(self) -> ItemTable:
        """The items of all systems."""
        return self.explorer.table

    def summarize(self, view: View) -> dict[str, Any]:
        """Return the summary of a view as JSON: a record per system, the test between two systems, and notes."""
        passing = self.explorer.select_captions(view)
        systems = self.explorer.list_systems(view)
        selected = {system: self._select_items(passing, system) for system in systems}
        # Use every step-th item, so that a system has about `MOST` at most; the division rounds up.
        step = -(-max(map(len, selected.values())) // MOST) or 1
        stored = self._get_stored_estimates(view, passing)
        items = {
            system: self._sort_by_id(own[own % step == 0] if step > 1 else own) for system, own in selected.items()
        }
        notes = []
        if step > 1:
            what = "Tests and correlations" if len(stored) == len(systems) else "The numbers"
            notes.append(f"{what} are of one caption in {step:,}, for there are more than {MOST:,}.")
        notes += self._list_interval_notes({system: len(items[system]) for system in systems if system not in stored})
        human = self._choose_rating(view)
        records = [
            self._summarize_system(system, view.score, human, items[system], passing, stored) for system in systems
        ]
        for record, system in zip(records, systems, strict=True):
            record["captions"] = len(selected[system])
        notes += self._list_approximations(view.score)
        test, why = self._test_pair(view, systems, items)
        number = len(self.table) if passing.chosen is None else len(passing.chosen)
        level = self.get_level(systems)
        return {"items": number, "systems": records, "test": test, "level": level, "notes": [*notes, *why]}

    def get_level(self, systems: Iterable[int]) -> float | None:
        """Return the confidence level of the intervals; None if runs have different ones."""
        levels = {self._get_resampling(system).level for system in systems}
        return levels.pop() if len(levels) == 1 else None

    def summarize_all(self, score: int) -> dict[str, Any]:
        """Return the summary of a score over all captions, for the static page, which has no server to ask.

        Every pair of systems is tested, unless that exceeds `TESTED` tests for all scores together.
        """
        view = View(score)
        systems = self.explorer.list_systems(view)
        records = self.summarize(view)["systems"]
        pairs = list(combinations(systems, 2))
        pairs = pairs if len(pairs) * len(self.table.scores) <= TESTED else []
        items = (
            {system: self._sort_by_id(self._select_items(EVERYTHING, system)) for system in systems} if pairs else {}
        )
        tests = [
            self._test_pair(replace(view, order="between", better=better, worse=worse), systems, items)[0]
            for better, worse in pairs
        ]
        return {
            "systems": [{name: one[name] for name in ("value", "low", "high")} for one in records],
            "tests": [test for test in tests if test is not None],
        }

    def _list_interval_notes(self, numbers: Mapping[int, int]) -> list[str]:
        """Return notes on intervals from fewer resamples or of few items.

        ``numbers`` has the number of captions of each system whose interval is not stored in its run.
        """
        notes = []
        intervals = [(self._get_resampling(system), number) for system, number in numbers.items() if number > 1]
        limits = [_limit_samples(resampling, number).samples for resampling, number in intervals]
        if any(samples < resampling.samples for samples, (resampling, _) in zip(limits, intervals, strict=True)):
            notes.append(f"The intervals are from {min(limits):,} resamples.")
        if any(warn_few_units(number, resampling) for resampling, number in intervals):
            notes.append(
                f"Intervals of fewer than {FEW} items are too narrow; a run scored with --interval t has wider ones."
            )
        return notes

    def _get_resampling(self, system: int) -> Resampling:
        """Return the resampling of a system's run; the default if the run has no intervals."""
        resampling = self.table.runs[system].run.marker.resampling
        return resampling if resampling.samples else Resampling(level=resampling.level)

    def _get_stored_estimates(self, view: View, passing: Passing) -> dict[int, Estimate]:
        """Return the value and the interval that each run stores, if all captions pass."""
        if passing.chosen is not None:
            return {}
        key = self.table.scores[view.score].key
        facts = {system: self.table.runs[system].run.facts.get(key) for system in self.explorer.list_systems(view)}
        return {system: one.interval for system, one in facts.items() if one is not None and one.interval is not None}

    def _select_items(self, passing: Passing, system: int) -> Ints:
        """Return the indices of the items for which a system has a caption that passes the filters."""
        items = passing.select_items(system)
        items = np.arange(len(self.table)) if items is None else items
        positions = self.table.positions  # -1 if the system did not caption the item
        return items if positions is None else items[positions[system][items] >= 0]

    def _sort_by_id(self, items: Ints) -> Ints:
        """Sort items by id. The bootstrap draws in this order, so intervals do not depend on the order of a file."""
        import pyarrow as pa

        with self.table.cursor(shown=pa.table({"n": pa.array(items, pa.int32())})) as cursor:
            rows = cursor.execute("SELECT n, id FROM items JOIN shown USING (n) ORDER BY n").fetchall()
        return np.array([rows[index][0] for index in sort_ids([row[1] for row in rows])], dtype=np.int64)

    def _choose_rating(self, view: View) -> int | None:
        """Return the rating to compare the metric with: that on an axis of the chart, else the first; or None."""
        kinds = [score.kind for score in self.table.scores]
        rated = [score for score in (view.y, view.x) if kinds[score] == "rating"]
        if kinds[view.score] == "rating" or "rating" not in kinds:
            return None
        return (rated or [kinds.index("rating")])[0]

    def _summarize_system(
        self,
        system: int,
        score: int,
        human: int | None,
        items: Ints,
        passing: Passing,
        stored: Mapping[int, Estimate],
    ) -> dict[str, Any]:
        """Return the record of one system: its score and, if there is a rating, the mean rating and their correlation.

        ``all`` is the same number over all captions, None without filters. Ratings have no interval here: it would need
        to resample raters too, as `captious study systems` does.
        """
        filtered, resampling = passing.chosen is not None, self._get_resampling(system)
        measured = self._measure(system, score, items)
        rated = self.table.scores[score].kind == "rating"
        own = stored.get(system) or (Estimate(measured.compute_value()) if rated else measured.estimate(resampling))
        record: dict[str, Any] = {"system": system, **_convert_estimate(own)}
        record["all"] = _to_finite(self._get_overall_value(system, score)) if filtered else None
        if human is None:
            return record
        measured = self._measure(system, human, items)
        record["rating"] = {
            **_convert_estimate(Estimate(measured.compute_value())),
            "captions": int(measured.scored.sum()),
            "all": _to_finite(self._get_overall_value(system, human)) if filtered else None,
        }
        x, y = (self.table.read_values(system, one)[items] for one in (score, human))
        both = ~(np.isnan(x) | np.isnan(y))
        rho, number = spearman(x, y), int(both.sum())
        if not math.isnan(rho) and number > 2:
            agreement = Spearman(Kendall.of(x[both], y[both]))
            few = number < RANKED
            limited = _limit_samples(resampling, number)
            correlation = Estimate(rho) if few else estimate(agreement, number, limited)["spearman"]
            unfiltered = _to_finite(self.explorer.compute_rho(system, score, human)) if filtered else None
            record["rho"] = {**_convert_estimate(correlation), "captions": number, "all": unfiltered}
        return record

    def _test_pair(
        self, view: View, systems: list[int], items: Mapping[int, Ints]
    ) -> tuple[dict[str, Any] | None, list[str]]:
        """Run the paired test of two systems on the items that both captioned; return None and the reason if
        impossible.
        """
        # The two systems of the view, or those that the order `between` compares.
        pair = systems if len(systems) == 2 else [view.better, view.worse] if view.order == "between" else []
        if len({*pair} & {*systems}) < 2:
            return None, []
        if self._is_selected_by_scores(view):
            return None, ["The systems are not tested: these captions were selected by their scores."]
        key = self.table.scores[view.score].key
        # The signature up to the number of items: metric, parameters and models.
        settings = {self.table.runs[system].signatures.get(key, "").partition("|items:")[0] for system in pair}
        if len(settings) > 1:
            return None, ["The systems are not tested: the metric had other settings in each run."]
        shared = np.intersect1d(items[pair[0]], items[pair[1]])
        # `intersect1d` sorts by item; the test needs the order by id.
        shared = items[pair[0]][np.isin(items[pair[0]], shared)]
        first, second = (self._measure(system, view.score, shared) for system in pair)
        if isinstance(first.rows, TypeSets) or isinstance(second.rows, TypeSets):
            return None, ["The systems are not tested: the metric counts distinct things and cannot be resampled."]
        both = first.scored & second.scored
        number = int(both.sum())
        if number < 2:
            return None, [f"The systems are not tested: {number or 'no'} item has a caption of both here."]
        first_statistic, second_statistic = first.compute_statistic(both), second.compute_statistic(both)
        resampling = self._get_resampling(pair[0])
        fact = ("p", *pair, view.score)
        p = None if view.filtered else self._facts.get(fact)
        if p is None:
            # Without filters the p-value is that of `compare`, computed once; large selections get fewer permutations.
            permutations = _limit_draws(PERMUTATIONS, number) if view.filtered else PERMUTATIONS
            masks = swap_masks(number, permutations, resampling.seed)
            (p,) = paired_randomization([(second_statistic, first_statistic)], masks)
            if not view.filtered:
                self._facts[fact] = p
        is_first_higher = first_statistic.value > second_statistic.value
        better = pair[0] if is_first_higher == self.table.scores[view.score].higher else pair[1]
        winner = better if p < 1 - resampling.level else None
        return {"pair": pair, "better": winner, "p": _to_finite(p), "items": number}, []

    def _is_selected_by_scores(self, view: View) -> bool:
        """Return True if a filter uses scores: a test of captions that it selects would only reflect the filter."""
        if view.lasso or view.low is not None or view.high is not None:
            return True
        systems, scores = range(len(self.table.systems)), range(len(self.table.scores))
        values = {self.table.get_value_sql(system, score) for system in systems for score in scores}
        if not view.where.strip():
            return False
        columns = parse_filter(view.where, self.table.build_schema(0)).columns
        return any(node.column.sql in values for node in columns)

    # Values of items

    def _measure(self, system: int, score: int, items: Ints | None = None) -> _Measured:
        """Return the statistics of a score of a system for these items, or for all."""
        rows, metric = self._get_rows(system, score)
        if rows is None:
            values = self.table.read_values(system, score)
            return _Measured(item_means(values if items is None else values[items]), None)
        if items is None:
            return _Measured(rows, metric)
        positions = items if self.table.positions is None else self.table.positions[system][items]
        if isinstance(rows, TypeSets):
            return _Measured(
                TypeSets(tuple(rows.types[at] for at in positions.tolist()), rows.tokens[positions]), metric
            )
        return _Measured(rows[positions], metric)

    def _get_overall_value(self, system: int, score: int) -> float:
        """Return the value of a score over all captions of a system."""
        key = ("whole", system, score)
        if key not in self._facts:
            self._facts[key] = self._measure(system, score).compute_value()
        value: float = self._facts[key]
        return value

    def _get_rows(self, system: int, score: int) -> tuple[Rows | None, Metric | None]:
        """Return the item statistics of a system's run; None if any run has none, since systems must be comparable."""
        stored = {one: self._get_stored_rows(one, score) for one in self._list_scored_systems(score)}
        if system not in stored or any(rows is None for rows, _ in stored.values()):
            return None, None
        return stored[system]

    def _list_scored_systems(self, score: int) -> list[int]:
        """Return the systems whose run has a metric; none for a human rating."""
        key = self.table.scores[score].key
        return [system for system, run in enumerate(self.table.runs) if key in run.signatures]

    def _get_stored_rows(self, system: int, score: int) -> tuple[Rows | None, Metric | None]:
        with self._lock:  # they are read once, even with concurrent requests
            if (system, score) not in self._facts:
                self._facts[system, score] = self._read_rows(system, score)
            rows, metric = self._facts[system, score]
        return rows, metric

    def _read_rows(self, system: int, score: int) -> tuple[Rows | None, Metric | None]:
        """Read the statistics of a run in the order of its rows; None if they are absent, damaged or too many."""
        key, run = self.table.scores[score].key, self.table.runs[system]
        metric = find_known_metrics(run.run).get(key)
        if metric is None or not run.run.has_rows or len(run.rows) > HELD:
            return None, None
        try:
            tables = {part: run.run.rows(part, [key]) for part in run.run.names}
            where = run.run.storage.get_address
            rows = join_rows([parse_rows(one, key, where(run.run.rows_name(part))) for part, one in tables.items()])
            counts = rows.counts if isinstance(rows, TypeSets) else rows
            # `aggregate` is tried on one row: it may raise if the run was scored by a version with other columns.
            valid = len(counts) == len(run.rows) and len(metric.aggregate(counts[:1])) == 1
        except (InputError, ValueError, IndexError):
            return None, None
        return (rows, metric) if valid else (None, None)

    def _list_approximations(self, score: int) -> list[str]:
        """Return a note if the value of a metric is a mean over items because a run has no statistics."""
        without = [
            system for system in self._list_scored_systems(score) if self._get_stored_rows(system, score)[0] is None
        ]
        if not without:
            return []
        names, label = ", ".join(self.table.systems[system] for system in without), self.table.scores[score].label
        return [f"{label} is the mean over items: the run of {names} has no statistics for a corpus value."]


def _convert_estimate(interval: Estimate) -> dict[str, float | None]:
    return {"value": _to_finite(interval.value), "low": _to_finite(interval.low), "high": _to_finite(interval.high)}


def _to_finite(value: float | None) -> float | None:
    """Return None for NaN and infinity, which JSON does not have."""
    return None if value is None or not math.isfinite(value) else float(value)
