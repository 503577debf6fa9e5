"""The numbers of a study, each computed when first used."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from captious._core.types import Floats
from captious._version import __version__
from captious.metrics.registry import find_key
from captious.options import Resampling
from captious.stats.bootstrap import NAN, Estimate, compute_observed, draw_bootstrap, estimate
from captious.stats.correlation import pearson, rank_shares, soft_pairwise_accuracy
from captious.stats.ranks import Ranks, rank_groups, rank_signature, shared_ranks
from captious.stats.resampling import holm
from captious.stats.tests import compute_bootstrap_p, compute_permutation_p, correlation_test, kendall_test
from captious.study._design import Design, Pairs, RatingRows, find_family
from captious.study._statistic_columns import sign_left_out
from captious.study.judgments import Preferences, Ratings
from captious.study.metric_agreement._contests import MetricContest, TestName, permute_differences, run_williams_test
from captious.study.scores import MetricScores

# Items shown where a metric and people disagree most.
WORST = 20


@dataclass(frozen=True, eq=False, repr=False)
class Analysis:
    """Metrics on the same rated items: statistics, intervals, tests and ranks, computed when first used.

    Items for which any metric has no value are left out for all of them and counted.
    """

    ratings: Ratings | Preferences
    design: Design
    scores: tuple[MetricScores, ...]
    """Only the items of the design, in its order."""
    ids: tuple[str, ...]
    statistic: str
    """The headline: what metrics are ranked and tested by."""
    resampling: Resampling
    test: TestName
    permutations: int
    missing: Mapping[str, int]
    """Items without a value, by metric; an item without a value in one metric is left out of all."""
    protocol: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    progress: Callable[[str], None] = field(default=lambda step: None)
    where: str = field(default="", kw_only=True)
    """The filter that the captions passed; empty if there is none."""
    digits: int | None = field(default=None, kw_only=True)
    """Decimals to which values were rounded; None if they were not."""

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The name of each metric in tables, by its key."""
        return {score.key: score.label for score in self.scores}

    @property
    def rows(self) -> int:
        """Ratings, or pairs, that the statistics are over."""
        return len(self.design.human) if isinstance(self.design, RatingRows) else self.design.items // 2

    @cached_property
    def estimates(self) -> Mapping[str, Mapping[str, Estimate]]:
        """Every statistic of every metric, with its interval."""
        draws = self._draws if self.resampling.samples else {}
        return {
            key: {
                name: Estimate.under(value, draws[key][name], self.resampling, self.design.clusters)
                if draws
                else Estimate(value)
                for name, value in values.items()
            }
            for key, values in self._observed.items()
        }

    @cached_property
    def headlines(self) -> Mapping[str, Estimate]:
        """The headline of every metric with its interval, as in `estimates`; no other statistic is computed for it."""
        family, design = find_family(self.design, self.statistic), self.design
        statistics = {score.key: design.family(family, score.oriented) for score in self.scores}
        return {key: estimate(one, design.clusters, self.resampling)[self.statistic] for key, one in statistics.items()}

    @cached_property
    def ties(self) -> Mapping[str, tuple[float, float]]:
        """The share of row pairs that each metric ties, and the share that people tie."""
        if isinstance(self.design, Pairs):
            gaps = {s.key: s.oriented[self.design.first] - s.oriented[self.design.second] for s in self.scores}
            return {key: (float((gap == 0).mean()), 0.0) for key, gap in gaps.items()}
        return {key: families["kendall"].tie_rates() for key, families in self._families.items()}

    @cached_property
    def soft(self) -> Mapping[str, float]:
        """Soft pairwise accuracy of each metric, where captions come from several systems.

        NaN if two systems captioned no image in common.
        """
        design, seed = self.design, self.resampling.seed
        if not isinstance(design, RatingRows) or design.system is None or "system_tau" not in design.families:
            return {}
        images = np.zeros((len(design.systems), design.clusters), dtype=np.int64)
        images[design.system, design.cluster] = 1
        if not (images @ images.T).all():
            return dict.fromkeys(self.labels, NAN)
        return {
            score.key: soft_pairwise_accuracy(score.oriented, design.mean, design.cluster, design.system, seed=seed)
            for score in self.scores
        }

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Metrics from best to worst by the headline."""
        headline = {key: values[self.statistic] for key, values in self._observed.items()}
        return tuple(sorted(headline, key=lambda key: -np.inf if np.isnan(headline[key]) else headline[key])[::-1])

    @cached_property
    def contests(self) -> tuple[MetricContest, ...]:
        """All pairs of metrics, the better first, Holm-adjusted together."""
        raw = self._test_pairs(list(combinations(self.order, 2)))
        adjusted = holm([contest.p for contest in raw])
        return tuple(replace(contest, p_holm=p) for contest, p in zip(raw, adjusted, strict=True))

    @cached_property
    def ranks(self) -> Mapping[str, Ranks]:
        """The ranks of every metric, the best first: two share one exactly if they do not differ significantly."""
        edge = 1 - self.resampling.level
        return shared_ranks(self.order, [(one.first, one.second) for one in self.contests if one.p_holm < edge])

    @property
    def clusters(self) -> list[tuple[str, ...]]:
        """The metrics of each rank; a metric may have several."""
        return rank_groups(self.ranks)

    def compare(self, first: str, second: str) -> MetricContest:
        """Compare two metrics, by key, name or label; p-values are not adjusted, `contests` has the whole family."""
        return self._test_pairs([(self.key(first), self.key(second))])[0]

    def key(self, name: str) -> str:
        """Find the key of a metric that was named by key, label or name."""
        return find_key(name, self.labels, "this study")

    @property
    def signature(self) -> str:
        """Everything that moves the numbers, on one line."""
        parts = [
            f"study:{self.ratings.name}",
            *([f"rating:{self.ratings.aspect}"] if isinstance(self.ratings, Ratings) and self.ratings.aspect else []),
            *([f"where:{self.where}"] if self.where else []),
            f"statistic:{self.statistic}",
            f"rows:{self.rows}",
            *([f"digits:{self.digits}"] if self.digits is not None else []),
        ]
        parts += [f"items:{self.design.items}", f"images:{self.design.clusters}", *sign_left_out(self.ratings.dropped)]
        parts += [f"ci:{self.resampling.signature('images')}"] if self.resampling.samples else []
        draws = self.permutations if self.test == "permutation" else self.resampling.samples
        parts += [f"test:{self.test}({draws},seed={self.resampling.seed}),holm", rank_signature(self.resampling.level)]
        return "|".join([*parts, f"captious:{__version__}"])

    def test_against_zero(self, key: str) -> dict[str, float]:
        """Compute p-values of no association: tau by the normal approximation over rows, Pearson by t over items, as
        UMIC.
        """
        assert isinstance(self.design, RatingRows)
        values = next(score.oriented for score in self.scores if score.key == key)
        surplus = float(self._families[key]["kendall"].surplus(np.ones((self.design.clusters, 1)))[0])
        r = pearson(self.design.mean, values)
        return {
            "tau": kendall_test(surplus, values[self.design.item], self.design.human).p,
            "pearson": correlation_test(r, self.design.items).p if not math.isnan(r) else float("nan"),
        }

    def disagreements(self, number: int = WORST) -> dict[str, list[dict[str, Any]]]:
        """Find the items of each metric whose rank differs most between the metric and people.

        Standing: the share of items rated (scored) lower, ties half. For pairs: the largest standardized preference of
        the metric for the caption that people rejected.
        """
        return {score.key: self._disagreements(score, number) for score in self.scores}

    def _disagreements(self, score: MetricScores, number: int) -> list[dict[str, Any]]:
        design = self.design
        if isinstance(design, RatingRows):
            people, metric = rank_shares(design.mean), rank_shares(score.oriented)
            gap = metric - people
            return [
                {
                    "items": [self.ids[index]],
                    "human": float(design.mean[index]),
                    "values": [float(score.values[index])],
                    "people": float(people[index]),
                    "metric": float(metric[index]),
                    "gap": float(gap[index]),
                }
                for index in np.argsort(-np.abs(gap), kind="stable")[:number].tolist()
            ]
        gap = (score.oriented[design.second] - score.oriented[design.first]) / (score.values.std() or 1.0)
        worst = [index for index in np.argsort(-gap, kind="stable")[:number].tolist() if gap[index] > 0]
        return [
            {
                "items": [self.ids[side[index]] for side in (design.first, design.second)],
                "values": [float(score.values[side[index]]) for side in (design.first, design.second)],
                "category": design.names[design.category[index]],
                "gap": float(gap[index]),
            }
            for index in worst
        ]

    def _test_pairs(self, pairs: list[tuple[str, str]]) -> list[MetricContest]:
        """Test each pair of metrics, named by their keys; p-values are not adjusted."""
        self.progress("permutations")
        values = {score.key: score.oriented for score in self.scores}
        sides = [(values[one], values[other]) for one, other in pairs]
        permutations = permute_differences(self.design, sides, self.statistic, self.permutations, self.resampling.seed)
        contests = []
        for (one, other), (difference, shuffled) in zip(pairs, permutations, strict=True):
            p, greater = compute_permutation_p(difference, shuffled)
            interval, p_bootstrap = Estimate(difference), NAN
            if self.resampling.samples:
                gaps = self._draws[one][self.statistic] - self._draws[other][self.statistic]
                interval = Estimate.under(difference, gaps, self.resampling, self.design.clusters)
                p_bootstrap = compute_bootstrap_p(difference, gaps)
            williams = run_williams_test(self.design, values[one], values[other])
            chosen = {"permutation": p, "bootstrap": p_bootstrap, "williams": williams.p if williams else p}
            tests = (p, greater, p_bootstrap, williams, chosen[self.test])
            contests.append(MetricContest(one, other, self.statistic, difference, interval.low, interval.high, *tests))
        return contests

    @cached_property
    def _families(self) -> dict[str, dict[str, Any]]:
        """The families of statistics of each metric, as functions of image weights."""
        names = list(dict.fromkeys(self.design.families.values()))
        return {score.key: {name: self.design.family(name, score.oriented) for name in names} for score in self.scores}

    @cached_property
    def _observed(self) -> dict[str, dict[str, float]]:
        return {
            key: {
                name: value
                for statistic in families.values()
                for name, value in compute_observed(statistic, self.design.clusters).items()
            }
            for key, families in self._families.items()
        }

    @cached_property
    def _draws(self) -> dict[str, dict[str, Floats]]:
        """The values of each metric and statistic on resampled images."""
        draws = {}
        for key, families in self._families.items():
            self.progress(f"{self.labels[key]}: intervals")
            parts = draw_bootstrap(list(families.values()), self.design.clusters, self.resampling)
            draws[key] = {name: values for part in parts for name, values in part.items()}
        return draws
