"""Length regimes: does a metric still agree with people when captions get long?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise

import numpy as np

from captious._typing import Ints
from captious.errors import InputError
from captious.models.encoder import Encoder, token_counts
from captious.options import Resampling
from captious.stats.bootstrap import Estimate, bootstrap, observed
from captious.study.design import Rows
from captious.study.study import Study

BUCKETS = 4


@dataclass(frozen=True)
class Bucket:
    """Captions of low ≤ words (or tokens) < high, and how each metric does on them."""

    low: int
    high: int
    items: int
    rows: int
    estimates: Mapping[str, Estimate]
    """By metric; NaN where ratings or metric are constant in the bucket."""
    unit: str = "words"

    @property
    def label(self) -> str:
        """Such as 8–11."""
        return f"{self.low}–{self.high - 1}" if self.high - 1 > self.low else str(self.low)


def lengths(study: Study, edges: Sequence[int] | None = None, encoder: Encoder | None = None) -> list[Bucket]:
    """The study's headline by caption length; without edges, four buckets of about equal numbers.

    Lengths are in words, or in the tokens of an encoder, start and end included.
    """
    if not isinstance(study.problem, Rows) or study.ratings.captions is None:
        raise InputError(f"{study.ratings.name}: length regimes need rated captions")
    captions = study.ratings.captions
    texts = [captions[key].candidate for key in study.ids]
    words = np.array([len(text.split()) for text in texts]) if encoder is None else token_counts(encoder, texts)
    if edges is None:
        cuts = np.quantile(words, np.arange(1, BUCKETS) / BUCKETS, method="inverted_cdf") + 1
        edges = [int(cut) for cut in np.unique(cuts)]
    edges = [cut for cut in sorted(set(edges)) if words.min() < cut <= words.max()]
    limits = [int(words.min()), *edges, int(words.max()) + 1]
    unit = "words" if encoder is None else "tokens"
    return [_bucket(study, words, low, high, unit) for low, high in pairwise(limits)]


def _bucket(study: Study, words: Ints, low: int, high: int, unit: str) -> Bucket:
    problem, o = study.problem, study.options
    assert isinstance(problem, Rows)
    kept = np.flatnonzero((words >= low) & (words < high))
    number = np.full(len(words), -1)
    number[kept] = np.arange(len(kept))
    rows = np.flatnonzero(number[problem.item] >= 0)
    images, cluster = np.unique(problem.cluster[kept], return_inverse=True)
    part = replace(
        problem,
        human=problem.human[rows],
        item=number[problem.item[rows]],
        cluster=cluster.astype(np.int64),
        clusters=len(images),
        mean=problem.mean[kept],
        system=None if problem.system is None else problem.system[kept],
    )
    estimates = {}
    for score in study.scores:
        values = score.oriented[kept]
        if len(kept) < 3 or np.ptp(values) == 0 or np.ptp(part.human) == 0 or len(images) < 2:
            estimates[score.key] = Estimate(float("nan"))
            continue
        statistic = part.family(problem.families[o.statistic], values)
        value = observed(statistic, part.clusters)[o.statistic]
        estimate = Estimate(value)
        if o.samples:
            draws = bootstrap([statistic], part.clusters, Resampling(o.samples, o.seed, o.level))[0]
            estimate = Estimate.of(value, draws[o.statistic], o.level)
        estimates[score.key] = estimate
    return Bucket(low, high, len(kept), len(rows), estimates, unit)


COLORS = ("#2f6fb2", "#d9730d", "#168a64", "#b04a91", "#7a6a00", "#3aa0c9", "#c2403a", "#6b7280")


def chart(buckets: Sequence[Bucket], labels: Mapping[str, str], title: str) -> str:
    """An SVG of the regimes: one line per metric, whiskers for the intervals."""
    width, height, left, bottom = 760, 380, 56, 56
    known = [e for bucket in buckets for e in bucket.estimates.values() if not np.isnan(e.value)]
    ends = [value for e in known for value in (e.value, e.low, e.high) if not np.isnan(value)] or [0.0, 1.0]
    low, high = min(0.0, *ends), max(ends) + 0.02

    def x(place: float) -> float:
        return left + (place + 0.5) * (width - left - 150) / len(buckets)

    def y(value: float) -> float:
        return height - bottom - (value - low) / (high - low) * (height - bottom - 44)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" class="chart">',
        f'<text x="{left}" y="22" font-size="14" font-weight="600" fill="currentColor">{escape(title)}</text>',
    ]
    step = 0.1 if high - low < 1 else 0.2
    for tick in np.arange(np.ceil(low / step) * step, high, step):
        parts.append(
            f'<line x1="{left}" x2="{width - 150}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#8884" />'
            f'<text x="{left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="currentColor">{100 * tick:.0f}</text>'
        )
    for place, bucket in enumerate(buckets):
        parts.append(
            f'<text x="{x(place):.1f}" y="{height - bottom + 20}" text-anchor="middle" fill="currentColor">'
            f'{bucket.label} {bucket.unit}</text><text x="{x(place):.1f}" y="{height - bottom + 36}" '
            f'text-anchor="middle" fill="#888">{bucket.items:,} captions</text>'
        )
    for number, (key, label) in enumerate(labels.items()):
        color, shift = COLORS[number % len(COLORS)], (number - (len(labels) - 1) / 2) * 0.06
        points = []
        for place, bucket in enumerate(buckets):
            e = bucket.estimates[key]
            if np.isnan(e.value):
                continue
            at = x(place + shift)
            points.append(f"{at:.1f},{y(e.value):.1f}")
            if not np.isnan(e.low):
                parts.append(
                    f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y(e.low):.1f}" y2="{y(e.high):.1f}" stroke="{color}" />'
                )
            parts.append(f'<circle cx="{at:.1f}" cy="{y(e.value):.1f}" r="3.5" fill="{color}" />')
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{color}" stroke-width="1.5" />')
        parts.append(
            f'<rect x="{width - 136}" y="{44 + 20 * number}" width="10" height="10" rx="2" fill="{color}" />'
            f'<text x="{width - 120}" y="{53 + 20 * number}" fill="currentColor">{escape(label)}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])
