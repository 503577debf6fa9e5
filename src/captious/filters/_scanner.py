"""The scanner cuts the text of an expression into words; names are looked up in the schema while they are read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from captious.errors import InputError, UnknownKey, choices_for
from captious.filters.schema import FilterError, FilterSchema
from captious.filters.tree import ColumnNode

LONGEST = 4000
"""Characters of an expression."""
_RESERVED = ("and", "or", "not", "in", "is", "has", "matches")
_FUNCTIONS = ("top", "bottom", "quantile")
_NUMBER = re.compile(r"(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
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
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class Token(NamedTuple):
    """A word of an expression and where it begins and ends."""

    kind: str
    text: str
    start: int
    end: int
    value: Any = None


class Scanner:
    """Cuts a text into tokens. ``functions``: whether ``top(…)`` and names with a hyphen or a point are understood."""

    def __init__(self, text: str, schema: FilterSchema, functions: bool = True) -> None:
        self.text, self.schema, self.functions = _checked(text), schema, functions
        self.word = _WORD if functions else re.compile(r"[^\W\d]\w*")

    def tokens(self) -> Iterator[Token]:
        """The words of the text, and an end."""
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
