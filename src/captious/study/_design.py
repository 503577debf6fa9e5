"""The data that metrics are compared with: rated captions as rows, or pairs of captions with a preferred one.

Every statistic here is a function of how often each image is drawn. A bootstrap draws images with replacement; a
permutation draws, for every image, one of two metrics' values. So both need nothing but weights, and no statistic is
written twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from captious._core.types import Bools, Floats, Ints
from captious.errors import InputError, format_suggestion
from captious.stats.bootstrap import WeightedStatistic
from captious.stats.correlation import Moments, Spearman, SystemMeans, WithinCorrelation, WithinImage
from captious.stats.kendall import Kendall
from captious.study.judgments import TIE, Preferences, Ratings
from captious.study.recipes import PeopleTies, Recipe


@dataclass(frozen=True, eq=False)
class RatingRows:
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
    """The system that wrote each caption, as an index into ``systems``."""
    systems: tuple[str, ...] = ()
    scale: tuple[float, float] | None = None
    rater: Ints | None = None
    """The rater of each row, if the headline is a mean over raters."""

    @property
    def items(self) -> int:
        """The number of captions."""
        return len(self.cluster)

    @property
    def families(self) -> Mapping[str, str]:
        """Statistics of rated captions; those within images and between systems only where there are several."""
        named = dict.fromkeys(("tau_b", "tau_c"), "kendall") | {"spearman": "spearman"}
        named |= dict.fromkeys(("pearson", "r2", "one_minus_r2", "r2_fitted"), "moments")
        if np.bincount(self.cluster, minlength=self.clusters).max() > 1:
            named |= dict.fromkeys(("sample_tau", "accuracy", "accuracy_eq"), "within")
            named |= dict.fromkeys(("sample_pearson", "sample_spearman"), "within_images")
        if self.rater is not None:
            named |= dict.fromkeys(("rater_tau_b", "rater_spearman"), "raters")
        if len(self.systems) > 1:
            named |= dict.fromkeys(("system_tau", "system_pearson"), "systems")
        return named

    def family(self, name: str, values: Floats) -> WeightedStatistic:
        """Make the statistics of a family: tau, rank or Pearson correlation, within images, or between systems."""
        if name == "kendall":
            return Kendall.of(values, self.human, self.item, self.cluster)
        if name == "spearman":
            return Spearman(Kendall.of(values, self.human, self.item, self.cluster))
        if name == "moments":
            return Moments.of(values[self.item], self.human, self.cluster[self.item], self.clusters, self.scale)
        if name == "raters":
            return self._average_raters(values)
        if name == "within_images":
            return WithinCorrelation.of(values, self.mean, self.cluster, self.clusters)
        if name == "within":
            return WithinImage.of(values, self.mean, self.cluster, self.clusters)
        assert self.system is not None
        return SystemMeans(values, self.mean, self.cluster, self.clusters, self.system)

    def _average_raters(self, values: Floats) -> WeightedStatistic:
        """Make the correlations with each rater by itself, averaged over raters."""
        assert self.rater is not None
        rows = [np.flatnonzero(self.rater == rater) for rater in np.unique(self.rater)]
        taus = [Kendall.of(values, self.human[own], self.item[own], self.cluster) for own in rows]
        ranks = [Spearman(tau) for tau in taus]

        def average(weights: Floats) -> dict[str, Floats]:
            return {
                "rater_tau_b": np.mean([tau(weights)["tau_b"] for tau in taus], axis=0),
                "rater_spearman": np.mean([rank(weights)["spearman"] for rank in ranks], axis=0),
            }

        return average

    def subset(self, items: Ints) -> RatingRows:
        """Select some captions; images without one of them are not drawn."""
        index = np.full(self.items, -1)
        index[items] = np.arange(len(items))
        rows = np.flatnonzero(index[self.item] >= 0)
        images, cluster = np.unique(self.cluster[items], return_inverse=True)
        return replace(
            self,
            human=self.human[rows],
            item=index[self.item[rows]],
            cluster=cluster.astype(np.int64),
            clusters=len(images),
            mean=self.mean[items],
            system=None if self.system is None else self.system[items],
            rater=None if self.rater is None else self.rater[rows],
        )

    def repeat_rows(self) -> RatingRows:
        """Repeat the rows; the second half has images of its own."""
        return replace(
            self,
            human=np.tile(self.human, 2),
            item=np.concatenate([self.item, self.item + self.items]),
            cluster=np.concatenate([self.cluster, self.cluster + self.clusters]),
            clusters=2 * self.clusters,
            mean=np.tile(self.mean, 2),
            system=None if self.system is None else np.tile(self.system, 2),
            rater=None if self.rater is None else np.tile(self.rater, 2),
        )


class PairRules(NamedTuple):
    """How pairs are counted, as the recipe says."""

    ties: Literal["half", "strict"] = "half"
    people_ties: PeopleTies = "drop"
    single: bool = False
    """Whether values are compared in single precision."""
    pooled: bool = False
    """Whether the accuracy over all pairs is the headline."""


USUAL_RULES = PairRules()


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two captions each, one of them preferred: the share of pairs in which the metric agrees.

    A tie of the metric is half right in the mean and in every category; ``strict`` counts it as wrong.
    """

    first: Ints
    """The preferred caption of each pair; of a tie of people, the first."""
    second: Ints
    cluster: Ints
    """The image of each pair."""
    clusters: int
    category: Ints
    names: tuple[str, ...]
    """The names of the categories."""
    rules: PairRules = USUAL_RULES
    tied: Bools | None = None
    """The pairs in which people prefer neither caption, if these are kept."""
    metrics: int = 1
    """The number of metrics in the values, which are one after another, with the same number of pairs each."""

    @property
    def items(self) -> int:
        """Captions, two to a pair."""
        return 2 * len(self.first)

    @property
    def families(self) -> Mapping[str, str]:
        """The unweighted mean of the categories, the same with ties as wrong, and each category.

        Where the headline is pooled: that over all pairs, the mean, and ``half``, the pairs that people decided with a
        tie of the metric as ½ and in double precision.
        """
        means = ("pooled", "mean", "half") if self.rules.pooled else ("mean", "strict")
        return dict.fromkeys((*means, *self.names), "accuracy")

    def family(self, name: str, values: Floats) -> WeightedStatistic:
        """Make the accuracies as a function of weights."""
        gap = values[self.first] - values[self.second]
        decided = np.ones(len(gap)) if self.tied is None else (~self.tied).astype(np.float64)
        half = decided * ((gap > 0) + 0.5 * (gap == 0))
        if self.rules.single:
            single = values.astype(np.float32)
            gap = (single[self.first] - single[self.second]).astype(np.float64)
        strict = (gap > 0).astype(np.float64)
        key = self.category * self.clusters + self.cluster
        shape = (len(self.names), self.clusters)
        tables = [
            np.bincount(key, part, minlength=shape[0] * shape[1]).reshape(shape)
            for part in (np.ones(len(gap)), self._right(gap), strict, decided, half)
        ]

        def accuracies(weights: Floats) -> dict[str, Floats]:
            number, agreed, strictly, decisions, halves = (table @ weights for table in tables)
            with np.errstate(invalid="ignore", divide="ignore"):
                shares = agreed / number
                means = {"mean": shares.mean(axis=0)}
                if self.rules.pooled:
                    means |= {"pooled": agreed.sum(axis=0) / number.sum(axis=0)}
                    means |= {"half": halves.sum(axis=0) / decisions.sum(axis=0)}
                else:
                    means |= {"strict": (strictly / number).mean(axis=0)}
            return means | dict(zip(self.names, shares, strict=True))

        return accuracies

    def verdicts(self, gap: Floats) -> Floats:
        """Return the metric's verdict on each pair: 1 for the first caption, 0 for the second, ½ for a tie.

        Where ties are matched, as many pairs are ties as people tied, those with the smallest differences.
        """
        verdicts = np.where(gap > 0, 1.0, np.where(gap < 0, 0.0, 0.5))
        if self.rules.people_ties == "match" and self.tied is not None:
            for part in np.split(np.arange(len(gap)), self.metrics):
                size = np.abs(gap[part])
                number = int(self.tied[part].sum())
                least = np.sort(size)[number] if number < len(part) else np.inf
                verdicts[part[size < least]] = 0.5
        return verdicts

    def _right(self, gap: Floats) -> Floats:
        """Compute how right the metric is on each pair."""
        verdicts = self.verdicts(gap)
        if self.tied is None:
            return verdicts if self.rules.ties == "half" else (verdicts == 1).astype(np.float64)
        if self.rules.people_ties == "half":
            return np.where(self.tied, 0.5, verdicts)
        right: Floats = (verdicts == np.where(self.tied, 0.5, 1.0)).astype(np.float64)
        return right

    def repeat_rows(self) -> Pairs:
        """Repeat the pairs; the second half has images of its own."""
        return replace(
            self,
            first=np.concatenate([self.first, self.first + self.items]),
            second=np.concatenate([self.second, self.second + self.items]),
            cluster=np.concatenate([self.cluster, self.cluster + self.clusters]),
            clusters=2 * self.clusters,
            category=np.tile(self.category, 2),
            tied=None if self.tied is None else np.tile(self.tied, 2),
            metrics=2 * self.metrics,
        )


