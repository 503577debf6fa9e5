"""Calibrated metrics: the rating that people would give, predicted from the values of metrics.

The file that ``captious study calibrate`` writes, a `Calibration`, names the metrics and has the curve or the ridge
that was fitted to people's ratings.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from captious._core.files import Kind, digest, expand_home, read_regular
from captious._core.types import Floats
from captious._version import __version__
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.chunks import measure_shard, prepare_shard
from captious.metrics.contract import MeanMetric, Metric, Need, Shared
from captious.metrics.explanation import Breakdown, Contribution
from captious.metrics.judges.judged import AsksJudge, CallPlan
from captious.metrics.registry import parse
from captious.metrics.statistic_rows import Scored, candidate_means
from captious.render import Column
from captious.stats.calibration import Curve, Errors
from captious.stats.ridge import Ridge
from captious.text.corpus_states import State

KIND = Kind("captious-calibration", 1, "calibration", "captious study calibrate")
STATES = Kind("captious-calibrated-states", 1, "states of a calibrated metric", "captious score")
# Largest share of captions in the lowest or highest tenth of the rated values without a warning.
END_SHARE = 0.2
NOT_AN_ESTIMATE = (
    "the mean of calibrated values keeps the errors of the metric: it is not an estimate of what people would say of "
    "a system; captious study estimate computes that"
)
Form = Literal["line", "isotonic", "ridge"]


@dataclass(frozen=True)
class CalibratedInput:
    """A metric of a calibration, and its values on the rated captions."""

    metric: str
    """The written form of the metric; for values computed elsewhere, the name of their column."""
    label: str
    low: float
    """The smallest value of a rated caption."""
    high: float
    lower_decile: float
    upper_decile: float
    settings: tuple[str, ...] = ()
    """The settings of its signature."""
    elsewhere: bool = False
    """Whether the values were computed elsewhere: they are then read from the column of that name."""


@dataclass(frozen=True)
class Calibration:
    """A function from values of metrics to ratings, with its errors."""

    inputs: tuple[CalibratedInput, ...]
    form: Form
    fit: Curve | Ridge
    scale: tuple[float, float]
    question: str
    captions: int
    images: int
    per_caption: float
    """Mean number of ratings per caption."""
    errors: Errors
    """The errors out of fold."""
    ceiling: float
    """The R² of a perfect prediction of these ratings; NaN without several ratings of a caption."""
    half_width: float
    """Half of the prediction interval; infinite with fewer than 30 images."""
    level: float
    ratings: str
    """The name of the ratings."""
    ratings_digest: str
    """A digest of the ratings."""
    systems: tuple[str, ...] = ()
    version: str = __version__

    def predict(self, values: Floats) -> Floats:
        """Predict the rating of each row of values.

        Values are clipped to the range of the rated captions, and ratings to the scale.
        """
        lows, highs = np.array([one.low for one in self.inputs]), np.array([one.high for one in self.inputs])
        inside = np.clip(values, lows, highs)
        predicted = self.fit.predict(inside[:, 0] if isinstance(self.fit, Curve) else inside)
        return np.clip(predicted, *self.scale)

    def save(self, path: str | Path) -> None:
        """Write the file atomically: one line of JSON."""
        facts = asdict(self)
        facts["half_width"], facts["ceiling"] = _to_json(self.half_width), _to_json(self.ceiling)
        facts["errors"] = {name: _to_json(value) for name, value in facts["errors"].items()}
        KIND.write(path, facts, b"")

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read a file that `save` wrote; raise InputError if it is damaged, foreign or of another version."""
        facts = KIND.read(path)[0]
        try:
            fit = Ridge if facts["form"] == "ridge" else Curve
            return cls(
                **{
                    **{name: value for name, value in facts.items() if name not in (KIND.key, "bytes")},
                    "inputs": tuple(CalibratedInput(**_make_tuples(one)) for one in facts["inputs"]),
                    "fit": fit(**_make_tuples(facts["fit"])),
                    "errors": Errors(**{name: _from_json(value) for name, value in facts["errors"].items()}),
                    "ceiling": _from_json(facts["ceiling"]),
                    "half_width": _from_json(facts["half_width"], math.inf),
                    "scale": tuple(facts["scale"]),
                    "systems": tuple(facts["systems"]),
                }
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: cannot be read as a calibration ({error}); make it again") from None


def _make_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _to_json(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _from_json(number: float | None, missing: float = math.nan) -> float:
    return missing if number is None else number


@lru_cache(maxsize=16)
def _load_cached(path: Path, changed: int) -> tuple[Calibration, str]:
    return Calibration.load(path), digest(read_regular(path))


@dataclass(frozen=True, eq=False)
class InnerStates(State):
    """The corpus states of the metrics of a calibration, by written form."""

    states: dict[str, State]

    def merge(self, other: InnerStates) -> InnerStates:
        """Merge the states of each metric."""
        return InnerStates({name: state.merge(other.states[name]) for name, state in self.states.items()})

    def release(self) -> None:
        """Release each state."""
        for state in self.states.values():
            state.release()

    def save(self, path: str | Path) -> None:
        """Write the files of all states, one after the other."""
        with tempfile.TemporaryDirectory(prefix="captious-") as folder:
            contents = []
            for number, state in enumerate(self.states.values()):
                state.save(Path(folder) / str(number))
                contents.append((Path(folder) / str(number)).read_bytes())
        STATES.write(path, {"metrics": [*self.states], "sizes": [*map(len, contents)]}, b"".join(contents))

    @classmethod
    def load(cls, path: str | Path) -> InnerStates:
        """Read the states that `save` wrote."""
        header, payload = STATES.read(path)
        states, start = {}, 0
        # A state may map its file into memory, which some systems then refuse to delete.
        with tempfile.TemporaryDirectory(prefix="captious-", ignore_cleanup_errors=True) as folder:
            for name, size in zip(header["metrics"], header["sizes"], strict=True):
                kind, file = parse(name).corpus_state, Path(folder) / str(start)
                if kind is None:
                    raise InputError(f"{path}: has a state of {name}, which needs none; make it again")
                file.write_bytes(payload[start : start + size])
                states[name] = kind.load(file)
                start += size
        return cls(states)


@dataclass(frozen=True)
class _MetricValues:
    """The values of the metrics of a calibration: a row per caption."""

    values: Floats
    reasons: Mapping[int, str]
    """The reason why a caption has no value, by its index."""
    warnings: Sequence[str] = ()
    notes: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Calibrated(MeanMetric):
    """The rating that people would give a caption, predicted from the values of metrics.

    ``file`` is what ``captious study calibrate`` wrote: the metrics, and a line, a monotone curve or a ridge that was
    fitted to people's ratings. Values are in the units of these ratings, but a prediction is not a rating.
    ``value=low`` and ``value=high`` are the ends of its prediction interval: the mean rating of a new caption, by as
    many people as before, is between them with the probability of the file (0.9 unless chosen otherwise). Metric values
    are clipped to the range of the rated captions, and a warning counts the captions outside it. The corpus value is
    the mean, and an item with several candidates has their mean.

    The mean over the captions of a system keeps every error of the metric: if it prefers long captions, so does the
    mean. It is not an estimate of people's verdict on a system. ``captious study estimate`` computes that, with an
    interval, from the same ratings and metrics.

    >>> print(Calibrated("spice.cal"), Calibrated("spice.cal", "low"))
    calibrated(file=spice.cal) calibrated(file=spice.cal,value=low)
    """

    file: str = ""
    value: Literal["rating", "low", "high"] = "rating"

    name: ClassVar[str] = "calibrated"
    main: ClassVar[str] = "file"

    @property
    def calibration(self) -> Calibration:
        """The calibration that the file contains."""
        return self._load()[0]

    def _load(self) -> tuple[Calibration, str]:
        """Return the calibration and the digest of its file; an unchanged file is read once."""
        if not self.file:
            raise InputError("calibrated needs a file that captious study calibrate wrote")
        path = expand_home(self.file)
        return _load_cached(path, path.stat().st_mtime_ns) if path.is_file() else (Calibration.load(path), "")

    @property
    def _declared(self) -> Calibration | None:
        """The calibration, or None if it cannot be read: declarations must not fail, and `prepare` reports it."""
        try:
            return self.calibration
        except InputError:
            return None

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that are computed."""
        return [parse(one.metric) for one in self.calibration.inputs if not one.elsewhere]

    @property
    def needs(self) -> tuple[Need, ...]:
        """The needs of all metrics."""
        if self._declared is None:
            return ("model",)
        return tuple(dict.fromkeys(need for metric in self.metrics for need in metric.needs))

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that all metrics support."""
        limited = [metric.languages for metric in self.metrics if metric.languages] if self._declared else []
        return tuple(code for code in limited[0] if all(code in codes for codes in limited)) if limited else ()

    @property
    def range(self) -> tuple[float, float]:
        """The scale of the ratings."""
        return self._declared.scale if self._declared else (-math.inf, math.inf)

    @property
    def decimals(self) -> int | None:
        """Two decimals, unless the scale is that of a score from 0 to 1."""
        return None if self._declared and self._declared.scale == (0, 1) else 2

    @property
    def label(self) -> str:
        """The metrics, and the end of the interval."""
        if self._declared is None:
            return str(self)
        labels = [one.label for one in self._declared.inputs]
        several = f"{len(labels)} metrics" if len(labels) > 3 else " + ".join(labels)
        return f"calibrated {several}" + ("" if self.value == "rating" else f", {self.value}")

    @property
    def corpus_state(self) -> type[State] | None:
        """The states of the metrics that need the whole corpus, if there is one."""
        return InnerStates if self._declared and any(metric.needs_corpus for metric in self.metrics) else None

    def prepare(self, captions: CaptionSet) -> InnerStates | Shared[dict[str, Any]]:
        """Read the file and prepare its metrics."""
        calibration, content = self._load()
        if self.value != "rating" and not math.isfinite(calibration.half_width):
            raise InputError(
                f"{self}: no prediction interval: the calibration has {calibration.images} images, expected at least 30"
            )
        metrics = self.metrics
        if self.corpus_state is None:
            states = {str(metric): metric.prepared(captions) for metric in metrics}
            return Shared(states, f"the calibration {content}")
        prepared = prepare_shard(captions, [metric for metric in metrics if metric.needs_corpus])
        return InnerStates({str(metric): state for metric, state in prepared.items()})

    def text_settings(self, captions: CaptionSet) -> Mapping[str, str]:
        """Return how the metrics read the captions; settings that differ between metrics get the metric as prefix."""
        settings = dict(super().text_settings(captions))
        for metric in self.metrics:
            for name, value in metric.text_settings(captions).items():
                if settings.setdefault(name, value) != value:
                    settings[f"{metric}.{name}"] = value
        return settings

    def settings(self, state: InnerStates | Shared[dict[str, Any]]) -> Mapping[str, str]:
        """Return the file by content, and the settings of each metric."""
        calibration, content = self._load()
        states = self._get_states(state)
        inner = {str(metric): ",".join(_list_settings(metric, states.get(metric))) for metric in self.metrics}
        inner |= {one.metric: "column" for one in calibration.inputs if one.elsewhere}
        metrics = "+".join(f"{name}[{setting}]" if setting else name for name, setting in inner.items())
        return {"calibration": f"{calibration.form}#{content}", "metrics": metrics}

    def _get_states(self, state: InnerStates | Shared[dict[str, Any]]) -> dict[Metric, Any]:
        """Return the states of the metrics that are prepared; `measure_shard` prepares the others."""
        states = state.states if isinstance(state, InnerStates) else state.value
        return {parse(name): one for name, one in states.items()}

    def text_warnings(self, captions: CaptionSet) -> list[str]:
        """Return no warnings: those of the metrics come with their values."""
        return []

    def score_items(self, captions: CaptionSet, state: InnerStates | Shared[dict[str, Any]]) -> Scored:
        """Return rows with the sum of the candidates' predictions, and their number."""
        calibration = self.calibration
        # Candidates are predicted one at a time, unless a metric compares all candidates of an item.
        compares_candidates = "several candidates" in self.needs
        is_one_each = bool((captions.candidates.counts == 1).all())
        split = captions if compares_candidates or is_one_each else captions.split_candidates()
        inputs = self._measure_inputs(split, state)
        scored = ~np.isnan(inputs.values).any(axis=1)
        predictions = np.full(len(inputs.values), np.nan)
        predictions[scored] = self._select_end(calibration.predict(inputs.values[scored]))
        outside, warnings = _warn_range(calibration, inputs.values[scored])
        notes = [*inputs.notes, *_note_systems(calibration, captions)]
        owners = np.arange(len(captions)) if split is captions else captions.candidates.owners
        # Of several candidates without a value, the reason of the first is given.
        reasons = {int(owners[index]): inputs.reasons[index] for index in sorted(inputs.reasons, reverse=True)}
        rows = predictions if split is captions else candidate_means(captions, predictions)
        warnings = [*inputs.warnings, *self._warn_settings(captions, state), *warnings]
        if self.value == "rating":
            notes.append(f"{self.label}: {NOT_AN_ESTIMATE}")
        return Scored(rows, reasons, {"outside": outside}, warnings, notes)

    def _select_end(self, predictions: Floats) -> Floats:
        """Return the predictions, or the chosen end of their intervals."""
        calibration = self.calibration
        if self.value == "rating":
            return predictions
        sign = -1.0 if self.value == "low" else 1.0
        return np.clip(predictions + sign * calibration.half_width, *calibration.scale)

    def _measure_inputs(self, captions: CaptionSet, state: InnerStates | Shared[dict[str, Any]]) -> _MetricValues:
        """Measure the metrics, and read the columns of values that were computed elsewhere."""
        measured = {
            str(metric): one for metric, one in measure_shard(captions, self.metrics, self._get_states(state)).items()
        }
        columns, reasons = [], dict[int, str]()
        for one in self.calibration.inputs:
            if one.elsewhere:
                cells = captions.columns.get(one.metric, (None,) * len(captions))
                columns.append(np.array([_read_cell(cell) for cell in cells]))
                missing = dict.fromkeys(np.flatnonzero(np.isnan(columns[-1])).tolist(), f"no {one.metric}")
            else:
                columns.append(measured[one.metric].values)
                positions = captions.positions(measured[one.metric].reasons)
                texts = (f"{one.label}: {reason}" for reason in measured[one.metric].reasons.values())
                missing = dict(zip(positions, texts, strict=True))
            reasons = {**missing, **reasons}
        warnings = [line for one in measured.values() for line in one.warnings]
        notes = [line for one in measured.values() for line in one.notes]
        return _MetricValues(np.stack(columns, axis=1), reasons, warnings, notes)

    def _warn_settings(self, captions: CaptionSet, state: InnerStates | Shared[dict[str, Any]]) -> list[str]:
        """Warn about a metric whose settings differ from those of the calibration."""
        lines, states = [], self._get_states(state)
        for one in self.calibration.inputs:
            if one.elsewhere or not one.settings:
                continue
            metric = parse(one.metric)
            texts = [f"{name}:{value}" for name, value in metric.text_settings(captions).items()]
            now = [*texts, *_list_settings(metric, states.get(metric))]
            before = [setting for setting in one.settings if setting not in now]
            changed = [setting for setting in now if setting not in one.settings]
            if before or changed:
                lines.append(
                    f"{one.label} was calibrated with {', '.join(before) or 'less'} and has "
                    f"{', '.join(changed) or 'less'} here: its values may mean another rating"
                )
        return lines

    def plan_scoring(self, captions: CaptionSet) -> CallPlan:
        """Plan the calls of the metrics that ask a chat model."""
        plan = CallPlan()
        for metric in self.metrics:
            if isinstance(metric, AsksJudge):
                plan = plan + metric.plan_scoring(captions)
        return plan

    def break_down(self, item: CaptionSet, state: InnerStates | Shared[dict[str, Any]]) -> Breakdown:
        """List the part of each metric in the prediction, for each candidate."""
        calibration = self.calibration
        is_one = "several candidates" in self.needs or len(item.candidates.values) == 1
        values = self._measure_inputs(item if is_one else item.split_candidates(), state).values
        parts = []
        for rank, (row, total) in enumerate(
            zip(values, self._select_end(calibration.predict(values)).tolist(), strict=True)
        ):
            share = 1 / len(values)
            for name, adds, value in _list_parts(calibration, row):
                parts.append(Contribution(name, adds * share, rank, {} if value is None else {"value": value}))
            # What the parts do not explain: the prediction was clipped to the scale, or is an end of the interval.
            difference = total - sum(adds for _, adds, _ in _list_parts(calibration, row))
            if abs(difference) > 1e-12:
                end = "the ends of the scale" if self.value == "rating" else f"to the {self.value} end of the interval"
                parts.append(Contribution(end, difference * share, rank))
        return Breakdown(
            parts,
            unit="part",
            columns=[Column("value")],
            formula=f"{calibration.form} of {', '.join(one.label for one in calibration.inputs)}, in units of "
            f"{calibration.question}",
            ordered=True,
        )

    def hint(self, reason: str) -> str:
        """Return how to supply values that were computed elsewhere."""
        columns = [f"no {one.metric}" for one in self.calibration.inputs if one.elsewhere]
        if reason in columns:
            return f"; it was calibrated with values computed elsewhere: give them as the column {reason[3:]!r}"
        return super().hint(reason)


def _list_settings(metric: Metric, state: Any) -> list[str]:
    """List the settings of a metric's signature, except those of its texts."""
    state = metric.prepare(CaptionSet.of({})) if state is None else state
    return [f"{name}:{value}" for name, value in {**metric.model_settings(state), **metric.settings(state)}.items()]


def _list_parts(calibration: Calibration, row: Floats) -> list[tuple[str, float, float | None]]:
    """List the parts of a prediction before it is clipped to the scale: name, what it adds, value of the metric."""
    fit = calibration.fit
    inside = np.clip(row, [one.low for one in calibration.inputs], [one.high for one in calibration.inputs])
    if isinstance(fit, Curve):
        return [(calibration.inputs[0].label, float(fit.predict(inside)[0]), float(row[0]))]
    adds = (inside - np.array(fit.means)) / np.array(fit.sds) * np.array(fit.coefficients)
    inputs = zip(calibration.inputs, adds.tolist(), row.tolist(), strict=True)
    return [("mean rating", fit.intercept, None), *((one.label, part, value) for one, part, value in inputs)]


def _read_cell(cell: Any) -> float:
    try:
        return math.nan if cell is None or isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError):
        return math.nan


def _warn_range(calibration: Calibration, values: Floats) -> tuple[int, list[str]]:
    """Count the captions with a value outside the range of the rated ones; warn about them and about another domain."""
    outside_any, warnings = np.zeros(len(values), dtype=np.bool_), []
    for one, column in zip(calibration.inputs, values.T, strict=True):
        outside = (column < one.low) | (column > one.high)
        outside_any |= outside
        if outside.any():
            warnings.append(
                f"{one.label}: {outside.sum():,} of {len(column):,} captions are outside {one.low:.4g} to "
                f"{one.high:.4g}, the values of the rated captions; they count as the nearest"
            )
        for part, in_end in (("lowest", column < one.lower_decile), ("highest", column > one.upper_decile)):
            if len(column) and in_end.mean() > END_SHARE:
                warnings.append(
                    f"{one.label}: {in_end.mean():.0%} of the captions have values of the {part} tenth of the rated "
                    "captions: these may be captions of another kind, for which the calibration was not tested"
                )
    return int(outside_any.sum()), warnings


def _note_systems(calibration: Calibration, captions: CaptionSet) -> list[str]:
    """Note systems of the captions that are not among the calibrated ones."""
    systems = {str(name) for name in captions.columns.get("system", ()) if name is not None}
    new = sorted(systems - {*calibration.systems})
    if not calibration.systems or not new:
        return []
    return [f"no caption of {', '.join(new[:5])}{', …' if len(new) > 5 else ''} was rated for the calibration"]
