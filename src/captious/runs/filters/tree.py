"""The syntax tree of an expression."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from captious.runs.filters.schema import FilterColumn


@dataclass(frozen=True)
class Node:
    """A node of the syntax tree, with its start and end in the text."""

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
    """``true`` or ``false``, compared with a boolean column."""

    value: bool


@dataclass(frozen=True)
class ColumnNode(Node):
    """A column of the schema; of one system if the text names it."""

    name: str
    column: FilterColumn
    system: str = ""

    @property
    def key(self) -> str:
        """The name with its system."""
        return f"{self.name}@{self.system}" if self.system else self.name


@dataclass(frozen=True)
class Arithmetic(Node):
    """Numbers joined by operators of equal precedence, from left to right; the first sign is ``-`` or empty."""

    signs: tuple[str, ...]
    operands: tuple[NumberNode, ...]


@dataclass(frozen=True)
class Quantile(Node):
    """The value that a share of the items have at most or, if ``highest``, at least."""

    text: str
    operand: NumberNode
    share: float
    highest: bool = False

    def rank(self, items: int) -> int:
        """Return the rank of the quantile among ``items`` values in ascending order, starting at 0.

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
    """A comparison of two numbers or two texts; of lists of texts, any may be equal."""

    sign: str
    left: Operand
    right: Operand


@dataclass(frozen=True)
class Member(Node):
    """A test whether a number or a text is in a list."""

    operand: Operand
    members: tuple[Operand, ...]


@dataclass(frozen=True)
class TextTest(Node):
    """A test whether a text ``has`` a part (case-insensitive), has it ``exactly``, or ``matches`` a pattern."""

    kind: str
    operand: ColumnNode
    value: str


@dataclass(frozen=True)
class Missing(Node):
    """A test whether a value is missing."""

    operand: Operand


@dataclass(frozen=True)
class IsTrue(Node):
    """A test whether a boolean column is true."""

    operand: ColumnNode


@dataclass(frozen=True)
class Junction(Node):
    """A conjunction (``and``) or disjunction (``or``) of conditions."""

    word: str
    parts: tuple[ConditionNode, ...]


@dataclass(frozen=True)
class Chain(Node):
    """Comparisons that must all hold, written as one: ``0.2 < cider < 2``."""

    links: tuple[ConditionNode, ...]


@dataclass(frozen=True)
class Negation(Node):
    """The negation of a condition."""

    part: ConditionNode


Operand: TypeAlias = "NumberNode | TextLiteral"
ConditionNode: TypeAlias = "Compare | Member | TextTest | Missing | IsTrue | Chain | Junction | Negation"
CONDITIONS = (Compare, Member, TextTest, Missing, IsTrue, Chain, Junction, Negation)


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it."""
    yield node
    for value in vars(node).values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Node):
                yield from walk(part)


def find_columns(nodes: Iterable[Node]) -> tuple[ColumnNode, ...]:
    """Return the columns that expressions read, each once where it occurs first, in the order of the text."""
    columns: dict[str, ColumnNode] = {}
    for node in nodes:
        for part in walk(node):
            if isinstance(part, ColumnNode):
                columns.setdefault(part.key, part)
    return tuple(columns.values())


def get_kind(operand: Operand) -> str:
    """Return ``number``, ``text`` or ``texts``; booleans count as numbers."""
    if isinstance(operand, TextLiteral):
        return "text"
    if isinstance(operand, ColumnNode):
        return "number" if operand.column.kind == "truth" else operand.column.kind
    return "number"
