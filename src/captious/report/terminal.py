"""Tables on the terminal: results on standard output, everything else on standard error."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from captious.comparison import Comparison
from captious.evaluation import Report
from captious.metrics.contract import Measurement

WORST_WIDTH = 100


def output() -> Console:
    """Where results go; wide enough for tables where it is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else 120)


def messages() -> Console:
    """Where progress and warnings go."""
    return Console(stderr=True, width=None if sys.stderr.isatty() else 200)


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Show the step at work on standard error, where that is a terminal."""
    console = messages()
    if not console.is_terminal:
        yield lambda step: None
        return
    with console.status("reading") as status:
        yield lambda step: status.update(step)


def warn(warnings: Sequence[str]) -> None:
    """Print warnings that teach."""
    console = messages()
    for warning in warnings:
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False)


def run_table(report: Report) -> Table:
    """One row per metric."""
    level = next((interval.level for interval in report.intervals.values()), None)
    table = Table(title=Text(f"{report.captions.name}: {len(report.captions)} items"), title_justify="left")
    table.add_column("metric")
    table.add_column("value", justify="right", style="bold")
    table.add_column(f"{level:.0%} interval" if level else "interval", justify="right")
    table.add_column("unscored", justify="right")
    for key, measurement in report.measurements.items():
        interval = report.intervals.get(key)
        shown = f"{interval.low:.4f} – {interval.high:.4f}" if interval else "—"
        missing = str(len(measurement.reasons)) if measurement.reasons else ""
        table.add_row(Text(report.label(key)), value(measurement.corpus), shown, missing)
    return table


def print_run(report: Report) -> None:
    """The table, then the signature of each number."""
    console = output()
    console.print(run_table(report))
    for key in report.measurements:
        console.print(Text(report.signature(key), style="dim"), soft_wrap=True)


def print_worst(report: Report, number: int) -> None:
    """The items with the worst value of the last metric."""
    measurement = list(report.measurements.values())[-1]
    table = Table(title=Text(f"worst {number} by {measurement.metric.label}"), title_justify="left")
    for column in ("id", measurement.metric.label, "candidate", "first reference"):
        table.add_column(Text(column), overflow="fold", max_width=WORST_WIDTH // 2)
    for index in worst(measurement)[:number]:
        item = report.captions.item(index)
        first = item.references[0] if item.references else ""
        table.add_row(Text(item.id), value(measurement.values[index]), Text(item.candidate), Text(first))
    output().print(table)


def worst(measurement: Measurement) -> list[int]:
    """Positions of items from worst to best; those without a value are left out."""
    known = np.flatnonzero(~np.isnan(measurement.values))
    sign = 1 if measurement.metric.higher_is_better else -1
    order: list[int] = known[np.argsort(sign * measurement.values[known], kind="stable")].tolist()
    return order


def print_comparison(comparison: Comparison) -> None:
    """Systems by metrics, then every paired test."""
    console = output()
    first = next(iter(comparison.reports.values()))
    table = Table(title=f"{len(comparison.reports)} systems, {len(first.captions)} items", title_justify="left")
    table.add_column("system")
    for key in first.measurements:
        table.add_column(Text(first.label(key)), justify="right")
    for name, report in comparison.reports.items():
        table.add_row(Text(name), *(_with_half_width(report, key) for key in report.measurements))
    console.print(table)
    tests = Table(title=f"differences: {comparison.test}, Holm-adjusted", title_justify="left")
    for column in ("metric", "systems", "difference", "interval", "p", "p (Holm)", "better"):
        tests.add_column(column, justify="left" if column in ("metric", "systems", "better") else "right")
    for row in comparison.differences:
        pair, interval = Text(f"{row.system} − {row.baseline}"), f"{row.low:+.4f} – {row.high:+.4f}"
        better = Text(row.better, style="bold green") if row.better else Text("no difference shown", style="dim")
        label, gap = Text(first.label(row.metric)), f"{row.difference:+.4f}"
        tests.add_row(label, pair, gap, interval, p_value(row.p), p_value(row.p_holm), better)
    console.print(tests)
    for key in first.measurements:
        console.print(Text(first.signature(key), style="dim"), soft_wrap=True)


def value(number: float) -> str:
    """Four digits, or a dash where there is no value."""
    return "—" if math.isnan(number) else f"{number:.4f}"


def p_value(p: float) -> str:
    """A p-value as people read it.

    >>> p_value(0.00009), p_value(0.0312)
    ('< 0.001', '0.031')
    """
    return "—" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _with_half_width(report: Report, key: str) -> str:
    interval = report.intervals.get(key)
    half = f" ± {(interval.high - interval.low) / 2:.4f}" if interval else ""
    return value(report.measurements[key].corpus) + half
