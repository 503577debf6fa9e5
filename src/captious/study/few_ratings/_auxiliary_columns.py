"""Auxiliary metrics of an estimate: their form, the choice of those that can be used, and the regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from captious._core.types import Floats, Ints
from captious.errors import InputError
from captious.options import Missing
from captious.stats.auxiliary import Form, choose_form, cross_fit, fill_missing, shape_values, shrink_prediction
from captious.stats.calibration import fit_isotonic
from captious.stats.ridge import fit_tuned_ridge
from captious.stats.survey import (
    Answers,
    Population,
    Slopes,
    SurveyMeans,
    Target,
    center_by,
    estimate_means,
    find_varied,
)
from captious.study.few_ratings._rated_sample import RatedSample

# Fewest rated images for auxiliary metrics.
LEAST_IMAGES = 10
# With fewer rated images of a system, its interval is called rough.
ROUGH = 5
# Fewest rated captions per slope.
PER_SLOPE = 20
# Largest share of captions without a value; a metric with more is left out.
MISSING_VALUES = 0.3
# Smallest share of a column's length that the columns before it must not explain.
REDUNDANT = 1e-5
# Fewest auxiliary metrics that a cross-fitted ridge combines to one prediction.
SEVERAL = 3


@dataclass(frozen=True)
class EstimateSetting:
    """Options of an estimate."""

    form: Form
    slopes: Slopes
    target: Target
    level: float
    share: float | None
    missing: Missing
    seed: int
    factor: Callable[[int, float, float], float] | None
    """A function from rated images, degrees of freedom and level to the factor of the error; None for Student's t."""


@dataclass(frozen=True, eq=False)
class AuxiliaryColumn:
    """The values of one auxiliary metric, one per caption."""

    name: str
    label: str
    form: str
    values: Floats
    """The values that the regression uses: filled, and clipped or ranked."""
    raw: Floats
    """The values of the metric; NaN if a caption has none."""


def prepare_columns(
    sample: RatedSample, using: Sequence[str] | None, setting: EstimateSetting, remarks: list[str]
) -> list[AuxiliaryColumn]:
    """Transform every auxiliary metric to its form; leave out constant ones and those with many missing values."""
    columns = []
    for name in sample.table.names_of(using):
        raw, label = sample.table.values[name], sample.table.labels.get(name, name)
        share = float(np.isnan(raw).mean())
        if share > MISSING_VALUES:
            remarks.append(f"{label} is not used: {100 * share:.0f} % of captions have no value")
            continue
        filled, missing = fill_missing(raw)
        if np.ptp(filled) == 0:
            remarks.append(f"{label} is not used: it is the same for all captions")
            continue
        form = choose_form(filled) if setting.form == "auto" else setting.form
        shaped = filled if form == "monotone" else shape_values(filled, "ranks" if form == "ranks" else "values")
        columns.append(AuxiliaryColumn(name, label, form, shaped, raw))
        if missing is not None:
            remarks.append(f"{label} is missing for {int(missing.sum()):,} captions: they have a column of their own")
            columns.append(AuxiliaryColumn(name, f"{label} missing", "0/1", missing, missing))
    return columns


def choose_columns(
    columns: Sequence[AuxiliaryColumn],
    population: Population,
    answers: Answers,
    setting: EstimateSetting,
    remarks: list[str],
) -> list[AuxiliaryColumn]:
    """Return the auxiliary metrics that can be used; none if there are too few ratings for their slopes.

    Metrics that hardly vary among the rated captions are left out. Each reason is added to ``remarks``.
    """
    if not columns:
        return []
    images = len(np.unique(population.image[answers.item]))
    rated = len(np.unique(answers.item))
    if images < LEAST_IMAGES:
        remarks.append(f"no auxiliary metric is used: {images} rated images, expected at least {LEAST_IMAGES}")
        return []
    with_values = replace(population, values=np.stack([column.values for column in columns], axis=1))
    varied = find_varied(with_values, answers)
    for column, varies in zip(columns, varied, strict=True):
        if not varies and not column.label.endswith(" missing"):
            remarks.append(f"{column.label} is not used: it hardly varies among the rated captions")
    kept = _drop_redundant(
        [column for column, varies in zip(columns, varied, strict=True) if varies], population, answers, remarks
    )
    # A prediction has one slope however many metrics it is made from.
    slopes = 1 if _uses_prediction(kept, setting) else len(kept)
    if setting.slopes == "own" and not _uses_prediction(kept, setting):
        slopes *= population.systems
    if kept and rated < PER_SLOPE * slopes:
        each = f"{PER_SLOPE * slopes} for {slopes} slopes" if slopes > 1 else str(PER_SLOPE)
        remarks.append(f"no auxiliary metric is used: {rated} rated captions, expected at least {each}")
        return []
    return kept


