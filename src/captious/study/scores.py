"""Metric values that are compared with ratings: measured here, from a report, or from a file computed elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from captious._core.notation import split_specs
from captious._core.numbers import parse_number
from captious._core.types import Floats
from captious.errors import InputError, format_suggestion
from captious.io.columns import CANDIDATE_COLUMNS, GROUP_COLUMNS, ITEM_COLUMNS, RATER_COLUMNS, SYSTEM_COLUMNS
from captious.io.formats import get_name, read_rows
from captious.io.rows import Row
from captious.metrics.abilities import HasSeeds
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement
from captious.metrics.registry import ALL, find_key, parse_all
from captious.options import Missing, Runtime, get_runtime, using
from captious.runs.folder import has_runs, open_runs
from captious.runs.pairing import find_shared_metrics
from captious.runs.report import Report, disambiguate_labels, make_report
from captious.study.judgments import Preferences, Ratings, ScoringPlan, clean_text
from captious.study.rating_files import find_id_columns, read_name, read_number
from captious.study.recipes import Recipe


@dataclass(frozen=True, eq=False)
class MetricScores:
    """One metric on the rated items, in their order; NaN if it has no value."""

    key: str
    label: str
    values: Floats
    higher_is_better: bool = True
    signature: str = ""
    remarks: tuple[str, ...] = ()
    """Remarks about these values, such as captions that were truncated."""
    notes: tuple[str, ...] = ()
    """Notes on the cost of computing them."""
    named: bool = True
    """Whether the metric was named; one that ``all`` brought is left out where it is constant."""

    @property
    def oriented(self) -> Floats:
        """Higher is better, whatever the metric's own direction."""
        return self.values if self.higher_is_better else -self.values


def measure(
    ratings: Ratings | Preferences,
    metrics: str | Iterable[str | Metric],
    progress: Callable[[str], None] | None = None,
    *,
    seeds: int | None = None,
    by_seed: bool = False,
) -> list[MetricScores]:
    """Measure metrics on the captions that were rated.

    With ``by_seed`` a metric that depends on a seed has one entry for each, called ``name@1``, ``name@2``, …;
    ``seeds`` sets how many, for the metrics that have any.
    """
    if ratings.captions is None:
        raise InputError(f"{ratings.name}: ratings without captions; give measurements instead of names of metrics")
    wanted = parse_all(metrics, [ratings.captions])
    parts = [part for text in ([metrics] if isinstance(metrics, str) else metrics) for part in split_specs(str(text))]
    named = [part for part in parts if part.lower() != ALL]
    keys = {str(metric) for metric in parse_all(named, [ratings.captions])} if named else set()
    if seeds is not None:
        seeded = [metric for metric in wanted if any(field.name == "seeds" for field in fields(metric))]
        if not seeded:
            raise InputError(f"seeds={seeds}: none of {', '.join(map(str, wanted))} depends on a seed")
        wanted = [replace(metric, seeds=seeds) if metric in seeded else metric for metric in wanted]  # type: ignore[call-arg]
    measured: list[Measurement] = []
    planned: list[MetricScores] = []
    for metric in wanted:
        if progress:
            progress(metric.label)
        if isinstance(ratings, Preferences) and ratings.scoring is not None:
            planned.append(_score_by_plan(metric, ratings, ratings.scoring))
            continue
        measured.append(metric.measure(ratings.captions))
        metric.refuse_empty(measured[-1], ratings.name)
    if planned:
        labels = disambiguate_labels({score.key: score.label for score in planned})
        return [replace(score, label=labels[score.key]) for score in planned]
    scores: list[MetricScores] = []
    for measurement, score in zip(measured, scores_of(measured, ratings.ids, ratings.name), strict=True):
        remarks, notes = measurement.warnings, measurement.notes
        full_score = replace(score, remarks=remarks, notes=notes, named=len(named) == len(parts) or score.key in keys)
        metric = measurement.metric
        if not by_seed or not isinstance(metric, HasSeeds):
            scores.append(full_score)
            continue
        columns = metric.seed_values(measurement)[ratings.captions.positions(ratings.ids)]
        scores += [
            replace(full_score, key=f"{full_score.key}@{number}", values=values)
            for number, values in enumerate(columns.T, 1)
        ]
    return scores


