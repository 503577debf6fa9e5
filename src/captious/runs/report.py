"""``Report``: measurements with intervals, whether the items are in memory or in the folder of a run."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import quote

import numpy as np

from captious._core.files import MARKER
from captious._core.types import Floats
from captious._core.values import PlainState
from captious.captions import CaptionSet, make_gallery_entry
from captious.errors import InputError
from captious.io.join import format_first
from captious.metrics.abilities import ExplainsOnPage, ForeignMetric
from captious.metrics.contract import MeanMetric, Metric
from captious.metrics.explanation import Explanation, Explanations
from captious.metrics.measurement import Measurement
from captious.metrics.registry import find_key, make_short_names
from captious.metrics.rows import TypeSets
from captious.options import Resampling
from captious.render import Cell, Column, Document, Gallery, ItemMetric, Items, Result, Table, Why, link
from captious.render.document import Value
from captious.render.tables import finite, write_csv
from captious.runs.folder import Run, joined, open_run
from captious.runs.marker import Marker, MetricFacts, Unit
from captious.runs.stored import StoredMeasurement, known_metrics, refuse_contradictions, stored_measurements
from captious.runs.summary import MetricSummary, PartSummary, ids_fingerprint
from captious.runs.tables import items_table, rows_table, shown_path, without_machine_paths
from captious.runs.tracking import PREFIX, tracked, tracker_of
from captious.stats.bootstrap import FEW, Estimate, bootstrap, too_narrow
from captious.stats.correlation import pearson
from captious.text.tables import count_words

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
ITEMS, SHARDS = "items", "shards"
"""What frames and files call the values of every item, and those of every shard."""
REASONS = 5
"""Different reasons that a warning names."""
BLOCK = 20_000
"""Items that are brought into the form of a file at a time."""
PART = 200_000
"""Items of a part, where a set in memory is written."""
CAPTIONS = "captions"
"""The part of a set that was in memory."""


class ByMetric(dict[str, T]):
    """Values by the written form of their metric; a label or a name of only one metric finds it too."""

    def __init__(self, values: Mapping[Metric, T]) -> None:
        keys = [str(metric) for metric in values]
        super().__init__(zip(keys, values.values(), strict=True))
        self._labels = {key: metric.label for key, metric in zip(keys, values, strict=True)}

    def __missing__(self, key: str) -> T:
        return self[find_key(key, self._labels)]


@dataclass(frozen=True, eq=False, repr=False)
class Report(PlainState, Result):
    """Measurements of one set, by the written form of their metric; the items are in memory, or in the folder of a run.

    ``evaluate``, ``score_shards`` and ``read_run`` give one. ``print``, ``save``, ``plot``, ``to_pandas``, ``to_dict``,
    ``to_latex`` and ``in_percent`` come from ``captious.render.Result``.
    """

    source: CaptionSet | Run
    """Where the items are."""
    measurements: Mapping[str, Measurement]
    intervals: Mapping[str, Estimate] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    resampling: Resampling = Resampling()
    """How the intervals were resampled."""
    explanations: Explanations | None = None
    """Why one item has its values, to show beside them: ``replace(report, explanations=report.explain(id))``."""
    parts: tuple[PartSummary, ...] = ()
    """What is known of each part of a run besides its items."""
    images: str | os.PathLike[str] | None = None
    """The folder of a run's images. Without it only images in the folder of the run itself are opened."""

    store_references: bool = True
    """Whether a saved run holds the references of its items."""

    json_file: ClassVar[str] = "report.json"

    @property
    def run(self) -> Run | None:
        """The folder that holds the items; None where they are in memory."""
        return self.source if isinstance(self.source, Run) else None

    @property
    def unit(self) -> Unit:
        """What is resampled for the intervals: items, or shards."""
        return self.source.marker.unit if isinstance(self.source, Run) else "item"

    @cached_property
    def captions(self) -> CaptionSet:
        """The captions that were scored. Those of a run are read from its folder, all of them, when first asked for."""
        from captious.runs._explaining import with_own_images

        if isinstance(self.source, CaptionSet):
            return self.source
        return with_own_images(self.source, self.source.captions(), self.images)

    @property
    def name(self) -> str:
        """The name of the captions; of shards, the folder of their run."""
        if isinstance(self.source, CaptionSet):
            return self.source.name
        return self.source.address if self.unit == "shard" else self.source.marker.name

    @property
    def size(self) -> int:
        """How many items there are."""
        return len(self.source) if isinstance(self.source, CaptionSet) else self.source.marker.items

    @property
    def skipped(self) -> int:
        """How many ids were left out at reading because one side lacked them."""
        return self.source.skipped if isinstance(self.source, CaptionSet) else self.source.marker.skipped

    @property
    def origin_line(self) -> str:
        """What was read as captions, references and images; empty for captions that were not read."""
        if isinstance(self.source, CaptionSet):
            return self.source.origin_line
        return str(self.source.marker.reading.get("columns", ""))

    @property
    def failed(self) -> Mapping[str, str]:
        """Why shards could not be scored, by name; none of their items is in the report."""
        return self.source.marker.failed if isinstance(self.source, Run) else {}

    @property
    def title(self) -> str:
        """What was measured, and how many items that are."""
        if self.unit == "shard":
            return f"{self.size:,} items in {len(self.parts):,} shard{'' if len(self.parts) == 1 else 's'}"
        return f"{PurePath(self.name).name}: {self.size} items"

    def __getitem__(self, key: str) -> Measurement:
        """A measurement by the written form of its metric, by its label, or by its name if no other metric has it."""
        return self.measurements[find_key(key, {form: one.metric.label for form, one in self.measurements.items()})]

    def keys(self) -> Iterable[str]:
        """The written forms of the metrics, so that ``dict(report)`` has the measurements by them."""
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
        """What tables call a metric: its label, or its written form where two metrics share the label."""
        return self._labels[key]

    @property
    def short_names(self) -> dict[str, str]:
        """What logs call the metrics, by their written forms: ``bleu_4``, ``cider``."""
        return make_short_names(one.metric for one in self)

    def scalars(self, prefix: str = PREFIX) -> dict[str, float]:
        """Corpus values and the ends of their intervals under names for logs; what has no value is left out.

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
            What the names begin with: ``captious/cider``, ``captious/cider_low``, ``captious/cider_high``.
        worst, metric
            How many of the worst captions are listed, and by which metric, as in ``worst``.
        page
            Whether the HTML page is kept as well.
        """
        tracker_of(run)(tracked(self, step, prefix, worst, metric, page))

    def cell(self, key: str) -> Cell:
        """A corpus value with its interval."""
        return Cell.of(self.intervals[key]) if key in self.intervals else Cell(self.measurements[key].corpus)

    def signature(self, key: str) -> str:
        """The signature of a number with that of its interval."""
        measurement = self[key]
        unit = SHARDS if self.unit == "shard" else ""
        interval = f"|ci:{self.resampling.signature(unit)}" if str(measurement.metric) in self.intervals else ""
        return f"{measurement.signature}{interval}"

    @property
    def signatures(self) -> list[str]:
        """The signatures of all metrics; those that differ in the parameters of the metric alone share a line."""
        return join_signatures(map(self.signature, self.measurements))

    @property
    def notes(self) -> list[str]:
        """What happened while the run was scored, and what the metrics say of it, such as what it cost."""
        notes = list(chain.from_iterable(one.notes for one in self))
        return [*self.history, *(notes if self.unit == "item" else dict.fromkeys(notes))]

    @property
    def history(self) -> tuple[str, ...]:
        """What happened while shards were scored: a run that was resumed, a worker that died."""
        return self.source.marker.history if isinstance(self.source, Run) else ()

    def worst(self, number: int = 10, metric: str | None = None, where: str | None = None) -> Document:
        """The items with the worst value of a metric, the last one unless named; with a filter, of those that pass.

        Printed it is a table; a notebook and a saved page show the images beside the captions.
        """
        if not isinstance(number, int) or number < 0:
            raise InputError(f"worst: number is {number!r}, expected a whole number; pass a metric as metric=...")
        measurement = self[metric] if metric else list(self)[-1]
        label = self.label(str(measurement.metric))
        indices = worst_first(measurement)
        if where is not None:
            source = self.run.parts() if self.run is not None else joined(list(self.items()))
            from captious.runs.filters import matching_rows

            passes = matching_rows(source, where, {key: one.metric.label for key, one in self.measurements.items()})
            indices = [index for index in indices if passes[index]]
        indices = indices[:number]
        captions = self.captions_at(indices)
        rows, entries, images = [], [], captions.images
        referenced = any(part[str(measurement.metric)].signature.references[1] for part in self.parts if part.items)
        shown = 4 if referenced or captions.references.counts.any() else 3
        for place, index in enumerate(indices):
            item, value = captions.item(place), float(measurement.values[index])
            row: tuple[Value, ...] = (item.id, value, item.candidate, (*item.references, "")[0])
            rows.append(row[:shown])
            entries.append(make_gallery_entry(item, images[place], [f"{label} {value:.4f}"]))
        title = f"worst {len(rows)} by {label}{f' of those with {where.strip()}' if where is not None else ''}"
        value_column = score_column(label, measurement.metric)
        columns = ("id", value_column, "candidate", "first reference")[:shown]
        return Document(title, sections=[Table("worst", title, columns, rows), Gallery(title, entries, "", "worst")])

    def captions_at(self, indices: Sequence[int]) -> CaptionSet:
        """The captions at these positions; of a run, only the parts that hold them are read."""
        from captious.runs._explaining import with_own_images

        if isinstance(self.source, CaptionSet):
            return self.source.take(indices)
        return with_own_images(self.source, self.source.take(indices), self.images)

    def explain(self, id: Any, metric: str | None = None) -> Explanations:
        """Why an item has its values: for each metric that can tell, parts that add up to the value.

        ``metric`` names one; without it all are explained. A notebook and a saved page draw SPICE's graphs. Of a run,
        corpus statistics are those that it was scored with. What is not in its folder, such as an idf corpus, must be
        what it was. Replies of chat models come from the store of replies alone.

        >>> from captious._evaluate import evaluate
        >>> report = evaluate(["a red dog"], "rouge", resampling=Resampling(0), references=[["the red dog"]])
        >>> [(part.name, round(part.adds, 4)) for part in report.explain(0)["rouge"].parts]
        [('red', 0.3333), ('dog', 0.3333)]
        """
        keys = [str(self[metric].metric)] if metric else list(self.measurements)
        explain_one = self._explainer(id)
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
                # What judges and images would tell is not there for everyone, and no reason to say nothing at all.
                if metric or self.run is None or {"judge", "image"}.isdisjoint(one.needs):
                    raise
                remarks.append(f"{self.label(key)} is not explained: {error}")
                continue
            explanations.append(replace(explanation, label=self.label(key), signature=self.signature(key)))
        unexplained = [self.label(key) for key in keys if key not in able]
        return Explanations(str(id), explanations, unexplained, remarks)

    def _explainer(self, id: Any) -> Callable[[Metric], Explanation]:
        """What explains the value of an item under a metric; an unknown id is an error."""
        if isinstance(self.source, Run):
            from captious.runs._explaining import StoredItem

            return StoredItem.find(self, self.source, id).explain
        captions = self.source
        captions.position(id)
        return lambda metric: metric.explain(captions, id)

    def _whys(self, key: str, indices: Sequence[int]) -> Sequence[Why]:
        """What made the values of items, for the page."""
        metric, captions = self.measurements[key].metric, self.captions
        if not isinstance(metric, ExplainsOnPage):
            return []
        state = captions.once(("state", metric), lambda: metric.prepare(captions))
        return metric.page_explanations(captions, indices, state)

    def document(self) -> Document:
        """Values with intervals; and the items to explore, or of shards what their summaries tell."""
        if self.unit == "shard":
            from captious.runs.shards_page import shards_document

            return shards_document(self)
        level = self.resampling.level if self.intervals else None
        columns: list[Column | str] = ["metric", Column("value", percent=1, level=level, bold=True, bar=True)]
        if lower := any(not one.metric.higher_is_better for one in self):
            columns.append(Column("better", "text", latex=None))
        if unscored := any(one.reasons for one in self):
            columns.append(Column("unscored", latex=None))
        rows: list[list[Any]] = []
        for key, measurement in self.measurements.items():
            address = f"#sort={quote(key)}"
            row: list[Any] = [link(self.label(key), address), on_scale([self], key)[0]]
            if lower:
                row.append("higher" if measurement.metric.higher_is_better else "lower")
            if unscored:
                number, why = len(measurement.reasons), reasons_line(measurement)
                row.append(Cell(number, note=why, decimals=0, href=f"{address}&unscored=1" if number else ""))
            rows.append(row)
        explained = self.explanations and self.explanations.document()
        low, high = next((one.signature.references for one in self), (0, 0))
        span = str(low) if low == high else f"{low}–{high}"
        return Document(
            self.title,
            f"{span} reference{'' if high == 1 else 's'} per item" if high else "no references",
            [
                Table("scores", "Scores", columns, rows),
                *(explained.sections if explained else ()),
                explorer({PurePath(self.name).name: self}),
            ],
            warnings=self.warnings,
            notes=[
                *([self.origin_line] if self.origin_line else []),
                *self._beside_the_original(),
                *self._few_items(),
                *self.notes,
                *(explained.notes if explained else ()),
            ],
            signatures=self.signatures,
            data=self.data(),
        )

    def _few_items(self) -> list[str]:
        """Notes on intervals that are too narrow: of few items, or of a mean in which few items differ from the rest.

        A rare value that no item of the sample has widens no interval, whichever way the interval is made.
        """
        if not self.intervals or self.unit != "item":
            return []
        if few := too_narrow(self.size, self.resampling):
            return few
        notes = []
        for key, one in self.measurements.items():
            if key not in self.intervals or not isinstance(one.metric, MeanMetric):
                continue
            values = one.values[~np.isnan(one.values)]
            differing = len(values) - int(np.unique(values, return_counts=True)[1].max(initial=0))
            if 0 < differing < FEW <= len(values):
                notes.append(
                    f"{self.label(key)}: only {differing} of {len(values):,} items differ from the rest; below {FEW} "
                    "the interval is too narrow"
                )
        return notes

    def _beside_the_original(self) -> list[str]:
        """How the values of another program agree with those that captious computed."""
        notes = []
        for original in self:
            for ours in self:
                other = original.metric
                if isinstance(other, ForeignMetric) and other.compares_with(ours.metric):
                    both = ~(np.isnan(original.values) | np.isnan(ours.values))
                    if both.sum() < 2:
                        continue
                    theirs, own = original.values[both], ours.values[both]
                    names = [self.label(str(one.metric)) for one in (ours, original)]
                    notes.append(
                        f"{names[0]} beside {names[1]}, {len(own):,} items that both have: mean {own.mean():.4f} and "
                        f"{theirs.mean():.4f}, Pearson correlation {pearson(own, theirs):.4f}."
                    )
        return notes

    def data(self) -> dict[str, Any]:
        """The numbers with everything that moves them, as JSON holds them."""
        if self.unit == "shard":
            from captious.runs.shards_page import shards_data

            return shards_data(self)
        return {
            "name": shown_path(self.name),
            "items": self.size,
            "skipped": self.skipped,
            **({"read": self.origin_line} if self.origin_line else {}),
            "metrics": [self.facts(key) for key in self.measurements],
            "warnings": list(self.warnings),
            **({"notes": self.notes} if self.notes else {}),
            **({"explanations": self.explanations.data()} if self.explanations else {}),
        }

    def facts(self, key: str) -> MetricFacts:
        """What the marker says of a metric."""
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
        """The items as Arrow tables, part by part: id, candidates, references, further columns, values, reasons.

        Those of shards have a column ``shard``.
        """
        import pyarrow as pa

        if isinstance(self.source, Run):
            for part in self.source.names:
                table = self.source.table(part).replace_schema_metadata()
                if self.unit == "shard" and "shard" not in table.column_names:
                    table = table.append_column("shard", pa.array([part] * len(table), pa.string()))
                yield table
            return
        for first in range(0, max(self.size, 1), BLOCK):
            block = self.source.part(first, first + BLOCK)
            yield items_table(block, self._slices(block, first), list(self.measurements))

    def _slices(self, captions: CaptionSet, first: int) -> dict[str, Measurement]:
        """The measurements on some of the items, which begin at a position."""
        if len(captions) == self.size:
            return dict(self.measurements)
        return {key: _slice(one, captions, first) for key, one in self.measurements.items()}

    def to_pandas(self, table: str | None = None) -> Any:
        """One row per item id: candidate, references, a column per metric; or a table of the document.

        Several candidates are joined by `` | ``. Where an item has no value, a column ``unscored`` says why. Of shards
        there is one row each, and ``items`` reads all items into memory. ``to_arrow`` and ``to_csv`` give the same
        columns.
        """
        frame = super().to_pandas(table)
        return frame.set_index("id") if (table or self._units) == ITEMS else frame

    @property
    def _units(self) -> str:
        """The table of the units that are resampled."""
        return SHARDS if self.unit == "shard" else ITEMS

    def _columns(self, table: str | None) -> Mapping[str, Sequence[Any]]:
        table = table or self._units
        if table == SHARDS and self.unit == "shard":
            from captious.runs.shards_page import shard_columns

            return shard_columns(self)
        if table != ITEMS:
            return super()._columns(table)
        captions = self.captions
        columns: dict[str, Sequence[Any]] = {
            "id": captions.ids,
            "candidate": [" | ".join(texts) for texts in captions.candidates],
            "references": list(captions.references),
            **{key: finite(one.values) for key, one in self.measurements.items()},
        }
        if any(one.reasons for one in self):
            lines = [
                [f"{key}: {one.reasons[id]}" for key, one in self.measurements.items() if id in one.reasons]
                for id in captions.ids
            ]
            columns["unscored"] = ["; ".join(line) or None for line in lines]
        return columns

    def files(self, percent: bool = False) -> dict[str, str]:
        """The files of the report by name: the page, JSON, text, LaTeX, and a CSV file per table."""
        from captious.render.tables import csv_text

        files = super().files(percent)
        if self.unit == "shard":  # the worst items are on the page alone, and of shards the page lists the slowest
            files = {name: text for name, text in files.items() if not name.startswith("worst_")}
            files[f"{SHARDS}.csv"] = csv_text(self._columns(SHARDS))
        return files

    def write(self, percent: bool = False) -> None:
        """Write the report into the folder of its run; the marker comes last."""
        assert isinstance(self.source, Run)
        for name, text in self.files(percent).items():
            self.source.storage.write(name, text.encode("utf-8", "replace"))
        self.source.write_marker()

    def marker(self, parts: Mapping[str, int]) -> Marker:
        """What the marker of a run says once these parts are written."""
        facts: dict[str, Any] = {
            "name": PurePath(self.name).name if self.unit == "shard" else shown_path(self.name),
            "metrics": tuple(map(self.facts, self.measurements)),
            "items": self.size,
            "skipped": self.skipped,
            "parts": parts,
            "resampling": self.resampling,
            "warnings": tuple(self.warnings),
            "notes": tuple(self.notes[len(self.history) :]),
            "complete": True,
        }
        if isinstance(self.source, Run):
            return replace(self.source.marker, **facts)
        reading: dict[str, Any] = {"source": shown_path(self.name)}
        if self.origin_line:
            reading["columns"] = self.origin_line
        if self.source.origin.cleaned:
            reading["cleaned"] = self.source.origin.cleaned
        if self.source.selection:
            reading["list"] = self.source.selection
        if self.source.language:
            reading["language"] = self.source.language
        if not self.store_references:
            reading["store_references"] = False
        return Marker(**facts, reading=reading)

    def write_files(self, folder: Path) -> None:
        """Write the run: its items, their statistics and the marker; and ``items.csv``."""
        if isinstance(self.source, Run):
            self._copy(self.source, folder)
            return
        captions, draft = without_machine_paths(self.source), Run(str(folder), self.marker({}))
        write_csv(
            {
                "id": captions.ids,
                "candidate": (" | ".join(texts) for texts in captions.candidates),
                **{key: _streamed(one.values) for key, one in self.measurements.items()},
            },
            folder / "items.csv",
        )
        parts = {}
        for number, first in enumerate(range(0, max(self.size, 1), PART)):
            name = CAPTIONS if self.size <= PART else f"{CAPTIONS}-{number:03d}"
            part = captions.part(first, first + PART)
            measurements = self._slices(part, first)
            summary = part_summary(name, draft, part, measurements, skipped=captions.skipped if not first else 0)
            items = items_table(part, measurements, list(self.measurements), self.store_references)
            draft.write_part(summary, items, {}, rows_table(measurements))
            parts[name] = len(part)
        replace(draft, marker=self.marker(parts)).write_marker()

    def _copy(self, run: Run, folder: Path) -> None:
        """Write what the folder of a run holds into another one."""
        for name in run.files():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with run.open(name) as file:
                (folder / name).write_bytes(file.read())
        (folder / MARKER).write_text(
            self.marker(run.marker.parts).to_json(), encoding="utf-8", errors="replace", newline="\n"
        )


