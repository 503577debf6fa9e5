"""Execution of filters over Parquet files and tables by DuckDB."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from captious.errors import require
from captious.io.storage import is_remote
from captious.runs.filters._sql import Compiler
from captious.runs.filters.expression import Filter, parse_filter
from captious.runs.filters.schema import FilterSchema, get_column_types, list_run_columns, quote
from captious.runs.filters.tree import NumberNode, Quantile

if TYPE_CHECKING:
    import pyarrow as pa

    from captious._core.types import Bools


def connect(database: str = ":memory:", **config: Any) -> Any:
    """Return a DuckDB connection that loads no extension and sees no Python variable; ``config`` adds options."""
    import tempfile
    from pathlib import Path

    options = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "temp_directory": str(Path(tempfile.gettempdir()) / "captious-duckdb"),
    }
    locked = config.pop("lock_configuration", "false")
    connection = require("duckdb", "query").connect(database, config={**options, **config})
    connection.execute("SET enable_progress_bar = false")  # DuckDB would draw one wherever Python is interactive
    connection.execute(f"SET lock_configuration = {locked}")
    return connection


# The column of an attached view with the address of the file.
PART = "captious.part"


def attach(connection: Any, name: str, files: Sequence[str], types: Mapping[str, str] | None = None) -> dict[str, str]:
    """Create a view of Parquet files, on a disk or in an object store; return the types of its columns.

    A column that is missing from some files is null there. With ``types`` the view has these columns with these types.
    """
    if files and is_remote(files[0]):
        system, _ = require("fsspec", "remote").core.url_to_fs(files[0])
        protocols = [system.protocol] if isinstance(system.protocol, str) else list(system.protocol)
        if not any(connection.filesystem_is_registered(one) for one in protocols):
            connection.register_filesystem(system)
    literal = ", ".join("'" + re.sub(r"[*?[]", r"[\g<0>]", file).replace("'", "''") + "'" for file in files)
    source = f"read_parquet([{literal}], union_by_name = true, filename = '{PART}')"
    stored = get_column_types(connection.sql(f"SELECT * FROM {source}"))
    columns = [PART, *([one for one in stored if one != PART] if types is None else types)]
    casts = [
        quote(one)
        if types is None or one == PART
        else f"CAST({quote(one) if one in stored else 'NULL'} AS {types[one]}) AS {quote(one)}"
        for one in columns
    ]
    connection.execute(f"CREATE OR REPLACE VIEW {quote(name)} AS SELECT {', '.join(casts)} FROM {source}")
    return {one: kind for one, kind in stored.items() if one != PART}


# Quantiles are located by counting, because DuckDB's `quantile_disc` keeps all values in memory, about 18 bytes each.
# Two quantiles of two columns with DuckDB 2.0, processor time and memory beyond the connection: of 5 million values
# 0.41 s and 42 MB here, 0.24 s and 140 MB there (one query for both: 154 MB); of 20 million 1.21 s and 42 MB here,
# 0.95 s and 369 MB there (522 MB); of 50 million 895 MB there with DuckDB 1.1. `ORDER BY … OFFSET` takes 1.7 GB.
# Largest number of values that are sorted in memory. For more, a histogram first locates the quantiles.
GATHER = 1 << 18
RANGES = 4096
# How often ranges are divided; after that DuckDB computes the quantiles.
ROUNDS = 6


def find_thresholds(connection: Any, source: str, quantiles: Sequence[Quantile]) -> dict[str, float]:
    """Return the values of quantiles by their text, exact and in bounded memory; NaN if no item has a value.

    ``source`` is the SQL after FROM, which must be written by captious, not by a user.
    """
    operands: dict[NumberNode, list[Quantile]] = {}
    for quantile in quantiles:
        operands.setdefault(quantile.operand, []).append(quantile)
    thresholds: dict[str, float] = {}
    for operand, group in operands.items():
        compiler = Compiler({}, "q")
        values = _Values(
            connection, f"SELECT CAST({compiler.compile_value(operand)} AS DOUBLE) AS v FROM {source}", compiler
        )
        number, low, high = values.query("count(v), min(v), max(v)").fetchall()[0]
        ranks = [quantile.rank(number) for quantile in group]
        known = values.select(ranks, number, low, high) if number else dict.fromkeys(ranks, math.nan)
        thresholds |= {quantile.text: known[rank] + 0.0 for quantile, rank in zip(group, ranks, strict=True)}
    return thresholds


@dataclass(frozen=True)
class _Values:
    """A column of numbers from which values are selected by their rank in ascending order."""

    connection: Any
    sql: str
    compiler: Compiler

    def query(self, columns: str, rest: str = "", **parameters: float) -> Any:
        sql = f"SELECT {columns} FROM ({self.sql}) {rest}"
        return self.connection.execute(sql, {**self.compiler.parameters, **parameters})

    def select(
        self, ranks: Sequence[int], number: int, low: float, high: float, rounds: int = ROUNDS
    ) -> dict[int, float]:
        """Return the values at these ranks among the ``number`` values from ``low`` to ``high``."""
        within, ends, width = "WHERE v BETWEEN $low AND $high", {"low": low, "high": high}, high - low
        if number <= GATHER:
            gathered = self.query("v", f"{within} ORDER BY v", **ends).fetchnumpy()["v"]
            return {rank: float(gathered[rank]) for rank in ranks}
        if not rounds or not math.isfinite(width):
            # The value at index k of n is the quantile (k + 1/2) / n: the middle of its step, safe from rounding.
            shares = [(rank + 0.5) / number for rank in ranks]
            values = self.query(f"quantile_disc(v, {shares})", within, **ends).fetchall()[0][0]
            return dict(zip(ranks, values, strict=True))
        # The number of a range is monotone in the value, so a range contains exactly the values between its ends.
        columns = f"floor((v - $low) / $width * {RANGES}) AS range, count(*), min(v), max(v)"
        by_rank: dict[int, float] = {}
        narrow: list[_ValueRange] = []
        start, left = 0, sorted(set(ranks))
        counts = self.query(columns, f"{within} GROUP BY range ORDER BY range", **ends, width=width).fetchall()
        for _, size, first, last in counts:
            inside = [rank for rank in left if start <= rank < start + size]
            if first == last:
                by_rank |= dict.fromkeys(inside, first)
            elif inside and size <= GATHER:
                narrow.append(_ValueRange(start, size, first, last, inside))
            elif inside:
                inner = self.select([rank - start for rank in inside], size, first, last, rounds - 1)
                by_rank |= {rank + start: value for rank, value in inner.items()}
            start += size
        for together in _group_by_size(narrow):
            by_rank |= self._sort_ranges(together)
        return by_rank

    def _sort_ranges(self, ranges: Sequence[_ValueRange]) -> dict[int, float]:
        """Return the wanted values of disjoint ascending ranges, which one query sorts."""
        ends = {f"{name}{index}": end for index, one in enumerate(ranges) for name, end in one.ends.items()}
        within = " OR ".join(f"v BETWEEN $low{index} AND $high{index}" for index in range(len(ranges)))
        values = self.query("v", f"WHERE {within} ORDER BY v", **ends).fetchnumpy()["v"]
        by_rank: dict[int, float] = {}
        before = 0
        for one in ranges:
            by_rank |= {rank: float(values[before + rank - one.start]) for rank in one.ranks}
            before += one.size
        return by_rank


class _ValueRange(NamedTuple):
    """The values between two bounds, inclusive: the rank of the first, their number, and the ranks wanted."""

    start: int
    size: int
    low: float
    high: float
    ranks: Sequence[int]

    @property
    def ends(self) -> dict[str, float]:
        return {"low": self.low, "high": self.high}


def _group_by_size(ranges: Iterable[_ValueRange]) -> Iterator[list[_ValueRange]]:
    """Yield groups of ranges that together have at most `GATHER` values."""
    group: list[_ValueRange] = []
    for one in ranges:
        if group and sum(other.size for other in group) + one.size > GATHER:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def match_rows(source: pa.Table | Sequence[str], text: str, labels: Mapping[str, str]) -> Bools:
    """Return True for every item of an Arrow table, or of these Parquet files, that passes an expression."""
    import numpy as np

    connection = connect()
    try:
        if isinstance(source, (list, tuple)):
            types = attach(connection, "items", source)
        else:
            connection.register("items", source)
            types = get_column_types(connection.table("items"))
        filter = parse_filter(text, FilterSchema(list_run_columns(types, labels), labels))
        condition = filter.condition(find_thresholds(connection, "items", filter.quantiles))
        sql = f"SELECT coalesce({condition.sql}, false) AS passes FROM items"
        passes = connection.execute(sql, condition.parameters).fetchnumpy()["passes"]
        return np.asarray(passes, dtype=np.bool_)
    finally:
        connection.close()


@dataclass(frozen=True)
class ClauseCount:
    """One clause of a filter, with the numbers of items that it keeps and drops."""

    text: str
    holds: int
    """Items that pass it, regardless of the other clauses."""
    fails: int
    unknown: int
    """Items without a value that it needs."""
    dropped: int
    """Items that pass all clauses before it and not this one."""
    alone: int
    """Items that pass all other clauses and not this one."""


def count_clauses(filter: Filter, counts: Mapping[str, int]) -> tuple[ClauseCount, ...]:
    """Return the counts of each clause, from the number of items with each `Filter.outcome_code`.

    >>> from captious.runs.filters import FilterColumn
    >>> columns = {"a": FilterColumn("number", "a"), "b": FilterColumn("number", "b")}
    >>> filter = parse_filter("a > 1 and b > 1", FilterSchema(columns))
    >>> count_clauses(filter, {"11": 5, "10": 2, "0?": 1})[1]
    ClauseCount(text='b > 1', holds=5, fails=2, unknown=1, dropped=2, alone=2)
    """

    def total(test: Callable[[str], bool]) -> int:
        return sum(number for code, number in counts.items() if test(code))

    return tuple(
        ClauseCount(
            clause.text,
            total(lambda code, at=index: code[at] == "1"),  # type: ignore[misc]
            total(lambda code, at=index: code[at] == "0"),  # type: ignore[misc]
            total(lambda code, at=index: code[at] == "?"),  # type: ignore[misc]
            total(lambda code, at=index: code[at] != "1" and set(code[:at]) <= {"1"}),  # type: ignore[misc]
            total(lambda code, at=index: code[at] != "1" and set(code[:at] + code[at + 1 :]) <= {"1"}),  # type: ignore[misc]
        )
        for index, clause in enumerate(filter.clauses)
    )
