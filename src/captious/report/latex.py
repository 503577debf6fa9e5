"""Tables for a paper: booktabs, intervals, the best value in bold, ties with it marked."""

from __future__ import annotations

import math

from captious.comparison import Comparison
from captious.evaluation import Report

_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    character: "\\" + character for character in "&%$#_{}"
}


def escape(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> print(escape("50% of a_b"))
    50\% of a\_b
    """
    return "".join(_SPECIAL.get(character, character) for character in text)


def run_table(report: Report) -> str:
    """One row per metric: value and interval; the signatures as comments above."""
    lines = [f"% {report.signature(key)}" for key in report.measurements]
    lines += [r"\begin{tabular}{lrr}", r"\toprule", r"Metric & Value & Interval \\", r"\midrule"]
    for key, measurement in report.measurements.items():
        interval = report.intervals.get(key)
        shown = f"[{interval.low:.4f}, {interval.high:.4f}]" if interval else "--"
        lines.append(rf"{escape(report.label(key))} & {_value(measurement.corpus)} & {shown} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def comparison_table(comparison: Comparison) -> str:
    """One row per system, one column per metric; best in bold, a dagger where it differs from the baseline."""
    first = next(iter(comparison.reports.values()))
    keys = list(first.measurements)
    lines = [f"% {first.signature(key)}" for key in keys]
    threshold = f"Holm-adjusted p < {1 - comparison.level:.4g}"
    lines.append(f"% dagger: differs from the first system, {comparison.test}, {threshold}")
    lines += [rf"\begin{{tabular}}{{l{'r' * len(keys)}}}", r"\toprule"]
    lines.append(" & ".join(["System", *(escape(first.label(key)) for key in keys)]) + r" \\")
    lines.append(r"\midrule")
    best = {key: _best(comparison, key) for key in keys}
    baseline = next(iter(comparison.reports))
    differs = {(row.system, row.metric) for row in comparison.differences if row.better and row.baseline == baseline}
    for name, report in comparison.reports.items():
        cells = []
        for key in keys:
            value = _value(report.measurements[key].corpus)
            value = rf"\textbf{{{value}}}" if name == best[key] else value
            cells.append(value + (r"$^\dagger$" if (name, key) in differs else ""))
        lines.append(" & ".join([escape(name), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _best(comparison: Comparison, key: str) -> str:
    measured = {name: report.measurements[key] for name, report in comparison.reports.items()}
    sign = 1 if next(iter(measured.values())).metric.higher_is_better else -1
    return max(measured, key=lambda name: -math.inf if math.isnan(v := measured[name].corpus) else sign * v)


def _value(value: float) -> str:
    return "--" if math.isnan(value) else f"{value:.4f}"
