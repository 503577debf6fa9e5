"""The table of the explorer: items of several runs joined by id, with scores, captions and ratings, for DuckDB.

The table ``items`` has a row per item, numbered by ``n``. Its columns are named by letters and numbers, so that no name
from a file or a user is part of a statement:

    n, id                  the number and the id of an item
    r0, r1, …              its row in each run, null if it is not in the run
    t0, t1, …              the captions of each system; w0, w1, … the mean number of their words
    m0_0, m0_1, m1_0, …    the value of a system and a score, null if missing
    f0, f1, …              further columns of the runs, such as the path of the image
    q; u0, u1, …; h0, …    if the table is in memory: the references, why a system's item has no value, and captions
                           (h0, h1, …) and references (hq) as one text in lower case; e0, e1, … the times of captions

    g0, g1, …; p0, …; c0   of the ratings: the largest difference between two raters, their number, their comments

Small tables are kept in memory, in Arrow. For large ones, DuckDB keeps the columns to sort and filter by in a temporary
file, with the ratings in a table ``people``; references and full rows are read from the Parquet files of the runs. The
connection reads no other file, loads no extension, and its configuration is locked.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from captious._core.types import Floats, Ints32
from captious.captions import VIDEO
from captious.errors import InputError
from captious.io.columns import AUDIO_COLUMN, EVENT_COLUMN
from captious.runs.filters import STORED, FilterColumn, FilterSchema, connect, list_caption_columns, make_column
from captious.runs.folder import Run, open_runs
from captious.runs.run_tables import TEXTS
from captious.studio.explore._media import Media, Pictures, Sounds, Videos
from captious.studio.explore._rater_answers import (
    RATING,
    CaptionRating,
    compute_mean_rating,
    compute_rating_gap,
    read_caption_ratings,
)
from captious.studio.explore._row_access import RunRows

if TYPE_CHECKING:
    import pyarrow as pa

# Runs of at most this many bytes are kept in memory.
HELD = 512 * 2**20
# Rows of a batch, the unit of DuckDB's parallel scan.
BLOCK = 32_768
# Memory limit of DuckDB; beyond it DuckDB spills into its temporary folder.
MEMORY = "700MB"
# Items that are checked for images, before a warning that there are none.
LOOKED_FOR = 50
# The option that names the folder of each kind of file, and what it is for.
SHOWN = {"image": ("--images", "see"), "sound": ("--audio", "hear"), "video": ("--videos", "watch")}
# Largest sample for percentiles and rank correlations.
SAMPLE = 1_000_000


@dataclass(frozen=True)
class Score:
    """One column of numbers to sort, filter and plot by: a metric or a human rating."""

    key: str
    """The written form of a metric, or the name of an aspect that people rated."""
    label: str
    higher: bool = True
    """Whether higher is better."""
    range: tuple[float, float | None] = (0.0, None)
    kind: Literal["metric", "rating"] = "metric"
    decimals: int = 4
    """The decimals of its value for a system, as reports print it."""

    @property
    def short(self) -> str:
        """Name in filter expressions: the metric's name if it has no parameters, else its label with hyphens."""
        return self.key if "(" not in self.key else re.sub(r"\W+", "-", self.label).strip("-").lower()


@dataclass(frozen=True, eq=False)
class SystemRun:
    """The run of one system."""

    name: str
    root: str
    """The folder that the user named, which may contain several runs."""
    run: Run
    rows: RunRows

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """The scores of the run, one for each metric."""
        return tuple(
            Score(
                one.metric,
                one.label,
                one.higher_is_better,
                (one.range[0] or 0.0, one.range[1]),
                decimals=Score.decimals if one.decimals is None else one.decimals,
            )
            for one in self.run.marker.metrics
        )

    @cached_property
    def signatures(self) -> dict[str, str]:
        """Signatures by the written form of the metric."""
        return {one.metric: one.signature for one in self.run.marker.metrics}

    @cached_property
    def has_references(self) -> bool:
        """Whether any of its items has references."""
        if "references" not in self.rows.schema.names:
            return False
        # A run scored without references has empty lists, which are read in no time.
        batches = self.rows.read_batches(["id", "references"])
        return any(len(batch.column("references").flatten()) for batch in batches)

    @cached_property
    def fields(self) -> list[str]:
        """Further columns of its items."""
        import pyarrow as pa

        taken = {*TEXTS, *STORED, *self.run.metrics}
        return [one.name for one in self.rows.schema if one.name not in taken and not pa.types.is_null(one.type)]


