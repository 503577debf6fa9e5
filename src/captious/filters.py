r"""The filter language: one expression over the scores, texts and further columns of items, executed by DuckDB.

    clipscore > 0.28 and words > 4
    0.2 < cider <= 1.5 and not (caption has "watermark" or id in ("7", "12"))
    top(clipscore, 0.3) and cider@sat > cider@oscar and language == "en"

How it is used::

    schema = FilterSchema(run_columns(types, labels), labels)      # what may be named: see `FilterColumn`
    filter = parse_filter("top(cider, 0.3) and words > 4", schema) # a FilterError names the character
    thresholds = find_thresholds(connection, "items", filter.quantiles)
    condition = filter.condition(thresholds)                       # .sql and .parameters
    connection.execute(f"SELECT id FROM items WHERE {condition.sql}", condition.parameters)

``types`` are the columns of a DuckDB relation with the names of their types (`column_types`), ``labels`` those of the
metrics among them by written form. The SQL of a condition consists of words of this module, of the SQL that the schema
holds for its columns, and of named parameters: no text of a user becomes SQL. A name in an expression is only ever
looked up in the schema. Parameters are called ``$f0``, ``$f1``, …, or begin with another ``prefix``, so that several
conditions and parameters of the caller fit into one statement.

A filter may be compiled against several tables: an explorer that looks at the captions of several systems parses the
text once for each system, with a schema whose columns read that system and whose ``systems`` serve ``cider@sat``.
`matching_rows` filters an Arrow table in memory, `parse_formula` reads arithmetic alone and computes it in Python.

What an expression means:

- ``and``, ``or``, ``not``, parentheses; ``< <= > >= == !=``, also ``0.2 < cider < 2``, and ``=`` for ``==``;
  ``+ - * /``; ``in`` and ``not in`` with a list.
- ``has`` finds a part of a text in upper or lower case, ``matches`` a regular expression (RE2). ``"dog" in caption`` is
  ``has`` that respects case. Of a column with several texts, such as ``caption``, any text may do.
- ``is missing``, ``is not missing``, ``is present``.
- ``top(x, 0.3)`` holds for the 30 % of the items with a value that have the highest, ``bottom`` for the lowest;
  ``quantile(x, 0.9)`` is a number.
- A name is the written form, label or short name of a metric, or the name of a column. It stands in back quotes where
  it has characters of the language. A hyphen or a point inside a name belongs to it: ``bleu-1`` is BLEU-1, and
  ``bleu - 1`` a difference. ``cider@sat`` and ``sat.cider`` are the values in one of several runs.
  ``input.NAME`` is a column of the input whose name something else has too.
- ``words`` and ``characters`` are means over the candidates of an item, as all metrics average them. Words are what
  white space separates. ``candidates`` is their number.
- A value that is missing is neither above nor below anything, and arithmetic whose result is not finite has none. What
  depends on it is unknown, and what is unknown does not pass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from captious.errors import AmbiguousKey, InputError, UnknownKey, choices_for, nearest, one_line, require
from captious.io.storage import is_remote
from captious.metrics.registry import find_key

if TYPE_CHECKING:
    import pyarrow as pa

    from captious._typing import Bools

Kind: TypeAlias = Literal["number", "text", "texts", "truth"]
"""What the values of a column are; ``texts``: a list of texts an item, ``truth``: true or false."""
LONGEST = 4000
"""Characters of an expression."""
DEEPEST = 40
"""Parentheses, signs and negations within each other."""
MOST_TERMS = 100
"""Numbers that signs join without parentheses."""
LISTED = 12
"""Names that an error lists."""
COUNTS = ("words", "characters", "candidates")
ALIASES = {"captions": "caption", "candidate": "caption", "reference": "references"}
"""Other spellings of columns."""
STORED = ("words", "characters")
"""Counts that a run holds, because counting the words of all captions takes longer than all else."""
INPUT = "input."
"""A prefix for the name of a column of the input, where something else has that name."""


class FilterError(InputError):
    """An expression that cannot be used; ``at`` is the index of the character at fault."""

    def __init__(self, message: str, text: str = "", at: int = 0, kind: str = "filter") -> None:
        found = f" at {text[at : at + 24]!r}" if at < len(text) else ""
        super().__init__(f"{kind}, character {at + 1}{found}: {message}")
        self.message, self.at = message, at


class UnknownName(FilterError, UnknownKey):
    """An expression with a name that means nothing."""


# What may be named


@dataclass(frozen=True)
class FilterColumn:
    """A column that an expression may name: what its values are, and the SQL that reads them.

    The SQL is written by captious, with names of columns quoted by `quoted`. It must give null for a missing value and
    never a NaN. A number may be of any numeric type.
    """

    kind: Kind
    sql: str
    folded: str = ""
    """SQL of the texts of the column in lower case, one per line, where they are stored so: it makes ``has`` quick."""


@dataclass(frozen=True)
class FilterSchema:
    """What an expression may name."""

    columns: Mapping[str, FilterColumn]
    """Columns by name: metrics by their written form, `COUNTS`, ``id``, ``caption``, ``references``, the input's."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels by written form, of the columns that are metrics or have a label for another reason."""
    systems: Mapping[str, Mapping[str, FilterColumn]] = field(default_factory=dict)
    """What ``@`` may name, and the columns of each."""
    what: str = "metric or column"
    """What errors call that which is named."""

    def resolve(self, name: str) -> str:
        """The name of the column that a name means; an UnknownKey where it means none or several.

        >>> schema = FilterSchema({"bleu(n=4)": FilterColumn("number", ""), "width": FilterColumn("number", "")},
        ...     {"bleu(n=4)": "BLEU-4"})
        >>> schema.resolve("bleu"), schema.resolve("bleu-4"), schema.resolve("Width"), schema.resolve("input.width")
        ('bleu(n=4)', 'bleu(n=4)', 'width', 'width')
        """
        if name in self.columns and (name in self.labels or name in FACTS):
            return name
        metric, error = self._metric(name)
        if name in self.columns:
            if metric:
                raise AmbiguousKey(
                    f"{name!r} is a metric and a column of the input, expected `{metric}` or `{INPUT}{name}`"
                )
            return name
        if metric:
            return metric
        plain = name.removeprefix(INPUT)
        if plain != name and plain in self.columns and plain not in self.labels:
            return plain
        lower = ALIASES.get(name.lower(), name.lower())
        same = [lower] if lower in self.columns else [one for one in self.columns if one.lower() == lower]
        if len(same) == 1:
            return same[0]
        if len(same) > 1:
            raise AmbiguousKey(f"{name!r} names {len(same)} columns, expected one of {', '.join(same)}")
        raise error or self.unknown(name)

    def _metric(self, name: str) -> tuple[str, UnknownKey | None]:
        """The metric that a name means; where it means several, the error that says so."""
        labels = {key: label for key, label in self.labels.items() if key in self.columns}
        if not labels:
            return "", None
        try:
            return find_key(name, labels), None
        except AmbiguousKey as error:
            return "", error
        except UnknownKey:
            return "", None

    def unknown(self, name: str) -> UnknownKey:
        """The error that lists what is there, with the nearest name."""
        spellings = [*self.columns, *self.labels.values(), *(key.partition("(")[0] for key in self.labels)]
        hint = nearest(name, spellings) or nearest(name.lower(), spellings)
        return UnknownKey(f"no {self.what} {name[:60]!r}{choices_for(name, self.columns, hint, LISTED)}")


