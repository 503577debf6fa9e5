"""Data of the charts for every system: histograms, scatter plots and scores by caption length."""

from __future__ import annotations

from typing import Any

import numpy as np

from captious.studio.explore._views import EVERYTHING, Explorer, Passing
from captious.studio.explore.explorer_table import ItemTable

# Largest number of dots of one system; histograms and correlations use all items.
DOTS = 8000
# Largest number of bins of a histogram.
BINS = 200
# Significant digits of the coordinates of dots, to keep the JSON small.
DIGITS = 5


def find_bounds(table: ItemTable, score: int) -> tuple[float, float] | None:
    """Return the smallest and the largest value of a score over all systems; None without values."""
    values = [table.get_value_sql(system, score) for system in range(len(table.systems))]
    ends = (
        f"least({', '.join(f'min({one})' for one in values)}), greatest({', '.join(f'max({one})' for one in values)})"
    )
    with table.cursor() as cursor:
        low, high = cursor.execute(f"SELECT {ends} FROM {table.get_source(*values)}").fetchall()[0]
    return None if low is None else (float(low), float(high))


def count_bins(
    table: ItemTable, score: int, low: float, high: float, bins: int, passing: Passing = EVERYTHING
) -> list[dict[str, Any]]:
    """Count the items of each system in each of the bins, and compute the mean of the system."""
    result = []
    parameters = {"low": low, "width": (high - low) / bins, "last": bins - 1}
    for system in range(len(table.systems)):
        value = table.get_value_sql(system, score)
        place = f"CAST(greatest(0, least($last, floor(({value} - $low) / $width + 1e-9))) AS INTEGER)"
        where = f"{value} IS NOT NULL AND {passing.build_condition(system)}"
        sql = f"SELECT {place} AS bin, count(*), sum({value}) FROM {table.get_source(value)} WHERE {where}"
        with table.cursor(**passing.tables) as cursor:
            rows = cursor.execute(f"{sql} GROUP BY bin", parameters).fetchall()
        counts, number = [0] * bins, sum(row[1] for row in rows)
        for place, count, _ in rows:
            counts[place] = count
        result.append({"counts": counts, "mean": sum(row[2] for row in rows) / number if number else None})
    return result


def build_scatter(explorer: Explorer, x: int, y: int, passing: Passing = EVERYTHING) -> list[dict[str, Any]]:
    """Return the points of each system by two scores, at most `DOTS`, and Spearman's rho over all items."""
    table = explorer.table
    return [
        {
            "rho": explorer.compute_rho(system, x, y, passing),
            "dots": _select_dots(
                table, table.get_value_sql(system, x), table.get_value_sql(system, y), passing, system
            ),
        }
        for system in range(len(table.systems))
    ]


def _select_dots(
    table: ItemTable, x: str, y: str, passing: Passing, system: int, condition: str = "true"
) -> list[list[Any]]:
    """Return id and two values of the items that have both; of too many items, `DOTS` evenly spaced ones."""
    import pyarrow as pa

    source, present = table.get_source(x, y), f"{x} IS NOT NULL AND {y} IS NOT NULL"
    where = f"{present} AND {condition} AND {passing.build_condition(system)}"
    with table.cursor(**passing.tables) as cursor:
        items = np.sort(cursor.execute(f"SELECT n FROM {source} WHERE {where}").fetchnumpy()["n"])
    if len(items) > DOTS:
        items = items[np.linspace(0, len(items) - 1, DOTS).astype(np.int64)]
    with table.cursor(shown=pa.table({"n": pa.array(items, pa.int32())})) as cursor:
        rows = cursor.execute(f"SELECT id, {x}, {y} FROM {source} JOIN shown USING (n) ORDER BY n").fetchall()
    return [[id, _round_digits(first), _round_digits(second)] for id, first, second in rows]


def _round_digits(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def group_by_length(table: ItemTable, score: int, passing: Passing = EVERYTHING) -> dict[str, Any]:
    """Group a score by the number of words: the mean and quartiles of each length, and dots."""
    every = " UNION ALL ".join(
        f"SELECT {table.get_words_sql(system)} AS w FROM items" for system in range(len(table.systems))
    )
    with table.cursor() as cursor:
        ends = f"SELECT min(w), max(w), quantile_cont(w, 0.995) FROM ({every})"
        least, most, usual = cursor.execute(ends).fetchall()[0]
    low, high = 0.0, 1.0
    if most is not None:
        low = max(0.0, np.floor(least) - 1)
        high = np.ceil(usual if most > 1.5 * usual else most) + 1
    size = max(1, int(np.ceil((high - low) / 18)))
    systems = [_summarize_lengths(table, system, score, high, size, passing) for system in range(len(table.systems))]
    return {"domain": [low, high], "size": size, "systems": systems}


def _summarize_lengths(
    table: ItemTable, system: int, score: int, high: float, size: int, passing: Passing
) -> dict[str, Any]:
    words, value = table.get_words_sql(system), table.get_value_sql(system, score)
    present = f"{words} IS NOT NULL AND {value} IS NOT NULL AND {passing.build_condition(system)}"
    steps = (
        f"SELECT CAST(floor({words} / {size:d}) AS INTEGER) AS bin, count(*), avg({value}), "
        f"quantile_cont({value}, [0.25, 0.75]) FROM {table.get_source(value)} "
        f"WHERE {present} AND {words} <= {high - 1:.0f} GROUP BY bin ORDER BY bin"
    )
    with table.cursor(**passing.tables) as cursor:
        beyond = f"SELECT count(*) FROM {table.get_source(value)} WHERE {present} AND {words} > {high - 1:.0f}"
        number = cursor.execute(beyond).fetchall()[0][0]
        rows = cursor.execute(steps).fetchall()
    return {
        "beyond": number,
        "steps": [
            {"bin": place, "number": count, "center": mean, "low": quarters[0], "high": quarters[1]}
            for place, count, mean, quarters in rows
        ],
        "dots": _select_dots(table, words, value, passing, system, f"{words} <= {high - 1:.0f}"),
    }
