"""A compiler from syntax trees to SQL with bound parameters: no text of a user becomes SQL."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from captious.runs.filters.tree import (
    Arithmetic,
    Chain,
    ColumnNode,
    Compare,
    ConditionNode,
    IsTrue,
    Junction,
    Member,
    Missing,
    Negation,
    NumberLiteral,
    NumberNode,
    Operand,
    Quantile,
    TextLiteral,
    TextTest,
    get_kind,
)


@dataclass
class Compiler:
    """Compiles nodes to SQL and collects their parameters. Every value of the expression is a parameter."""

    thresholds: Mapping[str, float]
    prefix: str = "f"
    parameters: dict[str, Any] = field(default_factory=dict)

    def bind(self, value: float | str | None) -> str:
        """Add a parameter with this value; return its SQL."""
        name = f"{self.prefix}{len(self.parameters)}"
        self.parameters[name] = value
        return f"${name}"

    def compile_condition(self, node: ConditionNode) -> str:
        """Return SQL that is true, false or null."""
        if isinstance(node, Junction):
            return f" {node.word.upper()} ".join(f"({self.compile_condition(part)})" for part in node.parts)
        if isinstance(node, Chain):
            return " AND ".join(f"({self.compile_condition(link)})" for link in node.links)
        if isinstance(node, Negation):
            return f"NOT ({self.compile_condition(node.part)})"
        if isinstance(node, IsTrue):
            return f"({node.operand.column.sql})"
        if isinstance(node, Missing):
            sql = self.compile_value(node.operand)
            return f"coalesce(len({sql}), 0) = 0" if get_kind(node.operand) == "texts" else f"({sql}) IS NULL"
        if isinstance(node, TextTest):
            return self._compile_text_test(node)
        if isinstance(node, Member):
            return self._compile_member(node)
        return self._compile_comparison(node)

    def _compile_comparison(self, node: Compare) -> str:
        kinds = [get_kind(node.left), get_kind(node.right)]
        left, right = self.compile_value(node.left), self.compile_value(node.right)
        if kinds == ["texts", "texts"]:
            return f"CASE WHEN len({left}) > 0 AND len({right}) > 0 THEN list_has_any({left}, {right}) END"
        if "texts" in kinds:
            texts, other = (left, right) if kinds[0] == "texts" else (right, left)
            return f"CASE WHEN len({texts}) > 0 THEN list_contains({texts}, {other}) END"
        return f"{left} {'=' if node.sign == '==' else '<>' if node.sign == '!=' else node.sign} {right}"

    def _compile_member(self, node: Member) -> str:
        operand = self.compile_value(node.operand)
        members = [self.compile_value(member) for member in node.members]
        if get_kind(node.operand) == "texts":
            return f"CASE WHEN len({operand}) > 0 THEN list_has_any({operand}, [{', '.join(members)}]) END"
        # DuckDB casts the members of one IN to one type, and a large integer would lose digits as a double: integers
        # and other numbers get an IN each.
        is_integer = [isinstance(one, NumberLiteral) and isinstance(one.bound, int) for one in node.members]
        groups = [
            [sql for sql, is_integer_here in zip(members, is_integer, strict=True) if is_integer_here is kind]
            for kind in (True, False)
        ]
        return " OR ".join(f"{operand} IN ({', '.join(group)})" for group in groups if group)

    def _compile_text_test(self, node: TextTest) -> str:
        value = self.bind(node.value)
        test = {
            "has": f"contains(lower({{}}), lower({value}))",
            "exactly": f"contains({{}}, {value})",
            "matches": f"regexp_matches({{}}, {value})",
        }[node.kind]
        sql = node.operand.column.sql
        if get_kind(node.operand) == "text":
            return test.format(sql)
        # `folded` is a column with all texts in lower case, joined by line breaks: one search instead of one per text.
        if node.kind == "has" and (folded := node.operand.column.folded) and "\n" not in node.value:
            return f"CASE WHEN len({sql}) > 0 THEN contains({folded}, lower({value})) END"
        several = f"list_bool_or([{test.format('one')} FOR one IN {sql}])"
        return f"CASE WHEN len({sql}) = 1 THEN {test.format(f'{sql}[1]')} ELSE {several} END"

    def compile_value(self, node: Operand) -> str:
        """Return SQL of a number or a text; its value is null if it is missing."""
        if isinstance(node, TextLiteral):
            return self.bind(node.value)
        if isinstance(node, NumberLiteral):
            return self.bind(node.bound)
        if isinstance(node, ColumnNode):
            return f"CAST({node.column.sql} AS INTEGER)" if node.column.kind == "truth" else node.column.sql
        if isinstance(node, Quantile):
            threshold = self.thresholds[node.text]
            return self.bind(None if math.isnan(threshold) else threshold)
        result = self._compile_double(node)
        return f"CASE WHEN isfinite({result}) THEN {result} END"

    def _compile_double(self, node: NumberNode) -> str:
        """Return SQL of a double, which is infinite or NaN if arithmetic has no finite result."""
        if not isinstance(node, Arithmetic):
            return f"CAST({self.compile_value(node)} AS DOUBLE)"
        parts = []
        for index, (sign, operand) in enumerate(zip(node.signs, node.operands, strict=True)):
            sql = self._compile_double(operand)
            if sign == "/" and isinstance(operand, Arithmetic):
                # Division by an infinite number would give 0 instead of a missing value. The remainder by infinity is
                # the number itself if it is finite, and NaN otherwise.
                sql = f"({sql}) % CAST('inf' AS DOUBLE)"
            sql = f"({sql})" if isinstance(operand, Arithmetic) else sql
            parts.append(f"{sign} {sql}" if index else f"{sign}{sql}")
        return " ".join(parts)
