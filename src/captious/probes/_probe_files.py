"""Rows of a probe's file: texts from columns, and paths of images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.io.images import find_images
from captious.io.rows import Row


def get_text(row: Row, columns: Sequence[str]) -> str | None:
    """Return the text in the first of some columns that the row has."""
    for column in columns:
        value = row.fields.get(column)
        if value is not None:
            if not isinstance(value, str):
                raise InputError(f"{row.where}: {column} is {type(value).__name__}, expected a text")
            return value
    return None


def get_texts(row: Row, columns: Sequence[str]) -> list[str] | None:
    """Return the list of texts in the first of some columns that the row has; a single text is a list of one."""
    for column in columns:
        value: Any = row.fields.get(column)
        if value is None:
            continue
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
            raise InputError(f"{row.where}: {column} is {type(value).__name__}, expected a list of texts")
        return list(texts)
    return None


def find_image_paths(images: Sequence[str], folder: str | Path | None) -> dict[str, str]:
    """Find the path of each image: in the folder, by file name or id; without a folder, its name is the path."""
    distinct = list(dict.fromkeys(images))
    if folder is None:
        return {image: image for image in distinct}
    return dict(zip(distinct, find_images(folder, distinct, distinct), strict=True))