FACTS = ("id", "caption", "references", "image", "system", *COUNTS)
"""Columns that every run has, or that belong to captious; a column of the input with such a name needs ``input.``."""


def quoted(name: str) -> str:
    """The name of a column as SQL.

    >>> quoted('cider(idf=coco)'), quoted('a"b')
    ('"cider(idf=coco)"', '"a""b"')
    """
    return '"' + name.replace('"', '""') + '"'


def column_types(relation: Any) -> dict[str, str]:
    """The columns of a DuckDB relation with the names of their types."""
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


_WHITE = r"\t-\r\x{1c}-\x{20}\x{85}\p{Z}"
"""White space as Python's str.split takes it."""
_UNEVEN = (
    r"  |^ | $|^$|[\t-\r\x{1c}-\x{1f}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
)
"""A text whose words are not separated by single spaces; the others are counted faster."""


def _words(text: str) -> str:
    """SQL of the number of words in a text."""
    words = f"regexp_extract_all({text}, '[^{_WHITE}]+')"
    return f"CASE WHEN regexp_matches({text}, '{_UNEVEN}') THEN len({words}) ELSE len(string_split({text}, ' ')) END"


def _mean(count: Callable[[str], str], texts: str) -> str:
    """SQL of the mean of a count over a list of texts."""
    alone, each = count(f"{texts}[1]"), count("one")
    return f"CAST(CASE WHEN len({texts}) = 1 THEN {alone} ELSE list_avg([{each} FOR one IN {texts}]) END AS DOUBLE)"


def run_columns(types: Mapping[str, str], labels: Mapping[str, str], table: str = "") -> dict[str, FilterColumn]:
    """The columns of a run's items that an expression may name, from the DuckDB types of what is stored.

    ``words`` and ``characters`` are counted where they are not stored. A column of the input with the name of another
    column is stored with `INPUT` before it.
    ``table`` is the name of the table in the statement, where it has several.
    """
    begin = f"{quoted(table)}." if table else ""
    columns = {key: FilterColumn("number", begin + quoted(key)) for key in labels if key in types}
    if "candidates" in types:
        columns |= caption_columns(f"{begin}candidates")
    columns |= {name: FilterColumn("number", begin + quoted(name)) for name in STORED if name in types}
    for name, kind in types.items():
        if name not in labels and name not in ("candidates", "unscored", *STORED):
            column = column_of_type(begin + quoted(name), kind)
            if column is not None:
                columns[name if name not in columns else INPUT + name] = column
    return columns


def caption_columns(candidates: str) -> dict[str, FilterColumn]:
    """What an expression may name of captions, given the SQL of a list of candidates."""
    return {
        "words": FilterColumn("number", _mean(_words, candidates)),
        "characters": FilterColumn("number", _mean("length({})".format, candidates)),
        "candidates": FilterColumn("number", f"len({candidates})"),
        "caption": FilterColumn("texts", candidates),
    }


def column_of_type(sql: str, kind: str) -> FilterColumn | None:
    """A column by its DuckDB type; None where it holds bytes."""
    if kind in ("FLOAT", "DOUBLE"):
        return FilterColumn("number", f"CASE WHEN isnan({sql}) THEN NULL ELSE {sql} END")
    if kind in _WHOLE:
        return FilterColumn("number", sql)
    if kind.startswith("DECIMAL"):
        return FilterColumn("number", f"CAST({sql} AS DOUBLE)")
    if kind in ("VARCHAR", "VARCHAR[]"):
        return FilterColumn("text" if kind == "VARCHAR" else "texts", sql)
    if kind == "BOOLEAN":
        return FilterColumn("truth", sql)
    if kind.startswith("BLOB"):
        return None
    return FilterColumn("text", f"CAST({sql} AS VARCHAR)")


_WHOLE = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")} | {
    "INTEGER",
    "UINTEGER",
}


# What an expression is


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
        return _columns([self.node])


@dataclass(frozen=True)
class Filter:
    """An expression that was read: clauses which all must hold."""

    text: str
    clauses: tuple[Clause, ...]

    @property
    def columns(self) -> tuple[ColumnNode, ...]:
        """The columns that it reads, each once, in the order of the text."""
        return _columns([clause.node for clause in self.clauses])

    @property
    def quantiles(self) -> tuple[Quantile, ...]:
        """What must be known of all items before one can be judged, each once."""
        nodes = [node for clause in self.clauses for node in walk(clause.node) if isinstance(node, Quantile)]
        return tuple({node.text: node for node in nodes}.values())

    def condition(self, thresholds: Mapping[str, float] = {}, prefix: str = "f") -> Condition:
        """The whole filter. ``thresholds`` holds the values of its quantiles by their text."""
        compiler = _Compiler(thresholds, prefix)
        return Condition(
            " AND ".join(f"({compiler.condition(clause.node)})" for clause in self.clauses), compiler.parameters
        )

    def outcomes(self, thresholds: Mapping[str, float] = {}, prefix: str = "f") -> Condition:
        """The columns ``c0``, ``c1``, … for a SELECT: each clause by itself; `outcome_code` puts them together."""
        compiler = _Compiler(thresholds, prefix)
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


