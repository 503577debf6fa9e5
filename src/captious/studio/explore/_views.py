"""Views: filters and an order, as in the address of the page, and the items that they select.

An address names metrics by their written form and systems by their name, so that a link works on any computer with the
same runs. DuckDB filters and sorts; the results are cached for the following pages.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from captious._core.numbers import parse_number
from captious._core.types import Bools, Floats, Ints
from captious.errors import InputError
from captious.metrics.registry import find_key
from captious.runs.filters import (
    Clause,
    ColumnNode,
    Condition,
    Filter,
    FilterColumn,
    Junction,
    TextTest,
    find_thresholds,
    parse_filter,
)
from captious.stats.correlation import mid_ranks, spearman
from captious.studio.explore.explorer_table import ItemTable

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
# `gap`: largest difference between systems. `between`: one system right, another wrong. `disagree`: largest difference
# in rank between two metrics. `raters`: largest difference between raters.
ORDERS = ("worst", "best", "gap", "between", "disagree", "raters", "shortest", "longest", "given")
# Largest number of corners of a lasso.
CORNERS = 200
# Largest number of words of a search.
TERMS = 20
# Decimals of values for percentiles: smoothing makes tiny differences between values that are in fact 0.
DECIMALS = 6
# Cached filters and orders, and the rows that they may have in all.
KEPT = 64
KEPT_ROWS = 12_000_000
# Rows of references that are read at a time, if the table is not in memory.
CHUNK = 200_000
# Threads that read chunks.
READERS = 2


@dataclass(frozen=True)
class View:
    """Filters and order of a list of items. Scores and systems are indices into those of the table."""

    score: int
    order: str = "worst"
    system: int | None = None
    """None: all systems, by their mean."""
    query: str = ""
    where: str = ""
    """The filter expression."""
    low: float | None = None
    high: float | None = None
    unscored: bool = False
    x: int = 0
    y: int = 0
    """The two scores that a chart sets against each other, and whose ranks ``disagree`` compares."""
    better: int = 0
    worse: int = 0
    """The systems that ``between`` compares."""
    lasso: tuple[tuple[float, float], ...] = ()
    """Corners of a polygon over the scores ``x`` and ``y``; at least three."""

    @property
    def filters(self) -> tuple[Any, ...]:
        """All filters, normalized for case and surrounding spaces; a cache key."""
        return self.query.lower(), self.where.strip(), self.low, self.high, self.unscored, self.lasso

    @property
    def filtered(self) -> bool:
        """Whether some captions may not pass."""
        return any(one not in ("", None, False, ()) for one in self.filters)


def parse_view(table: ItemTable, address: Mapping[str, str]) -> View:
    """Parse an address; raise InputError for unknown names and invalid numbers."""
    score = _find_score(table, address.get("sort"), _find_default_score(table))
    x, y = _choose_pair(table, score)
    order = address.get("order") or "worst"
    if order not in ORDERS:
        raise InputError(f"order {order[:40]!r}, expected {', '.join(ORDERS)}")
    return View(
        score=score,
        order=order,
        system=_find_system(table, address.get("system")),
        query=address.get("q", ""),
        where=address.get("where", ""),
        low=_parse_bound(address, "min"),
        high=_parse_bound(address, "max"),
        unscored=address.get("unscored") == "1",
        x=_find_score(table, address.get("x"), x),
        y=_find_score(table, address.get("y"), y),
        better=_use_default(_find_system(table, address.get("better")), 0),
        worse=_use_default(_find_system(table, address.get("worse")), min(1, len(table.systems) - 1)),
        lasso=_parse_polygon(address.get("lasso", "")),
    )


def _find_default_score(table: ItemTable) -> int:
    """Return the last metric; ratings are not the default, because metrics are judged, not people."""
    return max(place for place, score in enumerate(table.scores) if score.kind == "metric")


def _choose_pair(table: ItemTable, score: int) -> tuple[int, int]:
    """Return the default axes of the scatter plot: the sort score against a rating, or else the last two metrics."""
    kinds = [one.kind for one in table.scores]
    if "rating" in kinds:
        return _find_default_score(table) if kinds[score] == "rating" else score, kinds.index("rating")
    return max(0, len(kinds) - 2), len(kinds) - 1


def _use_default(value: int | None, default: int) -> int:
    return default if value is None else value


def _find_score(table: ItemTable, name: str | None, default: int) -> int:
    if not name:
        return default
    keys = [score.key for score in table.scores]
    return keys.index(find_key(name[:200], {score.key: score.label for score in table.scores}))


def _find_system(table: ItemTable, name: str | None) -> int | None:
    if not name:
        return None
    if name not in table.systems:
        raise InputError(f"no system {name[:80]!r}, expected {', '.join(table.systems)}")
    return table.systems.index(name)


def _parse_bound(address: Mapping[str, str], key: str) -> float | None:
    text = address.get(key, "")
    try:
        value = parse_number(text) if text else None
    except ValueError:
        raise InputError(f"{key}={text[:40]!r}, expected a number") from None
    if value is not None and not np.isfinite(value):
        raise InputError(f"{key}={text[:40]!r}, expected a finite number")
    return value


def _parse_polygon(text: str) -> tuple[tuple[float, float], ...]:
    """Parse corners written as ``x,y;x,y;…``.

    >>> _parse_polygon("0,1;2,3;4,0")
    ((0.0, 1.0), (2.0, 3.0), (4.0, 0.0))
    """
    if not text:
        return ()
    try:
        corners = tuple((parse_number(x), parse_number(y)) for x, y in (part.split(",") for part in text.split(";")))
    except ValueError:
        raise InputError("lasso: expected corners such as 0.1,2;0.4,3;0.2,5") from None
    if not 3 <= len(corners) <= CORNERS or not np.isfinite(corners).all():
        raise InputError(f"lasso: {len(corners)} corners, expected 3 to {CORNERS}, each two finite numbers")
    return corners


class Listed(NamedTuple):
    """An item of a list, with its sort value."""

    item: int
    value: float | None
    """The sort value."""
    passes: tuple[bool, ...]
    """Whether the caption of each system passes the filters on captions; one that is not looked at does."""


class Passing(NamedTuple):
    """The captions that pass the filters of a view; charts and numbers are about these."""

    chosen: pa.Table | None = None
    """The items that a view lists, with a column ``p0``, ``p1``, … of each system where systems differ; None: all."""

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The table that the SQL of `build_condition` needs besides the items."""
        return {} if self.chosen is None else {"chosen": self.chosen}

    def build_condition(self, system: int) -> str:
        """Return SQL that is true if the caption of a system passes."""
        if self.chosen is None:
            return "true"
        where = f" WHERE p{system}" if f"p{system}" in self.chosen.column_names else ""
        return f"items.n IN (SELECT n FROM chosen{where})"

    def select_items(self, system: int) -> Ints | None:
        """Return the sorted numbers of the items whose caption by a system passes; None for all."""
        if self.chosen is None:
            return None
        numbers = np.asarray(self.chosen["n"].to_numpy(), dtype=np.int64)
        if f"p{system}" in self.chosen.column_names:
            numbers = numbers[self.chosen[f"p{system}"].to_numpy()]
        return np.sort(numbers)


