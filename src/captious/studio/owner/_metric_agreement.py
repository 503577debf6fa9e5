"""Agreement of chosen metrics with the ratings so far, computed as a study of the export would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from captious.errors import InputError
from captious.options import LEVEL, Resampling
from captious.render import Cell, Chart, Column, Section, Series, Table, Text
from captious.render.document import Value
from captious.stats.bootstrap import Estimate
from captious.studio.collect.kinds.ratings import find_rated_aspect
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.study_plan import Plan
from captious.studio.owner.export import FILES, build_answer_tables, make_study_recipe
from captious.study import correlate
from captious.study.judgments import Preferences, Ratings, open_judgments
from captious.study.scores import MetricScores, measure

if TYPE_CHECKING:
    from captious.studio.collect._events import Answered

# Default metrics for captions with references.
USUAL = ("bleu(n=4)", "rouge", "cider")
# Statistic of metric agreement, by kind of task.
STATISTICS = {"ratings": "tau_b", "ranking": "sample_tau", "pairs": "mean"}
MEANINGS = {
    "tau_b": "Kendall's tau-b with the ratings",
    "sample_tau": "Kendall's tau-b with the ranks of each set, averaged",
    "mean": "share of preferences that the metric shares",
}
LABELS = {"tau_b": "τ-b × 100", "sample_tau": "τ-b within a set × 100", "mean": "accuracy × 100"}


@dataclass(frozen=True)
class MetricAgreement:
    """Metrics from the best to the worst, with intervals; or the reason why there is no result yet."""

    statistic: str
    estimates: Mapping[str, Estimate]
    """The estimate of each metric, by its label."""
    rated: int
    """Captions, or pairs, with an answer."""
    of: str = ""
    """The name of the rating, such as overall."""
    reason: str = ""
    level: float = LEVEL

    def sections(self) -> list[Section]:
        """Return a table and a forest plot, or the reason why there is no result."""
        title = "Metric agreement so far"
        if self.reason:
            return [Text([self.reason], title)]
        return [self.build_table(title), self.build_chart()]

    def build_table(self, title: str = "") -> Table:
        """Build a table with a row per metric."""
        value = Column(LABELS[self.statistic], scale=100, decimals=1, level=self.level, bold=True, key=self.statistic)
        rows: list[list[Value]] = [[name, Cell.of(one)] for name, one in self.estimates.items()]
        return Table("metrics", title, ["metric", value], rows, f"{self.rated:,} rated {self._units}: {self.of}")

    def build_chart(self) -> Chart:
        """Build the forest plot."""
        values = [(100 * one.value, 100 * one.low, 100 * one.high) for one in self.estimates.values()]
        points, low, high = zip(*values, strict=True)
        chance = 50.0 if self.statistic == "mean" else 0.0
        series = Series(LABELS[self.statistic], list(self.estimates), points, low, high)
        note = (
            f"{MEANINGS[self.statistic]}; {self.rated:,} rated {self._units} so far; intervals: bootstrap over images."
        )
        return Chart("intervals", [series], "", note, LABELS[self.statistic], "", chance, "chance")

    @property
    def _units(self) -> str:
        return "pairs" if self.statistic == "mean" else "captions"

    def data(self) -> dict[str, Any]:
        """Return the agreement as JSON."""
        return {
            "statistic": self.statistic,
            "of": self.of,
            "rated": self.rated,
            "reason": self.reason,
            "metrics": dict(self.estimates),
        }


class MetricValues:
    """Values of metrics on the rated captions, as ``captious study run`` computes them on the export.

    They are recomputed when more captions have been rated: CIDEr's document frequencies depend on all references.
    """

    def __init__(self, metrics: Sequence[str]) -> None:
        self.metrics = tuple(metrics)
        self._ids: tuple[str, ...] = ()
        self._scores: list[MetricScores] = []

    def compute_values(self, people: Ratings | Preferences) -> list[MetricScores]:
        """Return the values in the order of the ratings, from the cache if the same captions are rated."""
        if self._ids != people.ids:
            # A metric may be constant on the first captions: with named=False it is left out without an error.
            self._scores = [replace(one, named=False) for one in measure(people, self.metrics)]
            self._ids = people.ids
        return self._scores


def compute_metric_agreement(
    plan: Plan,
    tasks: Mapping[str, Task],
    answers: Sequence[Answered],
    values: MetricValues,
    resampling: Resampling = Resampling(),
) -> MetricAgreement:
    """Compute the agreement of each metric with the answers so far, without those of excluded raters.

    It is the study of exactly the rows and the recipe that an export writes.
    """
    recipe = make_study_recipe(plan, tasks.values())
    if recipe is None:
        raise InputError(f"a study of kind {plan.kind} has no metric agreement, expected {', '.join(STATISTICS)}")
    statistic, of = STATISTICS[plan.kind], _describe_target(plan)
    rows = build_answer_tables(plan, tasks, answers)[FILES[plan.kind]]
    images = plan.file(plan.images) if plan.images and all(task.image for task in tasks.values()) else None
    try:
        if not rows:
            raise InputError("no answer has come in")
        people = open_judgments(rows, columns=recipe.layouts[0], recipe=recipe, images=images)
        study = correlate(
            people, values.compute_values(people), recipe=recipe, statistic=statistic, resampling=resampling
        )
        estimates = {study.labels[key]: one for key, one in study.headlines.items()}
    except InputError as error:
        return MetricAgreement(statistic, {}, 0, of, f"No result yet: {error}", resampling.level)
    best_first = dict(sorted(estimates.items(), key=lambda entry: -entry[1].value))
    rated = len(people.preferred) if isinstance(people, Preferences) else len(people)
    return MetricAgreement(statistic, best_first, rated, of, level=resampling.level)


def _describe_target(plan: Plan) -> str:
    """Return what metrics are compared with: the overall rating, or the first aspect if there is none."""
    if plan.kind != "ratings":
        return {"ranking": "ranks", "pairs": "preferences"}[plan.kind]
    return "overall rating" if plan.overall else find_rated_aspect(plan).name