def _columns(nodes: Iterable[Node]) -> tuple[ColumnNode, ...]:
    columns = [part for node in nodes for part in walk(node) if isinstance(part, ColumnNode)]
    return tuple({column.key: column for column in reversed(columns)}.values())[::-1]


@dataclass(frozen=True)
class Formula:
    """Arithmetic over named numbers, computed in Python."""

    text: str
    node: NumberNode

    @property
    def names(self) -> tuple[str, ...]:
        """What it needs, in the order of the text."""
        return tuple(column.name for column in _columns([self.node]))

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


# From text to tree


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
    parser = _Parser(text, schema)
    node = parser.whole(parser.either)
    if not isinstance(node, CONDITIONS):
        raise parser.no_condition(node)
    return Filter(text.strip(), tuple(Clause(text[part.start : part.end], part) for part in _conjuncts(node)))


def parse_formula(text: str, names: Sequence[str]) -> Formula:
    """Read arithmetic over named numbers: ``+ - * /`` and parentheses.

    >>> parse_formula("P + Q", ("P", "R"))
    Traceback (most recent call last):
    captious.filters.FilterError: formula, character 5 at 'Q': no name 'Q'; there are P, R
    """
    columns = {name: FilterColumn("number", quoted(name)) for name in names}
    try:
        parser = _Parser(text, FilterSchema(columns, what="name"), functions=False)
        node = parser.number(parser.whole(parser.sum))
    except FilterError as error:
        raise FilterError(error.message, text, error.at, "formula") from None
    if not _columns([node]):
        raise FilterError(f"it names nothing, expected some of {', '.join(names)}", text, node.start, "formula")
    return Formula(text.strip(), node)


def _conjuncts(node: ConditionNode) -> list[ConditionNode]:
    """The parts that ``and`` joins, also those in parentheses."""
    if isinstance(node, Junction) and node.word == "and":
        return [part for inner in node.parts for part in _conjuncts(inner)]
    return [node]


class Token(NamedTuple):
    """A word of an expression and where it begins and ends."""

    kind: str
    text: str
    start: int
    end: int
    value: Any = None


