"""Examples to learn from: an image, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.readers.columns import (
    CANDIDATE_COLUMNS,
    ID_COLUMNS,
    IMAGE_COLUMNS,
    REFERENCE_COLUMNS,
    UNIT_COLUMNS,
    WRONG_UNIT_COLUMNS,
)
from captious.readers.images import SUFFIXES
from captious.readers.rows import Row, rows_of

TEXT_COLUMNS = (*CANDIDATE_COLUMNS, *REFERENCE_COLUMNS)
"""Everything that is said of an image, references last."""


@dataclass(frozen=True)
class Example:
    """One image; ``captions`` in the order of the row, the first of which is the long one where one is needed."""

    id: str
    image: Path
    captions: tuple[str, ...]
    units: tuple[str, ...] = ()
    wrong_units: tuple[str, ...] = ()
    where: str = ""


def read_examples(
    source: str | Path, images: str | Path | None, skip: bool = False, merge: bool = True
) -> tuple[list[Example], list[str]]:
    """The rows of a file as examples, and what a user should know.

    ``merge`` makes one example of all rows of an image, so that no image is told from itself. ``skip`` leaves out rows
    whose image is missing; otherwise they are an error.
    """
    find = _Finder(images)
    rows = list(rows_of(source))
    found = [_example(row, find) for row in rows]
    read = [example for example in found if example is not None]
    if not read:
        raise InputError(f"{source}: no row has a caption")
    absent = [example for example in read if not example.image.is_file()]
    if absent and (not skip or len(absent) == len(read)):
        first, more = absent[0], f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""
        hint = (
            "; --missing skip leaves such rows out" if len(absent) < len(read) else "; where are they? --images FOLDER"
        )
        raise InputError(f"{first.where}: no image {first.image}{more}{hint}")
    bare, empty = len(found) - len(read), sum(_blank(row.fields) for row in rows)
    notes = [f"{bare:,} rows left out: they have no caption"] if bare else []
    notes += [f"{empty:,} empty captions left out"] if empty else []
    notes += [f"{len(absent)} rows left out: their image is missing"] if absent else []
    kept = [example for example in read if example.image.is_file()] if absent else read
    return _merged(kept) if merge else kept, notes


def _example(row: Row, find: _Finder) -> Example | None:
    fields = row.fields
    given = [_text(fields[key]) for key in ID_COLUMNS if key not in IMAGE_COLUMNS and fields.get(key) is not None]
    name = next((str(fields[key]) for key in IMAGE_COLUMNS if fields.get(key)), "")
    if not given and not name:
        raise InputError(f"{row.where}: has neither {' nor '.join(('id', 'image_id', *IMAGE_COLUMNS))}")
    key = given[0] if given else Path(name).stem
    captions = [text for field in TEXT_COLUMNS for text in _texts(fields, field, row.where)]
    units, wrong = (
        tuple(text for field in names for text in _texts(fields, field, row.where))
        for names in (UNIT_COLUMNS, WRONG_UNIT_COLUMNS)
    )
    if wrong and len(wrong) != len(units):
        raise InputError(f"{row.where}: {len(wrong)} wrong_units for {len(units)} units, expected one for each")
    if not captions and units:
        captions = [" ".join(units)]
    if not captions:
        return None
    return Example(key, find(name, key), tuple(dict.fromkeys(captions)), units, wrong, row.where)


def _texts(fields: Mapping[str, Any], field: str, where: str) -> list[str]:
    value = fields.get(field)
    if value is None:
        return []
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise InputError(f"{where}: {field} is {type(value).__name__}, expected text or a list of texts")
    return [" ".join(entry.split()) for entry in entries if entry.strip()]


def _blank(fields: Mapping[str, Any]) -> int:
    """Captions of a row in which there is nothing.

    >>> _blank({"captions": ["a dog", " ", ""], "text": None})
    2
    """
    values = [fields.get(field) for field in TEXT_COLUMNS]
    return sum(not entry.strip() for value in values for entry in ([value] if isinstance(value, str) else value or []))


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _merged(examples: Iterable[Example]) -> list[Example]:
    found: dict[Path, Example] = {}
    for example in examples:
        if example.image in found:
            captions = dict.fromkeys((*found[example.image].captions, *example.captions))
            example = replace(found[example.image], captions=tuple(captions))
        found[example.image] = example
    return list(found.values())


class _Finder:
    """From what a row calls its image to a path: as it stands, by name in the folder, by stem, by id."""

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = Path(folder) if folder is not None else None
        if self.folder is not None and not self.folder.is_dir():
            raise InputError(f"{self.folder}: no such folder of images")
        files = sorted(self.folder.iterdir()) if self.folder is not None else []
        self.names = {path.name: path for path in files if path.suffix.lower() in SUFFIXES}
        self.stems = {path.stem: path for path in self.names.values()}

    def __call__(self, name: str, key: str) -> Path:
        if self.folder is None:
            return Path(name or key)
        wanted = Path(name).name if name else key
        tries: Sequence[Path | None] = (
            self.names.get(wanted),
            self.folder / name if name and "/" in name and (self.folder / name).is_file() else None,
            self.stems.get(Path(wanted).stem),
            self.stems.get(key),
            self.stems.get(key.zfill(12)),
        )
        return next((path for path in tries if path is not None), self.folder / (name or key))