EVERYTHING = Passing()


class ViewStatement(NamedTuple):
    """The filters of a view as SQL: the condition on the caption of each system by its index, and those on items."""

    captions: Mapping[int, str]
    terms: Sequence[str]
    parameters: dict[str, Any]
    tables: dict[str, pa.Table]
    """Tables that the conditions need besides the items."""

    @property
    def where(self) -> str:
        """All conditions joined; empty if there are none."""
        either = [" OR ".join(f"({sql})" for sql in self.captions.values())] if self.captions else []
        return " AND ".join(f"({sql})" for sql in (*self.terms, *either))


@dataclass(eq=False)
class Explorer:
    """A table with a cache of the orders and filters that were requested."""

    table: ItemTable
    _kept: OrderedDict[Any, Any] = field(default_factory=OrderedDict)
    _facts: dict[Any, Any] = field(default_factory=dict)
    """Results that do not depend on the view."""
    _lock: Lock = field(default_factory=Lock)
    _making: dict[Any, Lock] = field(default_factory=dict)
    """A lock per running computation: a page requests its list and its charts at once, and both need the same one."""

    def list_systems(self, view: View) -> list[int]:
        """Return the systems of a view."""
        return list(range(len(self.table.systems))) if view.system is None else [view.system]

    # Items of a view

    def get_total(self, view: View) -> int:
        """Return the number of items in a view."""
        chosen = self._get_chosen(view)
        return len(self.table) if chosen is None else len(chosen)

    def select_captions(self, view: View) -> Passing:
        """Return the captions that pass the filters, for the charts of a view."""
        return Passing(self._get_chosen(view)) if view.filtered else EVERYTHING

    def count(self, view: View) -> int:
        """Count the items of a view without caching its list."""
        statement = self.build_statement(view)
        source = self.table.get_source(statement.where)
        with self.table.cursor(**statement.tables) as cursor:
            sql = f"SELECT count(*) FROM {source} WHERE {statement.where}"
            return int(cursor.execute(sql, statement.parameters).fetchall()[0][0])

    def read_page(self, view: View, first: int, number: int) -> list[Listed]:
        """Return some of the items of a view, in its order."""
        everyone = (True,) * len(self.table.systems)
        rows = self._read_ordered(view, first, number)
        return [Listed(item, value, tuple(passes) or everyone) for item, value, *passes in rows]

    def list_items(self, view: View) -> list[int]:
        """Return all items of a view, in its order."""
        return [row[0] for row in self._read_ordered(view, 0, self.get_total(view))]

    def iterate_ids(self, view: View) -> Iterator[list[str]]:
        """Yield the ids of all items of a view, in its order, some thousands at a time."""
        source, key, tables = self._get_source(view)
        with self.table.cursor(**tables) as cursor:
            order = self._build_order(view)
            cursor.execute(f"SELECT id FROM (SELECT n, {key} AS k FROM {source}) JOIN items USING (n) ORDER BY {order}")
            while rows := cursor.fetchmany(10_000):
                yield [row[0] for row in rows]

    def find_place(self, view: View, item: int) -> int:
        """Return the position of an item in a view; −1 if it is not in it."""
        source, key, tables = self._get_source(view)
        with self.table.cursor(**tables) as cursor:
            found = cursor.execute(f"SELECT {key} AS k FROM {source} WHERE n = {item:d}").fetchall()
            if not found:
                return -1
            value = found[0][0]
            before = f"k IS NOT NULL OR n < {item:d}"
            if value is not None:
                before = f"k {'<' if self._is_ascending(view) else '>'} $k OR (k = $k AND n < {item:d})"
            count = f"SELECT count(*) FROM (SELECT n, {key} AS k FROM {source}) WHERE {before}"
            return int(cursor.execute(count, {} if value is None else {"k": value}).fetchall()[0][0])

    def _read_ordered(self, view: View, first: int, number: int) -> list[Any]:
        """Return rows of item, sort value, and whether each system passes if there are filters on captions."""
        source, key, tables = self._get_source(view)
        chosen = tables.get("chosen")
        if chosen is not None and self.table.whole is not None:  # the table in memory is already sorted
            return list(zip(*(column.to_pylist() for column in chosen.slice(first, number).columns), strict=True))
        columns = ["n", f"{key} AS k", *(chosen.column_names[2:] if chosen is not None else ())]
        total = self.get_total(view)
        number = max(0, min(number, total - first))
        reverse = number > 0 and first > total // 2  # the end of an order is the beginning of the reverse
        offset = total - first - number if reverse else first
        order = self._build_order(view, reverse)
        sql = f"SELECT {', '.join(columns)} FROM {source} ORDER BY {order} LIMIT {number:d} OFFSET {offset:d}"
        with self.table.cursor(**tables) as cursor:
            rows: list[Any] = cursor.execute(sql).fetchall()
        return rows[::-1] if reverse else rows

    def _get_source(self, view: View) -> tuple[str, str, dict[str, pa.Table]]:
        """Return the FROM clause, the sort value as SQL, and the tables that both need."""
        chosen = self._get_chosen(view)
        if chosen is not None:
            return "chosen", "k", {"chosen": chosen}
        key, tables = self._build_sort_key(view)
        return ("ranks" if tables else self.table.get_source(key)), key, tables

    def _build_order(self, view: View, reverse: bool = False) -> str:
        """Return the ORDER BY clause for the sort value ``k``: nulls last, ties in the order of the items."""
        direction = "ASC" if self._is_ascending(view) != reverse else "DESC"
        return f"k {direction} NULLS {'FIRST' if reverse else 'LAST'}, n {'DESC' if reverse else 'ASC'}"

    def _is_ascending(self, view: View) -> bool:
        higher = self.table.scores[view.score].higher
        return view.order in ("shortest", "given") or view.order == ("worst" if higher else "best")

    def _get_chosen(self, view: View) -> pa.Table | None:
        """Return the items that pass the filters of a view, with the sort value and which systems pass.

        The columns are ``n``, ``k``, and ``p0``, ``p1``, … if there are filters on captions of several systems. The
        table is sorted if all items are in memory. Otherwise it is not sorted, and None without a filter: DuckDB finds
        the first items of an order without sorting all.
        """
        if not view.filtered and self.table.whole is None:
            return None
        # Range and lasso filter by these scores, so they are part of the cache key.
        scores = (view.system, view.score, view.x, view.y) if view.filtered else ()
        return self._get_cached(("chosen", *view.filters, *scores, *_get_sort_fields(view)), lambda: self._choose(view))

    def _choose(self, view: View) -> pa.Table:
        statement = self.build_statement(view)
        key, ranks = self._build_sort_key(view, statement.captions)
        tables = {**statement.tables, **ranks}
        columns = ["items.n", f"{key} AS k"]
        if statement.captions and len(self.table.systems) > 1:
            passing = {system: f"coalesce({sql}, false)" for system, sql in statement.captions.items()}
            if len(passing) == 1:
                passing = {}
            columns += [f"{passing.get(system, 'true')} AS p{system}" for system in range(len(self.table.systems))]
        source = self.table.get_source(key, statement.where) + "".join(f" JOIN {name} USING (n)" for name in ranks)
        if "refs." in statement.where:
            return self._choose_by_references(source, columns, statement, tables)
        where = f" WHERE {statement.where}" if statement.where else ""
        if ranks and not where:
            source, columns = "ranks", ["n", "k"]
        order = "" if self.table.whole is None else f" ORDER BY {self._build_order(view)}"
        with self.table.cursor(**tables) as cursor:
            sql = f"SELECT {', '.join(columns)} FROM {source}{where}{order}"
            chosen: pa.Table = cursor.sql(sql, params=statement.parameters).to_arrow_table()
        return chosen

    def _choose_by_references(
        self, source: str, columns: Sequence[str], statement: ViewStatement, tables: Mapping[str, pa.Table]
    ) -> pa.Table:
        """Select items by a filter on references, read in chunks; those of an item are in the first run that has it."""
        import pyarrow as pa

        owners = [system for system, run in enumerate(self.table.runs) if run.has_references]
        select = f"SELECT {', '.join(columns)} FROM {source}"

        def choose(chunk: tuple[int, int]) -> pa.Table:
            system, first = chunk
            rows = self.table.runs[system].rows
            end = min(first + CHUNK, len(rows))
            texts = rows.read_columns(first, end, ["references"])["references"]
            refs = pa.table({"r": pa.array(np.arange(first, end, dtype=np.int32)), "q": texts})
            earlier = [f"items.r{owner} IS NULL" for owner in owners if owner < system]
            where = " AND ".join([*earlier, f"({statement.where})"])
            with self.table.cursor(**tables, refs=refs) as cursor:
                sql = f"{select} JOIN refs ON items.r{system} = refs.r WHERE {where}"
                part: pa.Table = cursor.sql(sql, params=statement.parameters).to_arrow_table()
            return part

        chunks = [(system, first) for system in owners for first in range(0, len(self.table.runs[system].rows), CHUNK)]
        with ThreadPoolExecutor(READERS) as pool:
            parts = list(pool.map(choose, chunks))
        missing = " AND ".join([*(f"items.r{owner} IS NULL" for owner in owners), f"({statement.where})"])
        nothing = "(SELECT CAST([] AS VARCHAR[]) AS q) AS refs"
        with self.table.cursor(**tables) as cursor:
            sql = f"{select} CROSS JOIN {nothing} WHERE {missing}"
            parts.append(cursor.sql(sql, params=statement.parameters).to_arrow_table())
        return pa.concat_tables(parts)

    # Filters

    def build_statement(self, view: View) -> ViewStatement:
        """Build the SQL conditions of a view."""
        parameters: dict[str, Any] = dict(self.table.names)
        captions: dict[int, str] = {}
        for system in self.list_systems(view):
            if conditions := list(self._build_conditions(view, system)):
                captions[system] = " AND ".join(f"({one.sql})" for one in conditions)
                for one in conditions:
                    parameters |= one.parameters
        terms = [self._build_search_condition(term, place) for place, term in enumerate(view.query.split()[:TERMS])]
        for term in terms:
            parameters |= term.parameters
        used = "".join([*captions.values(), *(term.sql for term in terms)])
        return ViewStatement(
            captions,
            [term.sql for term in terms],
            {name: value for name, value in parameters.items() if name not in self.table.names or f"${name}" in used},
            {f"lasso{system}": self._get_inside_lasso(view, system) for system in captions} if view.lasso else {},
        )

    def _build_conditions(self, view: View, system: int) -> Iterator[Condition]:
        """Yield the conditions that one caption must all meet."""
        table, prefix = self.table, f"s{system}_"
        if view.where.strip():
            filter = parse_filter(view.where, table.build_schema(system))
            thresholds = self._find_thresholds(filter)
            condition = filter.condition(thresholds, f"{prefix}f")
            yield Condition(f"items.r{system} IS NOT NULL AND ({condition.sql})", condition.parameters)
        value = table.get_value_sql(system, view.score)
        for name, sign, bound in (("low", ">=", view.low), ("high", "<=", view.high)):
            if bound is not None:
                yield Condition(f"{value} {sign} ${prefix}{name}", {f"{prefix}{name}": bound})
        if view.unscored:
            metrics = [place for place, score in enumerate(table.scores) if score.kind == "metric"]
            yield Condition(" OR ".join(f"{table.get_value_sql(system, metric)} IS NULL" for metric in metrics), {})
        if view.lasso:
            yield Condition(f"items.n IN (SELECT n FROM lasso{system})", {})

    def _get_inside_lasso(self, view: View, system: int) -> pa.Table:
        """Return the items whose point is inside the lasso, from the cache if it is there."""
        key = ("lasso", view.lasso, view.x, view.y, system)
        return self._get_cached(key, lambda: self._find_inside_lasso(view, system))

    def _find_inside_lasso(self, view: View, system: int) -> pa.Table:
        """Find the items inside the lasso: DuckDB selects those in its bounding box, NumPy those in the polygon."""
        import pyarrow as pa

        values = [self.table.get_value_sql(system, score) for score in (view.x, view.y)]
        (left, right), (low, high) = ((min(ends), max(ends)) for ends in zip(*view.lasso, strict=True))
        around = f"{values[0]} BETWEEN $left AND $right AND {values[1]} BETWEEN $low AND $high"
        with self.table.cursor() as cursor:
            sql = f"SELECT n, {values[0]} AS x, {values[1]} AS y FROM {self.table.get_source(*values)} WHERE {around}"
            ends = {"left": left, "right": right, "low": low, "high": high}
            dots = cursor.execute(sql, ends).fetchnumpy()
        x, y = (np.ma.getdata(dots[axis]) for axis in "xy")
        return pa.table({"n": pa.array(dots["n"][find_inside(x, y, view.lasso)], pa.int32())})

    def _find_thresholds(self, filter: Filter) -> dict[str, float]:
        if not filter.quantiles:
            return {}
        source = self.table.get_source(*(column.column.sql for column in filter.columns))
        with self.table.cursor() as cursor:
            return find_thresholds(cursor, source, filter.quantiles)

    def _build_search_condition(self, term: str, place: int) -> Condition:
        """Return the condition that an item has a word in its id, a caption or a reference."""
        table = self.table
        captions = [table.get_captions(system) for system in range(len(table.systems))]
        columns = [FilterColumn("text", "items.id"), *captions, table.all_references]
        tests = tuple(TextTest(0, 0, "has", ColumnNode(0, 0, "", column), term) for column in columns)
        filter = Filter("", (Clause("", Junction(0, 0, "or", tests)),))
        return filter.condition(prefix=f"q{place}_")

    # Sort values

    def _build_sort_key(self, view: View, captions: Mapping[int, str] = {}) -> tuple[str, dict[str, pa.Table]]:
        """Return the sort value of a view as SQL, and the tables that it needs.

        ``captions`` are the conditions on the captions of each system; captions that do not pass are not averaged.
        Orders that compare systems use all of them.
        """
        table, systems = self.table, self.list_systems(view)
        every = range(len(table.systems))

        def collect_passing(value: Callable[[int], str]) -> list[str]:
            if len(captions) < 2:
                return list(map(value, systems))
            return [f"CASE WHEN {captions[system]} THEN {value(system)} END" for system in systems]

        if view.order == "disagree" and len(captions) > 1:
            ranks = {f"ranks{system}": self._get_rank_gaps(view, [system]) for system in systems}
            return build_sql_mean(collect_passing(lambda system: f"ranks{system}.k")), ranks
        if view.order == "disagree":
            return "ranks.k", {"ranks": self._get_rank_gaps(view, systems)}
        if view.order in ("worst", "best"):
            return build_sql_mean(collect_passing(lambda system: table.get_value_sql(system, view.score))), {}
        if view.order == "gap":
            return build_sql_spread([table.get_value_sql(system, view.score) for system in every]), {}
        if view.order == "between":
            sign = "" if table.scores[view.score].higher else "-"
            better, worse = (table.get_value_sql(system, view.score) for system in (view.better, view.worse))
            return f"{sign}({better} - {worse})", {}
        if view.order == "raters":
            return f"greatest({', '.join(collect_passing(table.get_gap_sql))})", {}
        if view.order in ("shortest", "longest"):
            return build_sql_mean(collect_passing(table.get_words_sql)), {}
        return "0.0", {}

    def _get_rank_gaps(self, view: View, systems: Sequence[int]) -> pa.Table:
        """Return how far apart each item's ranks by two scores are, as a share of all; the mean over systems."""
        compute = self._rank_by_duckdb if self.table.whole is None else self._rank_in_memory
        return self._get_cached(("ranks", view.x, view.y, *systems), lambda: compute(view.x, view.y, systems))

    def _rank_by_duckdb(self, x: int, y: int, systems: Sequence[int]) -> pa.Table:
        """Compute rank gaps in DuckDB, which spills to disk if they do not fit in memory."""
        gaps = []
        for system in systems:
            values = [self.table.get_value_sql(system, score) for score in (x, y)]
            both, source = " AND ".join(f"{value} IS NOT NULL" for value in values), self.table.get_source(*values)
            signs = ["ASC" if self.table.scores[score].higher else "DESC" for score in (x, y)]
            # Mid-ranks: rank() is the first and cume_dist() * number the last rank of a group of ties.
            sums = [f"rank() OVER {name} + round(cume_dist() OVER {name} * number)" for name in "xy"]
            gap = f"CASE WHEN ranked THEN abs({sums[0]} - ({sums[1]})) / 2 / nullif(number - 1, 0) END"
            number = f"(SELECT count(*) FROM {source} WHERE {both})"
            gaps.append(
                f"SELECT n, {gap} AS k FROM (SELECT n, {values[0]} AS x, {values[1]} AS y, {both} AS ranked, "
                f"{number} AS number FROM {source}) "
                f"WINDOW x AS (PARTITION BY ranked ORDER BY x {signs[0]}), "
                f"y AS (PARTITION BY ranked ORDER BY y {signs[1]})"
            )
        sql = gaps[0] if len(gaps) == 1 else f"SELECT n, avg(k) AS k FROM ({' UNION ALL '.join(gaps)}) GROUP BY n"
        with self.table.cursor() as cursor:
            table: pa.Table = cursor.sql(sql).to_arrow_table()
        return table

    def _rank_in_memory(self, x: int, y: int, systems: Sequence[int]) -> pa.Table:
        """Compute rank gaps with NumPy; the ranks of a column are cached for further comparisons."""
        import pyarrow as pa

        total, number = np.zeros(len(self.table)), np.zeros(len(self.table), dtype=np.int32)
        for system in systems:
            columns = {score: self.table.read_values(system, score) for score in (x, y)}
            both = ~np.any([np.isnan(column) for column in columns.values()], axis=0)
            first, second = (self._rank_values(system, score, columns[score], both) for score in (x, y))
            if len(first) > 1:
                total[both] += np.abs(first - second) / (len(first) - 1)
                number += both
        values = pa.array(total / np.maximum(number, 1), mask=number == 0)
        return pa.table({"n": pa.array(np.arange(len(total), dtype=np.int32)), "k": values})

    def _rank_values(self, system: int, score: int, values: Floats, chosen: Bools) -> Floats:
        """Return the ranks of some values, the best last and ties averaged. Ranks of all items are cached."""
        signed = values if self.table.scores[score].higher else -values
        if chosen.all():
            return self._get_cached(("rank", system, score), lambda: mid_ranks(signed))
        return mid_ranks(signed[chosen])

    # Correlations and percentiles

    def compute_rho(self, system: int, x: int, y: int, passing: Passing = EVERYTHING) -> float | None:
        """Return Spearman's rho between two scores of a system; over a sample if there are very many items."""
        x, y = sorted((x, y))
        step, items = self.table.step, passing.select_items(system)
        if items is not None:
            chosen = items[items % step == 0] // step
            return _compute_rho(*(self.table.read_values(system, one, step)[chosen] for one in (x, y)))
        if (system, x, y) not in self._facts:
            self._facts[system, x, y] = _compute_rho(*(self.table.read_values(system, one, step) for one in (x, y)))
        rho: float | None = self._facts[system, x, y]
        return rho

    def compute_agreement(self, passing: Passing = EVERYTHING) -> list[list[list[float | None]]]:
        """Return the matrix of Spearman's rho between all scores, for each system."""
        scores = range(len(self.table.scores))
        tables: list[list[list[float | None]]] = []
        for system in range(len(self.table.systems)):
            pairs = {(x, y): self.compute_rho(system, x, y, passing) for x in scores for y in scores if x < y}
            tables.append([[1.0 if x == y else pairs[min(x, y), max(x, y)] for y in scores] for x in scores])
        return tables

    def compute_share_below(self, system: int, score: int, value: float) -> float:
        """Return the percentage of items with a smaller value; in a sample if there are very many items."""
        if (system, score) not in self._facts:
            values = self.table.read_values(system, score, self.table.step)
            self._facts[system, score] = np.sort(values[~np.isnan(values)].round(DECIMALS))
        ordered = self._facts[system, score]
        return 100 * float(ordered.searchsorted(round(value, DECIMALS))) / max(1, len(ordered))

    def _get_cached(self, key: Any, make: Callable[[], T]) -> T:
        """Return the cached result of ``make``; concurrent callers with the same key wait for one computation."""
        with self._lock:
            making = self._making.setdefault(key, Lock())
        with making:
            with self._lock:
                known = key in self._kept
                value: Any = self._kept.pop(key, None)
            try:
                value = value if known else make()
            finally:
                with self._lock:
                    self._making.pop(key, None)
            with self._lock:
                self._kept[key] = value
                most = KEPT_ROWS
                while len(self._kept) > 1 and (len(self._kept) > KEPT or sum(map(len, self._kept.values())) > most):
                    self._kept.popitem(last=False)
        result: T = value
        return result