def collect_scores(
    ratings: Ratings | Preferences,
    metrics: Any,
    missing: Missing,
    progress: Callable[[str], None] | None,
    runtime: Runtime | None,
) -> list[MetricScores]:
    """Compute or read the metrics on the rated items, in whatever form they are given."""
    if (reports := open_stored_reports(metrics)) is not None:
        return match_run_scores(reports, ratings, missing)
    listed = list(metrics) if isinstance(metrics, (list, tuple)) else [metrics]
    if listed and all(isinstance(score, MetricScores) for score in listed):
        for score in listed:
            if len(score.values) != len(ratings.ids):
                raise InputError(f"{score.key} has {len(score.values)} values for {len(ratings.ids)} rated items")
        return listed
    if listed and all(isinstance(metric, (str, Metric)) for metric in listed):
        with using(runtime or get_runtime()):
            return measure(ratings, listed, progress)
    if hasattr(metrics, "columns"):
        return read_scores(metrics, ratings, missing=missing)
    return scores_of(metrics, ratings.ids, ratings.name, missing)


def choose_scores(scores: Sequence[MetricScores], metrics: Sequence[str], name: str) -> list[MetricScores]:
    """Return the metrics that are named, or all; a name is a written form, a label or a short name."""
    if not metrics:
        return list(scores)
    labels = {score.key: score.label for score in scores}
    keys = [find_key(metric, labels, name) for metric in metrics]
    return [next(score for score in scores if score.key == key) for key in dict.fromkeys(keys)]


def _score_by_plan(metric: Metric, pairs: Preferences, plan: ScoringPlan) -> MetricScores:
    """Score a metric as a protocol does: each set apart, and the mean of the values that a caption has.

    A set is prepared with all its captions, and those that people judged are scored.
    """
    parts = []
    for corpus in plan.corpora:
        judged = [index for index, key in enumerate(corpus.ids) if key in plan.owners]
        if judged:
            parts.append(metric.measure(corpus.take(judged), metric.prepared(corpus)))
            metric.refuse_empty(parts[-1], pairs.name)
    index = {key: place for place, key in enumerate(pairs.ids)}
    owner, value = [], []
    for part in parts:
        owner += [index[plan.owners[key]] for key in part.ids]
        value += part.values.tolist()
    number = np.bincount(owner, minlength=len(index))
    means = np.bincount(owner, value, minlength=len(index)) / number
    return MetricScores(
        str(metric),
        metric.label,
        means,
        metric.higher_is_better,
        f"{parts[0].signature}|corpora:{len(parts)}",
        tuple(dict.fromkeys(line for part in parts for line in part.warnings)),
        tuple(line for part in parts for line in part.notes),
    )


def list_notes(scores: Iterable[MetricScores]) -> list[str]:
    """List what computing the values took, each line once: the seeds of a metric share theirs."""
    return list(dict.fromkeys(note for score in scores for note in score.notes))


def scores_of(
    measurements: Any, ids: Sequence[str], name: str = "ratings", missing: Missing = "error", hint: str = ""
) -> list[MetricScores]:
    """Scores of a report, measurements, or ``{name: {id: value}}``, joined to item ids."""
    if isinstance(measurements, Report):
        measurements = measurements.measurements
    if isinstance(measurements, Measurement):
        measurements = [measurements]
    if isinstance(measurements, (list, tuple)) and all(isinstance(one, Measurement) for one in measurements):
        measurements = {str(one.metric): one for one in measurements}
    if not isinstance(measurements, Mapping):
        kind = type(measurements).__name__
        raise InputError(
            f"measurements are of type {kind}, expected a report, measurements, written metrics, or "
            "{name: {id: value}}"
        )
    if not measurements:
        raise InputError("no metric to study")
    scores = [_join_values(str(key), one, ids, name, missing, hint) for key, one in measurements.items()]
    labels = disambiguate_labels({score.key: score.label for score in scores})
    return [replace(score, label=labels[score.key]) for score in scores]


