"""The Specificity Rate: does a score rise with a right detail and fall with a wrong one?

A caption grows detail by detail; each step is scored once with the right detail and once with a wrong one. A row of
the data has one of these forms: ``units`` with ``wrong_units``; ``captions`` that grow with ``negatives`` (as in the
SPECS repository, where they are called ``neg_captions``); a ``caption`` with ``negatives``, wrong details; or only
a ``caption``, which is cut into units. Wrong details that the row does not have come from other images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from captious._core.types import Floats, Ints
from captious.captions import CaptionSet
from captious.edits.details import draw_details
from captious.errors import InputError
from captious.io.columns import (
    CAPTION_COLUMNS,
    CAPTION_LIST_COLUMNS,
    REFERENCE_COLUMNS,
    UNIT_COLUMNS,
    WRONG_UNIT_COLUMNS,
)
from captious.io.formats import get_name, read_rows
from captious.io.images import get_image_name
from captious.io.join import gather_references
from captious.io.rows import Row
from captious.metrics.clip.encoded import EncodedMetric
from captious.metrics.clip.specs import Specs, SpecsRouted
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement
from captious.models.encoder import Encoder, count_tokens
from captious.options import SEED, Resampling
from captious.probes._probe_files import find_image_paths, get_text, get_texts
from captious.probes.probe import SENTENCES, TIE, Probe, draw_forest, measure_all
from captious.render import Cell, Chart, Column, Document, Series, Table
from captious.render.document import Value
from captious.stats.bootstrap import Estimate
from captious.stats.shares import compute_shares, number_clusters

Counting = Literal["pooled", "macro", "legacy"]
COUNTINGS: dict[Counting, str] = {
    "pooled": "all steps together",
    "macro": "the mean of the captions' own rates",
    "legacy": "as the authors' code counts, see docs/guide/specificity.md",
}
NEGATIVE_COLUMNS = ("negatives", "neg_captions")
# Suffix of a metric's name in the control with wrong images.
CONTROL = ", wrong image"
# Maximum number of steps in the second chart.
STEPS = 12


@dataclass(frozen=True)
class GrowingCaption:
    """A caption that grows: ``captions[k]`` has k + 1 units, ``negatives[k]`` is it with a wrong unit added."""

    image: str
    captions: tuple[str, ...]
    negatives: tuple[str, ...]
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class Details:
    """The chains of a file, the paths of their images, and the numbers of captions left out."""

    name: str
    chains: tuple[GrowingCaption, ...]
    paths: dict[str, str]
    dropped: dict[str, int]
    drawn: int = 0
    """Wrong units that come from other images."""
    settings: tuple[str, ...] = ()
    """The settings of the texts, for signatures: the grammar that cut them, the seed, the limits on their length."""

    def captions(self) -> CaptionSet:
        """Build a set with every text of every chain as an item: its growing captions, then its negatives."""
        texts = [(text, chain) for chain in self.chains for text in (*chain.captions, *chain.negatives)]
        return CaptionSet.of(
            {str(number): text for number, (text, _) in enumerate(texts)},
            {str(number): chain.references for number, (_, chain) in enumerate(texts)},
            {"image": [self.paths[chain.image] for _, chain in texts]},
            self.name,
        )

    def with_wrong_images(self, seed: int = SEED) -> Details:
        """Pair the same texts with other images: what a score still distinguishes, it takes from the words."""
        if len(self.paths) < 2:
            raise InputError(f"{self.name}: a control against wrong images needs at least 2 images, found 1")
        order = np.random.default_rng(seed).permutation(len(self.paths))
        images, paths = list(self.paths), list(self.paths.values())
        # One cycle through all images, so that none keeps its own.
        moved = {images[one]: paths[other] for one, other in zip(order, np.roll(order, 1), strict=True)}
        return replace(self, paths=moved)

    def within(self, encoder: Encoder, prefix: str = "") -> Details:
        """Cut the chains where a text exceeds the limit of the encoder: a detail beyond it cannot change the score."""
        sizes = count_tokens(encoder, [prefix + text for text in self.captions().candidates.values])
        steps = split_steps(self, sizes.astype(np.float64))
        long = np.maximum(steps.right, steps.wrong) > encoder.limit
        fitting = np.array([len(chain.negatives) for chain in self.chains])
        np.minimum.at(fitting, steps.chain[long], steps.units[long] - 1)
        chains = [
            replace(chain, captions=chain.captions[: number + 1], negatives=chain.negatives[:number])
            for chain, number in zip(self.chains, fitting.tolist(), strict=True)
            if number
        ]
        reason = f"nothing fits the {encoder.limit} tokens of {encoder.name}"
        if not chains:
            raise InputError(f"{self.name}: {reason}")
        lost = len(self.chains) - len(chains)
        return replace(
            self,
            chains=tuple(chains),
            dropped={**self.dropped, **({reason: lost} if lost else {})},
            settings=(*self.settings, f"fitting:{encoder.name}({encoder.limit})"),
        )


@dataclass(frozen=True)
class SpecificityRate:
    """The rates of one metric."""

    metric: str
    label: str
    positive: Estimate
    negative: Estimate
    average: Estimate
    steps: int
    """Steps with all their scores."""
    ties: int
    """Comparisons, of the two a step has, in which both scores are equal."""
    by_units: tuple[tuple[int, int, float, float], ...]
    """Units of the base, steps, and both rates there."""
    signature: str
    truncated: int = 0
    """Texts longer than the encoder reads: what is added beyond its limit changes nothing."""


@dataclass(frozen=True, repr=False)
class Specificity(Probe):
    """Specificity Rates of metrics."""

    details: Details
    rows: Sequence[SpecificityRate]
    counting: Counting

    def document(self) -> Document:
        """Build a row per metric, and the rates by the number of units that the caption already had."""
        rates = ("SR_pos", "SR_neg", "average")
        numbers = ("steps", "ties", "truncated")
        rows: list[list[Value]] = []
        for row in self.rows:
            cells = map(Cell.of, (row.positive, row.negative, row.average))
            rows.append([row.label, *cells, row.steps, row.ties, row.truncated])
        table = Table(
            "specificity",
            f"Specificity Rate in percent, {self.counting}",
            ("metric", *map(self.percent, rates), *map(Column, numbers)),
            rows,
        )
        groups = {
            "SR_pos": [(f"{row.label} SR_pos", row.positive) for row in self.rows],
            "SR_neg": [(f"{row.label} SR_neg", row.negative) for row in self.rows],
        }
        chart = draw_forest("Specificity Rates", groups, "Rates with their intervals over images.", 0.5)
        images, captions = len({chain.image for chain in self.details.chains}), len(self.details.chains)
        notes = [f"{captions:,} captions of {images:,} images; counted {self.counting}: {COUNTINGS[self.counting]}"]
        if self.details.drawn:
            notes.append(f"{self.details.drawn:,} wrong details come from other images")
        notes += [f"left out: {number:,} captions ({reason})" for reason, number in self.details.dropped.items()]
        steps = sum(len(chain.negatives) for chain in self.details.chains)
        notes += [
            f"{row.label}: left out: {steps - row.steps:,} of {steps:,} steps, which have no score"
            for row in self.rows
            if row.steps < steps
        ]
        notes += [
            f"{row.label}: {row.truncated:,} texts are longer than its encoder reads; a detail beyond the limit ties"
            for row in self.rows
            if row.truncated
        ]
        return self.build(
            "Specificity Rate",
            "SR_pos: how often a right detail raises the score. SR_neg: how often a wrong one lowers it. A coin "
            "reaches 50; ties are misses. In percent.",
            (table, chart, self._draw_by_units()),
            "|".join((f"specificity({self.counting})", *self.details.settings)),
            [row.signature for row in self.rows],
            notes,
            answer=[
                part
                for row in self.rows[:SENTENCES]
                for part in (
                    f"{row.label} rises with a right detail in ",
                    self.share(row.positive),
                    " of the steps, and falls with a wrong one in ",
                    self.share(row.negative),
                    "; a coin reaches 50 %. ",
                )
            ],
            counting=self.counting,
            images=images,
            captions=captions,
            metrics=self.rows,
        )

    def _draw_by_units(self) -> Chart:
        last = min(max(units for row in self.rows for units, *_ in row.by_units), STEPS)
        ticks = [str(units) for units in range(1, last + 1)]
        series = []
        for row in self.rows:
            rates = np.full((2, last), np.nan)
            for units, _, positive, negative in row.by_units:
                if units <= last:
                    rates[:, units - 1] = positive, negative
            for name, line in zip(("SR_pos", "SR_neg"), 100 * rates, strict=True):
                series.append(Series(f"{row.label} {name}", ticks, line.tolist()))
        return Chart(
            "lines",
            series,
            "Specificity Rate by number of detail units",
            "The rates, by the number of detail units that the caption already had.",
            reference=50.0,
            reference_name="chance",
        )


def probe_specificity(
    details: Details,
    metrics: Sequence[Metric],
    resampling: Resampling = Resampling(),
    *,
    counting: Counting = "pooled",
    fitting: bool = False,
    control: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Specificity:
    """Compute the Specificity Rate of metrics, any that give a value to a caption of an image.

    ``fitting`` ends every chain where a text would exceed the limit of any metric's encoder. ``control`` also shows
    every metric wrong images: a metric that looks is near 50 there; one that has learned which words continue a caption
    is not.
    """
    for metric in metrics if fitting else ():
        if isinstance(metric, EncodedMetric):
            details = details.within(metric.encoder(), metric.prefix)
        elif isinstance(metric, SpecsRouted):  # its short encoder reads short captions only
            details = details.within(Specs(metric.long).encoder())

    def rates(shown: Details) -> list[SpecificityRate]:
        measured = measure_all(shown.captions(), metrics, progress)
        return [_measure_rate(shown, label, measurement, counting, resampling) for label, measurement in measured]

    rows = rates(details)
    if control:
        images = f"|images:wrong(seed={resampling.seed})"
        rows += [
            replace(row, metric=row.metric + CONTROL, label=row.label + CONTROL, signature=row.signature + images)
            for row in rates(details.with_wrong_images(resampling.seed))
        ]
    return Specificity(details.name, resampling, details, rows, counting)


def _measure_rate(
    details: Details, label: str, measurement: Measurement, counting: Counting, resampling: Resampling
) -> SpecificityRate:
    metric = measurement.metric
    steps = split_steps(details, measurement.values if metric.higher_is_better else -measurement.values)
    hits = steps.hits()
    scored = ~np.isnan(hits).any(axis=1)
    if not scored.any():
        raise InputError(f"{metric}: no step of {details.name} has all its scores")
    rates, chain = hits[scored], steps.chain[scored]
    if counting == "legacy":
        rates, chain = _count_like_authors(steps)
    elif counting == "macro":
        rates, chain = _average_chains(rates, chain)
    image = number_clusters([one.image for one in details.chains])
    both = compute_shares(rates, np.ones_like(rates), image[chain], resampling)
    positive, negative = both.estimates()
    by_units = []
    for number in np.unique(steps.units[scored]).tolist():
        selected = hits[scored & (steps.units == number)]
        by_units.append((number, len(selected), float(selected[:, 0].mean()), float(selected[:, 1].mean())))
    ties = sum(int((np.abs(other - steps.base) <= TIE).sum()) for other in (steps.right, steps.wrong))
    return SpecificityRate(
        str(metric),
        label,
        positive,
        negative,
        both.mean([0, 1]),
        int(scored.sum()),
        ties,
        tuple(by_units),
        str(measurement.signature),
        measurement.signature.counts.get("truncated", 0),
    )


@dataclass(frozen=True, eq=False)
class Steps:
    """The scores of one metric at every step of every chain."""

    base: Floats
    right: Floats
    wrong: Floats
    chain: Ints
    """The chain of each step."""
    units: Ints
    """The number of units of the base."""

    @classmethod
    def of(cls, values: Floats, captions: Ints, negatives: Ints) -> Steps:
        """Split the values of every chain into steps: its growing captions come first, then its negatives.

        ``captions`` and ``negatives`` say how many it has of each.

        >>> steps = Steps.of(np.array([0.1, 0.3, 0.2]), np.array([2]), np.array([1]))
        >>> steps.base.tolist(), steps.right.tolist(), steps.wrong.tolist()
        ([0.1], [0.3], [0.2])
        """
        # Values of a chain of 3 captions:   c1 c2 c3 n1 n2
        #     step 1: base c1, right c2, wrong n1;   step 2: base c2, right c3, wrong n2
        first = np.cumsum(captions + negatives) - (captions + negatives)
        chain = np.repeat(np.arange(len(captions)), negatives)
        step = np.arange(int(negatives.sum())) - np.repeat(np.cumsum(negatives) - negatives, negatives)
        base = first[chain] + step
        return cls(values[base], values[base + 1], values[first[chain] + captions[chain] + step], chain, step + 1)

    def hits(self) -> Floats:
        """Return whether the right detail raises the score, and whether the wrong one lowers it: 1, 0, or NaN if
        unscored.
        """
        return np.stack([compare_scores(self.right, self.base), compare_scores(self.base, self.wrong)], axis=1)


def split_steps(details: Details, values: Floats) -> Steps:
    """Split the values of `Details.captions` into steps."""
    captions = np.array([len(chain.captions) for chain in details.chains], dtype=np.int64)
    return Steps.of(values, captions, np.array([len(chain.negatives) for chain in details.chains], dtype=np.int64))


def compare_scores(higher: Floats, lower: Floats) -> Floats:
    """Return 1 if one score is above the other by more than rounding, 0 if not, NaN if one is missing."""
    missing = np.isnan(higher) | np.isnan(lower)
    return np.where(missing, np.nan, (higher > lower + TIE).astype(np.float64))


def _average_chains(hits: Floats, chain: Ints) -> tuple[Floats, Ints]:
    """Compute the rates of each chain that has a step."""
    chains, index, steps = np.unique(chain, return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(index, weights=column) for column in hits.T], axis=1)
    return sums / steps[:, None], chains


def _count_like_authors(steps: Steps) -> tuple[Floats, Ints]:
    """Count as the authors' code does, chain by chain; the bases of a chain are all its captions but the last."""
    rates, chains = [], []
    numbers, first = np.unique(steps.chain, return_index=True)
    parts = (np.split(values, first[1:]) for values in (steps.base, steps.wrong))
    for chain, base, wrong in zip(numbers.tolist(), *parts, strict=True):
        length = int((base > 0).sum()) - 1
        if length > 1:
            rates.append([(base[1 : length + 1] > base[:length]).mean(), (base[:length] > wrong[:length]).mean()])
            chains.append(chain)
    if not chains:
        raise InputError(
            "legacy counting passes over every caption: none has three growing captions with scores above 0"
        )
    return np.array(rates), np.array(chains)


