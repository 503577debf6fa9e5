"""Numbers of a paper computed again: files are scored, and each printed number gets a verdict."""

from __future__ import annotations

import gzip
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from captious._core.notation import split_specs
from captious._evaluate import evaluate
from captious.bias.audit import audit
from captious.bias.classifiers import make_classifier
from captious.bias.corpus import read_subjects
from captious.bias.protocol import find_preset
from captious.captions import CaptionSet
from captious.errors import InputError, format_one_line
from captious.io.formats import read_rows, read_text
from captious.io.read import read
from captious.metrics.hallucination.truth import ObjectTable
from captious.models.devices import resolve_device
from captious.options import Reading, Resampling, get_runtime
from captious.render import Column, Document, Result, Table, Text
from captious.render.document import Value
from captious.reproductions.published import PublishedCell, PublishedEntry, PublishedRow, PublishedTable, find_entry
from captious.study import correlate, load_ratings, load_scores
from captious.study.study_options import StudyInput
from captious.syntax.objects import open_vocabulary

NO_INTERVALS = Resampling(samples=0)
# Columns of the released table of COCO's objects, by the names of `captious make objects`.
OBJECT_COLUMNS = {"instances": "instances", "captions_singularize": "captions", "captions_wordnet": "captions_wordnet"}
TAGGER = "averaged_perceptron_tagger_eng"
NEEDS_GPU = "a CPU takes days: run it on a GPU, or ask for it with the option slow"
# Largest number of characters of the reason why a number was not computed.
MAX_REASON = 300


class Numbers(NamedTuple):
    """Numbers by column, and the number of items that they were computed from."""

    values: Mapping[str, float] = MappingProxyType({})
    items: int | None = None
    left_out: int = 0
    """Items of the references that the system has no caption of."""


Progress = Callable[[str], None]


@dataclass(frozen=True, repr=False)
class Reproduction(Result):
    """Every printed number of an entry, the computed one, and whether they agree."""

    entry: PublishedEntry
    cells: tuple[PublishedCell, ...]

    def __repr__(self) -> str:
        return f"Reproduction({self.entry.name}: {self.count('reproduced')} of {len(self.cells)} reproduced)"

    def count(self, verdict: str) -> int:
        """Return how many printed numbers have a verdict."""
        return sum(cell.verdict == verdict for cell in self.cells)

    @property
    def exit_code(self) -> int:
        """1 if a printed number is missed."""
        return int(self.count("missed") > 0)

    def summarize(self) -> str:
        """Return the plain answer."""
        run = len(self.cells) - self.count("not run")
        if not run:
            return f"{self.entry.name}: none of the {len(self.cells):,} published numbers could be run."
        found, missed = self.count("reproduced"), self.count("missed")
        parts = [f"{self.entry.name}: {found:,} of {run:,} published numbers are reproduced"]
        if missed:
            first = max(
                (cell for cell in self.cells if cell.verdict == "missed"),
                key=lambda cell: abs(cell.difference or 0) / max(cell.within, 1e-12),
            )
            parts.append(
                f"{missed:,} {'is' if missed == 1 else 'are'} missed, by most {first.row}, {first.column} "
                f"({first.published:,.{first.decimals}f} published, "
                f"{first.computed:,.{first.decimals + 1 if first.decimals else 0}f} computed)"
            )
        if left := len(self.cells) - run:
            parts.append(f"{left:,} not run")
        return "; ".join(parts) + "."

    def document(self) -> Document:
        """Build the document: the answer, then a table of the numbers for each published table."""
        tables = [
            self._build_table(number, title)
            for number, title in enumerate(dict.fromkeys(cell.table for cell in self.cells), 1)
        ]
        facts = [f"source: {self.entry.source}", self.entry.citation, *self.entry.notes]
        data = {
            "entry": self.entry.name,
            "answer": self.summarize(),
            "reproduced": self.count("reproduced"),
            "missed": self.count("missed"),
            "not_run": self.count("not run"),
            "cells": [{**vars(cell), "difference": cell.difference, "verdict": cell.verdict} for cell in self.cells],
        }
        about = Text([fact for fact in facts if fact], "About", bullets=True)
        left = self._list_not_run()
        not_run = [Text(left, "Tables that were not run", bullets=True)] if left else []
        return Document(
            self.entry.title,
            sections=[*tables, *not_run, about],
            answer=[self.summarize()],
            data=data,
            name="reproduction",
        )

    def _build_table(self, number: int, title: str) -> Table:
        own = [cell for cell in self.cells if cell.table == title]
        decimals = max(cell.decimals for cell in own)
        rows: list[list[Value]] = []
        for index, cell in enumerate(own):
            first = not index or own[index - 1].row != cell.row
            verdict = f"{cell.verdict}: {cell.reason}" if cell.reason else cell.verdict
            if cell.origin:
                verdict += f"; printed number read in {cell.origin}"
            numbers = [cell.published, cell.computed, cell.difference]
            if not decimals:
                numbers = [number if number is None else round(number) for number in numbers]
            rows.append(
                [cell.row if first else "", cell.describe_items() if first else "", cell.column, *numbers, verdict]
            )
        columns: list[Column | str] = ["of", Column("items"), "number", Column("published", decimals=decimals)]
        # One more digit than is printed shows how a number was rounded; counts have none.
        more = decimals + 1 if decimals else 0
        columns += [Column("computed", decimals=more), Column("difference", decimals=more, signed=True)]
        not_run = all(cell.verdict == "not run" for cell in own)
        return Table(f"table_{number}", title, [*columns, "verdict"], rows, detail=not_run)

    def _list_not_run(self) -> list[str]:
        """Return a line for each reason why whole tables were not run, with their titles."""
        titles: dict[str, list[str]] = {}
        for title in dict.fromkeys(cell.table for cell in self.cells):
            own = [cell for cell in self.cells if cell.table == title]
            if all(cell.verdict == "not run" for cell in own):
                titles.setdefault(own[0].reason, []).append(title)
        return [f"{'; '.join(names)}: {reason}" for reason, names in titles.items()]