def read_scores(
    path: Any,
    ratings: Ratings | Preferences,
    recipe: Recipe | None = None,
    missing: Missing = "error",
    id_column: str | None = None,
) -> list[MetricScores]:
    """Read every column of numbers in a file or a frame whose rows name an item by its id, or by its image and its
    caption.

    Columns may be called as the recipe's layouts call them, or as usual. A column with more numbers than texts is a
    metric; a text among them, such as n/a, is a missing value, and is counted. Columns of text are named in the notes.
    """
    layouts = recipe.layouts if recipe is not None else ()

    def columns_named(part: str, usual: tuple[str, ...]) -> tuple[str, ...]:
        named = [getattr(layout, part) for layout in layouts]
        return (*dict.fromkeys(name for name in named if isinstance(name, str)), *usual)

    ids = (id_column,) if id_column is not None else columns_named("id", ITEM_COLUMNS)
    named_ids = {name for wanted in ids for name in find_id_columns(wanted, ())}
    images, captions = columns_named("image", GROUP_COLUMNS), columns_named("caption", CANDIDATE_COLUMNS)
    systems = columns_named("system", SYSTEM_COLUMNS)
    rated = [name for layout in layouts for name in (*layout.rating_columns, *layout.aspects)]
    naming = {*ids, *named_ids, *images, *captions, *systems, *columns_named("rater", RATER_COLUMNS), *rated}
    index = ItemIndex(ratings)
    rows = [_flatten_row(row) for row in read_rows(path, role="scores")]
    kinds = find_column_kinds(rows, naming)
    columns: dict[str, dict[str, float]] = {name: {} for name, kind in kinds.items() if kind.is_metric}
    for row in rows:
        for name in find_id_columns(id_column, row.fields):
            if name not in row.fields:
                hint = format_suggestion(name, row.fields)
                raise InputError(f"{row.where}: no column {name!r}, found columns {', '.join(row.fields)}{hint}")
        key, image, caption, system = (_read_item_name(row, names) for names in (ids, images, captions, systems))
        if key is None and image is None:
            raise InputError(f"{row.where}: no id: found columns {', '.join(row.fields)}; {SCHEME}")
        items = index.items(row.where, key, image, caption, system)
        for column, values in columns.items():
            if column not in row.fields:
                continue
            cell = row.fields[column]
            read = read_number(cell, row.where, column) if is_number(cell) else None
            value = np.nan if read is None else read
            for item in items:
                before = values.setdefault(item, value)
                if item in index.rated and before != value and not np.isnan([before, value]).all():
                    raise InputError(f"{row.where}: {item} has a second value of {column}, expected one row per item")
    file = get_name(path, "scores")
    texts = [name for name, kind in kinds.items() if not kind.is_metric and (kind.texts or kind.numbers)]
    notes = (f"{file}: {', '.join(texts)}: text, so not a metric",) if texts else ()
    if not columns:
        raise InputError(f"{file}: no column of numbers besides the ids" + (f"; {notes[0]}" if notes else ""))
    scores = scores_of(columns, ratings.ids, f"{ratings.name} and {file}", missing, f"; {SCHEME}")
    return [replace(_add_text_count(score, kinds[score.key]), notes=notes) for score in scores]


def _flatten_row(row: Row) -> Row:
    """Make columns of a table in a cell: ``{"stored": {"rouge": 0.4}}`` has the column ``stored.rouge``."""
    if not any(isinstance(cell, dict) for cell in row.fields.values()):
        return row
    flat: dict[str, Any] = {}
    for name, cell in row.fields.items():
        flat |= {f"{name}.{key}": one for key, one in cell.items()} if isinstance(cell, dict) else {name: cell}
    return row._replace(fields=flat)


class ColumnKind(NamedTuple):
    """The numbers of cells of a column that are numbers, and that are text."""

    numbers: int = 0
    texts: int = 0
    first: str = ""
    """The first text, and where it is."""

    @property
    def is_metric(self) -> bool:
        """Whether it has numbers, and no more texts than these."""
        return 0 < self.numbers >= self.texts

    def describe_texts(self, label: str) -> list[str]:
        """Return a sentence about the texts of a metric's column, which are missing values."""
        several = "s have" if self.texts > 1 else " has"
        remark = f"{self.first}, expected a number: {self.texts:,} row{several} no value of {label}"
        return [remark] if self.texts else []

    def sign(self, signature: str) -> str:
        """Add the number of texts to the signature of a metric."""
        return f"{signature}|text_cells:{self.texts}" if self.texts else signature


