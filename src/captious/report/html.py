"""One self-contained page for one run, or for several systems on the same items: it works from disk, offline.

Python gathers plain data and thumbnails; the files in ``page/`` draw them. Captions reach the page only as JSON and are
written to it as text, never as markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib.resources import files
from itertools import chain
from pathlib import PurePath
from typing import Any

import numpy as np

from captious._typing import Floats
from captious._version import __version__
from captious.comparison import Comparison
from captious.errors import InputError
from captious.evaluation import Report, told_apart
from captious.metrics.contract import Measurement
from captious.report.page.pictures import thumbnails
from captious.report.page.selection import select
from captious.report.summary import number, summarize, summarize_comparison

SCRIPTS = ("base.js", "state.js", "scores.js", "charts.js", "views.js", "items.js", "main.js")
DECIMALS = 6
"""Of the per-item values on the page; JSONL and Parquet hold them in full."""


def page(
    reports: Mapping[str, Report],
    comparison: Comparison | None = None,
    *,
    title: str = "captious report",
    item_limit: int = 5000,
) -> str:
    """The HTML text of a report.

    Tables and charts show every item. Captions and images of at most ``item_limit`` items are embedded: the worst and
    the best by each metric and system, then a seeded random remainder.
    """
    if not reports:
        raise InputError("no report to show")
    table = _Table(dict(reports))
    shown = table.selection(item_limit)
    paths = [table.image(table.ids[index]) for index in shown]
    images, pictures = thumbnails(paths)
    data = {
        "title": title,
        "captious": __version__,
        "systems": [_system(name, report) for name, report in reports.items()],
        "test": comparison.test if comparison else None,
        "differences": [_plain(row) for row in summarize_comparison(comparison)["differences"]] if comparison else [],
        "fingerprints": len({report.captions.fingerprint for report in reports.values()}),
        "unreadable": sum(bool(path) and picture is None for path, picture in zip(paths, pictures, strict=True)),
        "pictures": pictures,
        **table.data(shown),
    }
    parts = {
        "title": escape(title),
        "style": _asset("page.css"),
        "data": _embedded(data),
        "images": _embedded(images),
        "script": "\n".join(map(_asset, SCRIPTS)),
    }
    text = re.sub(r"<!-- (\w+) -->", lambda match: parts[match[1]], _asset("page.html"))
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class _Table:
    """Systems by items by metrics, whatever the order of each report's items."""

    reports: Mapping[str, Report]

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(report.captions.ids for report in self.reports.values())))

    @cached_property
    def metrics(self) -> dict[str, Measurement]:
        """One measurement of each metric, for what all systems share: label, direction, range."""
        return {key: found for report in self.reports.values() for key, found in report.measurements.items()}

    @cached_property
    def values(self) -> list[list[Floats]]:
        """Per system and metric, one value per item."""
        return [
            [self._column(report.measurements.get(key)) for key in self.metrics] for report in self.reports.values()
        ]

    def _column(self, measurement: Measurement | None) -> Floats:
        if measurement is None:
            return np.full(len(self.ids), np.nan)
        if measurement.ids == self.ids:
            return measurement.values
        return np.array([measurement.items.get(key, np.nan) for key in self.ids], dtype=np.float64)

    def selection(self, limit: int) -> list[int]:
        """Items whose captions go on the page."""
        signs = [1 if found.metric.higher_is_better else -1 for found in self.metrics.values()]
        columns = [sign * column for system in self.values for sign, column in zip(signs, system, strict=True)]
        return select(columns, len(self.ids), limit)

    def image(self, key: str) -> str | None:
        """The path of an item's image, from the first system that names one."""
        for report in self.reports.values():
            if "image" in report.captions.columns and key in report.captions:
                path = report.captions[key].fields["image"]
                if isinstance(path, str) and path:
                    return path
        return None

    def data(self, shown: Sequence[int]) -> dict[str, Any]:
        """Scores of all items, and the texts of those shown."""
        sets = [report.captions for report in self.reports.values()]
        keys = [self.ids[index] for index in shown]
        homes = [next(captions for captions in sets if key in captions)[key] for key in keys]
        return {
            "ids": self.ids,
            "metrics": [_metric(key, found, self.metrics) for key, found in self.metrics.items()],
            "values": [
                [list(map(number, np.round(column, DECIMALS).tolist())) for column in row] for row in self.values
            ],
            "lengths": [
                [_words(captions[key].candidates) if key in captions else None for key in self.ids] for captions in sets
            ],
            "reasons": [
                [dict(report.measurements[key].reasons) if key in report.measurements else {} for key in self.metrics]
                for report in self.reports.values()
            ],
            "shown": list(shown),
            "candidates": [[captions[key].candidates if key in captions else () for key in keys] for captions in sets],
            "references": [item.references for item in homes],
            "fields": [_fields(item.fields) for item in homes],
        }


def _system(name: str, report: Report) -> dict[str, Any]:
    counts = report.captions.references.counts
    references = [int(counts.min()), int(counts.max())] if len(counts) else [0, 0]
    return {**summarize(report), "name": name, "source": PurePath(report.captions.name).name, "references": references}


def _metric(key: str, measurement: Measurement, others: Mapping[str, Measurement]) -> dict[str, Any]:
    metric = measurement.metric
    label = told_apart({name: other.metric.label for name, other in others.items()})[key]
    limits = [limit if np.isfinite(limit) else None for limit in metric.range]
    shared = {"label": label, "higher": metric.higher_is_better, "citation": metric.citation}
    return {"key": key, "range": limits, **shared}


def _words(candidates: Sequence[str]) -> float | None:
    """Mean length of the candidates in words."""
    return round(sum(len(text.split()) for text in candidates) / len(candidates), 2) if candidates else None


def _fields(fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value)[:200] for name, value in fields.items() if name != "image" and value is not None}


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: number(value) if isinstance(value, float) else value for name, value in row.items()}


def _embedded(data: Any) -> str:
    """JSON that cannot end its script element, whatever captions hold."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (files("captious.report") / "page" / name).read_text(encoding="utf-8")