def reproduce(
    entry: PublishedEntry | str,
    data: str | Path,
    *,
    only: str = "",
    slow: bool = False,
    progress: Progress | None = None,
) -> Reproduction:
    """Compute the numbers that a paper printed of its released outputs.

    Parameters
    ----------
    entry
        An entry, the name of a built-in one, or a TOML file.
    data
        Folder of the released files.
    only
        Part of the title of a table or of the name of a row; others are left out.
    slow
        Run tables that need a GPU on a CPU too.
    progress
        Called with the name of what is computed.
    """
    entry = find_entry(entry) if isinstance(entry, str) else entry
    data = Path(data)
    if not data.is_dir():
        advice = f"; get them from: {entry.source}" if entry.source else ""
        raise InputError(f"{data}: no such folder of files of {entry.name}{advice}")
    tables = [_select_rows(table, only.lower()) for table in entry.tables]
    tables = [table for table in tables if table.rows]
    if not tables:
        raise InputError(f"only={only!r}: no table and no row of {entry.name} has this in its name")
    cells: list[PublishedCell] = []
    for table in tables:
        if progress:
            progress(table.title)
        cells += _compute_table(table, data, slow)
    result = Reproduction(entry, tuple(cells))
    _refuse_nothing(result, data)
    return result


def _refuse_nothing(result: Reproduction, data: Path) -> None:
    """Raise InputError if no number could be computed because files are missing, so that CI does not pass."""
    if result.count("not run") < len(result.cells) or all(cell.reason == NEEDS_GPU for cell in result.cells):
        return
    name, reason, source = result.entry.name, result.cells[0].reason, result.entry.source
    advice = f"; get the files of {name} from: {source}" if source else ""
    raise InputError(f"no number of {name} could be run: {reason}{advice}")


def _select_rows(table: PublishedTable, word: str) -> PublishedTable:
    if word in table.title.lower():
        return table
    return replace(table, rows=tuple(row for row in table.rows if word in row.name.lower()))


def _compute_table(table: PublishedTable, data: Path, slow: bool) -> Iterator[PublishedCell]:
    """Compute the cells of a table; a cell that cannot be run gets the reason."""
    if table.gpu and not slow and resolve_device(get_runtime().device).type == "cpu":
        for row in table.rows:
            yield from _make_cells(table, row, Numbers(), NEEDS_GPU)
        return
    if table.kind == "study":
        yield from _compute_study(table, data)
        return
    with _prepare_metrics(table, data) as columns:
        for row in table.rows:
            try:
                numbers = _COMPUTE[table.kind](table, row, data, columns)
            except InputError as error:
                yield from _make_cells(table, row, Numbers(), format_one_line(error, MAX_REASON))
            else:
                yield from _make_cells(table, row, numbers)


