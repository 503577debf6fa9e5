"""Do people agree with each other: Krippendorff's alpha, the human ceiling, and every rater against the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.types import Floats
from captious.errors import InputError, format_suggestion
from captious.options import Missing, Reading, Resampling, get_choices
from captious.render import Cell, Column, Document, Figure, Result, Table
from captious.render.document import Value
from captious.stats.bootstrap import NAN, Estimate, WeightedStatistic, compute_observed, estimate
from captious.stats.rater_agreement import Alpha, Measurement, compute_alpha_without, krippendorff
from captious.study._design import RatingRows
from captious.study._statistic_columns import (
    build_agreement_document,
    build_alpha_table,
    describe_alpha,
    get_label,
    get_scaled_label,
    make_column,
)
from captious.study.judgments import Preferences, Ratings, as_ratings
from captious.study.load import load_ratings
from captious.study.raters.pair_agreement import PairsAgreement, pairs_agreement
from captious.study.recipes import find_recipe_for
from captious.study.study_options import StudyInput

STATISTICS = ("tau_b", "tau_c", "pearson")


@dataclass(frozen=True)
class RaterDiagnostics:
    """One column of ratings against the other columns, on the items that both rated."""

    name: str
    ratings: int
    shared: int
    """Items that others rated too."""
    mean: float
    spread: float
    bias: float
    """Mean of the rater's ratings less those of the others on the same items."""
    pearson: float
    """Consistency: correlation with the mean of the others."""
    tau_b: float
    tau_c: float
    """Tau-b and tau-c of the rater in the place of a metric, with each rating of the others as a row."""
    alpha_without: float
    """Agreement of the others without this rater: above that of all, the rater is the odd one out."""
    constant: bool = False


@dataclass(frozen=True)
class Ceiling:
    """The score of a person who is treated as a metric; the mean over raters, left out one at a time."""

    tau_b: Estimate
    tau_c: Estimate
    pearson: Estimate
    raters: int


@dataclass(frozen=True, repr=False)
class Agreement(Result):
    """Agreement of raters."""

    name: str
    alpha: Alpha
    ceiling: Ceiling
    raters: tuple[RaterDiagnostics, ...]
    resampling: Resampling
    warnings: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    """The number of rows, ratings or captions that were left out at reading, by reason."""
    read: str = ""
    """The columns and files that were read."""

    def __repr__(self) -> str:
        return f"Agreement({self.name}: alpha {self.alpha.estimate.value:.4f})"

    def document(self) -> Document:
        """Build the document: alpha, the human ceiling, and a table of raters."""
        level = self.resampling.level
        note = "items: with two ratings or more; single: items with one rating, left out"
        ceiling = Table(
            "ceiling",
            "The human ceiling: one rater in the place of a metric, against the ratings of the others, × 100",
            ["statistic", make_column("tau_b", "value", key="value", level=level)],
            [[get_label(name), Cell.of(getattr(self.ceiling, name))] for name in STATISTICS],
        )
        alpha = build_alpha_table(self.name, self.alpha, ("ratings", "items"), note, self.resampling)
        return build_agreement_document(
            self.name,
            self.resampling,
            [alpha, ceiling, self._raters_table()],
            {"alpha": self.alpha, "ceiling": self.ceiling, "raters": self.raters},
            self.warnings,
            self.left_out,
            self.read,
            [
                *describe_alpha(self.alpha, "caption", self.resampling),
                f" One rater in the place of a metric reaches {get_scaled_label('tau_b')} of ",
                Figure(self.ceiling.tau_b, ceiling.heads[1]),
                ".",
            ],
        )

    def _raters_table(self) -> Table:
        columns: list[Column | str] = ["rater", Column("ratings"), Column("shared")]
        columns += [Column(name, decimals=3) for name in ("mean", "sd", "bias", "r with others")]
        columns += [make_column("tau_b", "τ-b × 100"), Column("alpha without", decimals=3)]
        rows: list[list[Value]] = [
            [
                *(one.name, one.ratings, one.shared, one.mean, one.spread, one.bias, one.pearson, one.tau_b),
                one.alpha_without,
            ]
            for one in self.raters
        ]
        note = (
            "shared: items that others rated too; bias: mean minus that of the others on the same items; "
            "alpha without: agreement of the others"
        )
        return Table("raters", "Each rater against the others", columns, rows, note)