def _slice(measurement: Measurement, captions: CaptionSet, first: int) -> Measurement:
    """A measurement on some of its items; what is known of all items together goes with the first ones."""
    end, rows = first + len(captions), measurement.rows
    counts, reasons = captions.references.counts, measurement.reasons
    own = {id: reasons[id] for id in captions.ids if id in reasons} if reasons else {}
    signature = replace(
        measurement.signature,
        items=len(captions),
        references=(int(counts.min()), int(counts.max())) if len(counts) else (0, 0),
        fingerprint=captions.fingerprint,
        unscored=len(own),
    )
    if first:
        signature = replace(signature, skipped=0, counts=dict.fromkeys(signature.counts, 0))
    part = replace(
        measurement,
        ids=captions.ids,
        rows=TypeSets(rows.types[first:end], rows.tokens[first:end]) if isinstance(rows, TypeSets) else rows[first:end],
        signature=signature,
        reasons=own,
        warnings=() if first else measurement.warnings,
        notes=() if first else measurement.notes,
    )
    vars(part)["values"] = measurement.values[first:end]
    return part


def part_summary(
    name: str, run: Run, captions: CaptionSet, measurements: Mapping[str, Measurement], **facts: Any
) -> PartSummary:
    """The summary of a part that these captions and measurements are."""
    corpora = facts.pop("corpora", {})
    return PartSummary(
        name=name,
        marker=run.marker.digest,
        size=facts.pop("size", 0),
        items=len(captions),
        metrics=tuple(MetricSummary.of(one, captions, corpora.get(key, "")) for key, one in measurements.items()),
        candidates=len(captions.candidates.values),
        words=sum(count_words(captions.candidates.values, captions.language)),
        images=sum(image is not None for image in captions.images),
        ids=ids_fingerprint(captions.ids),
        **facts,
    )


