"""Parsed filters and formulas, with their translation to SQL or their evaluation in Python."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from captious.runs.filters._parser import Parser
from captious.runs.filters._sql import Compiler
from captious.runs.filters.schema import FilterColumn, FilterError, FilterSchema, quote
from captious.runs.filters.tree import (
    CONDITIONS,
    Arithmetic,
    ColumnNode,
    ConditionNode,
    Junction,
    NumberLiteral,
    NumberNode,
    Quantile,
    find_columns,
    walk,
)


class Condition(NamedTuple):
    """A piece of SQL that is true, false or null for each row, and its parameters by name."""

    sql: str
    parameters: dict[str, float | str]


@dataclass(frozen=True)
class Clause:
    """One of the conditions that an item must fulfil."""

    text: str
    node: ConditionNode

    @property
    def columns(self) -> tuple[ColumnNode, ...]:
        """The columns that it reads, each once."""
        return find_columns([self.node])


@dataclass(frozen=True)
class Filter:
    """A parsed expression: clauses that must all hold."""

    text: str
    clauses: tuple[Clause, ...]

    @property
    def columns(self) -> tuple[ColumnNode, ...]:
        """The columns that it reads, each once, in the order of the text."""
        return find_columns([clause.node for clause in self.clauses])

    @property
    def quantiles(self) -> tuple[Quantile, ...]:
        """The quantiles in the filter, each once; they must be computed before items are filtered."""
        nodes = [node for clause in self.clauses for node in walk(clause.node) if isinstance(node, Quantile)]
        return tuple({node.text: node for node in nodes}.values())

    def condition(self, thresholds: Mapping[str, float] = {}, prefix: str = "f") -> Condition:
        """Return the SQL of the whole filter. ``thresholds`` has the values of its quantiles by their text."""
        compiler = Compiler(thresholds, prefix)
        return Condition(
            " AND ".join(f"({compiler.compile_condition(clause.node)})" for clause in self.clauses), compiler.parameters
        )

    def outcomes(self, thresholds: Mapping[str, float] = {}, prefix: str = "f") -> Condition:
        """Return SELECT columns ``c0``, ``c1``, … with the outcome of each clause; `outcome_code` joins them."""
        compiler = Compiler(thresholds, prefix)
        columns = [f"({compiler.compile_condition(one.node)}) AS c{index}" for index, one in enumerate(self.clauses)]
        return Condition(", ".join(columns), compiler.parameters)

    @property
    def outcome_code(self) -> str:
        """SQL over the columns of `outcomes`: one character per clause, ``1`` passes, ``0`` fails, ``?`` is unknown."""
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
        """The names that it reads, in the order of the text."""
        return tuple(column.name for column in find_columns([self.node]))

    def of(self, values: Mapping[str, float | None]) -> float | None:
        """Return the result; None if a number that it needs is None, or if the result is not finite.

        >>> formula = parse_formula("(P + R) / 2 + fluency", ("P", "R", "fluency"))
        >>> formula.of({"P": 4, "R": 3, "fluency": -0.5}), formula.of({"P": 4, "R": None, "fluency": 1})
        (3.0, None)
        """
        try:
            result = _compute(self.node, values)
        except (ZeroDivisionError, OverflowError):
            return None
        return result if result is not None and math.isfinite(result) else None


def _compute(node: NumberNode, values: Mapping[str, float | None]) -> float | None:
    if isinstance(node, NumberLiteral):
        return float(node.value)
    if isinstance(node, ColumnNode):
        value = values.get(node.name)
        return None if value is None else float(value)
    assert isinstance(node, Arithmetic)
    result = 0.0
    for index, (sign, operand) in enumerate(zip(node.signs, node.operands, strict=True)):
        value = _compute(operand, values)
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
    """Parse an expression over the columns of a schema; a FilterError names the character at fault.

    >>> columns = {name: FilterColumn("number", quote(name)) for name in ("cider(idf=coco)", "words")}
    >>> filter = parse_filter("0.2 < CIDEr <= 1.5 and words > 4", FilterSchema(columns, {"cider(idf=coco)": "CIDEr"}))
    >>> [clause.text for clause in filter.clauses], [column.name for column in filter.columns]
    (['0.2 < CIDEr <= 1.5', 'words > 4'], ['cider(idf=coco)', 'words'])
    >>> filter.condition()
    Condition(sql='(($f0 < "cider(idf=coco)") AND ("cider(idf=coco)" <= $f1)) AND ("words" > $f2)', \
parameters={'f0': 0.2, 'f1': 1.5, 'f2': 4})
    """
    parser = Parser(text, schema)
    node = parser.parse_all(parser.parse_condition)
    if not isinstance(node, CONDITIONS):
        raise parser.make_condition_error(node)
    return Filter(text.strip(), tuple(Clause(text[part.start : part.end], part) for part in _split_conjunction(node)))


def parse_formula(text: str, names: Sequence[str]) -> Formula:
    """Parse arithmetic over named numbers: ``+ - * /`` and parentheses.

    >>> parse_formula("P + Q", ("P", "R"))
    Traceback (most recent call last):
    captious.runs.filters.schema.FilterError: formula, character 5 at 'Q': no name 'Q'; there are P, R
    """
    columns = {name: FilterColumn("number", quote(name)) for name in names}
    try:
        parser = Parser(text, FilterSchema(columns, what="name"), functions=False)
        node = parser.check_number(parser.parse_all(parser.parse_sum))
    except FilterError as error:
        raise FilterError(error.message, text, error.at, "formula") from None
    if not find_columns([node]):
        raise FilterError(f"it names nothing, expected some of {', '.join(names)}", text, node.start, "formula")
    return Formula(text.strip(), node)


def _split_conjunction(node: ConditionNode) -> list[ConditionNode]:
    """Return the parts that ``and`` joins, including those in parentheses."""
    if isinstance(node, Junction) and node.word == "and":
        return [part for inner in node.parts for part in _split_conjunction(inner)]
    return [node]
