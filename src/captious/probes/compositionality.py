"""Word order tests from any captions, after ARO: the caption against itself with its words in another order.

Four perturbations, each drawn with a seed: nouns change places with nouns and adjectives with adjectives
(``nouns-adjectives``); everything else changes places (``others``); words change places within every three
(``within-trigrams``); groups of three words change places (``trigrams``). A fifth, ``words``, mixes all words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from captious._typing import Floats, Ints
from captious._version import __version__
from captious.captions import CaptionSet
from captious.errors import InputError, nearest
from captious.evaluation import disambiguate_labels
from captious.io.columns import CAPTION_COLUMNS, CAPTION_LIST_COLUMNS, REFERENCE_COLUMNS
from captious.io.formats import Row, name_of, rows_of
from captious.metrics.clip.encoded import EncodedMetric
from captious.metrics.contract import Measurement, Metric
from captious.options import SEED, Resampling
from captious.probes.finding import Figure, Finding, Grid, between, per_cent, plain_name
from captious.probes.specificity import TIE
from captious.probes.vectors import image_of, paths_of, text_of, texts_of
from captious.report.plot import Mark, intervals
from captious.stats.bootstrap import Estimate
from captious.stats.shares import clusters_of, shares
from captious.syntax.tagging import Tagging

ARO = ("nouns-adjectives", "others", "within-trigrams", "trigrams")
PERTURBATIONS = (*ARO, "words")
TRIES = 20
"""Draws before a perturbation is given up that always gives the words in their old order."""


def tagged(captions: Sequence[str], tagger: Tagging | None = None) -> list[list[tuple[str, str]]]:
    """Words with Penn tags, in lower case and without marks, as ARO compares them."""
    from captious.syntax.sentences import sentences
    from captious.syntax.tagging import tagger_named

    tag = tagger or tagger_named("captious")
    parsed = [[list(sentence.tokens) for sentence in sentences(caption)] for caption in captions]
    tags = iter(tag([tokens for one in parsed for tokens in one]))
    found = []
    for one in parsed:
        pairs = [pair for tokens in one for pair in zip(tokens, next(tags), strict=True)]
        found.append([(word.lower(), name) for word, name in pairs if any(map(str.isalnum, word))])
    return found


def perturbed(
    words: Sequence[tuple[str, str]], generator: np.random.Generator, kinds: Sequence[str] = ARO
) -> dict[str, str]:
    """The perturbed captions by kind; a kind that cannot change this caption is left out.

    >>> words = [("a", "DT"), ("red", "JJ"), ("dog", "NN"), ("and", "CC"), ("a", "DT"), ("blue", "JJ"), ("cat", "NN")]
    >>> perturbed(words, np.random.default_rng(0), ["nouns-adjectives"])
    {'nouns-adjectives': 'a blue dog and a red cat'}
    """
    text = np.array([word for word, _ in words], dtype=object)
    found = {}
    for kind in kinds:
        if kind not in PERTURBATIONS:
            known = ", ".join(PERTURBATIONS)
            raise InputError(f"unknown perturbation {kind!r}, expected one of {known}{nearest(kind, PERTURBATIONS)}")
        for _ in range(TRIES):
            order = _order(kind, [tag for _, tag in words], generator)
            if (text[order] != text).any():
                found[kind] = " ".join(text[order])
                break
    return found


def _order(kind: str, tags: Sequence[str], generator: np.random.Generator) -> Ints:
    """A new order of words."""
    number = len(tags)
    order = np.arange(number)
    if kind == "words":
        return generator.permutation(number)
    groups = [np.arange(first, min(first + 3, number)) for first in range(0, number, 3)]
    if kind == "trigrams":
        return np.concatenate([groups[place] for place in generator.permutation(len(groups))] or [order])
    if kind == "nouns-adjectives":
        groups = [_having(tags, "NN"), _having(tags, "JJ")]
    elif kind == "others":
        named = np.union1d(_having(tags, "NN"), _having(tags, "JJ"))
        groups = [np.setdiff1d(order, named)]
    for group in groups:
        order[group] = generator.permutation(group)
    return order


def _having(tags: Sequence[str], start: str) -> Ints:
    return np.array([place for place, tag in enumerate(tags) if tag.startswith(start)], dtype=np.int64)


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
    labels = disambiguate_labels({one.metric: one.label for one in found})
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
    from captious.models.features import cosines, text_features

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
    first, second, wrong = (text_features(encoder, [metric.prefix + text for text in part]) for part in texts)
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


def contests_finding(contests: Contests, found: Sequence[Verdict], how: Resampling) -> Finding:
    """Order tests have a column per perturbation; pair files a row per category."""
    ordered = "negative" not in contests.kinds
    grid = _contests_finding_orders(contests, found, how) if ordered else _contests_finding_pairs(contests, found, how)
    groups = {
        one.metric: [
            Mark(f"{one.label} {'' if category == ALL else category}", *(100 * end for end in (e.value, e.low, e.high)))
            for category, kinds in one.accuracy.items()
            for e in (kinds[ALL],)
        ]
        for one in found
    }
    wrong = max(len(contest.wrong) for contest in contests.contests)
    two = any(len(contest.right) > 1 for contest in contests.contests)
    chance = 100 / 3 if two and wrong == 1 else 100 / (1 + wrong)
    what = "word order" if ordered else "minimal pairs"
    notes = [f"{len(contests.contests):,} captions of {len({contest.image for contest in contests.contests}):,} images"]
    notes += [f"left out: {number:,} captions ({reason})" for reason, number in contests.dropped.items()]
    return Finding(
        f"Compositionality, {what}: {plain_name(contests.name)}",
        "How often the right caption has a higher score than every wrong one, in per cent; a tie is a miss.",
        (grid,),
        (Figure(intervals(groups, "Accuracy", chance), "Accuracy with its interval over images."),),
        tuple(notes),
        (
            f"compositionality({contests.made})|ci:{how.signature('images')}|captious:{__version__}",
            *(one.signature for one in found),
        ),
        {
            "captious": __version__,
            "name": contests.name,
            "kinds": contests.kinds,
            "metrics": [asdict(one) for one in found],
            "ci": how.signature("images"),
        },
    )


def _contests_finding_orders(contests: Contests, found: Sequence[Verdict], how: Resampling) -> Grid:
    columns = ("metric", "all", f"{how.level:.0%} interval", *contests.kinds, "captions")
    rows = tuple(
        (
            one.label,
            per_cent(one.accuracy[ALL][ALL].value),
            between(one.accuracy[ALL][ALL]),
            *(per_cent(one.accuracy[ALL][kind].value) for kind in contests.kinds),
            f"{one.contests:,}",
        )
        for one in found
    )
    return Grid("The caption against its words in another order", columns, rows)


def _contests_finding_pairs(contests: Contests, found: Sequence[Verdict], how: Resampling) -> Grid:
    level, rows = f"{how.level:.0%} interval", []
    both = any(one.text_only for one in found)
    for one in found:
        for category, kinds in one.accuracy.items():
            row = [one.label, category, per_cent(kinds[ALL].value), between(kinds[ALL])]
            text = one.text_only.get(category)
            row += [per_cent(text.value), between(text)] if text is not None else ["—", "—"] if both else []
            rows.append(tuple(row))
        if len(one.accuracy) > 1:
            mean = [one.label, "mean", per_cent(_mean([kinds[ALL].value for kinds in one.accuracy.values()])), "—"]
            texts = [estimate.value for estimate in one.text_only.values()]
            rows.append((*mean, *([per_cent(_mean(texts)), "—"] if both else [])))
    columns = ["metric", "category", "image, ITT" if both else "accuracy", level]
    return Grid(
        "Right against wrong captions", (*columns, *(["text only, TOT", level] if both else [])), tuple(rows), 2
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
