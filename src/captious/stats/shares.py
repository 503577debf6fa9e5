"""Shares with intervals: hits over trials, groups resampled, all shares of a probe under the same draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from captious._core.types import Floats, Ints
from captious.options import LEVEL, Resampling
from captious.stats.bootstrap import Estimate
from captious.stats.resampling import bootstrap_weights, sum_clusters
from captious.stats.survey import constant_interval, wilson_interval


@dataclass(frozen=True, eq=False)
class Shares:
    """Some shares and their values under each resample."""

    values: Floats
    draws: Floats
    """One row per resample."""
    resampling: Resampling
    clusters: int
    """The number of groups that are drawn."""

    def estimates(self) -> list[Estimate]:
        """Return each share with its interval."""
        return [
            Estimate.under(float(value), self.draws[:, index], self.resampling, self.clusters)
            for index, value in enumerate(self.values)
        ]

    def mean(self, indices: Sequence[int]) -> Estimate:
        """Return the plain mean of some shares."""
        chosen = list(indices)
        means = self.draws[:, chosen].mean(axis=1)
        return Estimate.under(float(self.values[chosen].mean()), means, self.resampling, self.clusters)


def compute_shares(hits: Floats, trials: Floats, cluster: Ints, resampling: Resampling) -> Shares:
    """Compute sums of hits over sums of trials, column by column; rows of one cluster, an image, are drawn together.

    >>> hits, trials, cluster = np.array([[1.0], [0.0], [1.0]]), np.ones((3, 1)), np.array([0, 0, 1])
    >>> thirds = compute_shares(hits, trials, cluster, Resampling(samples=0))
    >>> round(float(thirds.values[0]), 6)
    0.666667
    """
    clusters = int(cluster.max()) + 1 if len(cluster) else 0
    top, bottom = sum_clusters(hits, cluster, clusters), sum_clusters(trials, cluster, clusters)
    draws = [np.zeros((0, hits.shape[1]))]
    if clusters:
        weights = bootstrap_weights(clusters, resampling.samples, resampling.seed)
        draws += [_divide(block @ top, block @ bottom) for block in weights]
    return Shares(_divide(top.sum(axis=0), bottom.sum(axis=0)), np.concatenate(draws), resampling, clusters)


def estimate_shares(hits: Floats, trials: Floats, cluster: Ints, level: float = LEVEL) -> list[Estimate]:
    """Return sums of hits over sums of trials, column by column, with Wilson's interval over clusters.

    It is valid for few trials too. Eight hits of eight do not prove that all are hits, which resampling would say.

    >>> eight = estimate_shares(np.ones((8, 1)), np.ones((8, 1)), np.arange(8))[0]
    >>> round(eight.low, 6), eight.high  # 0.05 ** (1 / 8)
    (0.687656, 1.0)
    """
    number = int(cluster.max()) + 1
    top, bottom = sum_clusters(hits, cluster, number), sum_clusters(trials, cluster, number)
    total = bottom.sum(axis=0)
    values = _divide(top.sum(axis=0), total)
    groups = (bottom > 0).sum(axis=0)
    estimates = []
    for column, (value, images) in enumerate(zip(values.tolist(), groups.tolist(), strict=True)):
        if images and value in (0.0, 1.0):
            estimates.append(Estimate(value, *constant_interval(value, images, (0.0, 1.0), level), error=0.0))
        elif images < 2:
            estimates.append(Estimate(value))
        else:
            # The standard error of a ratio: what each cluster's hits differ from the share of its trials.
            squares = ((top[:, column] - value * bottom[:, column]) ** 2).sum() * images / (images - 1)
            error = float(np.sqrt(squares) / total[column])
            estimates.append(Estimate(value, *wilson_interval(value, error, images - 1, level), error=error))
    return estimates


def number_clusters(names: Sequence[str]) -> Ints:
    """Assign numbers to names in the order in which they first occur.

    >>> number_clusters(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.fromiter((numbers[name] for name in names), dtype=np.int64, count=len(names))


def _divide(top: Floats, bottom: Floats) -> Floats:
    result: Floats = np.divide(top, bottom, out=np.full_like(bottom, np.nan), where=bottom > 0)
    return result
