"""Filters and formulas: an expression that was read, and what DuckDB or Python makes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from captious.runs.filters._parser import Parser
from captious.runs.filters._sql import Compiler
from captious.runs.filters.schema import FilterColumn, FilterError, FilterSchema, quoted
from captious.runs.filters.tree import (
    CONDITIONS,
    Arithmetic,
    ColumnNode,
    ConditionNode,
    Junction,
    NumberLiteral,
    NumberNode,
    Quantile,
    columns_of,
    walk,
)


class Condition(NamedTuple):
    """A piece of SQL that is true, false or null for each row, and its parameters by name."""

    sql: str
    parameters: dict[str, float | str]


@dataclass(frozen=True)
class Clause:
    """One of the conditions that all must hold."""

    text: str
    node: ConditionNode

    @property
    def columns(self) -> tuple[ColumnNode, ...]:
        """The columns that it reads, each once."""
        return columns_of([self.node])


@dataclass(frozen=True)
class Filter:
    """An expression that was read: clauses which all must hold."""

    text: str
    clauses: tuple[Clause, ...]

    @property
    def columns(self) -> tuple[ColumnNode, ...]:
        """The columns that it reads, each once, in the order of the text."""
        return columns_of([clause.node for clause in self.clauses])

    @property
    def quantiles(self) -> tuple[Quantile, ...]:
        """What must be known of all items before one can be judged, each once."""
        nodes = [node for clause in self.clauses for node in walk(clause.node) if isinstance(node, Quantile)]
        return tuple({node.text: node for node in nodes}.values())

    def condition(self, thresholds: Mapping[str, float] = {}, prefix: str = "f") -> Condition:
        """The whole filter. ``thresholds`` holds the values of its quantiles by their text."""
        compiler = Compiler(thresholds, prefix)
        return Condition(
            " AND ".join(f"({compiler.condition(clause.node)})" for clause in self.clauses), compiler.parameters
        )

    def outcomes(self, thresholds: Mapping[str, float] = {}, prefix: str = "f") -> Condition:
        """The columns ``c0``, ``c1``, … for a SELECT: each clause by itself; `outcome_code` puts them together."""
        compiler = Compiler(thresholds, prefix)
        columns = [f"({compiler.condition(one.node)}) AS c{index}" for index, one in enumerate(self.clauses)]
        return Condition(", ".join(columns), compiler.parameters)

    @property
    def outcome_code(self) -> str:
        """SQL over the columns of `outcomes`: a character a clause, ``1`` holds, ``0`` fails, ``?`` is unknown."""
        codes = [
            f"CASE WHEN c{index} THEN '1' WHEN NOT c{index} THEN '0' ELSE '?' END"
            for index, _ in enumerate(self.clauses)
        ]
        return " || ".join(codes)


@dataclass(frozen=True)
class Formula:
    """Arithmetic over named numbers, computed in Python."""

    text: str
    node: NumberNode

    @property
    def names(self) -> tuple[str, ...]:
        """What it needs, in the order of the text."""
        return tuple(column.name for column in columns_of([self.node]))

    def of(self, values: Mapping[str, float | None]) -> float | None:
        """The formula's result; None where a number that it needs is None, or where it is not finite.

        >>> formula = parse_formula("(P + R) / 2 + fluency", ("P", "R", "fluency"))
        >>> formula.of({"P": 4, "R": 3, "fluency": -0.5}), formula.of({"P": 4, "R": None, "fluency": 1})
        (3.0, None)
        """
        try:
            result = _computed(self.node, values)
        except (ZeroDivisionError, OverflowError):
            return None
        return result if result is not None and math.isfinite(result) else None


def _computed(node: NumberNode, values: Mapping[str, float | None]) -> float | None:
    if isinstance(node, NumberLiteral):
        return float(node.value)
    if isinstance(node, ColumnNode):
        value = values.get(node.name)
        return None if value is None else float(value)
    assert isinstance(node, Arithmetic)
    result = 0.0
    for index, (sign, operand) in enumerate(zip(node.signs, node.operands, strict=True)):
        value = _computed(operand, values)
        if value is None:
            return None
        if sign == "*":
            result *= value
        elif sign == "/":
            result /= value
        else:
            result = (-value if sign == "-" else value) if index == 0 else result + (-value if sign == "-" else value)
    return result


def parse_filter(text: str, schema: FilterSchema) -> Filter:
    """Read an expression over the columns of a schema; a mistake is a FilterError that names the character.

    >>> columns = {name: FilterColumn("number", quoted(name)) for name in ("cider(idf=coco)", "words")}
    >>> filter = parse_filter("0.2 < CIDEr <= 1.5 and words > 4", FilterSchema(columns, {"cider(idf=coco)": "CIDEr"}))
    >>> [clause.text for clause in filter.clauses], [column.name for column in filter.columns]
    (['0.2 < CIDEr <= 1.5', 'words > 4'], ['cider(idf=coco)', 'words'])
    >>> filter.condition()
    Condition(sql='(($f0 < "cider(idf=coco)") AND ("cider(idf=coco)" <= $f1)) AND ("words" > $f2)', \
parameters={'f0': 0.2, 'f1': 1.5, 'f2': 4})
    """
    parser = Parser(text, schema)
    node = parser.whole(parser.either)
    if not isinstance(node, CONDITIONS):
        raise parser.no_condition(node)
    return Filter(text.strip(), tuple(Clause(text[part.start : part.end], part) for part in _conjuncts(node)))


def parse_formula(text: str, names: Sequence[str]) -> Formula:
    """Read arithmetic over named numbers: ``+ - * /`` and parentheses.

    >>> parse_formula("P + Q", ("P", "R"))
    Traceback (most recent call last):
    captious.runs.filters.schema.FilterError: formula, character 5 at 'Q': no name 'Q'; there are P, R
    """
    columns = {name: FilterColumn("number", quoted(name)) for name in names}
    try:
        parser = Parser(text, FilterSchema(columns, what="name"), functions=False)
        node = parser.number(parser.whole(parser.sum))
    except FilterError as error:
        raise FilterError(error.message, text, error.at, "formula") from None
    if not columns_of([node]):
        raise FilterError(f"it names nothing, expected some of {', '.join(names)}", text, node.start, "formula")
    return Formula(text.strip(), node)


def _conjuncts(node: ConditionNode) -> list[ConditionNode]:
    """The parts that ``and`` joins, also those in parentheses."""
    if isinstance(node, Junction) and node.word == "and":
        return [part for inner in node.parts for part in _conjuncts(inner)]
    return [node]