# Human ratings in the form that statistics need.
#
# Both have the number of captions (`items`) and of images (`clusters`), every statistic with the family that computes
# it (`families`), one family for one metric (`family`), and the same answers twice, the second time for other images
# (`repeat_rows`): two metrics on one design.
Design: TypeAlias = RatingRows | Pairs


# Correlations with each rater by itself, averaged.
BY_RATER = ("rater_tau_b", "rater_spearman")
# Requirements of statistics that some ratings do not meet.
NEEDS = {
    **dict.fromkeys(
        ("system_tau", "system_pearson"), "it needs captions of two systems or more: name their column with system=..."
    ),
    **dict.fromkeys(
        ("sample_tau", "sample_pearson", "sample_spearman", "accuracy", "accuracy_eq"),
        "it needs several captions of one image: name the column of the image with group=...",
    ),
    **dict.fromkeys(("mean", "strict", "pooled"), "it needs pairs of captions with a preferred one"),
}


def find_family(design: Design, statistic: str) -> str:
    """Find the family that computes a statistic; an unknown one is an error."""
    if statistic not in design.families:
        names = list(design.families)
        reason = "" if isinstance(design, Pairs) else NEEDS.get(statistic, "")
        hint = f"; {reason}" if reason else format_suggestion(statistic, names)
        raise InputError(f"{statistic}: no such statistic of these data, there are {', '.join(names)}{hint}")
    return design.families[statistic]


