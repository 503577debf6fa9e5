"""Combination studies: what another metric adds to a metric, before and after, over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np

from captious._core.types import Floats
from captious._version import __version__
from captious.errors import InputError
from captious.options import SEED, Missing, Resampling
from captious.render import Answer, Cell, Column, Document, Figure, Result, Table
from captious.render.answers import format_p
from captious.render.document import Value
from captious.runs.report import join_signatures
from captious.stats.bootstrap import NAN, Estimate, compute_observed, draw_bootstrap
from captious.stats.ridge import deal_folds
from captious.stats.tests import compute_bootstrap_p
from captious.study._design import Design, find_family
from captious.study._statistic_columns import get_scaled_label, make_column
from captious.study.judgments import Preferences, Ratings
from captious.study.metric_agreement._correlate import correlate
from captious.study.rating_files import LARGEST
from captious.study.recipes import Recipe
from captious.study.scores import MetricScores, list_notes, measure, read_scores

GRID = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
FOLDS = 5


@dataclass(frozen=True)
class Added:
    """One metric before and after adding λ times another; over seeds, the mean and standard deviation."""

    metric: str
    other: str
    factor: float
    statistic: str
    before: float
    after: float
    spread: float
    """Standard deviation over seeds (divisor seeds − 1); NaN with one seed."""
    seeds: int
    gain: Estimate
    """The difference after − before, the mean over seeds, with an interval over images."""
    p: float = NAN
    """The two-sided p-value of the gain by a paired bootstrap over images; NaN without resamples."""


@dataclass(frozen=True)
class Chosen:
    """One metric with another added by the λ that was best on the rest of the images."""

    metric: str
    other: str
    statistic: str
    factor: float
    """Best on all images: what one would use, its value there being too good."""
    factors: tuple[float, ...]
    """Best on the rest of the images, by fold."""
    before: float
    """The value of the metric on its own: the mean over folds on the images left out."""
    after: float
    """The same with the chosen λ, the mean over seeds: the honest value."""
    spread: float
    """Standard deviation over seeds; NaN with one seed."""
    seeds: int

    @property
    def gain(self) -> Estimate:
        """The difference after − before.

        It has no interval, since the choice would have to be made again in every draw.
        """
        return Estimate(self.after - self.before)


@dataclass(frozen=True, repr=False)
class Combination(Result):
    """The gain of metrics from others that are added to them."""

    name: str
    added: tuple[Added, ...]
    chosen: tuple[Chosen, ...]
    resampling: Resampling
    signatures: tuple[str, ...] = ()
    """The signatures of the metrics that were added to, then of those that were added."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Combination({self.name}: {len(self.added)} sums)"

    def document(self) -> Document:
        """Build the document: before, after ± over seeds, the gain with its interval; and the λ that cross-validation
        chooses.
        """
        statistic = self.added[0].statistic
        shown = get_scaled_label(statistic)
        title = f"{PurePath(self.name).name}: metric + λ · another, {shown}"
        note = "± is the standard deviation over seeds; p: of the gain, paired bootstrap over images"
        extra: list[Sequence[Value]] = [(row.p, row.seeds) for row in self.added]
        sections = [self._table("added", title, self.added, (Column("p", "p"), Column("seeds")), extra, note)]
        if self.chosen:
            folds = f"{len(self.chosen[0].factors)}-fold cross-validation over images: held-out {shown} with the best λ"
            note = "λ: the best on all images; before and after: mean over images left out of the choice"
            extra = [(", ".join(f"{factor:g}" for factor in row.factors),) for row in self.chosen]
            sections.append(self._table("chosen", folds, self.chosen, ("λ of each fold",), extra, note))
        ci = self.resampling.signature("images")
        data = {
            "name": self.name,
            "rows": self.added,
            "chosen": self.chosen,
            "ci": ci,
            "signatures": self.signatures,
        }
        signatures = (f"combine:{self.name}|statistic:{statistic}|ci:{ci}|captious:{__version__}", *self.signatures)
        return Document(title, "", sections, self.warnings, self.notes, signatures, data, "combination", self._answer())

    def _answer(self) -> Answer:
        """Return the plain answer: whether adding a metric helps, by the sum that gained most."""
        row = max(self.added, key=lambda one: -math.inf if math.isnan(one.gain.value) else one.gain.value)
        column = make_column(row.statistic, level=self.resampling.level, signed=True)
        shown = not math.isnan(row.p) and row.p < 1 - self.resampling.level
        helps = "helps" if row.gain.value > 0 else "hurts"
        verdict = f"Adding {row.other} to {row.metric} {helps if shown else 'is not shown to help'}"
        ending = "" if math.isnan(row.p) else f", p {format_p(row.p)}"
        if len(self.added) > 1:
            verdict = f"The best of {len(self.added)} sums is {row.metric} + {row.factor:g} · {row.other}. {verdict}"
            ending += "" if math.isnan(row.p) else ", not corrected for the number of sums"
        return [
            f"{verdict}: {get_scaled_label(row.statistic)} changes by ",
            Figure(row.gain, column),
            f"{ending}.",
        ]

    def _table(
        self,
        key: str,
        title: str,
        sums: Sequence[Added | Chosen],
        columns: Sequence[Column | str],
        extra: Sequence[Sequence[Value]],
        note: str,
    ) -> Table:
        """Build the columns that both tables share, then their own."""
        statistic = sums[0].statistic
        common: list[Column | str] = [
            "metrics",
            Column("λ", decimals=None, key="factor"),
            make_column(statistic, "before", key="before"),
            make_column(statistic, "after", key="after", bold=True),
            make_column(statistic, "gain", key="gain", level=self.resampling.level, signed=True),
        ]
        rows: list[list[Value]] = [
            [
                *(f"{one.metric} + {one.other}", one.factor, one.before, Cell(one.after, sd=one.spread)),
                *(Cell.of(one.gain), *more),
            ]
            for one, more in zip(sums, extra, strict=True)
        ]
        return Table(key, title, [*common, *columns], rows, note)