def read_run(folder: str | os.PathLike[str], *, images: str | os.PathLike[str] | None = None) -> Report:
    """The report of a folder that ``captious score --out``, ``Report.save`` or ``score_shards`` wrote.

    Nothing is scored again. Of shards, the items stay in the folder. A run may come from somebody else: no chat model
    is asked, and no image outside the folder is opened unless ``images`` names their folder.

    Parameters
    ----------
    folder
        The folder, or its address, such as ``s3://bucket/run``.
    images
        The folder of the images, for explanations of metrics that look at them.
    """
    return report_of(open_run(folder), images=images)


def report_of(
    run: Run,
    resampling: Resampling | None = None,
    metrics: Mapping[str, Metric] | None = None,
    images: str | os.PathLike[str] | None = None,
) -> Report:
    """The report of a run: with the intervals of its marker, or with new ones where ``resampling`` is given."""
    parts = tuple(run.summaries())
    known = known_metrics(run) if metrics is None else metrics
    measurements = stored_measurements(run, parts, known)
    refuse_contradictions(run, measurements)
    warnings = list(run.marker.warnings)
    if unknown := [key for key in run.metrics if key not in known]:
        warnings.append(f"{run.address}: {', '.join(unknown)} is not known here and left out")
    if resampling is None:
        intervals = {key: one for key, facts in run.facts.items() if (one := facts.interval) and key in known}
        resampling = run.marker.resampling
    else:
        intervals = resampled_intervals(measurements, resampling)
    stores = run.marker.reading.get("store_references") is not False
    return Report(
        run,
        measurements,
        intervals,
        tuple(warnings),
        resampling,
        parts=parts,
        images=images,
        store_references=stores,
    )


