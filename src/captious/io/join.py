"""Rows to captions by id: which column is what, and what is wrong with a row.

Every complaint goes through one callback. ``read`` passes one that raises at the first complaint; the doctor passes one
that keeps a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NoReturn

from captious.errors import InputError
from captious.io.columns import CANDIDATE_COLUMNS, ID_COLUMNS, IMAGE_COLUMNS, REFERENCE_COLUMNS
from captious.io.formats import Row

Complain = Callable[[str], None]


def refuse(message: str) -> NoReturn:
    """The complaint handler of reading: stop at the first one."""
    raise InputError(message)


@dataclass(frozen=True)
class Columns:
    """Names of the columns to use; None means the first known name that is there."""

    id: str | None = None
    candidate: str | None = None
    references: str | None = None


@dataclass
class Gathered:
    """Captions and extra fields by id, in the order ids were first met."""

    candidates: dict[str, list[str]] = field(default_factory=dict)
    references: dict[str, list[str]] = field(default_factory=dict)
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)


def gather_candidates(rows: Iterable[Row], columns: Columns, several: bool, complain: Complain = refuse) -> Gathered:
    """Candidates by id, and the references where the same rows carry them."""
    found = Gathered()
    for row in rows:
        key = _key(row, columns.id, complain)
        text_column = _pick(row, columns.candidate, CANDIDATE_COLUMNS)
        reference_column = _pick(row, columns.references, REFERENCE_COLUMNS)
        if text_column is None:
            complain(_no_column(row, "candidate caption", columns.candidate, CANDIDATE_COLUMNS))
            continue
        if key is None:
            continue
        texts = _texts(row, text_column, "caption", complain)
        if key in found.candidates:
            if not several:
                complain(
                    f"{row.where}: id {key!r} occurs more than once (first at {found.places[key]}), expected one row "
                    "per id; use --several where an item has several candidates, --id-column where another column "
                    "is the id"
                )
                continue
            found.candidates[key] += texts
        else:
            found.candidates[key] = texts
            found.places[key] = row.where
        if reference_column is not None:
            found.references.setdefault(key, []).extend(_references(row, reference_column, complain))
        _keep_fields(found, key, row, {text_column, reference_column, columns.id}, several)
    for kept in found.fields.values() if several else ():
        for name, values in kept.items():
            # What the rows of an item agree on is the item's; what they do not is a list, a value for each candidate.
            kept[name] = values[0] if all(value == values[0] for value in values) else values
    return found


def gather_references(rows: Iterable[Row], columns: Columns, complain: Complain = refuse) -> Gathered:
    """References by id; rows of one id add up."""
    found = Gathered()
    for row in rows:
        key = _key(row, columns.id, complain)
        column = _pick(row, columns.references, REFERENCE_COLUMNS + CANDIDATE_COLUMNS)
        if column is None:
            complain(_no_column(row, "reference caption", columns.references, (*REFERENCE_COLUMNS, "caption")))
            continue
        if key is None:
            continue
        found.references.setdefault(key, []).extend(_references(row, column, complain))
        found.places.setdefault(key, row.where)
        _keep_fields(found, key, row, {column, columns.id})
    return found


def _keep_fields(found: Gathered, key: str, row: Row, used: set[str | None], several: bool = False) -> None:
    kept = found.fields.setdefault(key, {})
    image = _pick(row, None, IMAGE_COLUMNS)
    for column, value in row.fields.items():
        if column in used or column in ("id", "image_id"):
            continue
        name = "image" if column == image else column
        if several and name in kept:
            kept[name].append(value)
        else:
            kept[name] = [value] if several else kept.get(name, value)


def _key(row: Row, column: str | None, complain: Complain) -> str | None:
    name = _pick(row, column, ID_COLUMNS)
    if name is None:
        complain(_no_column(row, "id", column, ID_COLUMNS))
        return None
    value = row.fields[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, Integral)) or value == "":
        complain(f"{row.where}: {name} is {value!r}, expected a string or a whole number")
        return None
    return _valid(str(value), row, name, complain)


def _texts(row: Row, column: str, what: str, complain: Complain) -> list[str]:
    value = row.fields[column]
    entries = list(value) if isinstance(value, (list, tuple)) else [value]
    for entry in entries:
        if not isinstance(entry, str):
            complain(f"{row.where}: {what} is {_shown(entry)}, expected a string")
    if not entries:
        complain(f"{row.where}: {what} is an empty list, expected a string or a list of strings")
    texts = [_valid(str(entry), row, what, complain) for entry in entries if isinstance(entry, str)]
    return [text for text in texts if text is not None]


def _valid(text: str, row: Row, what: str, complain: Complain) -> str | None:
    """The text, unless half of a character (a lone surrogate) makes it impossible to write anywhere."""
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError as error:
        complain(f"{row.where}: {what} holds half a character ({text[error.start]!r}), expected valid Unicode")
        return None
    return text


def _references(row: Row, column: str, complain: Complain) -> list[str]:
    if row.fields[column] in ([], ()):
        complain(f"{row.where}: the list of references is empty, expected at least one")
        return []
    return _texts(row, column, "reference", complain)


def _pick(row: Row, wanted: str | None, known: Sequence[str]) -> str | None:
    if wanted is not None:
        return wanted if wanted in row.fields else None
    return next((name for name in known if name in row.fields), None)


def _no_column(row: Row, what: str, wanted: str | None, known: Sequence[str]) -> str:
    expected = repr(wanted) if wanted is not None else f"one of {', '.join(known)}"
    return f"{row.where}: no {what}: found columns {', '.join(map(str, row.fields)) or 'none'}, expected {expected}"


def _shown(value: Any) -> str:
    kinds = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return f"{kinds.get(type(value), type(value).__name__)} ({str(value)[:40]})"
