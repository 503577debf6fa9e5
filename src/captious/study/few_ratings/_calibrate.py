"""``captious.study.calibrate``: metrics in units of people's ratings, with errors out of fold and intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from captious._core.types import Floats, Ints
from captious._version import __version__
from captious.errors import InputError
from captious.metrics.calibrated import NOT_AN_ESTIMATE, CalibratedInput, Calibration, Form
from captious.options import LEVEL, SEED, Missing
from captious.render import Chart, Column, Document, Result, Series, Table, Text
from captious.render.document import Section, Value
from captious.runs.report import join_signatures
from captious.stats.calibration import (
    LEAST_CLUSTERS,
    Curve,
    CurvePart,
    Errors,
    Predict,
    best_possible_r2,
    choose_curve,
    compute_errors,
    conformal_half_width,
    fit_line,
    predict_out_of_fold,
    split_curve,
)
from captious.stats.ridge import fit_tuned_ridge
from captious.study.few_ratings._caption_table import choose_direction
from captious.study.judgments import Preferences, Ratings, as_ratings
from captious.study.recipes import Recipe
from captious.study.scores import MetricScores, choose_scores, collect_scores, list_notes

# Default probability of a prediction interval.
PREDICTION_LEVEL = 0.9
# Fewest images: with fewer, the folds are too small to estimate an error.
LEAST_IMAGES = 10
# File of the calibration in the folder of a saved result.
FILE = "calibration.cal"


@dataclass(frozen=True)
class Candidate:
    """A curve or ridge that was fitted, and its errors out of fold."""

    metrics: str
    form: Form
    errors: Errors
    chosen: bool = False


@dataclass(frozen=True, repr=False)
class CalibrationReport(Result):
    """A calibration, the alternatives that were fitted, and the data. ``calibration.save(path)`` writes the file."""

    calibration: Calibration
    candidates: tuple[Candidate, ...]
    spread: float
    """Standard deviation of the ratings: the error of a prediction by their mean."""
    parts: tuple[CurvePart, ...]
    """Mean ratings by fifths of the metric, or of the prediction from several metrics."""
    curve: Curve | None
    """The curve of one metric."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()

    def __repr__(self) -> str:
        names = ", ".join(one.label for one in self.calibration.inputs)
        return f"CalibrationReport({names}: {self.calibration.form}, RMSE {self.calibration.errors.rmse:.3f})"

    def write_files(self, folder: Path) -> None:
        """Write the file that ``calibrated(FILE)`` reads."""
        self.calibration.save(folder / FILE)

    def document(self) -> Document:
        """Build the document: the answer, errors out of fold, and the curve."""
        calibration = self.calibration
        names = _join_labels([metric.label for metric in calibration.inputs])
        title = f"{PurePath(calibration.ratings).name}: {names} in units of {calibration.question}"
        answer, *lines = self._answer()
        sections: list[Section] = [Text(lines), self._table(), self._chart()]
        signature = "|".join(
            [
                f"calibrate:{calibration.ratings}#{calibration.ratings_digest}",
                f"metrics:{'+'.join(metric.metric for metric in calibration.inputs)}",
                f"form:{calibration.form}",
                f"folds:10,images,seed={SEED}",
                f"interval:cross-conformal,{calibration.level:g}",
                f"captious:{__version__}",
            ]
        )
        about = "The rating that people would give a caption, predicted from metrics, with its error out of fold."
        data = {
            "calibration": replace(calibration, half_width=_drop_infinite(calibration.half_width)),
            "spread": self.spread,
            "candidates": self.candidates,
            "parts": [{"x": part.x, "captions": part.rows, "mean": part.y.value} for part in self.parts],
        }
        return Document(
            title, about, sections, self.warnings, self.notes, (signature, *self.signatures), data, "calibration",
            answer=answer,
        )  # fmt: skip

    def _answer(self) -> list[str]:
        fit = self.calibration
        low, high = fit.scale
        several = f", each the mean of {fit.per_caption:.3g}" if fit.per_caption > 1 else ""
        ceiling = "" if math.isnan(fit.ceiling) else f" of at most {fit.ceiling:.2f}, because people differ"
        lines = [
            f"The {fit.question} of a caption ({low:g} to {high:g}) is predicted with an error of {fit.errors.rmse:.3g}"
            f"; without a metric it would be {self.spread:.3g}. R² is {fit.errors.r2:.2f}{ceiling}.",
            f"Errors are of images that the fit did not see: {fit.captions:,} captions of {fit.images:,} images"
            f"{several}.",
        ]
        if math.isfinite(fit.half_width):
            lines.append(
                f"{fit.level:.0%} of captions are rated within ± {fit.half_width:.3g} of the prediction "
                f"({fit.question} by as many people as here)."
            )
        lines.append(f"Use it for single captions. {NOT_AN_ESTIMATE[0].upper()}{NOT_AN_ESTIMATE[1:]}.")
        return lines

    def _table(self) -> Table:
        decimals = 3
        columns: list[Column | str] = [
            "metrics",
            "form",
            Column("RMSE", decimals=decimals, key="rmse", higher_is_better=False, bold=True),
            Column("MAE", decimals=decimals, key="mae"),
            Column("R²", decimals=decimals, key="r2"),
            Column("Pearson", decimals=decimals, key="pearson"),
            Column("", "text", key="used"),
        ]
        rows: list[list[Value]] = [
            [
                one.metrics,
                one.form,
                one.errors.rmse,
                one.errors.mae,
                one.errors.r2,
                one.errors.pearson,
                "used" if one.chosen else "",
            ]
            for one in self.candidates
        ]
        note = (
            "ten folds over images; isotonic: a curve that never falls, used where its error is lower than that of the "
            "line by more than one standard error"
        )
        if any(one.form == "ridge" for one in self.candidates):
            note = "ten folds over images; the penalty of the ridge is chosen by five folds inside each"
        return Table("errors", "Errors out of fold", columns, rows, note)

    def _chart(self) -> Chart:
        one = self.calibration
        x = [part.x for part in self.parts]
        intervals = [part.y.interval(LEVEL) for part in self.parts]
        low, high = ([ends[index] for ends in intervals] for index in (0, 1))
        series = [Series("mean rating", x, [part.y.value for part in self.parts], low, high)]
        if self.curve is not None:
            series.append(Series(one.form, list(self.curve.x), list(self.curve.y)))
            axis = one.inputs[0].label
        else:
            series.append(Series("equal", x, x))
            axis = "prediction"
        note = "Mean ratings of fifths of the captions, with 95% intervals over images."
        return Chart("lines", series, "Calibration curve", note, x=axis, y=one.question, decimals=2)


