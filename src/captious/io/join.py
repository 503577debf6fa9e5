"""Rows to captions by id, and candidates joined with references: which column is what, and what is wrong with a row.

Every complaint goes through one callback. ``captious.read`` passes one that raises at the first complaint;
``captious.check`` passes one that collects them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NoReturn

import numpy as np

from captious.captions import CaptionSet, ImageData, Ragged
from captious.errors import InputError
from captious.io.columns import CANDIDATE_COLUMNS, ID_COLUMNS, IMAGE_COLUMNS, REFERENCE_COLUMNS, STYLE_COLUMN
from captious.io.formats import Row, looks_printed, name_of, printed_list
from captious.io.images import images_of
from captious.options import Reading

Complain = Callable[[str], None]
REPEATED = "occurs more than once"
_SKIP = "pass reading=Reading(missing='skip') to leave them out"


def refuse(message: str) -> NoReturn:
    """The complaint handler of reading: stop at the first one."""
    raise InputError(message)


@dataclass
class Gathered:
    """Captions and extra fields by id, in the order in which the ids first occur."""

    candidates: dict[str, list[str]] = field(default_factory=dict)
    references: dict[str, list[str]] = field(default_factory=dict)
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    first_rows: dict[str, str] = field(default_factory=dict)
    """Where each id first occurs."""
    aligned: bool | None = None
    """Whether ids are the numbers of lines; None where captions stand by position or there are none."""


def gather_candidates(rows: Iterable[Row], reading: Reading = Reading(), complain: Complain = refuse) -> Gathered:
    """Candidates by id, and the references where the same rows carry them."""
    gathered, several = Gathered(), reading.several
    for row in rows:
        gathered.aligned = row.aligned
        key = row_id(row, reading.id_column, complain)
        text_column = _pick(row, reading.candidate_column, CANDIDATE_COLUMNS)
        reference_column = _pick(row, reading.references_column, REFERENCE_COLUMNS)
        if text_column is None:
            complain(_no_column(row, "candidate caption", reading.candidate_column, CANDIDATE_COLUMNS))
            continue
        if reading.references_column is not None and reference_column is None and reading.references is None:
            complain(_no_column(row, "reference caption", reading.references_column, REFERENCE_COLUMNS))
            continue
        if key is None:
            continue
        texts = _texts(row, text_column, "caption", complain)
        if key in gathered.candidates:
            if not several:
                styled = STYLE_COLUMN in row.fields and not reading.id_column
                ids = f"{_pick(row, None, ID_COLUMNS)},{STYLE_COLUMN}"
                instead = f"reading=Reading(id_column='{ids}') where each style is an item"
                swapped = "" if reading.references is None else "swap the two files if this one holds the references, "
                other = instead if styled else "reading=Reading(id_column=...) where another column is the id"
                complain(
                    f"{row.where}: id {key!r} {REPEATED} (first at {gathered.first_rows[key]}), expected "
                    f"one row per id; {swapped}pass reading=Reading(several=True) where an item has several "
                    f"candidates, {other}"
                )
                continue
            gathered.candidates[key] += texts
        else:
            gathered.candidates[key] = texts
            gathered.first_rows[key] = row.where
        if reference_column is not None:
            gathered.references.setdefault(key, []).extend(_references(row, reference_column, complain))
        _add_fields(gathered, key, row, {text_column, reference_column, reading.id_column}, several)
    for fields in gathered.fields.values() if several else ():
        for name, values in fields.items():
            # What the rows of an item agree on is the item's; what they do not is a list, a value for each candidate.
            several_values = len(values) > 1 and not all(_same(value, values[0]) for value in values)
            fields[name] = values if several_values else values[0]
    return gathered


def gather_references(rows: Iterable[Row], reading: Reading = Reading(), complain: Complain = refuse) -> Gathered:
    """References by id; rows of one id add up. Where their format says the id, the candidates' column does not bind."""
    gathered, named = Gathered(), reading.references_id_column or reading.id_column
    foreign = reading.references_id_column in (None, "image_id") and "," not in (named or "")
    for row in rows:
        gathered.aligned = row.aligned
        id_column = None if foreign and row.keyed and named not in row.fields else named
        key = row_id(row, id_column, complain)
        column = _pick(row, reading.references_column, REFERENCE_COLUMNS + CANDIDATE_COLUMNS)
        if column is None:
            complain(_no_column(row, "reference caption", reading.references_column, (*REFERENCE_COLUMNS, "caption")))
            continue
        if key is None:
            continue
        gathered.references.setdefault(key, []).extend(_references(row, column, complain))
        gathered.first_rows.setdefault(key, row.where)
        _add_fields(gathered, key, row, {column, id_column})
    return gathered