@dataclass
class _Draft:
    """A chain while it is read: its units, or its captions and negatives themselves."""

    image: str
    references: tuple[str, ...]
    units: list[str]
    wrong: list[str] | None = None
    grown: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    whole: bool = False
    """``units`` is one text that is yet to be cut."""

    def texts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the growing captions, and the negative of each."""
        if self.grown is not None:
            return self.grown
        captions = tuple(" ".join(self.units[: number + 1]) for number in range(len(self.units)))
        return captions, tuple(f"{base} {unit}" for base, unit in zip(captions, self.wrong or [], strict=False))


def read_details(
    source: Any,
    images: str | Path | None = None,
    references: Any = None,
    *,
    seed: int = SEED,
    grammar: str = "code",
) -> Details:
    """Read chains from a file; ``seed`` draws wrong units from other images, ``grammar`` splits captions into units.

    ``references`` by image are for metrics that need them; they win over those of the rows.
    """
    drafts = [draft for row in read_rows(source) for draft in _read_drafts(row)]
    name = get_name(source)
    if not drafts:
        raise InputError(f"{name}: contains no captions")
    if references is not None:
        by_image = gather_references(read_rows(references)).references
        for draft in drafts:
            draft.references = tuple(by_image.get(draft.image) or by_image.get(Path(draft.image).stem) or ())
    settings = []
    if unsplit := [draft for draft in drafts if draft.whole]:
        settings.append(f"units:{grammar}")
        _split_captions(unsplit, grammar)
    dropped: Counter[str] = Counter()
    drawn = _draw_wrong_units(drafts, seed, dropped)
    chains = []
    for draft in drafts:
        captions, negatives = draft.texts()
        if negatives:
            chains.append(GrowingCaption(draft.image, captions, negatives, draft.references))
        elif draft.wrong is not None or draft.grown is not None:
            dropped["fewer than two detail units"] += 1
    if not chains:
        raise InputError(f"{name}: no caption has two detail units to compare")
    paths = find_image_paths([chain.image for chain in chains], images)
    if drawn:
        settings.append(f"wrong:drawn(seed={seed})")
    return Details(name, tuple(chains), paths, dict(dropped), drawn, tuple(settings))


def _read_drafts(row: Row) -> list[_Draft]:
    """Read the chain of a row, or one chain for each of its captions."""
    image, references = get_image_name(row), tuple(get_texts(row, REFERENCE_COLUMNS) or ())
    units, wrong = get_texts(row, UNIT_COLUMNS), get_texts(row, WRONG_UNIT_COLUMNS)
    negatives, several = get_texts(row, NEGATIVE_COLUMNS), get_texts(row, CAPTION_LIST_COLUMNS)
    if units is not None:
        if wrong is not None and len(wrong) not in (len(units), len(units) - 1):
            raise InputError(f"{row.where}: {len(units)} units and {len(wrong)} wrong units, expected as many")
        # There is no step before the first unit, so its wrong unit is dropped if the list has one.
        steps = None if wrong is None else wrong[len(wrong) - len(units) + 1 :]
        return [_Draft(image, references, units, steps)]
    if several is not None and negatives is not None:
        if len(negatives) not in (len(several), len(several) - 1):
            raise InputError(f"{row.where}: {len(several)} captions and {len(negatives)} negatives, expected one fewer")
        return [_Draft(image, references, [], grown=(tuple(several), tuple(negatives[: len(several) - 1])))]
    caption = get_text(row, (*CAPTION_COLUMNS, "description"))
    captions = several if several is not None else [] if caption is None else [caption]
    if not captions:
        raise InputError(f"{row.where}: has no units, no caption and no captions: found {', '.join(row.fields)}")
    return [_Draft(image, references, [text], negatives, whole=True) for text in captions]


def _split_captions(drafts: Sequence[_Draft], grammar: str) -> None:
    """Split captions into units; wrong details of the row are taken in turn, the last one again if they run out."""
    from captious.syntax.units import units

    for draft, parts in zip(drafts, units([draft.units[0] for draft in drafts], grammar=grammar), strict=True):
        draft.units = parts
        if draft.wrong:
            draft.wrong = [draft.wrong[min(step, len(draft.wrong) - 1)] for step in range(len(parts) - 1)]


def _draw_wrong_units(drafts: Sequence[_Draft], seed: int, dropped: Counter[str]) -> int:
    """Draw wrong units if the row has none, and count those without another image to draw from."""
    wanted = [draft.wrong is None and draft.grown is None for draft in drafts]
    wrong = draw_details([draft.image for draft in drafts], [draft.units for draft in drafts], wanted, seed)
    drawn = 0
    for draft, wants, details in zip(drafts, wanted, wrong, strict=True):
        if not wants:
            continue
        if details is None:
            dropped["no other image to draw a wrong detail from"] += 1
            continue
        draft.wrong = details
        drawn += len(details)
    return drawn