def _make_cells(
    table: PublishedTable, row: PublishedRow, numbers: Numbers, reason: str = ""
) -> Iterator[PublishedCell]:
    for column, published in row.published.items():
        computed = numbers.values.get(column)
        # The largest difference: of the printed deviation, the row, the table, or half a unit of the last digit.
        limit = row.within if row.within is not None else table.within
        if column in row.sd:
            limit = 2 * row.sd[column]
        if limit is None:  # half a unit of the last digit, plus a rounding error
            limit = 0.5000001 * 10.0**-table.decimals
        known_reason = reason or (row.reasons.get(column, "") if computed is not None else "")
        cell = PublishedCell(
            table.title,
            row.name,
            column,
            published,
            None if computed is None or math.isnan(computed) else computed,
            limit,
            table.decimals,
            known_reason,
            numbers.items,
            numbers.left_out,
        )
        yield replace(cell, reason=known_reason if cell.verdict != "reproduced" else "", origin=row.origin)


def _find_file(names: str | tuple[str, ...], data: Path, what: str) -> str | None:
    """Return the first file that exists, with the keys after it; None if no file is named."""
    candidates = (names,) if isinstance(names, str) else names
    for name in candidates:
        if (data / name.partition("#")[0]).exists():
            return str(data / name)
    if candidates:
        raise InputError(f"no {' or '.join(name.partition('#')[0] for name in candidates)} ({what}) in {data}")
    return None


def _open_part(name: str) -> Any:
    """Return the path of a file, or with ``FILE#key#key`` a part of a JSON file."""
    path, *keys = name.split("#")
    if not keys:
        return path
    try:
        content = json.loads(read_text(path))
        for key in keys:
            content = content[key]
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a JSON file that can be read ({str(error)[:80]})") from None
    except (KeyError, TypeError, IndexError):
        raise InputError(f"{path}: no {' in '.join(repr(key) for key in reversed(keys))}") from None
    return content


def _make_reading(table: PublishedTable) -> Reading:
    try:
        return Reading(**table.reading)
    except TypeError as error:
        raise InputError(f"{table.title}: reading: {format_one_line(error)}") from None


def _read_captions(table: PublishedTable, row: PublishedRow, data: Path) -> CaptionSet:
    file = _find_file(row.file, data, "captions")
    if file is None:
        raise InputError(f"{table.title}: {row.name}: no file of captions is named")
    captions, reading = _open_part(file), _make_reading(table)
    if isinstance(captions, dict):  # a part of a JSON file: captions by id, without the columns of whole files
        reading = Reading(missing=reading.missing)
    references = _find_file(table.references, data, "references")
    return read(captions, references=None if references is None else _open_part(references), reading=reading)


def _score_captions(table: PublishedTable, row: PublishedRow, data: Path, columns: Mapping[str, str]) -> Numbers:
    captions = _read_captions(table, row, data)
    wanted = {column: columns[column] for column in row.published}
    report = evaluate(captions, list(wanted.values()), resampling=NO_INTERVALS)
    values = [measurement.corpus for measurement in report.measurements.values()]
    scaled = {column: table.scale * value for column, value in zip(wanted, values, strict=True)}
    return Numbers(scaled, len(captions), captions.skipped)


def _count_items(table: PublishedTable, row: PublishedRow, data: Path, columns: Mapping[str, str]) -> Numbers:
    file = _find_file(row.file, data, "items")
    if file is None:
        raise InputError(f"{table.title}: {row.name}: no file is named")
    number = sum(1 for _ in read_rows(_open_part(file)))
    return Numbers(dict.fromkeys(row.published, table.scale * number), number)


def _compute_lic(table: PublishedTable, row: PublishedRow, data: Path, columns: Mapping[str, str]) -> Numbers:
    file, references = _find_file(row.file, data, "captions"), _find_file(table.references, data, "references")
    if file is None:
        raise InputError(f"{table.title}: {row.name}: no file of captions is named")
    path, _, column = file.partition("#")
    reading = Reading(references=references, candidate_column=column or None)
    subjects = read_subjects({row.metric or row.name: path}, "label", reading, number=5)
    protocol = find_preset(table.preset)
    if table.vocabulary:
        protocol = replace(protocol, vocabulary=str(data / table.vocabulary))
    classifiers = [make_classifier(text, protocol.frozen) for text in split_specs(table.classifier)]
    (result,) = audit(subjects, protocol, classifiers).rows
    values = {name: float(getattr(result.lic, attribute)) for name, attribute in table.columns.items()}
    return Numbers(values, len(subjects[0].captions))


