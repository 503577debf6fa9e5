"""Systems that met in pairs: whether a metric's verdicts put them in the order in which people's do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from captious._core.types import Floats, Ints
from captious.render import Column, Table
from captious.render.document import Value
from captious.stats.pairwise import PRIOR, bradley_terry, win_rows
from captious.study._columns import column
from captious.study._design import Pairs
from captious.study.scores import MetricScores


def systems_table(
    pairs: Pairs,
    captions: Sequence[str],
    scores: Sequence[MetricScores],
    labels: Mapping[str, str],
    order: Sequence[str],
) -> Table | None:
    """How alike the order of systems is by each metric and by people; None if there are fewer than three.

    ``captions`` names the system of each caption, two to a pair.
    """
    names = sorted({*captions})
    if len(names) < 3:
        return None
    system = np.searchsorted(np.array(names), np.array(captions))
    people = _strengths(pairs, system, len(names), _people(pairs))
    by_metric = {one.key: one for one in scores}
    rows: list[Sequence[Value]] = []
    for key in order:
        values = by_metric[key].oriented
        own = _strengths(pairs, system, len(names), pairs.verdicts(values[pairs.first] - values[pairs.second]))
        rows.append([labels[key], *_correlations(own, people)])
    columns: list[Column | str] = ["metric", column("spearman", best=True), column("system_tau", best=True)]
    note = "Spearman's and Kendall's correlation of Bradley–Terry strengths, by the metric's verdicts and by people's"
    return Table("systems", f"Between the {len(names)} systems", columns, rows, note)


def _people(pairs: Pairs) -> Floats:
    """The verdict of people for the first caption of each pair of the design, which is the preferred one."""
    return np.ones(len(pairs.first)) if pairs.tied is None else np.where(pairs.tied, 0.5, 1.0)


def _strengths(pairs: Pairs, system: Ints, number: int, verdicts: Floats) -> Floats:
    met = np.zeros(len(verdicts), dtype=np.int64)
    wins = win_rows(system[pairs.first], system[pairs.second], verdicts, met, 1, number)
    return bradley_terry(wins.reshape(number, number), PRIOR)


def _correlations(one: Floats, other: Floats) -> tuple[float, float]:
    from scipy.stats import kendalltau, spearmanr

    if np.isnan(one + other).any() or np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan"), float("nan")
    return float(spearmanr(one, other).statistic), float(kendalltau(one, other).statistic)