_RESERVED = ("and", "or", "not", "in", "is", "has", "matches")
_FUNCTIONS = ("top", "bottom", "quantile")
_NUMBER = re.compile(r"(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_QUOTED = re.compile(r"`([^`]+)`")
_WORD = re.compile(r"[^\W\d][\w.\-]*")
_PARAMETERS = re.compile(r"\([^()\"'<>`]*\)")
_SIGN = re.compile(r"<=|>=|==|!=|<>|[-<>=()\[\],+*/]")
_FOREIGN = {
    "&&": "'and' in place of &&",
    "&": "'and' in place of &",
    "||": "'or' in place of ||",
    "|": "'or' in place of |",
    "~": "'not' in place of ~",
    "!": "'not' in place of !",
    "**": "+ - * or /",
    "//": "+ - * or /",
    "%": "+ - * or /",
    "^": "+ - * or /",
}
"""Signs of other languages, longest first, and what is expected in their place."""
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=", "=", "<>")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class _Parser:
    """A recursive-descent parser; names are looked up in the schema while they are read."""

    def __init__(self, text: str, schema: FilterSchema, functions: bool = True) -> None:
        self.text, self.schema, self.functions = _checked(text), schema, functions
        self.word = _WORD if functions else re.compile(r"[^\W\d]\w*")
        self.depth = 0
        self.index = 0
        self.tokens: list[Token] = []

    def whole(self, read: Callable[[], Node]) -> Any:
        """The node that the whole text is."""
        if not self.text.strip():
            example = "clipscore > 0.28 and words > 4" if self.functions else "(P + R) / 2"
            raise FilterError(f"it is empty, expected an expression such as {example}")
        self.tokens = list(self._scan())
        node = read()
        if self.next.kind != "end":
            if self.next.text == ")":
                raise self._error("there is no parenthesis that it closes", self.next)
            expected = "and, or, or the end" if self.functions else "an operator such as +, or the end"
            raise self._error(f"unexpected {self.next.text!r}, expected {expected}", self.next)
        return node

    # Tokens

    def _scan(self) -> Iterator[Token]:
        at, text = 0, self.text
        while True:
            at += len(text[at:]) - len(text[at:].lstrip())
            if at >= len(text):
                break
            token = self._token(at)
            yield token
            at = token.end
        end = len(text.rstrip())
        yield Token("end", "", end, end)

    def _token(self, at: int) -> Token:
        text = self.text
        if match := _NUMBER.match(text, at):
            return self._numeral(match)
        if match := _TEXT.match(text, at):
            return Token("text", match[0], at, match.end(), _unescaped(match[0][1:-1]))
        if text[at] == "`" or self.word.match(text, at):
            return self._name(at)
        foreign = next((sign for sign in _FOREIGN if text.startswith(sign, at)), "")
        if foreign and not text.startswith("!=", at):
            raise FilterError(f"expected {_FOREIGN[foreign]}", text, at)
        if match := _SIGN.match(text, at):
            return Token("sign", match[0], at, match.end())
        if text[at] in "\"'":
            raise FilterError(f"the text that begins with {text[at]} has no end", text, at)
        raise FilterError(f"{text[at]!r} is not understood here", text, at)

    def _numeral(self, match: re.Match[str]) -> Token:
        written = match[0].replace("_", "")
        if re.match(r"[\w.]", self.text[match.end() : match.end() + 1]):
            raise FilterError("it begins like a number and is none", self.text, match.start())
        if not math.isfinite(float(written)):
            raise FilterError("the number is too large", self.text, match.start())
        value = int(written) if written.isdecimal() else float(written)
        return Token("number", match[0], match.start(), match.end(), value)

    def _name(self, at: int) -> Token:
        """A reserved word, the name of a function, or a column with its system."""
        text = self.text
        if text[at] != "`":
            match = self.word.match(text, at)
            assert match is not None
            plain = re.match(r"\w+", match[0])
            assert plain is not None
            word, end = plain[0], at + plain.end()
            if word.lower() in _RESERVED and word in (word.lower(), word.upper()):
                return Token("word", word.lower(), at, end)
            if self.functions and word.lower() in _FUNCTIONS and text[end:].lstrip().startswith("("):
                return Token("function", word.lower(), at, end)
        name, end = self._spelled(at)
        if text[at] == "`" and name in self.schema.systems and text.startswith(".", end):
            column, stop = self._spelled(end + 1)
            return self._of_system(column, name, at, stop)
        if text.startswith("@", end):
            system, stop = self._system(end + 1)
            return self._of_system(name, system, at, stop)
        return self._column(name, at, end)

    def _spelled(self, at: int) -> tuple[str, int]:
        """The name that begins here, with its parameters, and where it ends."""
        if match := _QUOTED.match(self.text, at):
            return match[1], match.end()
        match = self.word.match(self.text, at)
        if match is None:
            what = "the name that begins with ` has no end" if self.text[at : at + 1] == "`" else "expected a name"
            raise FilterError(what, self.text, at)
        end = at + len(match[0].rstrip("-."))
        if parameters := _PARAMETERS.match(self.text, end):
            end = parameters.end()
        return self.text[at:end], end

    def _column(self, name: str, at: int, end: int) -> Token:
        schema = self.schema
        try:
            key = schema.resolve(name)
            return Token("column", self.text[at:end], at, end, ColumnNode(at, end, key, schema.columns[key]))
        except UnknownKey as error:
            system = next((one for one in schema.systems if name.startswith(f"{one}.")), "")
            if system:
                return self._of_system(name[len(system) + 1 :], system, at, end)
            return Token("unknown", self.text[at:end], at, end, f"{error}{self._subtraction(name, at)}")

    def _subtraction(self, name: str, at: int) -> str:
        """A hint where a hyphen in an unknown name may be meant as a minus."""
        before, _, after = name.partition("-")
        try:
            return f"; a difference is written with spaces: {before} - {after}" if self.schema.resolve(before) else ""
        except UnknownKey:
            return ""

    def _system(self, at: int) -> tuple[str, int]:
        """The system after ``@``, and where its name ends."""
        quoted_name, names = _QUOTED.match(self.text, at), self.schema.systems
        match = quoted_name or re.compile(r"[\w.\-]*").match(self.text, at)
        assert match is not None
        name = match[1] if quoted_name else match[0].rstrip("-.")
        if name not in names:
            there = choices_for(name, names) if names else "; there is one run alone"
            raise FilterError(f"no system {name[:60]!r}{there}", self.text, at)
        return name, match.end() if quoted_name else at + len(name)

    def _of_system(self, name: str, system: str, at: int, end: int) -> Token:
        columns = self.schema.systems[system]
        try:
            key = FilterSchema(columns, self.schema.labels).resolve(name)
        except UnknownKey as error:
            raise FilterError(f"{system}: {error}", self.text, at) from None
        return Token("column", self.text[at:end], at, end, ColumnNode(at, end, key, columns[key], system))

    # Grammar

    @property
    def next(self) -> Token:
        return self.tokens[self.index]

    @property
    def last(self) -> Token:
        return self.tokens[self.index - 1]

    def take(self, kind: str, *texts: str) -> Token | None:
        """The next token, if it is one of these."""
        token = self.next
        if token.kind == kind and token.text in texts:
            self.index += 1
            return token
        return None

    def need(self, sign: str, after: str) -> None:
        if self.take("sign", sign) is None:
            raise self._error(f"expected {sign!r} {after}, found {self._shown()}", self.next)

    def _shown(self) -> str:
        return repr(self.next.text[:24]) if self.next.kind != "end" else "the end"

    def _error(self, message: str, where: Token | Node) -> FilterError:
        return FilterError(message, self.text, where.start)

    def either(self) -> Node:
        return self._joined("or", lambda: self._joined("and", self._negated))

    def _joined(self, word: str, read: Callable[[], Node]) -> Node:
        start, parts = self.next.start, [read()]
        while self.take("word", word):
            parts.append(read())
        if len(parts) == 1:
            return parts[0]
        conditions = tuple(map(self._condition, parts))
        return Junction(start, self.last.end, word, conditions)

    def _negated(self) -> Node:
        if token := self.take("word", "not"):
            with_depth = self._deeper(self._negated)
            return Negation(token.start, self.last.end, self._condition(with_depth))
        return self._comparison()

    def _deeper(self, read: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._error(f"it is nested more than {DEEPEST} deep", self.last)
        node = read()
        self.depth -= 1
        return node

    def _condition(self, node: Node) -> ConditionNode:
        if isinstance(node, ColumnNode) and node.column.kind == "truth":
            return Holds(node.start, node.end, node)
        if not isinstance(node, CONDITIONS):
            raise self.no_condition(node)
        return node

    def no_condition(self, node: Node) -> FilterError:
        """The error for a number or a text where something must hold or fail."""
        return self._error("expected a comparison such as clipscore > 0.28 here", node)

    def _comparison(self) -> Node:
        first = left = self.sum()
        links: list[ConditionNode] = []
        while token := self.take("sign", *_COMPARISONS):
            right = self.sum()
            links.append(self._compare({"=": "==", "<>": "!="}.get(token.text, token.text), left, right))
            left = right
        if links:
            return links[0] if len(links) == 1 else Chain(first.start, self.last.end, tuple(links))
        negated = self.take("word", "not") is not None
        node = self._tested(first)
        if node is None and negated:
            raise self._error(f"expected in, has or matches after 'not', found {self._shown()}", self.next)
        if node is None:
            return self._condition(first) if isinstance(first, ColumnNode) and first.column.kind == "truth" else first
        return Negation(node.start, node.end, node) if negated else node

    def _tested(self, left: Node) -> ConditionNode | None:
        """What a word says of a value: ``in``, ``has``, ``matches``, ``is``."""
        if self.take("word", "in"):
            return self._contained(left)
        if token := self.take("word", "has", "matches"):
            return self._text_test(left, token)
        if self.take("word", "is"):
            return self._missing(left)
        return None

    def _contained(self, left: Node) -> ConditionNode:
        if isinstance(left, TextLiteral) and self.next.kind == "column":
            self.index += 1
            return self._part(left, self.last.value)
        close = {"(": ")", "[": "]"}.get(self.next.text)
        if self.next.kind != "sign" or close is None:
            expected = 'a list after \'in\', such as ("7", "12"), or a column of texts'
            raise self._error(f"expected {expected}, found {self._shown()}", self.next)
        self.index += 1
        operand = self._operand(left)
        members: list[Operand] = []
        while not (members and self.next.text == close):
            members.append(self._member(operand))
            if not self.take("sign", ","):
                break
        self.need(close, "after the list")
        if isinstance(left, TextLiteral) and isinstance(members[0], ColumnNode) and len(members) == 1:
            return self._part(left, members[0])
        if lists := [member for member in members if _kind(member) == "texts"]:
            raise self._error("expected a text in quotation marks", lists[0])
        return Member(left.start, self.last.end, operand, tuple(members))

    def _part(self, text: TextLiteral, column: ColumnNode) -> ConditionNode:
        """``"dog" in caption``."""
        if column.column.kind not in ("text", "texts"):
            raise self._error(f"{column.name} holds no texts", column)
        return TextTest(text.start, self.last.end, "exactly", column, text.value)

    def _member(self, operand: Operand) -> Operand:
        if self.next.text in (")", "]"):
            raise self._error('expected a list after \'in\', such as ("7", "12"), found an empty one', self.next)
        node = self._operand(self.sum())
        texts = _kind(operand) != "number"
        if (_kind(node) != "number") != texts:
            expected = "a text in quotation marks" if texts else "a number"
            hint = f': "{self.text[node.start : node.end]}"' if texts and isinstance(node, NumberLiteral) else ""
            raise self._error(f"expected {expected}{hint}", node)
        if _kind(operand) == "texts" and not isinstance(node, TextLiteral):
            raise self._error("expected a text in quotation marks", node)
        return node

    def _text_test(self, left: Node, token: Token) -> ConditionNode:
        if not isinstance(left, ColumnNode):
            raise self._error(f"expected a column of texts before {token.text!r}", left)
        if left.column.kind not in ("text", "texts"):
            raise self._error(f"{left.name} holds no texts, expected < or > and a number", token)
        value = self.next
        if value.kind != "text":
            raise self._error(f'expected a text after {token.text!r}, such as "dog", found {self._shown()}', value)
        self.index += 1
        if token.text == "matches":
            self._check_pattern(value)
        return TextTest(left.start, value.end, token.text, left, value.value)

    def _check_pattern(self, token: Token) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            pc.match_substring_regex(pa.array([""]), token.value)
        except pa.ArrowInvalid as error:
            why = one_line(error, 120).removeprefix("Invalid regular expression: ")
            raise self._error(f"no regular expression: {why}", token) from None

    def _missing(self, left: Node) -> ConditionNode:
        inverse = self.take("word", "not") is not None
        token = self.next
        word = self.text[token.start : token.end].lower()
        if word not in ("missing", "present"):
            raise self._error(f"expected missing, not missing or present after 'is', found {self._shown()}", token)
        self.index += 1
        node = Missing(left.start, token.end, self._operand(left))
        return Negation(left.start, token.end, node) if (word == "present") != inverse else node

    def _operand(self, node: Node) -> Operand:
        """A number or a text, not a condition."""
        if not isinstance(node, (NumberLiteral, TextLiteral, ColumnNode, Arithmetic, Quantile)):
            raise self._error("expected a number or a text here, found a condition", node)
        return node

    def _compare(self, sign: str, first: Node, second: Node) -> ConditionNode:
        if truth := self._compared_truth(sign, first, second):
            return truth
        left, right = self._operand(first), self._operand(second)
        kinds = [_kind(left), _kind(right)]
        if "number" in kinds and kinds != ["number", "number"]:
            left, right = (self._quoted_name(one) for one in (left, right))
            text, number = (left, right) if _kind(right) == "number" else (right, left)
            if _kind(text) != "number":
                bare = isinstance(number, NumberLiteral) and isinstance(text, ColumnNode)
                hint = f', expected quotation marks: "{self.text[number.start : number.end]}"' if bare else ""
                raise self._error(f"a number and a text do not compare{hint}", right)
        if "texts" in kinds and sign not in ("==", "!="):
            name = next(one.name for one in (left, right) if isinstance(one, ColumnNode) and _kind(one) == "texts")
            raise self._error(f"{name} has no order, expected has, matches, == or !=", right)
        node = Compare(left.start, right.end, "==" if "texts" in kinds else sign, left, right)
        return Negation(left.start, right.end, node) if "texts" in kinds and sign == "!=" else node

    def _compared_truth(self, sign: str, first: Node, second: Node) -> ConditionNode | None:
        """``nsfw == true`` or ``nsfw != false``."""
        for column, other in ((first, second), (second, first)):
            truth = column.operand if isinstance(column, Holds) else column
            if isinstance(truth, ColumnNode) and truth.column.kind == "truth" and isinstance(other, _TruthWord):
                node = Holds(first.start, second.end, truth)
                if sign not in ("==", "!="):
                    raise self._error(f"{truth.name} is true or false and has no order, expected == or !=", truth)
                same = (sign == "==") == other.value
                return node if same else Negation(first.start, second.end, node)
        return None

    def _quoted_name(self, operand: Operand) -> Operand:
        """A column whose name somebody put between quotation marks, where a number is expected."""
        if isinstance(operand, TextLiteral):
            try:
                key = self.schema.resolve(operand.value)
            except UnknownKey as error:
                raise self._error(f"a number and a text do not compare; {error}", operand) from None
            return ColumnNode(operand.start, operand.end, key, self.schema.columns[key])
        return operand

    def sum(self) -> Node:
        return self._chain(("+", "-"), lambda: self._chain(("*", "/"), self._signed))

    def _chain(self, signs: tuple[str, ...], read: Callable[[], Node]) -> Node:
        first = read()
        if not (self.next.kind == "sign" and self.next.text in signs):
            return first
        used, operands = [""], [self.number(first)]
        while token := self.take("sign", *signs):
            used.append(token.text)
            operands.append(self.number(read()))
            if len(operands) > MOST_TERMS:
                raise self._error(f"it joins more than {MOST_TERMS} numbers", token)
        return Arithmetic(first.start, self.last.end, tuple(used), tuple(operands))

    def _signed(self) -> Node:
        if token := self.take("sign", "-", "+"):
            operand = self.number(self._deeper(self._signed))
            if token.text == "+":
                return operand
            if isinstance(operand, NumberLiteral):
                return NumberLiteral(token.start, operand.end, -operand.value)
            return Arithmetic(token.start, operand.end, ("-",), (operand,))
        return self._atom()

    def number(self, node: Node) -> NumberNode:
        """A number, not a text or a condition."""
        if isinstance(node, TextLiteral):
            named = self._quoted_name(node)
            assert not isinstance(named, TextLiteral)
            node = named
        if isinstance(node, Holds):
            node = node.operand
        if isinstance(node, ColumnNode) and node.column.kind in ("text", "texts"):
            raise self._error(f"{node.name} holds texts, expected a number", node)
        if not isinstance(node, (NumberLiteral, ColumnNode, Arithmetic, Quantile)):
            raise self._error("expected a number here, found a condition", node)
        return node

    def _atom(self) -> Node:
        token = self.next
        self.index += 1
        if token.kind == "number":
            return NumberLiteral(token.start, token.end, token.value)
        if token.kind == "text":
            return TextLiteral(token.start, token.end, token.value)
        if token.kind == "column":
            column: ColumnNode = token.value
            return column
        if token.kind == "function":
            return self._function(token)
        if token.kind == "sign" and token.text == "(":
            node = self._deeper(self.either)
            self.need(")", "after the parenthesis")
            return node if isinstance(node, CONDITIONS) else replace(node, start=token.start, end=self.last.end)
        self.index -= 1
        if token.kind == "unknown":
            if token.text.lower() in ("true", "false"):
                self.index += 1
                return _TruthWord(token.start, token.end, token.text.lower() == "true")
            raise UnknownName(str(token.value), self.text, token.start)
        raise self._error(f"expected a column, a number or a text, found {self._shown()}", token)

    def _function(self, name: Token) -> Node:
        """``top(x, 0.3)``, ``bottom`` or ``quantile``."""
        example = f"{name.text}(cider, 0.3)"
        self.need("(", f"after {name.text!r}")
        operand = self.number(self._deeper(self.sum))
        if not self.take("sign", ","):
            raise self._error(f"expected {name.text}(metric, share), such as {example}", name)
        share = self.sum()
        self.need(")", f"after {example!r}"[:-2])
        if any(isinstance(part, Quantile) for part in walk(operand)):
            raise self._error("a quantile cannot be one of another quantile", operand)
        if not _columns([operand]):
            raise self._error("expected a metric or a column, found a number alone", operand)
        if not isinstance(share, NumberLiteral) or not 0 < share.value < 1:
            raise self._error(f"expected a share between 0 and 1, such as {example}", share)
        start, end = name.start, self.last.end
        highest = name.text == "top"
        node = Quantile(start, end, self.text[start:end], operand, share.value, highest)
        if name.text == "quantile":
            return node
        return Compare(start, end, ">=" if highest else "<=", operand, node)


@dataclass(frozen=True)
class _TruthWord(Node):
    """``true`` or ``false``, beside a column that is one of them."""

    value: bool


def _checked(text: str) -> str:
    """The text, if it is one that can be read."""
    if not isinstance(text, str):
        raise InputError(f"filter: {type(text).__name__}, expected a text such as 'clipscore > 0.28 and words > 4'")
    if len(text) > LONGEST:
        raise FilterError(f"it has {len(text):,} characters, expected at most {LONGEST:,}", text, LONGEST)
    surrogate = re.search("[\ud800-\udfff]", text)
    if surrogate:
        raise FilterError("half a character (a lone surrogate)", text, surrogate.start())
    return text


def _unescaped(text: str) -> str:
    r"""A text between quotation marks: a backslash serves quotation marks, itself, and ``\n``, ``\r``, ``\t``."""
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1] if match[1] in "\"'\\" else match[0]), text)


