"""Captions and ratings of an estimate as arrays: the caption of each rating, and the probability of its draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from captious._core.types import Floats, Ints
from captious.errors import InputError
from captious.io.join import format_first
from captious.options import Missing
from captious.stats.bootstrap import NAN
from captious.stats.resampling import sort_ids
from captious.stats.survey import Answers, Population
from captious.study.few_ratings._caption_table import (
    CaptionTable,
    list_rated_systems,
    make_rated_table,
    match_captions,
    refuse_shared_ratings,
)
from captious.study.judgments import Preferences, Ratings, has_named_raters
from captious.study.rating_files import BATCH, PROBABILITY, STRATUM


@dataclass(frozen=True, eq=False)
class RatedSample:
    """Captions and their ratings as arrays of indices. A match is a caption together with the rated item that it is."""

    table: CaptionTable
    systems: tuple[str, ...]
    system: Ints
    """The system of each caption."""
    image: Ints
    """The image of each caption."""
    stratum: Ints | None
    """The stratum of each caption; None if there are none."""
    item: Ints
    """The caption of each match."""
    row: Ints
    """The rated item of each match."""
    chance: Floats | None
    """The probability of each caption to be drawn; None if it is the same for all."""
    rater: Ints
    """The rater of each column of the ratings."""
    named: bool
    """Whether each column of the ratings is one person."""
    pairs: tuple[tuple[str, str], ...] = ()
    """The two systems that each "system" compares, if people compared pairs."""


def number_names(names: Sequence[str]) -> tuple[list[str], Ints]:
    """Return the distinct names in an order that does not depend on files, and the index of each name in them."""
    distinct = list(dict.fromkeys(names))
    ordered = [distinct[index] for index in sort_ids(distinct)]
    index = {name: number for number, name in enumerate(ordered)}
    return ordered, np.array([index[name] for name in names], dtype=np.int64)


def match_ratings(
    ratings: Ratings, table: CaptionTable | None, missing: Missing, left_out: Counter[str]
) -> tuple[RatedSample, Ratings]:
    """Match ratings to captions; systems without a rating are refused, or left out with ``missing="skip"``."""
    if table is None:
        table = make_rated_table(ratings)
        matches = [(index, index) for index in range(len(ratings.ids))]
    else:
        table, matches, without = match_captions(table, ratings, missing)
        refuse_shared_ratings(table, ratings, matches)
        left_out["a rated caption that is not among the captions"] += without
    rated = {table.systems[row] for row, _ in matches}
    unrated = sorted({*table.systems} - rated)
    if unrated:
        if missing == "error":
            rated_systems = list_rated_systems(ratings)
            names = (
                f"; the ratings are of {format_first(rated_systems)}: SYSTEM=RUN names a run" if rated_systems else ""
            )
            raise InputError(
                f"{ratings.name}: no rating of {format_first(unrated)}, expected at least 2 rated images of every "
                f"system{names}; pass missing='skip' to leave out such systems"
            )
        kept = [index for index, system in enumerate(table.systems) if system in rated]
        new_index = {old: new for new, old in enumerate(kept)}
        left_out["a caption of a system that nobody rated"] += len(table) - len(kept)
        table = table.take(kept)
        matches = [(new_index[row], item) for row, item in matches]
    item, row = (np.array(side, dtype=np.int64) for side in zip(*matches, strict=True))
    chance = _read_chances(ratings, item, row, len(table))
    systems = sorted({*table.systems})
    number = {name: index for index, name in enumerate(systems)}
    _, image = number_names(table.images)
    stratum = None if table.strata is None else number_names(table.strata)[1]
    raters = ratings.raters or tuple(map(str, range(ratings.values.shape[1])))
    system = np.array([number[name] for name in table.systems], dtype=np.int64)
    rater = number_names(raters)[1]
    named = has_named_raters(ratings)
    return RatedSample(table, tuple(systems), system, image, stratum, item, row, chance, rater, named), ratings


def _read_chances(ratings: Ratings, item: Ints, row: Ints, number: int) -> Floats | None:
    """Read the probability of each rated caption to be drawn; None if it is the same for all, or not given.

    The probability in a later batch is that of being drawn in this or an earlier one. So the largest probability of a
    stratum applies to all of its captions.
    """
    cells = ratings.drawn.get(PROBABILITY)
    if cells is None or any(cell in (None, "") for cell in cells):
        return None
    values = []
    for index, cell in enumerate(cells):
        where = ratings.origins[index] if ratings.origins else f"{ratings.name}: {ratings.ids[index]}"
        try:
            value = float(cell)
        except (TypeError, ValueError):
            value = NAN
        if not 0 < value <= 1:
            raise InputError(f"{where}: {PROBABILITY} is {str(cell)[:40]!r}, expected a number above 0 and at most 1")
        values.append(value)
    chances = np.array(values)
    if BATCH in ratings.drawn and STRATUM in ratings.drawn:
        _, strata = number_names(tuple(map(str, ratings.drawn[STRATUM])))
        largest = np.zeros(int(strata.max()) + 1)
        np.maximum.at(largest, strata, chances)
        chances = largest[strata]
    if np.ptp(chances) == 0:
        return None
    result = np.ones(number)
    result[item] = chances[row]
    return result


def match_pairs(judged: Preferences, table: CaptionTable | None, left_out: Counter[str]) -> tuple[RatedSample, Ratings]:
    """Match pairs to captions.

    A "system" of the sample is a pair of systems whose names are sorted. An answer is 1 if the first is preferred.
    """
    answers = judged.answers
    if answers is None or judged.systems is None:
        raise InputError(f"{judged.name}: no systems, expected a column 'systems' with the two systems of every pair")
    swapped = np.array([first > second for first, second in judged.systems])
    # Answers have the number of the preferred caption, 0 or 1: it is turned around unless the names are swapped.
    values = np.where(swapped[:, None], answers.values, 1 - answers.values)
    pair_of = [(min(pair), max(pair)) for pair in judged.systems]
    pairs = sorted({*pair_of})
    names = {pair: f"{pair[0]} – {pair[1]}" for pair in pairs}
    answers = replace(answers, values=values)
    if table is None:
        images = list(answers.groups)
        population = CaptionTable(
            answers.ids, tuple(names[pair] for pair in pair_of), tuple(images), (None,) * len(pair_of), {}, {}, {}
        )
        matches = [(index, index) for index in range(len(pair_of))]
    else:
        population, index = _make_pair_table(table, pairs, names, set(answers.groups))
        matches = [
            (index[image, pair], row)
            for row, (image, pair) in enumerate(zip(answers.groups, pair_of, strict=True))
            if (image, pair) in index
        ]
        left_out["a pair of which a caption is not in the runs"] += len(pair_of) - len(matches)
        if not matches:
            raise InputError(
                f"{judged.name}: no pair is of two captions of {table.name}, which has images such as "
                f"{table.images[0]} and systems {format_first(sorted({*table.systems}))}; SYSTEM=RUN names a run"
            )
    rated = {population.systems[row] for row, _ in matches}
    pairs = [pair for pair in pairs if names[pair] in rated]
    systems = tuple(names[pair] for pair in pairs)
    number = {name: index for index, name in enumerate(systems)}
    kept = [index for index, name in enumerate(population.systems) if name in number]
    new_index = {old: new for new, old in enumerate(kept)}
    population = population.take(kept)
    item = np.array([new_index[caption] for caption, _ in matches], dtype=np.int64)
    row = np.array([answer for _, answer in matches], dtype=np.int64)
    system = np.array([number[name] for name in population.systems], dtype=np.int64)
    raters = answers.raters or tuple(map(str, range(answers.values.shape[1])))
    chance = _read_chances(answers, item, row, len(population))
    sample = RatedSample(
        population,
        systems,
        system,
        number_names(population.images)[1],
        None,
        item,
        row,
        chance,
        number_names(raters)[1],
        has_named_raters(answers),
        tuple(pairs),
    )
    return sample, answers


def _make_pair_table(
    table: CaptionTable,
    pairs: Sequence[tuple[str, str]],
    names: dict[tuple[str, str], str],
    rated: set[str],
) -> tuple[CaptionTable, dict[tuple[str, tuple[str, str]], int]]:
    """Return all pairs of captions of one image by systems that people compared, and the row of each image and pair.

    The values of a pair are the differences of its captions' values.
    """
    by_image: dict[str, dict[str, int]] = {}
    for index, (id, image, system) in enumerate(zip(table.ids, table.images, table.systems, strict=True)):
        # Ratings name the image; runs without a column of images have its name as the id.
        name = id if image not in rated and id in rated else image
        by_system = by_image.setdefault(name, {})
        if system in by_system:
            raise InputError(f"{table.name}: {system} has two captions of image {name}, expected one for pairs")
        by_system[system] = index
    rows: list[tuple[str, tuple[str, str], int, int]] = [
        (image, pair, by_system[pair[0]], by_system[pair[1]])
        for image, by_system in by_image.items()
        for pair in pairs
        if pair[0] in by_system and pair[1] in by_system
    ]
    first, second = [row[2] for row in rows], [row[3] for row in rows]
    population = CaptionTable(
        tuple(f"{image}/{names[pair]}" for image, pair, _, _ in rows),
        tuple(names[pair] for _, pair, _, _ in rows),
        tuple(image for image, *_ in rows),
        (None,) * len(rows),
        {name: values[first] - values[second] for name, values in table.values.items()},
        table.labels,
        table.signatures,
        name=table.name,
    )
    return population, {(image, pair): index for index, (image, pair, _, _) in enumerate(rows)}


def refuse_few(question: str, name: str, sample: RatedSample, item: Ints) -> None:
    """Raise InputError if a system has fewer than two rated images."""
    for number, system in enumerate(sample.systems):
        images = len(np.unique(sample.image[item[sample.system[item] == number]]))
        if images < 2:
            raise InputError(
                f"{name}: {system} has {images} rated image{'s' * (images != 1)} by {question!r}, expected at least 2"
            )


def merge_strata(population: Population, answers: Answers, remarks: list[str]) -> Population:
    """Merge each stratum in which a system has fewer than two rated images with its neighbor."""
    if population.stratum is None:
        return population
    stratum = population.stratum
    merged = 0
    while True:
        strata = int(stratum.max()) + 1
        counts = np.zeros((population.systems, strata), dtype=np.int64)
        rows = np.unique(
            np.stack([population.system[answers.item], stratum[answers.item], population.image[answers.item]]), axis=1
        )
        np.add.at(counts, (rows[0], rows[1]), 1)
        needed = np.zeros_like(counts)
        np.add.at(needed, (population.system, stratum), 1)
        few = np.flatnonzero(((counts < 2) & (needed > 0)).any(axis=0))
        if not len(few) or strata == 1:
            break
        # The last of these strata is merged with the one before it; the first stratum with the second.
        merged_away = max(int(few[-1]), 1)
        stratum = np.where(stratum >= merged_away, stratum - 1, stratum)
        merged += 1
    if merged:
        remarks.append(f"{merged} strata with fewer than 2 rated images of a system are merged with their neighbors")
    return replace(population, stratum=None if int(stratum.max()) == 0 else stratum)
