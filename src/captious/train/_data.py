"""Training examples: images with their captions, tokenized texts and augmented views."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.random import draw_for_rows
from captious._core.types import Floats32, Ints, Ints32
from captious.errors import InputError, require
from captious.io.columns import (
    CANDIDATE_COLUMNS,
    ID_COLUMNS,
    IMAGE_COLUMNS,
    REFERENCE_COLUMNS,
    UNIT_COLUMNS,
    WRONG_UNIT_COLUMNS,
)
from captious.io.formats import read_rows
from captious.io.images import ImageFolder, open_image
from captious.io.rows import Row
from captious.models import features as vectors
from captious.models.encoder import Pixels
from captious.models.token_rows import get_free_memory
from captious.train._schedule import Rows

# Columns with texts about an image, references last.
TEXT_COLUMNS = (*CANDIDATE_COLUMNS, *REFERENCE_COLUMNS)


@dataclass(frozen=True)
class Example:
    """One image with its captions.

    ``captions`` are in the order of the row; the first is used as the long caption.
    """

    id: str
    image: Path
    captions: tuple[str, ...]
    units: tuple[str, ...] = ()
    wrong_units: tuple[str, ...] = ()
    where: str = ""


def read_examples(
    source: str | Path, images: str | Path | None, skip: bool = False, merge: bool = True
) -> tuple[list[Example], list[str]]:
    """Read the rows of a file as examples; return them and notes for the user.

    With ``merge`` all rows of an image become one example, so that an image is never contrasted with itself. ``skip``
    leaves out rows without an image file; otherwise they raise InputError.
    """
    folder = ImageFolder(images) if images is not None else None
    rows = list(read_rows(source))
    examples = [example for example in (_parse_example(row, folder) for row in rows) if example is not None]
    if not examples:
        raise InputError(f"{source}: no row has a caption")
    absent = [example for example in examples if not example.image.is_file()]
    if absent and (not skip or len(absent) == len(examples)):
        if folder is not None and len(absent) == len(examples):
            raise InputError(folder.without(absent[0].image.name))
        first, more = absent[0], f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""
        some = len(absent) < len(examples)
        hint = "; missing='skip' leaves such rows out" if some else "; where are they? pass images=..."
        raise InputError(f"{first.where}: no image {first.image}{more}{hint}")
    bare, empty = len(rows) - len(examples), sum(_count_blank(row.fields) for row in rows)
    notes = [f"{bare:,} rows left out: they have no caption"] if bare else []
    notes += [f"{empty:,} empty captions left out"] if empty else []
    notes += [f"{len(absent)} rows left out: their image is missing"] if absent else []
    if absent:
        examples = [example for example in examples if example.image.is_file()]
    return _merge_examples(examples) if merge else examples, notes


def _parse_example(row: Row, folder: ImageFolder | None) -> Example | None:
    fields = row.fields
    for column in (*ID_COLUMNS, *IMAGE_COLUMNS):
        if isinstance(value := fields.get(column), (list, dict, bool)) or (isinstance(value, float) and value % 1):
            raise InputError(f"{row.where}: {column} is {value!r}, expected a string or a whole number")
        if value == "" and column not in IMAGE_COLUMNS:
            raise InputError(f"{row.where}: {column} is empty, expected a string or a whole number")
    ids = [_format_id(fields[key]) for key in ID_COLUMNS if key not in IMAGE_COLUMNS and fields.get(key) is not None]
    name = next((str(fields[key]) for key in IMAGE_COLUMNS if fields.get(key)), "")
    if not ids and not name:
        raise InputError(f"{row.where}: has neither {' nor '.join(('id', 'image_id', *IMAGE_COLUMNS))}")
    key = ids[0] if ids else Path(name).stem
    captions = [text for field in TEXT_COLUMNS for text in _get_texts(fields, field, row.where)]
    units, wrong = (
        tuple(text for field in names for text in _get_texts(fields, field, row.where))
        for names in (UNIT_COLUMNS, WRONG_UNIT_COLUMNS)
    )
    if wrong and len(wrong) != len(units):
        raise InputError(f"{row.where}: {len(wrong)} wrong_units for {len(units)} units, expected one for each")
    if not captions and units:
        captions = [" ".join(units)]
    if not captions:
        return None
    image = Path(name or key)
    if folder is not None:
        image = folder.find(name, key) or folder.path / image
    return Example(key, image, tuple(dict.fromkeys(captions)), units, wrong, row.where)


def _get_texts(fields: Mapping[str, Any], field: str, where: str) -> list[str]:
    value = fields.get(field)
    if value is None:
        return []
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise InputError(f"{where}: {field} is {type(value).__name__}, expected text or a list of texts")
    return [" ".join(entry.split()) for entry in entries if entry.strip()]


def _count_blank(fields: Mapping[str, Any]) -> int:
    """Count the empty captions of a row.

    >>> _count_blank({"captions": ["a dog", " ", ""], "text": None})
    2
    """
    values = [fields.get(field) for field in TEXT_COLUMNS]
    return sum(not entry.strip() for value in values for entry in ([value] if isinstance(value, str) else value or []))


def _format_id(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _merge_examples(examples: Iterable[Example]) -> list[Example]:
    merged: dict[Path, Example] = {}
    for example in examples:
        first = merged.get(example.image, example)
        captions = dict.fromkeys((*first.captions, *example.captions))
        merged[example.image] = replace(first, captions=tuple(captions))
    return list(merged.values())


def number_images(examples: Sequence[Example]) -> tuple[list[Path], Ints]:
    """Return the distinct images, and for each example the index of its image."""
    numbers: dict[Path, int] = {}
    images = [numbers.setdefault(example.image, len(numbers)) for example in examples]
    return list(numbers), np.array(images, dtype=np.int64)


# Largest share of the free memory for preprocessed images.
SHARE = 0.4
Report = Callable[[str, int, int], None]


class TrainingImages:
    """Preprocessed images by index: kept in memory, or loaded on each access if they do not fit."""

    def __init__(
        self,
        paths: Sequence[Path],
        encoder: Any,
        workers: int = 0,
        keep: bool | None = None,
        report: Report | None = None,
    ) -> None:
        self.paths = list(paths)
        self._encoder = encoder
        self._pool = ThreadPoolExecutor(workers or min(32, os.cpu_count() or 1), thread_name_prefix="images")
        self._pixels: Pixels | None = None
        first = self._open(0)
        self.in_memory = first.nbytes * len(self.paths) < SHARE * get_free_memory() if keep is None else keep
        if self.in_memory:
            self._pixels = np.empty((len(self.paths), *first.shape), dtype=np.uint8)
            for done, pixels in enumerate(self._open_all(range(len(self.paths))), start=1):
                self._pixels[done - 1] = pixels
                if report is not None and (done % 64 == 0 or done == len(self.paths)):
                    report("images", done, len(self.paths))

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def nbytes(self) -> int:
        """The memory used by the images, in bytes."""
        return 0 if self._pixels is None else self._pixels.nbytes

    def pixels(self, rows: Rows) -> Pixels:
        """Return the images at these indices, stacked."""
        return np.stack(list(self._open_all(rows.tolist()))) if self._pixels is None else self._pixels[rows]

    def _open_all(self, rows: Sequence[int]) -> Iterator[Pixels]:
        return self._pool.map(self._open, rows)

    def _open(self, row: int) -> Pixels:
        pixels: Pixels = self._encoder.prepare(open_image(self.paths[row]))
        return pixels


TRIED = 4
# Smallest mean cosine between features of a file and those computed by the tower; images may have been resized.
NEAR = 0.8


def read_features(path: str | Path) -> dict[str, Floats32]:
    """Read the vectors of a file, by the image's file name without suffix."""
    return {Path(name).stem: row for name, row in zip(*vectors.read_features(path), strict=True)}


