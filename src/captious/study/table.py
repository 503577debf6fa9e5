"""A study as one table, from which text, CSV and the terminal are made."""

from __future__ import annotations

import math
from dataclasses import dataclass

from captious.stats.tests import correlation_test, kendall_test
from captious.study.design import Pairs, Rows
from captious.study.printed import NAMES, interval, p_value, value
from captious.study.study import Study


@dataclass(frozen=True)
class Table:
    """Named columns and rows of text; prints itself aligned."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if place == 1 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in (self.columns, *self.rows)
        ]
        return "\n".join([*(line.rstrip() for line in lines), *self.notes])

    __repr__ = __str__


def shown(study: Study) -> list[str]:
    """The statistics that a table prints, the headline first, then the other tau."""
    headline = study.options.statistic
    if isinstance(study.problem, Pairs):
        return [headline, *(name for name in study.problem.families if name != headline)]
    first = [headline, *(name for name in ("tau_b", "tau_c") if name != headline)]
    rest = ("spearman", "pearson", "sample_tau", "accuracy_eq", "system_tau", "one_minus_r2")
    return first + [name for name in rest if name in study.problem.families and name not in first]


def table(study: Study) -> Table:
    """One row per metric, from best to worst, with the rank cluster."""
    names, level = shown(study), study.options.level
    columns = ["rank", "metric", NAMES.get(names[0], names[0]), f"{level:.0%} interval"]
    columns += [NAMES.get(name, name) for name in names[1:]] + [
        "ties",
        *(["τ=0: p"] if isinstance(study.problem, Rows) else []),
    ]
    columns += ["soft acc."] if study.soft else []
    columns += ["missing"] if any(study.missing.values()) else []
    labels = {score.key: score.label for score in study.scores}
    rows = []
    for key in study.order:
        found = study.estimates[key]
        cells = [
            str(study.rank(key)),
            labels[key],
            value(found[names[0]].value, names[0]),
            interval(found[names[0]], names[0]),
        ]
        cells += [value(found[name].value, name) for name in names[1:]] + [f"{study.ties[key][0]:.1%}"]
        if isinstance(study.problem, Rows):
            cells.append(p_value(zero_tests(study, key)["tau"]))
        cells += [value(study.soft[key], "soft")] if study.soft else []
        cells += [str(study.missing[key])] if any(study.missing.values()) else []
        rows.append(tuple(cells))
    return Table(tuple(columns), tuple(rows), tuple(notes(study)))


def notes(study: Study) -> list[str]:
    """What the numbers rest on: rows, items, images, ties of the ratings, what was left out, the clusters in words."""
    problem = study.problem
    labels = {score.key: score.label for score in study.scores}
    if isinstance(problem, Rows):
        ties = next(iter(study.ties.values()))[1]
        lines = [
            f"{len(problem.human):,} rows of {problem.items:,} captions of {problem.clusters:,} images; values × 100; "
            f"{ties:.1%} of row pairs are tied in the ratings, column “ties” in the metric"
        ]
    else:
        lines = [f"{problem.items // 2:,} pairs of {problem.clusters:,} images; accuracies in per cent"]
    lines += [f"left out: {number:,} ({reason})" for reason, number in study.ratings.dropped.items()]
    if lost := len(study.ratings.ids) - problem.items:
        lines.append(f"left out: {lost:,} items for which a metric has no value")
    elif not any(study.missing.values()):
        lines.append("missing: none, every metric has a value for every item")
    for place, cluster in enumerate(study.clusters, 1):
        if len(cluster) > 1:
            lines.append(f"rank {place}: {', '.join(labels[key] for key in cluster)} are indistinguishable")
    for key, found in study.estimates.items():
        for name, estimate in found.items():
            if estimate.undefined and name in shown(study):
                lines.append(f"{labels[key]}: {NAMES.get(name, name)} undefined in {estimate.undefined} draws")
    if isinstance(problem, Rows) and "sample_tau" in problem.families:
        skipped = {key: statistics["within"].skipped for key, statistics in study.statistics.items()}
        if any(skipped.values()):
            most = max(skipped.values())
            lines.append(f"sample τ: up to {most:,} images left out where people or the metric see no difference")
    return lines


def zero_tests(study: Study, key: str) -> dict[str, float]:
    """p-values of no association: tau by the normal approximation over rows, Pearson by t over items (as in UMIC)."""
    assert isinstance(study.problem, Rows)
    kendall = study.statistics[key]["kendall"]
    values = next(score.oriented for score in study.scores if score.key == key)
    import numpy as np

    surplus = float(kendall.surplus(np.ones((study.problem.clusters, 1)))[0])
    r = float(np.corrcoef(study.problem.mean, values)[0, 1]) if np.ptp(study.problem.mean) else float("nan")
    return {
        "tau": kendall_test(surplus, values[study.problem.item], study.problem.human).p,
        "pearson": correlation_test(r, study.problem.items).p if not math.isnan(r) else float("nan"),
    }
