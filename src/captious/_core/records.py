"""Conversion of TOML and JSON to dataclasses: a key is a field, and its value must have the field's type.

`record` reads tables that a person wrote; a mistake is reported in one line with the file, the key, the value and
the expected form, which a field declares in its metadata (`rule`). `from_json` reads what `json.dumps` wrote of our own
dataclasses.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from captious._core.files import decode_utf8, read_regular
from captious.errors import InputError, format_suggestion

T = TypeVar("T")


def rule(
    expected: str = "", low: float | None = None, high: float | None = None, hidden: bool = False
) -> dict[str, Any]:
    """Return the metadata of a field: the expected value in words, its bounds, and whether files may not set it."""
    return {"expected": expected, "low": low, "high": high, "hidden": hidden}


def read_text(path: Path, what: str, missing: str = "") -> str:
    """Read a text file that a person wrote; ``missing`` ends the message if there is no such file."""
    try:
        content = read_regular(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such {what}{missing}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    return decode_utf8(content, str(path))


def parse_toml(text: str, where: str, what: str) -> dict[str, Any]:
    """Parse a TOML text into a table."""
    parser = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table: dict[str, Any] = parser.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else "it is nested too deeply"
        raise InputError(f"{where}: not a {what} in TOML ({reason})") from None
    return table


def parse_record(kind: type[T], table: Mapping[str, Any], where: str, **given: Any) -> T:
    """Build a dataclass from the keys of a table; ``given`` are fields that the caller sets, whatever the table says.

    A field that is a dataclass is read from a nested table, a tuple of dataclasses from a list of tables. A field
    without a default is required and must not be empty.

    >>> from dataclasses import dataclass, field
    >>> @dataclass(frozen=True)
    ... class Scale:
    ...     points: int = field(metadata=rule(low=2, high=9))
    >>> parse_record(Scale, {"points": 5}, "study.toml")
    Scale(points=5)
    >>> parse_record(Scale, {"points": 1}, "study.toml")
    Traceback (most recent call last):
    captious.errors.InputError: study.toml: points = 1, expected a number from 2 to 9
    """
    known = {one.name: one for one in fields(kind) if not one.metadata.get("hidden")}  # type: ignore[arg-type]
    hints = _get_hints(kind)  # type: ignore[arg-type]
    for name in table:
        if name not in known:
            shown = name if name.isprintable() else ascii(name)
            raise InputError(
                f"{where}: unknown key {shown[:60]}, known: {', '.join(known)}{format_suggestion(name, known)}"
            )
    values = {
        name: _convert_value(known[name], value, hints[name], where)
        for name, value in table.items()
        if name not in given
    }
    for name, one in known.items():
        needed = one.default is MISSING and one.default_factory is MISSING and name not in given
        value = values.get(name)
        if needed and (value is None or value == () or not str(value).strip()):
            raise InputError(f"{where}: no {name}, expected {describe_expected(kind, name)}")
    return kind(**values, **given)


def describe_expected(kind: type, name: str) -> str:
    """Describe the values that a field of a dataclass takes."""
    field = next(one for one in fields(kind) if one.name == name)
    return _describe_form(field, _get_hints(kind)[name])


def format_value(value: Any) -> str:
    """Format a value for a message, as TOML writes it.

    >>> format_value(True), format_value((1, 5)), format_value("a dog")
    ('true', '[1, 5]', "'a dog'")
    """
    if isinstance(value, bool):
        return str(value).lower()
    text = ascii(value) if not str(value).isprintable() else repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _convert_value(field: Field[Any], value: Any, hint: Any, where: str) -> Any:
    """Convert a value of a table to the type of its field."""
    name = field.name
    if get_origin(hint) in (Union, UnionType) and is_dataclass(get_args(hint)[0]):  # an optional table
        hint = get_args(hint)[0]
    inner = get_args(hint)[0] if get_origin(hint) is tuple else hint
    if is_dataclass(inner):
        several = inner is not hint
        tables = value if several else [value]
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise InputError(f"{where}: {name} = {format_value(value)}, expected {_describe_form(field, hint)}")
        kind: Any = inner
        parts = [
            parse_record(kind, table, f"{where}: [[{name}]] {number}" if several else _format_location(where, name))
            for number, table in enumerate(tables, 1)
        ]
        return tuple(parts) if several else parts[0]
    value = tuple(value) if isinstance(value, list) else value
    if not has_type(value, hint):
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        hinted = format_suggestion(str(value), choices) if choices else ""
        raise InputError(f"{where}: {name} = {format_value(value)}, expected {_describe_form(field, hint)}{hinted}")
    low, high = (field.metadata.get(end) for end in ("low", "high"))
    if low is not None and high is not None and value is not None and not low <= value <= high:
        raise InputError(f"{where}: {name} = {value}, expected a number from {low:,} to {high:,}")
    return value


def _format_location(where: str, name: str) -> str:
    """Append the name of a table to the location in a message, such as ``study.toml: [checks.flag]``."""
    file, opened, table = where.rpartition(": [")
    return f"{file}: [{table[:-1]}.{name}]" if opened and table.endswith("]") else f"{where}: [{name}]"


def _describe_form(field: Field[Any], hint: Any) -> str:
    if words := field.metadata.get("expected"):
        return str(words)
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if get_origin(kinds[0]) is Literal:
        return "one of " + ", ".join(get_args(kinds[0]))
    names = {int: "a whole number", float: "a number", bool: "true or false"}
    return names.get(kinds[0], "a text in quotation marks")


def has_type(value: Any, hint: Any) -> bool:
    """Return True if a value has a type. Booleans are no numbers, infinity is no float, and lists come as tuples.

    >>> has_type(3, float), has_type(True, int), has_type((1, 5), tuple[float, float]), has_type("a", Literal["b"])
    (True, False, True, False)
    """
    if get_origin(hint) in (Union, UnionType):
        return any(has_type(value, part) for part in get_args(hint))
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        kinds = parts[:1] * len(value) if parts[-1] is Ellipsis and isinstance(value, tuple) else parts
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(has_type, value, kinds))
    if get_origin(hint) is dict:
        keys, cells = get_args(hint)
        return isinstance(value, dict) and all(has_type(a, keys) and has_type(b, cells) for a, b in value.items())
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if hint is Any:
        return True
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint is bool
    return isinstance(value, (int, float)) and math.isfinite(value) if hint is float else isinstance(value, hint)


def from_json(kind: Any, data: Any, name: str = "") -> Any:
    """Convert parsed JSON to a type: objects or lists of values to dataclasses, lists to tuples.

    Keys that the type does not have are ignored, because a later version may have written them. Raise TypeError or
    ValueError if a value is missing or has another type.

    >>> from_json(tuple[float, ...] | None, [1, 2.5]), from_json(Mapping[str, tuple[int, int]], {"a": [1, 2]})
    ((1, 2.5), {'a': (1, 2)})
    """
    if not _is_kind_of(kind, data):
        raise ValueError(f"{name} is {format_value(data)}, expected {_json_form(kind)}".removeprefix(" is "))
    if get_origin(kind) in (Union, UnionType):
        kind = next(one for one in get_args(kind) if _is_kind_of(one, data))
    parts = get_args(kind)
    if is_dataclass(kind):
        return _dataclass_from_json(kind, data, f"{name}." if name else "")
    if isinstance(data, list) and parts:
        kinds = parts[:1] * len(data) if parts[-1] is Ellipsis or len(parts) == 1 else parts
        if len(data) != len(kinds):
            raise ValueError(f"{name} has {len(data)} values, expected {len(kinds)}".strip())
        pairs = enumerate(zip(kinds, data, strict=True))
        return tuple(from_json(one, value, f"{name}[{place}]") for place, (one, value) in pairs)
    if isinstance(data, dict) and parts:
        return {key: from_json(parts[1], value, f"{name}.{key:.60}".lstrip(".")) for key, value in data.items()}
    return Path(data) if kind is Path else data


def _dataclass_from_json(kind: Any, data: Any, prefix: str) -> Any:
    hints = _get_hints(kind)
    known = [one for one in fields(kind) if one.init]
    values = dict(zip((one.name for one in known), data, strict=False)) if isinstance(data, list) else data
    for one in known:
        if one.name not in values and one.default is MISSING and one.default_factory is MISSING:
            raise ValueError(f"{prefix}{one.name} is missing, expected {_json_form(hints[one.name])}")
    names = [one.name for one in known if one.name in values]
    return kind(**{name: from_json(hints[name], values[name], f"{prefix}{name}") for name in names})


def _json_form(kind: Any) -> str:
    """Return what JSON must have for a type, in words."""
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        return " or ".join(map(_json_form, get_args(kind)))
    if origin is Literal:
        return " or ".join(map(str, get_args(kind)))
    if origin in (tuple, Sequence, list):
        return "a list"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}
    return names.get(origin, "a text" if origin is Path else "an object")


def _is_kind_of(kind: Any, data: Any) -> bool:
    """Return True if JSON may encode a value of this type like this; nested values are not checked."""
    origin = get_origin(kind) or kind
    if origin is Any:
        return True
    if origin in (Union, UnionType):
        return any(_is_kind_of(one, data) for one in get_args(kind))
    if origin is Literal:
        return data in get_args(kind)
    if origin in (float, int):
        return isinstance(data, (int, origin)) and not isinstance(data, bool)
    if is_dataclass(origin):
        return isinstance(data, (dict, list))
    if origin in (tuple, Sequence):
        return isinstance(data, list)
    return isinstance(data, str) if origin is Path else isinstance(data, origin)


@lru_cache(maxsize=256)
def _get_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
