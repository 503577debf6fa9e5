"""A study: metrics against people, with intervals, tests and rank clusters, each computed when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

import numpy as np

from captious._typing import Floats
from captious._version import __version__
from captious.errors import InputError, nearest
from captious.options import LEVEL, SAMPLES, SEED, Resampling
from captious.stats.bootstrap import Estimate, bootstrap, observed
from captious.stats.correlation import soft_pairwise_accuracy
from captious.stats.resampling import holm
from captious.stats.tests import rank_clusters
from captious.study.contests import Contest, contests
from captious.study.design import Pairs, Problem, Rows
from captious.study.ratings import Preferences, Ratings
from captious.study.scores import Scores

TestName = Literal["permutation", "bootstrap", "williams"]


@dataclass(frozen=True)
class Options:
    """What moves the numbers of a study beyond its data."""

    statistic: str
    """The headline: what metrics are ranked and tested by."""
    samples: int = SAMPLES
    permutations: int = SAMPLES
    seed: int = SEED
    level: float = LEVEL
    test: TestName = "permutation"


@dataclass(frozen=True, eq=False)
class Study:
    """Metrics on the same rated items. Rows where any metric has no value are left out for all of them and counted."""

    ratings: Ratings | Preferences
    problem: Problem
    scores: tuple[Scores, ...]
    """Only the items of the problem, in its order."""
    ids: tuple[str, ...]
    options: Options
    missing: Mapping[str, int]
    """Items without a value, by metric; whatever one lacks all leave out."""
    protocol: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    progress: Callable[[str], None] = field(default=lambda step: None, repr=False)

    @cached_property
    def estimates(self) -> Mapping[str, Mapping[str, Estimate]]:
        """Every statistic of every metric, with its interval."""
        found = {}
        for score in self.scores:
            draws = self.draws[score.key] if self.options.samples else {}
            found[score.key] = {
                name: Estimate.of(value, draws[name], self.options.level) if draws else Estimate(value)
                for name, value in self._observed[score.key].items()
            }
        return found

    @cached_property
    def ties(self) -> Mapping[str, tuple[float, float]]:
        """Per metric the share of row pairs it ties, and that which people tie."""
        if isinstance(self.problem, Pairs):
            gaps = {s.key: s.oriented[self.problem.first] - s.oriented[self.problem.second] for s in self.scores}
            return {key: (float((gap == 0).mean()), 0.0) for key, gap in gaps.items()}
        return {key: statistics["kendall"].tie_rates() for key, statistics in self.statistics.items()}

    @cached_property
    def soft(self) -> Mapping[str, float]:
        """Soft pairwise accuracy of each metric, where captions come from several systems."""
        problem = self.problem
        if not isinstance(problem, Rows) or problem.system is None or "system_tau" not in problem.families:
            return {}
        return {
            score.key: soft_pairwise_accuracy(
                score.oriented, problem.mean, problem.cluster, problem.system, seed=self.options.seed
            )
            for score in self.scores
        }

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Metrics from best to worst by the headline."""
        headline = {key: found[self.options.statistic] for key, found in self._observed.items()}
        return tuple(sorted(headline, key=lambda key: -np.inf if np.isnan(headline[key]) else headline[key])[::-1])

    @cached_property
    def contests(self) -> tuple[Contest, ...]:
        """All pairs of metrics, the better first, Holm-adjusted together."""
        pairs = list(combinations(self.order, 2))
        raw = contests(self, pairs)
        adjusted = holm([contest.p for contest in raw])
        return tuple(replace(contest, p_holm=p) for contest, p in zip(raw, adjusted, strict=True))

    @cached_property
    def clusters(self) -> list[tuple[str, ...]]:
        """Rank clusters: the metrics of one cannot be told apart."""
        edge = 1 - self.options.level
        return rank_clusters(self.order, {(c.first, c.second): c.p_holm < edge for c in self.contests})

    def rank(self, key: str) -> int:
        """The number of the metric's cluster, 1 for the best."""
        return next(place for place, cluster in enumerate(self.clusters, 1) if key in cluster)

    def compare(self, first: str, second: str) -> Contest:
        """Two metrics, by key, name or label; p-values are not adjusted, `contests` has the whole family."""
        return contests(self, [(self.key(first), self.key(second))])[0]

    def key(self, name: str) -> str:
        """The key of a metric that was named loosely."""
        for names in (
            [score.key for score in self.scores],
            [score.label for score in self.scores],
            [score.key.split("(")[0] for score in self.scores],
        ):
            if names.count(name) == 1:
                return self.scores[names.index(name)].key
        known = [score.key for score in self.scores]
        raise InputError(f"{name!r} is not in this study, only {', '.join(known)}{nearest(name, known)}")

    @property
    def signature(self) -> str:
        """Everything that moves the numbers, on one line."""
        o, parts = self.options, [f"study:{self.ratings.name}", f"statistic:{self.options.statistic}"]
        rows = len(self.problem.human) if isinstance(self.problem, Rows) else self.problem.items // 2
        parts += [f"rows:{rows}", f"items:{self.problem.items}", f"images:{self.problem.clusters}"]
        parts += [f"ci:bootstrap({o.samples},images,seed={o.seed},{o.level:.0%})"] if o.samples else []
        parts.append(f"test:{o.test}({o.permutations if o.test == 'permutation' else o.samples},seed={o.seed}),holm")
        return "|".join([*parts, f"captious:{__version__}"])

    def table(self) -> Any:
        """The result as a table that prints itself."""
        from captious.study.table import table

        return table(self)

    def to_latex(self) -> str:
        """A booktabs table: best in bold, those indistinguishable from it marked."""
        from captious.study.latex import study_table

        return study_table(self)

    def save(self, folder: str, overwrite: bool = False) -> None:
        """Write the study: JSON, CSV, LaTeX, HTML."""
        from captious.study.save import save

        save(self, folder, overwrite)

    @cached_property
    def statistics(self) -> dict[str, dict[str, Any]]:
        """Per metric its families of statistics, as functions of image weights."""
        families = list(dict.fromkeys(self.problem.families.values()))
        return {
            score.key: {name: self.problem.family(name, score.oriented) for name in families} for score in self.scores
        }

    @cached_property
    def _observed(self) -> dict[str, dict[str, float]]:
        return {
            key: {
                name: value
                for statistic in statistics.values()
                for name, value in observed(statistic, self.problem.clusters).items()
            }
            for key, statistics in self.statistics.items()
        }

    @cached_property
    def draws(self) -> dict[str, dict[str, Floats]]:
        """Per metric and statistic its values on resampled images."""
        found = {}
        for score in self.scores:
            self.progress(f"{score.label}: intervals")
            parts = bootstrap(
                list(self.statistics[score.key].values()),
                self.problem.clusters,
                Resampling(self.options.samples, self.options.seed, self.options.level),
            )
            found[score.key] = {name: draws for part in parts for name, draws in part.items()}
        return found
