"""Effects of edits on scores, with intervals over images: sides, sizes, slopes over doses, exchange rates.

The *sides* of an edit are the share of items whose score falls (for gaming edits: rises), its *size* is the mean change
in standard deviations. All numbers of a metric come from the same bootstrap draws of images. Scores are oriented:
higher is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from captious._core.types import Floats, Ints
from captious.edits.edit import Group
from captious.options import Resampling
from captious.probes.probe import TIE
from captious.stats.bootstrap import Estimate, estimate
from captious.stats.resampling import sum_clusters

Verdict = Literal["holds", "fails", "undecided"]
# Sides of a metric that ignores an edit (all ties); size of a harmless edit up to which it counts as no change.
CHANCE, MARGIN = 0.5, 0.1
# An interval of the sides within CHANCE ± TOLERANCE shows that the metric ignores the edit.
TOLERANCE = 0.05
# Fewest images for a verdict.
FEWEST = 20


@dataclass(frozen=True)
class Effect:
    """The effect of one edit on one metric."""

    edit: str
    group: Group
    n: int
    """Items with both scores."""
    images: int
    sides: Estimate
    """The share of items whose score fell (gaming: rose); a tie counts one half."""
    size: Estimate
    """The mean change in standard deviations of the metric over the original captions."""
    change: Estimate
    """The mean change in the metric's own unit."""
    verdict: Verdict

    @property
    def decisive(self) -> Estimate:
        """The number that the verdict is about: the size of a harmless edit, the sides of any other."""
        return self.size if self.group == "harmless" else self.sides


@dataclass(frozen=True)
class DoseResponse:
    """The response of one metric to increasing doses of an edit."""

    edit: str
    doses: tuple[int, ...]
    n: int
    """Items with scores at all doses."""
    sizes: tuple[Estimate, ...]
    """The mean change at each dose, in standard deviations."""
    slope: Estimate
    """The change per dose, in the metric's own unit: least squares over the doses and the original (dose 0)."""
    monotone: bool
    """Whether the mean falls with every dose."""
    falling: Estimate
    """The share of items whose score falls with every dose."""


