"""Planning of a gate before there is a new system: the margins for a number of items, and the items for a margin."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from captious._evaluate import Scoring
from captious.errors import InputError
from captious.gating.lock import Lock, is_lock
from captious.gating.margins import Margins, match_margins, parse_margins
from captious.gating.sides import drop_intervals, read_sides, score_system, select_tested_metrics
from captious.gating.verdict import run_tests
from captious.metrics.contract import Metric
from captious.metrics.requests import Specs
from captious.options import Option, Reading, Resampling, Runtime, check_value
from captious.render import Answer, Cell, Column, Document, Figure, Result, Table
from captious.render.answers import NAMES
from captious.stats.bootstrap import bootstrap
from captious.stats.noninferiority import MOST_ITEMS, POWER, compute_chance_to_pass, compute_span

# Default share of captions that a new system changes.
CHANGED = 0.2


@dataclass(frozen=True)
class PlannedMetric:
    """The smallest margin that a gate could confirm for one metric."""

    metric: str
    label: str
    value: float
    error: float
    """Standard error of the difference to an equal system, as it is expected."""
    confirms: float
    """The smallest margin with which an equal system passes four times in five."""
    margin: float | None = None
    chance: float | None = None
    """The probability that an equal system passes with the margin."""
    items: int | None = None
    """Items with which an equal system passes four times in five with the margin; None for none, or too many."""
    decimals: int | None = None


@dataclass(frozen=True, repr=False)
class GatePlan(Result):
    """Margins and the numbers of items that they need."""

    name: str
    items: int
    changed: float
    rows: tuple[PlannedMetric, ...]
    level: float
    measured: float | None = None
    """The share of captions that changed in the pair of systems whose differences were measured."""

    def __repr__(self) -> str:
        return f"<GatePlan {self.name}: {len(self.rows)} metrics, {self.items} items>"

    def document(self) -> Document:
        """Return a table with a row for each metric."""
        columns: list[Column | str] = [
            "metric",
            Column("value", percent=1),
            Column("can confirm", percent=2, key="confirms", bold=True),
        ]
        given = any(row.margin is not None for row in self.rows)
        if given:
            columns += [Column("margin", percent=2), Column("passes", decimals=0, scale=100, unit="%", key="chance")]
            columns.append(Column("items needed", key="items"))
        table = []
        for row in self.rows:
            own: dict[str, Any] = {} if row.decimals is None else {"decimals": row.decimals, "scale": 1.0}
            cells: list[Any] = [row.label, Cell(row.value, **own), Cell(row.confirms, **own)]
            if given:
                cells += [Cell(math.nan if row.margin is None else row.margin, **own), row.chance, row.items]
            table.append(cells)
        spread = (
            f"the differences of this pair, in which {100 * self.measured:.3g}% of the captions changed"
            if self.measured is not None
            else "a new caption of an item taken to correlate by 0.5 with the old one"
        )
        note = (
            f"“can confirm”: the smallest margin with which an equally good system passes {100 * POWER:.0f}% of the "
            f"time, at {100 * self.level:g}% confidence"
        )
        return Document(
            f"{self.items:,} items, {100 * self.changed:.3g}% of the captions changed",
            f"What a gate against {self.name} could confirm",
            [Table("plan", "", columns, table, note)],
            notes=[f"assumed: {spread}"],
            data={**asdict(self), "power": POWER},
            name="plan",
            answer=self._answer(columns),
        )

    def _answer(self, columns: Sequence[Column | str]) -> Answer:
        """Return the plain answer: the smallest loss that a gate on these items could rule out, by metric."""
        column = next(one for one in columns if isinstance(one, Column) and one.key == "confirms")
        parts: list[str | Figure] = [
            f"If {100 * self.changed:.3g}% of the captions of {self.items:,} items change, an equally good "
            f"system passes {100 * POWER:.0f}% of the time, provided that "
        ]
        for index, row in enumerate(self.rows[:NAMES]):
            own: dict[str, Any] = {} if row.decimals is None else {"decimals": row.decimals, "scale": 1.0}
            parts += ["" if not index else ", ", f"{row.label} may lose ", Figure(Cell(row.confirms, **own), column)]
        more = f" ({len(self.rows) - NAMES} more metrics below)" if len(self.rows) > NAMES else ""
        return [*parts, f"{more}."]


def plan_gate(
    base: Any,
    new: Any = None,
    metrics: Specs | None = None,
    margin: Margins | None = None,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    reading: Reading = Reading(),
    changed: float = CHANGED,
) -> GatePlan:
    """Compute what a gate could confirm of an equally good system that changes this share of the captions.

    With ``new``, a past system, the spread of differences is measured on the pair. Without it, the two values of an
    item whose caption changed are assumed to correlate by 0.5, so that their difference spreads as the values do.
    """
    scoring = Scoring.of(resampling, runtime, progress, reading)
    check_value("changed", changed, float, Option("", min=0, max=1))
    if not resampling.samples:
        raise InputError("samples=0: a plan needs resamples, expected at least 1")
    if changed == 0:
        raise InputError("changed 0.0, expected a share above 0, such as changed=0.2")
    settings = parse_margins(margin)
    specs = settings.select_specs(metrics)
    spread = (
        _measure_base_spread(base, specs, scoring) if new is None else _measure_pair_spread(base, new, specs, scoring)
    )
    known = {key: one.label for key, one in spread.metrics.items()}
    losses = match_margins(settings.by_name, known) if settings.by_name else {}
    rows = []
    for key, one in spread.metrics.items():
        allowed = losses[key].absolute(one.value) if losses else None
        rows.append(
            _plan_metric(key, one, allowed, math.sqrt(changed / (spread.changed or 1.0)), spread.items, resampling)
        )
    return GatePlan(spread.name, spread.items, changed, tuple(rows), resampling.level, spread.changed)


class _MetricSpread(NamedTuple):
    """The standard error of the difference between two equal systems, for the known share of changed captions."""

    label: str
    value: float
    error: float
    decimals: int | None


class _Spread(NamedTuple):
    """The spread of all metrics on some items."""

    name: str
    items: int
    metrics: Mapping[str, _MetricSpread]
    changed: float | None = None
    """The share of captions that changed where a pair was measured."""


def _measure_pair_spread(base: Any, new: Any, specs: Sequence[str | Metric] | None, scoring: Scoring) -> _Spread:
    """Measure the spread of the differences between two systems."""
    sides = read_sides(base, new, specs, scoring)
    if not sides.changed:
        raise InputError(
            f"{sides.new.name}: no caption differs from those of {sides.base.name}, expected another system"
        )
    tests = run_tests(
        sides.pairs, dict.fromkeys(sides.labels, 0.0), dict.fromkeys(sides.labels, True), scoring.resampling
    )
    metrics = {
        key: _MetricSpread(label, sides.pairs[key].baseline.value, tests[key].error, sides.get_metric(key).decimals)
        for key, label in sides.labels.items()
    }
    return _Spread(sides.base.name, sides.items, metrics, sides.changed)


def _measure_base_spread(base: Any, specs: Sequence[str | Metric] | None, scoring: Scoring) -> _Spread:
    """Measure the spread of the values of one system."""
    if isinstance(base, Lock) or is_lock(base):
        path = base.path if isinstance(base, Lock) else base
        raise InputError(f"{path}: is a lock file, expected a run or a file of captions to plan with")
    report = score_system(base, specs, drop_intervals(scoring))
    keys, _ = select_tested_metrics(list(report), specs)
    estimates = bootstrap({key: report.measurements[key].statistic for key in keys}, scoring.resampling)
    metrics = {
        key: _MetricSpread(report.label(key), one.value, one.error, report.measurements[key].metric.decimals)
        for key, one in estimates.items()
    }
    return _Spread(report.name, report.size, metrics)


def _plan_metric(
    key: str, spread: _MetricSpread, allowed: float | None, factor: float, items: int, resampling: Resampling
) -> PlannedMetric:
    """Return a row of the plan; ``factor`` scales the known error to the planned share of changes."""
    error, level = spread.error * factor, resampling.level
    confirms = compute_span(level) * error
    needed = items * (confirms / allowed) ** 2 if allowed else math.inf
    return PlannedMetric(
        key,
        spread.label,
        spread.value,
        error,
        confirms,
        allowed,
        None if allowed is None else compute_chance_to_pass(allowed, error, level),
        math.ceil(needed) if needed < MOST_ITEMS else None,
        spread.decimals,
    )