def build_design(ratings: Ratings | Preferences, available: Bools, recipe: Recipe) -> tuple[Design, Ints]:
    """Build the design over the items for which every metric has a value; return it with the indices of these items."""
    if isinstance(ratings, Preferences):
        return _build_pairs_design(ratings, available, recipe)
    return _build_rows_design(ratings, available, recipe)


def _build_rows_design(ratings: Ratings, available: Bools, recipe: Recipe) -> tuple[RatingRows, Ints]:
    used = np.flatnonzero(available & ~np.isnan(ratings.mean))
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
    images, cluster = np.unique(np.array(ratings.groups, dtype=object)[used].astype(str), return_inverse=True)
    if len(images) < 2:
        raise InputError(f"{ratings.name}: all items belong to one image or group, expected at least 2 to resample")
    design = RatingRows(human, item, cluster.astype(np.int64), len(images), mean, scale=ratings.scale)
    if recipe.statistic in BY_RATER:
        if recipe.rows == "mean":
            raise InputError(
                f"{ratings.name}: {recipe.statistic} needs every rater's ratings, rows=mean has only means"
            )
        design = replace(design, rater=rater.astype(np.int64))
    if ratings.systems is not None:
        systems, system = np.unique(np.array(ratings.systems)[used], return_inverse=True)
        design = replace(design, system=system.astype(np.int64), systems=tuple(systems.tolist()))
    return design, used


def _build_pairs_design(pairs: Preferences, available: Bools, recipe: Recipe) -> tuple[Pairs, Ints]:
    both = available.reshape(-1, 2).all(axis=1)
    if both.sum() < 3:
        raise InputError(f"{pairs.name}: {both.sum()} pairs have values of every metric, expected at least 3")
    preferred = pairs.preferred[both]
    tied = preferred == TIE
    first = 2 * np.arange(len(preferred)) + (preferred == 1)
    images, cluster = np.unique(np.array(pairs.groups)[both], return_inverse=True)
    categories = tuple(dict.fromkeys(sorted(np.array(pairs.categories)[both].tolist())))
    category = np.searchsorted(np.array(categories), np.array(pairs.categories)[both])
    rules = PairRules(
        recipe.ties, recipe.people_ties, recipe.precision == "single", pooled=recipe.statistic == "pooled"
    )
    kept = None if recipe.people_ties == "drop" else tied
    design = Pairs(first, first ^ 1, cluster.astype(np.int64), len(images), category, categories, rules, kept)
    return design, np.flatnonzero(np.repeat(both, 2))
