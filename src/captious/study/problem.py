"""What a metric is held against: rated captions as rows, or pairs of captions with a preferred one.

Every statistic here is a function of how often each image is drawn. A bootstrap draws images with replacement; a
permutation draws, for every image, one of two metrics' values. So both need nothing but weights, and no statistic is
written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from captious.measurement import Floats
from captious.study.bits import Ints

Statistic = Callable[[Floats], dict[str, Floats]]
"""Weights (images × draws) to named values (one per draw), NaN where a draw leaves them undefined."""


class Problem(Protocol):
    """What people said, in the form that statistics need."""

    @property
    def items(self) -> int:
        """How many captions a metric must have values for."""

    @property
    def clusters(self) -> int:
        """How many images are resampled."""

    @property
    def families(self) -> Mapping[str, str]:
        """Every statistic and the family that computes it."""

    def family(self, name: str, values: Floats) -> Statistic:
        """One family of statistics for one metric."""

    def doubled(self) -> Problem:
        """The same people's answers twice, the second time for other images: two metrics on one problem."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Ratings as rows, three of the same caption being three rows or one of their mean."""

    human: Floats
    item: Ints
    """The caption of each row."""
    cluster: Ints
    """The image of each caption."""
    clusters: int
    mean: Floats
    """The mean rating of each caption."""
    system: Ints | None = None
    scale: tuple[float, float] | None = None

    @property
    def items(self) -> int:
        """Captions."""
        return len(self.cluster)

    @property
    def families(self) -> Mapping[str, str]:
        """Statistics of rated captions; those within images and between systems only where there are several."""
        named = dict.fromkeys(("tau_b", "tau_c"), "kendall") | {"spearman": "spearman"}
        named |= dict.fromkeys(("pearson", "r2", "one_minus_r2", "r2_fitted"), "moments")
        if np.bincount(self.cluster, minlength=self.clusters).max() > 1:
            named |= dict.fromkeys(("sample_tau", "accuracy", "accuracy_eq"), "within")
        if self.system is not None and self.system.max() > 1:
            named |= dict.fromkeys(("system_tau", "system_pearson"), "systems")
        return named

    def family(self, name: str, values: Floats) -> Statistic:
        """Tau, rank and product-moment correlation, within images, or between systems."""
        from captious.study.correlation import Moments, Spearman, Systems
        from captious.study.kendall import Kendall
        from captious.study.within import Within

        if name == "kendall":
            return Kendall.of(values, self.human, self.item, self.cluster)
        if name == "spearman":
            return Spearman(Kendall.of(values, self.human, self.item, self.cluster))
        if name == "moments":
            return Moments.of(values[self.item], self.human, self.cluster[self.item], self.clusters, self.scale)
        if name == "within":
            return Within.of(values, self.mean, self.cluster, self.clusters)
        assert self.system is not None
        return Systems(values, self.mean, self.cluster, self.clusters, self.system)

    def doubled(self) -> Rows:
        """Twice the rows: the second half has images of its own."""
        return replace(
            self,
            human=np.tile(self.human, 2),
            item=np.concatenate([self.item, self.item + self.items]),
            cluster=np.concatenate([self.cluster, self.cluster + self.clusters]),
            clusters=2 * self.clusters,
            mean=np.tile(self.mean, 2),
            system=None if self.system is None else np.tile(self.system, 2),
        )


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two captions each, one of them preferred: the share of pairs in which the metric agrees.

    A tie of the metric is half right in the mean and in every category; ``strict`` counts it as wrong.
    """

    first: Ints
    """The preferred caption of each pair."""
    second: Ints
    cluster: Ints
    """The image of each pair."""
    clusters: int
    category: Ints
    names: tuple[str, ...]
    ties: Literal["half", "strict"] = "half"

    @property
    def items(self) -> int:
        """Captions, two to a pair."""
        return 2 * len(self.first)

    @property
    def families(self) -> Mapping[str, str]:
        """The unweighted mean of the categories, the same with ties as wrong, and each category."""
        return dict.fromkeys(("mean", "strict", *self.names), "accuracy")

    def family(self, name: str, values: Floats) -> Statistic:
        """Accuracies."""
        gap = values[self.first] - values[self.second]
        strict = (gap > 0).astype(np.float64)
        right = strict + 0.5 * (gap == 0) * (self.ties == "half")
        key = self.category * self.clusters + self.cluster
        shape = (len(self.names), self.clusters)
        tables = [
            np.bincount(key, part, minlength=shape[0] * shape[1]).reshape(shape)
            for part in (np.ones(len(gap)), right, strict)
        ]

        def accuracies(weights: Floats) -> dict[str, Floats]:
            number, agreed, strictly = (table @ weights for table in tables)
            with np.errstate(invalid="ignore", divide="ignore"):
                shares = agreed / number
                found = {"mean": shares.mean(axis=0), "strict": (strictly / number).mean(axis=0)}
            return found | dict(zip(self.names, shares, strict=True))

        return accuracies

    def doubled(self) -> Pairs:
        """Twice the pairs: the second half has images of its own."""
        return replace(
            self,
            first=np.concatenate([self.first, self.first + self.items]),
            second=np.concatenate([self.second, self.second + self.items]),
            cluster=np.concatenate([self.cluster, self.cluster + self.clusters]),
            clusters=2 * self.clusters,
            category=np.tile(self.category, 2),
        )