def _kind(operand: Operand) -> str:
    if isinstance(operand, TextLiteral):
        return "text"
    if isinstance(operand, ColumnNode):
        return "number" if operand.column.kind == "truth" else operand.column.kind
    return "number"


# From tree to SQL


@dataclass
class _Compiler:
    """Writes nodes as SQL and gathers their parameters. Every value of the expression is a parameter."""

    thresholds: Mapping[str, float]
    prefix: str = "f"
    parameters: dict[str, Any] = field(default_factory=dict)

    def bind(self, value: float | str | None) -> str:
        """A parameter of this value."""
        name = f"{self.prefix}{len(self.parameters)}"
        self.parameters[name] = value
        return f"${name}"

    def condition(self, node: ConditionNode) -> str:
        """SQL that is true, false or null."""
        if isinstance(node, Junction):
            return f" {node.word.upper()} ".join(f"({self.condition(part)})" for part in node.parts)
        if isinstance(node, Chain):
            return " AND ".join(f"({self.condition(link)})" for link in node.links)
        if isinstance(node, Negation):
            return f"NOT ({self.condition(node.part)})"
        if isinstance(node, Holds):
            return f"({node.operand.column.sql})"
        if isinstance(node, Missing):
            sql = self.value(node.operand)
            return f"coalesce(len({sql}), 0) = 0" if _kind(node.operand) == "texts" else f"({sql}) IS NULL"
        if isinstance(node, TextTest):
            return self._text_test(node)
        if isinstance(node, Member):
            return self._member(node)
        return self._comparison(node)

    def _comparison(self, node: Compare) -> str:
        kinds = [_kind(node.left), _kind(node.right)]
        left, right = self.value(node.left), self.value(node.right)
        if kinds == ["texts", "texts"]:
            return f"CASE WHEN len({left}) > 0 AND len({right}) > 0 THEN list_has_any({left}, {right}) END"
        if "texts" in kinds:
            texts, other = (left, right) if kinds[0] == "texts" else (right, left)
            return f"CASE WHEN len({texts}) > 0 THEN list_contains({texts}, {other}) END"
        return f"{left} {'=' if node.sign == '==' else '<>' if node.sign == '!=' else node.sign} {right}"

    def _member(self, node: Member) -> str:
        operand = self.value(node.operand)
        members = [self.value(member) for member in node.members]
        if _kind(node.operand) == "texts":
            return f"CASE WHEN len({operand}) > 0 THEN list_has_any({operand}, [{', '.join(members)}]) END"
        # DuckDB casts all members to one type, in which a large whole number would not be itself.
        whole = [isinstance(one, NumberLiteral) and isinstance(one.bound, int) for one in node.members]
        groups = [[sql for sql, own in zip(members, whole, strict=True) if own is kind] for kind in (True, False)]
        return " OR ".join(f"{operand} IN ({', '.join(group)})" for group in groups if group)

    def _text_test(self, node: TextTest) -> str:
        value = self.bind(node.value)
        test = {
            "has": f"contains(lower({{}}), lower({value}))",
            "exactly": f"contains({{}}, {value})",
            "matches": f"regexp_matches({{}}, {value})",
        }[node.kind]
        sql = node.operand.column.sql
        if _kind(node.operand) == "text":
            return test.format(sql)
        if node.kind == "has" and (folded := node.operand.column.folded) and "\n" not in node.value:
            return f"CASE WHEN len({sql}) > 0 THEN contains({folded}, lower({value})) END"
        several = f"list_bool_or([{test.format('one')} FOR one IN {sql}])"
        return f"CASE WHEN len({sql}) = 1 THEN {test.format(f'{sql}[1]')} ELSE {several} END"

    def value(self, node: Operand) -> str:
        """SQL of a number or a text, null where there is none."""
        if isinstance(node, TextLiteral):
            return self.bind(node.value)
        if isinstance(node, NumberLiteral):
            return self.bind(node.bound)
        if isinstance(node, ColumnNode):
            return f"CAST({node.column.sql} AS INTEGER)" if node.column.kind == "truth" else node.column.sql
        if isinstance(node, Quantile):
            threshold = self.thresholds[node.text]
            return self.bind(None if math.isnan(threshold) else threshold)
        result = self._double(node)
        return f"CASE WHEN isfinite({result}) THEN {result} END"

    def _double(self, node: NumberNode) -> str:
        """SQL of a number of 64 bits. Where arithmetic has no finite result, it is infinite or NaN."""
        if not isinstance(node, Arithmetic):
            return f"CAST({self.value(node)} AS DOUBLE)"
        parts = []
        for index, (sign, operand) in enumerate(zip(node.signs, node.operands, strict=True)):
            sql = self._double(operand)
            if sign == "/" and isinstance(operand, Arithmetic):
                # What divides by an infinite number is 0, and must not be: the remainder by infinity is the number
                # itself where it is finite, and NaN where it is not.
                sql = f"({sql}) % CAST('inf' AS DOUBLE)"
            sql = f"({sql})" if isinstance(operand, Arithmetic) else sql
            parts.append(f"{sign} {sql}" if index else f"{sign}{sql}")
        return " ".join(parts)


