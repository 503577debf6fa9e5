"""Parts of speech that pictures depend on: each word is removed from its text, and the rest is painted again.

This is the study of ImaginE's Figures 5 and 7. Tags are Universal ones, made from Penn tags; the paper used Stanza.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from captious._core.types import Floats, Ints
from captious.captions import CaptionSet
from captious.edits.word_masks import Grouping, get_universal_tag, mask
from captious.errors import InputError
from captious.metrics.imagine import Imagine
from captious.models.encoder import Encoder
from captious.models.painters import Imagined, Painter, imagine
from captious.options import Resampling
from captious.probes.pictures import format_signature, parse_imagine
from captious.probes.probe import Probe, describe_best, draw_forest
from captious.render import Cell, Chart, Column, Document, Series, Table
from captious.stats.bootstrap import Estimate
from captious.stats.shares import compute_shares

# Rows of the table, and frequent words per row.
LISTED, WORDS = 10, 10
# Share of capitals inside sentences above which texts are not captions: 0.5 % in Flickr8k's and 1.5 % in COCO's, 8 % in
# Newsroom's summaries, 14 % in WMT's news.
CAPITALS = 0.04


@dataclass(frozen=True)
class Influence:
    """The effect of removing tokens of one group."""

    group: str
    tokens: int
    frequency: float
    """The share of all tokens that were removed."""
    decrease: Estimate
    """(baseline − masked) / baseline, over the tokens of the group, with an interval over texts."""
    common: tuple[str, ...]
    """The most frequent tokens."""


@dataclass(frozen=True, repr=False)
class Masking(Probe):
    """The influence of each group of words, the largest first."""

    unit = "texts"
    rows: Sequence[Influence]
    baseline: Floats
    """The mean cosine between the pictures of each text from different seeds; NaN if it could not be painted."""
    unpainted: int
    """Texts without one word that cannot be compared, because they or the text itself were not painted."""
    settings: str
    """Painter, seeds and encoder, for the signature."""
    capitals: float = 0.0
    """The share of words inside sentences that start with a capital, if the tagger was made for captions."""

    def document(self) -> Document:
        """Build a row per group, and charts of the frequency and influence of the groups."""
        rows = self.rows[:LISTED]
        share = Column("% of words", decimals=2, scale=100, key="frequency")
        table = Table(
            "masking",
            "Influence of parts of speech",
            ("tag", "frequent words", Column("words"), share, self.percent("decrease %")),
            [(row.group, ", ".join(row.common), row.tokens, row.frequency, Cell.of(row.decrease)) for row in rows],
        )
        frequency = Series("frequency", [row.group for row in rows], [100 * row.frequency for row in rows])
        decrease = {"decrease": [(row.group, row.decrease) for row in rows]}
        painted = ~np.isnan(self.baseline)
        mean = float(self.baseline[painted].mean())
        notes = [f"baseline: mean cosine {mean:.4f} of pictures of one text, over {painted.sum():,} texts"]
        if self.unpainted:
            notes.append(f"{self.unpainted:,} texts without a word could not be painted, or the text itself could not")
        if self.capitals > CAPITALS:
            notes.append(
                f"warning: {100 * self.capitals:.0f} % of the words inside sentences start with a capital, as in news; "
                "our tagger learned from captions and may mistake names: use --tagger spacy"
            )
        return Document(
            f"{self.short_name}: what the pictures depend on",
            "Each word is taken out of its text, what is left painted again. The decrease is of the cosine between "
            "pictures of the text and pictures of what is left, relative to pictures of the text alone, seeds always "
            "different.",
            (
                table,
                Chart("bars", (frequency,), "Frequency", "How many of all words, percent."),
                draw_forest("Decrease", decrease, "Relative decrease in similarity, percent."),
            ),
            notes=notes,
            signatures=(self.settings, f"ci:{self.interval}"),
            data={"influences": self.rows, "baseline": mean, "unpainted": self.unpainted},
            answer=describe_best(
                "changes the pictures most: without such a word, their similarity falls by",
                "",
                [(f"{row.group} ({', '.join(row.common[:2])})", self.share(row.decrease)) for row in self.rows[:1]],
            ),
        )


def probe_masking(
    captions: CaptionSet,
    metric: str | Imagine,
    resampling: Resampling = Resampling(),
    *,
    tagger: str = "captious",
    progress: Callable[[str], None] | None = None,
) -> Masking:
    """Measure the influence of parts of speech on the pictures of candidates, as ``metric`` paints and encodes them."""
    texts = list(dict.fromkeys(text for text in captions.candidates.values if text.strip()))
    if not texts:
        raise InputError(f"{captions.name}: every text is empty")
    metric = parse_imagine(metric)
    painter, encoder = metric.load_painter(), metric.encoder()
    if progress:
        progress("painting")
    rows, baseline, unpainted = measure_influences(texts, painter, encoder, metric.seeds, resampling, tagger=tagger)
    settings = format_signature(painter, encoder, metric.seeds)
    capitals = compute_capital_share(texts) if tagger == "captious" else 0.0
    return Masking(captions.name, resampling, rows, baseline, unpainted, settings, capitals)


def compute_capital_share(texts: Sequence[str]) -> float:
    """Return the share of words with a capital among those that do not begin a sentence.

    >>> compute_capital_share(["A dog runs. It barks at Bill.", "A cat sleeps"])  # of dog, runs, barks, at, Bill, ...
    0.14285714285714285
    """
    capitals = words = 0
    for text in texts:
        begins = True
        for word in text.split():
            if not begins and word[0].isalpha():
                words += 1
                capitals += word[0].isupper()
            begins = word[-1] in '.!?:"'
    return capitals / max(words, 1)


def measure_influences(
    texts: Sequence[str],
    painter: Painter,
    encoder: Encoder,
    seeds: int,
    resampling: Resampling = Resampling(),
    *,
    grouping: Grouping = get_universal_tag,
    tagger: str = "captious",
) -> tuple[list[Influence], Floats, int]:
    """Return the influence of each group, the largest first; the baseline of each text; the number of unpainted texts.

    The baseline is the mean cosine of two pictures of one text from different seeds. What is left of a text is compared
    with the whole text from different seeds too, so that a token that does not matter has the decrease 0.
    """
    if seeds < 2:
        raise InputError(f"seeds={seeds}: the baseline compares pictures of different seeds, expected at least 2")
    masked = mask(texts, grouping, tagger)
    if not masked:
        raise InputError("no word to take out: expected texts of more than one word")
    imagined = imagine(painter, encoder, [*texts, *(one.rest for one in masked)], range(seeds))
    source = np.array([one.text for one in masked])
    baseline = cosines_across_seeds(imagined, np.arange(len(texts)), np.arange(len(texts)))
    before, after = baseline[source], cosines_across_seeds(imagined, source, len(texts) + np.arange(len(masked)))
    painted = ~np.isnan(before) & ~np.isnan(after)
    if not painted.any():
        faults = filter(None, map(imagined.fault, range(len(imagined.index))))
        raise InputError(f"nothing to compare: {next(faults, 'no text was painted with and without a word')}")
    words: dict[str, Counter[str]] = defaultdict(Counter)
    for one in masked:
        words[one.group][one.token.lower()] += 1
    member = np.array([[one.group == group for group in words] for one in masked]) & painted[:, None]
    drop, trials = (np.where(member, column[:, None], 0.0) for column in (before - after, before))
    rows = []
    for (group, counts), estimate in zip(
        words.items(), compute_shares(drop, trials, source, resampling).estimates(), strict=True
    ):
        common = tuple(word for word, _ in counts.most_common(WORDS))
        rows.append(Influence(group, counts.total(), counts.total() / len(masked), estimate, common))
    rows.sort(key=lambda row: -np.nan_to_num(row.decrease.value, nan=-np.inf))
    return rows, baseline, int((~painted).sum())


def cosines_across_seeds(imagined: Imagined, one: Ints, two: Ints) -> Floats:
    """Compute the mean cosine of the pictures of two texts over all pairs of different seeds; NaN if one is missing."""
    rows = np.concatenate([imagined.rows, np.full((1, imagined.rows.shape[1]), np.nan, np.float32)])
    vectors = rows[imagined.index].astype(np.float64)  # texts × seeds × d; −1 is the row of NaN
    seeds = vectors.shape[1]
    # All pairs of seeds from the sums of vectors, less the pairs of equal seeds.
    every = np.einsum("ij,ij->i", vectors.sum(axis=1)[one], vectors.sum(axis=1)[two])
    same = np.einsum("isj,isj->i", vectors[one], vectors[two])
    result: Floats = (every - same) / (seeds * (seeds - 1))
    return result