def resampled_intervals(measurements: Mapping[str, Measurement], resampling: Resampling) -> dict[str, Estimate]:
    """The interval of every corpus value that can be resampled; none where there is a single shard."""
    statistics = {key: one.statistic for key, one in measurements.items() if one.additive}
    if any(isinstance(one, StoredMeasurement) and len(np.asarray(one.rows)) < 2 for one in measurements.values()):
        return {}
    estimates = bootstrap(statistics, resampling)
    return ByMetric({one.metric: estimates[key] for key, one in measurements.items() if key in estimates})


def intervals_of_systems(
    systems: Mapping[str, Mapping[str, Measurement]], resampling: Resampling
) -> dict[str, dict[str, Estimate]]:
    """The intervals of several systems on the same items, from draws that are made once."""
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


def _streamed(values: Floats) -> Iterator[float | None]:
    """Values as JSON holds them, without a list of them all."""
    for first in range(0, len(values), BLOCK):
        yield from finite(values[first : first + BLOCK])


def disambiguate_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """A name for each written form: its label, or the written form where another metric has the same label.

    >>> disambiguate_labels({"clipscore": "CLIPScore", "clipscore(w=1)": "CLIPScore", "cider": "CIDEr"})
    {'clipscore': 'clipscore', 'clipscore(w=1)': 'clipscore(w=1)', 'cider': 'CIDEr'}
    """
    number = Counter(labels.values())
    return {key: label if number[label] == 1 else key for key, label in labels.items()}


