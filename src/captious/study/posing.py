"""Ratings or pairs of captions, under a recipe, to the problem that metrics are held against."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from captious.errors import InputError
from captious.study.bits import Ints
from captious.study.problem import Pairs, Problem, Rows
from captious.study.rated import Preferences, Ratings
from captious.study.recipe import Recipe

Known = npt.NDArray[np.bool_]


def pose(ratings: Ratings | Preferences, known: Known, recipe: Recipe) -> tuple[Problem, Ints]:
    """The problem over the items known to every metric, and which these are."""
    return _pairs(ratings, known, recipe) if isinstance(ratings, Preferences) else _rows(ratings, known, recipe)


def _rows(ratings: Ratings, known: Known, recipe: Recipe) -> tuple[Problem, Ints]:
    used = np.flatnonzero(known & ~np.isnan(ratings.mean))
    if len(used) < 3:
        raise InputError(
            f"{ratings.name}: {len(used)} items have ratings and values of every metric, expected at least 3"
        )
    values, mean = ratings.values[used], ratings.mean[used]
    if recipe.rows == "mean":
        values = mean[:, None]
    item, rater = np.nonzero(~np.isnan(values))
    human = values[item, rater]
    if np.ptp(human) == 0:
        raise InputError(
            f"{ratings.name}: all {len(human)} ratings are {human[0]:g}: agreement with people is undefined"
        )
    names, cluster = np.unique(np.array(ratings.groups, dtype=object)[used].astype(str), return_inverse=True)
    if len(names) < 2:
        raise InputError(f"{ratings.name}: all items belong to one image or group, expected at least 2 to resample")
    system = None
    if ratings.systems is not None:
        system = np.unique(np.array(ratings.systems)[used], return_inverse=True)[1].astype(np.int64)
    return Rows(human, item, cluster.astype(np.int64), len(names), mean, system, ratings.scale), used


def _pairs(pairs: Preferences, known: Known, recipe: Recipe) -> tuple[Problem, Ints]:
    both = known.reshape(-1, 2).all(axis=1)
    if both.sum() < 3:
        raise InputError(f"{pairs.name}: {both.sum()} pairs have values of every metric, expected at least 3")
    preferred = pairs.preferred[both].astype(np.int64)
    first = 2 * np.arange(len(preferred)) + preferred
    names, cluster = np.unique(np.array(pairs.groups)[both], return_inverse=True)
    categories = tuple(dict.fromkeys(sorted(np.array(pairs.categories)[both].tolist())))
    category = np.searchsorted(np.array(categories), np.array(pairs.categories)[both])
    problem = Pairs(first, first ^ 1, cluster.astype(np.int64), len(names), category, categories, recipe.ties)
    return problem, np.flatnonzero(np.repeat(both, 2))