# With DuckDB


def connect(database: str = ":memory:", **config: Any) -> Any:
    """A DuckDB connection that loads no extension and sees no Python variable; ``config`` has further options."""
    import tempfile
    from pathlib import Path

    options = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "temp_directory": str(Path(tempfile.gettempdir()) / "captious-duckdb"),
    }
    locked = config.pop("lock_configuration", "false")
    connection = require("duckdb", "query").connect(database, config={**options, **config})
    connection.execute("SET enable_progress_bar = false")  # DuckDB would draw one wherever Python is interactive
    connection.execute(f"SET lock_configuration = {locked}")
    return connection


PART = "captious.part"
"""The column of an attached view that holds the address of the file."""


def attach(connection: Any, name: str, files: Sequence[str], types: Mapping[str, str] | None = None) -> dict[str, str]:
    """Make Parquet files, on a disk or in an object store, a view; gives the types of its columns.

    A column that is missing from some files is null there. With ``types`` the view has these columns with these types.
    """
    if files and is_remote(files[0]):
        system, _ = require("fsspec", "remote").core.url_to_fs(files[0])
        protocols = [system.protocol] if isinstance(system.protocol, str) else list(system.protocol)
        if not any(connection.filesystem_is_registered(one) for one in protocols):
            connection.register_filesystem(system)
    literal = ", ".join("'" + re.sub(r"[*?[]", r"[\g<0>]", file).replace("'", "''") + "'" for file in files)
    source = f"read_parquet([{literal}], union_by_name = true, filename = '{PART}')"
    there = column_types(connection.sql(f"SELECT * FROM {source}"))
    columns = [PART, *([one for one in there if one != PART] if types is None else types)]
    casts = [
        quoted(one)
        if types is None or one == PART
        else f"CAST({quoted(one) if one in there else 'NULL'} AS {types[one]}) AS {quoted(one)}"
        for one in columns
    ]
    connection.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS SELECT {', '.join(casts)} FROM {source}")
    return {one: kind for one, kind in there.items() if one != PART}


