"""Strengths of systems from comparisons of two at a time: the Bradley–Terry model, and its Elo scale."""

from __future__ import annotations

import math

import numpy as np

from captious._typing import Bools, Floats

ELO_CENTER = 1000.0
ELO_SCALE = 400 / math.log(10)
"""Elo points of one unit of log strength: a lead of 400 points is odds of 10 to 1."""
STEPS, LARGEST_STEP, PRECISE = 100, 2.0, 1e-10


def bradley_terry(wins: Floats, prior: float = 0.0) -> Floats:
    """Log strengths of maximum likelihood, with mean 0, from how often each row's system won against each column's.

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
    finite = _strongly_connected(wins > 0)
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


def elo(strengths: Floats) -> Floats:
    """Log strengths in Elo points; the mean of all systems is 1000.

    >>> elo(np.array([math.log(10) / 2, -math.log(10) / 2])).tolist()  # odds of 10 to 1
    [1200.0, 800.0]
    """
    points: Floats = ELO_CENTER + ELO_SCALE * strengths
    return points


def _strongly_connected(beats: Bools) -> Bools:
    """Whether each system beat each other at least through a chain of others: only then is the maximum finite."""
    number = beats.shape[-1]
    reached = (beats | np.eye(number, dtype=np.bool_)).astype(np.int64)
    for _ in range(max(1, (number - 1).bit_length())):
        reached = (reached @ reached > 0).astype(np.int64)
    return np.asarray(reached.all(axis=(-1, -2)))
