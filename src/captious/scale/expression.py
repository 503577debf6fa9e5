"""The filter language: one expression over the scores and the texts of items, which says what to keep.

    clipscore > 0.28 and words > 4
    0.2 < cider <= 1.5 and not ("watermark" in caption or id in ("7", "12"))
    top(clipscore, 0.3) and bleu(n=4) / bleu(n=1) > quantile(bleu(n=4) / bleu(n=1), 0.1)

``and``, ``or``, ``not``, parentheses; comparisons, chained too; ``+ - * /``; ``in`` and ``not in``. A metric is named
by its name, label or written form, in back quotes where that is no word of Python. `COLUMNS` are there besides. Of the
texts ``id`` and ``caption``, ``==``, ``!=`` and ``in`` may be asked. ``top(x, 0.3)`` holds for the 30 % of the scored
items with the highest values, ``bottom`` for the lowest; ``quantile(x, 0.9)`` is a number.

A missing value is neither above nor below anything: what depends on it is unknown, and what is unknown does not pass.
Python's parser reads the text, and nothing of it is ever run: a tree of a few kinds of nodes works on whole columns.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np

from captious._typing import Bools, Floats
from captious.errors import InputError, nearest
from captious.metrics.contract import Metric
from captious.metrics.registry import parse

NUMBERS = ("words", "characters", "candidates")
"""Columns that count: words and characters of an item's captions, and how many captions it has."""
TEXTS = ("id", "caption")
"""Columns of text; an item with several captions has them in ``caption`` one per line."""
COLUMNS = (*NUMBERS, *TEXTS)
LONGEST, DEEPEST = 4000, 100
"""Characters of an expression, and nodes within each other."""

Values: TypeAlias = Mapping[str, Any]
"""Columns by name: arrays of numbers with NaN where there is none, Arrow arrays of texts; thresholds by their text."""


@dataclass(frozen=True, eq=False)
class Truth:
    """For each item whether a condition holds, or fails. Where it does neither, a value that it needs is missing."""

    holds: Bools
    fails: Bools

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.holds & other.holds, self.fails | other.fails)

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.holds | other.holds, self.fails & other.fails)

    def __invert__(self) -> Truth:
        return Truth(self.fails, self.holds)

    @property
    def unknown(self) -> Bools:
        """Items of which nobody can say it."""
        return ~(self.holds | self.fails)


@dataclass(frozen=True)
class Constant:
    """A number that is written in the expression."""

    value: float

    def numbers(self, values: Values) -> Any:
        return np.float64(self.value)


@dataclass(frozen=True)
class Column:
    """The values of a metric by its written form, or one of `COLUMNS`."""

    name: str

    def numbers(self, values: Values) -> Any:
        return values[self.name]


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


@dataclass(frozen=True)
class Arithmetic:
    """Two numbers that are added, subtracted, multiplied or divided; missing where the result is not finite."""

    sign: str
    left: Number
    right: Number

    def numbers(self, values: Values) -> Any:
        with np.errstate(all="ignore"):
            result = ARITHMETIC[self.sign](self.left.numbers(values), self.right.numbers(values))
        return np.where(np.isfinite(result), result, np.nan)


@dataclass(frozen=True)
class Quantile:
    """The value that a share of all items lies below, or that a share lies above where ``highest``.

    It is known only after all shards are read; until then ``values`` lacks it.
    """

    text: str
    operand: Number
    share: float
    highest: bool = False

    def numbers(self, values: Values) -> Any:
        return np.float64(values[self.text])

    def rank(self, items: int) -> int:
        """Its index among so many values in ascending order; at least the share of the values lies on its side.

        >>> quantile = Quantile("quantile(x, 0.75)", Column("x"), 0.75)
        >>> [quantile.rank(items) for items in (1, 4, 100)]
        [0, 2, 74]
        """
        number = math.ceil(round(self.share * items, 6))  # 0.07 · 100 is 7.000000000000001
        index = items - number if self.highest else number - 1
        return min(max(index, 0), items - 1)