def join_signatures(signatures: Iterable[str]) -> list[str]:
    """Signatures with those of one metric that differ in its parameters alone on one line.

    >>> join_signatures(["bleu(n=1)|tok:ptb.1", "bleu(n=2)|tok:ptb.1", "rouge|tok:ptb.1"])
    ['bleu(n=1),bleu(n=2)|tok:ptb.1', 'rouge|tok:ptb.1']
    """
    lines: dict[tuple[str, str], list[str]] = {}
    for signature in signatures:
        metric, _, rest = signature.partition("|")
        lines.setdefault((metric.partition("(")[0], rest), []).append(metric)
    return ["|".join((",".join(metrics), rest)) for (_, rest), metrics in lines.items()]


def worst_first(measurement: Measurement) -> list[int]:
    """Indices of items from worst to best; those without a value are left out."""
    sign = 1 if measurement.metric.higher_is_better else -1
    order: list[int] = np.argsort(sign * measurement.values, kind="stable").tolist()
    return order[: np.count_nonzero(~np.isnan(measurement.values))]


def on_scale(reports: Sequence[Report], key: str) -> list[Cell]:
    """The value of a metric in each report, with the ends of the bar that the page draws.

    The bar ends at the metric's highest value where that is 1, otherwise at the next round number.
    """
    cells = [report.cell(key) for report in reports]
    ends = [end for cell in cells for end in (cell.value, cell.low, cell.high) if not math.isnan(end)]
    top = reports[0].measurements[key].metric.range[1]
    if top > 1:
        highest = max([*ends, 1e-9])
        power = 10.0 ** math.floor(math.log10(highest))
        top = next(step * power for step in (1, 2, 5, 10) if step * power >= highest)
    limits = (min([0.0, *ends]), top)
    own = own_scale(reports[0].measurements[key].metric)
    return [Cell(cell.value, cell.low, cell.high, limits=limits, **own) for cell in cells]


