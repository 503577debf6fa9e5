"""Cost of metrics against their agreement with people, as one chart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captious._core.files import load_json
from captious.errors import InputError, format_one_line, format_suggestion
from captious.render import Cell, Chart, Column, Document, Result, Series, Table
from captious.stats.bootstrap import Estimate
from captious.study._statistic_columns import get_scaled_label, make_column


@dataclass(frozen=True)
class CostedMetric:
    """A metric with the cost of one score, and its agreement with people."""

    metric: str
    label: str
    tflops: float
    """NaN if it is not known."""
    agreement: Estimate


@dataclass(frozen=True, repr=False)
class CostAgreement(Result):
    """Metrics of a study by cost and agreement; those with more agreement than every cheaper one are marked."""

    name: str
    statistic: str
    level: float
    rows: Sequence[CostedMetric]

    def __repr__(self) -> str:
        return f"<CostAgreement of {len(self.rows)} metrics on {self.name}>"

    @property
    def frontier(self) -> list[str]:
        """The metrics with more agreement than every cheaper one, the cheapest first."""
        best, kept = -math.inf, []
        for row in sorted(self.rows, key=lambda one: (one.tflops, -one.agreement.value)):
            if row.tflops == row.tflops and row.agreement.value > best:
                best = row.agreement.value
                kept.append(row.metric)
        return kept

    def document(self) -> Document:
        """Build the table and the chart; operations are on a logarithmic axis."""
        frontier = self.frontier
        ordered = sorted(self.rows, key=lambda one: (math.isnan(one.tflops), one.tflops))
        column = make_column(self.statistic, level=self.level)
        columns: list[Column | str] = ["metric", Column("TFLOPs a score", decimals=None), column, "best at its cost"]
        rows = [
            (
                row.label,
                None if math.isnan(row.tflops) else float(f"{row.tflops:.3g}"),
                Cell.of(row.agreement),
                "yes" if row.metric in frontier else "",
            )
            for row in ordered
        ]
        drawn = [row for row in ordered if row.tflops > 0]  # 0 has no logarithm
        scale = column.scale
        series = Series(
            "metrics",
            [math.log10(row.tflops) for row in drawn],
            [scale * row.agreement.value for row in drawn],
            names=[row.label for row in drawn],
            labels=[f"{row.label}: {row.tflops:.3g} TFLOPs" for row in drawn],
        )
        title = get_scaled_label(self.statistic)
        chart = Chart(
            "scatter",
            [series],
            "Cost and agreement",
            "Left is cheaper, up agrees better. −2 is 0.01 TFLOPs, 0 is 1 TFLOP a score.",
            x="TFLOPs a score, as a power of ten",
            y=title,
            trend=False,
        )
        unknown = [row.label for row in ordered if math.isnan(row.tflops)]
        notes = [f"left out of the chart, because their cost is not known: {', '.join(unknown)}"] if unknown else []
        free = [row.label for row in ordered if row.tflops == 0]
        notes += [f"left out of the chart, because they run no model: {', '.join(free)}"] if free else []
        return Document(
            f"{self.name}: cost and agreement with people",
            "Operations are 2 × multiply-adds of one score.",
            [Table("cost", "Cost and agreement", columns, rows), *([chart] if drawn else [])],
            notes=notes,
            data={"name": self.name, "statistic": self.statistic, "frontier": frontier, "metrics": self.rows},
            name="cost",
            answer=self._answer(frontier),
        )

    def _answer(self, frontier: Sequence[str]) -> str:
        by_name = {row.metric: row for row in self.rows}
        if not frontier:
            return "The cost of no metric is known."
        cheapest, best = by_name[frontier[0]], by_name[frontier[-1]]
        if len(frontier) == 1:
            return f"{best.label} agrees best with people, and nothing cheaper is as good."
        times = "" if not cheapest.tflops else f" for {best.tflops / cheapest.tflops:,.0f} times the operations"
        return f"{best.label} agrees best with people{times}; {cheapest.label} is the cheapest."


def read_cost_agreement(study: str | Path, costs: Mapping[str, float]) -> CostAgreement:
    """Read the agreement of metrics from the JSON of a study; ``costs`` are TFLOPs by metric or label."""
    path = Path(study)
    try:
        content: Any = load_json(path)
    except (OSError, ValueError) as error:
        reason = format_one_line(error)
        raise InputError(
            f"{path}: cannot be read ({reason}); expected what captious study run --json printed"
        ) from None
    try:
        statistic, level = str(content["headline"]), float(content["options"]["level"])
        metrics = [(str(one["metric"]), str(one["label"]), one["statistics"][statistic]) for one in content["metrics"]]
    except (KeyError, TypeError):
        raise InputError(f"{path}: is not a study; expected what captious study run --json printed") from None
    names = sorted({name for metric, label, _ in metrics for name in (metric, label)})
    for name in costs:
        if name not in names:
            hint = format_suggestion(name, names)
            raise InputError(f"cost of {name!r}: the study has no such metric, it has {', '.join(names)}{hint}")
    rows = []
    for metric, label, numbers in metrics:
        value, low, high = (
            math.nan if numbers.get(key) is None else float(numbers[key]) for key in ("value", "low", "high")
        )
        tflops = costs.get(metric, costs.get(label, math.nan))
        rows.append(CostedMetric(metric, label, tflops, Estimate(value, low, high)))
    return CostAgreement(str(content.get("name", path.name)), statistic, level, tuple(rows))