@dataclass(eq=False)
class ItemTable:
    """The items of all runs, numbered, with the captions and scores of every system."""

    runs: tuple[SystemRun, ...]
    connection: Any
    pictures: Pictures
    scores: tuple[Score, ...]
    warnings: tuple[str, ...]
    whole: pa.Table | None
    """All items with all columns, if they fit in memory; None if they are in DuckDB."""
    ratings: Mapping[tuple[int, int], Sequence[CaptionRating]] = field(default_factory=dict)
    """Ratings by item and system."""
    missing_media: tuple[str, ...] = ()
    """Which images, sounds or videos the runs name and nothing shows; also among the warnings."""
    folder: Any = None
    """The temporary folder, which is removed with the table."""
    sounds: Sounds = field(default_factory=lambda: Sounds(()))
    videos: Videos = field(default_factory=lambda: Videos(()))
    _length: int = field(init=False, default=0)
    _divided: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        with self.cursor() as cursor:
            self._length = int(cursor.execute("SELECT count(*) FROM items").fetchall()[0][0])

    def __len__(self) -> int:
        return self._length

    @property
    def systems(self) -> tuple[str, ...]:
        """The names of the systems."""
        return tuple(run.name for run in self.runs)

    # Parts of SQL statements

    @contextmanager
    def cursor(self, **tables: pa.Table) -> Iterator[Any]:
        """Open a cursor for one thread, which also sees ``tables`` under their names."""
        with self.connection.cursor() as cursor:
            for name, table in (tables if self.whole is None else {"items": self._blocks, **tables}).items():
                cursor.register(name, table)
            yield cursor

    @property
    def _blocks(self) -> pa.Table:
        """The table in memory as batches that DuckDB scans in parallel; nothing is copied."""
        import pyarrow as pa

        whole = self.whole
        if whole is not None and (self._divided is None or self._divided.num_columns != whole.num_columns):
            self._divided = pa.Table.from_batches(whole.to_batches(BLOCK), whole.schema)
        return self._divided

    def get_value_sql(self, system: int, score: int) -> str:
        """Return the value of a score as SQL."""
        one = self.scores[score]
        if one.kind == "rating":
            return f"{self._people}.m{system}_{score}"
        return f"items.m{system}_{score}" if one.key in self.runs[system].signatures else "CAST(NULL AS DOUBLE)"

    def get_words_sql(self, system: int) -> str:
        """Return the mean number of words of an item's captions as SQL."""
        return f"items.w{system}"

    def get_gap_sql(self, system: int) -> str:
        """Return the largest difference between two raters as SQL."""
        return f"{self._people}.g{system}" if self.ratings else "CAST(NULL AS DOUBLE)"

    @property
    def _people(self) -> str:
        """Name of the table with the ratings."""
        return "people" if self.whole is None else "items"

    @property
    def references(self) -> str:
        """The references of an item as SQL."""
        return "refs.q" if self.whole is None else "items.q"

    def get_source(self, *expressions: str) -> str:
        """Return the FROM clause for these expressions."""
        return "items" + " LEFT JOIN people USING (n)" * any("people." in one for one in expressions)

    @cached_property
    def fields(self) -> dict[str, FilterColumn]:
        """Further columns of the runs."""
        with self.cursor() as cursor:
            types = {row[0]: row[1] for row in cursor.execute("DESCRIBE items").fetchall()}
        columns = {name: make_column(f"items.f{place}", types[f"f{place}"]) for name, place in self._places.items()}
        return {name: column for name, column in columns.items() if column is not None}

    @cached_property
    def _places(self) -> dict[str, int]:
        return _number_fields(self.runs)

    def build_schema(self, system: int) -> FilterSchema:
        """Return the columns for filters on the captions of a system; the SQL needs the parameters `names`."""
        by_system = {name: self._build_columns(number) for number, name in enumerate(self.systems)}
        labels = {score.key: score.label for score in self.scores}
        return FilterSchema(by_system[self.systems[system]], labels, by_system)

    @property
    def names(self) -> dict[str, str]:
        """The names of the systems, as parameters of a statement."""
        return {f"name{number}": name for number, name in enumerate(self.systems)}

    def get_captions(self, system: int) -> FilterColumn:
        """Return the column of the captions of a system."""
        return FilterColumn("texts", f"items.t{system}", "" if self.whole is None else f"items.h{system}")

    @property
    def all_references(self) -> FilterColumn:
        """The references of an item."""
        return FilterColumn("texts", self.references, "" if self.whole is None else "items.hq")

    def _build_columns(self, system: int) -> dict[str, FilterColumn]:
        rated = bool(self.ratings)
        columns = {
            score.key: FilterColumn("number", self.get_value_sql(system, at)) for at, score in enumerate(self.scores)
        }
        built_in = {
            **list_caption_columns(f"items.t{system}"),
            "caption": self.get_captions(system),
            "words": FilterColumn("number", self.get_words_sql(system)),
            "id": FilterColumn("text", "items.id"),
            "system": FilterColumn("text", f"CAST($name{system} AS VARCHAR)"),
            "references": self.all_references,
            "comment": FilterColumn("texts", f"{self._people}.c{system}" if rated else "CAST([] AS VARCHAR[])"),
            "gap": FilterColumn("number", self.get_gap_sql(system)),
            "raters": FilterColumn("number", f"coalesce({self._people}.p{system}, 0)" if rated else "0"),
        }
        taken = {*columns, *("id", "caption", "references", "system", "words", "characters", "candidates")}
        given = {f"input.{name}" if name in taken else name: column for name, column in self.fields.items()}
        return {**built_in, **columns, **given}

    @property
    def columns(self) -> list[str]:
        """The names that an expression may use, short ones first."""
        scores = {score.key for score in self.scores}
        others = [name for name in self._build_columns(0) if name not in scores]
        return [*(score.short for score in self.scores), *others]

    # Values and rows

    @cached_property
    def positions(self) -> list[Ints32] | None:
        """The row of each item in each run, −1 if it has none; None for a single run, whose rows are the items."""
        if len(self.runs) == 1:
            return None
        names = [f"coalesce(r{system}, -1) AS r{system}" for system in range(len(self.runs))]
        with self.cursor() as cursor:
            arrays = cursor.execute(f"SELECT {', '.join(names)} FROM items ORDER BY n").fetchnumpy()
        return [np.asarray(arrays[f"r{system}"], dtype=np.int32) for system in range(len(self.runs))]

    def find_item(self, key: str) -> int | None:
        """Return the number of the first item with an id; None if there is none."""
        import pyarrow.compute as pc

        if self.whole is not None:
            item = pc.index(self.whole["id"], key).as_py()
            return None if item < 0 else int(item)
        with self.cursor() as cursor:
            number = cursor.execute("SELECT min(n) FROM items WHERE id = $key", {"key": key}).fetchall()[0][0]
        return None if number is None else int(number)

    def read_rows(self, items: Sequence[int]) -> list[list[dict[str, Any] | None]]:
        """Return the rows of these items in the run of each system, None if it has none."""
        if self.whole is not None:
            return self._read_whole_rows(items)
        if self.positions is None:
            return [list(self.runs[0].rows.take(items))]
        result: list[list[dict[str, Any] | None]] = []
        for system, run in enumerate(self.runs):
            rows = self.positions[system][np.asarray(items, dtype=np.int64)]
            present_rows = iter(run.rows.take(rows[rows >= 0].tolist()))
            result.append([next(present_rows) if row >= 0 else None for row in rows.tolist()])
        return result

    def _read_whole_rows(self, items: Sequence[int]) -> list[list[dict[str, Any] | None]]:
        import pyarrow as pa

        assert self.whole is not None
        columns = self.whole.take(pa.array(items, pa.int32())).to_pydict()
        result: list[list[dict[str, Any] | None]] = []
        for system, run in enumerate(self.runs):
            names = {"id": "id", "candidates": f"t{system}", "references": "q", "unscored": f"u{system}"}
            names["words"] = f"w{system}"
            names |= {one.key: f"m{system}_{at}" for at, one in enumerate(self.scores) if one.key in run.signatures}
            names |= {name: f"f{place}" for name, place in self._places.items()}
            names |= (
                {EVENT_COLUMN: f"e{system}"} if EVENT_COLUMN in run.fields else {}
            )  # those of this system's captions
            own = [columns[stored] for stored in names.values()]
            rows = (dict(zip(names, values, strict=True)) for values in zip(*own, strict=True))
            is_present = (row is not None for row in columns[f"r{system}"])
            result.append([row if has else None for row, has in zip(rows, is_present, strict=True)])
        return result

    def read_values(self, system: int, score: int, step: int = 1) -> Floats:
        """Return the values of a score in the order of the items, NaN if missing; or of every ``step``-th item."""
        return self.read_column(self.get_value_sql(system, score), step)

    def read_column(self, value: str, step: int = 1) -> Floats:
        """Evaluate SQL for each item, or every ``step``-th, in their order; as floats, with NaN for null."""
        where = f" WHERE n % {step} = 0" if step > 1 else ""
        if self.whole is not None and value.startswith("items.") and step == 1:
            column: Floats = self.whole[value.removeprefix("items.")].to_numpy().astype(np.float64, copy=False)
            return column
        with self.cursor() as cursor:
            rows = cursor.execute(f"SELECT n, {value} AS v FROM {self.get_source(value)}{where}").fetchnumpy()
        result = np.full(-(-len(self) // step), np.nan)
        result[rows["n"] // step] = np.ma.filled(np.ma.asarray(rows["v"], dtype=np.float64), np.nan)
        return result

    @property
    def step(self) -> int:
        """The sample for percentiles and rank correlations is every step-th item."""
        return -(-len(self) // SAMPLE) or 1


def open_table(
    runs: Sequence[str | Path] | Mapping[str, str | Path],
    ratings: str | Path | None = None,
    images: str | Path | None = None,
    audio: str | Path | None = None,
    videos: str | Path | None = None,
) -> ItemTable:
    """Join the runs of these folders by item id, with ratings from a file, images, sounds and videos from folders."""
    opened = open_systems(runs)
    held = sum(run.rows.bytes for run in opened) <= HELD
    scores = _collect_scores(opened)
    folder = tempfile.TemporaryDirectory(prefix="captious-explore-")
    connection = _open_connection(Path(folder.name), held)
    if len(opened) > 1:
        _refuse_repeated(connection, opened)
    items_table = _load(connection, opened, scores, held)
    if held:  # frees the memory that only loading needs
        connection.close()
        connection = _open_connection(Path(folder.name), held)
    addresses = [run.run.address for run in opened]
    pictures, sounds = Pictures(addresses, images), Sounds(addresses, audio)
    warnings = tuple(dict.fromkeys(warning for run in opened for warning in run.run.marker.warnings))
    clips = Videos(addresses, videos)
    table = ItemTable(
        tuple(opened), connection, pictures, scores, warnings, items_table, folder=folder, sounds=sounds, videos=clips
    )
    if not len(table):
        raise InputError(f"{opened[0].root}: contains no item")
    _refuse_strangers(opened, len(table))
    for media, column in ((pictures, "image"), (sounds, AUDIO_COLUMN), (clips, VIDEO)):
        table.missing_media += tuple(_warn_about_media(table, media, column))
    table.warnings += table.missing_media
    if ratings is not None:
        _add_ratings(table, ratings)
    return table


def open_systems(folders: Sequence[str | Path] | Mapping[str, str | Path]) -> list[SystemRun]:
    """Open every system of these folders; names that the user gave are kept.

    Other systems are named as in their run; if two have the same name, by the folders of their runs.
    """
    named = isinstance(folders, Mapping)
    entries = list(folders.items()) if isinstance(folders, Mapping) else [("", folder) for folder in folders]
    if not entries:
        raise InputError("no run to explore, expected a folder that captious score wrote")
    opened: list[tuple[str, str, dict[str, Run]]] = []
    for chosen, folder in entries:
        inside = open_runs(folder)
        opened.append(
            (chosen, str(folder), {name or _strip_name(run.marker.name): run for name, run in inside.items()})
        )
    counts = Counter(name for _, _, runs in opened for name in runs)
    names: Counter[str] = Counter()
    result = []
    for chosen, folder, runs in opened:
        base = PurePath(folder.rstrip("/")).name if "://" in folder else Path(folder).resolve().name
        for name, run in runs.items():
            outer = chosen if named else base if counts[name] > 1 else ""
            shown = name if not outer else outer if len(runs) == 1 else f"{outer}-{name}"
            names[shown] += 1
            number = "" if names[shown] == 1 else f"-{names[shown]}"
            result.append(SystemRun(f"{shown}{number}", folder, run, RunRows(run)))
    return result


def _strip_name(name: str) -> str:
    """Return the name of a run without folders and suffixes."""
    return PurePath(name).name.split(".")[0] or "captions"


def _collect_scores(runs: Sequence[SystemRun]) -> tuple[Score, ...]:
    """Return the metrics of all runs in their order, each as described by the first run that has it."""
    scores: dict[str, Score] = {}
    for run in runs:
        for score in run.scores:
            scores.setdefault(score.key, score)
    if not scores:
        raise InputError(f"{runs[0].root}: contains no score, expected a folder that captious score wrote")
    return tuple(scores.values())


def _number_fields(runs: Sequence[SystemRun]) -> dict[str, int]:
    """Assign numbers to the further columns of the runs."""
    return {name: place for place, name in enumerate(dict.fromkeys(name for run in runs for name in run.fields))}


# Loading


def _open_connection(folder: Path, held: bool) -> Any:
    """Open a connection that reads no file but its own in this folder; its configuration is locked."""
    locked = {"enable_external_access": "false", "lock_configuration": "true"}
    limits = {"memory_limit": MEMORY, "temp_directory": str(folder / "spilled")}
    return connect(":memory:" if held else str(folder / "items.duckdb"), **limits, **locked)


def _load(connection: Any, runs: Sequence[SystemRun], scores: Sequence[Score], held: bool) -> pa.Table | None:
    """Create the table ``items``; return it if it is kept in memory."""
    keys, places, systems = [score.key for score in scores], _number_fields(runs), list(enumerate(runs))
    for system, run in systems:
        _register(connection, system, run, held)
    columns = [f"CAST({_build_item_number(len(runs))} AS INTEGER) AS n", "id"]
    for system, run in systems:
        scored = [f"m{system}_{place}" for place, key in enumerate(keys) if key in run.signatures]
        columns += [f"r{system}", f"t{system}", f"w{system}", *scored]
    for name, place in places.items():
        owners = [f"f{place}_{system}" for system, run in systems if name in run.fields]
        columns.append(f"coalesce({', '.join(owners)}) AS f{place}" if len(owners) > 1 else f"{owners[0]} AS f{place}")
    if held:
        owners = [f"q_{system}" for system, run in systems if run.has_references]
        columns += [f"coalesce({', '.join([*owners, 'CAST([] AS VARCHAR[])'])}) AS q"]
        columns += [f"u{system}" for system, _ in systems]
        columns += [
            f"f{places[EVENT_COLUMN]}_{system} AS e{system}" for system, run in systems if EVENT_COLUMN in run.fields
        ]
        columns += [f"{_lower_texts(f't{system}')} AS h{system}" for system, _ in systems]
        columns.append(f"{_lower_texts('q')} AS hq")
    joined = _build_select(0, runs[0], keys, places, held)
    for system, run in systems[1:]:
        both = f"({joined}) AS a FULL JOIN ({_build_select(system, run, keys, places, held)}) AS b ON a.id = b.id"
        joined = f"SELECT coalesce(a.id, b.id) AS id, a.* EXCLUDE (id), b.* EXCLUDE (id) FROM {both}"
    select = f"SELECT {', '.join(columns)} FROM ({joined})"
    if not held:
        connection.execute(f"CREATE TABLE items AS {select}")
        return None
    table: pa.Table = connection.sql(select).to_arrow_table().combine_chunks()
    return table if len(runs) == 1 else table.sort_by("n")


def _lower_texts(texts: str) -> str:
    """Return SQL of the texts of a list in lower case, one per line."""
    return f"lower(array_to_string({texts}, chr(10)))"


def _build_item_number(runs: int) -> str:
    """Return SQL of the number of an item: first those of the first run in its order, then those only in the second,
    and so on.
    """
    order = ", ".join(f"r{system} NULLS LAST" for system in range(runs))
    return f"row_number() OVER (ORDER BY {order}) - 1" if runs > 1 else "r0"


def _refuse_repeated(connection: Any, runs: Sequence[SystemRun]) -> None:
    """Raise InputError if an id occurs twice in a run: such runs cannot be joined."""
    import pyarrow as pa

    for run in runs:
        schema = pa.schema([("r", pa.int32()), ("id", run.rows.schema.field("id").type)])
        with connection.cursor() as cursor:
            cursor.register("ids", pa.RecordBatchReader.from_batches(schema, run.rows.read_batches(["id"])))
            repeated = cursor.execute("SELECT id FROM ids GROUP BY id HAVING count(*) > 1 LIMIT 1").fetchall()
        if repeated:
            where, key = run.run.address, repeated[0][0]
            raise InputError(f"{where}: the id {key!r} occurs twice, expected one row per item to join runs")


def _refuse_strangers(runs: Sequence[SystemRun], items: int) -> None:
    """Raise InputError if the runs have no item in common."""
    if len(runs) > 1 and items == sum(len(run.rows) for run in runs):
        first, second = (run.rows.take([0])[0]["id"] if len(run.rows) else None for run in runs[:2])
        raise InputError(
            f"{runs[0].root} and {runs[1].root}: no id is in both, such as {first!r} and {second!r}; "
            "expected runs on the same items"
        )


def _list_loaded_columns(run: SystemRun, held: bool) -> list[str]:
    """Return the columns of a run that are loaded."""
    further = [name for name in ("references", "unscored") if held and name in run.rows.schema.names]
    counted = [name for name in ("words",) if name in run.rows.schema.names]
    # The metric `words` is the column of the count.
    return list(dict.fromkeys(["id", "candidates", *counted, *run.run.metrics, *run.fields, *further]))


def _register(connection: Any, system: int, run: SystemRun, held: bool) -> None:
    """Register the rows of a run as a table that can be read once, with the columns ``r``, ``c0``, ``c1``, …"""
    import pyarrow as pa

    names = _list_loaded_columns(run, held)
    columns = ["r", *(f"c{place}" for place in range(len(names)))]
    kinds = [pa.int32(), *(run.rows.schema.field(name).type for name in names)]
    batches = (batch.rename_columns(columns) for batch in run.rows.read_batches(names))
    schema = pa.schema(list(zip(columns, kinds, strict=True)))
    connection.register(f"incoming{system}", pa.RecordBatchReader.from_batches(schema, batches))


def _build_select(system: int, run: SystemRun, keys: Sequence[str], places: Mapping[str, int], held: bool) -> str:
    """Return SQL that renames the columns of a run to those of the table; values that are not finite become null."""
    columns = []
    for place, name in enumerate(_list_loaded_columns(run, held)):
        sql = f"c{place}"
        if name == "id":
            columns.append(f"{sql} AS id, r AS r{system}")
        elif name == "candidates":
            columns.append(f"{sql} AS t{system}")
            if "words" not in run.rows.schema.names:
                columns.append(f"{list_caption_columns(sql)['words'].sql} AS w{system}")
        elif name == "words":
            columns.append(f"CAST({sql} AS DOUBLE) AS w{system}")
            if name in run.signatures:
                columns.append(f"CAST({sql} AS DOUBLE) AS m{system}_{keys.index(name)}")
        elif name == "references":
            columns.append(f"{sql} AS q_{system}")
        elif name == "unscored":
            columns.append(f"CAST({sql} AS VARCHAR) AS u{system}")
        elif name in run.signatures:
            number = f"CAST({sql} AS DOUBLE)"
            columns.append(f"CASE WHEN isfinite({number}) THEN {number} END AS m{system}_{keys.index(name)}")
        else:
            columns.append(f"{sql} AS f{places[name]}_{system}")
    if held and "unscored" not in run.rows.schema.names:
        columns.append(f"CAST(NULL AS VARCHAR) AS u{system}")
    return f"SELECT {', '.join(columns)} FROM incoming{system}"


def _warn_about_media(table: ItemTable, media: Media, column: str) -> Iterator[str]:
    """Yield a warning if no file can be shown: they are outside the runs, or not in the folder that was named."""
    folder = media.folder
    if column not in table.fields and folder is None:
        return
    field = table.fields[column].sql if column in table.fields else "CAST(NULL AS VARCHAR)"
    where = f" WHERE {field} IS NOT NULL" if folder is None else ""
    with table.cursor() as cursor:
        rows = cursor.execute(f"SELECT id, {field} FROM items{where} ORDER BY n LIMIT {LOOKED_FOR}").fetchall()
    if rows and all(media.find_path(*row) is None for row in rows):
        name = PurePath(str(rows[0][1] or rows[0][0])).name
        if folder is None:
            option, use = SHOWN[media.what]
            yield f"{media.what}s are outside the run, such as {name}; name their folder with {option} to {use} them"
        else:
            yield f"{folder.path}: contains none of the {media.what}s, such as {name}"


# Ratings


def _add_ratings(table: ItemTable, source: str | Path) -> None:
    """Add human ratings to the table: a score for every aspect, and each rating and comment by item and system."""
    import pyarrow as pa

    ratings: dict[tuple[int, int], list[CaptionRating]] = {}
    lost, example = 0, ""
    given, warnings = read_caption_ratings(source)
    table.warnings += tuple(warnings)
    for rating, caption in zip(given, _match_captions(table, given), strict=True):
        if caption is None:
            lost, example = lost + 1, example or rating.where
        else:
            ratings.setdefault(caption, []).append(rating)
    if not ratings:
        raise InputError(
            f"{source}: no rating belongs to a caption of the runs ({example or 'it contains none'}), expected the id "
            "of an item with the name of a system, or with the caption itself"
        )
    scores = tuple(_make_aspect_score(name, ratings) for name in _list_aspects(table.scores, ratings))
    items = sorted({item for item, _ in ratings})
    columns: dict[str, Any] = {"n": pa.array(items, pa.int32())}
    for system in range(len(table.runs)):
        groups = [ratings.get((item, system), []) for item in items]
        for place, score in enumerate(scores, start=len(table.scores)):
            columns[f"m{system}_{place}"] = _make_number_array(
                [compute_mean_rating(group, score.key) for group in groups]
            )
        columns[f"g{system}"] = _make_number_array([compute_rating_gap(group, RATING) for group in groups])
        columns[f"p{system}"] = pa.array([len(group) for group in groups], pa.int32())
        comments = [[one.comment for one in group if one.comment] for group in groups]
        columns[f"c{system}"] = pa.array(comments, pa.list_(pa.string()))
    if table.whole is None:
        table.connection.register("incoming", pa.table(columns))
        table.connection.execute("CREATE TABLE people AS SELECT * FROM incoming")
    else:
        rows = np.full(len(table), -1, dtype=np.int32)
        rows[items] = np.arange(len(items), dtype=np.int32)
        places = pa.array(rows, mask=rows < 0)
        for name in list(columns)[1:]:
            table.whole = table.whole.append_column(name, columns[name].take(places))
    table.ratings, table.scores = ratings, table.scores + scores
    if lost:
        table.warnings += (f"{source}: {lost:,} ratings belong to no caption of these runs, such as {example}",)


def _make_number_array(values: Sequence[float]) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, pa.float64(), from_pandas=True)


def _list_aspects(metrics: Sequence[Score], ratings: Mapping[tuple[int, int], Sequence[CaptionRating]]) -> list[str]:
    """Return the rated aspects, without those that repeat the rating or have the name of a metric."""
    everything = [one.values for group in ratings.values() for one in group]
    names = dict.fromkeys(name for values in everything for name in values)
    taken = {score.key for score in metrics}
    repeated = {
        name
        for name in names
        if name != RATING and all(values.get(name) == values.get(RATING) for values in everything)
    }
    return [name for name in names if name not in taken | repeated]


def _make_aspect_score(name: str, ratings: Mapping[tuple[int, int], Sequence[CaptionRating]]) -> Score:
    values = [one.values[name] for group in ratings.values() for one in group if name in one.values]
    label = "Human rating" if name == "rating" else f"Human {name}"
    return Score(name, label, True, (min(values), max(values)), "rating", 2)


def _match_captions(table: ItemTable, ratings: Sequence[CaptionRating]) -> Iterator[tuple[int, int] | None]:
    """Yield the item and system of each rating: matched by id or image, and by the system's name or the caption."""
    named = [_list_keys(rating) for rating in ratings]
    by_id = _find_items(table, "items.id", {key for keys in named for key in keys})
    unknown = [one for one, keys in zip(ratings, named, strict=True) if not any(key in by_id for key in keys)]
    names = {name for one in unknown for name in (one.image, PurePath(one.image).name) if name}
    by_image: dict[str, int] = {}
    if names and "image" in table.fields:
        for ending in ("true", "false"):  # a match of the whole name overrides one without suffix
            by_image |= _find_items(table, f"parse_filename({table.fields['image'].sql}, {ending})", names)
    for rating, keys in zip(ratings, named, strict=True):
        items = [by_id[key] for key in keys if key in by_id]
        items = items or [by_image[name] for name in (rating.image, PurePath(rating.image).name) if name in by_image]
        yield next(filter(None, (_find_caption(table, rating, item) for item in items)), None)


def _list_keys(rating: CaptionRating) -> list[str]:
    """Return the ids that the item of a rating may have."""
    keys = [rating.id, rating.id.rpartition("/")[0]]
    if rating.system and rating.id.endswith(f"/{rating.system}"):
        keys.insert(0, rating.id.removesuffix(f"/{rating.system}"))
    return keys


def _find_items(table: ItemTable, column: str, wanted: set[str]) -> dict[str, int]:
    """Return the item for each of these values of a column."""
    import pyarrow as pa

    keys = pa.table({"key": pa.array(sorted(wanted), pa.string())})
    with table.cursor(wanted=keys) as cursor:
        sql = f"SELECT key, max(n) FROM wanted JOIN items ON {column} = key GROUP BY key"
        return dict(cursor.execute(sql).fetchall())


def _find_caption(table: ItemTable, rating: CaptionRating, item: int) -> tuple[int, int] | None:
    if rating.system in table.systems:
        return item, table.systems.index(rating.system)
    wanted = " ".join(rating.caption.split())
    for system, (row,) in enumerate(table.read_rows([item]) if wanted else ()):
        if row and wanted in [" ".join((text or "").split()) for text in row["candidates"] or ()]:
            return item, system
    return (item, 0) if len(table.systems) == 1 and not wanted else None
