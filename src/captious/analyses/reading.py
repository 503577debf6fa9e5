"""Rows of an analysis: which column is the image, which are texts, and where the image lies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.readers.columns import ID_COLUMNS, IMAGE_COLUMNS
from captious.readers.images import with_images
from captious.readers.rows import Row


def image_of(row: Row) -> str:
    """What a row calls its image."""
    for name in (*IMAGE_COLUMNS, *ID_COLUMNS):
        value = row.fields.get(name)
        if value is not None and value != "" and isinstance(value, (str, int)) and not isinstance(value, bool):
            return str(value)
    raise InputError(f"{row.where}: names no image, expected a column {', '.join(IMAGE_COLUMNS)} or id")


def text_of(row: Row, names: Sequence[str]) -> str | None:
    """The text in the first of some columns that is there."""
    for name in names:
        if row.fields.get(name) is not None:
            value = row.fields[name]
            if not isinstance(value, str):
                raise InputError(f"{row.where}: {name} is {type(value).__name__}, expected a text")
            return value
    return None


def texts_of(row: Row, names: Sequence[str]) -> list[str] | None:
    """The list of texts in the first of some columns that is there; a single text is a list of one."""
    for name in names:
        value: Any = row.fields.get(name)
        if value is None:
            continue
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, (list, tuple)) or not all(isinstance(text, str) for text in listed):
            raise InputError(f"{row.where}: {name} is {type(value).__name__}, expected a list of texts")
        return list(listed)
    return None


def paths_of(images: Sequence[str], folder: str | Path | None, name: str) -> dict[str, str]:
    """Where each image lies: in the folder, found by name or id, or at the path that its name is."""
    distinct = list(dict.fromkeys(images))
    if folder is None:
        return {image: image for image in distinct}
    found = with_images(CaptionSet.of(dict.fromkeys(distinct, ""), columns={"image": distinct}, name=name), folder)
    return dict(zip(distinct, (str(path) for path in found.columns["image"]), strict=True))
