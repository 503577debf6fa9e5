"""Items as the page shows them: captions, scores and their place in the distribution, ratings, why a score is so."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from captious.errors import InputError
from captious.metrics.registry import parse
from captious.render.sections import section_data
from captious.runs.report import Report, report_of
from captious.runs.tables import reasons_of
from captious.studio.explore.views import Explorer, View

if TYPE_CHECKING:
    from captious.metrics.contract import Metric

FIELD = 200
"""Letters of a further column on a card; the item in full has all."""
LISTED = 200
"""Rows of an explanation's table."""


class Records:
    """The items of an explorer as JSON."""

    def __init__(
        self,
        explorer: Explorer,
        image_of: Callable[[int], tuple[str | None, str | None]],
        images: Path | None = None,
    ) -> None:
        """``image_of`` gives the addresses of an item's thumbnail and of its image; ``images`` is their folder."""
        self.explorer, self.table, self._image_of, self.images = explorer, explorer.table, image_of, images
        self._lock = Lock()
        self._locks: dict[tuple[int, int], Lock] = {}
        self._reports: dict[int, Report] = {}

    def brief(self, item: int) -> dict[str, Any]:
        """An item for a card."""
        thumbnail, large = self._image_of(item)
        return {
            "item": self.table.ids[item],
            "id": self.table.ids[item],
            "references": self.table.texts_of(self.table.references, item),
            "fields": {name: text[:FIELD] for name, text in self._fields(item).items()},
            "picture": thumbnail,
            "large": large,
            "systems": [self._system(system, item) for system in range(len(self.table.systems))],
        }

    def listed(self, view: View, item: int) -> dict[str, Any]:
        """An item for a card of a view: what it is sorted by, and whose captions pass the filters."""
        record, passing = self.brief(item), self.explorer.captions(view)
        for system, own in enumerate(record["systems"]):
            own["passes"] = system not in passing or bool(passing[system][item])
        return {**record, "sorted_by": _finite(self.explorer.sort_values(view)[item])}

    def full(self, item: int) -> dict[str, Any]:
        """An item with everything that is known of it."""
        record = self.brief(item)
        record["fields"] = self._fields(item)
        for system, own in enumerate(record["systems"]):
            own["opinions"] = self.opinions(system, item)
            own["explained"] = [place for place in self.explainable if own["values"][place] is not None]
        return record

    def _fields(self, item: int) -> dict[str, str]:
        values = {name: column[item].as_py() for name, column in self.table.fields.items()}
        return {name: _shown(value) for name, value in values.items() if value is not None}

    def _system(self, system: int, item: int) -> dict[str, Any]:
        table, explorer = self.table, self.explorer
        values = [_finite(column[item]) for column in table.values[system]]
        reasons = reasons_of(table.unscored[system][item].as_py())
        return {
            "texts": table.texts_of(table.captions[system], item),
            "words": _finite(table.words[system][item]),
            "values": values,
            "shares": [
                None if value is None else round(explorer.share_below(system, score, value), 1)
                for score, value in enumerate(values)
            ],
            "reasons": [reasons.get(score.key) for score in table.scores],
            "whys": [],
        }

    def opinions(self, system: int, item: int) -> list[dict[str, Any]]:
        """What people said of a caption, one entry a rater."""
        return [
            {"rater": one.rater, "ratings": dict(one.ratings), "comment": one.comment, "seconds": one.seconds}
            for one in self.table.opinions.get((item, system), ())
        ]

    @cached_property
    def explainable(self) -> dict[int, Metric]:
        """The metrics that explain their values, by the place of their score."""
        metrics = {}
        for place, score in enumerate(self.table.scores):
            if score.kind == "metric":
                try:
                    metric = parse(score.key)
                except InputError:  # one of another version, or a name that the user gave
                    continue
                if metric.explains:
                    metrics[place] = metric
        return metrics

    def explain(self, system: int, score: int, item: int) -> list[dict[str, Any]]:
        """Why a caption has its score, as sections of tables, texts and graphs.

        The metric computes it anew from the run's captions: corpus statistics are collected when first asked for.
        """
        metric = self.explainable.get(score)
        if metric is None:
            raise InputError(f"{self.table.scores[score].label} does not explain single values")
        run = self.table.runs[system]
        signature = run.signatures.get(self.table.scores[score].key)
        if signature is None:
            raise InputError(f"{run.name} has no {self.table.scores[score].label}")
        with self._lock:
            if system not in self._reports:
                self._reports[system] = report_of(run.run, images=self.images)
            report = self._reports[system]
            lock = self._locks.setdefault((system, score), Lock())
        with lock:  # the corpus statistics of a metric are collected once, whoever asks first
            explanation = report.explain(self.table.ids[item], str(metric))[str(metric)]
        return section_data(list(explanation.document().walk()), LISTED)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
