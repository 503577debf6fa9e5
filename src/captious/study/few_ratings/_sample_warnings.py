"""Warnings about the ratings of an estimate: how captions were drawn, and who rated most of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from captious._core.types import Floats
from captious.stats.auxiliary import count_by, effective_number
from captious.stats.survey import Answers, Population, estimate_means
from captious.study.few_ratings._auxiliary_columns import AuxiliaryColumn
from captious.study.few_ratings._rated_sample import RatedSample
from captious.study.judgments import Ratings
from captious.study.rating_files import PROBABILITY

# Largest share of answers "cannot judge" without a warning.
CANNOT_JUDGE = 0.05
# Smallest ratio of Kish's effective sample size to the number, of ratings and of clusters, without a warning.
KISH, DOMINANT = 0.8, 0.5
# Significance level of the test that rated captions differ from all captions.
UNBALANCED = 0.01


def warn_drawing(ratings: Ratings, has_table: bool, remarks: list[str]) -> list[str]:
    """Return a warning if captions were picked by hand; add a remark if it is unknown how they were drawn."""
    cells = ratings.drawn.get(PROBABILITY)
    if cells is not None and any(cell in (None, "") for cell in cells):
        return [
            "the rated captions were picked by hand (no probability): they do not represent the others, and intervals "
            "may be wrong; captious study choose draws captions at random"
        ]
    if cells is None and has_table:
        remarks.append("assumed: all captions had the same chance to be rated")
    return []


def warn_answers(answers: Answers, population: Population, sample: RatedSample) -> list[str]:
    """Return warnings about unequal weights, and raters or images with most of the ratings."""
    warnings = []
    if answers.chance is not None:
        rated = np.unique(answers.item)
        kish = effective_number(1 / answers.chance[rated])
        if kish < KISH * len(rated):
            warnings.append(f"unequal chances: {len(rated):,} rated captions count as {kish:,.0f} (Kish)")
    sizes = {"image": count_by(population.image[answers.item])}
    if answers.rater is not None and len(np.unique(answers.rater)) > 2:
        sizes["rater"] = count_by(answers.rater)
    for what, size in sizes.items():
        if (effective := effective_number(size)) < DOMINANT * len(size):
            warnings.append(
                f"a few {what}s have most of the ratings: {len(size)} {what}s count as {effective:.1f}, and the "
                "interval is rough"
            )
    return warnings


def warn_unjudged(values: Floats, ratings: Ratings) -> list[str]:
    """Return a warning if many answers are "cannot judge"."""
    number = ratings.unjudged
    answers = int((~np.isnan(values)).sum())
    if number > CANNOT_JUDGE * (answers + number):
        share = 100 * number / (answers + number)
        return [f'{share:.0f} % of answers are "cannot judge": the mean is that of captions that can be judged']
    return []


def check_balance(population: Population, answers: Answers, columns: Sequence[AuxiliaryColumn]) -> list[str]:
    """Return a warning for each auxiliary metric whose mean over rated captions differs from that over all."""
    rated = np.unique(answers.item)
    total = len(np.unique(population.image))
    images = len(np.unique(population.image[rated]))
    if images >= total:
        return []
    warnings = []
    system = population.system
    for column in columns:
        if column.label.endswith(" missing"):
            continue
        centered = replace(population, values=column.values[:, None]).center()[:, 0]
        plain = replace(population, stratum=None)
        # The centered metric is estimated as if it were the ratings. Its mean over all captions is 0, so the estimate
        # from the rated ones should be 0 too.
        means = estimate_means(plain, Answers(rated, centered[rated], None, answers.chance), target="items")
        test = means.contrast(np.full(population.systems, 1 / population.systems)).estimate
        # The mean over all images is known, not estimated, so the error has the factor of a finite population.
        test = test._replace(error=test.error * math.sqrt(1 - images / total))
        if test.p < UNBALANCED:
            present = ~np.isnan(column.raw)
            is_rated = np.isin(np.arange(len(system)), rated)
            of_systems = [present & (system == number) for number in np.unique(system)]
            rated_mean = np.mean([column.raw[mask & is_rated].mean() for mask in of_systems])
            total_mean = np.mean([column.raw[mask].mean() for mask in of_systems])
            warnings.append(
                f"the rated captions are not a random sample: {column.label} is {rated_mean:.4g} for them and "
                f"{total_mean:.4g} for all (p {test.p:.2g}); intervals may be wrong"
            )
    return warnings
