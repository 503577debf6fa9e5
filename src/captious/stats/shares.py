"""Shares with intervals: hits over trials, images resampled, all shares of an analysis under the same draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from captious._typing import Floats, Ints
from captious.errors import InputError
from captious.options import LEVEL, SAMPLES, SEED
from captious.stats.resampling import bootstrap_weights
from captious.study.resampling import Estimate


@dataclass(frozen=True)
class Resampling:
    """How intervals are made."""

    samples: int = SAMPLES
    seed: int = SEED
    level: float = LEVEL

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InputError(f"confidence level {self.level}, expected a number between 0 and 1")

    def __str__(self) -> str:
        return f"bootstrap({self.samples},images,seed={self.seed},{100 * self.level:g}%)" if self.samples else "none"


@dataclass(frozen=True, eq=False)
class Shares:
    """Some shares and their values under each resample."""

    values: Floats
    draws: Floats
    """One row per resample."""
    how: Resampling

    def estimates(self) -> list[Estimate]:
        """Each share with its interval."""
        return [
            Estimate.of(float(value), self.draws[:, place], self.how.level) for place, value in enumerate(self.values)
        ]

    def mean(self, places: Sequence[int]) -> Estimate:
        """The plain mean of some of them."""
        chosen = list(places)
        return Estimate.of(float(self.values[chosen].mean()), self.draws[:, chosen].mean(axis=1), self.how.level)


def shares(hits: Floats, trials: Floats, cluster: Ints, how: Resampling) -> Shares:
    """Sums of hits over sums of trials, column by column; rows of one cluster, an image, are drawn together.

    >>> found = shares(np.array([[1.0], [0.0], [1.0]]), np.ones((3, 1)), np.array([0, 0, 1]), Resampling(samples=0))
    >>> round(float(found.values[0]), 6)
    0.666667
    """
    clusters = int(cluster.max()) + 1 if len(cluster) else 0
    top, bottom = _summed(hits, cluster, clusters), _summed(trials, cluster, clusters)
    draws = [np.zeros((0, hits.shape[1]))]
    if how.samples and clusters:
        draws += [_ratio(block @ top, block @ bottom) for block in bootstrap_weights(clusters, how.samples, how.seed)]
    return Shares(_ratio(top.sum(axis=0), bottom.sum(axis=0)), np.concatenate(draws), how)


def clusters_of(names: Sequence[str]) -> Ints:
    """Numbers for names, in the order they are first met.

    >>> clusters_of(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.fromiter((numbers[name] for name in names), dtype=np.int64, count=len(names))


def _summed(rows: Floats, cluster: Ints, clusters: int) -> Floats:
    if not len(rows):
        return np.zeros((clusters, rows.shape[1]))
    return np.stack([np.bincount(cluster, weights=column, minlength=clusters) for column in rows.T], axis=1)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    result: Floats = np.divide(top, bottom, out=np.full_like(bottom, np.nan), where=bottom > 0)
    return result
