"""Table cells formatted for readers: rounded numbers, separate interval columns, and the best value of each column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from captious.render.document import NAN, Cell, Column, Figure, Phrase, Table, Value

DASH = "—"
# Smallest number that is printed with an exponent.
LARGE = 1e6


def format_p_value(p: float | None) -> str:
    """Format a p-value for readers.

    >>> format_p_value(0.00009), format_p_value(0.0312), format_p_value(float("nan"))
    ('< 0.001', '0.031', '—')
    """
    if p is None or math.isnan(p):
        return DASH
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def format_number(value: float | None, column: Column) -> str:
    """Format a number with the decimals, scale, sign and unit of its column.

    >>> format_number(0.43891, Column("tau", decimals=2, scale=100)), format_number(1234, Column("rows"))
    ('43.89', '1,234')
    >>> format_number(-0.00001, Column("adds", signed=True)), format_number(0.25, Column("adds", signed=True))
    ('0.0000', '+0.2500')
    """
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if value is None or math.isnan(value):
        return DASH
    if column.kind == "p":
        return format_p_value(value)
    sign = "+" if column.signed else ""
    digits = column.decimals
    scaled = value if column.scale == 1 else value * column.scale
    if math.isinf(scaled):
        text = "−∞" if scaled < 0 else "∞"
    elif isinstance(scaled, (int, np.integer)):
        text = f"{int(scaled):{sign},}"
    elif digits is None:
        text = f"{scaled:{sign}g}"
    elif abs(scaled) >= LARGE:
        text = f"{scaled:{sign}.1e}"
    else:
        text = f"{scaled:{sign}.{digits}f}"
        # A number that rounds to zero has no sign: "0.0000", not "-0.0000".
        text = text.lstrip("+-") if not text.strip("+-0.") else text
    return text + column.unit


@dataclass(frozen=True)
class PrintedColumn:
    """A column as it is printed: a column of values, or the intervals that belong to the column before it."""

    heading: str
    index: int
    """The index of the table's column that it shows."""
    column: Column
    cells: Sequence[str | Phrase]
    marks: Sequence[str]
    best: frozenset[int] = frozenset()
    """Indices of the rows with the best value."""
    interval: bool = False

    @property
    def numeric(self) -> bool:
        """True if the column is aligned to the right and never wrapped."""
        return self.column.kind != "text"


def format_columns(table: Table, between: str = "{} – {}") -> list[PrintedColumn]:
    """Return the printed columns of a table; ``between`` is the format of an interval."""
    shown: list[PrintedColumn] = []
    for index, column in enumerate(table.heads):
        values = [row[index] for row in table.rows]
        texts = [_format_cell(value, column) for value in values]
        marks = [value.mark if isinstance(value, Cell) else "" for value in values]
        shown.append(PrintedColumn(column.name, index, column, texts, marks, _find_best(values, column)))
        if column.spread == "interval" and any(map(has_interval, values)):
            ends = [_format_interval(value, column, between) for value in values]
            shown.append(PrintedColumn(column.heading, index, column, ends, [""] * len(ends), interval=True))
    return shown


def format_figure(figure: Figure) -> str:
    """Format a number of the plain answer as its table prints it, with its interval in brackets.

    >>> tau = Column("tau", decimals=1, scale=100, level=0.95)
    >>> format_figure(Figure(Cell(0.4389, 0.41, 0.4712), tau)), format_figure(Figure(0.4389, tau))
    ('43.9 (95% interval 41.0 – 47.1)', '43.9')
    """
    value = figure.value
    cell = value if isinstance(value, (Cell, int, float)) else Cell.of(value)
    column = figure.column if figure.interval else replace(figure.column, spread="interval")
    text = str(_format_cell(cell, column))
    if not figure.interval or column.spread == "half" or not has_interval(cell):
        return text
    return f"{text} ({column.heading} {_format_interval(cell, column, '{} – {}')})"


def has_interval(value: Value) -> bool:
    """Return True if a cell has an interval to show."""
    return isinstance(value, Cell) and not math.isnan(value.low)


def get_number(value: Value) -> float:
    """Return the number in a cell, NaN if it has none."""
    if isinstance(value, Cell):
        value = value.value
    return NAN if value is None or isinstance(value, (str, Phrase, bool)) else float(value)


def _format_cell(value: Value, column: Column) -> str | Phrase:
    if isinstance(value, (str, Phrase)):
        return value
    if not isinstance(value, Cell):
        return "" if value is None and column.kind == "text" else format_number(value, column)
    column = _apply_overrides(column, value)
    text = format_number(float(value.value), column)
    spread = value.sd
    if column.spread == "half" and has_interval(value):
        spread = (value.high - value.low) / 2
    if math.isnan(spread) or math.isnan(value.value):
        return text
    return f"{text} ± {format_number(spread, replace(column, signed=False))}"


def _format_interval(value: Value, column: Column, between: str) -> str:
    if not isinstance(value, Cell) or not has_interval(value):
        return DASH
    column = _apply_overrides(column, value)
    return between.format(*(format_number(float(end), column) for end in (value.low, value.high)))


def _apply_overrides(column: Column, cell: Cell) -> Column:
    """Return the column with the decimals and scale of the cell, if the cell sets them."""
    decimals = column.decimals if cell.decimals is None else cell.decimals
    return replace(column, decimals=decimals, scale=column.scale if cell.scale is None else cell.scale)


def _find_best(values: list[Value], column: Column) -> frozenset[int]:
    """Return the rows with the best value; none if there are fewer than two numbers or no better direction."""
    numbers = [get_number(value) for value in values]
    finite = [one for one in numbers if not math.isnan(one)]
    if column.higher_is_better is None or len(finite) < 2:
        return frozenset()
    best = max(finite) if column.higher_is_better else min(finite)
    return frozenset(index for index, one in enumerate(numbers) if one == best)
