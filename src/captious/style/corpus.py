"""Styled captions as people have them: rows with a caption and a style, in any format that captions come in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from captious.errors import InputError
from captious.readers.columns import CANDIDATE_COLUMNS, ID_COLUMNS, STYLE_COLUMN
from captious.readers.rows import Row, name_of, rows_of


class StyleColumns(NamedTuple):
    """Names of the columns to use; None means the first known name that is there."""

    caption: str | None = None
    style: str = STYLE_COLUMN
    id: str | None = None


USUAL = StyleColumns()


@dataclass(frozen=True)
class StyledCorpus:
    """Captions with their styles, and ids where the rows had them."""

    name: str
    styles: tuple[str, ...]
    texts: tuple[str, ...]
    ids: tuple[str, ...]


def stream(sources: Iterable[Any], columns: StyleColumns = USUAL) -> Iterator[tuple[str, str]]:
    """(style, caption) of every row of every source; a caption that is a list counts once for each of its texts."""
    for source in sources:
        for row in rows_of(source):
            style = _style(row, columns.style)
            for text in _texts(row, columns.caption):
                yield style, text


def read_styled(source: Any, columns: StyleColumns = USUAL) -> StyledCorpus:
    """All rows of a source."""
    styles, texts, ids = [], [], []
    for number, row in enumerate(rows_of(source)):
        style = _style(row, columns.style)
        key = next((name for name in (columns.id, *ID_COLUMNS) if name in row.fields), None)
        for text in _texts(row, columns.caption):
            styles.append(style)
            texts.append(text)
            ids.append(str(row.fields[key]) if key else f"#{number}")
    if not texts:
        raise InputError(f"{name_of(source)}: holds no captions")
    return StyledCorpus(name_of(source), tuple(styles), tuple(texts), tuple(ids))


def _texts(row: Row, column: str | None) -> list[str]:
    name = next((name for name in ((column,) if column else CANDIDATE_COLUMNS) if name in row.fields), None)
    if name is None:
        raise InputError(f"{row.where}: no caption: {_columns(row)}, expected {column or ', '.join(CANDIDATE_COLUMNS)}")
    value = row.fields[name]
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{row.where}: {name} is {text!r}, expected a string")
    return texts


def _style(row: Row, column: str) -> str:
    if column not in row.fields:
        raise InputError(f"{row.where}: no style: {_columns(row)}, expected {column!r}; name it with --style-column")
    value = row.fields[column]
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise InputError(f"{row.where}: {column} is {value!r}, expected the name of a style")
    return str(value)


def _columns(row: Row) -> str:
    return f"found columns {', '.join(map(str, row.fields)) or 'none'}"