def _drop_redundant(
    columns: Sequence[AuxiliaryColumn], population: Population, answers: Answers, remarks: list[str]
) -> list[AuxiliaryColumn]:
    """Leave out columns that are a combination of those before them: among the rated captions, within systems."""
    rated = np.unique(answers.item)
    cell = np.unique(population.cell[rated], return_inverse=True)[1].astype(np.int64)
    kept: list[AuxiliaryColumn] = []
    basis: list[Floats] = []  # orthonormal
    for column in columns:
        centred = center_by(column.values[rated, None], cell)[:, 0]
        rest = centred / np.linalg.norm(centred)
        for one in basis:
            rest = rest - (one @ rest) * one
        if np.linalg.norm(rest) < REDUNDANT:
            if not column.label.endswith(" missing"):
                others = " + ".join(one.label for one in kept if not one.label.endswith(" missing"))
                remarks.append(f"{column.label} is not used: it says the same as {others}")
            continue
        kept.append(column)
        basis.append(rest / np.linalg.norm(rest))
    return kept


def _uses_prediction(columns: Sequence[AuxiliaryColumn], setting: EstimateSetting) -> bool:
    """Return True if the metrics become one cross-fitted prediction instead of having a slope each."""
    metrics = [one for one in columns if not one.label.endswith(" missing")]
    return len(metrics) >= SEVERAL or (bool(metrics) and setting.form == "monotone")


def fit_columns(
    population: Population, answers: Answers, columns: Sequence[AuxiliaryColumn], setting: EstimateSetting
) -> tuple[SurveyMeans, dict[str, Any]]:
    """Estimate means with auxiliary metrics; also return their labels, the method, and its slopes or factor."""
    if not columns:
        return estimate_means(population, answers, target=setting.target), {}
    labels = [one.label for one in columns if not one.label.endswith(" missing")]
    values = np.stack([one.values for one in columns], axis=1)
    if not _uses_prediction(columns, setting):
        whole = replace(population, values=values)
        try:
            means = estimate_means(whole, answers, target=setting.target, slopes=setting.slopes)
        except InputError as error:
            names = " and ".join(labels)
            raise InputError(f"using={','.join(labels)}: {names} cannot be used for each system ({error})") from None
        return means, {"using": labels, "method": "slopes", "slopes": means.slopes.tolist()}
    counts = np.bincount(answers.item, minlength=len(values))
    rated = np.flatnonzero(counts)
    mean = np.bincount(answers.item, answers.rating, minlength=len(values))[rated] / counts[rated]
    monotone = setting.form == "monotone"
    fit = _fit_curve if monotone and len(labels) == 1 else _fit_ridge
    predicted = cross_fit(fit, values, population.image, rated, mean, setting.seed)
    factor = shrink_prediction(predicted[answers.item], answers.rating, population.cell[answers.item])
    means = estimate_means(population, answers, target=setting.target, predicted=factor * predicted)
    method: Literal["monotone", "ridge"] = "monotone" if fit is _fit_curve else "ridge"
    return means, {"using": labels, "method": method, "factor": factor}


def _fit_ridge(values: Floats, rating: Floats, image: Ints) -> Callable[[Floats], Floats]:
    return fit_tuned_ridge(values, rating, image).predict


def _fit_curve(values: Floats, rating: Floats, image: Ints) -> Callable[[Floats], Floats]:
    """Fit a monotone curve of the first column: decreasing if ratings fall with it, otherwise increasing."""
    x = values[:, 0]
    sign = 1.0 if np.dot(x - x.mean(), rating - rating.mean()) >= 0 else -1.0
    curve = fit_isotonic(sign * x, rating)
    return lambda new: curve.predict(sign * new[:, 0])
