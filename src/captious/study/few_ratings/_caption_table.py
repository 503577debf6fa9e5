"""Tables of all captions of all systems with their metrics and other numbers, read from runs, files or rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from captious._core.types import Floats, Ints
from captious.errors import InputError, format_suggestion
from captious.io.columns import CANDIDATE_COLUMNS, GROUP_COLUMNS, ITEM_COLUMNS, SYSTEM_COLUMNS
from captious.io.formats import get_name, read_rows
from captious.io.join import format_first
from captious.io.rows import Row
from captious.metrics.registry import parse_all
from captious.runs.folder import has_runs
from captious.runs.pairing import find_shared_metrics
from captious.runs.report import Report
from captious.stats.correlation import mid_ranks
from captious.stats.judging import JudgeRegressions
from captious.study.judgments import Preferences, Ratings
from captious.study.rating_files import PROBABILITY, STRATUM, read_name, read_number
from captious.study.scores import ItemIndex, collect_reports, find_column_kinds, is_number

# Columns of a run that are numbers without being metrics.
COUNTS = ("words", "characters")
# Name of the system of captions for which no system is given.
UNNAMED_SYSTEM = "captions"


@dataclass(frozen=True, eq=False)
class CaptionTable:
    """Captions, rated or not, one per row."""

    ids: tuple[str, ...]
    systems: tuple[str, ...]
    images: tuple[str, ...]
    texts: tuple[str | None, ...]
    values: Mapping[str, Floats]
    """Numbers by name, such as metrics; NaN if a caption has none."""
    labels: Mapping[str, str]
    signatures: Mapping[str, str] = field(default_factory=dict)
    strata: tuple[str, ...] | None = None
    """The stratum of every caption, if the rows say it."""
    name: str = "captions"
    remarks: tuple[str, ...] = ()
    """Texts in columns of numbers, which are missing values."""

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, indices: Sequence[int]) -> CaptionTable:
        """Select the captions at these positions."""
        return replace(
            self,
            ids=tuple(self.ids[index] for index in indices),
            systems=tuple(self.systems[index] for index in indices),
            images=tuple(self.images[index] for index in indices),
            texts=tuple(self.texts[index] for index in indices),
            values={name: values[list(indices)] for name, values in self.values.items()},
            strata=None if self.strata is None else tuple(self.strata[index] for index in indices),
        )

    def names_of(self, using: Sequence[str] | None, argument: str = "using") -> list[str]:
        """Return the full names of the requested numbers; with None those of all metrics, without word counts.

        ``argument`` is the argument that errors name.
        """
        if using is None:
            return [name for name in self.values if name not in COUNTS]
        return [self._find_name(name, argument) for name in dict.fromkeys(using)]

    def _find_name(self, wanted: str, argument: str) -> str:
        if wanted in self.values:
            return wanted
        plain = wanted.strip().lower()
        for key in (
            lambda name: name.lower(),
            lambda name: name.partition("(")[0],
            lambda name: self.labels[name].lower(),
        ):
            matches = [name for name in self.values if key(name) == plain]
            if len(matches) == 1:
                return matches[0]
            if matches:  # the short name is ambiguous
                raise InputError(f"{argument}={wanted}: {self.name} has {', '.join(matches)}, expected one of them")
        raise InputError(
            f"{argument}={wanted}: no such number in {self.name}, found {', '.join(self.values) or 'none'}"
            f"{format_suggestion(wanted, self.values)}; captious score --add adds a metric to a run"
        )


def find_direction(name: str) -> Literal[1, -1] | None:
    """Return 1 if higher values of a metric are better, -1 if lower ones are, and None if the name is no metric."""
    try:
        metrics = parse_all([name])
    except InputError:
        return None
    return 1 if metrics[0].higher_is_better else -1


def choose_direction(name: str, values: Floats, rating: Floats, image: Ints) -> Literal[1, -1]:
    """Return 1 if higher values of a number are better, -1 if lower ones are.

    A metric declares it. For other numbers lower is better if people rate captions with lower values higher: if the
    interval of the slope of ratings on ranks is below 0. A few extreme values, as of a perplexity, decide no rank.
    """
    if (declared := find_direction(name)) is not None:
        return declared
    if len(np.unique(image)) < 2 or np.ptp(values) == 0:
        return 1
    _, high = JudgeRegressions(rating, mid_ranks(values), image).slope().interval()
    return 1 if high >= 0 else -1


def read_caption_table(sources: Any, system: str | None = None) -> CaptionTable | None:
    """Read captions with their numbers: runs, files, or rows in memory; None without any.

    A run is a system, named by ``SYSTEM=RUN`` or by itself. A file or rows have columns ``id`` or ``image``,
    ``system``, and numbers; with ``system`` another column names the system.
    """
    if isinstance(sources, (str, Path, Report)) or hasattr(sources, "columns"):
        sources = [sources]
    if isinstance(sources, Mapping):
        sources = [one if isinstance(one, Report) else f"{name}={one}" for name, one in sources.items()]
    sources = list(sources)
    if not sources:
        return None
    if all(isinstance(one, Mapping) for one in sources):
        return _read_rows([sources], system)
    runs: list[tuple[str, Any]] = []
    files: list[Any] = []
    for source in sources:
        if isinstance(source, Report):
            runs.append(("", source))
            continue
        name, _, path = ("", "", source) if not isinstance(source, (str, Path)) else _split_name(str(source))
        if isinstance(path, (str, Path)) and has_runs(path):
            runs.append((name, path))
        else:
            files.append(source)
    table = _read_runs(collect_reports(runs)) if runs else None
    if not files:
        return table
    rows = _read_rows(files, system)
    return rows if table is None else _add_columns(table, rows)


def _split_name(source: str) -> tuple[str, str, str]:
    return ("", "", source) if has_runs(source) or Path(source).exists() else source.partition("=")


def _read_runs(reports: Mapping[str, Report]) -> CaptionTable:
    """Read the captions of runs with the metrics that all of them have."""
    keys = find_shared_metrics(reports)
    columns: dict[str, list[Any]] = {name: [] for name in ("id", "system", "image", "text", *keys, *COUNTS)}
    for system, report in reports.items():
        for table in report.items():
            ids = table["id"].to_pylist()
            columns["id"] += ids
            columns["system"] += [system] * len(ids)
            columns["image"] += table["image"].to_pylist() if "image" in table.column_names else [None] * len(ids)
            columns["text"] += [(one or [None])[0] for one in table["candidates"].to_pylist()]
            for name in (*keys, *COUNTS):
                columns[name] += table[name].to_pylist() if name in table.column_names else [None] * len(ids)
    first = next(iter(reports.values()))
    values = {name: _make_array(columns[name]) for name in (*keys, *COUNTS)}
    return CaptionTable(
        tuple(columns["id"]),
        tuple(columns["system"]),
        tuple(str(image or id) for image, id in zip(columns["image"], columns["id"], strict=True)),
        tuple(columns["text"]),
        {name: one for name, one in values.items() if not np.isnan(one).all()},
        {name: first.label(name) if name in keys else name for name in values},
        {key: str(first.measurements[key].signature) for key in keys},
        name=", ".join(report.name for report in reports.values()),
    )


def _make_array(cells: Sequence[Any]) -> Floats:
    return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)


def list_rated_systems(ratings: Ratings | Preferences) -> list[str]:
    """List the systems that the ratings name."""
    if isinstance(ratings, Ratings):
        return list(dict.fromkeys(ratings.systems or ()))
    return list(dict.fromkeys(name for pair in ratings.systems or () for name in pair))


def _read_rows(sources: Iterable[Any], system: str | None) -> CaptionTable:
    """Read rows with an id or image, a system, and numbers."""
    tables = [_read_file(source, system) for source in sources]
    table = tables[0]
    for other in tables[1:]:
        table = _add_columns(table, other)
    return table


def _read_file(source: Any, system: str | None) -> CaptionTable:
    file = get_name(source, "captions")
    rows = list(read_rows(source, role="captions"))
    if not rows:
        raise InputError(f"{file}: contains no captions")
    usual_names = (ITEM_COLUMNS, GROUP_COLUMNS, (system,) if system else SYSTEM_COLUMNS, CANDIDATE_COLUMNS)
    columns = dict.fromkeys(str(name) for row in rows for name in row.fields)
    if system is not None and system not in columns:
        system_columns = ", ".join(columns)
        raise InputError(f"{file}: no column {system!r}, found columns {system_columns}")
    # The columns of id, image, system and text; every other column with only numbers is a metric.
    keys = [next((name for name in names if name in columns), None) for names in usual_names]
    if keys[0] is None and keys[1] is None:
        raise InputError(f"{file}: no id and no image, found columns {', '.join(columns)}")
    others = [name for name in columns if name not in {*keys, PROBABILITY, STRATUM}]
    kinds = {name: kind for name, kind in find_column_kinds(rows, ()).items() if name in others and kind.is_metric}
    cells: list[tuple[str, str, str, str | None]] = []
    for row in rows:
        id, image, owner, text = (
            None if key is None else read_name(row.fields.get(key), row.where, key) for key in keys
        )
        if id is None and image is None:
            raise InputError(f"{row.where}: no value in column {keys[0] or keys[1]!r}, expected an id or an image")
        cells.append((str(id or image), str(owner or UNNAMED_SYSTEM), str(image or id), text))
    values = {name: _make_array([_read_value(row, name) for row in rows]) for name in kinds}
    strata = None
    if STRATUM in columns:
        strata = tuple(str(row.fields.get(STRATUM)) for row in rows)
    ids, systems, images, texts = zip(*cells, strict=True)
    seen: set[tuple[str, str]] = set()
    for row, key in zip(rows, zip(systems, ids, strict=True), strict=True):
        if key in seen:
            raise InputError(f"{row.where}: {key[1]} of {key[0]} occurs twice, expected one row per caption")
        seen.add(key)
    values = {name: column for name, column in values.items() if not np.isnan(column).all()}
    signatures = {name: kinds[name].sign(f"{name}|computed elsewhere") for name in values}
    remarks = tuple(remark for name in values for remark in kinds[name].describe_texts(name))
    labels = {name: name for name in values}
    return CaptionTable(ids, systems, images, texts, values, labels, signatures, strata, file, remarks)


def _read_value(row: Row, column: str) -> float | None:
    """Return the number in a cell; None if it is empty or text."""
    cell = row.fields.get(column)
    return read_number(cell, row.where, column) if is_number(cell) else None


def _add_columns(table: CaptionTable, more: CaptionTable) -> CaptionTable:
    """Add the numbers of further rows to captions: by system and id, or only by id if the rows name no system."""
    names_no_system = more.systems == (UNNAMED_SYSTEM,) * len(more)
    rows = {(system, id): index for index, (system, id) in enumerate(zip(more.systems, more.ids, strict=True))}
    # The row of `more` for each caption of `table`, -1 if there is none.
    indices = [
        rows.get((UNNAMED_SYSTEM if names_no_system else system, id), -1)
        for system, id in zip(table.systems, table.ids, strict=True)
    ]
    if all(index < 0 for index in indices):
        raise InputError(f"{more.name}: no row has the id of a caption of {table.name}, such as {table.ids[0]}")
    row_of = np.array(indices)
    added = {name: np.where(row_of >= 0, values[row_of], np.nan) for name, values in more.values.items()}
    repeated = [name for name in added if name in table.values and name not in COUNTS]
    if repeated:
        raise InputError(f"{more.name}: {repeated[0]} is in {table.name} too, expected each number once")
    strata = table.strata
    if strata is None and more.strata is not None:
        strata = tuple(more.strata[index] if index >= 0 else "None" for index in indices)
    return replace(
        table,
        values={**added, **table.values},
        labels={**more.labels, **table.labels},
        signatures={**more.signatures, **table.signatures},
        strata=strata,
        name=f"{table.name}, {more.name}",
        remarks=(*table.remarks, *more.remarks),
    )


def match_captions(
    table: CaptionTable, ratings: Ratings, missing: str
) -> tuple[CaptionTable, list[tuple[int, int]], int]:
    """Match captions to rated items; return the captions, pairs (caption, item), and the number of items without one.

    Images are renamed to the names that the ratings use, so that captions of one image are recognized.
    """
    index = ItemIndex(ratings)
    systems = set(ratings.systems or ())
    if len(systems) == 1 and len({*table.systems}) == 1:
        # One system on each side: it is the same one, whatever the run or file calls it.
        table = replace(table, systems=(*systems,) * len(table))
    if len(systems) > 1 and UNNAMED_SYSTEM in table.systems:
        table = _take_systems(table, index.systems)
    position = {id: number for number, id in enumerate(ratings.ids)}
    pairs: list[tuple[int, int]] = []
    images: dict[str, str] = {}
    for row, (id, image, text, system) in enumerate(
        zip(table.ids, table.images, table.texts, table.systems, strict=True)
    ):
        if systems and system not in systems:
            continue
        for item in index.items(f"{table.name}: {id}", id, image, text, system if systems else None):
            if item in position and (not systems or index.systems[item] == system):
                pairs.append((row, position[item]))
                images[image] = ratings.groups[position[item]]
    without = sorted({*range(len(ratings.ids))} - {item for _, item in pairs})
    if without and (missing == "error" or not pairs):
        names = [ratings.ids[item] for item in without]
        unknown = sorted(systems - {*table.systems})
        hint = f"; {table.name} has the systems {format_first(list(dict.fromkeys(table.systems)))}" if unknown else ""
        ways = "" if not pairs else "; pass missing='skip' to leave them out"
        raise InputError(
            f"{ratings.name}: {len(without):,} of {len(position):,} rated captions ({format_first(names)}) are not "
            f"among the {len(table):,} captions of {table.name}{hint}{ways}"
        )
    renamed = tuple(images.get(image, image) for image in table.images)
    return replace(table, images=renamed), pairs, len(without)


def refuse_shared_ratings(table: CaptionTable, ratings: Ratings, matches: Sequence[tuple[int, int]]) -> None:
    """Raise InputError if ratings without systems match captions of several systems that are not the same text."""
    if ratings.systems:
        return
    first: dict[int, int] = {}
    for row, item in matches:
        other = first.setdefault(item, row)
        same_text = table.texts[row] is not None and table.texts[row] == table.texts[other]
        if table.systems[row] != table.systems[other] and not same_text:
            raise InputError(
                f"{ratings.name}: {ratings.ids[item]} is rated without a system, and {table.name} has captions of "
                f"{table.systems[other]} and {table.systems[row]} with this id; name the column of the system in the "
                "ratings, or only the captions of the system that was rated"
            )


def _take_systems(table: CaptionTable, systems: Mapping[str, str]) -> CaptionTable:
    """Return captions with the system of the rated item of the same id; raise InputError if one is not rated."""
    owners = [
        systems.get(id) if system == UNNAMED_SYSTEM else system
        for id, system in zip(table.ids, table.systems, strict=True)
    ]
    for id, owner in zip(table.ids, owners, strict=True):
        if owner is None:
            names = format_first(sorted({*systems.values()}))
            raise InputError(f"{table.name}: {id} has no system, expected a column with one of {names}")
    return replace(table, systems=tuple(map(str, owners)))


def make_rated_table(ratings: Ratings) -> CaptionTable:
    """Return the rated captions as a table without numbers, for ratings without runs."""
    systems = ratings.systems or (UNNAMED_SYSTEM,) * len(ratings.ids)
    texts: tuple[str | None, ...] = (None,) * len(ratings.ids)
    return CaptionTable(ratings.ids, systems, ratings.groups, texts, {}, {}, name=ratings.name)