def calibrate(
    ratings: Any,
    values: Any,
    *,
    metrics: Sequence[str] = (),
    level: float = PREDICTION_LEVEL,
    recipe: Recipe | None = None,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    seed: int = SEED,
    progress: Callable[[str], None] | None = None,
) -> CalibrationReport:
    """Fit people's ratings by one metric, a line or a curve that never falls, or by several, a ridge regression.

    ``report.calibration.save("spice.cal")`` writes the file that the metric ``calibrated(spice.cal)`` reads.

    Parameters
    ----------
    ratings
        Ratings of captions, as ``captious.correlate`` takes them; the mean rating of a caption is predicted.
    values
        The values of metrics on these captions, as ``captious.correlate`` takes them: runs, reports, measurements,
        written metrics, or ``{name: {id: value}}``.
    metrics
        Which of them are used; all by default.
    level
        Probability of the prediction interval.
    references, images, recipe, missing
        As in ``captious.correlate``.
    seed
        Random seed of the folds.
    progress
        Called with the name of each step as it begins.

    >>> people = {f"{i}": 1 + i % 5 for i in range(60)}
    >>> report = calibrate(people, {"m": {key: rating / 5 for key, rating in people.items()}})
    >>> report.calibration.form, round(float(report.calibration.predict(np.array([[0.6]]))[0]), 6)
    ('line', 3.0)
    """
    if not 0 < level < 1:
        raise InputError(f"level={level!r}, expected a probability such as 0.9")
    judged = _refuse_pairs(as_ratings(ratings, recipe, references, images, missing))
    scores = choose_scores(collect_scores(judged, values, missing, progress, None), metrics, judged.name)
    table = np.stack([score.values for score in scores], axis=1)
    used = ~np.isnan(table).any(axis=1) & ~np.isnan(judged.mean)
    image = np.unique(judged.groups, return_inverse=True)[1]
    x, y, image = table[used], judged.mean[used], image[used]
    _refuse_unfit(judged.name, scores, x, y, image)
    if progress:
        progress("folds")
    rated = judged.values[used]
    scale = judged.scale or (float(np.nanmin(rated)), float(np.nanmax(rated)))
    fitted = (
        _fit_ridge(scores, x, y, image, scale, seed)
        if len(scores) > 1
        else _fit_curves(scores[0], x[:, 0], y, image, scale, seed)
    )
    enough = len(np.unique(image)) >= LEAST_CLUSTERS
    calibration = Calibration(
        tuple(_describe_input(score, column) for score, column in zip(scores, x.T, strict=True)),
        fitted.form,
        fitted.fit,
        scale,
        judged.question,
        len(y),
        len(np.unique(image)),
        float((~np.isnan(rated)).sum(axis=1).mean()),
        compute_errors(fitted.predicted, y),
        best_possible_r2(rated),
        conformal_half_width(fitted.predicted - y, image, level) if enough else math.inf,
        level,
        judged.name,
        judged.digest,
        tuple(sorted({*(judged.systems or ())})),
    )
    # The horizontal axis of the chart: the metric, or the prediction from several.
    axis = calibration.predict(x) if len(scores) > 1 else x[:, 0]
    return CalibrationReport(
        calibration,
        fitted.candidates,
        float(y.std()),
        tuple(split_curve(axis, y, image)),
        fitted.fit if isinstance(fitted.fit, Curve) else None,
        tuple(_list_warnings(judged, scores, used, enough, calibration)),
        tuple(list_notes(scores)),
        tuple(join_signatures(score.signature for score in scores if score.signature)),
    )