@dataclass(frozen=True)
class ExchangeRate:
    """The number of harmless or gaming edits that outweigh one injected object."""

    edit: str
    group: Group
    rate: Estimate


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one metric: of the original captions, and the change by each edit."""

    base: Floats
    """One score an item; NaN if there is none."""
    change: Floats
    """Items × edits; NaN if an edit could not be made or has no score."""
    cluster: Ints
    """The image of each item."""

    @classmethod
    def of(cls, base: Floats, edited: Floats, cluster: Ints) -> Scores:
        """Compute changes from scores; changes below a millionth of the score are rounding, and set to 0.

        The bound is not absolute: the CIDEr-D of a long caption may be 1e-9.
        """
        before = np.broadcast_to(base[:, None], edited.shape)
        change = edited - before
        rounding = np.abs(change) <= TIE * np.maximum(np.abs(before), np.abs(edited))
        return cls(base, np.where(rounding, 0.0, change), cluster)


def score_sides(change: Floats, group: Group) -> Floats:
    """Return 1 for each score that falls (gaming: rises), 0 for the other direction, ½ for a tie, NaN if missing."""
    side = change if group == "gaming" else -change
    return np.where(np.isnan(change), np.nan, (np.sign(side) + 1) / 2)


def give_verdict(group: Group, sides: Estimate, size: Estimate, images: int) -> Verdict:
    """Decide whether a metric responds to an edit as it should, or whether the interval leaves it undecided.

    A harmless edit should leave the size within ± `MARGIN`; a gaming edit should not have sides above `CHANCE`; any
    other edit should. An interval of the sides close around `CHANCE` shows that the metric ignores the edit, and more
    data would not change that. It is undecided if the interval contains the bound, or with fewer than `FEWEST` images.

    >>> give_verdict("harm", Estimate(0.9, 0.8, 0.95), Estimate(-1.0, -1.2, -0.8), 100)
    'holds'
    >>> give_verdict("harm", Estimate(0.5, 0.49, 0.51), Estimate(0.0, -0.1, 0.1), 500)
    'fails'
    >>> give_verdict("harmless", Estimate(0.5, 0.4, 0.6), Estimate(0.0, -0.2, 0.05), 100)
    'undecided'
    """
    chosen = size if group == "harmless" else sides
    if images < FEWEST or math.isnan(chosen.low):
        return "undecided"
    if group == "harmless":
        if size.low > -MARGIN and size.high < MARGIN:
            return "holds"
        return "fails" if size.low > MARGIN or size.high < -MARGIN else "undecided"
    above = sides.low > CHANCE
    below = sides.high <= CHANCE or (sides.low >= CHANCE - TOLERANCE and sides.high <= CHANCE + TOLERANCE)
    if group == "gaming":
        return "fails" if above else "holds" if below else "undecided"
    return "holds" if above else "fails" if below else "undecided"


def find_effects(scores: Scores, edits: Sequence[tuple[str, Group]], resampling: Resampling) -> list[Effect]:
    """Compute the effect of each edit, in the order of the columns of ``scores.change``."""
    numbers = _estimate_all(scores, edits, resampling)
    effects = []
    for column, (edit, group) in enumerate(edits):
        scored = ~np.isnan(scores.change[:, column])
        images = len(np.unique(scores.cluster[scored]))
        sides, size, change = (numbers[f"{what} {column}"] for what in ("sides", "size", "change"))
        sides = _fix_extreme_interval(sides, images, resampling.level)
        verdict = give_verdict(group, sides, size, images)
        effects.append(Effect(edit, group, int(scored.sum()), images, sides, size, change, verdict))
    return effects


def _fix_extreme_interval(share: Estimate, images: int, level: float) -> Estimate:
    """Replace the bootstrap interval of a share of 0 or 1, which has no width, by the exact one (Clopper–Pearson).

    >>> round(_fix_extreme_interval(Estimate(1.0, 1.0, 1.0), 20, 0.95).low, 4)  # 0.025 ** (1 / 20)
    0.8316
    """
    if share.value not in (0.0, 1.0) or math.isnan(share.low):
        return share
    # Images, not items, are the independent observations.
    reach = 1 - ((1 - level) / 2) ** (1 / images)
    return replace(share, low=1 - reach) if share.value else replace(share, high=reach)


def _estimate_all(scores: Scores, edits: Sequence[tuple[str, Group]], resampling: Resampling) -> dict[str, Estimate]:
    """Estimate sides, sizes and mean changes of all edits from the same bootstrap draws."""
    clusters = int(scores.cluster.max()) + 1 if len(scores.cluster) else 0
    sides = np.stack([score_sides(scores.change[:, column], group) for column, (_, group) in enumerate(edits)], axis=1)
    spread = _build_deviation(scores, clusters)
    scored = (~np.isnan(scores.change)).astype(np.float64)
    sums = [sum_clusters(np.nan_to_num(part), scores.cluster, clusters) for part in (sides, scores.change, scored)]

    def statistic(weights: Floats) -> dict[str, Floats]:
        hits, changes, number = (part.T @ weights for part in sums)  # edits × draws
        sd = spread(weights)
        values: dict[str, Floats] = {}
        for column in range(len(edits)):
            share, mean = _divide(hits[column], number[column]), _divide(changes[column], number[column])
            values |= {
                f"sides {column}": share,
                f"change {column}": mean,
                f"size {column}": _divide_by_deviation(mean, sd),
            }
        return values

    return estimate(statistic, clusters, resampling)


def _build_deviation(scores: Scores, clusters: int) -> Callable[[Floats], Floats]:
    """Return a function that computes the standard deviation of the original scores in each draw, from its weights."""
    scored = ~np.isnan(scores.base)
    mean = scores.base[scored].mean() if scored.any() else 0.0
    centered = np.where(scored, scores.base - mean, 0.0)
    centered[np.abs(centered) <= TIE * abs(mean)] = 0.0  # differences from the mean that are rounding
    # Sums of 1, x and x² give the variance in any draw; x is centered, so that large scores lose no precision.
    moments = np.stack([scored.astype(np.float64), centered, centered**2], axis=1)
    sums = sum_clusters(moments, scores.cluster, clusters)

    def deviation(weights: Floats) -> Floats:
        number, first, second = sums.T @ weights
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = (second - first**2 / number) / (number - 1)
        result: Floats = np.sqrt(np.maximum(variance, 0.0))
        return result

    return deviation


def _divide(top: Floats, bottom: Floats) -> Floats:
    """Divide elementwise; NaN if the denominator is 0."""
    result: Floats = np.divide(top, bottom, out=np.full_like(bottom, np.nan), where=bottom > 0)
    return result


def _divide_by_deviation(mean: Floats, sd: Floats) -> Floats:
    """Divide a mean change by the standard deviation; 0 if nothing changed, NaN if the deviation is 0."""
    result: Floats = np.divide(mean, sd, out=np.where(mean == 0, 0.0, np.nan), where=sd > 0)
    return result


def find_doses(
    scores: Scores, edit: str, columns: Mapping[int, int], effects: Sequence[Effect], resampling: Resampling
) -> DoseResponse:
    """Compute the response to the doses of an edit, over items scored at all doses; ``columns`` is {dose: column}."""
    doses = tuple(columns)
    changes = scores.change[:, list(columns.values())]
    complete = ~np.isnan(changes).any(axis=1)
    # From each dose to the next, the first from the original caption, whose change is 0.
    steps = np.diff(np.concatenate([np.zeros((len(changes), 1)), changes], axis=1), axis=1)
    # Least squares: slope = Σ (dose − mean dose) · change / Σ (dose − mean dose)²; the change at dose 0 is 0.
    centered = np.array([0.0, *doses]) - np.mean([0.0, *doses])
    slopes = np.where(complete, np.nan_to_num(changes) @ centered[1:] / (centered**2).sum(), np.nan)
    falls = np.where(complete, (steps < 0).all(axis=1), np.nan)
    clusters = int(scores.cluster.max()) + 1
    table = np.stack([np.nan_to_num(slopes), np.nan_to_num(falls), complete.astype(np.float64)], axis=1)
    sums = sum_clusters(table, scores.cluster, clusters)

    def statistic(weights: Floats) -> dict[str, Floats]:
        slope, falling, number = sums.T @ weights
        return {"slope": _divide(slope, number), "falling": _divide(falling, number)}

    numbers = estimate(statistic, clusters, resampling)
    means = np.concatenate([[0.0], changes[complete].mean(axis=0)]) if complete.any() else np.array([np.nan, np.nan])
    images = len(np.unique(scores.cluster[complete]))
    return DoseResponse(
        edit,
        doses,
        int(complete.sum()),
        tuple(effects[column].size for column in columns.values()),
        numbers["slope"],
        bool((np.diff(means) < 0).all()),
        _fix_extreme_interval(numbers["falling"], images, resampling.level),
    )


def find_rates(
    scores: Scores, edits: Sequence[tuple[str, Group]], injected: int, resampling: Resampling
) -> list[ExchangeRate]:
    """Compute how many edits of each harmless or gaming kind change the score as much as one injected object.

    The rate is |mean change by the object| / |mean change by the edit|; ``injected`` is the object's column of
    ``scores.change``.
    """
    clusters = int(scores.cluster.max()) + 1
    scored = (~np.isnan(scores.change)).astype(np.float64)
    sums = [sum_clusters(np.nan_to_num(part), scores.cluster, clusters) for part in (scores.change, scored)]
    columns = [
        column for column, (_, group) in enumerate(edits) if group in ("harmless", "gaming") and scored[:, column].any()
    ]

    def statistic(weights: Floats) -> dict[str, Floats]:
        means = np.abs(_divide(*(part.T @ weights for part in sums)))
        with np.errstate(divide="ignore", invalid="ignore"):
            # Resample the inverse of the rate, which is finite if an edit changes nothing; `_invert` turns it back.
            return {str(column): means[column] / means[injected] for column in columns}

    costs = estimate(statistic, clusters, resampling) if columns else {}
    return [ExchangeRate(*edits[column], _invert(costs[str(column)])) for column in columns]


def _invert(cost: Estimate) -> Estimate:
    """Return one over an estimate: the ends of its interval change places, and one over 0 is infinite."""
    # Value, low and high of the inverse.
    ends = [math.inf if end <= 0 else 1 / end for end in (cost.value, cost.high, cost.low)]
    if math.isnan(cost.low):
        ends[1:] = [math.nan, math.nan]
    return replace(
        cost, value=ends[0] if not math.isnan(cost.value) else math.nan, low=ends[1], high=ends[2], error=math.nan
    )