def gather_column(rows: Iterable[Row], column: str, reading: Reading = Reading()) -> dict[str, Any]:
    """The values of one column by id, those that are null left out; two different ones of an id are refused."""
    values: dict[str, Any] = {}
    for row in rows:
        key = row_id(row, reading.id_column, refuse)
        if column not in row.fields:
            refuse(_no_column(row, "label", column, ()))
        value = row.fields[column]
        if isinstance(value, (list, dict)):
            refuse(f"{row.where}: {column} is {described(value)}, expected a text or a number")
        if key is None or value is None:
            continue
        if not _same(values.setdefault(key, value), value):
            refuse(f"{row.where}: {column} of id {key!r} is {value!r}, an earlier row says {values[key]!r}")
    return values


def join(
    candidates: Gathered, others: Gathered | None, reading: Reading, name: str, complain: Complain = refuse
) -> CaptionSet:
    """Candidates with the references of their ids, those of ``others`` first; the order is that of the candidates."""
    references = candidates.references if others is None else others.references
    references_name = "references" if others is None else name_of(reading.references, "references")
    keys: Collection[str] = candidates.candidates.keys()
    lonely = [key for key in keys if not references.get(key)] if references else []
    unused = [key for key in references if key not in candidates.candidates]
    if others is not None and {candidates.aligned, others.aligned} == {True, False}:
        lines, table = (name, references_name) if candidates.aligned else (references_name, name)
        complain(
            f"{lines}: has a caption on each line and no ids, {table} has ids; expected lines in both, or ids in both"
        )
    elif references and references.keys().isdisjoint(keys):
        complain(_nothing_in_common(list(keys), list(references), name, references_name))
    elif reading.missing == "error":
        if lonely:
            where = "" if references_name == "references" else f" in {references_name}"
            complain(f"{name}: {_some(lonely)} without references{where}; {_SKIP}")
        if unused:
            complain(f"{references_name}: {_some(unused)} without a candidate in {name}; {_SKIP}")
    if lonely:
        without = set(lonely)
        keys = [key for key in keys if key not in without]
    columns = _columns(keys, [candidates.fields, *([others.fields] if others else [])])
    if reading.images is not None:
        try:
            # An id of several columns names its image by the first.
            further = (reading.id_column or "").count(",")
            named = columns.get("image") or [key.rsplit(":", further)[0] for key in keys]
            columns["image"] = images_of(reading.images, tuple(keys), named, list(candidates.candidates))
        except InputError as error:
            complain(str(error))
    return CaptionSet(
        ids=tuple(keys),
        candidates=Ragged.of([candidates.candidates[key] for key in keys]),
        references=Ragged.of([references.get(key, ()) for key in keys]),
        columns=columns,
        name=name,
        skipped=len(lonely) + len(unused),
    )


def _nothing_in_common(keys: Sequence[str], others: Sequence[str], name: str, other_name: str) -> str:
    """What is said where no candidate has references: the ids of both sides."""
    return (
        f"{name}: none of its {_some(keys, 3)} is in {other_name}, which has {_some(others, 3)}; "
        "reading=Reading(id_column=...) and reading=Reading(references_id_column=...) name other columns"
    )