def combine_metrics(
    ratings: Ratings | Preferences,
    base: Sequence[MetricScores],
    others: Sequence[MetricScores],
    *,
    recipe: Recipe | None = None,
    factors: Sequence[float] = (1.0,),
    folds: int = FOLDS,
    statistic: str | None = None,
    resampling: Resampling = Resampling(),
) -> Combination:
    """Add every one of ``others`` to every one of ``base``, by each factor and by the best of ``GRID``.

    Columns of others called ``name@1``, ``name@2``, … are seeds of one metric. ``folds=0`` leaves out the search for
    the best factor. The statistic is the headline that `correlate` would have.
    """
    if not factors or not all(abs(factor) <= LARGEST for factor in factors):
        raise InputError(f"factors={','.join(f'{factor:g}' for factor in factors)}: expected finite numbers")
    study = correlate(ratings, [*base, *others], recipe=recipe, statistic=statistic, resampling=Resampling(samples=0))
    statistic = study.statistic
    metrics, added = study.scores[: len(base)], study.scores[len(base) :]
    by_seed = group_seeds(added)
    return Combination(
        ratings.name,
        tuple(add(study.design, metrics, by_seed, factors, statistic, resampling)),
        tuple(cross_validate(study.design, metrics, by_seed, GRID, folds, statistic, resampling.seed) if folds else ()),
        resampling,
        tuple(join_signatures(dict.fromkeys(score.signature for score in study.scores if score.signature))),
        study.warnings,
        (*filter(None, [ratings.read]), *list_notes(study.scores)),
    )


def collect_others(
    ratings: Ratings | Preferences,
    added: Sequence[str],
    seeds: int | None = None,
    *,
    recipe: Recipe | None = None,
    id_column: str | None = None,
    missing: Missing = "error",
    progress: Callable[[str], None] | None = None,
) -> list[MetricScores]:
    """Collect what is added: files of values computed elsewhere, and metrics, those with seeds once for each."""
    files = [name for name in added if Path(name).is_file()]
    metrics = [name for name in added if name not in files]
    if not added:
        raise InputError("nothing to add: pass add=... with metrics, or a file of values computed elsewhere")
    if seeds is not None and not metrics:
        raise InputError("seeds=... is for metrics; a file has columns name@1, name@2, …")
    read = [score for path in files for score in read_scores(path, ratings, recipe, missing, id_column)]
    return [*(measure(ratings, metrics, progress, seeds=seeds, by_seed=True) if metrics else ()), *read]


def group_seeds(scores: Sequence[MetricScores]) -> dict[str, list[Floats]]:
    """Group columns ``name@seed`` by name: the seeds of one metric.

    >>> columns = [MetricScores(name, "", np.ones(1)) for name in ("ie@1", "ie@2", "b")]
    >>> {name: len(seeds) for name, seeds in group_seeds(columns).items()}
    {'ie': 2, 'b': 1}
    """
    groups: dict[str, list[Floats]] = {}
    for score in scores:
        groups.setdefault(score.key.rsplit("@", 1)[0], []).append(score.values)
    return groups


