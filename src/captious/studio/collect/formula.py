"""A formula that makes one rating of several: names of aspects, numbers, ``+ - * /`` and parentheses."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from captious.errors import InputError, nearest

MEAN = "mean"
"""The word for the mean of all aspects."""
LONGEST = 500
"""Characters of a formula."""
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_UNARY: dict[type[ast.unaryop], Callable[[float], float]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


@dataclass(frozen=True)
class Formula:
    """A formula of aspects that was checked; nothing but arithmetic can be in it."""

    text: str
    names: tuple[str, ...]
    """The aspects that it needs, in the order in which the study has them."""

    def of(self, values: Mapping[str, float | None]) -> float | None:
        """The value for these ratings; None where one that it needs is None, or where it divides by 0.

        >>> read_formula("(P + R) / 2 + fluency", ("P", "R", "fluency")).of({"P": 4, "R": 3, "fluency": -0.5})
        3.0
        >>> read_formula("mean", ("grammar", "fluency")).of({"grammar": 4, "fluency": None}) is None
        True
        """
        numbers = {name: value for name in self.names if (value := values.get(name)) is not None}
        if len(numbers) < len(self.names):
            return None
        try:
            value = sum(numbers.values()) / len(numbers) if self.text == MEAN else _value(_parse(self.text), numbers)
        except (ZeroDivisionError, OverflowError):
            return None
        return value if math.isfinite(value) else None


def read_formula(text: str, aspects: Sequence[str]) -> Formula:
    """The formula of a text; a mistake in it is an InputError that says what is wrong, but not where.

    >>> read_formula("P + Q", ("P", "R"))
    Traceback (most recent call last):
    captious.errors.InputError: 'P + Q' has Q, expected aspects of the study: P, R
    """
    if text == MEAN:
        return Formula(MEAN, tuple(aspects))
    tree = _parse(text)
    _check(tree, text, aspects)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if not used:
        raise InputError(f"{text!r} names no aspect, expected some of {', '.join(aspects)}")
    return Formula(text, tuple(name for name in aspects if name in used))


@lru_cache(maxsize=64)
def _parse(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise InputError(f"a formula of {len(text):,} characters, expected at most {LONGEST}")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"{text!r} is no formula, expected one such as '(P + R) / 2 + fluency', or 'mean'") from None


def _check(node: ast.expr, text: str, aspects: Sequence[str]) -> None:
    """Refuse whatever is not arithmetic on aspects."""
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        _check(node.left, text, aspects)
        _check(node.right, text, aspects)
    elif isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        _check(node.operand, text, aspects)
    elif isinstance(node, ast.Name):
        if node.id not in aspects:
            known = ", ".join(aspects)
            raise InputError(
                f"{text!r} has {node.id}, expected aspects of the study: {known}{nearest(node.id, aspects)}"
            )
    elif not _is_number(node):
        part = (ast.get_source_segment(text.strip(), node) or "another expression")[:40]
        raise InputError(f"{text!r} has {part!r}, expected names of aspects, numbers, + - * / and parentheses")


def _is_number(node: ast.expr) -> bool:
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return False
    return isinstance(node.value, (int, float)) and abs(node.value) < 1e9


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_value(node.operand, values))
    if isinstance(node, ast.Name):
        return float(values[node.id])
    assert isinstance(node, ast.Constant) and isinstance(node.value, (int, float))
    return float(node.value)