def _columns(keys: Collection[str], sources: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, tuple[Any, ...]]:
    """The further fields of items as columns; of a field that two sources have, the first counts."""
    if not any(sources):
        return {}
    none: Mapping[str, Any] = {}
    names = dict.fromkeys(column for key in keys for source in reversed(sources) for column in source.get(key, none))
    columns = {}
    for name in names:
        having = [next((source[key] for source in sources if name in source.get(key, none)), none) for key in keys]
        columns[name] = tuple([fields.get(name) for fields in having])
    return columns


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal; arrays only if they are one object."""
    equal = one is other or one == other
    return equal is True or (isinstance(equal, np.bool_) and bool(equal))


def _add_fields(gathered: Gathered, key: str, row: Row, used: set[str | None], several: bool = False) -> None:
    image = _pick(row, None, IMAGE_COLUMNS)
    for column, value in row.fields.items():
        if column in used or column in ("id", "image_id"):
            continue
        fields = gathered.fields.setdefault(key, {})
        name = "image" if column == image else column
        if several and name in fields:
            fields[name].append(value)
        else:
            fields[name] = [value] if several else fields.get(name, value)


def row_id(row: Row, column: str | None, complain: Complain) -> str | None:
    """The id of a row: the value of a column, or of several that are named with commas, joined by colons.

    A column whose own name has commas is one.
    """
    if column is None or column in row.fields or "," not in column:
        return _one_key(row, column, complain)
    keys = [_one_key(row, name.strip(), complain) for name in column.split(",")]
    return None if None in keys else ":".join(map(str, keys))


def _one_key(row: Row, column: str | None, complain: Complain) -> str | None:
    name = _pick(row, column, ID_COLUMNS)
    if name is None or (name in IMAGE_COLUMNS and ImageData.of(row.fields[name], name) is not None):
        complain(_no_column(row, "id", column, ID_COLUMNS))
        return None
    value = row.fields[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, Integral)) or value == "":
        complain(f"{row.where}: {name} is {value!r}, expected a string or a whole number")
        return None
    return valid_text(str(value), row.where, name, complain)


def _references(row: Row, column: str, complain: Complain) -> list[str]:
    if isinstance(row.fields[column], (list, tuple, np.ndarray)) and not len(row.fields[column]):
        complain(f"{row.where}: the list of references is empty, expected at least one")
        return []
    return _texts(row, column, "reference", complain)


def _texts(row: Row, column: str, what: str, complain: Complain) -> list[str]:
    value = row.fields[column]
    if isinstance(value, str):
        value = printed_list(value) or [value]
    entries = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]
    if entries and set(map(type, entries)) == {str} and _is_plain("\n".join(entries)):
        return entries  # nearly always, and quickly
    for entry in entries:
        if not isinstance(entry, str):
            complain(f"{row.where}: {what} is {described(entry)}, expected a string")
    if not entries:
        complain(f"{row.where}: {what} is an empty list, expected a string or a list of strings")
    texts = [valid_text(str(entry), row.where, what, complain) for entry in entries if isinstance(entry, str)]
    return [text for text in texts if text is not None and not _refuse_printed(text, row.where, what, complain)]


def _is_plain(text: str) -> bool:
    """Whether nothing of captions, one a line, needs a closer look."""
    return text.isascii() and "\0" not in text and "'" not in text and '"' not in text


def _refuse_printed(text: str, where: str, what: str, complain: Complain) -> bool:
    """Complain of a text that is a printed list which cannot be read as one, such as an array of NumPy."""
    if printed := looks_printed(text):
        complain(
            f"{where}: {what} is a printed list ({text.strip()[:40]}…), expected a list of texts as JSON writes it; "
            "an array that NumPy prints has no commas, so convert it with .tolist() before it is written"
        )
    return printed


def valid_text(text: str, where: str, what: str, complain: Complain) -> str | None:
    """The text, unless it holds half of a character (a lone surrogate), or a null character."""
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError as error:
        complain(f"{where}: {what} holds half a character ({text[error.start]!r}), expected valid Unicode")
        return None
    if "\0" in text:
        complain(f"{where}: {what} holds a null character, expected text; is it UTF-16, or the padding of a tar?")
        return None
    return text


def _pick(row: Row, wanted: str | None, usual: Sequence[str]) -> str | None:
    if wanted is not None:
        return wanted if wanted in row.fields else None
    for name in usual:  # no generator: this runs several times a row
        if name in row.fields:
            return name
    return None


def _no_column(row: Row, what: str, wanted: str | None, usual: Sequence[str]) -> str:
    expected = repr(wanted) if wanted is not None else f"one of {', '.join(usual)}"
    return f"{row.where}: no {what}: found columns {', '.join(map(str, row.fields)) or 'none'}, expected {expected}"


def described(value: Any) -> str:
    """A value that is of the wrong type, as messages show it: its type, and the beginning of it."""
    number = "a number"
    kinds = {type(None): "null", bool: "a boolean", int: number, float: number, list: "a list", dict: "an object"}
    return f"{kinds.get(type(value), type(value).__name__)} ({str(value)[:40]})"


def _some(ids: Sequence[str], shown: int = 5) -> str:
    return f"{len(ids)} {'id' if len(ids) == 1 else 'ids'} ({first_few(ids, shown)})"


def first_few(ids: Sequence[str], shown: int = 5) -> str:
    """The first ids, as messages show them."""
    return ", ".join(ids[:shown]) + (", …" if len(ids) > shown else "")
