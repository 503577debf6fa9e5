"""Captions that grow detail by detail, each step once with the right detail and once with a wrong one.

A row gives its units in one of these forms: ``units`` with ``wrong_units``; ``captions`` that grow with ``negatives``
(the layout of the SPECS repository, where they are called ``neg_captions``); a ``caption`` with ``negatives``, wrong
details; or only a ``caption``, which is cut into units. Wrong details that are not given come from other images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from captious._typing import Floats, Ints
from captious._version import __version__
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.evaluation import disambiguate_labels
from captious.io.columns import (
    CAPTION_COLUMNS,
    CAPTION_LIST_COLUMNS,
    REFERENCE_COLUMNS,
    UNIT_COLUMNS,
    WRONG_UNIT_COLUMNS,
)
from captious.io.formats import Row, name_of, rows_of
from captious.io.join import gather_references
from captious.metrics.contract import Measurement, Metric
from captious.models.encoder import Encoder, token_counts
from captious.options import SEED, Resampling
from captious.probes.finding import Figure, Finding, Grid, between, per_cent, plain_name
from captious.probes.vectors import image_of, paths_of, text_of, texts_of
from captious.report.plot import Mark, intervals, lines
from captious.stats.bootstrap import Estimate
from captious.stats.shares import clusters_of, shares

NEGATIVES = ("negatives", "neg_captions")


@dataclass(frozen=True)
class Chain:
    """One caption as it grows: ``captions[k]`` has k + 1 units, ``negatives[k]`` is it with a wrong unit added."""

    image: str
    captions: tuple[str, ...]
    negatives: tuple[str, ...]
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class Details:
    """Chains of a file, where their images lie, and what had to be left out."""

    name: str
    chains: tuple[Chain, ...]
    paths: dict[str, str]
    dropped: dict[str, int]
    drawn: int = 0
    """Wrong units that come from other images."""
    made: tuple[str, ...] = ()
    """What moved the texts, for signatures: the grammar that cut them, the seed that drew, the limits they fit."""

    def captions(self) -> CaptionSet:
        """Every text of every chain as an item of its own: the growing captions of a chain, then its negatives."""
        texts = [(text, chain) for chain in self.chains for text in (*chain.captions, *chain.negatives)]
        return CaptionSet.of(
            {str(place): text for place, (text, _) in enumerate(texts)},
            {str(place): chain.references for place, (_, chain) in enumerate(texts)},
            {"image": [self.paths[chain.image] for _, chain in texts]},
            self.name,
        )

    def misplaced(self, seed: int = SEED) -> Details:
        """The same texts against another image: what a score still tells apart there, it reads off the words."""
        if len(self.paths) < 2:
            raise InputError(f"{self.name}: a control against wrong images needs at least 2 images, found 1")
        order = np.random.default_rng(seed).permutation(len(self.paths))
        keys, paths = list(self.paths), list(self.paths.values())
        # One cycle through all images, so that none keeps its own.
        moved = {keys[one]: paths[other] for one, other in zip(order, np.roll(order, 1), strict=True)}
        return replace(self, paths=moved)

    def within(self, encoder: Encoder, prefix: str = "") -> Details:
        """The chains as far as every text fits the encoder: what stands behind its limit could change no score."""
        kept = []
        sizes = iter(token_counts(encoder, [prefix + text for text in self.captions().candidates.values]).tolist())
        for chain in self.chains:
            grown, wrong = list(islice(sizes, len(chain.captions))), list(islice(sizes, len(chain.negatives)))
            fits = [max(grown[step + 1], size) <= encoder.limit for step, size in enumerate(wrong)]
            steps = fits.index(False) if False in fits else len(fits)
            if steps:
                kept.append(replace(chain, captions=chain.captions[: steps + 1], negatives=chain.negatives[:steps]))
        lost = len(self.chains) - len(kept)
        reason = f"nothing fits the {encoder.limit} tokens of {encoder.name}"
        if not kept:
            raise InputError(f"{self.name}: {reason}")
        dropped = {**self.dropped, **({reason: lost} if lost else {})}
        made = (*self.made, f"fitting:{encoder.name}({encoder.limit})")
        return replace(self, chains=tuple(kept), dropped=dropped, made=made)


@dataclass
class _Draft:
    image: str
    references: tuple[str, ...]
    units: list[str]
    wrong: list[str] | None = None
    grown: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    whole: bool = False
    """``units`` is one text that is yet to be cut."""


def read_details(
    source: Any,
    images: str | Path | None = None,
    references: Any = None,
    *,
    seed: int = SEED,
    grammar: str = "code",
    legacy: bool = False,
) -> Details:
    """Chains from a file; ``seed`` draws wrong units from other images, ``grammar`` and ``legacy`` cut captions.

    ``references`` by image are for metrics that need them; they win over those of the rows.
    """
    drafts = [draft for row in rows_of(source) for draft in _drafts(row)]
    if references is not None:
        given = gather_references(rows_of(references)).references
        for draft in drafts:
            draft.references = tuple(given.get(draft.image) or given.get(Path(draft.image).stem) or ())
    name = name_of(source)
    if not drafts:
        raise InputError(f"{name}: holds no captions")
    made: tuple[str, ...] = (f"units:{grammar}{',legacy' * legacy}",) if any(draft.whole for draft in drafts) else ()
    _cut(drafts, grammar, legacy)
    dropped: Counter[str] = Counter()
    drawn = _draw(drafts, seed, dropped)
    chains = []
    for draft in drafts:
        captions, negatives = draft.grown or _grow(draft.units, draft.wrong or [])
        if not negatives:
            dropped["fewer than two detail units"] += draft.wrong is not None or draft.grown is not None
            continue
        chains.append(Chain(draft.image, captions, negatives, draft.references))
    if not chains:
        raise InputError(f"{name}: no caption has two detail units to compare")
    paths = paths_of([chain.image for chain in chains], images, name)
    made += (f"wrong:drawn(seed={seed})",) if drawn else ()
    return Details(name, tuple(chains), paths, dict(dropped), drawn, made)


def _drafts(row: Row) -> list[_Draft]:
    """What a row holds: one chain, or one for each of several captions."""
    image, references = image_of(row), tuple(texts_of(row, REFERENCE_COLUMNS) or ())
    units, wrong, negatives = texts_of(row, UNIT_COLUMNS), texts_of(row, WRONG_UNIT_COLUMNS), texts_of(row, NEGATIVES)
    if units is not None:
        if wrong is not None and len(wrong) not in (len(units), len(units) - 1):
            raise InputError(f"{row.where}: {len(units)} units and {len(wrong)} wrong units, expected as many")
        # The first unit has nothing before it to be wrong after; a list that leaves it out is one shorter.
        steps = None if wrong is None else wrong[len(wrong) - len(units) + 1 :]
        return [_Draft(image, references, units, steps)]
    several = texts_of(row, CAPTION_LIST_COLUMNS)
    if several is not None and negatives is not None:
        if len(negatives) not in (len(several), len(several) - 1):
            raise InputError(f"{row.where}: {len(several)} captions and {len(negatives)} negatives, expected one fewer")
        return [_Draft(image, references, [], grown=(tuple(several), tuple(negatives[: len(several) - 1])))]
    caption = text_of(row, (*CAPTION_COLUMNS, "description"))
    found = several if several is not None else [] if caption is None else [caption]
    if not found:
        raise InputError(f"{row.where}: has no units, no caption and no captions: found {', '.join(row.fields)}")
    return [_Draft(image, references, [one], negatives, whole=True) for one in found]


def _cut(drafts: Sequence[_Draft], grammar: str, legacy: bool) -> None:
    """Whole captions into units; given wrong details are taken in turn, the last one again where they run out."""
    whole = [draft for draft in drafts if draft.whole]
    if not whole:
        return
    from captious.syntax.units import units

    for draft, found in zip(
        whole, units([draft.units[0] for draft in whole], grammar=grammar, legacy=legacy), strict=True
    ):
        draft.units = found
        if draft.wrong:
            draft.wrong = [draft.wrong[min(step, len(draft.wrong) - 1)] for step in range(len(found) - 1)]


def _draw(drafts: Sequence[_Draft], seed: int, dropped: Counter[str]) -> int:
    """Wrong units where none are given: of a random caption of another image, the unit at the place of the base.

    This is the rule of the SPECS repository: the unit with the base's own number, the last one where there are fewer.
    """
    generator, drawn = np.random.default_rng(seed), 0
    pool = [draft for draft in drafts if draft.units]
    for draft in drafts:
        if draft.wrong is not None or draft.grown is not None:
            continue
        wrong = []
        for step in range(len(draft.units) - 1):
            other = _other(pool, draft.image, generator)
            if other is None:
                break
            wrong.append(other.units[min(step, len(other.units) - 1)])
        if len(wrong) < len(draft.units) - 1:
            dropped["no other image to draw a wrong detail from"] += 1
            continue
        drawn += len(wrong)
        draft.wrong = wrong
    return drawn


def _other(pool: Sequence[_Draft], image: str, generator: np.random.Generator) -> _Draft | None:
    for _ in range(100):
        found = pool[int(generator.integers(len(pool)))]
        if found.image != image:
            return found
    return next((one for one in pool if one.image != image), None)


def _grow(units: Sequence[str], wrong: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    captions = tuple(" ".join(units[: number + 1]) for number in range(len(units)))
    return captions, tuple(f"{base} {unit}" for base, unit in zip(captions, wrong, strict=False))


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
    def rises(self) -> Floats:
        """1 where the right detail raised the score, 0 where not, NaN where a score is missing."""
        return told(self.right, self.base)

    @property
    def falls(self) -> Floats:
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
    labels = disambiguate_labels({one.metric: one.label for one in found})
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


ABOUT = (
    "SR_pos: how often a right detail raises the score. SR_neg: how often a wrong one lowers it. A coin reaches 50; "
    "ties are misses. In per cent."
)
PLACES = 12
"""Steps that the second picture shows one by one."""


def specificity_finding(details: Details, found: Sequence[Specificity], counting: Counting, how: Resampling) -> Finding:
    """One row per metric; intervals over images; the rates by how much was already said."""
    level = f"{how.level:.0%} interval"
    columns = ("metric", "SR_pos", level, "SR_neg", level, "average", level, "steps", "ties", "cut")
    rows = tuple(
        (
            one.label,
            per_cent(one.positive.value),
            between(one.positive),
            per_cent(one.negative.value),
            between(one.negative),
            per_cent(one.average.value),
            between(one.average),
            f"{one.pairs:,}",
            f"{one.ties:,}",
            f"{one.cut:,}",
        )
        for one in found
    )
    images = len({chain.image for chain in details.chains})
    notes = [
        f"{len(details.chains):,} captions of {images:,} images; counted {counting}: "
        + {
            "pooled": "all steps together",
            "macro": "the mean of the captions' own rates",
            "legacy": "as the authors' code counts, see docs/specificity.md",
        }[counting]
    ]
    if details.drawn:
        notes.append(f"{details.drawn:,} wrong details come from other images")
    notes += [f"left out: {number:,} captions ({reason})" for reason, number in details.dropped.items()]
    notes += [
        f"{one.label}: {one.cut:,} texts are longer than its encoder reads; what is added behind the limit ties"
        for one in found
        if one.cut
    ]
    data = {
        "captious": __version__,
        "name": details.name,
        "counting": counting,
        "images": images,
        "captions": len(details.chains),
        "metrics": [asdict(one) for one in found],
        "ci": how.signature("images"),
    }
    settings = "|".join(
        (f"specificity({counting})", *details.made, f"ci:{how.signature('images')}", f"captious:{__version__}")
    )
    return Finding(
        f"Specificity Rate: {plain_name(details.name)}",
        ABOUT,
        (Grid(f"Specificity Rate in per cent, {counting}", columns, rows),),
        _figures(found),
        tuple(notes),
        (settings, *(one.signature for one in found)),
        data,
    )


def _figures(found: Sequence[Specificity]) -> tuple[Figure, ...]:
    groups = {
        name: [
            Mark(f"{one.label} {name}", 100 * estimate.value, 100 * estimate.low, 100 * estimate.high)
            for one in found
            for estimate in (one.positive if name == "SR_pos" else one.negative,)
        ]
        for name in ("SR_pos", "SR_neg")
    }
    last = min(max(row[0] for one in found for row in one.by_place), PLACES)
    places = [str(units) for units in range(1, last + 1)]
    series = {}
    for one in found:
        by_place = {row[0]: row for row in one.by_place}
        for column, name in ((2, "SR_pos"), (3, "SR_neg")):
            series[f"{one.label} {name}"] = [
                100 * by_place[units][column] if units in by_place else float("nan") for units in range(1, last + 1)
            ]
    return (
        Figure(intervals(groups, "Specificity Rates and their intervals", 50.0), "Rates and intervals over images."),
        Figure(
            lines(series, places, "Specificity Rate by detail units already said", 50.0),
            "The rates by how many detail units the caption already had.",
        ),
    )
