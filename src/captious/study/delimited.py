"""A study as CSV, everything in full."""

from __future__ import annotations

import csv
import io
import math

from captious.study.design import Rows
from captious.study.study import Study


def to_csv(study: Study) -> str:
    """Every statistic of every metric in full: value, interval, standard error, undefined draws."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            "rank",
            "metric",
            "label",
            "statistic",
            "value",
            "low",
            "high",
            "error",
            "undefined_draws",
            "metric_ties",
            "human_ties",
            "rows",
            "items",
            "missing",
        ]
    )
    rows = len(study.problem.human) if isinstance(study.problem, Rows) else study.problem.items // 2
    for key in study.order:
        label = next(score.label for score in study.scores if score.key == key)
        for name, e in study.estimates[key].items():
            cells = [e.value, e.low, e.high, e.error]
            writer.writerow(
                [
                    study.rank(key),
                    key,
                    label,
                    name,
                    *("" if math.isnan(cell) else repr(cell) for cell in cells),
                    e.undefined,
                    *study.ties[key],
                    rows,
                    study.problem.items,
                    study.missing[key],
                ]
            )
    return out.getvalue()
