"""Vectors of images and captions by an encoder, and their cosines block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from captious._core.types import Floats32, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.models import loading
from captious.models.encoder import Encoder, Features, encoder_id

# Rows and columns of a block of cosines: 32 MB in single precision.
QUERIES, GALLERY = 1024, 8192


@dataclass(frozen=True, eq=False)
class Vectors:
    """Unit vectors that may share rows: vector i is ``rows[index[i]]``."""

    rows: Features
    index: Ints

    @classmethod
    def of(cls, rows: Features) -> Vectors:
        """Build vectors with a row each."""
        return cls(rows, np.arange(len(rows)))

    def __len__(self) -> int:
        return len(self.index)

    def block(self, first: int, size: int) -> Features:
        """Return a block of consecutive vectors."""
        return self.rows[self.index[first : first + size]]

    def take(self, indices: Ints) -> Vectors:
        """Select some of the vectors."""
        return Vectors(self.rows, self.index[indices])


@dataclass(frozen=True, eq=False)
class Embedded:
    """The vectors of images and of their captions by one encoder."""

    encoder: str
    images: Vectors
    texts: Vectors
    owner: Ints
    """The image of each text, in ascending order."""
    ids: tuple[str, ...]
    captions: tuple[str, ...]
    truncated: int
    """Captions longer than the encoder reads."""
    dropped: dict[str, int]
    domain: str = ""
    """The reason why the encoder's values mean nothing for these inputs; empty if none is known."""

    @property
    def notes(self) -> list[str]:
        """Notes for the reader: items that were left out, captions that are too long, another domain."""
        notes = [f"{self.encoder}: left out: {number:,} ({reason})" for reason, number in self.dropped.items()]
        if self.truncated:
            notes.append(f"{self.encoder}: {self.truncated:,} captions are longer than the encoder reads")
        if self.domain:
            notes.append(self.domain)
        return notes


def encode_captions(captions: CaptionSet, encoder: Encoder, prefix: str = "") -> Embedded:
    """Encode all images and candidates; leave out unusable images with their captions, and empty captions."""
    from captious.models.domain import describe_mismatch
    from captious.models.features import image_features, text_features

    pictures = captions.images
    if not any(pictures):
        raise InputError(f"{captions.name}: no image; pass images=..., their folder or a list, or a column 'image'")
    with_image = [item for item, picture in enumerate(pictures) if picture is not None]
    images = image_features(encoder, [picture for picture in pictures if picture is not None])
    # Features have index −1 if the image or text has none.
    usable = np.array(with_image, dtype=np.int64)[images.index >= 0]
    if not len(usable):
        raise InputError(f"{captions.name}: no image can be used: {next(iter(images.faults.values()))}")
    new_index = np.full(len(captions), -1, dtype=np.int64)
    new_index[usable] = np.arange(len(usable))
    owner = np.repeat(new_index, captions.candidates.counts)
    has_text = np.array([bool(text.strip()) for text in captions.candidates.values], dtype=np.bool_)
    chosen = np.flatnonzero((owner >= 0) & has_text)
    chosen_texts = [captions.candidates.values[candidate] for candidate in chosen.tolist()]
    texts = text_features(encoder, [prefix + text for text in chosen_texts])
    finite = texts.index >= 0
    dropped = {"image cannot be used": len(captions) - len(usable), "empty caption": int((~has_text).sum())}
    return Embedded(
        encoder_id(encoder) + (f",prefix={prefix!r}" if prefix else ""),
        Vectors(images.rows, images.index[images.index >= 0]),
        Vectors(texts.rows, texts.index[finite]),
        owner[chosen][finite],
        tuple(captions.ids[item] for item in usable.tolist()),
        tuple(text for text, is_finite in zip(chosen_texts, finite.tolist(), strict=True) if is_finite),
        int((texts.lengths > encoder.limit).sum()),
        {reason: number for reason, number in dropped.items() if number},
        describe_mismatch(encoder, chosen_texts, [picture for picture in pictures if picture is not None]),
    )


def load_encoders(names: Sequence[str], progress: Callable[[str], None] | None) -> Iterator[Encoder]:
    """Load encoders one after another, so that at most one is in use."""
    for name in names:
        if progress:
            progress(name)
        yield loading.load(name)


def iterate_cosines(queries: Vectors, gallery: Vectors) -> Iterator[tuple[int, int, Floats32]]:
    """Yield the first query, the first gallery entry, and the cosines of a block; the blocks of a query are
    consecutive.
    """
    for start in range(0, len(queries), QUERIES):
        block = queries.block(start, QUERIES)
        for first in range(0, len(gallery), GALLERY):
            yield start, first, block @ gallery.block(first, GALLERY).T


def compute_own_cosines(images: Vectors, texts: Vectors, owner: Ints) -> Floats32:
    """Compute the cosine of each text with its own image."""
    cosines = np.empty(len(texts), dtype=np.float32)
    for first in range(0, len(texts), QUERIES):
        own = images.take(owner[first : first + QUERIES])
        cosines[first : first + QUERIES] = np.einsum("ij,ij->i", texts.block(first, QUERIES), own.block(0, QUERIES))
    return cosines
