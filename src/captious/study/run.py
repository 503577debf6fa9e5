"""``captious.study``: ratings and measurements to a study; and a recipe with metrics to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from captious.errors import InputError, nearest
from captious.metrics.registry import DEFAULT, parse_all
from captious.options import LEVEL, SAMPLES, SEED
from captious.study.design import Pairs, Rows, pose
from captious.study.ratings import Preferences, Ratings, open_ratings
from captious.study.recipes import RECIPES, Recipe, from_toml
from captious.study.scores import Missing, Scores, scores_of
from captious.study.study import Options, Study, TestName

PER_PAIR = 50
"""Permutations for each two metrics: with fewer, Holm's correction could never reach 5 %."""


def study(
    ratings: Any,
    measurements: Any,
    *,
    recipe: Recipe | None = None,
    statistic: str | None = None,
    samples: int = SAMPLES,
    permutations: int | None = None,
    seed: int = SEED,
    level: float = LEVEL,
    test: TestName = "permutation",
    missing: Missing = "error",
    progress: Callable[[str], None] | None = None,
) -> Study:
    """Hold metrics against people.

    Parameters
    ----------
    ratings
        ``Ratings`` or ``Preferences``, the path of a file with ratings, or ``{id: rating or list of ratings}``.
    measurements
        A report of ``captious.evaluate``, measurements, written metrics such as ``"bleu(n=4),cider"`` where the
        ratings have captions, or ``{name: {id: value}}`` for metrics computed elsewhere.
    recipe
        The protocol: how ratings become rows, which tau. By default every rating is a row and tau-b the headline.
    statistic
        The headline: ``tau_b``, ``tau_c``, ``pearson``, ``spearman``, ``sample_tau``, ``mean`` (of pairs), …
    samples, permutations, seed, level, test
        Of the bootstrap over images and of the tests between metrics (``permutation``, ``bootstrap``, ``williams``).
    missing
        Items without a value of a metric: ``error``, or ``skip`` to go on with those that join.
    progress
        Called with the name of each step as it begins.

    >>> people = {"a": 1, "b": 2, "c": 3, "d": 4}
    >>> found = study(people, {"m": {"a": 0.1, "b": 0.3, "c": 0.2, "d": 0.9}}, samples=0)
    >>> round(found.estimates["m"]["tau_b"].value, 6)
    0.666667
    """
    if isinstance(ratings, (str, Path)):
        ratings = open_ratings(ratings, recipe=recipe)
    elif isinstance(ratings, dict):
        ratings = Ratings.of(ratings)
    if not 0 < level < 1:
        raise InputError(f"confidence level {level}, expected a number between 0 and 1")
    recipe = recipe or Recipe(ratings.name, ())
    listed = isinstance(measurements, (list, tuple))
    if listed and measurements and all(isinstance(score, Scores) for score in measurements):
        scores = list(measurements)
    elif isinstance(measurements, str):
        scores = measure(ratings, measurements, progress)
    else:
        scores = scores_of(measurements, ratings.ids, ratings.name, missing)
    return _assemble(ratings, scores, recipe, statistic, samples, permutations, seed, level, test, progress)


def measure(
    ratings: Ratings | Preferences, metrics: str = DEFAULT, progress: Callable[[str], None] | None = None
) -> list[Scores]:
    """Metrics on the captions that were rated."""
    if ratings.captions is None:
        raise InputError(f"{ratings.name}: ratings without captions; give measurements instead of names of metrics")
    found = []
    for metric in parse_all(metrics):
        if progress:
            progress(metric.label)
        found.append(metric.measure(ratings.captions))
    scores = scores_of(found, ratings.ids, ratings.name)
    return [replace(score, remarks=measured.warnings) for score, measured in zip(scores, found, strict=True)]


def recipe_named(name: str) -> Recipe | None:
    """A built-in recipe, one from a TOML file, or None where the name is neither."""
    if name.endswith(".toml"):
        return from_toml(name)
    if name in RECIPES:
        return RECIPES[name]
    if not Path(name).exists() and "." not in name:
        raise InputError(f"{name}: no such file or recipe, recipes: {', '.join(RECIPES)}{nearest(name, RECIPES)}")
    return None


def _assemble(
    ratings: Ratings | Preferences,
    scores: Sequence[Scores],
    recipe: Recipe,
    statistic: str | None,
    samples: int,
    permutations: int | None,
    seed: int,
    level: float,
    test: TestName,
    progress: Callable[[str], None] | None,
) -> Study:
    known = np.all([~np.isnan(score.values) for score in scores], axis=0)
    missing = {score.key: int(np.isnan(score.values).sum()) for score in scores}
    problem, used = pose(ratings, known, recipe)
    kept = tuple(replace(score, values=score.values[used]) for score in scores)
    for score in kept:
        if np.ptp(score.values) == 0:
            raise InputError(
                f"{score.key} is {score.values[0]:g} on all {len(used)} items of {ratings.name}: a constant correlates "
                "with nothing; leave it out"
            )
    default = "mean" if isinstance(problem, Pairs) else f"tau_{recipe.tau}"
    wanted = statistic or default
    if wanted not in problem.families:
        known_names = list(problem.families)
        hint = nearest(wanted, known_names)
        raise InputError(f"{wanted}: no such statistic of these data, there are {', '.join(known_names)}{hint}")
    if test == "bootstrap" and samples < 1:
        raise InputError("the bootstrap test needs resamples, found samples 0")
    if test == "williams" and (isinstance(problem, Pairs) or problem.items < 4):
        raise InputError(f"Williams' test needs at least 4 rated items, {ratings.name} has {problem.items}")
    pairs = len(scores) * (len(scores) - 1) // 2
    number = permutations if permutations is not None else max(SAMPLES, PER_PAIR * pairs)
    warnings = []
    if test == "permutation" and pairs / (number + 1) >= 1 - level:
        warnings.append(f"{number} permutations cannot reach {1 - level:.2g} after Holm's correction of {pairs} tests")
    if isinstance(problem, Rows) and recipe.expected and len(problem.human) != recipe.expected:
        warnings.append(f"{len(problem.human):,} rows, the full {recipe.name} has {recipe.expected:,}")
    warnings += dict.fromkeys(line for score in kept for line in score.remarks)
    if isinstance(problem, Rows):
        warnings += [
            f"{score.label}: lower is better, its sign is turned" for score in kept if not score.higher_is_better
        ]
    return Study(
        ratings,
        problem,
        kept,
        tuple(ratings.ids[place] for place in used.tolist()),
        Options(wanted, samples, number, seed, level, test),
        missing,
        tuple(recipe.protocol()) if recipe.layouts else (),
        tuple(warnings),
        progress or (lambda step: None),
    )