def load_image_features(towers: Any, path: str | Path) -> str:
    """Load features of a locked image tower from a file, and return a note. Missing ones are computed later."""
    torch = require("torch", "clip")
    if "image" not in towers.locked:
        raise InputError("image_features=... are those of a locked image tower: add lock='image'")
    by_stem = read_features(path)
    paths: Sequence[Path] = towers.image_set.paths
    rows = [row for row, image in enumerate(paths) if image.stem in by_stem]
    if not rows:
        raise InputError(f"{path}: has no features of the images, such as {paths[0].name}")
    table = np.stack([by_stem[paths[row].stem] for row in rows])
    step = max(1, len(rows) // TRIED)
    own = towers.below(np.array(rows[::step][:TRIED], dtype=np.int64)).cpu().numpy()
    if own.ndim != 2 or own.shape[1] != table.shape[1]:
        raise InputError(f"{path}: {table.shape[1]} numbers an image, the image tower gives {own.shape[1]}")
    stored = table[::step][:TRIED]
    norms = np.linalg.norm(own, axis=1) * np.linalg.norm(stored, axis=1)
    cosine = float(((own * stored).sum(1) / norms).mean())
    if cosine < NEAR:
        raise InputError(f"{path}: features are not this tower's: mean cosine {cosine:.2f} on {len(own)} images")
    towers.add_image_features(rows, torch.from_numpy(table))
    return f"{len(rows)} of {len(paths)} images have features in {Path(path).name}: cosine {cosine:.3f}"


CHUNK = 4096


@dataclass(frozen=True, eq=False)
class TokenLists:
    """The tokens of each text without start and end; ``lengths`` also counts the tokens cut off."""

    values: Ints32
    offsets: Ints
    lengths: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ints32:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def span(self, first: int, stop: int) -> Ints32:
        """Return the concatenated tokens of consecutive texts."""
        return self.values[self.offsets[first] : self.offsets[stop]]


@dataclass(frozen=True)
class TokenFrame:
    """The special tokens of an encoder: start (−1 for none), end and padding; and its token limit."""

    start: int
    end: int
    pad: int
    limit: int

    @classmethod
    def of(cls, encoder: Any) -> TokenFrame:
        """Read the frame from an encoder."""
        return cls(encoder.start, encoder.end, encoder.pad, encoder.limit)

    @property
    def size(self) -> int:
        """The number of tokens of an empty text."""
        return 1 + (self.start >= 0)

    def around(self, *parts: Ints32) -> Ints:
        """Concatenate the parts, cut them at the limit, and add the start and end tokens.

        >>> TokenFrame(8, 9, 0, 5).around(np.array([1, 2]), np.array([3, 4])).tolist()
        [8, 1, 2, 3, 9]
        """
        body = (np.concatenate(parts) if len(parts) > 1 else parts[0])[: self.limit - self.size]
        text = np.empty(len(body) + self.size, dtype=np.int64)
        text[0], text[-1] = self.start, self.end  # without a start token, body overwrites text[0]
        text[self.size - 1 : -1] = body
        return text

    def stack(self, texts: Sequence[Ints]) -> Ints:
        """Stack texts in one array, padded to the longest."""
        table = np.full((len(texts), max(map(len, texts))), self.pad, dtype=np.int64)
        for row, text in zip(table, texts, strict=True):
            row[: len(text)] = text
        return table


def tokenize_texts(encoder: Any, texts: Sequence[str]) -> TokenLists:
    """Tokenize texts with the encoder's tokenizer, without start and end tokens."""
    front = int(encoder.start >= 0)
    frame = front + 1
    parts, counts, lengths = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    for first in range(0, len(texts), CHUNK):
        tokens = encoder.tokenize(list(texts[first : first + CHUNK]))
        size = np.minimum(tokens.lengths, encoder.limit) - frame
        column = np.arange(tokens.ids.shape[1])
        parts.append(tokens.ids[(column >= front) & (column < front + size[:, None])].astype(np.int32))
        counts.append(size)
        lengths.append(tokens.lengths - frame)
    return TokenLists(np.concatenate(parts), np.cumsum(np.concatenate(counts)), np.concatenate(lengths))


_TAG = 31
STRETCH, LIGHT = 0.4, 0.2


def draw_views(rows: Rows, strength: float, seed: int, epoch: int) -> Floats32:
    """Draw a random crop and color change for each image: width, height, center x, center y, contrast, brightness.

    ``strength`` is the largest share of the area that is cut off; a negative width mirrors the image.

    >>> width, height, across, down, _, _ = draw_views(np.array([7]), 0.5, seed=0, epoch=1)[0]
    >>> bool(0.5 < abs(width) <= 1 and 0.5 < height <= 1 and abs(across) <= 1 - abs(width))
    True
    """
    area, shape, across, down, mirror, contrast, light = (
        draw_for_rows(rows, seed, epoch, _TAG + number) for number in range(7)
    )
    left, stretch = 1 - strength * area, np.exp((shape - 0.5) * STRETCH)
    width, height = np.minimum(np.sqrt(left * stretch), 1), np.minimum(np.sqrt(left / stretch), 1)
    columns = (
        np.where(mirror < 0.5, -width, width),
        height,
        (2 * across - 1) * (1 - width),
        (2 * down - 1) * (1 - height),
        1 + (2 * contrast - 1) * LIGHT,
        (2 * light - 1) * LIGHT,
    )
    return np.stack(columns, axis=1).astype(np.float32)


def apply_views(pixels: Any, views: Any) -> Any:
    """Apply the views of `draw_views` to normalized pixels, n × 3 × height × width."""
    torch = require("torch", "clip")
    sample = torch.nn.functional
    width, height, across, down, contrast, light = views.to(pixels.device, pixels.dtype).unbind(1)
    none = torch.zeros_like(width)
    maps = torch.stack([torch.stack([width, none, across], 1), torch.stack([none, height, down], 1)], 1)
    grid = sample.affine_grid(maps, list(pixels.shape), align_corners=False)
    cut = sample.grid_sample(pixels, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    middle = cut.mean((1, 2, 3), keepdim=True)
    return (cut - middle) * contrast.view(-1, 1, 1, 1) + middle + light.view(-1, 1, 1, 1)