_COMPUTE: Mapping[str, Callable[[PublishedTable, PublishedRow, Path, Mapping[str, str]], Numbers]] = {
    "score": _score_captions,
    "count": _count_items,
    "lic": _compute_lic,
}


def _compute_study(table: PublishedTable, data: Path) -> Iterator[PublishedCell]:
    """Correlate all metrics of a table in one study."""
    try:
        numbers = _correlate(table, data)
    except InputError as error:
        for row in table.rows:
            yield from _make_cells(table, row, Numbers(), format_one_line(error, MAX_REASON))
        return
    for row in table.rows:
        yield from _make_cells(table, row, numbers[row.name])


def _correlate(table: PublishedTable, data: Path) -> Mapping[str, Numbers]:
    names = {row.name: row.metric or row.name for row in table.rows}
    scores = _find_file(table.scores, data, "scores")
    # With a file of scores, names are its columns; otherwise they are metrics.
    columns = {} if scores is None else dict.fromkeys(names.values())
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in table.options.items()
    }
    is_recipe = not (data / table.ratings).is_file()
    try:
        study_input = StudyInput(
            table.ratings if is_recipe else str(data / table.ratings), data=data if is_recipe else None, **options
        )
    except TypeError as error:
        raise InputError(f"{table.title}: options: {format_one_line(error)}") from None
    reading = _make_reading(table)
    references = _find_file(table.references, data, "references")
    ratings, recipe = load_ratings(study_input, replace(reading, references=references) if references else reading)
    if scores is not None:
        study_input = replace(study_input, scores=(scores,))
    else:
        study_input = replace(study_input, metrics=tuple(dict.fromkeys(names.values())))
    metric_scores = load_scores(ratings, recipe, study_input, "error")
    if scores is not None:
        metric_scores = [one for one in metric_scores if one.key in columns]
        if absent := [name for name in columns if name not in {one.key for one in metric_scores}]:
            raise InputError(f"{scores}: no column of numbers {absent[0]!r}")
    study = correlate(ratings, metric_scores, recipe=recipe, resampling=NO_INTERVALS, permutations=1)
    by_text = dict(zip(dict.fromkeys(names.values()), metric_scores, strict=True)) if scores is None else {}
    keys = {name: by_text[text].key if by_text else text for name, text in names.items()}
    return {
        name: Numbers(
            {
                column: table.scale * study.estimates[key][statistic].value
                for column, statistic in table.columns.items()
            },
            study.rows,
        )
        for name, key in keys.items()
    }


@contextmanager
def _prepare_metrics(table: PublishedTable, data: Path) -> Iterator[Mapping[str, str]]:
    """Write the table of objects and NLTK's tagger, if any, to temporary files; yield metrics with their paths."""
    objects = _find_objects(table, data)
    if objects is None:
        yield table.columns
        return
    with tempfile.TemporaryDirectory() as folder:
        path = objects if objects.suffix == ".parquet" else _convert_objects(objects, Path(folder))
        metrics = {name: text.replace("{objects}", str(path)) for name, text in table.columns.items()}
        tagger = data / "nltk_tagger.json.gz"
        if not tagger.is_file():
            yield metrics
            return
        _write_tagger(tagger, Path(folder))
        before = os.environ.get("NLTK_DATA")
        os.environ["NLTK_DATA"] = folder
        try:
            yield metrics
        finally:
            if before is None:
                del os.environ["NLTK_DATA"]
            else:
                os.environ["NLTK_DATA"] = before


def _find_objects(table: PublishedTable, data: Path) -> Path | None:
    try:
        file = _find_file(table.objects, data, "objects of images")
    except InputError:
        return None
    return None if file is None else Path(file)


def _convert_objects(path: Path, folder: Path) -> Path:
    """Write rows of objects as ``captious make objects`` writes them; they were made with the original's list."""
    rows = [row.fields for row in read_rows(path) if row.fields.get("split", "val") == "val"]
    columns = {name: [row[column] for row in rows] for name, column in OBJECT_COLUMNS.items()}
    numbers = {str(row["id"]): number for number, row in enumerate(rows)}
    target = folder / "objects.parquet"
    ObjectTable("objects", numbers, columns, str(open_vocabulary("coco"))).save(target)
    return target


def _write_tagger(path: Path, folder: Path) -> None:
    """Write NLTK's tagger in the layout in which NLTK looks for it."""
    target = folder / "taggers" / TAGGER
    target.mkdir(parents=True)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for part, content in json.load(file).items():
            (target / f"{TAGGER}.{part}.json").write_text(json.dumps(content), encoding="utf-8")