def _get_sort_fields(view: View) -> tuple[Any, ...]:
    """Return the fields of a view that its order depends on; a cache key."""
    pair = {"between": (view.better, view.worse), "disagree": (view.x, view.y)}
    return view.order, view.score, view.system, *pair.get(view.order, ())


def _count_present(columns: Sequence[str]) -> str:
    return " + ".join(f"CAST({column} IS NOT NULL AS INTEGER)" for column in columns)


def build_sql_mean(columns: Sequence[str]) -> str:
    """Return SQL of the mean of the columns that have a value.

    >>> build_sql_mean(["a"])
    'a'
    """
    if len(columns) == 1:
        return columns[0]
    total = " + ".join(f"coalesce({column}, 0)" for column in columns)
    return f"({total}) / nullif({_count_present(columns)}, 0)"


def build_sql_spread(columns: Sequence[str]) -> str:
    """Return SQL of the largest minus the smallest value of each item; null if fewer than two have one."""
    values = ", ".join(columns)
    return f"CASE WHEN {_count_present(columns)} > 1 THEN greatest({values}) - least({values}) END"


def _compute_rho(x: Floats, y: Floats) -> float | None:
    """Return Spearman's correlation for JSON: None if it is undefined."""
    rho = spearman(x, y)
    return None if math.isnan(rho) else rho


def find_inside(x: Floats, y: Floats, corners: Sequence[tuple[float, float]]) -> Bools:
    """Return a mask of the points inside a polygon: a ray from such a point crosses its edges an odd number of times.

    >>> find_inside(np.array([1.0, 3.0]), np.array([1.0, 1.0]), [(0, 0), (2, 0), (2, 2), (0, 2)]).tolist()
    [True, False]
    """
    order = np.argsort(y)
    x, y = x[order], y[order]
    odd = np.zeros(len(x), dtype=np.bool_)
    for (x1, y1), (x2, y2) in zip(corners, [*corners[1:], corners[0]], strict=True):
        if y1 != y2:  # points are sorted by y, so those at the height of an edge are a slice
            beside = slice(*np.searchsorted(y, sorted((y1, y2))))
            with np.errstate(over="ignore", invalid="ignore"):
                odd[beside] ^= x[beside] < (x2 - x1) * (y[beside] - y1) / (y2 - y1) + x1
    result = np.zeros(len(x), dtype=np.bool_)
    result[order] = odd
    return result
