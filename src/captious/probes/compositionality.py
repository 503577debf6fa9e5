"""Compositionality: does a metric prefer the right caption to one with other words, or with its words in another order?

Captions alone are tested as in ARO, against themselves with their words in another order. There are four perturbations,
each drawn with a seed: nouns change places with nouns and adjectives with adjectives (``nouns-adjectives``); everything
else changes places (``others``); words change places within every three (``within-trigrams``); groups of three words
change places (``trigrams``). A fifth, ``words``, mixes all words. Pair files contain the wrong captions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet, ImageSource
from captious.edits.orders import ARO, perturb, tag_words
from captious.errors import InputError, format_one_line
from captious.io.columns import CAPTION_COLUMNS, CAPTION_LIST_COLUMNS, REFERENCE_COLUMNS
from captious.io.formats import get_name, get_stem, read_rows
from captious.io.images import CroppedImage, get_image_name
from captious.io.rows import Row
from captious.metrics.clip.encoded import EncodedMetric
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement
from captious.models import EncodedRows, cosines, load_sentences, text_features
from captious.models.encoder import TextWeights
from captious.options import SEED, Resampling
from captious.probes._probe_files import find_image_paths, get_text, get_texts
from captious.probes.probe import SENTENCES, TIE, Probe, draw_forest, measure_all
from captious.render import Answer, Cell, Column, Document, Figure, Table
from captious.render.document import Value
from captious.stats.bootstrap import Estimate
from captious.stats.shares import compute_shares, number_clusters

WRONG_COLUMNS = ("negative", "negative_caption", "negatives", "foil", "false_caption")
RIGHT_COLUMNS = (*CAPTION_COLUMNS, "positive", "true_caption")
# The box of an image in ARO's files of Visual Genome, in pixels.
BOX_COLUMNS = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")
# A pair of attributes counts in ARO's mean if it has as many rows.
ATTRIBUTE_ROWS = 25
# ARO cuts captions to this number of words before it changes their order.
MOST_WORDS = 30
SECOND_COLUMNS = ("caption2", "caption_2", "positive2", "paraphrase")
ALL, NEGATIVE = "all", "negative"
# Settings of a probe that compares texts only.
TEXTS = "text only"


@dataclass(frozen=True)
class CompositionCase:
    """Texts that match an image, and texts that do not, each of a named kind."""

    image: str
    right: tuple[str, ...]
    wrong: tuple[tuple[str, str], ...]
    category: str = ALL
    box: tuple[int, int, int, int] | None = None
    """The part of the image that counts: left, top, right and bottom."""


@dataclass(frozen=True)
class Contests:
    """The contests of some files, and the paths of their images."""

    name: str
    contests: tuple[CompositionCase, ...]
    paths: dict[str, str]
    dropped: dict[str, int]
    settings: str = "minimal pairs"
    """The kind of wrong texts, for signatures."""
    excluded: frozenset[str] = frozenset()
    """Categories that a second mean leaves out."""

    @property
    def kinds(self) -> list[str]:
        """The kinds of wrong texts, in the order they are met."""
        return list(dict.fromkeys(kind for contest in self.contests for kind, _ in contest.wrong))

    @property
    def categories(self) -> list[str]:
        """The categories of contests."""
        return list(dict.fromkeys(contest.category for contest in self.contests))

    def describe_flaws(self) -> list[str]:
        """Return a line for each flaw of the files that decides a contest, with the number of such contests."""
        same = sum(any(wrong in one.right for _, wrong in one.wrong) for one in self.contests)
        copies = sum(len(set(one.right)) < len(one.right) for one in self.contests)
        return [
            *([f"{same:,} with a wrong caption that equals a right one: a miss for every metric"] if same else []),
            *([f"{copies:,} with two equal right captions"] if copies else []),
        ]

    def _get_source(self, case: CompositionCase) -> ImageSource:
        path = self.paths[case.image]
        return path if case.box is None else CroppedImage(path, case.box)

    def captions(self) -> CaptionSet:
        """Build a set with every text as an item: of each contest the right ones, then the wrong ones."""
        texts = [(text, one) for one in self.contests for text in (*one.right, *(wrong for _, wrong in one.wrong))]
        return CaptionSet.of(
            {str(number): text for number, (text, _) in enumerate(texts)},
            columns={"image": [self._get_source(one) for _, one in texts]},
            name=self.name,
        )


@dataclass(frozen=True)
class CompositionAccuracy:
    """The accuracy of one metric in telling right from wrong."""

    metric: str
    label: str
    accuracy: dict[str, dict[str, Estimate]]
    """Accuracy by category, then by kind; ``all`` is every wrong text of a contest at once."""
    text_only: dict[str, Estimate]
    """The share, by category, of cases whose two right texts are nearer to each other than to the wrong one.

    Empty without second ones.
    """
    contests: int
    signature: str


@dataclass(frozen=True, repr=False)
class Compositionality(Probe):
    """Accuracy of metrics in telling right captions from wrong ones."""

    contests: Contests
    rows: Sequence[CompositionAccuracy]

    def document(self) -> Document:
        """Build a table with a column per perturbation for order tests, or a row per category for pair files."""
        ordered = NEGATIVE not in self.contests.kinds
        groups = {
            row.metric: [
                (f"{row.label} {'' if category == ALL else category}", kinds[ALL])
                for category, kinds in row.accuracy.items()
            ]
            for row in self.rows
        }
        contests = self.contests.contests
        wrong = max(len(contest.wrong) for contest in contests)
        two = any(len(contest.right) > 1 for contest in contests)
        chance = 1 / 3 if two and wrong == 1 else 1 / (1 + wrong)
        dropped = [f"left out: {number:,} captions ({reason})" for reason, number in self.contests.dropped.items()]
        dropped += [
            f"{row.label}: left out: {len(contests) - row.contests:,} of {len(contests):,} captions without a score"
            for row in self.rows
            if row.contests < len(contests)
        ]
        return self.build(
            f"Compositionality, {'word order' if ordered else self.contests.settings}",
            "How often the two right captions are nearer to each other than to every wrong one, in percent."
            if self.contests.settings == TEXTS
            else "How often the right caption has a higher score than every wrong one, in percent; a tie is a miss.",
            (
                self._build_order_table() if ordered else self._build_pair_table(),
                draw_forest("Accuracy", groups, "Accuracy with its interval over images.", chance),
            ),
            f"compositionality({self.contests.settings})",
            [row.signature for row in self.rows],
            (
                f"{len(contests):,} captions of {len({contest.image for contest in contests}):,} images",
                *self.contests.describe_flaws(),
                *dropped,
            ),
            answer=self._answer(chance),
            kinds=self.contests.kinds,
            metrics=self.rows,
        )

    def _answer(self, chance: float) -> Answer:
        """Return the plain answer: how often each metric prefers the right caption, and whether that beats chance."""
        parts: list[str | Figure] = []
        for row in self.rows[:SENTENCES]:
            # Of several categories, the worst one is told: a mean would hide it.
            category, kinds = min(row.accuracy.items(), key=lambda one: np.nan_to_num(one[1][ALL].value, nan=np.inf))
            accuracy = kinds[ALL]
            beats = "better than" if accuracy.low > chance else "not shown to be better than"
            verdict = "worse than" if accuracy.high < chance else beats
            what = f" of {row.contests:,} cases" if len(row.accuracy) == 1 else f" of {category}, its worst category"
            found = "joins the two right captions" if self.contests.settings == TEXTS else "prefers the right caption"
            parts += [f"{row.label} {found} in ", self.share(accuracy)]
            parts.append(f"{what}: {verdict} chance ({100 * chance:.1f} %). ")
        return parts

    def _build_order_table(self) -> Table:
        kinds = self.contests.kinds
        order = [Column(kind, decimals=2, scale=100) for kind in kinds]
        rows: list[list[Value]] = []
        for row in self.rows:
            accuracy = row.accuracy[ALL]
            rows.append([row.label, Cell.of(accuracy[ALL]), *(accuracy[kind].value for kind in kinds), row.contests])
        columns: list[Column | str] = ["metric", self.percent(ALL), *order, Column("captions")]
        return Table("accuracy", "The caption against its words in another order", columns, rows)

    def _build_pair_table(self) -> Table:
        both = any(row.text_only for row in self.rows)
        alone = "text only, TOT" if self.contests.settings == TEXTS else "accuracy"
        columns: list[Column | str] = ["metric", "category", self.percent("image, ITT" if both else alone)]
        columns += [self.percent("text only, TOT")] if both else []
        rows: list[list[Value]] = []
        for row in self.rows:
            image = {category: kinds[ALL] for category, kinds in row.accuracy.items()}
            sides = [image, row.text_only] if both else [image]
            for category in image:
                cells = [Cell.of(side[category]) if category in side else None for side in sides]
                rows.append([row.label, category, *cells])
            if len(image) > 1:
                rows.append([row.label, "mean", *(_average(side) for side in sides)])
            if left := self.contests.excluded & image.keys():
                kept = [{name: one for name, one in side.items() if name not in left} for side in sides]
                rows.append([row.label, f"mean without {len(left)} excluded", *map(_average, kept)])
        return Table("accuracy", "Right against wrong captions", columns, rows)


def _average(side: Mapping[str, Estimate]) -> float | None:
    """Return the mean over categories, each of the same weight."""
    return fmean(one.value for one in side.values()) if side else None


def probe_compositionality(
    contests: Contests,
    metrics: Sequence[Metric],
    resampling: Resampling = Resampling(),
    progress: Callable[[str], None] | None = None,
) -> Compositionality:
    """Score every contest with every metric; a tie is a miss, intervals are over images."""
    rows = [
        _measure_accuracy(contests, label, measurement, resampling)
        for label, measurement in measure_all(contests.captions(), metrics, progress)
    ]
    return Compositionality(contests.name, resampling, contests, rows)


def probe_texts(contests: Contests, weights: TextWeights, resampling: Resampling = Resampling()) -> Compositionality:
    """Compare texts only (SugarCrepe++'s TOT) by a sentence encoder: no image is needed, a tie is a miss."""
    encoder = load_sentences(weights)
    hits = _compare_trios(contests, lambda texts: text_features(encoder, texts))
    image = number_clusters([contest.image for contest in contests.contests])
    category = np.array([contest.category for contest in contests.contests])
    accuracy = {}
    for name in contests.categories:
        selected = category == name
        scored = ~np.isnan(hits[selected, None])
        counts = np.where(scored, hits[selected, None], 0.0), scored.astype(np.float64)
        (share,) = compute_shares(*counts, image[selected], resampling).estimates()
        accuracy[name] = {ALL: share}
    signature = f"texts|{encoder.name}#{encoder.fingerprint}"
    row = CompositionAccuracy("texts", encoder.name, accuracy, {}, int((~np.isnan(hits)).sum()), signature)
    return Compositionality(contests.name, resampling, contests, [row])


def read_contests(
    sources: Sequence[Any],
    images: str | Path | None = None,
    *,
    perturbations: Sequence[str] = ARO,
    seed: int = SEED,
    text_only: bool = False,
    exclude: str | Path | None = None,
) -> Contests:
    """Read pair files as they are; captions without wrong texts are perturbed. Texts only need no images.

    ``exclude`` is a file of categories, one per line, that a second mean leaves out, such as ARO's symmetric relations.
    Pairs of attributes with fewer than 25 rows are left out of that mean too, as in ARO.
    """
    contests: list[CompositionCase] = []
    plain: list[tuple[str, str]] = []
    attributes: Counter[str] = Counter()
    for source in sources:
        for row in read_rows(source):
            if get_texts(row, ("attributes",)) and row.fields.get("false_caption"):
                attributes[_get_category(row, "")] += 1
            contest = _read_contest(row, get_stem(get_name(source)))
            if contest is None:
                captions = get_texts(row, (*CAPTION_LIST_COLUMNS, *CAPTION_COLUMNS, *REFERENCE_COLUMNS))
                if not captions:
                    columns = ", ".join(row.fields)
                    raise InputError(f"{row.where}: no caption: found {columns}, expected caption and negative")
                plain += [(get_image_name(row), caption) for caption in captions]
            else:
                contests.append(contest)
    name = ", ".join(get_name(source) for source in sources)
    if contests and plain:
        raise InputError(f"{name}: some rows have a negative and some have none, expected one kind of row")
    rare = frozenset(category for category, rows in attributes.items() if rows < ATTRIBUTE_ROWS)
    dropped: dict[str, int] = {}
    settings = Contests.settings
    if plain:
        settings = f"word order,seed={seed}"
        contests = _perturb_captions(plain, perturbations, seed)
        if lost := len(plain) - len(contests):
            dropped = {"no other order of its words": lost}
    if not contests:
        raise InputError(f"{name}: contains no caption that can be compared")
    if text_only:
        if not any(len(contest.right) > 1 for contest in contests):
            raise InputError(f"{name}: no second right caption (caption2), which a comparison of texts only needs")
        return Contests(name, tuple(contests), {}, dropped, TEXTS)
    paths = find_image_paths([contest.image for contest in contests], images)
    return Contests(name, tuple(contests), paths, dropped, settings, rare | _read_excluded(exclude, contests))


def _read_contest(row: Row, stem: str) -> CompositionCase | None:
    """Read the contest of a row; None if the row has no wrong text."""
    image, wrong = get_image_name(row), get_texts(row, WRONG_COLUMNS)
    caption, second = get_text(row, RIGHT_COLUMNS), get_text(row, SECOND_COLUMNS)
    if wrong is None:
        return None
    if not wrong:
        raise InputError(f"{row.where}: the list of negatives is empty, expected at least one")
    if caption is None:
        raise InputError(f"{row.where}: a negative without a caption: found {', '.join(row.fields)}")
    right = (caption,) if second is None else (caption, second)
    negatives = tuple((NEGATIVE, text) for text in wrong)
    return CompositionCase(image, right, negatives, _get_category(row, stem), _read_box(row))


def _get_category(row: Row, stem: str) -> str:
    """Return the category of a row: its own, ARO's relation or pair of attributes, or else the name of its file."""
    attributes = get_texts(row, ("attributes",))
    named = (row.fields.get(name) for name in ("category", "type", "relation_name"))
    return str(next(filter(None, named), None) or "_".join(attributes or ()) or stem)


def _read_box(row: Row) -> tuple[int, int, int, int] | None:
    """Return the box of a row as left, top, right and bottom; None if it has none."""
    values = [row.fields.get(name) for name in BOX_COLUMNS]
    if all(value is None for value in values):
        return None
    if not all(isinstance(value, (int, float)) and value >= 0 for value in values) or 0 in values[2:]:
        raise InputError(f"{row.where}: the box {values} ({', '.join(BOX_COLUMNS)}), expected numbers from 0, a size")
    left, top, width, height = (int(value) for value in values)  # type: ignore[arg-type]
    return left, top, left + width, top + height


def _read_excluded(path: str | Path | None, contests: Sequence[CompositionCase]) -> frozenset[str]:
    """Read the categories of a file; raise InputError if no contest has one of them."""
    if path is None:
        return frozenset()
    try:
        names = frozenset(line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({format_one_line(error)})") from None
    known = {contest.category for contest in contests}
    if not names & known:
        raise InputError(f"{path}: names no category of the pairs, which are {', '.join(sorted(known)[:3])}, …")
    return names & known


def _perturb_captions(
    plain: Sequence[tuple[str, str]], perturbations: Sequence[str], seed: int
) -> list[CompositionCase]:
    generator, contests = np.random.default_rng(seed), []
    for (image, _), words in zip(plain, tag_words([text for _, text in plain]), strict=True):
        words = words[:MOST_WORDS]
        wrong = perturb(words, generator, perturbations)
        if wrong:
            contests.append(CompositionCase(image, (" ".join(word for word, _ in words),), tuple(wrong.items())))
    return contests


def _measure_accuracy(
    contests: Contests, label: str, measurement: Measurement, resampling: Resampling
) -> CompositionAccuracy:
    metric = measurement.metric
    values = measurement.values if metric.higher_is_better else -measurement.values
    kinds = contests.kinds
    # Columns: all wrong texts at once, each kind, and the comparison of texts without the image.
    hits = np.full((len(contests.contests), 1 + len(kinds) + 1), np.nan)
    first = 0
    for number, contest in enumerate(contests.contests):
        right = values[first : first + len(contest.right)]
        wrong = values[first + len(right) : first + len(right) + len(contest.wrong)]
        first += len(right) + len(wrong)
        if np.isnan(right).any() or np.isnan(wrong).any():
            continue
        hits[number, 0] = right.min() > wrong.max() + TIE
        for (kind, _), value in zip(contest.wrong, wrong.tolist(), strict=True):
            column = 1 + kinds.index(kind)
            hits[number, column] = np.fmin(hits[number, column], right.min() > value + TIE)
    if isinstance(metric, EncodedMetric):
        hits[:, -1] = compare_texts(contests, metric)
    accuracy, texts = {}, {}
    image = number_clusters([contest.image for contest in contests.contests])
    category = np.array([contest.category for contest in contests.contests])
    for name in contests.categories:
        selected = category == name
        scored = ~np.isnan(hits[selected])
        counts = np.where(scored, hits[selected], 0.0), scored.astype(np.float64)
        *images, by_text = compute_shares(*counts, image[selected], resampling).estimates()
        accuracy[name] = dict(zip([ALL, *kinds], images, strict=True))
        if scored[:, -1].any():
            texts[name] = by_text
    scored_contests = int((~np.isnan(hits[:, 0])).sum())
    return CompositionAccuracy(str(metric), label, accuracy, texts, scored_contests, str(measurement.signature))


def compare_texts(contests: Contests, metric: EncodedMetric) -> Floats:
    """Return 1 if the two right texts are nearer to each other than to any wrong one; NaN without a second."""
    encoder = metric.encoder()
    return _compare_trios(contests, lambda texts: text_features(encoder, [metric.prefix + text for text in texts]))


def _compare_trios(contests: Contests, encode: Callable[[Sequence[str]], EncodedRows]) -> Floats:
    hits = np.full(len(contests.contests), np.nan)
    trios = [
        (number, *contest.right, text)
        for number, contest in enumerate(contests.contests)
        if len(contest.right) > 1
        for _, text in contest.wrong
    ]
    if not trios:
        return hits
    owners, *texts = zip(*trios, strict=True)
    first, second, wrong = (encode(part) for part in texts)
    together = cosines(first, second)
    nearer = (together > cosines(first, wrong) + TIE) & (together > cosines(second, wrong) + TIE)
    np.fmin.at(hits, list(owners), nearer.astype(np.float64))
    return hits