def rater_agreement(
    ratings: Any,
    measurement: Measurement | None = None,
    resampling: Resampling = Resampling(),
    *,
    missing: Missing = "error",
) -> Agreement | PairsAgreement:
    """Compute Krippendorff's alpha, the score of a person used as a metric, and every rater against the others.

    ``ratings`` are those that ``captious.correlate`` takes; their level of measurement is that of their recipe, or
    interval, that of pairs nominal, unless another is named. ``missing="skip"`` leaves out rows that cannot be read,
    and counts them.
    """
    if measurement is not None and measurement not in (levels := get_choices(Measurement)):
        raise InputError(
            f"measurement={measurement!r}, expected {' or '.join(levels)}{format_suggestion(measurement, levels)}"
        )
    if isinstance(ratings, (str, Path)):
        ratings, _ = load_ratings(StudyInput(find_recipe_for(str(ratings))), Reading(missing=missing))
    ratings = as_ratings(ratings, missing=missing)
    if isinstance(ratings, Preferences):
        return pairs_agreement(ratings, measurement or "nominal", resampling)
    measurement = measurement or ratings.measurement or "interval"
    warnings = list(ratings.warnings)
    if is_ordered(ratings):
        warnings.append(
            "the ratings of every item are in ascending order: they were sorted, so raters are not persons; alpha "
            "does not depend on it, but ignore the ceiling and the table of raters, or read the ratings unsorted"
        )
    return Agreement(
        ratings.name,
        krippendorff(ratings.values, measurement, resampling, ratings.groups, name=ratings.name),
        compute_ceiling(ratings, resampling),
        tuple(diagnose_raters(ratings, measurement)),
        resampling,
        tuple(warnings),
        ratings.dropped,
        ratings.read,
    )


def diagnose_raters(ratings: Ratings, measurement: Measurement = "interval") -> list[RaterDiagnostics]:
    """Compute the diagnostics of every rater."""
    names = ratings.raters or tuple(str(number + 1) for number in range(ratings.values.shape[1]))
    return [_diagnose_rater(ratings, index, name, measurement) for index, name in enumerate(names)]


def _diagnose_rater(ratings: Ratings, index: int, name: str, measurement: Measurement) -> RaterDiagnostics:
    others, own = _compare_with_others(ratings, index)
    column = ratings.values[:, index]
    rated = column[~np.isnan(column)]
    statistic = _make_statistic(others, own)
    values = compute_observed(statistic, len({*ratings.groups})) if statistic else dict.fromkeys(STATISTICS, NAN)
    return RaterDiagnostics(
        name,
        len(rated),
        0 if others is None else others.items,
        float(rated.mean()) if len(rated) else NAN,
        float(rated.std()) if len(rated) else NAN,
        NAN if others is None else float((own - others.mean).mean()),
        values["pearson"],
        values["tau_b"],
        values["tau_c"],
        compute_alpha_without(ratings.values, index, measurement),
        statistic is None,
    )


def compute_ceiling(ratings: Ratings, resampling: Resampling = Resampling()) -> Ceiling:
    """Compute the human ceiling: each rater against the others, then the mean; its interval from the same image draws.

    Columns need not be persons: if every caption was rated by different people, a column is "a first rating", and the
    ceiling is that of a single rating.
    """
    each = [_make_statistic(*_compare_with_others(ratings, index)) for index in range(ratings.values.shape[1])]
    comparable = [statistic for statistic in each if statistic is not None]
    if not comparable:
        raise InputError(
            f"{ratings.name}: no rater can be compared with others, expected two who rated three of the same items"
        )

    def mean(weights: Floats) -> dict[str, Floats]:
        values = [statistic(weights) for statistic in comparable]
        return {name: np.mean([one[name] for one in values], axis=0) for name in STATISTICS}

    return Ceiling(**estimate(mean, len({*ratings.groups}), resampling), raters=len(comparable))


def _make_statistic(others: RatingRows | None, own: Floats) -> WeightedStatistic | None:
    """Return a function of both taus with each rating of the others and of Pearson's r with their means.

    It is None if a side is constant.
    """
    if others is None or np.ptp(own) == 0 or np.ptp(others.human) == 0:
        return None
    means = replace(others, human=others.mean, item=np.arange(others.items))
    taus, moments = others.family("kendall", own), means.family("moments", own)
    return lambda weights: {**taus(weights), "pearson": moments(weights)["pearson"]}


def _compare_with_others(ratings: Ratings, index: int) -> tuple[RatingRows | None, Floats]:
    """Return the others' ratings as a design, and the rater's own as the values of a metric."""
    others = np.delete(ratings.values, index, axis=1)
    own = ratings.values[:, index]
    shared = np.flatnonzero(~np.isnan(own) & ~np.isnan(others).all(axis=1))
    if len(shared) < 3:
        return None, own
    values = others[shared]
    item, rater = np.nonzero(~np.isnan(values))
    images, cluster = np.unique(np.array(ratings.groups), return_inverse=True)
    return RatingRows(values[item, rater], item, cluster[shared], len(images), np.nanmean(values, axis=1)), own[shared]


def is_ordered(ratings: Ratings) -> bool:
    """Return whether every item's ratings are in ascending order: then columns are ranks of ratings, not raters."""
    values = ratings.values
    complete = values[~np.isnan(values).any(axis=1)]
    # Equal ratings of an item say nothing about the order.
    unequal = complete[np.ptp(complete, axis=1) > 0] if len(complete) and values.shape[1] > 1 else complete[:0]
    return len(unequal) >= 10 and bool((np.diff(unequal, axis=1) >= 0).all())