Number: TypeAlias = Constant | Column | Arithmetic | Quantile

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Comparison:
    """Two numbers beside each other."""

    sign: str
    left: Number
    right: Number

    def truth(self, values: Values) -> Truth:
        left, right = self.left.numbers(values), self.right.numbers(values)
        missing = np.isnan(left) | np.isnan(right)
        result = COMPARISONS[self.sign](left, right)
        return Truth(result & ~missing, ~result & ~missing)


@dataclass(frozen=True)
class Text:
    """Whether a text is one of several, or whether one of them is a part of it."""

    column: str
    texts: tuple[str, ...]
    part: bool = False

    def truth(self, values: Values) -> Truth:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = values[self.column]
        if self.part:
            result = pc.match_substring(column, self.texts[0])
        else:
            result = pc.is_in(column, value_set=pa.array(self.texts, column.type))
        holds = np.asarray(result.to_numpy(zero_copy_only=False), dtype=bool)
        return Truth(holds, ~holds)


@dataclass(frozen=True)
class All:
    """Every part holds."""

    parts: tuple[Condition, ...]

    def truth(self, values: Values) -> Truth:
        first, *others = (part.truth(values) for part in self.parts)
        for other in others:
            first = first & other
        return first


@dataclass(frozen=True)
class Some:
    """At least one part holds."""

    parts: tuple[Condition, ...]

    def truth(self, values: Values) -> Truth:
        first, *others = (part.truth(values) for part in self.parts)
        for other in others:
            first = first | other
        return first


@dataclass(frozen=True)
class Not:
    """The part fails."""

    part: Condition

    def truth(self, values: Values) -> Truth:
        return ~self.part.truth(values)


Condition: TypeAlias = Comparison | Text | All | Some | Not


@dataclass(frozen=True)
class Clause:
    """One of the conditions that all must hold."""

    text: str
    condition: Condition

    def truth(self, values: Values, items: int) -> Truth:
        """The outcome for each of so many items."""
        truth = self.condition.truth(values)
        return Truth(np.broadcast_to(truth.holds, items), np.broadcast_to(truth.fails, items))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return columns_of(self.condition)


@dataclass(frozen=True)
class Filter:
    """An expression that is read: clauses which all must hold."""

    text: str
    clauses: tuple[Clause, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(name for clause in self.clauses for name in clause.columns))

    @property
    def quantiles(self) -> tuple[Quantile, ...]:
        """What must be known of all items before one can be judged."""
        nodes = (node for clause in self.clauses for node in _walk(clause.condition))
        return tuple(dict.fromkeys(node for node in nodes if isinstance(node, Quantile)))


def number_of(node: Number, values: Values, items: int) -> Floats:
    """The value of each item."""
    numbers: Floats = np.broadcast_to(np.asarray(node.numbers(values), dtype=np.float64), items)
    return numbers


def _walk(node: Any) -> Iterator[Any]:
    """A node and everything below it."""
    yield node
    for field in fields(node):
        inner = getattr(node, field.name)
        for part in inner if isinstance(inner, tuple) else (inner,):
            if is_dataclass(part):
                yield from _walk(part)


def columns_of(node: Any) -> tuple[str, ...]:
    """The columns that a node reads."""
    names = [
        one.name if isinstance(one, Column) else one.column for one in _walk(node) if isinstance(one, (Column, Text))
    ]
    return tuple(dict.fromkeys(names))