def find_column_kinds(rows: Iterable[Row], naming: Container[str]) -> dict[str, ColumnKind]:
    """Return what the columns contain that do not name an item."""
    kinds: dict[str, ColumnKind] = {}
    for row in rows:
        for column, cell in row.fields.items():
            if column in naming:
                continue
            kind = kinds.setdefault(column, ColumnKind())
            if not is_number(cell):
                first = kind.first or f"{row.where}: {column} is {str(cell)[:40]!r}"
                kinds[column] = kind._replace(texts=kind.texts + 1, first=first)
            elif cell not in (None, ""):
                kinds[column] = kind._replace(numbers=kind.numbers + 1)
    return kinds


def _add_text_count(score: MetricScores, kind: ColumnKind) -> MetricScores:
    """Add how many cells of a metric's column are text to the warnings and to the signature."""
    return replace(score, remarks=tuple(kind.describe_texts(score.label)), signature=kind.sign(score.signature))


def open_stored_reports(source: Any) -> dict[str, Report] | None:
    """Open reports by the name of their system, if the values come from runs; None for anything else."""
    if isinstance(source, Report):
        return {"": source} if source.source.address else None
    if isinstance(source, Mapping):
        entries = [(str(name), one) for name, one in source.items()]
    else:
        entries = [("", one) for one in (source if isinstance(source, (list, tuple)) else [source])]
    if not entries or not all(isinstance(one, Report) or has_runs(one) for _, one in entries):
        return None
    return collect_reports(entries)


def collect_reports(entries: Iterable[tuple[str, Any]]) -> dict[str, Report]:
    """Collect reports by the name of their system: that given with a run, else its own. Runs of a comparison keep
    theirs.
    """
    reports: dict[str, Report] = {}
    for name, one in entries:
        found = {"": one} if isinstance(one, Report) else {key: make_report(run) for key, run in open_runs(one).items()}
        for inner, report in found.items():
            own = inner or PurePath(report.name).name.split(".")[0]
            system = own if len(found) > 1 else name or own
            reports[system if system not in reports else f"{system}-{len(reports) + 1}"] = report
    return reports


def match_run_scores(
    reports: Mapping[str, Report], ratings: Ratings | Preferences, missing: Missing = "error"
) -> list[MetricScores]:
    """Match the values of runs to rated captions, by id, or by image and caption; each of several runs is a system."""
    index, keys = ItemIndex(ratings), find_shared_metrics(reports)
    systems = set(index.systems.values())
    columns: dict[str, dict[str, float]] = {key: {} for key in keys}
    for name, report in reports.items():
        for table in report.items():
            texts = [(one or [None])[0] for one in table["candidates"].to_pylist()]
            images = table["image"].to_pylist() if "image" in table.column_names else [None] * len(table)
            values = {key: table[key].to_pylist() for key in keys}
            for row, id in enumerate(table["id"].to_pylist()):
                system = name if name in systems else None
                for item in index.items(f"{report.name}: {id}", id, images[row], texts[row], system):
                    for key in keys:
                        value = values[key][row]
                        columns[key].setdefault(item, np.nan if value is None else value)
    name = f"{ratings.name} and {', '.join(report.name for report in reports.values())}"
    first = next(iter(reports.values()))
    scores = scores_of(columns, ratings.ids, name, missing, f"; {SCHEME}")
    described = []
    for score in scores:
        one = first.measurements[score.key]
        better, signature = one.metric.higher_is_better, str(one.signature)
        described.append(replace(score, label=first.label(score.key), higher_is_better=better, signature=signature))
    return described


# Names of a rated item in the rows of a file of values, for messages.
SCHEME = (
    "a row needs the image and the caption, or an id: that of the ratings, or IMAGE/SYSTEM, or IMAGE#k, the rated "
    "captions of one image counted from 0"
)


