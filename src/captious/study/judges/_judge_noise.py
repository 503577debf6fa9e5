"""``captious.study.judge_noise``: how much the answers of a judge change if it is asked several times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import Any

import numpy as np

from captious._core.types import Floats
from captious._version import __version__
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.join import format_first
from captious.io.read import read, reading_of
from captious.metrics.chunks import measure_all
from captious.metrics.contract import Metric
from captious.metrics.judges.dry_run import DryRun
from captious.metrics.judges.judged import AsksJudge, CallPlan
from captious.metrics.measurement import Measurement
from captious.metrics.registry import parse_all
from captious.options import (
    MOST_REPEATS,
    Option,
    Reading,
    Resampling,
    Runtime,
    check_settings,
    check_value,
    get_runtime,
    using,
)
from captious.render import Cell, Column, Document, Group, Result, Table
from captious.render.answers import count_noun
from captious.render.document import Section, Value
from captious.stats.bootstrap import Estimate, estimate, warn_few_units
from captious.stats.judging import RepeatNoise, split_sums, split_variance, sum_answers

# Default numbers of captions and of answers per caption, with which the error of the noise is about 5 %.
ITEMS, REPEATS = 50, 5
# Captions with the most different answers that are shown; the table of answers has all.
SHOWN = 5
# The difference of two single answers to the same caption that is exceeded in 5 % of cases, in standard deviations.
DIFFERENCE = 1.96 * math.sqrt(2)
NOISE, SHARE, RELIABILITY = "noise", "share", "reliability"


@dataclass(frozen=True, eq=False)
class RepeatedJudge:
    """The answers of one judge to the same questions, asked several times."""

    metric: str
    label: str
    answers: Floats
    """Captions × repeats; NaN if there is no answer."""
    noise: RepeatNoise
    estimates: dict[str, Estimate]
    """The standard deviation of an answer, its variance over that between captions, and the reliability."""
    signature: str
    unscored: tuple[str, ...] = ()
    """Reasons of missing answers, each with its number."""

    @classmethod
    def of(cls, measurements: Sequence[Measurement], resampling: Resampling) -> RepeatedJudge:
        """Split the variance of measurements of the same captions, one per repeat."""
        first = measurements[0]
        answers = np.stack([one.values for one in measurements], axis=1)
        reasons: dict[str, list[str]] = {}
        for one in measurements:
            for id, reason in one.reasons.items():
                reasons.setdefault(reason, []).append(id)
        return cls(
            str(first.metric),
            first.metric.label,
            answers,
            split_variance(answers),
            estimate_noise(answers, resampling),
            str(first.signature),
            tuple(
                f"{first.metric.label}: {len(ids):,} of {answers.size:,} answers are missing: {reason} "
                f"(id {format_first(list(dict.fromkeys(ids)))})"
                for reason, ids in reasons.items()
            ),
        )

    @property
    def changed(self) -> int:
        """The number of captions that did not get the same value every time."""
        answered = self.answers[~np.isnan(self.answers).all(axis=1)]
        return int((np.nanmax(answered, axis=1) > np.nanmin(answered, axis=1)).sum()) if len(answered) else 0


def estimate_noise(answers: Floats, resampling: Resampling) -> dict[str, Estimate]:
    """Estimate the noise of answers, captions × repeats, with intervals over captions."""
    rows = sum_answers(answers)

    def compute(weights: Floats) -> dict[str, Floats]:
        between, within = split_sums(weights.T @ rows)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(between > 0, within / between, np.nan)
            return {NOISE: np.sqrt(within), SHARE: share, RELIABILITY: between / (between + within)}

    return estimate(compute, len(rows), resampling)


@dataclass(frozen=True, eq=False, repr=False)
class JudgeNoise(Result):
    """Judges that were asked several times: how much their answers change, and how much captions differ."""

    name: str
    ids: tuple[str, ...]
    captions: tuple[str, ...]
    judges: tuple[RepeatedJudge, ...]
    repeats: int
    total: int
    """Captions in the file, of which the judges saw some."""
    resampling: Resampling = Resampling()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<JudgeNoise of {', '.join(one.label for one in self.judges)}: {len(self.ids):,} × {self.repeats}>"

    @cached_property
    def signature(self) -> str:
        """Everything that can change the numbers, besides the signatures of the metrics."""
        return (
            f"judge-noise|captions:{len(self.ids)}|repeats:{self.repeats}|drawn:seed={self.resampling.seed}|"
            f"{self.resampling.signature('captions')}|captious:{__version__}"
        )

    def document(self) -> Document:
        """Build the page: the plain answer, the noise of each judge, captions with the most different answers."""
        sections: list[Section] = [self._noise_table()]
        for number, one in enumerate(self.judges):
            sections += self._changed_tables(one, f"_{number + 1}" if len(self.judges) > 1 else "")
        warnings = [text for one in self.judges for text in one.unscored]
        warnings += warn_few_units(len(self.ids), self.resampling, "captions")
        return Document(
            f"{PurePath(self.name).name}: {len(self.ids):,} captions, each judged {self.repeats} times",
            "Repeat noise: how much a score changes if the same question is asked again with another seed.",
            [*sections, Group("All answers", [self._answer_table()])],
            warnings,
            self.notes,
            [self.signature, *(one.signature for one in self.judges)],
            self.data(),
            "noise",
            " ".join(self._describe(one) for one in self.judges),
        )

    def _describe(self, one: RepeatedJudge) -> str:
        sentence = describe_noise(one.label, one.noise, one.estimates)
        if not one.noise.within > 0:
            return sentence
        return sentence + (
            f" Of two captions that differ by less than {_format(DIFFERENCE * math.sqrt(one.noise.within))}, one "
            f"answer each does not say which is better. The mean of {count_noun(self.total, 'caption')} changes by "
            f"{_format(math.sqrt(one.noise.within / self.total))}."
        )

    def _noise_table(self) -> Table:
        level = self.resampling.level if self.resampling.samples else None
        columns: list[Column | str] = [
            "judge",
            Column("captions"),
            Column("changed"),
            Column("sd of an answer", decimals=4, level=level, bold=True, key="sd"),
            Column("sd of captions", decimals=4, key="between"),
            Column("noise / captions", decimals=1, scale=100, unit="%", level=level, key="share"),
            Column("reliability", decimals=3),
            Column(f"of {self.repeats} answers", decimals=3, key="reliability_mean"),
        ]
        rows: list[list[Value]] = [
            [
                one.label,
                one.noise.captions,
                one.changed,
                Cell.of(one.estimates[NOISE]),
                math.sqrt(one.noise.between),
                Cell.of(one.estimates[SHARE]),
                one.noise.reliability,
                _average_reliability(one.noise),
            ]
            for one in self.judges
        ]
        note = (
            "changed: captions that did not get the same score every time; noise / captions: variance of an answer "
            "over the variance between captions; reliability: share of the variance of single answers that is due to "
            "captions (ICC(1)), and of the mean of several. Intervals over captions"
        )
        return Table("noise", "Repeat noise", columns, rows, note)

    def _changed_tables(self, one: RepeatedJudge, suffix: str) -> list[Table]:
        """Return the captions whose answers differ, the most different first."""
        if not one.changed:
            return []
        answered = ~np.isnan(one.answers).all(axis=1)
        spread = np.full(len(self.ids), -1.0)
        spread[answered] = np.nanmax(one.answers[answered], axis=1) - np.nanmin(one.answers[answered], axis=1)
        order = [int(index) for index in np.argsort(-spread, kind="stable") if spread[index] > 0]
        columns: list[Column | str] = ["id", "caption", Column("lowest"), Column("highest"), Column("mean")]
        rows: list[list[Value]] = [
            [
                self.ids[index],
                self.captions[index],
                float(np.nanmin(one.answers[index])),
                float(np.nanmax(one.answers[index])),
                float(np.nanmean(one.answers[index])),
            ]
            for index in order[:SHOWN]
        ]
        title = f"{one.label}: captions with the most different answers"
        note = f"{SHOWN} of {len(order):,} captions that changed; answers.csv has all" if len(order) > SHOWN else ""
        return [Table(f"changed{suffix}", title, columns, rows, note)]

    def _answer_table(self) -> Table:
        """Return all answers, in columns that ``captious study audit`` reads."""
        names = [f"{one.metric}@{number + 1}" for one in self.judges for number in range(self.repeats)]
        columns: list[Column | str] = ["id", *(Column(name, key=name) for name in names)]
        values = np.hstack([one.answers for one in self.judges])
        rows = [[id, *map(_convert, own)] for id, own in zip(self.ids, values.tolist(), strict=True)]
        return Table("answers", "All answers", columns, rows, detail=True)

    def data(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "captions": self.ids,
            "repeats": self.repeats,
            "judges": [
                {
                    "judge": one.metric,
                    "label": one.label,
                    **one.noise._asdict(),
                    "changed": one.changed,
                    **{name: vars(value) for name, value in one.estimates.items()},
                    "answers": [[_convert(value) for value in own] for own in one.answers.tolist()],
                    "signature": one.signature,
                }
                for one in self.judges
            ],
            "signature": self.signature,
        }


def describe_noise(label: str, noise: RepeatNoise, estimates: dict[str, Estimate] | None = None) -> str:
    """Describe the noise of a judge in one sentence, with its interval if there is one.

    >>> describe_noise("FLEUR", RepeatNoise(0.04, 0.0025, 50, 5))
    'Asked again, FLEUR changes its score by 0.05 (sd); that is 6.2 % of the variance between captions.'
    """
    if math.isnan(noise.within):
        return f"{label}: fewer than two captions have several answers, so nothing is known of its noise."
    if noise.within == 0:
        return (
            f"Asked {noise.repeats:.3g} times, {label} gave each of {count_noun(noise.captions, 'caption')} the same "
            "score every time: it has no repeat noise."
        )
    size = _format(math.sqrt(noise.within))
    if estimates and not math.isnan(estimates[NOISE].low):
        size += f" (sd, {_format(estimates[NOISE].low)} to {_format(estimates[NOISE].high)})"
    else:
        size += " (sd)"
    share = (
        f"that is {100 * noise.within / noise.between:.2g} % of the variance between captions"
        if noise.between > 0
        else "the captions differ no more than that"
    )
    return f"Asked again, {label} changes its score by {size}; {share}."


def _average_reliability(noise: RepeatNoise) -> float:
    """Return the reliability of the mean of all answers to a caption (ICC(1, k))."""
    total = noise.between + noise.within / noise.repeats
    return noise.between / total if total > 0 else math.nan


def _format(value: float) -> str:
    """Format a positive number with two digits, not in powers of ten."""
    return np.format_float_positional(float(f"{value:.2g}"), trim="-")


def _convert(value: float) -> float | None:
    return None if math.isnan(value) else value


def judge_noise(
    captions: Any,
    metrics: Sequence[str | Metric] | str | Metric,
    *,
    items: int = ITEMS,
    repeats: int = REPEATS,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    references: Any = None,
    images: Any = None,
    reading: Reading = Reading(),
) -> JudgeNoise:
    """Ask judges about the same captions several times, and split the variance of their scores.

    Every repeat is sent with another seed and has its own stored replies, so stored replies cannot hide the noise. The
    first repeat is the question that ``captious score`` asks: its replies are shared. An interrupted run continues.

    Parameters
    ----------
    captions, references, images, reading
        As in ``captious.evaluate``.
    metrics
        Metrics that ask a chat model, such as ``fleur(llava)``.
    items
        How many captions are drawn; the seed of ``resampling`` draws them.
    repeats
        How often each is judged.
    resampling
        The bootstrap over captions.
    runtime
        The endpoint and limits of chat models.
    progress
        Called with the name of each step as it begins.
    """
    resampling, runtime = check_settings(resampling, runtime, progress)
    with using(runtime):
        drawn, judges, captions = _draw_captions(
            captions, metrics, items, repeats, resampling, reading, references, images
        )
        measurements: dict[str, list[Measurement]] = {}
        for number in range(repeats):
            if progress:
                progress(f"repeat {number + 1} of {repeats}")
            with _use_repeat(number):
                for name, measurement in measure_all(_drop_cache(drawn), judges).items():
                    measurements.setdefault(name, []).append(measurement)
    return JudgeNoise(
        captions.name,
        drawn.ids,
        tuple(candidates[0] for candidates in drawn.candidates),
        tuple(RepeatedJudge.of(by_repeat, resampling) for by_repeat in measurements.values()),
        repeats,
        len(captions),
        resampling,
        tuple(
            f"repeat {number}: {note}"
            for by_repeat in measurements.values()
            for number, measurement in enumerate(by_repeat, 1)
            for note in measurement.notes
        ),
    )


def plan_judge_noise(
    captions: Any,
    metrics: Sequence[str | Metric] | str | Metric,
    *,
    items: int = ITEMS,
    repeats: int = REPEATS,
    resampling: Resampling = Resampling(),
    references: Any = None,
    images: Any = None,
    reading: Reading = Reading(),
) -> DryRun:
    """Return the requests that `judge_noise` would make with the same arguments; nothing is sent."""
    drawn, judges, _ = _draw_captions(captions, metrics, items, repeats, resampling, reading, references, images)
    plans: dict[tuple[str, str], CallPlan] = {}
    for number in range(repeats):
        with _use_repeat(number):
            for metric in judges:
                assert isinstance(metric, AsksJudge)
                key = drawn.name, str(metric)
                plans[key] = plans.get(key, CallPlan()) + metric.plan_scoring(_drop_cache(drawn))
    return DryRun(plans, get_runtime().judging.prices)


def _draw_captions(
    captions: Any,
    metrics: Sequence[str | Metric] | str | Metric,
    items: int,
    repeats: int,
    resampling: Resampling,
    reading: Reading,
    references: Any,
    images: Any,
) -> tuple[CaptionSet, list[Metric], CaptionSet]:
    """Return the drawn captions, the metrics, and all captions; raise InputError if a metric asks no chat model."""
    check_value("items", items, int, Option("", min=2))
    check_value("repeats", repeats, int, Option("", min=2, max=MOST_REPEATS))
    captions = read(captions, reading=reading_of(reading, references, images))
    judges = parse_all(metrics, [captions])
    without_chat = [
        str(metric) for metric in judges if "judge" not in metric.needs or not isinstance(metric, AsksJudge)
    ]
    if without_chat:
        raise InputError(
            f"{without_chat[0]}: asks no chat model, so its scores do not change; expected one such as fleur"
        )
    drawn = captions.take(captions.draw_items(items, resampling.seed))
    if len(drawn) < 2:
        raise InputError(f"{captions.name}: {count_noun(len(drawn), 'caption')}, expected at least two")
    for metric in judges:
        metric.refuse_unfit(drawn)
    return drawn, judges, captions


def _use_repeat(number: int) -> Any:
    """Use the runtime with the number of a repeat: its questions have their own seed and stored replies."""
    runtime = get_runtime()
    return using(replace(runtime, judging=replace(runtime.judging, repeat=number)))


def _drop_cache(captions: CaptionSet) -> CaptionSet:
    """Return the same captions without the values that metrics cached, such as the judge of the last repeat."""
    return captions.take(range(len(captions)))
