"""Specs: the text form of a dataclass with parameters, such as ``cider(idf=refs)`` or ``lstm(stack=4)``."""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from captious._core.numbers import parse_number, parse_whole
from captious.errors import InputError, format_suggestion

_CALL = re.compile(r"\s*([A-Za-z][\w-]*\+*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_PARAMETER = re.compile(r"""\s*(?:(\w+)\s*=\s*)?("[^"]*"|'[^']*'|[^,"']*?)\s*(?:,|$)""")


# The largest number that a parameter may be.
LARGEST = 1e15


def quote_short(text: str) -> str:
    """Quote a spec for a message, shortened to 120 characters."""
    return repr(text if len(text) <= 120 else f"{text[:119]}…")


def split_specs(text: str) -> list[str]:
    """Split a list at its commas, except those in parentheses or quotes.

    >>> split_specs("bleu(n=4,tokenizer=13a), cider")
    ['bleu(n=4,tokenizer=13a)', 'cider']
    """
    parts, depth, quote, start = [], 0, "", 0
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def parse_spec(text: str, what: str, example: str) -> tuple[str, dict[str, str]]:
    """Return the name and the parameters of a spec; ``what`` and ``example`` are used in error messages.

    A first value without a name has the empty string as its key.

    >>> parse_spec("lstm(stack=4)", "classifier", "lstm"), parse_spec("bleu(4)", "metric", "bleu")
    (('lstm', {'stack': '4'}), ('bleu', {'': '4'}))
    """
    match = _CALL.fullmatch(text)
    if not match:
        raise InputError(f"cannot read the {what} {quote_short(text)}, expected a name such as {example}")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InputError(f"cannot read the {what} {ascii(text)[:80]}: it contains half a character, expected UTF-8")
    inside, values, position = match[2] or "", dict[str, str](), 0
    while inside[position:].strip():
        parameter = _PARAMETER.match(inside, position)
        key = parameter[1] or "" if parameter else ""
        if not parameter or (not key and (values or not parameter[2])):
            raise InputError(f"cannot read the parameters of {quote_short(text)}, expected name(key=value,key=value)")
        if key in values:
            raise InputError(f"{quote_short(text)} sets {key} twice")
        values[key] = parameter[2].strip("\"'")
        position = parameter.end()
    return match[1].lower(), values


# Names of the parameter that names a model: each metric has one of them, and errors suggest it for the others.
MODEL_WORDS = {"model", "weights", "encoder", "checkpoint"}


_hints = lru_cache(maxsize=256)(get_type_hints)


def convert_arguments(
    kind: type, values: Mapping[str, str], name: str, omit: Collection[str] = (), main: str = ""
) -> dict[str, Any]:
    """Convert the texts of parameters to the types of a dataclass's fields; fields in ``omit`` cannot be set.

    ``main`` is the parameter that a first value without a name belongs to.
    """
    hints = _hints(kind)
    legal = [field.name for field in fields(kind) if field.name not in omit]
    if "" in values:
        if not main or main in values:
            raise InputError(f"cannot read {name}({values['']},…), expected the name of each parameter: key=value")
        values = {key or main: text for key, text in values.items()}
    for key in values:
        if key not in legal:
            known = ", ".join(legal) or "none"
            hint = f"; did you mean {main!r}?" if {key, main} <= MODEL_WORDS else format_suggestion(key, legal)
            raise InputError(f"{name} has no parameter {key!r}, legal ones: {known}{hint}")
    return {key: _convert_value(text, hints[key], f"{name}({key}={text})") for key, text in values.items()}


def write_spec(value: Any, name: str, always: Collection[str] = ()) -> str:
    """Format a dataclass as a spec: the parameters that differ from their defaults, and those in ``always``."""
    parameters = [
        f"{field.name}={_format_value(getattr(value, field.name))}"
        for field in fields(value)
        if field.name in always or getattr(value, field.name) != field.default
    ]
    return f"{name}({','.join(parameters)})" if parameters else name


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    if '"' in text:
        return f"'{text}'"
    return f'"{text}"' if any(character in text for character in "(),' ") else text


def _convert_value(text: str, hint: Any, where: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        if text.lower() == "none" and type(None) in get_args(hint):
            return None
        hint = next(option for option in get_args(hint) if option is not type(None))
    if get_origin(hint) is Literal:
        choices = {str(choice): choice for choice in get_args(hint)}
        if text not in choices:
            raise InputError(f"{where}: expected one of {', '.join(choices)}{format_suggestion(text, choices)}")
        return choices[text]
    if hint is bool:
        answers = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
        if text.lower() not in answers:
            raise InputError(f"{where}: expected yes or no")
        return answers[text.lower()]
    if hint in (int, float):
        try:
            number = parse_whole(text) if hint is int else parse_number(text)
        except ValueError:
            raise InputError(f"{where}: expected a {'whole ' if hint is int else ''}number") from None
        if not abs(number) <= LARGEST:  # not a number, infinite, or of thousands of digits
            raise InputError(f"{where[:80]}: expected a number from {-LARGEST:g} to {LARGEST:g}")
        return number
    return text
