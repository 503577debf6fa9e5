"""``captious.keep``: the items of a run that pass a filter, the reasons of the others, and output of ids or shards."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, Literal

import numpy as np

from captious._core.files import digest, refuse_existing, write_atomically
from captious.errors import InputError, UnknownKey, format_one_line, require
from captious.io.storage import Storage, is_remote, split_address
from captious.options import SEED, Engine, Option, check_value
from captious.render import Cell, Chart, Column, Document, Group, Result, Section, Series, Table
from captious.render.answers import count_noun
from captious.runs.filters import (
    PART,
    Clause,
    ClauseCount,
    ColumnNode,
    Filter,
    FilterColumn,
    FilterSchema,
    Quantile,
    attach,
    connect,
    count_clauses,
    find_thresholds,
    list_run_columns,
    parse_filter,
    quote,
)
from captious.runs.folder import Run
from captious.runs.marker import COLUMNS
from captious.runs.report import disambiguate_labels
from captious.runs.run_tables import parse_reasons

Write = Literal["ids", "shards"]
# File formats for ids.
FILES = (".parquet", ".jsonl", ".txt")
# Shares of items for which thresholds are shown, to help with the choice of one.
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
# Number of shards that the page lists.
LISTED = 50
# Rows that are written at a time: ten of DuckDB's blocks. Larger row groups take more memory and are not faster.
BLOCK = 20_480
# Number of images that are read at a time.
READERS = 8
PERCENT = Column("share", decimals=1, scale=100.0, unit=" %")
NAN = float("nan")
UNDEFINED = "the expression has no value, as after a division by 0"


@dataclass(frozen=True)
class ShardCount:
    """A shard with the number of its items and of those that pass."""

    shard: str
    items: int
    passing: int


@dataclass(frozen=True)
class StepCount:
    """One narrowing step, with the numbers of items that it dropped and left."""

    step: str
    dropped: int
    left: int


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Result):
    """Counts of the items that pass a filter, and of the others by clause and by reason."""

    name: str
    """The name of the folder."""
    filter: str
    clauses: tuple[ClauseCount, ...]
    shards: tuple[ShardCount, ...]
    reasons: Mapping[str, int]
    """Items dropped because a value is missing, by its reason."""
    thresholds: Mapping[str, float]
    """The values of the quantiles in the filter, by their text."""
    shares: Mapping[str, Mapping[float, float]]
    """The threshold that keeps each share of the scored items, by the label of each metric of the filter."""
    higher_is_better: Mapping[str, bool]
    steps: tuple[StepCount, ...] = ()
    """Steps after the filter: the best of several, unique items, a sample."""
    out: str = ""
    """The path of the output; empty if nothing was written."""
    read: tuple[str, ...] = ()
    """The columns that were read when the runs were scored, a line per run."""

    def __repr__(self) -> str:
        return f"<Selection {self.filter!r}: {self.title}>"

    @property
    def items(self) -> int:
        """The number of items of the run."""
        return sum(shard.items for shard in self.shards)

    @property
    def passing(self) -> int:
        """The number of items that pass every clause."""
        return sum(shard.passing for shard in self.shards)

    @property
    def kept(self) -> int:
        """The number of items after all steps."""
        return self.steps[-1].left if self.steps else self.passing

    @property
    def title(self) -> str:
        """The number and share of items that pass."""
        kept = f"; {self.kept:,} are kept" if self.steps else ""
        return f"{self.passing:,} of {self.items:,} items pass ({_format_percent(self.passing, self.items)}){kept}"

    def document(self) -> Document:
        """Return the page: clauses, reasons, thresholds to choose from, and shards."""
        shares = sorted(shard.passing / shard.items for shard in self.shards if shard.items)
        notes = [*self.read, *(f"{text}: the threshold is {value:.6g}" for text, value in self.thresholds.items())]
        if len(shares) > 1:
            middle = shares[len(shares) // 2]
            lowest, highest, median = (_format_percent(share, 1) for share in (shares[0], shares[-1], middle))
            notes.append(f"Per shard {lowest} to {highest} of the items pass, {median} in the middle.")
        sections: list[Section] = [
            self._make_clause_table(),
            *self._draw_chart(),
            *self._make_step_table(),
            *self._make_reason_table(),
        ]
        sections += self._make_share_table()
        sections.append(Group("Shards", [self._make_shard_table()]))
        title = f"{PurePath(self.name).name}: items that pass {self.filter}"
        return Document(title, "", sections, notes=notes, data=self.data(), name="selection", answer=self._answer())

    def _answer(self) -> str:
        """Return the plain answer: how many pass, which clause drops most, and how many could not be decided."""
        sentences, dropped = [self.title], self.items - self.passing
        if len(self.clauses) > 1 and dropped:
            worst = max(self.clauses, key=lambda one: one.dropped)
            sentences.append(f"Of the {dropped:,} others, {worst.dropped:,} are dropped by {worst.text}")
        if unknown := sum(self.reasons.values()):
            sentences.append(f"{count_noun(unknown, 'item')} could not be decided: a value is missing")
        return " ".join(f"{sentence}." for sentence in sentences)

    def _make_clause_table(self) -> Table:
        unscored, several = any(one.unknown for one in self.clauses), len(self.clauses) > 1
        columns: list[Column | str] = ["clause", replace(PERCENT, name="passes", key="share", bold=True, bar=True)]
        columns += [Column("fails"), *([Column("unscored")] if unscored else [])]
        columns += [Column("drops"), Column("left"), Column("only here", key="alone")] if several else []
        rows: list[Sequence[Any]] = []
        left = self.items
        for one in self.clauses:
            left -= one.dropped
            share = Cell(one.holds / self.items if self.items else NAN, limits=(0.0, 1.0))
            row = [one.text, share, one.fails, *([one.unknown] if unscored else [])]
            rows.append([*row, *([one.dropped, left, one.alone] if several else [])])
        note = (
            "passes and fails: by this clause alone; drops: what passed the clauses above it and not this one; only"
            " here: what would pass without this clause"
        )
        return Table("clauses", "Clauses", columns, rows, note if several else "")

    def _draw_chart(self) -> list[Chart]:
        if len(self.clauses) < 2:
            return []
        left = np.cumsum([self.items, *(-one.dropped for one in self.clauses)]).tolist()
        names = ["all items", *(one.text for one in self.clauses)]
        labels = [f"{number:,} · {_format_percent(number, self.items)}" for number in left]
        return [Chart("bars", [Series("items", names, left, labels=labels)], "Left after each clause", x="items")]

    def _make_step_table(self) -> list[Table]:
        rows = [(one.step, one.dropped, one.left) for one in self.steps]
        return [Table("steps", "Of those that pass", ("step", Column("drops"), Column("left")), rows)] if rows else []

    def _make_reason_table(self) -> list[Table]:
        rows = [(reason, number, number / self.items) for reason, number in self.reasons.items()]
        columns = ("reason", Column("items"), replace(PERCENT, name="of all", key="share"))
        note = "Items that fail no clause before the one whose value is missing"
        return [Table("unscored", "Dropped without a value", columns, rows, note)] if rows else []

    def _make_share_table(self) -> list[Table]:
        shares = [Column(f"keeps {share:.0%}", key=f"keeps_{share:g}") for share in SHARES]
        columns: list[Column | str] = ["metric", *shares]
        rows: list[Sequence[Any]] = [
            (f"{name} {'≥' if self.higher_is_better[name] else '≤'}", *thresholds.values())
            for name, thresholds in self.shares.items()
        ]
        note = "The threshold that keeps a share of the items with a value"
        return [Table("thresholds", "Thresholds", columns, rows, note)] if rows else []

    def _make_shard_table(self) -> Table:
        columns = ("shard", Column("items"), Column("passing"), PERCENT)
        order = sorted(self.shards, key=lambda one: one.passing / one.items if one.items else 2.0)
        rows = [(one.shard, one.items, one.passing, one.passing / one.items if one.items else NAN) for one in order]
        rest = len(rows) - LISTED
        note = f"The smallest shares first. {rest:,} more shards are in the JSON" if rest > 0 else ""
        return Table("shards", "Shards", columns, rows[:LISTED], note, detail=True)

    def data(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {
            "name": self.name,
            "filter": self.filter,
            "items": self.items,
            "passing": self.passing,
            "kept": self.kept,
            "steps": list(self.steps),
            "clauses": list(self.clauses),
            "reasons": self.reasons,
            "thresholds": self.thresholds,
            "shares": {name: {f"{share:g}": one for share, one in row.items()} for name, row in self.shares.items()},
            "shards": list(self.shards),
            "out": self.out or None,
        }


def keep(
    run: str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]],
    expression: str,
    *,
    out: str | os.PathLike[str] | None = None,
    write: Write = "ids",
    best: str | None = None,
    unique: str | None = None,
    sample: int | None = None,
    seed: int = SEED,
    engine: Engine = Engine(),
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Selection:
    """Select the items of a run that pass a filter, and write their ids or the shards reduced to them.

    Parameters
    ----------
    run
        The folder that ``captious score`` wrote, from a file or from shards, or its address; or several runs by name,
        which are joined by id: the items are those of the first, ``recap.cider`` and ``cider@recap`` name values of a
        run, a plain name is of the first.
    expression
        Such as ``clipscore > 0.28 and words > 4``, ``top(clipscore, 0.3)``, or ``0.2 < cider < 2 or caption has "dog"``
        (the guide has a page on filters). An item without a value that the filter needs does not pass.
    out
        A file of ids that ends in ``.parquet``, ``.jsonl`` or ``.txt``; of shards, a folder. Without it nothing is
        written.
    write
        ``ids``, or ``shards``: the shards that were scored, with the rows or samples that pass, unchanged.
    best
        A metric. Of one run: of the items with the same image, or with the same id if the run has no images, only
        the best. Of several runs: of the captions with the same id, which run has the best; it is written too.
    unique
        A column, such as ``caption``, ``image`` or a hash that the input had: of items with the same value only the
        first. For ``image`` the content of the files is compared.
    sample, seed
        Number of the remaining items to draw at random. The same ids are drawn wherever they are stored.
    engine
        Who writes shards.
    overwrite
        Replace existing output.
    progress
        Called with the name of each step as it begins.
    """
    if sample is not None and (not isinstance(sample, int) or sample < 1):
        raise InputError(f"sample={sample!r}, expected a whole number of at least 1")
    check_value("write", write, Write, Option(""))
    runs = {name: Run.at(address) for name, address in _name_runs(run).items()}
    first = next(iter(runs.values()))
    _refuse_output(first, out, write, overwrite)
    step = progress or (lambda name: None)
    with _report_unreadable(runs.values()):
        selector = Selector(runs)
        filter = parse_filter(expression, selector.schema)
        narrowing = Narrowing(selector, best, unique, sample, seed)
        step("thresholds")
        selector.find_thresholds(filter)
        step("filter")
        selection = selector.count(filter)
        kept = narrowing.narrow(filter, step) if narrowing else None
        if kept is not None:
            selection = replace(selection, steps=tuple(kept.steps))
        if out is not None and write == "ids":
            selected = kept.selected if kept is not None else selector.build_query(filter)
            _write_ids(os.fspath(out), selector.connection, *selected)
        ids = selector.group_ids(filter, kept) if write == "shards" and (kept or len(runs) > 1) else None
    if out is not None and write == "shards":
        from captious.runs._rewriting import rewrite_shards

        named = "; ".join([filter.text, *narrowing.words])
        rewrite_shards(
            first, filter, selector.thresholds, os.fspath(out), engine, overwrite, step, named, selector.types[0], ids
        )
    columns = {name: str(one.marker.reading.get(COLUMNS, "")) for name, one in runs.items()}
    read = tuple(line if len(runs) == 1 else f"{name}: {line}" for name, line in columns.items() if line)
    return replace(selection, read=read, out=os.fspath(out) if out is not None else "")


def _refuse_output(run: Run, out: str | os.PathLike[str] | None, write: Write, overwrite: bool) -> None:
    """Raise InputError if the output cannot be written, before anything is computed."""
    if out is not None and write == "ids":
        _refuse_file(out, overwrite)
    if write == "shards":
        if out is None:
            raise InputError("write='shards' needs out=..., the folder to write them to")
        from captious.runs._rewriting import find_writable_shards

        find_writable_shards(run)


def _name_runs(run: Any) -> dict[str, Any]:
    """Return runs by name; a single run has an empty name."""
    if isinstance(run, Mapping):
        if not run:
            raise InputError("no run is named, expected a folder that captious score wrote")
        return {str(name): address for name, address in run.items()}
    return {"": run}


@contextmanager
def _report_unreadable(runs: Iterable[Run]) -> Iterator[None]:
    """Turn errors of DuckDB into an InputError that names the unreadable file of a run."""
    error_of_duckdb = require("duckdb", "query").Error
    try:
        yield
    except error_of_duckdb as error:
        for run in runs:
            for part in run.names:
                with run.parquet(run.items_name(part)):  # says that it is missing or damaged
                    pass
        raise InputError(f"the filter cannot be computed ({format_one_line(error)})") from None


class Selector:
    """Runs joined by id in DuckDB; the items are those of the first run, ``run0``."""

    def __init__(self, runs: Mapping[str, Run]) -> None:
        self.runs = runs
        self.connection = connect()
        self.thresholds: dict[str, float] = {}
        self.shares: dict[str, dict[float, float]] = {}
        self.higher: dict[str, bool] = {}
        by_name: dict[str, dict[str, FilterColumn]] = {}
        self.types: list[dict[str, str]] = []
        for index, (name, run) in enumerate(runs.items()):
            types = attach(self.connection, f"run{index}", run.parts())
            if types.get("id") != "VARCHAR":  # a run from elsewhere, or a damaged one
                found = types.get("id", "missing")
                raise InputError(
                    f"{run.address}: column 'id' of the items is {found}, expected texts; score them again"
                )
            self.types.append(types)
            by_name[name] = list_run_columns(types, run.labels, f"run{index}")
            if index:
                self._refuse_repeated(name, index)
        self.labels = {key: label for run in reversed([*runs.values()]) for key, label in run.labels.items()}
        first = next(iter(by_name.values()))
        self.schema = FilterSchema(first, self.labels, by_name if len(runs) > 1 or "" not in runs else {})
        joins = [f'LEFT JOIN "run{index}" ON "run0".id = "run{index}".id' for index in range(1, len(runs))]
        self.source = " ".join(['"run0"', *joins])

    def _refuse_repeated(self, name: str, index: int) -> None:
        sql = f'SELECT id FROM "run{index}" GROUP BY id HAVING count(*) > 1 LIMIT 1'
        if row := self.connection.execute(sql).fetchone():
            raise InputError(f"{name}: id {row[0]!r} occurs more than once, so that items cannot be joined by id")

    def find_thresholds(self, filter: Filter) -> None:
        """Compute the quantiles of the filter, and thresholds to choose from for each of its metrics."""
        wanted = list(filter.quantiles)
        choices: dict[tuple[str, float], str] = {}
        for column in filter.columns:
            if column.name in self.labels:
                run = self.runs[column.system] if column.system else next(iter(self.runs.values()))
                label = self._format_label(column)
                self.higher[label] = run.facts[column.name].higher_is_better
                for share in SHARES:
                    choices[label, share] = f"{column.key} {share}"
                    wanted.append(Quantile(0, 0, choices[label, share], column, share, self.higher[label]))
        thresholds = find_thresholds(self.connection, self.source, wanted)
        self.thresholds = {one.text: thresholds[one.text] for one in filter.quantiles}
        for (label, share), text in choices.items():
            self.shares.setdefault(label, {})[share] = thresholds[text]

    def _format_label(self, column: ColumnNode) -> str:
        label = disambiguate_labels(self.labels)[column.name]
        return f"{label} of {column.system}" if column.system else label

    def count(self, filter: Filter) -> Selection:
        """Count what every clause keeps and drops, by shard, and the reasons of missing values, in one query."""
        outcomes = filter.outcomes(self.thresholds)
        clauses = [f"c{index}" for index in range(len(filter.clauses))]
        whys = [f'"run{index}".unscored AS why{index}' for index in range(len(self.runs))]
        absent = [f'"run{index}".id IS NULL AS absent{index}' for index in range(1, len(self.runs))]
        inner = ", ".join([f'"run0"."{PART}" AS part', outcomes.sql, *whys, *absent])
        unknown = " OR ".join(f"{one} IS NULL" for one in clauses)
        facts = [f"CASE WHEN {unknown} THEN why{index} END AS fact{index}" for index in range(len(self.runs))]
        facts += [f"absent{index}" for index in range(1, len(self.runs))]
        groups = ", ".join(["part", *clauses, *facts])
        sql = (
            f"SELECT parse_filename(part, true), {filter.outcome_code}, * EXCLUDE (part, {', '.join(clauses)}) FROM "
            f"(SELECT {groups}, count(*) AS number FROM (SELECT {inner} FROM {self.source}) GROUP BY ALL)"
        )
        codes, shards, reasons = Counter[str](), Counter[str](), Counter[str]()
        for part, code, *facts, number in self.connection.execute(sql, outcomes.parameters).fetchall():
            codes[code] += number
            failed = len(code) - len(code.lstrip("1"))  # index of the first clause that does not pass
            if failed == len(code):
                shards[part] += number
            elif code[failed] == "?":
                reasons[self._find_reason(filter.clauses[failed], facts)] += number
        first = next(iter(self.runs.values()))
        return Selection(
            first.address,
            filter.text,
            count_clauses(filter, codes),
            tuple(ShardCount(part, items, shards[part]) for part, items in first.marker.parts.items()),
            dict(reasons.most_common()),
            self.thresholds,
            self.shares,
            self.higher,
        )

    def _find_reason(self, clause: Clause, facts: Sequence[Any]) -> str:
        """Return which column of a clause has no value for an item, and why."""
        names = list(self.runs)
        whys, absent = facts[: len(names)], (False, *facts[len(names) :])
        for column in clause.columns:
            index = names.index(column.system) if column.system else 0
            if absent[index]:
                return f"{column.system} has no item of this id"
            if why := parse_reasons(whys[index]).get(column.name):
                return f"{self._format_label(column)}: {why}"
        return UNDEFINED

    def list_numbers(self, filter: Filter) -> dict[str, str]:
        """Return SQL for the numeric columns of the filter, which are written next to the ids."""
        columns = [column for column in filter.columns if column.column.kind in ("number", "truth")]
        return {column.key: f"CAST({column.column.sql} AS DOUBLE)" for column in columns}

    def build_query(self, filter: Filter) -> tuple[str, dict[str, Any]]:
        """Return a query for the items that pass, in their order, and its parameters."""
        condition = filter.condition(self.thresholds)
        numbers = [f"{sql} AS {quote(name)}" for name, sql in self.list_numbers(filter).items()]
        columns = ['"run0".id AS id', f'parse_filename("run0"."{PART}", true) AS shard', *numbers]
        return f"SELECT {', '.join(columns)} FROM {self.source} WHERE {condition.sql}", condition.parameters

    def group_ids(self, filter: Filter, kept: NarrowedItems | None) -> dict[str, frozenset[str]]:
        """Return the ids that pass, by the name of the part."""
        sql, parameters = kept.selected if kept is not None else self.build_query(filter)
        rows = self.connection.execute(f"SELECT shard, list(id) FROM ({sql}) GROUP BY shard", parameters).fetchall()
        return {shard: frozenset(ids) for shard, ids in rows}


@dataclass(frozen=True)
class NarrowedItems:
    """Items that passed a filter and were narrowed down, as a query on the table ``kept``."""

    selected: tuple[str, dict[str, Any]]
    steps: list[StepCount]


@dataclass(frozen=True)
class Narrowing:
    """Options that narrow the items that pass: the best of several, unique ones, a sample."""

    selector: Selector
    best: str | None
    unique: str | None
    sample: int | None
    seed: int

    def __bool__(self) -> bool:
        return self.best is not None or self.unique is not None or self.sample is not None

    @property
    def words(self) -> list[str]:
        """The options as text, for the marker of rewritten shards."""
        options = {"best": self.best, "unique": self.unique, "sample": self.sample}
        words = [f"{name}={value}" for name, value in options.items() if value is not None]
        return [*words, *([f"seed={self.seed}"] if self.sample is not None else [])]

    def narrow(self, filter: Filter, step: Callable[[str], None]) -> NarrowedItems:
        """Narrow down the items that pass."""
        selector, connection = self.selector, self.selector.connection
        condition = filter.condition(selector.thresholds)
        numbers = selector.list_numbers(filter)
        columns = ["row_number() OVER () AS row", '"run0".id AS id']
        columns.append(f'parse_filename("run0"."{PART}", true) AS shard')
        written = ["id", "shard"]
        several = len(selector.runs) > 1
        if self.best is not None:
            columns += self._build_best_columns(several)
            written += ["run", "caption", "best"] if several else []
        if self.unique is not None:
            columns.append(f"{self._build_unique_column()} AS same")
        columns += [f"{sql} AS n{index}" for index, sql in enumerate(numbers.values())]
        sql = f"CREATE TEMP TABLE kept AS SELECT {', '.join(columns)} FROM {selector.source} WHERE {condition.sql}"
        connection.execute(sql, condition.parameters)
        steps: list[StepCount] = []
        left = self._count_kept()

        def drop_others(what: str, rest: str, **parameters: Any) -> None:
            nonlocal left
            step(what)
            connection.execute("ALTER TABLE kept RENAME TO before")
            connection.execute(f"CREATE TEMP TABLE kept AS SELECT * FROM before {rest}", parameters or None)
            connection.execute("DROP TABLE before")
            after = self._count_kept()
            steps.append(StepCount(what, left - after, after))
            left = after

        if self.best is not None:
            first = "" if several else " QUALIFY row_number() OVER (PARTITION BY several ORDER BY value DESC, row) = 1"
            drop_others(f"best by {self.best}", f"WHERE value IS NOT NULL{first}")
        if self.unique is not None:
            if self._compares_images():
                self._hash_images()
            first = "row_number() OVER (PARTITION BY md5(same) ORDER BY row) = 1"
            drop_others(f"repeated {self.unique}", f"QUALIFY same IS NULL OR {first}")
        if self.sample is not None:
            # Order by a hash of the id, so that the sample does not depend on the order of the items.
            by_chance = "md5($seed || ':' || id), row"
            drop_others(f"sample of {self.sample:,}", f"ORDER BY {by_chance} LIMIT {self.sample}", seed=str(self.seed))
        shown = [*map(quote, written), *(f"n{index} AS {quote(name)}" for index, name in enumerate(numbers))]
        return NarrowedItems((f"SELECT {', '.join(shown)} FROM kept ORDER BY row", {}), steps)

    def _count_kept(self) -> int:
        return int(self.selector.connection.execute("SELECT count(*) FROM kept").fetchone()[0])

    def _build_best_columns(self, several: bool) -> list[str]:
        """Return SQL for the value to rank by (larger is better) and for the group that competes."""
        assert self.best is not None
        selector = self.selector
        if several:
            values, captions = [], []
            for index, (name, run) in enumerate(selector.runs.items()):
                key, column = self._find_column(
                    self.best, FilterSchema(selector.schema.systems[name], selector.labels), name
                )
                sign = "" if key not in run.facts or run.facts[key].higher_is_better else "-"
                values.append(f"{sign}CAST({column.sql} AS DOUBLE)")
                captions.append(f'"run{index}".candidates[1]')
            listed = f"[{', '.join(values)}]"
            place = f"list_position({listed}, list_max({listed}))"
            named = "[" + ", ".join("'" + name.replace("'", "''") + "'" for name in selector.runs) + "]"
            caption = f"[{', '.join(captions)}][{place}] AS caption"
            # Undo the sign: the value is written as the metric returns it, also if lower is better.
            own = "-" if values[0].startswith("-") else ""
            return [
                f"list_max({listed}) AS value",
                f"{named}[{place}] AS run",
                caption,
                f"{own}list_max({listed}) AS best",
            ]
        key, column = self._find_column(self.best, selector.schema, "")
        run = next(iter(selector.runs.values()))
        sign = "" if key not in run.facts or run.facts[key].higher_is_better else "-"
        group = "image" if "image" in selector.types[0] else "id"
        return [f"{sign}CAST({column.sql} AS DOUBLE) AS value", f'"run0".{group} AS several']

    def _find_column(self, name: str, schema: FilterSchema, run: str) -> tuple[str, FilterColumn]:
        try:
            key = schema.resolve(name)
        except UnknownKey as error:
            raise UnknownKey(f"best={name}: {f'{run}: ' if run else ''}{error}") from None
        if schema.columns[key].kind != "number":
            raise InputError(f"best={name}: contains no numbers, expected a metric")
        return key, schema.columns[key]

    def _compares_images(self) -> bool:
        return self.unique == "image" and "image" in self.selector.types[0]

    def _build_unique_column(self) -> str:
        """Return SQL for the text by which items are repeated."""
        assert self.unique is not None
        selector = self.selector
        if self.unique == "image" and "image" not in selector.types[0]:
            address = next(iter(selector.runs.values())).address
            raise InputError(f"{address}: contains no paths of images; name a column of the input with their hashes")
        try:
            column = selector.schema.columns[selector.schema.resolve(self.unique)]
        except UnknownKey as error:
            raise UnknownKey(f"unique={self.unique}: {error}") from None
        return f"array_to_string({column.sql}, chr(31))" if column.kind == "texts" else f"CAST({column.sql} AS VARCHAR)"

    def _hash_images(self) -> None:
        """Replace the path of each image by the hash of its content."""
        import pyarrow as pa

        connection = self.selector.connection
        paths = [
            row[0] for row in connection.execute("SELECT DISTINCT same FROM kept WHERE same IS NOT NULL").fetchall()
        ]
        with ThreadPoolExecutor(READERS) as pool:
            hashes = list(pool.map(_hash_image, paths))
        connection.register(
            "hashes", pa.table({"path": pa.array(paths, pa.string()), "hash": pa.array(hashes, pa.string())})
        )
        connection.execute("UPDATE kept SET same = hashes.hash FROM hashes WHERE kept.same = hashes.path")


def _hash_image(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return (
                hashlib.file_digest(file, "sha256").hexdigest()
                if hasattr(hashlib, "file_digest")
                else digest(file.read())
            )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no path of a file"
        raise InputError(f"{path}: the image cannot be read ({why}); name a column with hashes of the images") from None


def _refuse_file(out: str | os.PathLike[str], overwrite: bool) -> None:
    """Raise InputError if ids cannot be written to this file."""
    suffix = Path(os.fspath(out)).suffix.lower()
    if suffix not in FILES:
        raise InputError(
            f"{os.fspath(out)}: expected a file of ids that ends in {', '.join(FILES)}; or write='shards' for a folder"
        )
    if not is_remote(os.fspath(out)):
        refuse_existing(Path(out), overwrite)


def _write_ids(out: str, connection: Any, sql: str, parameters: Mapping[str, Any]) -> None:
    """Write the result of a query; the file appears only when it is complete."""
    if is_remote(out):
        folder, name = split_address(out)
        with tempfile.TemporaryDirectory(prefix="captious-") as temporary:
            draft = Path(temporary) / name
            _write_draft(draft, Path(out).suffix.lower(), connection, sql, parameters)
            Storage.at(folder).write(name, draft.read_bytes())
        return
    with write_atomically(out) as draft:
        _write_draft(draft, Path(out).suffix.lower(), connection, sql, parameters)


def _write_draft(draft: Path, suffix: str, connection: Any, sql: str, parameters: Mapping[str, Any]) -> None:
    if suffix == ".parquet":
        path = str(draft).replace("'", "''")
        connection.execute(
            f"COPY ({sql}) TO '{path}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {BLOCK})", parameters or None
        )
        return
    result = connection.execute(sql, parameters or None)
    names = [one[0] for one in result.description]
    with draft.open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        while rows := result.fetchmany(BLOCK):
            for row in rows:
                if suffix == ".jsonl":
                    file.write(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n")
                    continue
                if "\n" in row[0] or "\r" in row[0]:
                    raise InputError(f"{row[1]}: id {row[0]!r} has a line break; write the ids to a .jsonl file")
                file.write(f"{row[0]}\n")


def _format_percent(part: float, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"