def own_scale(metric: Metric) -> dict[str, Any]:
    """How a cell shows a value that is no score: with the decimals that its metric declares, and never × 100."""
    return {} if metric.decimals is None else {"decimals": metric.decimals, "scale": 1.0}


def score_column(label: str, metric: Metric) -> Column:
    """A column of the values of items."""
    if metric.decimals is None:
        return Column(label, key=str(metric), percent=1)
    return Column(label, key=str(metric), decimals=metric.decimals)


def explorer(reports: Mapping[str, Report]) -> Items:
    """The items of systems that captioned the same ids in the same order, for the page to search and sort."""
    first = next(iter(reports.values()))
    sets = [report.captions for report in reports.values()]
    images = next((one.images for one in sets if "image" in one.columns), ())
    keys = list(first.measurements)

    def explain(system: int, metric: int, indices: Sequence[int]) -> Sequence[Why]:
        return list(reports.values())[system]._whys(keys[metric], indices)

    return Items(
        ids=first.captions.ids,
        metrics=[
            ItemMetric(
                key,
                first.label(key),
                one.metric.higher_is_better,
                one.metric.range,
                one.metric.decimals is None,
                isinstance(one.metric, ExplainsOnPage) and one.metric.explains_on_page,
            )
            for key, one in first.measurements.items()
        ],
        systems=list(reports),
        values=[[one.values for one in report] for report in reports.values()],
        texts=[one.candidates for one in sets],
        references=first.captions.references,
        reasons=[[one.reasons for one in report] for report in reports.values()],
        images=images,
        fields={name: column for name, column in first.captions.columns.items() if name != "image"},
        language=first.captions.language,
        count_words=partial(count_words, language=first.captions.language),
        explain=explain,
    )


def reasons_line(measurement: Measurement) -> str:
    """How often each reason for a missing value occurs, and for which items."""
    ids: dict[str, list[str]] = {}
    for key, reason in measurement.reasons.items():
        ids.setdefault(reason, []).append(key)
    counts = sorted(ids.items(), key=lambda entry: -len(entry[1]))
    texts = [f"{len(keys)} × {reason} (id {format_first(keys)})" for reason, keys in counts[:REASONS]]
    rest = [key for _, keys in counts[REASONS:] for key in keys]
    return ", ".join([*texts, *([f"{len(rest)} × other reasons (id {format_first(rest)})"] if rest else [])])
