"""``Report``: measurements with intervals, of items in memory or in a run folder."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from captious._core.types import Floats
from captious._core.values import PlainState
from captious.captions import CaptionSet, make_gallery_entry
from captious.errors import InputError
from captious.metrics.abilities import ExplainsOnPage
from captious.metrics.contract import Metric
from captious.metrics.explanation import Explanations
from captious.metrics.measurement import Measurement
from captious.metrics.registry import find_key, make_short_names
from captious.options import Resampling
from captious.render import Cell, Document, Gallery, Result, Table, Why, name_several
from captious.render.document import Value
from captious.render.exports import format_csv, to_json_value, write_csv
from captious.runs.marker import Marker, MetricFacts, Unit
from captious.runs.report_sections import (
    build_answer,
    build_sections,
    collect_metric_data,
    collect_shard_columns,
    collect_shards_data,
    compare_foreign_values,
    format_references,
    list_narrow_intervals,
    lists_items,
    make_score_column,
)
from captious.runs.source import BLOCK, ItemSource, StoredItems
from captious.stats.bootstrap import Estimate, bootstrap

if TYPE_CHECKING:
    import pyarrow as pa

    from captious.runs.folder import Run
    from captious.runs.summary import PartSummary

T = TypeVar("T")
# Names of the tables of items and of shards in data frames and files.
ITEMS, SHARDS = "items", "shards"
# Prefix of names in logs and experiment trackers.
PREFIX = "captious"


class ByMetric(dict[str, T]):
    """Values by the written form of their metric; an unambiguous label or name works as a key too."""

    def __init__(self, values: Mapping[Metric, T]) -> None:
        keys = [str(metric) for metric in values]
        super().__init__(zip(keys, values.values(), strict=True))
        self._labels = {key: metric.label for key, metric in zip(keys, values, strict=True)}

    def __missing__(self, key: str) -> T:
        return self[find_key(key, self._labels)]


@dataclass(frozen=True, eq=False, repr=False)
class Report(PlainState, Result):
    """Measurements of one set of captions, by the written form of their metric.

    ``evaluate``, ``score_shards`` and ``open_run`` give one. ``print``, ``save``, ``plot``, ``to_pandas``, ``to_dict``,
    ``to_latex`` and ``in_percent`` come from ``captious.render.Result``.
    """

    source: ItemSource
    """The items: in memory, or in the folder of a run."""
    measurements: Mapping[str, Measurement]
    intervals: Mapping[str, Estimate] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    resampling: Resampling = Resampling()
    """The resampling of the intervals."""
    explanations: Explanations | None = None
    """The explanation of one item, shown on the page: ``replace(report, explanations=report.explain(id))``."""

    json_file: ClassVar[str] = "report.json"

    @property
    def unit(self) -> Unit:
        """The unit that is resampled for intervals: item or shard."""
        return self.source.unit

    @property
    def parts(self) -> tuple[PartSummary, ...]:
        """Summaries of the parts of a run; empty for items in memory."""
        return self.source.parts

    @property
    def captions(self) -> CaptionSet:
        """The captions that were scored. Those of a run are read from its folder on first use, all of them."""
        return self.source.captions

    @property
    def name(self) -> str:
        """The name of the captions; for shards, the folder of their run."""
        return self.source.name

    @property
    def size(self) -> int:
        """The number of items."""
        return self.source.size

    @property
    def skipped(self) -> int:
        """The number of ids that were left out at reading because captions or references were missing."""
        return self.source.skipped

    @property
    def origin_line(self) -> str:
        """The columns that were read as captions, references and images; empty for captions in memory."""
        return self.source.origin_line

    @property
    def failed(self) -> Mapping[str, str]:
        """The reason of each shard that could not be scored, by name; none of its items is in the report."""
        return self.source.failed

    @property
    def title(self) -> str:
        """The name of the captions and the number of items."""
        return self.source.title

    def __getitem__(self, key: str) -> Measurement:
        """Return a measurement by the written form, the label or the unambiguous name of its metric."""
        return self.measurements[find_key(key, {form: one.metric.label for form, one in self.measurements.items()})]

    def keys(self) -> Iterable[str]:
        """Return the written forms of the metrics; with it ``dict(report)`` maps them to measurements."""
        return self.measurements.keys()

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self.measurements.values())

    def __repr__(self) -> str:
        values = ", ".join(f"{self.label(key)} {one.corpus:.4f}" for key, one in self.measurements.items())
        return f"<Report {self.title}; {values}>"

    @cached_property
    def _labels(self) -> dict[str, str]:
        return disambiguate_labels({key: one.metric.label for key, one in self.measurements.items()})

    def label(self, key: str) -> str:
        """Return the label of a metric for tables, or its written form if two metrics share the label."""
        return self._labels[key]

    @property
    def short_names(self) -> dict[str, str]:
        """The names of the metrics in logs, by their written forms: ``bleu_4``, ``cider``."""
        return make_short_names(one.metric for one in self)

    def scalars(self, prefix: str = PREFIX) -> dict[str, float]:
        """Return corpus values and interval ends under names for logs; undefined values are left out.

        >>> from captious._evaluate import evaluate
        >>> evaluate(["a red dog"], "rouge", resampling=Resampling(0), references=[["a red dog"]]).scalars()
        {'captious/rouge': 1.0}
        """
        values: dict[str, float] = {}
        for key, name in self.short_names.items():
            cell = self.cell(key)
            ends = {"": cell.value, "_low": cell.low, "_high": cell.high}
            values |= {f"{prefix}/{name}{end}": float(value) for end, value in ends.items() if math.isfinite(value)}
        return values

    def log(
        self,
        run: Any,
        step: int | None = None,
        *,
        prefix: str = PREFIX,
        worst: int = 20,
        metric: str | None = None,
        page: bool = True,
    ) -> None:
        """Send the report to an experiment tracker: values with intervals, the worst captions with images, the page.

        Parameters
        ----------
        run
            A run of Weights & Biases, MLflow or trackio; ``"wandb"``, ``"mlflow"`` or ``"trackio"`` for the one that is
            active; a ``SummaryWriter`` of TensorBoard; or a function that takes a ``TrackedReport``. No run is started.
        step
            The step of the training. In Weights & Biases it is logged as ``train/global_step``.
        prefix
            The prefix of the names: ``captious/cider``, ``captious/cider_low``, ``captious/cider_high``.
        worst, metric
            How many of the worst captions are listed, and by which metric, as in ``worst``.
        page
            Whether to log the HTML page too.
        """
        from captious.loops.trackers import find_tracker, make_tracked_report

        find_tracker(run)(make_tracked_report(self, step, prefix, worst, metric, page))

    def cell(self, key: str) -> Cell:
        """Return a corpus value with its interval."""
        return Cell.of(self.intervals[key]) if key in self.intervals else Cell(self.measurements[key].corpus)

    def signature(self, key: str) -> str:
        """Return the signature of a number with that of its interval."""
        return self._signatures[str(self[key].metric)]

    @cached_property
    def _signatures(self) -> dict[str, str]:
        interval = f"|ci:{self.resampling.signature(SHARDS if self.unit == 'shard' else '')}"
        return {
            key: f"{one.signature}{interval if key in self.intervals else ''}" for key, one in self.measurements.items()
        }

    @property
    def signatures(self) -> list[str]:
        """The signatures of all metrics; those that differ only in parameters of the metric share a line."""
        return join_signatures(self._signatures.values())

    @property
    def notes(self) -> list[str]:
        """Events of the scoring, and notes of the metrics, such as the cost of a judge."""
        return [*self.history, *self._metric_notes]

    @property
    def history(self) -> tuple[str, ...]:
        """Events while shards were scored: a run that was resumed, a worker that died."""
        return self.source.history

    @property
    def _metric_notes(self) -> list[str]:
        return list(dict.fromkeys(chain.from_iterable(one.notes for one in self)))

    def worst(self, number: int = 10, metric: str | None = None, where: str | None = None) -> Document:
        """Return the items with the lowest quality by a metric (default: the last one); ``where`` filters the items.

        It prints as a table; a notebook and a saved page show the images next to the captions.
        """
        if not isinstance(number, int) or number < 0:
            raise InputError(f"worst: number is {number!r}, expected a whole number; pass a metric as metric=...")
        measurement = self[metric] if metric else list(self)[-1]
        label = self.label(str(measurement.metric))
        indices = rank_worst_first(measurement)
        if where is not None:
            from captious.runs.filters import match_rows

            relation = self.source.relation(self.measurements)
            passes = match_rows(relation, where, {key: one.metric.label for key, one in self.measurements.items()})
            indices = [index for index in indices if passes[index]]
        indices = indices[:number]
        captions = self.captions_at(indices)
        rows, entries, images = [], [], captions.images
        shown = 4 if measurement.signature.references[1] or captions.references.counts.any() else 3
        for place, index in enumerate(indices):
            item, value = captions.item(place), float(measurement.values[index])
            row: tuple[Value, ...] = (item.id, value, item.candidate, (*item.references, "")[0])
            rows.append(row[:shown])
            entries.append(make_gallery_entry(item, images[place], [f"{label} {value:.4f}"]))
        title = f"worst {len(rows)} by {label}{f' of those with {where.strip()}' if where is not None else ''}"
        value_column = make_score_column(label, measurement.metric)
        columns = ("id", value_column, "candidate", "first reference")[:shown]
        return Document(title, sections=[Table("worst", title, columns, rows), Gallery(title, entries, "", "worst")])

    def captions_at(self, indices: Sequence[int]) -> CaptionSet:
        """Return the captions at these positions; of a run, only the parts that contain them are read."""
        return self.source.take(indices)

    def explain(self, id: Any, metric: str | None = None) -> Explanations:
        """Explain the values of an item: for each metric that can, the parts that add up to the value.

        ``metric`` names one; without it all are explained. A notebook and a saved page draw SPICE's graphs. For a
        run, the corpus statistics are those of the scoring. Inputs outside its folder, such as an idf corpus, must be
        unchanged. Replies of chat models come only from the store of replies.

        >>> from captious._evaluate import evaluate
        >>> report = evaluate(["a red dog"], "rouge", resampling=Resampling(0), references=[["the red dog"]])
        >>> [(part.name, round(part.adds, 4)) for part in report.explain(0)["rouge"].parts]
        [('red', 0.3333), ('dog', 0.3333)]
        """
        keys = [str(self[metric].metric)] if metric else list(self.measurements)
        explain_one = self.source.make_explainer(self, id)
        able = [key for key in keys if self.measurements[key].metric.explains]
        if metric and not able:
            known = [key for key, one in self.measurements.items() if one.metric.explains]
            hint = f", only {', '.join(known)}" if known else ""
            raise InputError(f"{keys[0]} does not explain single values{hint}")
        explanations, remarks = [], []
        for key in able:
            one = self.measurements[key].metric
            try:
                explanation = explain_one(one)
            except InputError as error:
                # Replies of judges and images may be missing; explain the other metrics anyway.
                if metric or {"judge", "image"}.isdisjoint(one.needs):
                    raise
                remarks.append(f"{self.label(key)} is not explained: {error}")
                continue
            explanations.append(replace(explanation, label=self.label(key), signature=self.signature(key)))
        unexplained = [self.label(key) for key in keys if key not in able]
        return Explanations(str(id), explanations, unexplained, remarks)

    def _explain_for_page(self, key: str, indices: Sequence[int]) -> Sequence[Why]:
        """Explain the values of items for the page, if the metric can."""
        metric, captions = self.measurements[key].metric, self.captions
        if not isinstance(metric, ExplainsOnPage):
            return []
        state = captions.once(("state", metric), lambda: metric.prepare(captions))
        return metric.page_explanations(captions, indices, state)

    def document(self) -> Document:
        """Return the page: values with intervals, the items to explore, and the tables of shards. It is built once."""
        return self._document

    @cached_property
    def _document(self) -> Document:
        explained = self.explanations.document().notes if self.explanations else ()
        return Document(
            self.title,
            format_references(self),
            build_sections(self),
            warnings=self.warnings,
            notes=[
                *self.read_notes,
                *compare_foreign_values(self),
                *list_narrow_intervals(self),
                *self.notes,
                *explained,
            ],
            signatures=self.signatures,
            data=self.data(),
            answer=self.explanations.answer if self.explanations else build_answer(self),
            page=f"{name_several([self.label(key) for key in self.measurements])} on {PurePath(self.name).name}",
        )

    @property
    def read_notes(self) -> list[str]:
        """The columns and files that were read, as a note; none for captions in memory."""
        return [self.origin_line] if self.origin_line else []

    def data(self) -> dict[str, Any]:
        """Return the numbers with all settings that affect them, as JSON values."""
        from captious.runs.run_tables import hide_folder

        return {
            "name": hide_folder(self.name),
            "items": self.size,
            "skipped": self.skipped,
            **({"read": self.origin_line} if self.origin_line else {}),
            "metrics": [collect_metric_data(self, key) for key in self.measurements],
            **collect_shards_data(self),
            "warnings": list(self.warnings),
            **({"notes": self.notes} if self.notes else {}),
            **({"explanations": self.explanations.data()} if self.explanations else {}),
        }

    def facts(self, key: str) -> MetricFacts:
        """Return the facts of a metric, as the marker stores them."""
        return self._facts[key]

    @cached_property
    def _facts(self) -> dict[str, MetricFacts]:
        return {key: self._collect_facts(key) for key in self.measurements}

    def _collect_facts(self, key: str) -> MetricFacts:
        measurement, interval = self.measurements[key], self.intervals.get(key)
        return MetricFacts.of(
            measurement.metric,
            self.label(key),
            value=measurement.corpus,
            **{name: getattr(interval, name) if interval else None for name in ("low", "high", "error")},
            level=self.resampling.level if interval else None,
            unscored=measurement.signature.unscored,
            signature=self.signature(key),
        )

    def items(self) -> Iterator[pa.Table]:
        """Yield the items as Arrow tables, part by part: id, candidates, references, further columns, values, reasons.

        Those of shards have a column ``shard``.
        """
        return self.source.tables(self.measurements)

    def to_pandas(self, table: str | None = None) -> Any:
        """Return one row per item id: candidate, references, a column per metric; or a table of the document.

        Several candidates are joined by `` | ``. Where an item has no value, a column ``unscored`` says why.
        ``shards`` has a row per shard; it is the default if there are too many items to be resampled, and
        ``items`` then reads all of them into memory. ``to_arrow`` and ``to_csv`` give the same columns.
        """
        frame = super().to_pandas(table)
        return frame.set_index("id") if (table or self._units) == ITEMS else frame

    @property
    def _units(self) -> str:
        """The name of the table of resampled units."""
        return ITEMS if lists_items(self) else SHARDS

    def _columns(self, table: str | None) -> Mapping[str, Sequence[Any]]:
        table = table or self._units
        if table == SHARDS and self.source.shards:
            return collect_shard_columns(self)
        if table != ITEMS:
            return super()._columns(table)
        captions = self.captions
        columns: dict[str, Sequence[Any]] = {
            "id": captions.ids,
            "candidate": [" | ".join(texts) for texts in captions.candidates],
            "references": list(captions.references),
            **{key: to_json_value(one.values) for key, one in self.measurements.items()},
        }
        if any(one.reasons for one in self):
            lines = [
                [f"{key}: {one.reasons[id]}" for key, one in self.measurements.items() if id in one.reasons]
                for id in captions.ids
            ]
            columns["unscored"] = ["; ".join(line) or None for line in lines]
        return columns

    def files(self, percent: bool = False) -> dict[str, str]:
        """Return the files of the report by name: the page, JSON, text, LaTeX, and a CSV file per table."""
        # The worst items are only on the page. The page lists only the slowest shards, the CSV file all of them.
        files = {name: text for name, text in super().files(percent).items() if not name.startswith("worst_")}
        return files | ({f"{SHARDS}.csv": format_csv(collect_shard_columns(self))} if self.source.shards else {})

    def write(self, percent: bool = False) -> None:
        """Write the report into the folder of its run; the marker is written last."""
        assert isinstance(self.source, StoredItems)
        run = self.source.run
        files = self.files(percent) | (
            {f"{ITEMS}.csv": format_csv(self._collect_item_columns())} if lists_items(self) else {}
        )
        for name, text in files.items():
            run.storage.write(name, text.encode("utf-8", "replace"))
        run.write_marker()

    def marker(self, parts: Mapping[str, int]) -> Marker:
        """Return the marker of a run that consists of these parts."""
        return self.source.marker(
            metrics=tuple(map(self.facts, self.measurements)),
            items=self.size,
            skipped=self.skipped,
            parts=parts,
            resampling=self.resampling,
            warnings=tuple(self.warnings),
            notes=tuple(self._metric_notes),
            complete=True,
        )

    def write_files(self, folder: Path) -> None:
        """Write the run (items, statistics, marker) and ``items.csv``."""
        self.source.write(folder, self)
        if lists_items(self):
            write_csv(self._collect_item_columns(), folder / f"{ITEMS}.csv")

    def _collect_item_columns(self) -> dict[str, Iterable[Any]]:
        """Return the columns of ``items.csv``."""
        captions = self.captions
        return {
            "id": captions.ids,
            "candidate": (" | ".join(texts) for texts in captions.candidates),
            **{key: _iterate_finite(one.values) for key, one in self.measurements.items()},
        }


def open_run(folder: str | os.PathLike[str], *, images: str | os.PathLike[str] | None = None) -> Report:
    """Open a folder that ``captious score --out``, ``Report.save`` or ``score_shards`` wrote, as its report.

    Nothing is scored again. The items of a large run stay in the folder. A run may come from an untrusted source: no
    chat model is asked, and no image outside the folder is opened unless ``images`` names their folder.

    Parameters
    ----------
    folder
        The folder, or its address, such as ``s3://bucket/run``.
    images
        The folder of the images, for explanations of metrics that look at them.
    """
    from captious.runs.folder import Run

    return make_report(Run.at(folder), images=images)


def make_report(
    run: Run,
    resampling: Resampling | None = None,
    metrics: Mapping[str, Metric] | None = None,
    images: str | os.PathLike[str] | None = None,
) -> Report:
    """Return the report of a run, with the intervals of its marker or, given ``resampling``, with new ones."""
    from captious.runs.stored import find_known_metrics, load_measurements, refuse_contradictions

    parts = tuple(run.summaries())
    known = find_known_metrics(run) if metrics is None else metrics
    measurements = load_measurements(run, parts, known)
    refuse_contradictions(run, measurements)
    warnings = list(run.marker.warnings)
    if unknown := [key for key in run.metrics if key not in known]:
        warnings.append(f"{run.address}: {', '.join(unknown)} is not known here and left out")
    if resampling is None:
        intervals = {key: one for key, facts in run.facts.items() if (one := facts.interval) and key in known}
        resampling = run.marker.resampling
    else:
        intervals = compute_intervals(measurements, resampling) if can_resample(run, parts) else {}
    return Report(StoredItems(run, parts, images), measurements, intervals, tuple(warnings), resampling)


def can_resample(run: Run, parts: Sequence[PartSummary]) -> bool:
    """Return False for a single shard, which cannot be resampled."""
    return (run.marker.unit == "item" and run.has_rows) or sum(1 for part in parts if part.items) > 1


def compute_intervals(measurements: Mapping[str, Measurement], resampling: Resampling) -> dict[str, Estimate]:
    """Return the bootstrap interval of every corpus value that can be resampled."""
    statistics = {key: one.statistic for key, one in measurements.items() if one.additive}
    estimates = bootstrap(statistics, resampling)
    return ByMetric({one.metric: estimates[key] for key, one in measurements.items() if key in estimates})


def compute_system_intervals(
    systems: Mapping[str, Mapping[str, Measurement]], resampling: Resampling
) -> dict[str, dict[str, Estimate]]:
    """Return the intervals of several systems on the same items, all from the same bootstrap draws."""
    statistics = {
        f"{number} {key}": one.statistic
        for number, measurements in enumerate(systems.values())
        for key, one in measurements.items()
        if one.additive
    }
    estimates = bootstrap(statistics, resampling)
    return {
        name: ByMetric(
            {one.metric: estimates[f"{number} {key}"] for key, one in own.items() if f"{number} {key}" in estimates}
        )
        for number, (name, own) in enumerate(systems.items())
    }


def _iterate_finite(values: Floats) -> Iterator[float | None]:
    """Yield values with None for NaN and infinity, without a list of them all."""
    for first in range(0, len(values), BLOCK):
        yield from to_json_value(values[first : first + BLOCK])


def disambiguate_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return a name for each written form: its label, or the written form if another metric has the same label.

    >>> disambiguate_labels({"clipscore": "CLIPScore", "clipscore(w=1)": "CLIPScore", "cider": "CIDEr"})
    {'clipscore': 'clipscore', 'clipscore(w=1)': 'clipscore(w=1)', 'cider': 'CIDEr'}
    """
    number = Counter(labels.values())
    return {key: label if number[label] == 1 else key for key, label in labels.items()}


def join_signatures(signatures: Iterable[str]) -> list[str]:
    """Join signatures of one metric that differ only in its parameters into one line.

    >>> join_signatures(["bleu(n=1)|tok:ptb.1", "bleu(n=2)|tok:ptb.1", "rouge|tok:ptb.1"])
    ['bleu(n=1),bleu(n=2)|tok:ptb.1', 'rouge|tok:ptb.1']
    """
    lines: dict[tuple[str, str], list[str]] = {}
    for signature in signatures:
        metric, _, rest = signature.partition("|")
        lines.setdefault((metric.partition("(")[0], rest), []).append(metric)
    return ["|".join((",".join(metrics), rest)) for (_, rest), metrics in lines.items()]


def rank_worst_first(measurement: Measurement) -> list[int]:
    """Return the indices of items from worst to best; items without a value are left out."""
    sign = 1 if measurement.metric.higher_is_better else -1
    order: list[int] = np.argsort(sign * measurement.values, kind="stable").tolist()
    return order[: np.count_nonzero(~np.isnan(measurement.values))]
