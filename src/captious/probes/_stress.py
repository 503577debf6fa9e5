"""Stress cards: the answers of metrics to captions that were changed on purpose.

Captions are made wrong, damaged, changed without harm, or padded (`captious.edits`), and pairs that people wrote are
added. Everything else of the set stays as it is; so do document frequencies and other statistics of the corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.edits.catalogue import EDITS
from captious.edits.edit import Edit
from captious.edits.edit_table import ALL
from captious.edits.surroundings import VOCABULARY
from captious.errors import InputError
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement, Signature
from captious.metrics.registry import parse_all
from captious.options import Resampling
from captious.probes._effects import (
    DoseResponse,
    Effect,
    ExchangeRate,
    Scores,
    find_doses,
    find_effects,
    find_rates,
    score_sides,
)
from captious.probes._stress_card import EditedPair, Offender, WorstPairs, build_sections, describe_failures
from captious.probes._stress_test import ITEMS, StressPart, StressTest, plan_stress
from captious.probes.probe import SENTENCES, Probe
from captious.render import Document, name_several
from captious.runs.report import disambiguate_labels
from captious.stats.bootstrap import warn_few_units
from captious.stats.shares import number_clusters

INJECTED = "inject(1)"
# Items shown per failed edit.
OFFENDERS = 5
# Pairs that a click on an edit shows.
PAIRS = 10
ABOUT = (
    "Captions are changed on purpose, and every metric scores them before and after. Sides: the share of captions "
    "whose score falls (gaming: rises), ties one half; chance is 50. Size: the mean change in standard deviations of "
    "the metric over the original captions. Harm, damage and pairs hold where more than half fall; harmless edits "
    "where the size is within ±0.1; gaming where no more than half rise. A verdict needs an interval on one side of "
    "the bound, or, around chance, within 45 to 55: the metric does not answer."
)


@dataclass(frozen=True)
class MetricStress:
    """The effects of the edits on one metric."""

    metric: str
    label: str
    signature: str
    effects: tuple[Effect, ...]
    doses: tuple[DoseResponse, ...]
    rates: tuple[ExchangeRate, ...]
    offenders: tuple[Offender, ...]

    def effect(self, edit: str) -> Effect:
        """Return the effect of an edit by its written form."""
        for effect in self.effects:
            if effect.edit == edit:
                return effect
        raise InputError(f"{self.metric}: no edit {edit!r} was tried, expected one of {', '.join(self.edits)}")

    @property
    def edits(self) -> list[str]:
        """The written forms of the edits."""
        return [effect.edit for effect in self.effects]


@dataclass(frozen=True, repr=False)
class Stress(Probe):
    """The stress card of metrics: one row per edit, metrics side by side, and no overall score."""

    test: StressTest
    rows: Sequence[MetricStress]
    notes: tuple[str, ...] = ()
    worst: WorstPairs = field(default_factory=dict)
    """The pairs that the metrics answer worst, by edit."""

    def records(self) -> list[dict[str, Any]]:
        """List one row per metric and edit as plain values; ``low`` and ``high`` belong to the number that decides."""
        return [
            {
                "metric": row.metric,
                "signature": row.signature,
                "group": effect.group,
                "edit": effect.edit,
                "n": effect.n,
                "sides": effect.sides.value,
                "size": effect.size.value,
                "low": effect.decisive.low,
                "high": effect.decisive.high,
                "verdict": effect.verdict,
            }
            for row in self.rows
            for effect in row.effects
        ]

    def __getitem__(self, metric: str) -> MetricStress:
        """Return the card of one metric, by its written form or label."""
        for row in self.rows:
            if metric in (row.metric, row.label):
                return row
        raise InputError(f"no card of {metric!r}, expected one of {', '.join(row.metric for row in self.rows)}")

    def document(self) -> Document:
        """Build a line per metric, a chart per group of edits, dose curves, tables, and the worst offenders."""
        main = self.test.parts[0]
        images = len(set(main.images))
        notes = [
            f"{len(main.drawn):,} of {len(main.corpus):,} captions of {images:,} images; seed {self.test.seed}",
            "idf and other statistics of the corpus are those of the original captions",
            *warn_few_units(images, self.resampling, self.unit),
            *self.notes,
        ]
        document = self.build(
            "Stress card",
            ABOUT,
            build_sections(self.test, self.rows, self.resampling.level, self.worst),
            f"stress(items={len(main.drawn)},seed={self.test.seed})",
            [row.signature for row in self.rows],
            notes,
            answer=" ".join(describe_failures(row) for row in self.rows[:SENTENCES]),
            rows=self.records(),
            metrics=self.rows,
        )
        return replace(
            document, page=f"Stress card of {name_several([row.label for row in self.rows])} on {self.short_name}"
        )


def stress(
    captions: CaptionSet,
    metrics: str | Metric | Iterable[str | Metric],
    resampling: Resampling = Resampling(),
    *,
    edits: Sequence[str | Edit] = (ALL,),
    items: int = ITEMS,
    pairs: Sequence[Any] = (),
    images: str | Path | None = None,
    vocabulary: str = VOCABULARY,
    progress: Callable[[str], None] | None = None,
) -> Stress:
    """Compute the stress card of metrics on captions: the effects of edits on each, with intervals over images.

    The same items are drawn for all metrics. ``edits`` are names, groups, TOML files or `captious.edits.Edit` values;
    ``pairs`` are files of right and wrong captions, whose images are in the folder ``images``.

    >>> from captious import demo
    >>> card = stress(demo().systems["solid"], "bleu(n=1)", edits=["shuffle"])
    >>> card.rows[0].effects[0].sides.value, card.rows[0].effects[0].verdict
    (0.5, 'fails')
    """
    test = plan_stress(
        captions, edits, items=items, seed=resampling.seed, pairs=pairs, images=images, vocabulary=vocabulary
    )
    return run_stress(test, parse_all(metrics, [captions]), resampling, progress)


def run_stress(
    test: StressTest,
    metrics: Sequence[Metric],
    resampling: Resampling = Resampling(),
    progress: Callable[[str], None] | None = None,
) -> Stress:
    """Score the planned test with every metric."""
    labels = disambiguate_labels({str(metric): metric.label for metric in metrics})
    rows: list[MetricStress] = []
    notes: list[str] = []
    scored: list[ScoredPart] = []
    for metric in metrics:
        if progress:
            progress(metric.label)
        rows.append(_score_metric(test, metric, labels[str(metric)], resampling, notes, scored))
    worst = {form: pairs for part in test.parts for form, pairs in _find_worst_pairs(part, scored).items()}
    return Stress(test.name, resampling, test, rows, tuple(dict.fromkeys(notes)), worst)


class ScoredPart(NamedTuple):
    """The scores of one metric on one part of a test."""

    part: StressPart
    label: str
    scores: Scores
    sign: int
    """−1 if lower values of the metric are better, otherwise 1."""


def _find_worst_pairs(part: StressPart, scored: Sequence[ScoredPart]) -> dict[str, list[EditedPair]]:
    """Find the edited captions that the metrics answer worst, by edit; metrics count equally, in their own spread."""
    own = [one for one in scored if one.part is part]
    spreads = [float(np.nanstd(one.scores.base)) or 1.0 for one in own]
    edited = {(one.item, one.column): one for one in part.edited}
    worst: dict[str, list[EditedPair]] = {}
    for column, (form, group) in enumerate(part.edits):
        changes = np.stack([one.scores.change[:, column] / sd for one, sd in zip(own, spreads, strict=True)])
        known = ~np.isnan(changes)
        sums = np.where(known, np.abs(changes) if group == "harmless" else changes, 0.0).sum(axis=0)
        wrong = np.where(known.any(axis=0), sums / np.maximum(known.sum(axis=0), 1), -np.inf)
        order = [index for index in np.argsort(-wrong, kind="stable").tolist()[:PAIRS] if np.isfinite(wrong[index])]
        pairs = []
        for index in order:
            scores = {}
            for one in own:
                base, change = float(one.scores.base[index]), float(one.scores.change[index, column])
                if not np.isnan(change):
                    scores[one.label] = (one.sign * base, one.sign * (base + change))
            text = edited[index, column]
            caption = part.drawn.candidates[index][0]
            pairs.append(EditedPair(part.drawn.ids[index], caption, text.text, text.done, scores))
        if pairs:
            worst[form] = pairs
    return worst


def _score_metric(
    test: StressTest,
    metric: Metric,
    label: str,
    resampling: Resampling,
    notes: list[str],
    scored: list[ScoredPart],
) -> MetricStress:
    """Score every part of a test with one metric; a file of pairs that it cannot score is left out with a note.

    The scores of each part are added to ``scored``.
    """
    result: MetricStress | None = None
    for part in test.parts:
        try:
            state = metric.prepared(part.corpus)
            metric.refuse_unfit(part.texts)
            measurement = metric.measure(part.texts, state)
            metric.refuse_empty(measurement, part.corpus.name)
        except InputError as error:
            if result is None:
                raise
            notes.append(f"{label}: left out: {error}")
            continue
        notes += [*measurement.notes, *measurement.warnings]
        if lost := sum(np.isnan(measurement.values)):
            notes.append(f"{label}: {lost:,} of {len(part.texts):,} texts have no score and are left out")
        signature = str(Signature.of(metric, part.drawn, state, 0, {}))
        scores = _collect_scores(part, measurement)
        scored.append(ScoredPart(part, label, scores, 1 if metric.higher_is_better else -1))
        one = _score_part(part, measurement, scores, label, signature, resampling)
        result = one if result is None else _join_parts(result, one)
    assert result is not None
    return result


def _join_parts(one: MetricStress, two: MetricStress) -> MetricStress:
    return replace(one, effects=one.effects + two.effects, offenders=one.offenders + two.offenders)


def _collect_scores(part: StressPart, measurement: Measurement) -> Scores:
    """Collect the scores of the original captions and of the edited ones; higher is better."""
    values = measurement.values if measurement.metric.higher_is_better else -measurement.values
    items = len(part.drawn)
    edited = np.full((items, len(part.edits)), np.nan)
    for one, value in zip(part.edited, values[items:].tolist(), strict=True):
        edited[one.item, one.column] = value
    return Scores.of(values[:items], edited, number_clusters(part.images))


def _score_part(
    part: StressPart, measurement: Measurement, scores: Scores, label: str, signature: str, resampling: Resampling
) -> MetricStress:
    """Compute the numbers of one metric on one part."""
    metric = measurement.metric
    effects = find_effects(scores, part.edits, resampling)
    columns = {form: column for column, (form, _) in enumerate(part.edits)}
    doses = [
        find_doses(scores, edit.name, {dose: columns[form] for form, dose in edit.forms}, effects, resampling)
        for edit in EDITS.values()
        if edit.doses and all(form in columns for form, _ in edit.forms)
    ]
    rates = find_rates(scores, part.edits, columns[INJECTED], resampling) if INJECTED in columns else []
    sign = 1 if metric.higher_is_better else -1
    offenders = [one for effect in effects for one in _find_offenders(part, scores, columns[effect.edit], effect, sign)]
    return MetricStress(str(metric), label, signature, tuple(effects), tuple(doses), tuple(rates), tuple(offenders))


def _find_offenders(part: StressPart, scores: Scores, column: int, effect: Effect, sign: int) -> list[Offender]:
    """Find the items that a failing metric answers worst; none if it does not fail."""
    if effect.verdict != "fails":
        return []
    change = scores.change[:, column]
    wrong: Floats = np.abs(change) if effect.group == "harmless" else change
    wrong = np.where(np.isnan(change), -np.inf, wrong)
    tried = {one.item: one for one in part.edited if one.column == column}
    order = [index for index in np.argsort(-wrong, kind="stable").tolist()[:OFFENDERS] if np.isfinite(wrong[index])]
    if effect.group in ("harm", "damage", "pairs"):
        order = [index for index in order if score_sides(change, effect.group)[index] < 1]
    return [
        Offender(
            effect.edit,
            effect.group,
            part.drawn.ids[index],
            part.drawn.candidates[index][0],
            tried[index].text,
            tried[index].done,
            sign * float(scores.base[index]),
            sign * float(scores.base[index] + change[index]),
        )
        for index in order
    ]
