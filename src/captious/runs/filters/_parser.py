"""A recursive-descent parser from the text of an expression to its syntax tree."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from captious.errors import InputError, UnknownKey, format_choices, format_one_line
from captious.runs.filters.schema import FilterError, FilterSchema, UnknownName
from captious.runs.filters.tree import (
    CONDITIONS,
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
    Node,
    NumberLiteral,
    NumberNode,
    Operand,
    Quantile,
    TextLiteral,
    TextTest,
    TruthWord,
    find_columns,
    get_kind,
    walk,
)

# Longest expression in characters.
LONGEST = 4000
_RESERVED = ("and", "or", "not", "in", "is", "has", "matches")
_FUNCTIONS = ("top", "bottom", "quantile")
_NUMBER = re.compile(r"(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_QUOTED = re.compile(r"`([^`]+)`")
_WORD = re.compile(r"[^\W\d][\w.\-]*")
_PARAMETERS = re.compile(r"\([^()\"'<>`]*\)")
_SIGN = re.compile(r"<=|>=|==|!=|<>|[-<>=()\[\],+*/]")
# Operators of other languages, longest first, and the expected operator.
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
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class Token(NamedTuple):
    """A token of an expression with its start and end."""

    kind: str
    text: str
    start: int
    end: int
    value: Any = None


class Scanner:
    """Splits a text into tokens. ``functions``: whether ``top(…)`` and names with a hyphen or a point are allowed."""

    def __init__(self, text: str, schema: FilterSchema, functions: bool = True) -> None:
        self.text, self.schema, self.functions = _check_text(text), schema, functions
        self.word = _WORD if functions else re.compile(r"[^\W\d]\w*")

    def tokens(self) -> Iterator[Token]:
        """Yield the tokens of the text, and an end token."""
        at, text = 0, self.text
        while True:
            at += len(text[at:]) - len(text[at:].lstrip())
            if at >= len(text):
                break
            token = self._read_token(at)
            yield token
            at = token.end
        end = len(text.rstrip())
        yield Token("end", "", end, end)

    def _read_token(self, at: int) -> Token:
        text = self.text
        if match := _NUMBER.match(text, at):
            return self._read_number(match)
        if match := _TEXT.match(text, at):
            return Token("text", match[0], at, match.end(), _unescape(match[0][1:-1]))
        if text[at] == "`" or self.word.match(text, at):
            return self._read_name(at)
        foreign = next((sign for sign in _FOREIGN if text.startswith(sign, at)), "")
        if foreign and not text.startswith("!=", at):
            raise FilterError(f"expected {_FOREIGN[foreign]}", text, at)
        if match := _SIGN.match(text, at):
            return Token("sign", match[0], at, match.end())
        if text[at] in "\"'":
            raise FilterError(f"the text that begins with {text[at]} has no end", text, at)
        raise FilterError(f"{text[at]!r} is not understood here", text, at)

    def _read_number(self, match: re.Match[str]) -> Token:
        written = match[0].replace("_", "")
        if re.match(r"[\w.]", self.text[match.end() : match.end() + 1]):
            raise FilterError("it begins like a number and is none", self.text, match.start())
        if not math.isfinite(float(written)):
            raise FilterError("the number is too large", self.text, match.start())
        value = int(written) if written.isdecimal() else float(written)
        return Token("number", match[0], match.start(), match.end(), value)

    def _read_name(self, at: int) -> Token:
        """Read a reserved word, the name of a function, or a column with its system."""
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
        name, end = self._split_name(at)
        if text[at] == "`" and name in self.schema.systems and text.startswith(".", end):
            column, stop = self._split_name(end + 1)
            return self._find_system_column(column, name, at, stop)
        if text.startswith("@", end):
            system, stop = self._read_system(end + 1)
            return self._find_system_column(name, system, at, stop)
        return self._find_column(name, at, end)

    def _split_name(self, at: int) -> tuple[str, int]:
        """Return the name that begins here, with its parameters, and its end."""
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

    def _find_column(self, name: str, at: int, end: int) -> Token:
        schema = self.schema
        try:
            key = schema.resolve(name)
            return Token("column", self.text[at:end], at, end, ColumnNode(at, end, key, schema.columns[key]))
        except UnknownKey as error:
            system = next((one for one in schema.systems if name.startswith(f"{one}.")), "")
            if system:
                return self._find_system_column(name[len(system) + 1 :], system, at, end)
            return Token("unknown", self.text[at:end], at, end, f"{error}{self._format_subtraction_hint(name, at)}")

    def _format_subtraction_hint(self, name: str, at: int) -> str:
        """Return a hint if a hyphen in an unknown name may be meant as a minus."""
        before, _, after = name.partition("-")
        try:
            return f"; a difference is written with spaces: {before} - {after}" if self.schema.resolve(before) else ""
        except UnknownKey:
            return ""

    def _read_system(self, at: int) -> tuple[str, int]:
        """Return the system after ``@`` and the end of its name."""
        quoted_name, names = _QUOTED.match(self.text, at), self.schema.systems
        match = quoted_name or re.compile(r"[\w.\-]*").match(self.text, at)
        assert match is not None
        name = match[1] if quoted_name else match[0].rstrip("-.")
        if name not in names:
            hint = format_choices(name, names) if names else "; there is only one run"
            raise FilterError(f"no system {name[:60]!r}{hint}", self.text, at)
        return name, match.end() if quoted_name else at + len(name)

    def _find_system_column(self, name: str, system: str, at: int, end: int) -> Token:
        columns = self.schema.systems[system]
        try:
            key = FilterSchema(columns, self.schema.labels).resolve(name)
        except UnknownKey as error:
            raise FilterError(f"{system}: {error}", self.text, at) from None
        return Token("column", self.text[at:end], at, end, ColumnNode(at, end, key, columns[key], system))


def _check_text(text: str) -> str:
    """Return the text; raise FilterError if it is too long or has a lone surrogate."""
    if not isinstance(text, str):
        raise InputError(f"filter: {type(text).__name__}, expected a text such as 'clipscore > 0.28 and words > 4'")
    if len(text) > LONGEST:
        raise FilterError(f"it has {len(text):,} characters, expected at most {LONGEST:,}", text, LONGEST)
    surrogate = re.search("[\ud800-\udfff]", text)
    if surrogate:
        raise FilterError("half a character (a lone surrogate)", text, surrogate.start())
    return text


def _unescape(text: str) -> str:
    r"""Replace the escapes of a quoted text: quotation marks, backslash, and ``\n``, ``\r``, ``\t``."""
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1] if match[1] in "\"'\\" else match[0]), text)


# Deepest nesting of parentheses, signs and negations.
DEEPEST = 40
# Largest number of terms in a sum or product without parentheses.
MOST_TERMS = 100
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=", "=", "<>")


class Parser:
    """A recursive-descent parser. ``functions``: whether the text is a filter and not a formula."""

    def __init__(self, text: str, schema: FilterSchema, functions: bool = True) -> None:
        self.scanner = Scanner(text, schema, functions)
        self.text, self.schema, self.functions = text, schema, functions
        self.tokens: list[Token] = []
        self.index = 0
        self.depth = 0

    def parse_all(self, read: Callable[[], Node]) -> Any:
        """Parse the whole text with the function ``read``."""
        if not self.text.strip():
            example = "clipscore > 0.28 and words > 4" if self.functions else "(P + R) / 2"
            raise FilterError(f"it is empty, expected an expression such as {example}")
        self.tokens = list(self.scanner.tokens())
        node = read()
        if self.next.kind != "end":
            if self.next.text == ")":
                raise self._make_error("there is no parenthesis that it closes", self.next)
            expected = "and, or, or the end" if self.functions else "an operator such as +, or the end"
            raise self._make_error(f"unexpected {self.next.text!r}, expected {expected}", self.next)
        return node

    @property
    def next(self) -> Token:
        return self.tokens[self.index]

    @property
    def last(self) -> Token:
        return self.tokens[self.index - 1]

    def accept(self, kind: str, *texts: str) -> Token | None:
        """Return the next token and advance, if it is one of these; else None."""
        token = self.next
        if token.kind == kind and token.text in texts:
            self.index += 1
            return token
        return None

    def require(self, sign: str, after: str) -> None:
        if self.accept("sign", sign) is None:
            raise self._make_error(f"expected {sign!r} {after}, found {self._format_next()}", self.next)

    def _format_next(self) -> str:
        return repr(self.next.text[:24]) if self.next.kind != "end" else "the end"

    def _make_error(self, message: str, where: Token | Node) -> FilterError:
        return FilterError(message, self.text, where.start)

    def parse_condition(self) -> Node:
        return self._parse_junction("or", lambda: self._parse_junction("and", self._parse_negation))

    def _parse_junction(self, word: str, read: Callable[[], Node]) -> Node:
        start, parts = self.next.start, [read()]
        while self.accept("word", word):
            parts.append(read())
        if len(parts) == 1:
            return parts[0]
        conditions = tuple(map(self._check_condition, parts))
        return Junction(start, self.last.end, word, conditions)

    def _parse_negation(self) -> Node:
        if token := self.accept("word", "not"):
            operand = self._parse_nested(self._parse_negation)
            return Negation(token.start, self.last.end, self._check_condition(operand))
        return self._parse_comparison()

    def _parse_nested(self, read: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._make_error(f"it is nested more than {DEEPEST} deep", self.last)
        node = read()
        self.depth -= 1
        return node

    def _check_condition(self, node: Node) -> ConditionNode:
        """Return the node as a condition; a true/false column such as ``nsfw`` means ``nsfw == true``."""
        if isinstance(node, ColumnNode) and node.column.kind == "truth":
            return IsTrue(node.start, node.end, node)
        if not isinstance(node, CONDITIONS):
            raise self.make_condition_error(node)
        return node

    def make_condition_error(self, node: Node) -> FilterError:
        """Return the error for a number or a text in place of a condition."""
        return self._make_error("expected a comparison such as clipscore > 0.28 here", node)

    def _parse_comparison(self) -> Node:
        """Parse a chain such as ``0.2 < cider < 2``, a test by a word, or a value, which is returned as it is."""
        first = left = self.parse_sum()
        links: list[ConditionNode] = []
        while token := self.accept("sign", *_COMPARISONS):
            right = self.parse_sum()
            links.append(self._make_comparison({"=": "==", "<>": "!="}.get(token.text, token.text), left, right))
            left = right
        if links:
            return links[0] if len(links) == 1 else Chain(first.start, self.last.end, tuple(links))
        negated = self.accept("word", "not") is not None
        node = self._parse_word_test(first)
        if node is None and negated:
            raise self._make_error(f"expected in, has or matches after 'not', found {self._format_next()}", self.next)
        if node is None:
            return (
                self._check_condition(first)
                if isinstance(first, ColumnNode) and first.column.kind == "truth"
                else first
            )
        return Negation(node.start, node.end, node) if negated else node

    def _parse_word_test(self, left: Node) -> ConditionNode | None:
        """Parse a test by ``in``, ``has``, ``matches`` or ``is``; return None if there is none."""
        if self.accept("word", "in"):
            return self._parse_membership(left)
        if token := self.accept("word", "has", "matches"):
            return self._parse_text_test(left, token)
        if self.accept("word", "is"):
            return self._parse_missing(left)
        return None

    def _parse_membership(self, left: Node) -> ConditionNode:
        if isinstance(left, TextLiteral) and self.next.kind == "column":
            self.index += 1
            return self._make_substring_test(left, self.last.value)
        close = {"(": ")", "[": "]"}.get(self.next.text)
        if self.next.kind != "sign" or close is None:
            expected = 'a list after \'in\', such as ("7", "12"), or a column of texts'
            raise self._make_error(f"expected {expected}, found {self._format_next()}", self.next)
        self.index += 1
        operand = self._check_operand(left)
        members: list[Operand] = []
        while not (members and self.next.text == close):
            members.append(self._parse_member(operand))
            if not self.accept("sign", ","):
                break
        self.require(close, "after the list")
        # "dog" in (caption) is a test for a part of the caption, not for membership in a list of one.
        if isinstance(left, TextLiteral) and isinstance(members[0], ColumnNode) and len(members) == 1:
            return self._make_substring_test(left, members[0])
        if lists := [member for member in members if get_kind(member) == "texts"]:
            raise self._make_error("expected a text in quotation marks", lists[0])
        return Member(left.start, self.last.end, operand, tuple(members))

    def _make_substring_test(self, text: TextLiteral, column: ColumnNode) -> ConditionNode:
        """Return the test ``"dog" in caption``."""
        if column.column.kind not in ("text", "texts"):
            raise self._make_error(f"{column.name} contains no texts", column)
        return TextTest(text.start, self.last.end, "exactly", column, text.value)

    def _parse_member(self, operand: Operand) -> Operand:
        """Parse an entry of a list; it must be of the same kind, number or text, as the operand before ``in``."""
        if self.next.text in (")", "]"):
            raise self._make_error('expected a list after \'in\', such as ("7", "12"), found an empty one', self.next)
        node = self._check_operand(self.parse_sum())
        texts = get_kind(operand) != "number"
        if (get_kind(node) != "number") != texts:
            expected = "a text in quotation marks" if texts else "a number"
            hint = f': "{self.text[node.start : node.end]}"' if texts and isinstance(node, NumberLiteral) else ""
            raise self._make_error(f"expected {expected}{hint}", node)
        if get_kind(operand) == "texts" and not isinstance(node, TextLiteral):
            raise self._make_error("expected a text in quotation marks", node)
        return node

    def _parse_text_test(self, left: Node, token: Token) -> ConditionNode:
        if not isinstance(left, ColumnNode):
            raise self._make_error(f"expected a column of texts before {token.text!r}", left)
        if left.column.kind not in ("text", "texts"):
            raise self._make_error(f"{left.name} contains no texts, expected < or > and a number", token)
        value = self.next
        if value.kind != "text":
            raise self._make_error(
                f'expected a text after {token.text!r}, such as "dog", found {self._format_next()}', value
            )
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
            why = format_one_line(error, 120).removeprefix("Invalid regular expression: ")
            raise self._make_error(f"no regular expression: {why}", token) from None

    def _parse_missing(self, left: Node) -> ConditionNode:
        inverse = self.accept("word", "not") is not None
        token = self.next
        word = self.text[token.start : token.end].lower()
        if word not in ("missing", "present"):
            raise self._make_error(
                f"expected missing, not missing or present after 'is', found {self._format_next()}", token
            )
        self.index += 1
        node = Missing(left.start, token.end, self._check_operand(left))
        return Negation(left.start, token.end, node) if (word == "present") != inverse else node

    def _check_operand(self, node: Node) -> Operand:
        """Return the node if it is a number or a text, not a condition."""
        if not isinstance(node, (NumberLiteral, TextLiteral, ColumnNode, Arithmetic, Quantile)):
            raise self._make_error("expected a number or a text here, found a condition", node)
        return node

    def _make_comparison(self, sign: str, first: Node, second: Node) -> ConditionNode:
        """Return the comparison of two numbers or two texts; raise FilterError for a number and a text."""
        if truth := self._compare_truth(sign, first, second):
            return truth
        left, right = self._check_operand(first), self._check_operand(second)
        kinds = [get_kind(left), get_kind(right)]
        if "number" in kinds and kinds != ["number", "number"]:
            left, right = (self._resolve_quoted_name(one) for one in (left, right))
            text, number = (left, right) if get_kind(right) == "number" else (right, left)
            if get_kind(text) != "number":
                bare = isinstance(number, NumberLiteral) and isinstance(text, ColumnNode)
                hint = f', expected quotation marks: "{self.text[number.start : number.end]}"' if bare else ""
                raise self._make_error(f"a number and a text do not compare{hint}", right)
        if "texts" in kinds and sign not in ("==", "!="):
            name = next(one.name for one in (left, right) if isinstance(one, ColumnNode) and get_kind(one) == "texts")
            raise self._make_error(f"{name} has no order, expected has, matches, == or !=", right)
        # Of a column with several texts, == is true if any text is equal, and != if none is: the negation of ==.
        node = Compare(left.start, right.end, "==" if "texts" in kinds else sign, left, right)
        return Negation(left.start, right.end, node) if "texts" in kinds and sign == "!=" else node

    def _compare_truth(self, sign: str, first: Node, second: Node) -> ConditionNode | None:
        """Return the node of ``nsfw == true`` or ``nsfw != false``, or None."""
        for column, other in ((first, second), (second, first)):
            truth = column.operand if isinstance(column, IsTrue) else column
            if isinstance(truth, ColumnNode) and truth.column.kind == "truth" and isinstance(other, TruthWord):
                node = IsTrue(first.start, second.end, truth)
                if sign not in ("==", "!="):
                    raise self._make_error(f"{truth.name} is true or false and has no order, expected == or !=", truth)
                same = (sign == "==") == other.value
                return node if same else Negation(first.start, second.end, node)
        return None

    def _resolve_quoted_name(self, operand: Operand) -> Operand:
        """Return the column for a name in quotation marks that is used as a number."""
        if isinstance(operand, TextLiteral):
            try:
                key = self.schema.resolve(operand.value)
            except UnknownKey as error:
                raise self._make_error(f"a number and a text do not compare; {error}", operand) from None
            return ColumnNode(operand.start, operand.end, key, self.schema.columns[key])
        return operand

    def parse_sum(self) -> Node:
        return self._parse_chain(("+", "-"), lambda: self._parse_chain(("*", "/"), self._parse_signed))

    def _parse_chain(self, signs: tuple[str, ...], read: Callable[[], Node]) -> Node:
        first = read()
        if not (self.next.kind == "sign" and self.next.text in signs):
            return first
        used, operands = [""], [self.check_number(first)]
        while token := self.accept("sign", *signs):
            used.append(token.text)
            operands.append(self.check_number(read()))
            if len(operands) > MOST_TERMS:
                raise self._make_error(f"it joins more than {MOST_TERMS} numbers", token)
        return Arithmetic(first.start, self.last.end, tuple(used), tuple(operands))

    def _parse_signed(self) -> Node:
        if token := self.accept("sign", "-", "+"):
            operand = self.check_number(self._parse_nested(self._parse_signed))
            if token.text == "+":
                return operand
            if isinstance(operand, NumberLiteral):
                return NumberLiteral(token.start, operand.end, -operand.value)
            return Arithmetic(token.start, operand.end, ("-",), (operand,))
        return self._parse_atom()

    def check_number(self, node: Node) -> NumberNode:
        """Return the node if it is a number, not a text or a condition."""
        if isinstance(node, TextLiteral):
            named = self._resolve_quoted_name(node)
            assert not isinstance(named, TextLiteral)
            node = named
        if isinstance(node, IsTrue):
            node = node.operand
        if isinstance(node, ColumnNode) and node.column.kind in ("text", "texts"):
            raise self._make_error(f"{node.name} contains texts, expected a number", node)
        if not isinstance(node, (NumberLiteral, ColumnNode, Arithmetic, Quantile)):
            raise self._make_error("expected a number here, found a condition", node)
        return node

    def _parse_atom(self) -> Node:
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
            return self._parse_function(token)
        if token.kind == "sign" and token.text == "(":
            node = self._parse_nested(self.parse_condition)
            self.require(")", "after the parenthesis")
            return node if isinstance(node, CONDITIONS) else replace(node, start=token.start, end=self.last.end)
        self.index -= 1
        if token.kind == "unknown":
            if token.text.lower() in ("true", "false"):
                self.index += 1
                return TruthWord(token.start, token.end, token.text.lower() == "true")
            raise UnknownName(str(token.value), self.text, token.start)
        raise self._make_error(f"expected a column, a number or a text, found {self._format_next()}", token)

    def _parse_function(self, name: Token) -> Node:
        """Parse ``top(x, 0.3)``, ``bottom`` or ``quantile``."""
        example = f"{name.text}(cider, 0.3)"
        self.require("(", f"after {name.text!r}")
        operand = self.check_number(self._parse_nested(self.parse_sum))
        if not self.accept("sign", ","):
            raise self._make_error(f"expected {name.text}(metric, share), such as {example}", name)
        share = self.parse_sum()
        self.require(")", f"after '{example[:-1]}'")
        if any(isinstance(part, Quantile) for part in walk(operand)):
            raise self._make_error("a quantile cannot be one of another quantile", operand)
        if not find_columns([operand]):
            raise self._make_error("expected a metric or a column, found only a number", operand)
        if not isinstance(share, NumberLiteral) or not 0 < share.value < 1:
            raise self._make_error(f"expected a share between 0 and 1, such as {example}", share)
        start, end = name.start, self.last.end
        highest = name.text == "top"
        node = Quantile(start, end, self.text[start:end], operand, share.value, highest)
        if name.text == "quantile":
            return node
        return Compare(start, end, ">=" if highest else "<=", operand, node)
