"""The filter language of the explorer: one short expression over the columns of a caption.

    cider < 0.3 and system == "sat" and caption has "dog"
    rating >= 4 and not (cider@sat > cider@oscar or style in ("happy", "sad"))
    clipscore is missing or references matches "two|three"

``and``, ``or``, ``not`` and parentheses; ``< <= > >= == !=`` between columns, numbers and texts; ``has`` for a part of
a text in any case; ``matches`` for a regular expression; ``in`` for a list; ``is missing`` and ``is present``.
A column is a metric by its written form, label or name, an aspect that people rated, ``words``, ``gap`` (between
raters), ``raters``, ``id``, ``system``, ``caption``, ``references``, ``comment``, or a further column of the runs;
``cider@sat`` is the value of one system, whatever caption is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from captious._typing import Bools
from captious.errors import InputError, nearest
from captious.studio.explore.table import Joined, any_of

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST = 1000
"""Characters of an expression."""
DEEPEST = 30
"""Parentheses and negations within each other."""
COMPARISONS = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal", "!=": "not_equal"}
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<quoted>`[^`]+`(?:@(?:`[^`]+`|[\w.\-]+))?)
    | (?P<word>(?:and|or|not|has|matches|in|is|missing|present)\b(?![@.\-]))
    | (?P<name>[^\W\d][\w.\-]*(?:\([^()"'<>]*\))?(?:@(?:`[^`]+`|[\w.\-]+))?)
    | (?P<sign><=|>=|==|!=|<|>|=|\(|\)|,)
    )""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A word of an expression and where it stands."""

    kind: str
    text: str
    at: int


@dataclass(frozen=True)
class Column:
    """A column by its name, of one system where it has a name after ``@``."""

    name: str
    system: int | None = None


@dataclass(frozen=True)
class Compare:
    """Two values beside each other."""

    sign: str
    left: Column | float | str
    right: Column | float | str


@dataclass(frozen=True)
class Test:
    """What a column must be: ``has``, ``matches``, ``in``, ``missing``."""

    kind: str
    column: Column
    operand: Any = None


@dataclass(frozen=True)
class Every:
    """All parts hold (``and``), or any of them (``or``)."""

    kind: str
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Node


Node: TypeAlias = "Compare | Test | Every | Not"