def add(
    design: Design,
    metrics: Sequence[MetricScores],
    others: Mapping[str, Sequence[Floats]],
    factors: Sequence[float] = (1.0,),
    statistic: str = "pearson",
    resampling: Resampling = Resampling(),
) -> list[Added]:
    """Compute metric + λ · other for every metric, every other and every λ, as in ImaginE's Tables 1 to 3.

    ``others`` has one array of values per seed. Values are added as they are, item by item, on their own scales: the
    paper's CIDEr, far above 1, hardly moves when something between 0 and 1 is added. The paper's statistic is Pearson
    over examples, its spread that of the seeds.

    >>> from captious.study._design import RatingRows
    >>> people = np.array([1.0, 2.0, 3.0, 4.0])
    >>> rows = RatingRows(people, np.arange(4), np.arange(4), 4, people)
    >>> metric, other = MetricScores("m", "m", np.array([1.0, 0.0, 0.0, 1.0])), np.array([0.0, 1.0, 2.0, 2.0])
    >>> (added,) = add(rows, [metric], {"o": [other]}, resampling=Resampling(samples=0))
    >>> round(abs(added.before), 6), round(added.after, 6)  # 1 1 2 3 against 1 2 3 4: 3.5 / √(5 · 2.75)
    (0.0, 0.94388)
    """
    family = find_family(design, statistic)
    results = []
    for metric in metrics:
        alone = design.family(family, metric.oriented)
        before = compute_observed(alone, design.clusters)[statistic]
        for other, seeds in others.items():
            for factor in factors:
                sums = [design.family(family, metric.oriented + factor * values) for values in seeds]
                after = np.array([compute_observed(one, design.clusters)[statistic] for one in sums])
                gain, p = Estimate(float(after.mean() - before)), NAN
                if resampling.samples:
                    drawn = draw_bootstrap([alone, *sums], design.clusters, resampling)
                    gains = np.mean([part[statistic] for part in drawn[1:]], axis=0) - drawn[0][statistic]
                    gain = Estimate.under(gain.value, gains, resampling, design.clusters)
                    p = compute_bootstrap_p(gain.value, gains)
                spread = float(after.std(ddof=1)) if len(after) > 1 else NAN
                results.append(
                    Added(
                        metric.key, other, factor, statistic, before, float(after.mean()), spread, len(after), gain, p
                    )
                )
    return results


def cross_validate(
    design: Design,
    metrics: Sequence[MetricScores],
    others: Mapping[str, Sequence[Floats]],
    grid: Sequence[float] = GRID,
    folds: int = FOLDS,
    statistic: str = "pearson",
    seed: int = SEED,
) -> list[Chosen]:
    """Find the best λ of ``grid`` for every metric and every other, by the mean over seeds, with its held-out value.

    Images are dealt into folds, so captions of one image never stand on both sides. A λ is chosen on the other folds
    and judged on its own; values are averaged over folds, before and after alike. Of equal λ the smallest is taken.
    """
    family, order = find_family(design, statistic), sorted(set(grid))
    if not 2 <= folds <= design.clusters:
        raise InputError(f"folds={folds}: expected 2 to {design.clusters}, the number of images or groups")
    fold = deal_folds(design.clusters, folds, seed)
    own = (fold[:, None] == np.arange(folds)).astype(np.float64)
    weights = np.concatenate([own, 1 - own, np.ones((design.clusters, 1))], axis=1)  # left out, rest, all

    def values(scores: Floats) -> Floats:
        return design.family(family, scores)(weights)[statistic]

    results = []
    for metric in metrics:
        alone = values(metric.oriented)
        for other, seeds in others.items():
            # λ × seeds × (left out, rest, all)
            table = np.array([[values(metric.oriented + factor * one) for one in seeds] for factor in order])
            best = np.nan_to_num(table.mean(axis=1), nan=-np.inf).argmax(axis=0)
            after = np.mean([table[best[folds + index], :, index] for index in range(folds)], axis=0)
            results.append(
                Chosen(
                    metric.key,
                    other,
                    statistic,
                    order[int(best[-1])],
                    tuple(order[int(best[folds + index])] for index in range(folds)),
                    float(alone[:folds].mean()),
                    float(after.mean()),
                    float(after.std(ddof=1)) if len(seeds) > 1 else NAN,
                    len(seeds),
                )
            )
    return results
