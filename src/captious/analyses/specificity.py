"""Specificity Rate: how often a score rises with a right detail and falls with a wrong one.

For the captions c₁ … c_m of a chain, each with one detail more, and a wrong detail d₋ at every step::

    SR_pos = share of steps with  score(c_k+1) > score(c_k)
    SR_neg = share of steps with  score(c_k) > score(c_k + d₋)

Equation 2 of the SPECS paper has the inequality of SR_neg the wrong way round; its text and code mean this one. All
m − 1 steps count, ties are misses, and the headline pools the steps of all captions. ``macro`` is the mean of the
captions' own rates. ``legacy`` counts as the authors' code does: the last caption is never looked at, scores of 0 or
less shorten the chain, chains of fewer than two steps are passed over, and the rates are macro averages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from captious.analyses.details import Details
from captious.analyses.resampling import Ints, Resampling, clusters_of, shares
from captious.errors import InputError
from captious.measurement import Floats, Measurement
from captious.metrics.base import Metric
from captious.metrics.labels import told_apart
from captious.study.resampling import Estimate

Counting = Literal["pooled", "macro", "legacy"]
TIE = 1e-6
"""Scores that differ by less are equal: a text cut at the limit gives the same tokens, but rounded in another batch."""

CONTROL = ", wrong image"
"""Behind the name of a metric that was shown other images than the captions'."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The scores of one metric along all chains."""

    base: Floats
    right: Floats
    wrong: Floats
    chain: Ints
    """The chain of each step."""
    place: Ints
    """How many units the base has."""

    @property
    def rises(self) -> npt.NDArray[np.float64]:
        """1 where the right detail raised the score, 0 where not, NaN where a score is missing."""
        return told(self.right, self.base)

    @property
    def falls(self) -> npt.NDArray[np.float64]:
        """1 where the wrong detail lowered it."""
        return told(self.base, self.wrong)


@dataclass(frozen=True)
class Specificity:
    """The rates of one metric."""

    metric: str
    label: str
    positive: Estimate
    negative: Estimate
    average: Estimate
    pairs: int
    """Steps with all their scores."""
    ties: int
    """Comparisons, of the two a step has, in which both scores are equal."""
    by_place: tuple[tuple[int, int, float, float], ...]
    """Units of the base, steps, and both rates there."""
    signature: str
    cut: int = 0
    """Texts longer than the encoder reads: what is added behind its limit changes nothing."""


def specificity(
    details: Details,
    metrics: Sequence[Metric],
    *,
    counting: Counting = "pooled",
    how: Resampling | None = None,
    control: bool = False,
    progress: Callable[[str], None] | None = None,
) -> list[Specificity]:
    """The Specificity Rate of any metric that gives a value to a caption of an image.

    With ``control`` every metric is also held against the wrong images. A metric that looks is near 50 there; one that
    has learnt which words continue a caption is not.
    """
    captions, how, found = details.captions(), how or Resampling(), []
    for metric in metrics:
        if progress:
            progress(metric.label)
        measured = metric.measure(captions)
        metric.refuse_empty(measured, details.name)
        found.append(rate(details, measured, counting, how))
    labels = told_apart({one.metric: one.label for one in found})
    found = [replace(one, label=labels[one.metric]) for one in found]
    if control:
        blind = specificity(details.misplaced(how.seed), metrics, counting=counting, how=how, progress=progress)
        shown = f"|images:wrong(seed={how.seed})"
        found += [
            replace(one, metric=one.metric + CONTROL, label=one.label + CONTROL, signature=one.signature + shown)
            for one in blind
        ]
    return found


def steps_of(details: Details, values: Floats) -> Steps:
    """The values of `Details.captions` as steps."""
    sizes = np.array([len(chain.captions) for chain in details.chains], dtype=np.int64)
    number = np.array([len(chain.negatives) for chain in details.chains], dtype=np.int64)
    first = np.cumsum(sizes + number) - (sizes + number)
    chain = np.repeat(np.arange(len(sizes)), number)
    place = np.arange(int(number.sum())) - np.repeat(np.cumsum(number) - number, number)
    base = first[chain] + place
    return Steps(values[base], values[base + 1], values[first[chain] + sizes[chain] + place], chain, place + 1)


def rate(details: Details, measured: Measurement, counting: Counting, how: Resampling) -> Specificity:
    """The rates from the values of one metric."""
    metric = measured.metric
    steps = steps_of(details, measured.values if metric.higher_is_better else -measured.values)
    hits = np.stack([steps.rises, steps.falls], axis=1)
    known = ~np.isnan(hits).any(axis=1)
    if not known.any():
        raise InputError(f"{metric}: no step of {details.name} has all its scores")
    image = clusters_of([chain.image for chain in details.chains])
    if counting == "legacy":
        tops, bottoms, owner = _legacy(steps, len(details.chains))
    elif counting == "macro":
        tops, bottoms, owner = _macro(hits[known], steps.chain[known], len(details.chains))
    else:
        tops, bottoms, owner = hits[known], np.ones((int(known.sum()), 2)), steps.chain[known]
    found = shares(tops, bottoms, image[owner], how)
    positive, negative = found.estimates()
    equal = (np.abs(steps.right - steps.base) <= TIE).sum() + (np.abs(steps.wrong - steps.base) <= TIE).sum()
    return Specificity(
        str(metric),
        metric.label,
        positive,
        negative,
        found.mean([0, 1]),
        int(known.sum()),
        int(equal),
        _by_place(hits[known], steps.place[known]),
        str(measured.signature),
        measured.signature.counts.get("truncated", 0),
    )


def told(higher: Floats, lower: Floats) -> Floats:
    """1 where one score is above the other by more than rounding, 0 where not, NaN where one is missing."""
    missing = np.isnan(higher) | np.isnan(lower)
    return np.where(missing, np.nan, (higher > lower + TIE).astype(np.float64))


def _macro(hits: Floats, chain: Ints, chains: int) -> tuple[Floats, Floats, Ints]:
    number = np.bincount(chain, minlength=chains)
    kept = np.flatnonzero(number)
    rates = np.stack([np.bincount(chain, weights=column, minlength=chains)[kept] for column in hits.T], axis=1)
    return rates / number[kept, None], np.ones((len(kept), 2)), kept


def _legacy(steps: Steps, chains: int) -> tuple[Floats, Floats, Ints]:
    """The authors' counting, chain by chain; the bases of a chain are all its captions but the last."""
    rates, kept = [], []
    bounds = np.searchsorted(steps.chain, np.arange(chains + 1))
    for number in range(chains):
        base, wrong = steps.base[bounds[number] : bounds[number + 1]], steps.wrong[bounds[number] : bounds[number + 1]]
        length = int((base > 0).sum()) - 1
        if length <= 1:
            continue
        rates.append([(base[1 : length + 1] > base[:length]).mean(), (base[:length] > wrong[:length]).mean()])
        kept.append(number)
    if not kept:
        raise InputError(
            "legacy counting passes over every caption: none has three growing captions with scores above 0"
        )
    return np.array(rates), np.ones((len(kept), 2)), np.array(kept)


def _by_place(hits: Floats, place: Ints) -> tuple[tuple[int, int, float, float], ...]:
    rows = []
    for units in np.unique(place).tolist():
        here = hits[place == units]
        rows.append((int(units), len(here), float(here[:, 0].mean()), float(here[:, 1].mean())))
    return tuple(rows)