def parse_filter(text: str, metrics: Sequence[Metric]) -> Filter:
    """Read an expression over the values of these metrics; a mistake is said with its place.

    >>> from captious.metrics.registry import parse_all
    >>> filter = parse_filter("0.2 < CIDEr <= 1.5 and words > 4", parse_all("bleu,cider(idf=coco)"))
    >>> [clause.text for clause in filter.clauses], filter.columns
    (['0.2 < CIDEr <= 1.5', 'words > 4'], ('cider(idf=coco)', 'words'))
    """
    if not isinstance(text, str):
        raise InputError(f"filter: {type(text).__name__}, expected a text such as 'clipscore > 0.28 and words > 4'")
    return _Reader(text, {str(metric): metric for metric in metrics}).filter()


_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`([^`]*)`|(?P<comment>\#)""")
_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_WORDS = {"&&": "and", "&": "and", "||": "or", "|": "or", "AND": "and", "OR": "or", "NOT": "not", "!": "not"}
_EXAMPLE = "clipscore > 0.28"


def _is_deep(tree: ast.expr) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return bool(level)


def _conjuncts(node: ast.expr) -> list[ast.expr]:
    """The parts that ``and`` joins, also those in parentheses."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for value in node.values for part in _conjuncts(value)]
    return [node]


class _Reader:
    """From Python's syntax tree to that of a filter."""

    def __init__(self, text: str, metrics: Mapping[str, Metric]) -> None:
        self.text = re.sub(r"\s", " ", text).strip()
        self.metrics = metrics
        self.quoted: dict[int, str] = {}
        """Names in back quotes, by where they begin."""
        self.plain = ""
        """What Python's parser sees."""

    def filter(self) -> Filter:
        if not self.text:
            raise InputError(f"filter: it is empty, expected an expression such as {_EXAMPLE} and words > 4")
        if len(self.text) > LONGEST:
            raise InputError(f"filter: it has {len(self.text)} characters, expected at most {LONGEST}")
        tree = self._tree()
        if _is_deep(tree):
            raise InputError("filter: it is nested too deeply to be read")
        return Filter(self.text, tuple(Clause(self._source(part), self._condition(part)) for part in _conjuncts(tree)))

    def _tree(self) -> ast.expr:
        self.plain = _QUOTED.sub(self._plain, self.text)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python warns of 0.3and, and of 1 is 2
                return ast.parse(self.plain, mode="eval").body
        except SyntaxError as error:
            at = min(error.offset - 1, len(self.text)) if error.offset else len(self.text)
        except ValueError:  # a character that no source may hold
            at = 0
        except (RecursionError, MemoryError):
            raise InputError("filter: it is nested too deeply to be read") from None
        raise self._error(at, self._advice(at))

    def _plain(self, match: re.Match[str]) -> str:
        """What Python's parser sees of a quoted part: a name in back quotes is a word of the same length."""
        if match["comment"]:
            raise self._error(match.start(), "# is not understood here, expected it in quotation marks")
        if match[1] is None:
            return match[0]
        self.quoted[match.start()] = match[1]
        return "_" * len(match[0])

    def _advice(self, at: int) -> str:
        """What is wrong where Python's parser stopped, as well as one can tell."""
        outside = re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", " ", self.plain)
        if quote := next((sign for sign in "`'\"" if sign in outside), ""):
            return f"a text that begins with {quote} has no end"
        if re.search(r"(?<![<>=!(,\w])=(?!=)|\w=(?!=)(?![^()]*\))", outside):
            return "expected == to compare, found ="
        for word, meant in _WORDS.items():
            if re.search(rf"(?<!\w){re.escape(word)}(?![\w=])", outside):
                return f"expected {meant!r}, found {word!r}"
        if outside.count("(") != outside.count(")"):
            return "a parenthesis is missing" if outside.count("(") > outside.count(")") else "a parenthesis too many"
        return "not understood" if at < len(self.text) else "something is missing at the end"

    def _condition(self, node: ast.expr) -> Condition:
        """A node that must hold or fail."""
        if isinstance(node, ast.BoolOp):
            parts = tuple(map(self._condition, node.values))
            return All(parts) if isinstance(node.op, ast.And) else Some(parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return Not(self._condition(node.operand))
        if isinstance(node, ast.Compare):
            return self._comparisons(node)
        if isinstance(node, ast.Call) and self._function(node) in ("top", "bottom"):
            quantile = self._quantile(node)
            return Comparison(">=" if quantile.highest else "<=", quantile.operand, quantile)
        self._refuse_signs(node)
        self._number(node)  # an unknown name is said first
        raise self._error(self._start(node), f"expected a comparison such as {_EXAMPLE}")

    def _comparisons(self, node: ast.Compare) -> Condition:
        sides = [node.left, *node.comparators]
        links: list[Condition] = []
        for left, kind, right in zip(sides, node.ops, sides[1:], strict=False):
            sign = _SIGNS.get(type(kind))
            if sign is None:
                raise self._error(self._start(node), "'is' is not understood, expected == or !=")
            links.append(self._comparison(left, sign, right))
        return links[0] if len(links) == 1 else All(tuple(links))

    def _comparison(self, left: ast.expr, sign: str, right: ast.expr) -> Condition:
        if sign.endswith("in"):
            contained = self._contained(left, right)
            return contained if sign == "in" else Not(contained)
        for side, other in ((left, right), (right, left)):
            if column := self._text_column(side):
                if sign not in ("==", "!="):
                    raise self._error(self._start(side), f"{column} is a text and has no order, expected ==, != or in")
                equal = Text(column, (self._text(other, column),))
                return equal if sign == "==" else Not(equal)
        return Comparison(sign, self._number(left), self._number(right))

    def _contained(self, left: ast.expr, right: ast.expr) -> Condition:
        if column := self._text_column(right):
            return Text(column, (self._text(left, column),), part=True)
        if not isinstance(right, (ast.Tuple, ast.List)) or not right.elts:
            raise self._error(self._start(right), 'expected a list after \'in\', such as ("7", "12"), or a text column')
        if column := self._text_column(left):
            return Text(column, tuple(self._text(element, column) for element in right.elts))
        number = self._number(left)
        return Some(tuple(Comparison("==", number, self._number(element)) for element in right.elts))

    def _text_column(self, node: ast.expr) -> str:
        """The column of text that a node names, if it does."""
        name = self._name(node) if isinstance(node, ast.Name) else ""
        return name.lower() if name.lower() in TEXTS else ""

    def _text(self, node: ast.expr, column: str) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        hint = f', such as "{self._source(node)}"' if isinstance(node, ast.Constant) else ""
        raise self._error(self._start(node), f"{column} is a text, expected one in quotation marks beside it{hint}")

    def _number(self, node: ast.expr) -> Number:
        """A node that has a number for each item."""
        self._refuse_signs(node)
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
            return Arithmetic(_SIGNS[type(node.op)], self._number(node.left), self._number(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            operand = self._number(node.operand)
            return Arithmetic("-", Constant(0.0), operand) if isinstance(node.op, ast.USub) else operand
        if isinstance(node, ast.Name):
            return self._column(self._name(node), node)
        if isinstance(node, ast.Call):
            function = self._function(node)
            if function == "quantile":
                return self._quantile(node)
            if function in ("top", "bottom"):
                raise self._error(self._start(node), f"{function}(...) holds or fails and is no number, try quantile")
            if function:
                return self._column(self._source(node), node)
        if isinstance(node, (ast.Compare, ast.BoolOp)) or (isinstance(node, ast.UnaryOp) and node.op):
            raise self._error(self._start(node), "expected a number here, found a condition")
        raise self._error(
            self._start(node), f"{self._source(node)[:40]!r} is not understood, expected numbers and names"
        )

    def _constant(self, node: ast.Constant) -> Number:
        value = node.value
        if isinstance(value, str):  # a name that somebody put between quotation marks
            try:
                return self._column(value, node)
            except InputError as error:
                raise InputError(f"{error}; a text compares with no number") from None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._error(self._start(node), f"{value!r} is no number")
        number = float(value) if abs(value) < 1e300 else math.inf
        if not math.isfinite(number):
            raise self._error(self._start(node), "the number is too large")
        return Constant(number)

    def _refuse_signs(self, node: ast.expr) -> None:
        """Signs of Python and of other languages that this one lacks."""
        if isinstance(node, ast.BinOp) and type(node.op) not in _SIGNS:
            meant = {ast.BitAnd: "'and' in place of &", ast.BitOr: "'or' in place of |"}.get(
                type(node.op), "+ - * or /"
            )
            raise self._error(self._start(node.right), f"expected {meant}")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            raise self._error(self._start(node), "expected 'not' in place of ~")

    def _quantile(self, node: ast.Call) -> Quantile:
        function = self._function(node)
        if len(node.args) != 2 or node.keywords:
            raise self._error(self._start(node), f"expected {function}(metric, share), such as {function}(cider, 0.3)")
        operand, share = map(self._number, node.args)
        if any(isinstance(part, Quantile) for part in _walk(operand)):
            raise self._error(self._start(node.args[0]), "a quantile cannot be one of another quantile")
        if not columns_of(operand):
            raise self._error(self._start(node.args[0]), "expected a metric or a column, found a number alone")
        if not isinstance(share, Constant) or not 0 < share.value < 1:
            raise self._error(
                self._start(node.args[1]), f"expected a share between 0 and 1, such as {function}(cider, 0.3)"
            )
        return Quantile(self._source(node), operand, share.value, function == "top")

    def _function(self, node: ast.Call) -> str:
        """The name of what is called, where it is a word."""
        name = self._name(node.func) if isinstance(node.func, ast.Name) else ""
        return name.lower() if name.lower() in ("top", "bottom", "quantile") else name

    def _name(self, node: ast.Name) -> str:
        return self.quoted.get(self._start(node), node.id)

    def _column(self, name: str, node: ast.expr) -> Column:
        """The column of a name: a metric by its written form, its label, or its name where no other metric has it."""
        if name.lower() in NUMBERS:
            return Column(name.lower())
        if name.lower() in TEXTS:
            raise self._error(self._start(node), f"{name} is a text, which compares with no number")
        try:
            written = str(parse(name))
        except InputError:
            written = name
        if written in self.metrics:
            return Column(written)
        same = [
            form
            for form, metric in self.metrics.items()
            if name.lower() in (metric.label.lower(), metric.name, form.lower())
        ]
        if len(same) == 1:
            return Column(same[0])
        if same:
            raise self._error(self._start(node), f"{name} names {len(same)} metrics, expected one of {', '.join(same)}")
        known = [*self.metrics, *COLUMNS]
        hint = self._unquoted() or nearest(name, [*known, *(metric.name for metric in self.metrics.values())])
        raise self._error(self._start(node), f"no metric or column {name!r}, there are {', '.join(known)}{hint}")

    def _unquoted(self) -> str:
        """A hint at a label such as CIDEr-D that stands in the text without back quotes; empty where there is none."""
        text = self.text.lower()
        labels = [one.label for one in self.metrics.values() if not one.label.isidentifier()]
        bare = [label for label in labels if label.lower() in text and f"`{label.lower()}`" not in text]
        return f"; {bare[0]} needs back quotes: `{bare[0]}`" if bare else ""

    def _start(self, node: ast.expr) -> int:
        """Where a node begins, in characters; Python counts bytes."""
        return len(self.plain.encode()[: node.col_offset].decode())

    def _source(self, node: ast.expr) -> str:
        return self.text[self._start(node) : len(self.plain.encode()[: node.end_col_offset].decode())]

    def _error(self, at: int, message: str) -> InputError:
        before = f" at {self.text[at : at + 24]!r}" if at < len(self.text) else ""
        return InputError(f"filter, character {at + 1}{before}: {message}")
