"""Comparisons of two systems at a time: win rates, the Bradley–Terry model, and its Elo scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from captious._core.types import Bools, Floats, Ints
from captious.stats.regression import Contrast
from captious.stats.resampling import sum_clusters

ELO_CENTER = 1000.0
# Elo points of one unit of log strength: a lead of 400 points is odds of 10 to 1.
ELO_SCALE = 400 / math.log(10)
# Wins that each side of a pair of systems has to begin with, so that one that always wins has a finite strength.
PRIOR = 0.5
# The largest change of Elo points by one comparison, if they are updated one by one.
ONLINE_STEP = 4.0
# Penalty on squared effects of covariates.
EFFECT_PENALTY = 0.01
STEPS, LARGEST_STEP, PRECISE = 100, 2.0, 1e-10


def bradley_terry(wins: Floats, prior: float = 0.0) -> Floats:
    """Compute log strengths of maximum likelihood, with mean 0, from how often each row's system won against each
    column's.

    The system i beats j with probability 1 / (1 + exp(θ_j − θ_i)). A tie is half a win of each. Leading axes are
    separate tournaments, such as resamples. ``prior`` is added to the wins of both sides of every pair that met: 1/2
    keeps the strength of a system finite that won, or lost, every time. Where there is no finite maximum, because some
    systems never lost to the others, or never met them, the strengths are NaN.

    >>> bradley_terry(np.array([[0.0, 3.0], [1.0, 0.0]])).round(4).tolist()  # ± log(3 / 1) / 2
    [0.5493, -0.5493]
    """
    wins = np.asarray(wins, dtype=np.float64)
    met = wins + np.swapaxes(wins, -1, -2) > 0
    wins = wins + prior * met
    number = wins.shape[-1]
    games = wins + np.swapaxes(wins, -1, -2)
    finite = _is_strongly_connected(wins > 0)
    strengths = np.zeros(wins.shape[:-1])
    for _ in range(STEPS):
        chances = 1 / (1 + np.exp(strengths[..., None, :] - strengths[..., :, None]))
        gradient = (wins - games * chances).sum(axis=-1)
        if not (np.abs(gradient) > PRECISE)[finite].any():
            break
        curvature = games * chances * (1 - chances)
        # The added constant fixes the mean, which the comparisons leave open.
        hessian = 1 / number - curvature + curvature.sum(axis=-1)[..., None] * np.eye(number)
        hessian[~finite] = np.eye(number)
        step = np.linalg.solve(hessian, np.where(finite[..., None], gradient, 0.0)[..., None])[..., 0]
        strengths = strengths + np.clip(step, -LARGEST_STEP, LARGEST_STEP)
    strengths = strengths - strengths.mean(axis=-1, keepdims=True)
    return np.where(finite[..., None], strengths, np.nan)


class AdjustedStrengths(NamedTuple):
    """Log strengths at equal covariates, and what a covariate does to the log odds of the side that has more of it."""

    strengths: tuple[Contrast, ...]
    """With mean 0; standard errors over clusters."""
    effects: tuple[Contrast, ...]


def adjust_strengths(
    first: Ints, second: Ints, score: Floats, weight: Floats, covariates: Floats, cluster: Ints, prior: float = PRIOR
) -> AdjustedStrengths:
    """Fit Bradley–Terry with covariates: logit P(first wins) = θ_first − θ_second + β · covariates.

    ``score`` is that of the first side: 1, 0, or ½ for a tie; rows count by their ``weight``. A covariate is what the
    first side has more than the second, such as words, or 1 for a position. ``prior`` is that of `bradley_terry`: with
    no covariates, the strengths are the same. Standard errors are those of clusters (sandwich).
    """
    systems, columns = int(max(first.max(), second.max())) + 1, covariates.shape[1]
    pairs = np.unique(np.stack([np.minimum(first, second), np.maximum(first, second)]), axis=1)
    # The prior: half a win of each side of every pair that met, with equal covariates.
    sides = np.concatenate([first, pairs[0]]), np.concatenate([second, pairs[1]])
    y = np.concatenate([score, np.full(pairs.shape[1], 0.5)])
    weights = np.concatenate([weight, np.full(pairs.shape[1], 2 * prior)])
    design = np.zeros((len(y), systems + columns))
    design[np.arange(len(y)), sides[0]] = 1.0
    design[np.arange(len(y)), sides[1]] = -1.0
    design[: len(score), systems:] = covariates
    # The added constant fixes the mean of the strengths, which the comparisons leave open.
    fixed = np.zeros((systems + columns, systems + columns))
    fixed[:systems, :systems] = 1 / systems
    # A weak penalty keeps effects finite if, for example, the longer caption always won.
    fixed[systems:, systems:] = EFFECT_PENALTY * np.eye(columns)
    beta = np.zeros(systems + columns)
    for _ in range(STEPS):
        chances = 1 / (1 + np.exp(-np.clip(design @ beta, -30, 30)))
        gradient = design.T @ (weights * (y - chances))
        gradient[systems:] -= EFFECT_PENALTY * beta[systems:]
        hessian = (design * (weights * chances * (1 - chances))[:, None]).T @ design + fixed
        if np.abs(gradient).max() < PRECISE:
            break
        beta = beta + np.clip(np.linalg.lstsq(hessian, gradient, rcond=None)[0], -LARGEST_STEP, LARGEST_STEP)
    rows = slice(len(score))
    clusters, index = np.unique(cluster, return_inverse=True)
    pulls = design[rows] * (weights * (y - chances))[rows, None]
    influence = sum_clusters(pulls, index.astype(np.int64), len(clusters)) @ np.linalg.pinv(hessian)
    factor = len(clusters) / max(len(clusters) - 1, 1)
    errors = np.sqrt(factor * (influence**2).sum(axis=0))
    found = [Contrast(float(b), float(e), len(clusters) - 1.0) for b, e in zip(beta, errors, strict=True)]
    return AdjustedStrengths(tuple(found[:systems]), tuple(found[systems:]))


def elo(strengths: Floats) -> Floats:
    """Convert log strengths to Elo points; the mean of all systems is 1000.

    >>> elo(np.array([math.log(10) / 2, -math.log(10) / 2])).tolist()  # odds of 10 to 1
    [1200.0, 800.0]
    """
    points: Floats = ELO_CENTER + ELO_SCALE * strengths
    return points


def name_rate(*systems: str) -> str:
    """Return the name of the win rate of a system, or of one against another, among `compute_pairwise_values`."""
    return " ".join(("win rate", *map(repr, systems)))


def name_elo(system: str) -> str:
    """Return the name of the Elo points of a system among `compute_pairwise_values`."""
    return f"elo {system!r}"


def update_elo_online(first: Ints, second: Ints, score: Floats, systems: int, samples: int, seed: int) -> Floats:
    """Compute Elo points updated comparison by comparison, with K = 4 from 1000 on: resamples × systems.

    ``score`` is that of the first system: 1, 0, or ½ for a tie. Points depend on the order of the comparisons, so
    these are drawn with replacement ``samples`` times; without samples the one row has them as they are. The draws are
    those of NumPy's ``RandomState``, as in Chatbot Arena's code.

    >>> update_elo_online(np.array([0, 0]), np.array([1, 1]), np.array([1.0, 0.5]), 2, 0, 0).round(4).tolist()
    [[1001.977, 998.023]]
    """
    number = len(score)
    draws = np.arange(number)[None, :]
    if samples:
        generator = np.random.RandomState(seed)  # the generator of the code whose values are met
        draws = np.stack([generator.choice(number, number, replace=True) for _ in range(samples)])
    points, rows = np.full((len(draws), systems), ELO_CENTER), np.arange(len(draws))
    for drawn in draws.T:
        one, other = first[drawn], second[drawn]
        gap = points[rows, other] - points[rows, one]
        change = ONLINE_STEP * (score[drawn] - 1 / (1 + 10 ** (gap / 400)))
        points[rows, one] += change
        points[rows, other] -= change
    return points


def count_wins(first: Ints, second: Ints, score: Floats, group: Ints, groups: int, systems: int) -> Floats:
    """Return a row per group, such as an image: how often each system won against each other, as systems² numbers.

    ``score`` is that of the first system of each comparison: 1 where it won, 0 where it lost, ½ for a tie.

    >>> count_wins(np.array([0, 0]), np.array([1, 1]), np.array([1.0, 0.5]), np.array([0, 0]), 1, 2).tolist()
    [[0.0, 1.5, 0.5, 0.0]]
    """
    rows = np.zeros((groups, systems**2))
    np.add.at(rows, (group, first * systems + second), score)
    np.add.at(rows, (group, second * systems + first), 1 - score)
    return rows


def compute_pairwise_values(sums: Floats, systems: Sequence[str]) -> dict[str, Floats]:
    """Compute win rates and Elo points of the systems, and the win rate of each against each later one, by their names.

    ``sums`` has a row per draw, each a sum of `count_wins`. NaN where two systems never met.
    """
    number = len(systems)
    wins = sums.reshape(-1, number, number)
    games = wins + np.swapaxes(wins, 1, 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates, pairs = wins.sum(axis=2) / games.sum(axis=2), wins / games
    points = elo(bradley_terry(wins, PRIOR))
    values = {name_rate(name): rates[:, index] for index, name in enumerate(systems)}
    values |= {name_elo(name): points[:, index] for index, name in enumerate(systems)}
    return values | {
        name_rate(one, other): pairs[:, first, second]
        for (first, one), (second, other) in combinations(enumerate(systems), 2)
    }


def _is_strongly_connected(beats: Bools) -> Bools:
    """Return whether each system beat each other, perhaps through a chain: only then is the maximum finite."""
    number = beats.shape[-1]
    reached = (beats | np.eye(number, dtype=np.bool_)).astype(np.int64)
    for _ in range(max(1, (number - 1).bit_length())):
        reached = (reached @ reached > 0).astype(np.int64)
    return np.asarray(reached.all(axis=(-1, -2)))
