"""Runs and comparisons as plain data: what JSON holds, and what every other output is made from."""

from __future__ import annotations

import math
import platform
from typing import Any

import numpy as np

from captious._version import __version__
from captious.comparison import Comparison
from captious.evaluation import Report


def summarize(report: Report) -> dict[str, Any]:
    """The numbers of a run with everything that moves them."""
    return {
        "captious": __version__,
        "environment": {"python": platform.python_version(), "numpy": np.__version__, "system": platform.system()},
        "name": report.captions.name,
        "items": len(report.captions),
        "skipped": report.captions.skipped,
        "metrics": [_metric(report, key) for key in report.measurements],
        "warnings": list(report.warnings),
    }


def summarize_comparison(comparison: Comparison) -> dict[str, Any]:
    """The numbers of several systems, and the paired tests between them."""
    return {
        "captious": __version__,
        "test": comparison.test,
        "warnings": list(comparison.warnings),
        "systems": {name: summarize(report) for name, report in comparison.reports.items()},
        "differences": [
            {
                "metric": row.metric,
                "baseline": row.baseline,
                "system": row.system,
                "difference": number(row.difference),
                "low": number(row.low),
                "high": number(row.high),
                "p": number(row.p),
                "p_holm": number(row.p_holm),
                "items": row.items,
                "better": row.better,
            }
            for row in comparison.differences
        ],
    }


def item_records(report: Report) -> list[dict[str, Any]]:
    """One record per item: id, captions, extra columns, the value of every metric, and why a value is missing."""
    values = {key: measurement.values.tolist() for key, measurement in report.measurements.items()}
    records = []
    for index, item in enumerate(report.captions):
        record: dict[str, Any] = {
            "id": item.id,
            "candidates": list(item.candidates),
            "references": list(item.references),
            "scores": {key: number(column[index]) for key, column in values.items()},
        }
        reasons = {key: m.reasons[item.id] for key, m in report.measurements.items() if item.id in m.reasons}
        if reasons:
            record["unscored"] = reasons
        if item.fields:
            record["fields"] = dict(item.fields)
        records.append(record)
    return records


def number(value: float) -> float | None:
    """JSON has no NaN: a value that is not there is null."""
    return None if math.isnan(value) else value


def _metric(report: Report, key: str) -> dict[str, Any]:
    measurement = report.measurements[key]
    metric, interval = measurement.metric, report.intervals.get(key)
    low, high = metric.range
    return {
        "metric": key,
        "label": report.label(key),
        "value": number(measurement.corpus),
        "low": number(interval.low) if interval else None,
        "high": number(interval.high) if interval else None,
        "error": number(interval.error) if interval else None,
        "level": interval.level if interval else None,
        "higher_is_better": metric.higher_is_better,
        "range": [low, None if math.isinf(high) else high],
        "unscored": len(measurement.reasons),
        "signature": report.signature(key),
    }
