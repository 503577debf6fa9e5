"""Written forms, ``name(parameter=value)``: how metrics, classifiers and backbones are named and print themselves."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from captious.errors import InputError, nearest

T = TypeVar("T")

_FORM = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_PARAMETER = re.compile(r"""\s*(?:(\w+)\s*=\s*)?("[^"]*"|'[^']*'|[^,"'=]+?|(?<==))\s*(?:,|$)""")


def read_form(text: str, example: str) -> tuple[str, dict[str, str]]:
    """Name and parameters of one written form; a first value without a name stands under the empty string.

    >>> read_form("cider(idf=coco)", "bleu"), read_form("Bleu(4)", "bleu")
    (('cider', {'idf': 'coco'}), ('bleu', {'': '4'}))
    """
    match = _FORM.fullmatch(text)
    if not match:
        raise InputError(f"cannot read {text!r}, expected a name such as {example}")
    values: dict[str, str] = {}
    inside, position = match[2] or "", 0
    while inside[position:].strip():
        part = _PARAMETER.match(inside, position)
        key = part[1] or "" if part else ""
        if not part or (not key and values):
            raise InputError(f"cannot read the parameters of {text!r}, expected name(key=value,key=value)")
        if key in values:
            raise InputError(f"{text!r} sets {key} twice")
        values[key] = part[2].strip("\"'")
        position = part.end()
    return match[1].lower(), values


def split_forms(text: str) -> list[str]:
    """The written forms of a list, cut at commas outside of parentheses and quotation marks.

    >>> split_forms("bleu, cider(idf=coco,variant=plain)")
    ['bleu', 'cider(idf=coco,variant=plain)']
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


def build(kind: type[T], name: str, values: Mapping[str, str], main: str = "") -> T:
    """A dataclass from the parameters of its written form; ``main`` is the parameter that may lack its name."""
    hints = get_type_hints(kind)
    legal = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    parameters: dict[str, Any] = {}
    for key, text in values.items():
        if not key and not main:
            raise InputError(f"{name}({text}): expected the name of a parameter, {name}(key={text})")
        key = key or main
        if key not in legal:
            known = ", ".join(legal) or "none"
            raise InputError(f"{name} has no parameter {key!r}, legal ones: {known}{nearest(key, legal)}")
        if key in parameters:
            raise InputError(f"{name}({text}): sets {key} twice")
        parameters[key] = _value(text, hints[key], f"{name}({key}={text})")
    return kind(**parameters)


def write(value: Any, name: str, always: Iterable[str] = ()) -> str:
    """The written form of a dataclass: parameters that differ from their default, and those shown always."""
    parameters = [
        f"{field.name}={_written(getattr(value, field.name))}"
        for field in fields(value)
        if field.name in always or getattr(value, field.name) != field.default
    ]
    return f"{name}({','.join(parameters)})" if parameters else name


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    if '"' in text:
        return f"'{text}'"
    return f'"{text}"' if any(character in text for character in "(),=' ") else text


def _value(text: str, hint: Any, where: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        if text.lower() == "none" and type(None) in get_args(hint):
            return None
        hint = next(option for option in get_args(hint) if option is not type(None))
    if get_origin(hint) is Literal:
        choices = {str(choice): choice for choice in get_args(hint)}
        if text not in choices:
            raise InputError(f"{where}: expected one of {', '.join(choices)}{nearest(text, choices)}")
        return choices[text]
    if hint is bool:
        answers = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
        if text.lower() not in answers:
            raise InputError(f"{where}: expected yes or no")
        return answers[text.lower()]
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            raise InputError(f"{where}: expected a {'whole ' if hint is int else ''}number") from None
    return text