class ExpressionError(InputError):
    """An expression that cannot be read, with the position of the fault."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(f"filter, character {at + 1}: {message}")
        self.at = at


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None or match.end() == at:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            if text[start] in "\"'`":
                raise ExpressionError(f"the text that begins with {text[start]} has no end", start)
            raise ExpressionError(f"{text[start]!r} is not understood here", start)
        kind = str(match.lastgroup)
        yield Token(kind, match[kind], match.start(kind))
        at = match.end()
    yield Token("end", "", len(text.rstrip()))


@dataclass
class Parser:
    """Reads one expression over the columns of a table."""

    table: Joined
    text: str
    _list: list[Token] = field(init=False, default_factory=list)
    _place: int = field(init=False, default=0)
    _depth: int = field(init=False, default=0)

    def parse(self) -> Node:
        """The expression as a tree."""
        if len(self.text) > LONGEST:
            raise ExpressionError(f"it has {len(self.text)} characters, expected at most {LONGEST}", LONGEST)
        self._list = list(_tokens(self.text))
        node = self._either()
        if self._next.kind != "end":
            raise ExpressionError(f"{self._next.text!r} is too much, expected and, or, or the end", self._next.at)
        return node

    @property
    def _next(self) -> Token:
        return self._list[self._place]

    def _take(self, *texts: str) -> Token | None:
        """The next token, if it is one of these words or signs."""
        token = self._next
        if token.kind in ("word", "sign") and token.text in texts:
            self._place += 1
            return token
        return None

    def _need(self, text: str, after: str) -> None:
        if self._take(text) is None:
            raise ExpressionError(f"expected {text!r} {after}, found {self._shown()}", self._next.at)

    def _shown(self) -> str:
        return repr(self._next.text) if self._next.text else "the end"

    def _either(self) -> Node:
        return self._joined("or", lambda: self._joined("and", self._part))

    def _joined(self, word: str, read: Callable[[], Node]) -> Node:
        parts = [read()]
        while self._take(word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else Every(word, tuple(parts))

    def _part(self) -> Node:
        start = self._next.at
        self._depth += 1
        if self._depth > DEEPEST:
            raise ExpressionError(f"it is nested more than {DEEPEST} deep", start)
        if self._take("not"):
            node: Node = Not(self._part())
        elif self._take("("):
            node = self._either()
            self._need(")", "after the parenthesis")
        else:
            node = self._comparison()
        self._depth -= 1
        return node

    def _comparison(self) -> Node:
        at = self._next.at
        left = self._value()
        if token := self._take(*COMPARISONS, "="):
            right_at = self._next.at
            right = self._value()
            return self._compare("==" if token.text == "=" else token.text, left, right, right_at)
        negated = self._take("not") is not None
        if not isinstance(left, Column):
            raise ExpressionError("a comparison begins with a column, such as cider < 0.3", at)
        node = self._test(left, negated)
        return Not(node) if negated else node

    def _compare(self, sign: str, left: Column | float | str, right: Column | float | str, at: int) -> Node:
        kinds = {self._kind(side) for side in (left, right)}
        if "texts" in kinds and sign not in ("==", "!="):
            raise ExpressionError("a caption has no order, expected has, matches, == or !=", at)
        if "number" in kinds and len(kinds) > 1:
            hint = f', expected quotation marks: "{right:g}"' if isinstance(right, float) else ""
            raise ExpressionError(f"a number and a text do not compare{hint}", at)
        return Compare(sign, left, right)

    def _test(self, column: Column, negated: bool) -> Node:
        if token := self._take("has", "matches"):
            if self._kind(column) == "number":
                raise ExpressionError(f"{column.name} holds numbers, expected < or > and a number", token.at)
            operand = self._text(f"after {token.text!r}")
            if token.text == "matches":
                self._check_pattern(operand, self._list[self._place - 1].at)
            return Test(token.text, column, operand)
        if self._take("in"):
            self._need("(", "after 'in'")
            values = [self._member(column)]
            while self._take(","):
                values.append(self._member(column))
            self._need(")", "after the list")
            return Test("in", column, tuple(values))
        if not negated and self._take("is"):
            inverse = self._take("not") is not None
            token = self._take("missing", "present")
            if token is None:
                raise ExpressionError(f"expected missing or present, found {self._shown()}", self._next.at)
            node = Test("missing", column)
            return Not(node) if (token.text == "present") != inverse else node
        expected = "has, matches or in" if negated else "a comparison such as < 0.3, has, matches, in, or is missing"
        raise ExpressionError(f"expected {expected}, found {self._shown()}", self._next.at)

    def _member(self, column: Column) -> float | str:
        at = self._next.at
        value = self._value()
        if isinstance(value, Column) or isinstance(value, str) == (self._kind(column) == "number"):
            kind = "a number" if self._kind(column) == "number" else "a text in quotation marks"
            raise ExpressionError(f"expected {kind}", at)
        return value

    def _text(self, after: str) -> str:
        at = self._next.at
        value = None if self._next.kind == "end" else self._value()
        if not isinstance(value, str):
            raise ExpressionError(f'expected a text {after}, such as "dog"', at)
        return value

    def _check_pattern(self, pattern: str, at: int) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            pc.match_substring_regex(pa.array([""]), pattern)
        except pa.ArrowInvalid as error:
            raise ExpressionError(f"{' '.join(str(error).split())[:100]}", at) from None

    def _value(self) -> Column | float | str:
        token = self._next
        if token.kind not in ("number", "text", "quoted", "name"):
            raise ExpressionError(f"expected a column, a number or a text, found {self._shown()}", token.at)
        self._place += 1
        if token.kind == "number":
            return float(token.text)
        if token.kind == "text":
            return re.sub(r"\\(.)", r"\1", token.text[1:-1])
        return self._column(token)

    def _column(self, token: Token) -> Column:
        name, _, system = _split(token.text)
        number = None
        if system:
            if system not in self.table.systems:
                names = ", ".join(self.table.systems)
                hint = nearest(system, self.table.systems)
                raise ExpressionError(f"no system {system!r}, there are {names}{hint}", token.at + len(token.text))
            number = self.table.systems.index(system)
        known = columns_of(self.table)
        key = resolve(name, self.table)
        if key is None:
            listed = ", ".join(known[:12]) + (", …" if len(known) > 12 else "")
            raise ExpressionError(f"no column {name!r}, there are {listed}{nearest(name, known)}", token.at)
        return Column(key, number)

    def _kind(self, side: Column | float | str) -> str:
        """What a value is: a number, a text, or the texts of an item."""
        import pyarrow as pa

        if not isinstance(side, Column):
            return "number" if isinstance(side, float) else "text"
        if side.name in ("caption", "references", "comment"):
            return "texts"
        if side.name in ("id", "system"):
            return "text"
        column = self.table.fields.get(side.name)
        if column is None or side.name in _scores(self.table):
            return "number"
        return "text" if pa.types.is_string(column.type) else "number"


def _split(text: str) -> tuple[str, str, str]:
    """Name and system of a column: ``cider@sat``, either in back quotes where it has other characters."""
    match = re.fullmatch(r"(?:`([^`]+)`|([^`@]+))(?:@(?:`([^`]+)`|([\w.\-]+)))?", text)
    assert match is not None
    return match[1] or match[2], "@", match[3] or match[4] or ""


def _scores(table: Joined) -> dict[str, int]:
    return {score.key: place for place, score in enumerate(table.scores)}


BUILT_IN = ("id", "system", "caption", "references", "comment", "words", "gap", "raters")


def columns_of(table: Joined) -> list[str]:
    """The names that an expression may use, short ones first."""
    return [*map(short_name, table.scores), *BUILT_IN, *table.fields]


def short_name(score: Any) -> str:
    """How people write a score: its name where the written form has no parameters, else its label without spaces."""
    return score.key if "(" not in score.key else re.sub(r"\W+", "-", score.label).strip("-").lower()


def resolve(name: str, table: Joined) -> str | None:
    """The column that a name means: a written form, a label, a metric's name if only one has it, or a column."""
    plain = _plain(name)
    tests: tuple[Callable[[Any], bool], ...] = (
        lambda score: score.key == name,
        lambda score: _plain(score.label) == plain,
        lambda score: short_name(score) == name.lower(),
        lambda score: _plain(score.key.partition("(")[0]) == plain,
    )
    if name in table.fields:
        return name
    for test in tests:
        keys = [score.key for score in table.scores if test(score)]
        if len(keys) == 1:
            return keys[0]
    return name.lower() if name.lower() in BUILT_IN else None


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def matching(table: Joined, text: str, system: int) -> Bools:
    """Which items have a caption of the system for which the expression holds."""
    node = Parser(table, text).parse()
    present: Bools = table.captions[system].is_valid().to_numpy(zero_copy_only=False)
    return _filled(_Evaluation(table, system).holds(node)) & present


