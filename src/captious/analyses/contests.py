"""Right texts against wrong ones for the same image, judged by any metric: word order tests and minimal pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from captious.analyses.order import ARO, perturbed, tagged
from captious.analyses.reading import image_of, paths_of, text_of, texts_of
from captious.analyses.resampling import Resampling, clusters_of, shares
from captious.analyses.specificity import TIE
from captious.captions import CaptionSet
from captious.defaults import SEED
from captious.errors import InputError
from captious.measurement import Floats, Measurement
from captious.metrics.base import Metric
from captious.metrics.encoded import EncodedMetric
from captious.metrics.labels import told_apart
from captious.readers.columns import CAPTION_COLUMNS, CAPTION_LIST_COLUMNS, REFERENCE_COLUMNS
from captious.readers.rows import Row, name_of, rows_of
from captious.study.resampling import Estimate

WRONG = ("negative", "negative_caption", "negatives", "foil")
SECOND = ("caption2", "caption_2", "positive2", "paraphrase")
ALL = "all"


@dataclass(frozen=True)
class Contest:
    """Texts that suit an image, and texts that do not, each of a named kind."""

    image: str
    right: tuple[str, ...]
    wrong: tuple[tuple[str, str], ...]
    category: str = ALL


@dataclass(frozen=True)
class Contests:
    """The contests of a file, and where the images lie."""

    name: str
    contests: tuple[Contest, ...]
    paths: dict[str, str]
    dropped: dict[str, int]
    made: str = "minimal pairs"
    """What the wrong texts are, for signatures."""

    @property
    def kinds(self) -> list[str]:
        """The kinds of wrong texts, in the order they are met."""
        return list(dict.fromkeys(kind for contest in self.contests for kind, _ in contest.wrong))

    @property
    def categories(self) -> list[str]:
        """The categories of contests."""
        return list(dict.fromkeys(contest.category for contest in self.contests))

    def captions(self) -> CaptionSet:
        """Every text as an item: of each contest the right ones, then the wrong ones."""
        texts = [(text, one) for one in self.contests for text in (*one.right, *(wrong for _, wrong in one.wrong))]
        return CaptionSet.of(
            {str(place): text for place, (text, _) in enumerate(texts)},
            columns={"image": [self.paths[one.image] for _, one in texts]},
            name=self.name,
        )


@dataclass(frozen=True)
class Verdict:
    """How often a metric tells right from wrong."""

    metric: str
    label: str
    accuracy: dict[str, dict[str, Estimate]]
    """By category, then by kind; ``all`` is every wrong text of a contest at once."""
    text_only: dict[str, Estimate]
    """By category: the two right texts are nearer to each other than to the wrong one. Empty without second ones."""
    contests: int
    signature: str


def read_contests(
    sources: Sequence[Any], images: str | Path | None = None, *, kinds: Sequence[str] = ARO, seed: int = SEED
) -> Contests:
    """Pair files as they are; captions without wrong texts get perturbed ones."""
    found: list[Contest] = []
    plain: list[tuple[str, str]] = []
    for source in sources:
        for row in rows_of(source):
            found += _pairs(row, Path(name_of(source)).stem, plain)
    name = ", ".join(name_of(source) for source in sources)
    if found and plain:
        raise InputError(f"{name}: some rows have a negative and some have none, expected one kind of rows")
    dropped: dict[str, int] = {}
    made = "minimal pairs"
    if plain:
        made = f"word order,seed={seed}"
        found, lost = _orders(plain, kinds, seed)
        dropped = {"no other order of its words": lost} if lost else {}
    if not found:
        raise InputError(f"{name}: holds no caption that can be compared")
    return Contests(name, tuple(found), paths_of([one.image for one in found], images, name), dropped, made)


def judge(
    contests: Contests, metrics: Sequence[Metric], how: Resampling, progress: Callable[[str], None] | None = None
) -> list[Verdict]:
    """Every metric on every contest; a tie is a miss, intervals are over images."""
    captions, found = contests.captions(), []
    for metric in metrics:
        if progress:
            progress(metric.label)
        measured = metric.measure(captions)
        metric.refuse_empty(measured, contests.name)
        found.append(_verdict(contests, measured, how))
    labels = told_apart({one.metric: one.label for one in found})
    return [replace(one, label=labels[one.metric]) for one in found]


def _verdict(contests: Contests, measured: Measurement, how: Resampling) -> Verdict:
    metric = measured.metric
    values = measured.values if metric.higher_is_better else -measured.values
    kinds = contests.kinds
    hits = np.full((len(contests.contests), len(kinds) + 1), np.nan)
    place = 0
    for number, contest in enumerate(contests.contests):
        right = values[place : place + len(contest.right)]
        wrong = values[place + len(right) : place + len(right) + len(contest.wrong)]
        place += len(right) + len(wrong)
        if np.isnan(right).any() or np.isnan(wrong).any():
            continue
        hits[number, 0] = float(right.min() > wrong.max() + TIE)
        for (kind, _), value in zip(contest.wrong, wrong.tolist(), strict=True):
            column = 1 + kinds.index(kind)
            won = float(right.min() > value + TIE)
            hits[number, column] = won if np.isnan(hits[number, column]) else min(won, hits[number, column])
    told = text_only(contests, metric) if isinstance(metric, EncodedMetric) else np.full(len(hits), np.nan)
    accuracy, texts = {}, {}
    for category in contests.categories:
        here = np.array([contest.category == category for contest in contests.contests])
        names = [ALL, *kinds]
        accuracy[category] = dict(zip(names, _shares(contests, hits, here, how), strict=True))
        if not np.isnan(told[here]).all():
            texts[category] = _shares(contests, told[:, None], here, how)[0]
    known = int((~np.isnan(hits[:, 0])).sum())
    return Verdict(str(metric), metric.label, accuracy, texts, known, str(measured.signature))


def text_only(contests: Contests, metric: EncodedMetric) -> Floats:
    """1 where the two right texts are nearer to each other than either is to any wrong one; NaN without a second."""
    from captious.encoders.features import cosines, text_features

    encoder, told = metric.encoder(), np.full(len(contests.contests), np.nan)
    two = [number for number, contest in enumerate(contests.contests) if len(contest.right) > 1]
    owners = [number for number in two for _ in contests.contests[number].wrong]
    if not owners:
        return told
    texts = [
        [contests.contests[number].right[0] for number in owners],
        [contests.contests[number].right[1] for number in owners],
        [text for number in two for _, text in contests.contests[number].wrong],
    ]
    first, second, wrong = (text_features(encoder, [metric.opening + text for text in part]) for part in texts)
    together = cosines(first, second)
    won = (together > cosines(first, wrong) + TIE) & (together > cosines(second, wrong) + TIE)
    for number, good in zip(owners, won.tolist(), strict=True):
        told[number] = float(good) if np.isnan(told[number]) else min(told[number], float(good))
    return told


def _shares(contests: Contests, hits: Floats, here: Any, how: Resampling) -> list[Estimate]:
    cluster = clusters_of([contest.image for contest in contests.contests])[here]
    known = ~np.isnan(hits[here])
    return shares(np.where(known, hits[here], 0.0), known.astype(np.float64), cluster, how).estimates()


def _pairs(row: Row, stem: str, plain: list[tuple[str, str]]) -> list[Contest]:
    image = image_of(row)
    wrong = texts_of(row, WRONG)
    caption, second = text_of(row, (*CAPTION_COLUMNS, "positive")), text_of(row, SECOND)
    if wrong is None:
        captions = texts_of(row, (*CAPTION_LIST_COLUMNS, *CAPTION_COLUMNS, *REFERENCE_COLUMNS))
        if not captions:
            raise InputError(f"{row.where}: no caption: found {', '.join(row.fields)}, expected caption and negative")
        plain += [(image, text) for text in captions]
        return []
    if caption is None:
        raise InputError(f"{row.where}: a negative without a caption: found {', '.join(row.fields)}")
    category = str(row.fields.get("category") or row.fields.get("type") or stem)
    right = (caption,) if second is None else (caption, second)
    return [Contest(image, right, tuple(("negative", text) for text in wrong), category)]


def _orders(plain: Sequence[tuple[str, str]], kinds: Sequence[str], seed: int) -> tuple[list[Contest], int]:
    generator, found = np.random.default_rng(seed), []
    for (image, _), words in zip(plain, tagged([text for _, text in plain]), strict=True):
        wrong = perturbed(words, generator, kinds)
        if wrong:
            found.append(Contest(image, (" ".join(word for word, _ in words),), tuple(wrong.items())))
    return found, len(plain) - len(found)
