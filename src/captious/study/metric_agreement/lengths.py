"""Length regimes: does a metric still agree with people when captions get long?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from pathlib import PurePath
from types import NoneType

import numpy as np

from captious._core.types import Ints
from captious.errors import InputError
from captious.models.encoder import Encoder, count_tokens
from captious.render import Answer, Cell, Chart, Column, Document, Figure, Result, Table
from captious.render.document import Value
from captious.runs.report import join_signatures
from captious.stats.bootstrap import NAN, Estimate, estimate
from captious.study._design import RatingRows
from captious.study._statistic_columns import (
    estimates_series,
    explain_columns,
    get_scaled_label,
    list_left_out,
    make_column,
)
from captious.study.metric_agreement.study import Study
from captious.study.scores import list_notes
from captious.text.ngram_tables import count_words

BUCKETS = 4


@dataclass(frozen=True)
class Bucket:
    """Captions of low ≤ words (or tokens) < high, and how each metric does on them."""

    low: int
    high: int
    items: int
    rows: int
    estimates: Mapping[str, Estimate]
    """The estimates by metric; NaN if ratings or metric are constant in the bucket."""
    unit: str = "words"

    @property
    def label(self) -> str:
        """The range of words, such as 8–11."""
        return f"{self.low}–{self.high - 1}" if self.high - 1 > self.low else str(self.low)


@dataclass(frozen=True, eq=False, repr=False)
class LengthRegimes(Result):
    """The headline of a study by caption length."""

    study: Study
    buckets: tuple[Bucket, ...]

    def __repr__(self) -> str:
        return f"LengthRegimes({self.study.ratings.name}: {', '.join(bucket.label for bucket in self.buckets)})"

    def document(self) -> Document:
        """Build one row per bucket and metric, and the regimes as lines."""
        study, unit = self.study, self.buckets[0].unit
        statistic = study.statistic
        shown = get_scaled_label(statistic)
        rows: list[list[Value]] = [
            [bucket.label, name, bucket.items, bucket.rows, Cell.of(bucket.estimates[key])]
            for bucket in self.buckets
            for key, name in study.labels.items()
        ]
        table = Table(
            "lengths",
            f"{PurePath(study.ratings.name).name}: {shown} by caption length",
            [
                unit,
                "metric",
                Column("captions"),
                Column("rows"),
                make_column(statistic, level=study.resampling.level, bold=True),
            ],
            rows,
            f"{explain_columns([statistic])}. {study.resampling.sentence('images')}".rstrip(),
            range(len(study.labels), len(rows), len(study.labels)),
        )
        ticks = [f"{bucket.label} {unit}" for bucket in self.buckets]
        series = [
            estimates_series(name, ticks, [bucket.estimates[key] for bucket in self.buckets], statistic)
            for key, name in study.labels.items()
        ]
        chart = Chart("lines", series, table.title, "Whiskers are the intervals over images.", x=unit, y=shown)
        return Document(
            table.title,
            f"How well metrics agree with people for captions of different lengths in {unit}.",
            (table, chart),
            study.warnings,
            [*filter(None, [study.ratings.read]), *list_left_out(study.ratings.dropped), *list_notes(study.scores)],
            (study.signature, *join_signatures(score.signature for score in study.scores if score.signature)),
            {"name": study.ratings.name, "statistic": statistic, "buckets": self.buckets},
            "lengths",
            self._answer(),
        )

    def _answer(self) -> Answer:
        """Return the plain answer: at which lengths the best metric agrees most and least with people."""
        study, unit = self.study, self.buckets[0].unit
        key, column = study.order[0], make_column(study.statistic, level=study.resampling.level)
        known = [one for one in self.buckets if not math.isnan(one.estimates[key].value)]
        if len(known) < 2:
            return f"Too few captions differ in length to say where {study.labels[key]} agrees with people."
        ordered = sorted(known, key=lambda one: one.estimates[key].value)
        if study.statistic == "one_minus_r2":  # the only statistic of which less is better
            ordered.reverse()
        low, high = ordered[0], ordered[-1]
        start = (
            f"{study.labels[key]} agrees most with people on captions of {high.label} {unit} and least on {low.label}"
        )
        ends = [low.estimates[key], high.estimates[key]]
        apart = ends[0].high < ends[1].low or ends[1].high < ends[0].low
        sure = "The intervals do not overlap." if apart else "The intervals overlap: no difference is shown."
        shown = sure if study.resampling.samples else ""
        return [
            f"{start}: {get_scaled_label(study.statistic)} is ",
            Figure(ends[1], column),
            " and ",
            Figure(ends[0], column),
            f". {shown}",
        ]


def length_regimes(study: Study, edges: Sequence[int] | None = None, encoder: Encoder | None = None) -> LengthRegimes:
    """Compute the study's headline by caption length; without edges, four buckets of about equal numbers.

    Lengths are in words, which are tokens in a language without spaces, or in the tokens of an encoder, start and end
    included.
    """
    if not isinstance(study, Study):
        raise InputError(f"study: {type(study).__name__}, expected a study, which captious.correlate returns")
    if not isinstance(edges, (Sequence, np.ndarray, NoneType)) or not all(
        isinstance(cut, Integral) for cut in edges or ()
    ):
        raise InputError(
            f"edges: {edges!r}, expected lengths in {'words' if encoder is None else 'tokens'}, such as [8, 12]"
        )
    if not isinstance(study.design, RatingRows) or study.ratings.captions is None:
        raise InputError(f"{study.ratings.name}: length regimes need rated captions")
    captions = study.ratings.captions
    texts = [captions[key].candidate for key in study.ids]
    length = np.array(count_words(texts, captions.language)) if encoder is None else count_tokens(encoder, texts)
    shortest, longest = int(length.min()), int(length.max())
    wanted = edges
    if wanted is None:
        quantiles = np.quantile(length, np.arange(1, BUCKETS) / BUCKETS, method="inverted_cdf")
        wanted = (quantiles + 1).astype(np.int64).tolist()
    inside = [cut for cut in sorted(set(wanted)) if shortest < cut <= longest]
    if edges and not inside:
        listed = ",".join(map(str, edges))
        raise InputError(f"edges={listed}: expected lengths between {shortest} and {longest}, those of the captions")
    limits = [shortest, *inside, longest + 1]
    unit = "words" if encoder is None else "tokens"
    return LengthRegimes(
        study, tuple(_measure_bucket(study, length, low, high, unit) for low, high in pairwise(limits))
    )


def _measure_bucket(study: Study, length: Ints, low: int, high: int, unit: str) -> Bucket:
    assert isinstance(study.design, RatingRows)
    items = np.flatnonzero((length >= low) & (length < high))
    part = study.design.subset(items)
    enough = len(items) >= 3 and part.clusters >= 2 and np.ptp(part.human) > 0 and study.statistic in part.families
    estimates = {}
    for score in study.scores:
        values = score.oriented[items]
        if not enough or np.ptp(values) == 0:
            estimates[score.key] = Estimate(NAN)
            continue
        family = part.family(study.design.families[study.statistic], values)
        estimates[score.key] = estimate(family, part.clusters, study.resampling)[study.statistic]
    return Bucket(low, high, len(items), len(part.human), estimates, unit)
