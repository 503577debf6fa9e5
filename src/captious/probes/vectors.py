"""Rows of an analysis: which column is the image, which are texts, and where the image lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from captious._typing import Floats32, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.columns import ID_COLUMNS, IMAGE_COLUMNS
from captious.io.formats import Row
from captious.io.images import find_images
from captious.io.read import read
from captious.models.encoder import Encoder, Features, encoder_id
from captious.options import Reading


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
    return dict(zip(distinct, find_images(folder, distinct, distinct), strict=True))


QUERIES, GALLERY = 1024, 8192
"""Rows and columns of a block: 32 MB in single precision, however many there are in all."""


@dataclass(frozen=True, eq=False)
class Vectors:
    """Unit vectors that may share rows: vector i is ``rows[index[i]]``."""

    rows: Features
    index: Ints

    def __len__(self) -> int:
        return len(self.index)

    def block(self, first: int, size: int) -> Features:
        """Some of them in a row."""
        return self.rows[self.index[first : first + size]]

    def take(self, places: Ints) -> Vectors:
        """Those at these places."""
        return Vectors(self.rows, self.index[places])


@dataclass(frozen=True, eq=False)
class Pictured:
    """Images with their captions in the space of an encoder."""

    encoder: str
    images: Vectors
    texts: Vectors
    owner: Ints
    """The image of each text, in ascending order."""
    ids: tuple[str, ...]
    captions: tuple[str, ...]
    cut: int
    """Captions longer than the encoder reads."""
    dropped: dict[str, int]


def read_pictured(source: Any, images: str | Path | None) -> CaptionSet:
    """Captions by image: any file that ``captious.read`` takes, several rows or a list per image."""
    captions = read(source, images=images, reading=Reading(several=True))
    if not any(captions.image_paths):
        raise InputError(f"{captions.name}: no image; give their folder with --images, or a column 'image'")
    return captions


def embed(captions: CaptionSet, encoder: Encoder, prefix: str = "") -> Pictured:
    """All images and candidates; images that cannot be used go with their captions, empty captions alone."""
    from captious.models.features import image_features, text_features

    paths = captions.image_paths
    named = [place for place, path in enumerate(paths) if path is not None]
    seen = image_features(encoder, [str(paths[place]) for place in named])
    usable = np.array(named, dtype=np.int64)[seen.index >= 0]
    if not len(usable):
        raise InputError(f"{captions.name}: no image can be used: {next(iter(seen.faults.values()), 'none is named')}")
    number = np.full(len(captions), -1, dtype=np.int64)
    number[usable] = np.arange(len(usable))
    owner = np.repeat(number, captions.candidates.counts)
    said = np.array([bool(text.strip()) for text in captions.candidates.values], dtype=np.bool_)
    kept = np.flatnonzero((owner >= 0) & said)
    texts = [captions.candidates.values[place] for place in kept.tolist()]
    found = text_features(encoder, [prefix + text for text in texts])
    good = found.index >= 0
    dropped = {"image cannot be used": len(captions) - len(usable), "empty caption": int((~said).sum())}
    return Pictured(
        encoder_id(encoder) + (f",prefix={prefix!r}" if prefix else ""),
        Vectors(seen.rows, seen.index[seen.index >= 0]),
        Vectors(found.rows, found.index[good]),
        owner[kept][good],
        tuple(captions.ids[place] for place in usable.tolist()),
        tuple(text for text, fine in zip(texts, good.tolist(), strict=True) if fine),
        int((found.lengths > encoder.limit).sum()),
        {reason: lost for reason, lost in dropped.items() if lost},
    )


def products(queries: Vectors, gallery: Vectors) -> Iterator[tuple[int, int, Floats32]]:
    """First query, first of the gallery, and the cosines between, block by block; all of a query's come in a row."""
    for start in range(0, len(queries), QUERIES):
        block = queries.block(start, QUERIES)
        for first in range(0, len(gallery), GALLERY):
            yield start, first, block @ gallery.block(first, GALLERY).T


def own_cosines(space: Pictured) -> Floats32:
    """Of each text with its own image."""
    found = np.empty(len(space.texts), dtype=np.float32)
    for first in range(0, len(space.texts), QUERIES):
        here = slice(first, first + QUERIES)
        images = space.images.rows[space.images.index[space.owner[here]]]
        found[here] = np.einsum("ij,ij->i", space.texts.block(first, QUERIES), images)
    return found
