"""``captious.evaluate``: every metric on one set of captions, with intervals, as one report."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, repeat
from os import PathLike
from pathlib import Path, PurePath
from types import NoneType
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote

import numpy as np

from captious._typing import Floats
from captious.captions import CaptionSet, ImageData, Ragged, gallery_entry
from captious.errors import InputError
from captious.io.check import findings_that_mislead
from captious.io.formats import name_of, rows_of
from captious.io.join import first_few, gather_references
from captious.io.read import read
from captious.metrics.abilities import ExplainsOnPage, OfAnotherProgram
from captious.metrics.chunks import measure_all
from captious.metrics.contract import Metric
from captious.metrics.explanation import Explanations
from captious.metrics.measurement import Measurement
from captious.metrics.registry import DEFAULT, find_key, parse_all
from captious.options import Missing, Reading, Resampling, Runtime, current, using
from captious.render import (
    Cell,
    Column,
    Document,
    Gallery,
    ItemMetric,
    Items,
    Result,
    Table,
    Why,
    link,
)
from captious.render.document import Value
from captious.render.tables import dumps, finite, to_arrow, write_csv, write_jsonl, write_parquet_parts
from captious.stats.bootstrap import Estimate, bootstrap
from captious.stats.correlation import Moments

T = TypeVar("T")
M = TypeVar("M", bound="HasCorpusValue")
Specs = str | Metric | Iterable[str | Metric]
ITEMS = "items"
"""What frames and files call the values of every item."""
REASONS = 5
"""Different reasons that a warning names."""
BLOCK = 20_000
"""Items that are brought into the form of a file at a time."""


class ByMetric(dict[str, T]):
    """Values by the written form of their metric; a label or a name of only one metric finds it too."""

    def __init__(self, values: Mapping[Metric, T]) -> None:
        super().__init__({str(metric): value for metric, value in values.items()})
        self._labels = {str(metric): metric.label for metric in values}

    def __missing__(self, key: str) -> T:
        return self[find_key(key, self._labels)]


class HasCorpusValue(Protocol):
    """One metric on one set, of items or of shards."""

    @property
    def metric(self) -> Metric: ...
    @property
    def corpus(self) -> float: ...


class Scores(Result, Generic[M]):
    """Measurements with intervals, by the written form of their metric: what reports of all kinds of sets share."""

    measurements: Mapping[str, M]
    intervals: Mapping[str, Estimate]

    @property
    @abstractmethod
    def title(self) -> str:
        """What was measured."""

    def __getitem__(self, key: str) -> M:
        """A measurement by the written form of its metric, by its label, or by its name if no other metric has it."""
        return self.measurements[self._key(key)]

    def __iter__(self) -> Iterator[M]:
        return iter(self.measurements.values())

    def __repr__(self) -> str:
        values = ", ".join(f"{self.label(key)} {one.corpus:.4f}" for key, one in self.measurements.items())
        return f"<{type(self).__name__} {self.title}; {values}>"

    def _key(self, name: str) -> str:
        """The written form of the metric that a name means here."""
        return find_key(name, {key: one.metric.label for key, one in self.measurements.items()})

    @cached_property
    def _labels(self) -> dict[str, str]:
        return disambiguate_labels({key: one.metric.label for key, one in self.measurements.items()})

    def label(self, key: str) -> str:
        """What tables call a metric: its label, or its written form where two metrics share the label."""
        return self._labels[key]

    def cell(self, key: str) -> Cell:
        """A corpus value with its interval."""
        return Cell.of(self.intervals[key]) if key in self.intervals else Cell(self.measurements[key].corpus)


@dataclass(frozen=True, eq=False, repr=False)
class Report(Scores[Measurement]):
    """Measurements of one set, by the written form of their metric.

    ``print``, ``save``, ``plot``, ``to_pandas``, ``to_latex`` and ``in_percent`` come from ``captious.render.Result``.
    """

    captions: CaptionSet
    measurements: Mapping[str, Measurement]
    intervals: Mapping[str, Estimate] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    resampling: Resampling = Resampling()
    """Of the intervals."""
    explanations: Explanations | None = None
    """Why one item has its values, to show beside them: ``replace(report, explanations=report.explain(id))``."""

    @property
    def title(self) -> str:
        """The name of the captions without folders, and how many items they are."""
        return f"{PurePath(self.captions.name).name}: {len(self.captions)} items"

    def signature(self, key: str) -> str:
        """The signature of a number with that of its interval."""
        measurement = self[key]
        interval = f"|ci:{self.resampling.signature()}" if str(measurement.metric) in self.intervals else ""
        return f"{measurement.signature}{interval}"

    @property
    def signatures(self) -> list[str]:
        """Every signature; those that differ in the parameters of the metric alone share a line."""
        return join_signatures(map(self.signature, self.measurements))

    def worst(self, number: int = 10, metric: str | None = None) -> Document:
        """The items with the worst value of a metric, the last one unless named.

        Printed it is a table; a notebook and a saved page show the images beside the captions.
        """
        if not isinstance(number, int) or number < 0:
            raise InputError(f"worst: number is {number!r}, expected a whole number; pass a metric as metric=...")
        measurement = self[metric] if metric else list(self)[-1]
        label = self.label(str(measurement.metric))
        rows, entries, images = [], [], self.captions.images
        shown = 4 if self.captions.references.counts.any() else 3
        for index in worst_first(measurement)[:number]:
            item, value = self.captions.item(index), float(measurement.values[index])
            row: tuple[Value, ...] = (item.id, value, item.candidate, (*item.references, "")[0])
            rows.append(row[:shown])
            entries.append(gallery_entry(item, images[index], [f"{label} {value:.4f}"]))
        title = f"worst {len(rows)} by {label}"
        value_column = score_column(label, measurement.metric)
        columns = ("id", value_column, "candidate", "first reference")[:shown]
        return Document(title, sections=[Table("worst", title, columns, rows), Gallery(title, entries, "", "worst")])

    def explain(self, id: Any, metric: str | None = None) -> Explanations:
        """Why an item has its values: for each metric that can tell, parts that add up to the value.

        ``metric`` names one; without it all are explained. A notebook and a saved page draw SPICE's graphs.

        >>> report = evaluate(["a red dog"], "rouge", Resampling(0), references=[["the red dog"]])
        >>> [(part.name, round(part.adds, 4)) for part in report.explain(0)["rouge"].parts]
        [('red', 0.3333), ('dog', 0.3333)]
        """
        self.captions.position(id)
        keys = [self._key(metric)] if metric else list(self.measurements)
        able = [key for key in keys if self.measurements[key].metric.explains]
        if metric and not able:
            known = [key for key, one in self.measurements.items() if one.metric.explains]
            hint = f", only {', '.join(known)}" if known else ""
            raise InputError(f"{keys[0]} does not explain single values{hint}")
        explanations = []
        for key in able:
            one = self.measurements[key].metric.explain(self.captions, id)
            explanations.append(replace(one, label=self.label(key), signature=self.signature(key)))
        unexplained = [self.label(key) for key in keys if key not in able]
        return Explanations(str(id), explanations, unexplained)

    def _whys(self, key: str, indices: Sequence[int]) -> Sequence[Why]:
        """What made the values of items, for the page."""
        metric, captions = self.measurements[key].metric, self.captions
        if not isinstance(metric, ExplainsOnPage):
            return []
        state = captions.once(("state", metric), lambda: metric.prepare(captions))
        return metric.page_explanations(captions, indices, state)

    def document(self) -> Document:
        """Values with intervals, and the items to explore."""
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
                number, why = len(measurement.reasons), _reasons(measurement)
                row.append(Cell(number, note=why, decimals=0, href=f"{address}&unscored=1" if number else ""))
            rows.append(row)
        explained = self.explanations and self.explanations.document()
        counts = self.captions.references.counts
        low, high = (int(counts.min()), int(counts.max())) if len(counts) else (0, 0)
        span = str(low) if low == high else f"{low}–{high}"
        return Document(
            self.title,
            f"{span} reference{'' if high == 1 else 's'} per item" if high else "no references",
            [
                Table("scores", "Scores", columns, rows),
                *(explained.sections if explained else ()),
                explorer({PurePath(self.captions.name).name: self}),
            ],
            warnings=self.warnings,
            notes=[*self._beside_the_original(), *self.notes, *(explained.notes if explained else ())],
            signatures=self.signatures,
            data=self.data(),
        )

    @property
    def notes(self) -> list[str]:
        """What the metrics say of their computation, such as what it cost."""
        return list(chain.from_iterable(one.notes for one in self))

    def _beside_the_original(self) -> list[str]:
        """How the values of another program agree with those that captious computed."""
        notes = []
        for original in self:
            for ours in self:
                other = original.metric
                if isinstance(other, OfAnotherProgram) and other.compares_with(ours.metric):
                    both = ~(np.isnan(original.values) | np.isnan(ours.values))
                    if both.sum() < 2:
                        continue
                    theirs, own = original.values[both], ours.values[both]
                    names = [self.label(str(one.metric)) for one in (ours, original)]
                    notes.append(
                        f"{names[0]} beside {names[1]}, {len(own):,} items that both have: mean {own.mean():.4f} and "
                        f"{theirs.mean():.4f}, Pearson correlation {_pearson(own, theirs):.4f}."
                    )
        return notes

    def data(self) -> dict[str, Any]:
        """The numbers with everything that moves them, as JSON holds them."""
        return {
            "name": self.captions.name,
            "items": len(self.captions),
            "skipped": self.captions.skipped,
            "metrics": [self._metric_data(key) for key in self.measurements],
            "warnings": list(self.warnings),
            **({"notes": self.notes} if self.notes else {}),
            **({"explanations": self.explanations.data()} if self.explanations else {}),
        }

    def _metric_data(self, key: str) -> dict[str, Any]:
        measurement, interval = self.measurements[key], self.intervals.get(key)
        spread = {name: getattr(interval, name) if interval else None for name in ("low", "high", "error")}
        spread["level"] = self.resampling.level if interval else None
        return {
            "metric": key,
            "label": self.label(key),
            "value": measurement.corpus,
            **spread,
            "higher_is_better": measurement.metric.higher_is_better,
            "range": measurement.metric.range,
            "decimals": measurement.metric.decimals,
            "unscored": len(measurement.reasons),
            "signature": self.signature(key),
        }

    def to_pandas(self, table: str | None = None) -> Any:
        """One row per item id: candidate, references, a column per metric; or a table of the document.

        Several candidates are joined by `` | ``. Where an item has no value, a column ``unscored`` says why.
        ``to_arrow`` and ``to_csv`` give the same columns.
        """
        frame = super().to_pandas(table)
        return frame.set_index("id") if table in (None, ITEMS) else frame

    def _columns(self, table: str | None) -> Mapping[str, Sequence[Any]]:
        if table not in (None, ITEMS):
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

    def write_files(self, folder: Path) -> None:
        """Write the values of every item, block by block: ``items.jsonl``, ``items.parquet``, ``items.csv``."""
        write_jsonl(folder / "items.jsonl", self._records())
        captions = self.captions
        columns: dict[str, Iterable[Any]] = {
            "id": captions.ids,
            "candidate": (" | ".join(texts) for texts in captions.candidates),
            **{key: _streamed(one.values) for key, one in self.measurements.items()},
        }
        write_csv(columns, folder / "items.csv")
        write_parquet_parts(folder / "items.parquet", self._tables())

    def _records(self) -> Iterator[dict[str, Any]]:
        """Each item with its scores, why one is missing, and its further fields."""
        scores = zip(*(_streamed(one.values) for one in self), strict=True) if self.measurements else repeat(())
        unscored = {key: one.reasons for key, one in self.measurements.items() if one.reasons}
        for item, values in zip(self.captions, scores, strict=False):
            record = {
                "id": item.id,
                "candidates": item.candidates,
                "references": item.references,
                "scores": dict(zip(self.measurements, values, strict=True)),
            }
            if reasons := {key: why[item.id] for key, why in unscored.items() if item.id in why}:
                record["unscored"] = reasons
            if fields := {name: value for name, value in item.fields.items() if not isinstance(value, ImageData)}:
                record["fields"] = fields
            yield record

    def _tables(self) -> Iterator[Any]:
        """Blocks of items as Arrow tables."""
        import pyarrow as pa

        captions, names = self.captions, {"id", "candidates", "references", "unscored", *self.measurements}
        further = {name: column for name, column in captions.columns.items() if name not in names}
        if any(isinstance(image, ImageData) for image in further.get("image", ())):
            del further["image"]  # what is in memory stays there
        rest = to_arrow(further)
        unscored = {key: one.reasons for key, one in self.measurements.items() if one.reasons}
        for first in range(0, max(len(captions), 1), BLOCK):
            end = min(first + BLOCK, len(captions))
            ids = captions.ids[first:end]
            reasons = [{key: why[id] for key, why in unscored.items() if id in why} for id in ids]
            columns = {
                "id": pa.array(ids, pa.string()),
                "candidates": _arrow_lists(captions.candidates.part(first, end)),
                "references": _arrow_lists(captions.references.part(first, end)),
                **{
                    key: pa.array(finite(one.values[first:end]), pa.float64()) for key, one in self.measurements.items()
                },
                "unscored": pa.array([dumps(why, None) if why else None for why in reasons], pa.string()),
            }
            yield pa.table({**columns, **{name: rest[name].slice(first, end - first) for name in further}})


def _streamed(values: Floats) -> Iterator[float | None]:
    """Values as JSON holds them, without a list of them all."""
    for first in range(0, len(values), BLOCK):
        yield from finite(values[first : first + BLOCK])


def _arrow_lists(texts: Ragged) -> Any:
    import pyarrow as pa

    return pa.ListArray.from_arrays(pa.array(texts.offsets, pa.int32()), pa.array(texts.values, pa.string()))


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


def on_scale(reports: Sequence[Scores[Any]], key: str) -> list[Cell]:
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
        explain=explain,
    )


def _pearson(x: Floats, y: Floats) -> float:
    """NaN where a side is constant."""
    moments = Moments.of(x, y, np.arange(len(x)), len(x))
    return float(moments(np.ones((len(x), 1)))["pearson"][0])


def _reasons(measurement: Measurement) -> str:
    """How often each reason for a missing value occurs, and for which items."""
    ids: dict[str, list[str]] = {}
    for key, reason in measurement.reasons.items():
        ids.setdefault(reason, []).append(key)
    counts = sorted(ids.items(), key=lambda entry: -len(entry[1]))
    texts = [f"{len(keys)} × {reason} (id {first_few(keys)})" for reason, keys in counts[:REASONS]]
    rest = [key for _, keys in counts[REASONS:] for key in keys]
    return ", ".join([*texts, *([f"{len(rest)} × other reasons (id {first_few(rest)})"] if rest else [])])


def _misleading(captions: CaptionSet, measurements: Collection[Measurement]) -> list[str]:
    """What a person should know before trusting these numbers."""
    warnings = [finding.message for finding in findings_that_mislead(captions)]
    warnings += [warning for measurement in measurements for warning in measurement.warnings]
    labels: dict[str, list[str]] = {}
    for measurement in measurements:
        if measurement.reasons:
            labels.setdefault(_reasons(measurement), []).append(measurement.metric.label)
    warnings += [f"{', '.join(metrics)}: items without a value: {why}" for why, metrics in labels.items()]
    return list(dict.fromkeys(warnings))


def metric_specs(specs: Any) -> list[str | Metric]:
    """What names metrics; an argument that does not is refused, with the name of the one that was meant."""
    named = "; pass references by name, references=..."
    captions = isinstance(specs, (Mapping, CaptionSet, PathLike)) or hasattr(specs, "shape")
    if captions or not isinstance(specs, (str, Metric, Iterable)):
        hint = named if captions else ""
        raise InputError(f"metrics: {type(specs).__name__}, expected written metrics such as {DEFAULT!r}{hint}")
    entries = [specs] if isinstance(specs, (str, Metric)) else list(specs)
    for entry in entries:
        if not isinstance(entry, (str, Metric)):
            hint = named if isinstance(entry, (list, tuple, Mapping)) else ""
            raise InputError(
                f"metrics: holds {type(entry).__name__}, expected written metrics such as {DEFAULT!r}{hint}"
            )
    try:
        parse_all(entries)
    except InputError as error:
        texts = [entry for entry in entries if isinstance(entry, str)]
        # A caption or the name of a file, which other libraries take second.
        meant = any(re.search(r"^[^(,]*\w \w|\.(?:jsonl?|csv|tsv|parquet|gz)$", text) for text in texts)
        if not meant or "commas stand between" in str(error):
            raise
        raise InputError(f"{error}{named}") from None
    return entries


def evaluate(
    captions: Any,
    metrics: Specs = DEFAULT,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
) -> Report:
    """Score captions with every metric asked for.

    Parameters
    ----------
    captions
        Whatever ``captious.read`` reads: a path, captions by id, a list of captions, a frame, a ``CaptionSet``, …
    metrics
        Written forms, such as ``"bleu,cider(idf=coco)"``, or metrics.
    resampling
        How the bootstrap makes the intervals of the corpus values; ``Resampling(samples=0)`` leaves them out.
    runtime
        Where and how models run.
    progress
        Called with the name of each step as it begins.
    references
        References by id, or a list of them in the order of the captions, where ``captions`` has none.
    images
        Folder of the images; or paths, PIL images, arrays or tensors, in a list in the order of the captions or by id.
    missing
        Ids that the captions or the references lack: an error, or left out with ``skip``.

    >>> report = evaluate({"1": "a cat", "2": "a dog runs"}, "rouge", references={"1": "a cat", "2": "the dog runs"})
    >>> round(report["rouge"].items["2"], 6)
    0.666667
    >>> report = evaluate(["a cat", "a dog runs"], "rouge", references=[["a cat"], ["the dog runs"]])
    >>> round(report["rouge"].items[1], 6)
    0.666667
    """
    resampling, runtime = settings_of(resampling, runtime, progress)
    specs = metric_specs(metrics)
    captions = read(captions, reading=Reading(references, images, missing))
    return _evaluated(captions, specs, resampling, runtime, progress)


def _evaluated(
    captions: CaptionSet,
    specs: Sequence[str | Metric],
    resampling: Resampling,
    runtime: Runtime,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """The report with the intervals of everything that can be resampled."""
    with using(runtime):
        measurements = measure_all(captions, parse_all(specs, [captions]), progress)
    if progress and resampling.samples:
        progress("intervals")
    statistics = {key: one.statistic for key, one in measurements.items() if one.additive}
    warnings = _misleading(captions, measurements.values())
    estimates = bootstrap(statistics, resampling)
    intervals = ByMetric({one.metric: estimates[key] for key, one in measurements.items() if key in estimates})
    return Report(captions, measurements, intervals, warnings, resampling)


def settings_of(resampling: Any, runtime: Any, progress: Any = None) -> tuple[Resampling, Runtime]:
    """The settings of a run, once their types are right."""
    if not isinstance(resampling, Resampling):
        raise InputError(f"resampling: {type(resampling).__name__}, expected one such as Resampling(samples=1000)")
    if not isinstance(runtime, (Runtime, NoneType)):
        raise InputError(f"runtime: {type(runtime).__name__}, expected one such as Runtime(device='cpu')")
    if progress is not None and not callable(progress):
        raise InputError(f"progress: {type(progress).__name__}, expected a function that takes the name of a step")
    return resampling, runtime or current()


def evaluate_shards(
    shards: Iterable[Any],
    metrics: Specs = DEFAULT,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    *,
    references: Any = None,
) -> Report:
    """Score shards as if they were one set.

    A shard is whatever ``evaluate`` takes: a path, a frame, a ``CaptionSet``, … It has its references, or
    ``references`` has those of all shards by id.

    >>> shards = [[{"id": 1, "caption": "a cat", "references": ["a cat"]}],
    ...           [{"id": 2, "caption": "a dog runs", "references": ["the dog runs"]}]]
    >>> len(evaluate_shards(shards, "rouge").captions)
    2
    """
    resampling, runtime = settings_of(resampling, runtime)
    specs = metric_specs(metrics)
    if isinstance(shards, (str, PathLike, Mapping, CaptionSet)) or not isinstance(shards, Iterable):
        raise InputError(f"shards: {type(shards).__name__}, expected a list of shards, each as evaluate takes it")
    sets = [shard for shard in map(read, shards) if len(shard)]
    sets = sets if references is None else _with_references(sets, references)
    if not sets:
        raise InputError("no shard holds an item, expected at least one that does")
    return _evaluated(_concatenate(sets), specs, resampling, runtime)


def _with_references(shards: Sequence[CaptionSet], references: Any) -> list[CaptionSet]:
    people = gather_references(rows_of(references, role="references")).references
    known = set(chain.from_iterable(shard.ids for shard in shards))
    if unused := [key for key in people if key not in known]:
        where = name_of(references, "references")
        raise InputError(f"{where}: ids without a candidate in any shard, {len(unused)}: {first_few(unused)}")
    return [read(shard, {key: people[key] for key in shard.ids if key in people}) for shard in shards]


def _concatenate(shards: Sequence[CaptionSet]) -> CaptionSet:
    names = dict.fromkeys(chain.from_iterable(shard.columns for shard in shards))
    return CaptionSet(
        ids=tuple(chain.from_iterable(shard.ids for shard in shards)),
        candidates=Ragged.joined([shard.candidates for shard in shards]),
        references=Ragged.joined([shard.references for shard in shards]),
        columns={
            name: tuple(chain.from_iterable(shard.columns.get(name, (None,) * len(shard)) for shard in shards))
            for name in names
        },
        name=f"{len(shards)} shards",
        skipped=sum(shard.skipped for shard in shards),
    )