def _filled(values: pa.Array) -> Bools:
    import pyarrow.compute as pc

    filled: Bools = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return filled


@dataclass(frozen=True)
class _Evaluation:
    """An expression on the captions of one system, in three-valued logic: a missing value is neither true nor false."""

    table: Joined
    system: int

    def holds(self, node: Node) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if isinstance(node, Not):
            return pc.invert(self.holds(node.part))
        if isinstance(node, Every):
            join = pc.and_kleene if node.kind == "and" else pc.or_kleene
            result = self.holds(node.parts[0])
            for part in node.parts[1:]:
                result = join(result, self.holds(part))
            return result
        if isinstance(node, Compare):
            return self._compared(node)
        column = self._column(node.column)
        if node.kind == "missing":
            return pc.is_null(column) if not pa.types.is_list(column.type) else _is_empty(column)
        if node.kind == "in":
            return _each(column, partial(_is_in, members=pa.array(node.operand)))
        if node.kind == "has":
            return _each(column, lambda texts: pc.match_substring(texts, node.operand, ignore_case=True))
        return _each(column, lambda texts: pc.match_substring_regex(texts, node.operand))

    def _compared(self, node: Compare) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        left, right = (self._column(side) if isinstance(side, Column) else side for side in (node.left, node.right))
        for texts, other in ((left, right), (right, left)):
            if isinstance(texts, pa.Array) and pa.types.is_list(texts.type):
                equal = _each(texts, partial(pc.equal, other))
                return equal if node.sign == "==" else pc.invert(equal)
        return _as_array(getattr(pc, COMPARISONS[node.sign])(left, right), len(self.table))

    def _column(self, column: Column) -> Any:
        import pyarrow as pa

        table, system = self.table, self.system if column.system is None else column.system
        scores = _scores(table)
        if column.name in table.fields:
            return table.fields[column.name]
        if column.name in scores:
            return _numbers(table.values[system][scores[column.name]])
        if column.name == "id":
            return pa.array(table.ids)
        if column.name == "system":
            return pa.array([table.systems[system]] * len(table)) if len(table) else pa.array([], pa.string())
        if column.name == "caption":
            return table.captions[system]
        if column.name == "references":
            return table.references
        if column.name == "words":
            return _numbers(table.words[system])
        if column.name == "gap":
            return _numbers(table.gaps[system] if table.gaps else np.full(len(table), np.nan))
        said = [table.opinions.get((item, system), ()) for item in range(len(table))]
        if column.name == "raters":
            return pa.array([float(len(group)) for group in said])
        return pa.array([[one.comment for one in group if one.comment] for group in said], pa.list_(pa.string()))


def _numbers(values: Any) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, mask=np.isnan(values))


def _as_array(result: Any, length: int) -> Any:
    """The outcome for every item, also where only constants were compared."""
    import pyarrow as pa

    return result if isinstance(result, pa.Array) else pa.array([result.as_py()] * length, pa.bool_())


def _each(column: Any, test: Callable[[Any], Any]) -> Any:
    """A test on a column of texts; of a column of lists, whether any text passes."""
    import pyarrow as pa

    if not pa.types.is_list(column.type):
        return test(column)
    return pa.array(any_of(column, _filled(test(column.flatten()))))


def _is_in(column: Any, members: Any) -> Any:
    """Whether each value is one of several; of a missing one nobody knows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    members = members.cast(column.type)
    return pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=members), pa.scalar(None, pa.bool_()))


def _is_empty(column: Any) -> Any:
    import pyarrow.compute as pc

    return pc.equal(pc.fill_null(pc.list_value_length(column), 0), 0)