def _refuse_pairs(judged: Ratings | Preferences) -> Ratings:
    """Return the judgments if they are ratings; raise InputError for pairs."""
    if not isinstance(judged, Ratings):
        raise InputError(
            f"{judged.name}: contains pairs, expected ratings of single captions to calibrate metrics with"
        )
    return judged


@dataclass(frozen=True)
class _Fitted:
    """The chosen fit, its predictions out of fold, and all candidates."""

    form: Form
    fit: Any
    predicted: Floats
    candidates: tuple[Candidate, ...]


def _fit_curves(
    score: MetricScores, x: Floats, y: Floats, image: Ints, scale: tuple[float, float], seed: int
) -> _Fitted:
    """Fit the line and the monotone curve, and choose the curve only if its error is clearly lower."""
    rises = score.higher_is_better and choose_direction(score.key, x, y, image) > 0
    choice = choose_curve(x, y, image, scale, rises, seed)
    candidates = tuple(
        Candidate(score.label, form, compute_errors(predicted, y), form == choice.form)
        for form, predicted in choice.predicted.items()
    )
    return _Fitted(choice.form, choice.curve, choice.predicted[choice.form], candidates)


def _fit_ridge(
    scores: Sequence[MetricScores], x: Floats, y: Floats, image: Ints, scale: tuple[float, float], seed: int
) -> _Fitted:
    """Fit the ridge of several metrics, and for comparison the line of each."""

    def fit(rows: Floats, target: Floats, cluster: Ints) -> Predict:
        ridge, low, high = fit_tuned_ridge(rows, target, cluster, seed), rows.min(axis=0), rows.max(axis=0)
        # As `Calibration.predict`: no extrapolation beyond the values of the fit, and no rating off the scale.
        return lambda new: np.clip(ridge.predict(np.clip(new, low, high)), *scale)

    predicted = predict_out_of_fold(fit, x, y, image, seed)
    labels = _join_labels([score.label for score in scores])
    candidates = [Candidate(labels, "ridge", compute_errors(predicted, y), True)]
    for score, column in zip(scores, x.T, strict=True):
        single = predict_out_of_fold(lambda a, b, _: fit_line(a, b).predict, column, y, image, seed)
        candidates.append(Candidate(score.label, "line", compute_errors(np.clip(single, *scale), y)))
    return _Fitted("ridge", fit_tuned_ridge(x, y, image, seed), predicted, tuple(candidates))


def _join_labels(labels: Sequence[str]) -> str:
    return " + ".join(labels) if len(labels) < 4 else f"all {len(labels)} metrics"


def _describe_input(score: MetricScores, values: Floats) -> CalibratedInput:
    """Describe a metric as the file stores it."""
    elsewhere = "|computed elsewhere" in score.signature
    settings: list[str] = []
    for part in score.signature.split("|")[1:]:
        if part.startswith("items:"):
            break
        settings.append(part)
    low, lower, upper, high = np.quantile(values, [0, 0.1, 0.9, 1]).tolist()
    return CalibratedInput(
        score.key, score.label, low, high, lower, upper, () if elsewhere else tuple(settings), elsewhere
    )


def _refuse_unfit(name: str, scores: Sequence[MetricScores], x: Floats, y: Floats, image: Ints) -> None:
    if len(np.unique(image)) < LEAST_IMAGES:
        raise InputError(
            f"{name}: {len(np.unique(image))} images with ratings and values, expected at least {LEAST_IMAGES} to "
            "calibrate a metric"
        )
    if np.ptp(y) == 0:
        raise InputError(f"{name}: all ratings are {y[0]:g}, so there is nothing to predict")
    for score, column in zip(scores, x.T, strict=True):
        if np.ptp(column) == 0:
            raise InputError(f"{name}: {score.label} is {column[0]:g} for every rated caption; leave it out")


def _list_warnings(
    ratings: Ratings, scores: Sequence[MetricScores], used: Any, enough: bool, calibration: Calibration
) -> list[str]:
    warnings = [*ratings.warnings, *dict.fromkeys(line for score in scores for line in score.remarks)]
    if left := int((~used).sum()):
        warnings.append(f"{left:,} of {len(used):,} rated captions have no value of a metric and are left out")
    if not enough:
        warnings.append(
            f"{calibration.images} images are too few for a prediction interval, expected at least {LEAST_CLUSTERS}"
        )
    if calibration.errors.r2 <= 0:
        warnings.append("the metric predicts no better than the mean of all ratings does")
    return warnings


def _drop_infinite(number: float) -> Any:
    return number if math.isfinite(number) else None
