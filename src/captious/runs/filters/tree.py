"""The syntax tree of an expression."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from captious.runs.filters.schema import FilterColumn


@dataclass(frozen=True)
class Node:
    """A part of an expression, and where it begins and ends in the text."""

    start: int = field(compare=False)
    end: int = field(compare=False)


@dataclass(frozen=True)
class NumberLiteral(Node):
    """A number in the expression."""

    value: float

    @property
    def bound(self) -> float:
        """The number as a parameter: an integer stays one, so that large ids compare exactly."""
        return int(self.value) if isinstance(self.value, int) and abs(self.value) < 2**63 else float(self.value)


@dataclass(frozen=True)
class TextLiteral(Node):
    """A text in quotation marks."""

    value: str


@dataclass(frozen=True)
class TruthWord(Node):
    """``true`` or ``false``, beside a column that is one of them."""

    value: bool


@dataclass(frozen=True)
class ColumnNode(Node):
    """A column of the schema, of one system where the text says so."""

    name: str
    column: FilterColumn
    system: str = ""

    @property
    def key(self) -> str:
        """The name with its system."""
        return f"{self.name}@{self.system}" if self.system else self.name


@dataclass(frozen=True)
class Arithmetic(Node):
    """Numbers that signs of one rank join, from left to right; a sign before the first is ``-``, or empty."""

    signs: tuple[str, ...]
    operands: tuple[NumberNode, ...]


@dataclass(frozen=True)
class Quantile(Node):
    """The value that a share of the items has at most, or, where ``highest``, at least."""

    text: str
    operand: NumberNode
    share: float
    highest: bool = False

    def rank(self, items: int) -> int:
        """The quantile's index among so many values in ascending order; at least the share of them is on its side.

        >>> quantile = Quantile(0, 0, "quantile(x, 0.75)", NumberLiteral(0, 0, 1.0), 0.75)
        >>> [quantile.rank(items) for items in (1, 4, 100)]
        [0, 2, 74]
        """
        number = math.ceil(round(self.share * items, 6))  # 0.07 · 100 is 7.000000000000001
        index = items - number if self.highest else number - 1
        return min(max(index, 0), items - 1)


NumberNode: TypeAlias = "NumberLiteral | ColumnNode | Arithmetic | Quantile"


@dataclass(frozen=True)
class Compare(Node):
    """Two numbers or two texts beside each other; of lists of texts, any may be equal."""

    sign: str
    left: Operand
    right: Operand


@dataclass(frozen=True)
class Member(Node):
    """Whether a number or a text is in a list."""

    operand: Operand
    members: tuple[Operand, ...]


@dataclass(frozen=True)
class TextTest(Node):
    """Whether a text ``has`` a part in any case, has it ``exactly``, or ``matches`` a regular expression."""

    kind: str
    operand: ColumnNode
    value: str


@dataclass(frozen=True)
class Missing(Node):
    """Whether a value is missing."""

    operand: Operand


@dataclass(frozen=True)
class Holds(Node):
    """Whether a column that is true or false is true."""

    operand: ColumnNode


@dataclass(frozen=True)
class Junction(Node):
    """All parts hold (``and``), or one of them (``or``)."""

    word: str
    parts: tuple[ConditionNode, ...]


@dataclass(frozen=True)
class Chain(Node):
    """Comparisons that all hold, written as one: ``0.2 < cider < 2``."""

    links: tuple[ConditionNode, ...]


@dataclass(frozen=True)
class Negation(Node):
    """The part fails."""

    part: ConditionNode


Operand: TypeAlias = "NumberNode | TextLiteral"
ConditionNode: TypeAlias = "Compare | Member | TextTest | Missing | Holds | Chain | Junction | Negation"
CONDITIONS = (Compare, Member, TextTest, Missing, Holds, Chain, Junction, Negation)


def walk(node: Node) -> Iterator[Node]:
    """A node and everything below it."""
    yield node
    for value in vars(node).values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Node):
                yield from walk(part)


def columns_of(nodes: Iterable[Node]) -> tuple[ColumnNode, ...]:
    """The columns that expressions read, each once, in the order of the text."""
    columns = [part for node in nodes for part in walk(node) if isinstance(part, ColumnNode)]
    return tuple({column.key: column for column in reversed(columns)}.values())[::-1]


def operand_kind(operand: Operand) -> str:
    """Whether an operand is a number, a text or a list of texts; true and false count as numbers."""
    if isinstance(operand, TextLiteral):
        return "text"
    if isinstance(operand, ColumnNode):
        return "number" if operand.column.kind == "truth" else operand.column.kind
    return "number"