GATHER = 1 << 18
"""Values that are sorted in memory at a time. Of more, counts in ranges tell first where the quantiles are."""
RANGES = 4096
ROUNDS = 6
"""How often ranges are divided; what is left then is sorted by DuckDB."""


def find_thresholds(connection: Any, source: str, quantiles: Sequence[Quantile]) -> dict[str, float]:
    """The values of quantiles by their text, exact and in bounded memory; NaN where no item has a value.

    ``source`` is what stands after FROM in SQL, written by captious.
    """
    operands: dict[NumberNode, list[Quantile]] = {}
    for quantile in quantiles:
        operands.setdefault(quantile.operand, []).append(quantile)
    thresholds: dict[str, float] = {}
    for operand, group in operands.items():
        compiler = _Compiler({}, "q")
        values = _Values(connection, f"SELECT CAST({compiler.value(operand)} AS DOUBLE) AS v FROM {source}", compiler)
        number, low, high = values.ask("count(v), min(v), max(v)").fetchall()[0]
        ranks = [quantile.rank(number) for quantile in group]
        known = values.at(ranks, number, low, high) if number else dict.fromkeys(ranks, math.nan)
        thresholds |= {quantile.text: known[rank] + 0.0 for quantile, rank in zip(group, ranks, strict=True)}
    return thresholds


