"""Run folders read again: what ``captious score --out`` wrote is enough to explain every score without other files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captious._files import MARKER, SHARDS_MARKER, load_json
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError, UnknownKey, nearest
from captious.metrics.contract import Metric
from captious.metrics.explanation import Explanation, Explanations
from captious.metrics.registry import parse

if TYPE_CHECKING:
    import pyarrow as pa

ITEMS = "items.parquet"
TEXTS = ("id", "candidates", "references", "unscored")
"""Columns of every ``items.parquet`` that are neither scores nor columns of the captions."""
SAME = 1e-6
"""Values closer than this are those of the run."""


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """The captions of a run, its metrics by written form, and the values of every item."""

    folder: Path
    captions: CaptionSet
    metrics: Mapping[str, Mapping[str, Any]]
    """By written form: label, signature and the other facts of ``captious-run.json``."""
    scores: Mapping[str, Mapping[str, float | None]]
    """By written form and item id."""

    def __repr__(self) -> str:
        return f"<Run {self.folder}: {len(self.captions)} items, {', '.join(self.metrics)}>"

    def explain(self, id: Any, metric: str | None = None) -> Explanations:
        """Why an item has its values in this run; ``metric`` is the written form or the label of one of its metrics.

        Corpus statistics, such as document frequencies, are those of the run: they are computed from its captions, and
        an idf corpus or a model that has changed since is an error.
        """
        self.captions.position(id)
        keys = list(self.metrics) if metric is None else [self._key(metric)]
        explanations = [self._explain(id, key) for key in keys if parse(key).explains]
        unexplained = [str(self.metrics[key]["label"]) for key in keys if not parse(key).explains]
        return Explanations(str(id), explanations, unexplained)

    def _key(self, metric: str) -> str:
        for key, facts in self.metrics.items():
            if metric in (key, facts["label"], key.partition("(")[0]):
                return key
        raise UnknownKey(
            f"{self.folder}: has no {metric!r}, only {', '.join(self.metrics)}{nearest(metric, self.metrics)}"
        )

    def _explain(self, id: Any, key: str) -> Explanation:
        facts = self.metrics[key]
        explanation = explain_as_scored(parse(key), self.captions, id, str(facts["signature"]), str(self.folder))
        value, notes = self.scores[key][str(id)], list(explanation.breakdown.notes)
        if value is not None and not abs(value - explanation.value) < SAME:
            notes.append(f"the run has the value {value:.6f}, computed again it is {explanation.value:.6f}")
        return replace(explanation, label=str(facts["label"]), breakdown=replace(explanation.breakdown, notes=notes))


def explain_as_scored(metric: Metric, captions: CaptionSet, id: Any, signature: str, folder: str) -> Explanation:
    """Why an item of a run has its value, given all captions of the run and the signature that its number has there.

    What is not in the folder, such as an idf corpus or a style model, must be what it was.
    """
    explanation = metric.explain(captions, id)
    if change := _change(explanation.signature, signature):
        raise InputError(f"{folder}: {metric} was computed with {change}")
    return replace(explanation, signature=signature)


def _change(now: str, then: str) -> str:
    """The first part of the run's signature that is another now, whatever the version; empty where there is none."""
    known = {part.partition(":")[0]: part for part in then.split("|")}
    for part in now.split("|"):
        name = part.partition(":")[0]
        if name != "captious" and part not in known.values():
            return f"{known.get(name, f'no {name}')}, now it is {part}"
    return ""


def read_run(folder: str | Path) -> Run:
    """A folder that ``captious score --out`` or ``Report.save`` wrote."""
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    folder = Path(folder)
    refuse_shards(folder)
    try:
        facts = load_json(folder / MARKER)
        items = pq.read_table(folder / ITEMS)
        metrics = {str(one["metric"]): one for one in facts["metrics"]}
        missing = [name for name in (*TEXTS, *metrics) if name not in items.column_names]
    except FileNotFoundError as error:
        name = Path(str(error.filename or ITEMS)).name
        raise InputError(f"{folder}: no {name}, expected a folder that captious score wrote") from None
    except (KeyError, TypeError, ValueError, OSError, ArrowException):
        raise InputError(f"{folder}: cannot be read as a run, expected a folder that captious score wrote") from None
    if missing:
        raise InputError(f"{folder / ITEMS}: no column {missing[0]!r}, expected a file that captious score wrote")
    captions = captions_of(items, metrics, str(facts.get("name", folder.name)), int(facts.get("skipped", 0)))
    scores = {key: dict(zip(captions.ids, items[key].to_pylist(), strict=True)) for key in metrics}
    return Run(folder, captions, metrics, scores)


def refuse_shards(folder: Path) -> None:
    """A folder of scored shards has no items in memory to look at."""
    if (folder / SHARDS_MARKER).exists():
        raise InputError(f"{folder}: holds scored shards, not one run; its report.html shows them")


def captions_of(items: pa.Table, metrics: Collection[str], name: str = "captions", skipped: int = 0) -> CaptionSet:
    """The captions of an ``items.parquet`` as they were scored, with all their columns, such as style and image."""
    columns = [column for column in items.column_names if column not in (*TEXTS, *metrics)]
    return CaptionSet(
        ids=tuple(items["id"].to_pylist()),
        candidates=Ragged.of([texts or () for texts in items["candidates"].to_pylist()]),
        references=Ragged.of([texts or () for texts in items["references"].to_pylist()]),
        columns={column: tuple(items[column].to_pylist()) for column in columns},
        name=name,
        skipped=skipped,
    )
