"""Rows: records of any source, each with its place in the source."""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from captious._core.files import decode_utf8
from captious.errors import InputError

EXPECTED = "a path, {id: caption}, a list of captions or of records, a data frame, an Arrow table or a CaptionSet"


class Row(NamedTuple):
    """One record and its place in the source, such as ``preds.jsonl: row 17``."""

    where: str
    fields: dict[str, Any]
    keyed: bool = False
    """Whether the format defines the id, as COCO annotations and dictionaries do; it is in the column ``id``."""
    aligned: bool | None = False
    """Whether the id is the line number; None for captions in memory that are matched by position."""


class RowBlock(Sequence[Row]):
    """Rows of a table stored by column. A row is built on access, because most are never needed individually."""

    def __init__(
        self, name: str, first: int, columns: Mapping[str, list[Any]], unit: str = "row", keyed: bool = False
    ) -> None:
        self.name, self.first, self.columns, self.unit, self.keyed = name, first, columns, unit, keyed

    @classmethod
    def of_records(cls, records: Sequence[Any], name: str, first: int = 1, unit: str = "row") -> RowBlock | None:
        """Build a block from dictionaries with the same keys; return None if they differ."""
        if set(map(type, records)) != {dict}:
            return None
        names = records[0].keys()
        if not names or any(record.keys() != names for record in records):
            return None
        return cls(name, first, {key: [record[key] for record in records] for key in names}, unit)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, index: int) -> Row:  # type: ignore[override]  # no slices
        fields = {column: values[index] for column, values in self.columns.items()}
        return Row(self.place(index), fields, self.keyed)

    def __iter__(self) -> Iterator[Row]:
        for index, values in enumerate(zip(*self.columns.values(), strict=True)):
            yield Row(self.place(index), dict(zip(self.columns, values, strict=True)), self.keyed)

    def place(self, index: int) -> str:
        """Return the place of a row for messages: its id if the format defines one, otherwise its number."""
        return f"{self.name}: " + (
            f"id {self.columns['id'][index]!r}" if self.keyed else f"{self.unit} {self.first + index}"
        )


Piece = Row | RowBlock
# Called with a complaint about a row that cannot be parsed, and its place. If it returns, the row is left out.
LeaveOut = Callable[[str, str], object]


def refuse_row(complaint: str, where: str) -> None:
    """Raise the complaint as an InputError: a file without an option that leaves rows out."""
    raise InputError(complaint)


def convert_to_utf8(content: bytes, name: str) -> bytes:
    """Convert UTF-16 with a byte-order mark, as written by PowerShell and Excel, to UTF-8."""
    if not content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content
    try:
        return content.decode("utf-16").encode()
    except UnicodeError:
        raise InputError(f"{name}: begins as UTF-16 and is not UTF-16 throughout, expected text in UTF-8") from None


# Deepest nesting of a value; deeper ones are mistakes and could not be written.
DEPTH = 50
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_NESTED = re.compile(rb"[\[{]{%d}" % DEPTH)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def is_suspicious(content: bytes) -> bool:
    """Return True if JSON may contain a lone surrogate or a deeply nested value."""
    return bool(_HALF_CHARACTER.search(content) or _NESTED.search(content.translate(None, _NO_BRACKETS)))


def remove_halves(row: Row, notice: Callable[[str], object] | None) -> Row:
    """Return the row without lone surrogates.

    ``notice`` is called with the place of a row that had one; without ``notice`` the row is refused. A value that is
    nested too deeply is always refused.
    """
    for column, value in row.fields.items():
        name = column if str(column).isprintable() else ascii(column)
        if _measure_depth(value) > DEPTH:
            raise InputError(f"{row.where}: {name} is nested more than {DEPTH} deep, expected a plain value")
        try:
            json.dumps([column, value], ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError as error:
            if notice is not None:
                notice(row.where)
                return row._replace(fields=_repair_value(row.fields))
            half = error.object[error.start]
            raise InputError(
                f"{row.where}: {name} contains half a character ({half!r}), expected valid Unicode"
            ) from None
    return row


def repair_text(text: str) -> str:
    r"""Return the text without lone surrogates; two surrogates that form a pair become one character.

    >>> repair_text("a \ud83d dog"), repair_text("\ud83d\ude00") == "\U0001f600"
    ('a  dog', True)
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def _repair_value(value: Any) -> Any:
    """Apply `repair_text` to every text in a nested value."""
    if isinstance(value, str):
        return repair_text(value)
    if isinstance(value, list):
        return list(map(_repair_value, value))
    return {_repair_value(key): _repair_value(one) for key, one in value.items()} if isinstance(value, dict) else value


def _measure_depth(value: Any) -> int:
    """Return the nesting depth of lists and objects."""
    depth, level = 0, [value]
    while inner := [one for one in level if isinstance(one, (list, dict))]:
        depth += 1
        level = [part for one in inner for part in (one.values() if isinstance(one, dict) else one)]
    return depth


def describe_value(value: Any) -> str:
    """Format a value for a message: its type, and the value itself if it is short."""
    shown = repr(value)
    return shown if value is None else f"{type(value).__name__}{f' ({shown})' if len(shown) <= 40 else ''}"


def decode_text(content: bytes, name: str) -> str:
    """Decode UTF-8, with or without a byte-order mark, or UTF-16 with one."""
    return decode_utf8(convert_to_utf8(content, name), name)


def refuse_repeated(columns: Sequence[str], where: str) -> None:
    """Raise InputError if two columns have the same name."""
    if repeated := [column for column, number in Counter(columns).items() if number > 1]:
        raise InputError(f"{where}: column {repeated[0]!r} occurs more than once, expected different names")


# Compression ratio that is accepted whatever the limit; text compresses to about a tenth.
RATIO = 50


def refuse_unpacked(size: int, packed: int, limit: int, name: str) -> None:
    """Raise InputError if content exceeds ``limit`` MiB and its compression ratio is too high for captions."""
    if size > max(limit << 20, RATIO * packed):
        raise InputError(
            f"{name}: its {packed:,} bytes unpack to more than {limit:,} MiB, expected captions; pass "
            f"reading=Reading(unpack_limit={4 * limit}), or unpack it first, if it is right"
        )