@dataclass(frozen=True)
class _Values:
    """A column of numbers, of which some are wanted by their index in ascending order."""

    connection: Any
    sql: str
    compiler: _Compiler

    def ask(self, columns: str, rest: str = "", **parameters: float) -> Any:
        sql = f"SELECT {columns} FROM ({self.sql}) {rest}"
        return self.connection.execute(sql, {**self.compiler.parameters, **parameters})

    def at(self, ranks: Sequence[int], number: int, low: float, high: float, rounds: int = ROUNDS) -> dict[int, float]:
        """The values at these indices among those from ``low`` to ``high``, of which there are so many."""
        within, ends, width = "WHERE v BETWEEN $low AND $high", {"low": low, "high": high}, high - low
        if number <= GATHER:
            gathered = self.ask("v", f"{within} ORDER BY v", **ends).fetchnumpy()["v"]
            return {rank: float(gathered[rank]) for rank in ranks}
        if not rounds or not math.isfinite(width):
            # The value at an index k of n is the quantile (k + 1/2) / n, whatever the rounding.
            shares = [(rank + 0.5) / number for rank in ranks]
            values = self.ask(f"quantile_disc(v, {shares})", within, **ends).fetchall()[0][0]
            return dict(zip(ranks, values, strict=True))
        # The number of a range rises with the value, so the values of a range are those between its ends.
        columns = f"floor((v - $low) / $width * {RANGES}) AS range, count(*), min(v), max(v)"
        found: dict[int, float] = {}
        narrow: list[_ValueRange] = []
        start, left = 0, sorted(set(ranks))
        counts = self.ask(columns, f"{within} GROUP BY range ORDER BY range", **ends, width=width).fetchall()
        for _, size, first, last in counts:
            inside = [rank for rank in left if start <= rank < start + size]
            if first == last:
                found |= dict.fromkeys(inside, first)
            elif inside and size <= GATHER:
                narrow.append(_ValueRange(start, size, first, last, inside))
            elif inside:
                inner = self.at([rank - start for rank in inside], size, first, last, rounds - 1)
                found |= {rank + start: value for rank, value in inner.items()}
            start += size
        for together in _by_size(narrow):
            found |= self._gathered(together)
        return found

    def _gathered(self, ranges: Sequence[_ValueRange]) -> dict[int, float]:
        """The values that are wanted from ranges, ascending ones, which one query sorts."""
        ends = {f"{name}{index}": end for index, one in enumerate(ranges) for name, end in one.ends.items()}
        within = " OR ".join(f"v BETWEEN $low{index} AND $high{index}" for index in range(len(ranges)))
        values = self.ask("v", f"WHERE {within} ORDER BY v", **ends).fetchnumpy()["v"]
        found: dict[int, float] = {}
        before = 0
        for one in ranges:
            found |= {rank: float(values[before + rank - one.start]) for rank in one.ranks}
            before += one.size
        return found


class _ValueRange(NamedTuple):
    """The values between two, inclusive: how many there are, the index of the first, and which are wanted."""

    start: int
    size: int
    low: float
    high: float
    ranks: Sequence[int]

    @property
    def ends(self) -> dict[str, float]:
        return {"low": self.low, "high": self.high}


def _by_size(ranges: Iterable[_ValueRange]) -> Iterator[list[_ValueRange]]:
    """Ranges in groups that have as many values as may be sorted at a time."""
    group: list[_ValueRange] = []
    for one in ranges:
        if group and sum(other.size for other in group) + one.size > GATHER:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def matching_rows(source: pa.Table | Sequence[str], text: str, labels: Mapping[str, str]) -> Bools:
    """Whether an expression holds, for every item of an Arrow table or of these Parquet files."""
    import numpy as np

    connection = connect()
    try:
        if isinstance(source, (list, tuple)):
            types = attach(connection, "items", source)
        else:
            connection.register("items", source)
            types = column_types(connection.table("items"))
        filter = parse_filter(text, FilterSchema(run_columns(types, labels), labels))
        condition = filter.condition(find_thresholds(connection, "items", filter.quantiles))
        sql = f"SELECT coalesce({condition.sql}, false) AS passes FROM items"
        passes = connection.execute(sql, condition.parameters).fetchnumpy()["passes"]
        return np.asarray(passes, dtype=np.bool_)
    finally:
        connection.close()


@dataclass(frozen=True)
class ClauseCount:
    """One of the conditions that all must hold, and how many items it keeps and drops."""

    text: str
    holds: int
    """Items that pass it, whatever the other clauses say."""
    fails: int
    unknown: int
    """Items without a value that it needs."""
    dropped: int
    """Items that pass all clauses before it and not this one."""
    alone: int
    """Items that pass all other clauses and not this one."""


def count_clauses(filter: Filter, counts: Mapping[str, int]) -> tuple[ClauseCount, ...]:
    """The counts of each clause, from how many items have which `Filter.outcome_code`.

    >>> columns = {"a": FilterColumn("number", "a"), "b": FilterColumn("number", "b")}
    >>> filter = parse_filter("a > 1 and b > 1", FilterSchema(columns))
    >>> count_clauses(filter, {"11": 5, "10": 2, "0?": 1})[1]
    ClauseCount(text='b > 1', holds=5, fails=2, unknown=1, dropped=2, alone=2)
    """

    def total(test: Callable[[str], bool]) -> int:
        return sum(number for code, number in counts.items() if test(code))

    return tuple(
        ClauseCount(
            clause.text,
            total(lambda code, at=index: code[at] == "1"),  # type: ignore[misc]
            total(lambda code, at=index: code[at] == "0"),  # type: ignore[misc]
            total(lambda code, at=index: code[at] == "?"),  # type: ignore[misc]
            total(lambda code, at=index: code[at] != "1" and set(code[:at]) <= {"1"}),  # type: ignore[misc]
            total(lambda code, at=index: code[at] != "1" and set(code[:at] + code[at + 1 :]) <= {"1"}),  # type: ignore[misc]
        )
        for index, clause in enumerate(filter.clauses)
    )