class ItemIndex:
    """Rated items by id, by image and caption, and by image where it has one rated caption."""

    def __init__(self, ratings: Ratings | Preferences) -> None:
        self.rated = {*ratings.ids}
        self.systems: dict[str, str] = {}
        self.by_image: dict[str, list[str]] = {}
        self.by_caption: dict[tuple[str, str], list[str]] = {}
        if isinstance(ratings, Ratings):
            images: Sequence[str] = ratings.groups
            self.systems = dict(zip(ratings.ids, ratings.systems or (), strict=False))
        else:
            images = [image for image in ratings.groups for _ in range(2)]
        for item, image in zip(ratings.ids, images, strict=True):
            self.by_image.setdefault(image, []).append(item)
            if ratings.captions is not None:
                self.by_caption.setdefault((image, clean_text(ratings.captions[item].candidate)), []).append(item)

    def items(
        self, where: str, key: str | None, image: str | None, caption: str | None, system: str | None
    ) -> list[str]:
        """Find the items that a row is about; if there is none, return the name by which a message calls the row."""
        names = [name for name in (key, image) if name is not None]
        for name in names:
            for item in (name, f"{name}/{system}"):
                if item in self.rated:
                    return [item]
        for name in names:
            same_image = self.by_image.get(name, [])
            matches = same_image if caption is None else self.by_caption.get((name, clean_text(caption)), [])
            if system is not None and self.systems:
                matches = [item for item in matches if self.systems[item] == system]
            if len(matches) == 1 or (matches and caption is not None):
                return matches
            if len(matches) > 1:
                raise InputError(
                    f"{where}: image {name!r} has {len(matches)} rated captions (ids {_format_ids(matches)}), expected "
                    "the "
                    "caption or the id too"
                )
        return [" ".join(part for part in (*names[:1], caption) if part is not None)]


def _read_item_name(row: Row, columns: Sequence[str]) -> str | None:
    """Get the first of these columns that the row has, as a name; several that make one id are joined by colons."""
    for column in columns:
        parts = find_id_columns(column, row.fields)
        if all(part in row.fields for part in parts):
            names = [read_name(row.fields[part], row.where, part) for part in parts]
            return None if None in names else ":".join(map(str, names))
    return None


def is_number(cell: Any) -> bool:
    """Return True if a cell is a number or empty."""
    if cell is None or cell == "":
        return True
    if isinstance(cell, bool):
        return False
    try:
        parse_number(cell) if isinstance(cell, str) else float(cell)
    except OverflowError:  # too large for a statistic, which `number` says
        return True
    except (TypeError, ValueError):
        return False
    return True


def _join_values(key: str, values: Any, ids: Sequence[str], name: str, missing: Missing, hint: str) -> MetricScores:
    """Put the values of one metric in the order of the rated items."""
    if isinstance(values, Measurement):
        by_item: Mapping[str, float | None] = values.items
    elif isinstance(values, Mapping) or hasattr(values, "to_dict"):  # a dictionary or a pandas series
        by_item = {
            str(item): read_number(value, f"{key}: item {str(item)!r}", "value") for item, value in values.items()
        }
    else:
        raise InputError(f"{key}: values are of type {type(values).__name__}, expected {{id: value}}")
    lacking = [item for item in ids if item not in by_item]
    if lacking and (missing == "error" or len(lacking) == len(ids)):
        rated = {*ids}
        unused = [item for item in by_item if item not in rated]
        raise InputError(
            f"{name}: {len(lacking)} of {len(ids)} rated items ({_format_ids(lacking)}) have no {key}, and "
            f"{len(unused)} of "
            f"{len(by_item)} values ({_format_ids(unused)}) no rated item"
            + ("; pass missing='skip' to use only those that match" if len(lacking) < len(ids) else hint)
        )
    joined = [by_item.get(item) for item in ids]
    array = np.array([np.nan if value is None else value for value in joined], dtype=np.float64)
    if isinstance(values, Measurement):
        metric = values.metric
        return MetricScores(key, metric.label, array, metric.higher_is_better, str(values.signature))
    return MetricScores(key, key, array, True, f"{key}|computed elsewhere")


def _format_ids(ids: Sequence[str]) -> str:
    return ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "") if ids else "none"
