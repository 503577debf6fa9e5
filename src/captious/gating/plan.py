"""What a gate can confirm before there is a new system: the margins for this many items, and the items for a margin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from captious._evaluate import Specs, metric_specs, reading_of, settings_of
from captious.errors import InputError
from captious.gating.lock import Lock, is_lock
from captious.gating.margins import Margins, gate_file, margins_of
from captious.gating.sides import paired_sides, scored, sides_names, tested_metrics
from captious.gating.verdict import tested
from captious.options import Missing, Option, Reading, Resampling, Runtime, check_value
from captious.render import Cell, Column, Document, Result, Table
from captious.stats.bootstrap import bootstrap
from captious.stats.noninferiority import MOST_ITEMS, POWER, chance_to_pass, span

CHANGED = 0.2
"""The share of captions that a new system is taken to change."""


@dataclass(frozen=True)
class PlannedMetric:
    """What a gate could confirm by one metric."""

    metric: str
    label: str
    value: float
    error: float
    """Standard error of the difference to an equal system, as it is expected."""
    confirms: float
    """The smallest margin with which an equal system passes four times in five."""
    margin: float | None = None
    chance: float | None = None
    """How often an equal system passes with the margin."""
    items: int | None = None
    """Items with which an equal system passes four times in five with the margin; None for none, or too many."""
    decimals: int | None = None


@dataclass(frozen=True, repr=False)
class GatePlan(Result):
    """Margins and numbers of items that go together."""

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
        """A row for each metric."""
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
            f"the differences of this pair, of which {100 * self.measured:.3g}% of the captions changed"
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
        )


def plan_gate(
    base: Any,
    new: Any = None,
    metrics: Specs | None = None,
    margin: Margins | None = None,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    reading: Reading = Reading(),
    changed: float = CHANGED,
) -> GatePlan:
    """What a gate could confirm of a system that is as good as the base and changes this share of its captions.

    With ``new``, a system of the past, the spread of differences is that of the pair. Without it, the two values of an
    item whose caption changed are taken to correlate by 0.5, so that their difference spreads as the values do.
    """
    resampling, runtime = settings_of(resampling, runtime, progress)
    check_value("changed", changed, float, Option("", min=0, max=1))
    if not resampling.samples:
        raise InputError("samples=0: a plan needs resamples, expected at least 1")
    if changed == 0:
        raise InputError("changed 0.0, expected a share above 0, such as changed=0.2")
    settings, reading = gate_file(margin), reading_of(reading, references, images, missing)
    specs = metric_specs(metrics) if metrics is not None else metric_specs(settings.specs) if settings.specs else None
    measured, errors, values, labels, decimals = None, {}, {}, {}, {}
    if new is not None:
        names = sides_names(base, new)
        sides = paired_sides(base, new, names, specs, resampling, runtime, progress, reading)
        name, size, measured, labels = names[0], sides.items, sides.changed, dict(sides.labels)
        if not measured:
            raise InputError(f"{names[1]}: no caption differs from those of {names[0]}, expected another system")
        flat = dict.fromkeys(labels, 0.0)
        for key, test in tested(sides.pairs, flat, dict.fromkeys(labels, True), resampling).items():
            errors[key], values[key] = test.error * math.sqrt(changed / measured), sides.pairs[key].baseline.value
            decimals[key] = sides.metric(key).decimals
    else:
        if isinstance(base, Lock) or is_lock(base):
            path = base.path if isinstance(base, Lock) else base
            raise InputError(f"{path}: is a lock file, expected a run or a file of captions to plan with")
        report = scored(base, specs, Resampling(0), runtime, progress, reading)
        name, size = report.name, report.size
        keys, _ = tested_metrics(list(report), specs)
        statistics = {key: report.measurements[key].statistic for key in keys}
        for key, estimate in bootstrap(statistics, resampling).items():
            errors[key], values[key] = estimate.error * math.sqrt(changed), estimate.value
            labels[key], decimals[key] = report.label(key), report.measurements[key].metric.decimals
    losses = margins_of(settings.by_name, labels) if settings.by_name else {}
    rows = []
    for key, error in errors.items():
        allowed = losses[key].absolute(values[key]) if losses else None
        needed = size * (span(resampling.level) * error / allowed) ** 2 if allowed else math.inf
        rows.append(
            PlannedMetric(
                key,
                labels[key],
                values[key],
                error,
                span(resampling.level) * error,
                allowed,
                None if allowed is None else chance_to_pass(allowed, error, resampling.level),
                math.ceil(needed) if needed < MOST_ITEMS else None,
                decimals[key],
            )
        )
    return GatePlan(name, size, changed, tuple(rows), resampling.level, measured)
