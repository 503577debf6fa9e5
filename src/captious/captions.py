"""Items, images in memory, and the immutable columnar table of items that every metric reads."""

from __future__ import annotations

import math
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain, repeat
from operator import itemgetter
from pathlib import PurePath
from types import NoneType
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from captious._core.frame_rules import DEFAULT_FRAMES, FrameRule
from captious._core.hashing import hash_texts
from captious._core.languages import Scripts
from captious._core.numbers import parse_number
from captious._core.random import make_keys
from captious._core.types import Bools, Ints
from captious._core.values import PlainState
from captious.errors import InputError, UnknownKey, format_suggestion
from captious.render import Document, Entry, Gallery, Line, Picture

if TYPE_CHECKING:
    from PIL.Image import Image


# Number of items shown in a notebook.
FIRST = 4
# Column of the videos.
VIDEO = "video"
# Largest number of ids among which a message suggests the most similar one: difflib is slow.
COMPARED = 50_000
T = TypeVar("T")
_BREAK = re.compile(r"[\r\n]")
# White space and invisible characters: joiners, direction marks, the byte-order mark, variation selectors.
_WIDTHLESS = (
    " \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\xad\u1680\u180e\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
    "\u2009\u200a\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u202f\u205f\u2060\u2061\u2062"
    "\u2063\u2064\u2066\u2067\u2068\u2069\u206a\u206b\u206c\u206d\u206e\u206f\u3000\ufe00\ufe01\ufe02\ufe03\ufe04\ufe05"
    "\ufe06\ufe07\ufe08\ufe09\ufe0a\ufe0b\ufe0c\ufe0d\ufe0e\ufe0f\ufeff"
)


@dataclass(frozen=True)
class Item:
    """One captioned item: its candidate captions, its references, and the other fields of its row."""

    id: str
    candidates: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def candidate(self) -> str:
        """The only candidate, or the first of several; empty for a video without predictions."""
        return self.candidates[0] if self.candidates else ""


CHANNELS = (1, 3, 4)
# Tolerance of floats outside [0, 1], as bicubic resizing produces them; they are clipped.
OVERSHOOT = 1e-3
_LOADING = threading.Lock()


class ImageData:
    """An image in memory: a PIL image, an array or a tensor of pixels, or the bytes of an image file.

    Nothing is copied, decoded or moved off a GPU until it is needed. An array has the shape height × width × channels,
    or channels first if only that fits the shape; for a tensor channels first is preferred. Pixels are integers from 0
    to 255 or floats from 0 to 1.
    """

    def __init__(self, value: Any, name: str = "image") -> None:
        self.value, self.name = value, name
        self.channels_first = False
        if isinstance(value, (bytes, bytearray, memoryview)):
            self.value = bytes(value)
        elif not _is_picture(value):
            if not _is_array(value):
                raise InputError(f"{name}: is {type(value).__name__}, expected an image")
            shape = tuple(value.shape)
            last = len(shape) == 2 or (len(shape) == 3 and shape[2] in CHANNELS)
            first = len(shape) == 3 and shape[0] in CHANNELS
            if not (last or first) or 0 in shape:
                raise InputError(
                    f"{name}: an array of shape {' × '.join(map(str, shape))}, expected height × width × 3, or "
                    "3 × height × width"
                )
            self.channels_first = first and (not last or _is_tensor(value))

    @classmethod
    def of(cls, value: Any, name: str) -> ImageData | None:
        """Wrap a value that is an image, or ``{"bytes": …}`` as in Hugging Face data sets; return None for other
        values.
        """
        if isinstance(value, ImageData):
            return value
        if isinstance(value, Mapping):
            value = value.get("bytes")
        is_image = isinstance(value, (bytes, bytearray, memoryview)) or _is_picture(value) or _is_array(value)
        return cls(value, name) if is_image else None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<ImageData {self.name}>"

    def picture(self) -> Image:
        """Return the image as a PIL image in its own mode. Raise InputError if pixels of an array are out of range."""
        from io import BytesIO

        from PIL import Image

        value = self.value
        if isinstance(value, bytes):
            return Image.open(BytesIO(value))
        if _is_picture(value):
            with _LOADING:  # one PIL image may belong to several items, and decodes itself when first used
                value.load()
            picture: Image.Image = value
            return picture
        array = _to_array(value)
        array = np.moveaxis(array, 0, -1) if self.channels_first else array
        return Image.fromarray(_to_bytes(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array))

    def content(self) -> bytes:
        """Return bytes that identify the image in a cache: equal for the same pixels in the same mode."""
        value = self.value
        if isinstance(value, bytes):
            return value
        picture = self.picture()
        orientation, palette = picture.getexif().get(0x0112, 1), picture.getpalette()
        header = (picture.mode, picture.size, orientation, palette, picture.info.get("transparency"))
        return repr(header).encode() + b"\0" + picture.tobytes()


class FileParts:
    """An open file from which any thread reads parts on demand. The file is closed with this object."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._lock, self._number = file, threading.Lock(), -1
        if hasattr(os, "pread"):
            with suppress(OSError):  # in-memory and remote files have no descriptor
                self._number = file.fileno()

    def read(self, start: int, size: int) -> bytes:
        """Read ``size`` bytes from an offset."""
        if self._number >= 0:  # pread does not move the offset, which forked processes share
            return b"".join(self._read_pieces(start, size))
        with self._lock:
            self._file.seek(start)
            return self._file.read(size)

    def _read_pieces(self, start: int, size: int) -> Iterator[bytes]:
        """Read until ``size`` bytes are complete: `os.pread` may return fewer than requested."""
        while size and (piece := os.pread(self._number, size, start)):
            yield piece
            start, size = start + len(piece), size - len(piece)

    def __del__(self) -> None:
        self._file.close()


class FileImage(ImageData):
    """An image that is part of a file, such as a member of a tar; read from disk on each use."""

    def __init__(self, parts: FileParts, start: int, size: int, name: str) -> None:
        self.parts, self.start, self.size, self.name = parts, start, size, name
        self.channels_first = False

    @property
    def value(self) -> bytes:
        """The bytes of the image file."""
        return self.parts.read(self.start, self.size)

    def __reduce__(self) -> tuple[type[ImageData], tuple[bytes, str]]:
        return ImageData, (self.value, self.name)


# An image by its path, or in memory.
ImageSource = str | ImageData


class VideoData:
    """A video in memory: the bytes of a file, its frames, or vectors of its frames that an encoder made elsewhere.

    Frames are a list of images (paths or `ImageData`), or an array of frames × height × width × 3, or channels first,
    by the rules of `ImageData`. Vectors are an array of frames × dimension; ``digest`` names the file that they come
    from in signatures.
    """

    def __init__(self, value: Any, name: str = "video", digest: str | None = None) -> None:
        self.value, self.name = value, name
        self.digest = digest
        if isinstance(value, (bytes, bytearray, memoryview)):
            self.value = bytes(value)
        elif _is_array(value):
            shape = tuple(value.shape)
            if len(shape) not in (2, 4) or 0 in shape:
                size = " × ".join(map(str, shape))
                raise InputError(
                    f"{name}: an array of shape {size}, expected frames × height × width × 3, or frames × dimension "
                    "of an encoder"
                )
        elif isinstance(value, (list, tuple)) and value:
            self.value = tuple(_convert_frame(one, f"{name}, frame {number}") for number, one in enumerate(value))
        else:
            raise InputError(f"{name}: is {type(value).__name__}, expected a path, a list of frames, or an array")

    @classmethod
    def of(cls, value: Any, name: str) -> VideoData | None:
        """Wrap a value that is a video, or ``{"bytes": …}`` as in Hugging Face data sets; return None for others."""
        if isinstance(value, VideoData):
            return value
        if isinstance(value, Mapping):
            value = value.get("bytes")
        is_list = isinstance(value, (list, tuple)) and len(value) > 0
        is_video = is_list or isinstance(value, (bytes, bytearray, memoryview)) or _is_array(value)
        return cls(value, name) if is_video else None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<VideoData {self.name}>"

    @property
    def has_vectors(self) -> bool:
        """Whether the video is given by vectors of its frames."""
        return _is_array(self.value) and len(self.value.shape) == 2

    def vectors(self) -> npt.NDArray[np.float32]:
        """Return the vectors of the frames, frames × dimension."""
        return np.asarray(_to_array(self.value), dtype=np.float32)

    def images(self) -> list[ImageSource]:
        """Return the frames if they are given as images or pixels; an empty list for the bytes of a file."""
        if isinstance(self.value, tuple):
            return list(self.value)
        if isinstance(self.value, bytes) or self.has_vectors:
            return []
        return [ImageData(self.value[number], f"{self.name}, frame {number}") for number in range(len(self.value))]


class FileVideo(VideoData):
    """A video that is part of a file, such as a member of a tar; read from disk on each use."""

    def __init__(self, parts: FileParts, start: int, size: int, name: str) -> None:
        self.parts, self.start, self.size, self.name, self.digest = parts, start, size, name, None

    @property
    def value(self) -> bytes:
        """The bytes of the video file."""
        return self.parts.read(self.start, self.size)

    def __reduce__(self) -> tuple[type[VideoData], tuple[bytes, str]]:
        return VideoData, (self.value, self.name)


# A video by its path (a file, a folder of frames, a file of vectors), or in memory.
VideoSource = str | VideoData


@dataclass(frozen=True)
class Clip:
    """The video of an item, or the part of it from ``start`` to ``end``, in seconds."""

    video: VideoSource
    start: float | None = None
    end: float | None = None

    def __str__(self) -> str:
        return str(self.video)


@dataclass(frozen=True)
class Origin:
    """The columns or files that were read as captions, references, images and videos, and what reading changed."""

    candidates: str = ""
    """The column of the candidates, or how they were found without one, such as *by id*; empty for a set in memory."""
    references: str = ""
    """The column or the file of the references."""
    images: str = ""
    videos: str = ""
    cleaned: int = 0
    """Number of texts from which control characters or lone surrogates were removed."""
    left_out: int = 0
    """Number of rows without a usable caption; `CaptionSet.skipped` includes them."""
    remarks: tuple[str, ...] = ()
    """One sentence for each kind of change, with the first places."""


def format_origin(columns: Mapping[str, str], reference_range: tuple[int, int]) -> str:
    """Return a line of the columns that were read, for the end of a result; empty without columns.

    >>> format_origin({"captions": "`text`", "references": "refs.json"}, (4, 5))
    'captions: `text`; references: refs.json, 4–5 per item'
    """
    if not columns:
        return ""
    low, high = reference_range
    number = f"{low}" if low == high else f"{low}–{high}"
    references = f"{columns['references']}, {number} per item" if "references" in columns else "none"
    entries = {"captions": "", "references": ""} | dict(columns) | {"references": references}  # in this order
    return "; ".join(f"{name}: {column}" for name, column in entries.items())


def _is_picture(value: Any) -> bool:
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def _convert_frame(value: Any, name: str) -> ImageSource:
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    image = ImageData.of(value, name)
    if image is None:
        raise InputError(f"{name}: is {type(value).__name__}, expected a path or an image")
    return image


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_array(value: Any) -> bool:
    """Return True for an array of two or more dimensions, of any library."""
    return hasattr(value, "__array__") and len(getattr(value, "shape", ())) >= 2


def _to_array(value: Any) -> npt.NDArray[Any]:
    if _is_tensor(value):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value
    return np.asarray(value)


def _to_bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Convert pixels to integers from 0 to 255. Raise InputError if they are out of range."""
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype.kind not in "iuf":
        raise InputError(f"is an array of {array.dtype}, expected whole numbers from 0 to 255 or floats from 0 to 1")
    low, high = float(array.min()), float(array.max())
    top, slack = (1.0, OVERSHOOT) if array.dtype.kind == "f" else (255.0, 0.0)
    if not (low >= -slack and high <= top + slack):
        kind = "floats" if array.dtype.kind == "f" else "whole numbers"
        hint = "; is it normalized for a model?" if low < 0 else ""
        raise InputError(f"has {kind} from {low:.3g} to {high:.3g}, expected {kind} from 0 to {top:g}{hint}")
    pixels: npt.NDArray[np.uint8] = (array.astype(np.float32) * (255 / top)).round().clip(0, 255).astype(np.uint8)
    return pixels


class Memo(PlainState):
    """Base class of immutable objects with a cache of derived values, so that metrics compute shared ones once."""

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Return the cached value of a key; call ``make`` to compute it the first time."""
        if key not in self._computed:
            self._computed[key] = make()
        result: T = self._computed[key]
        return result

    def known(self, key: Any) -> Any:
        """Return the cached value of a key, or None if it was not computed yet."""
        return self._computed.get(key)

    def keep(self, key: Any, value: Any) -> None:
        """Store a value in the cache."""
        self._computed[key] = value

    def forget(self) -> None:
        """Clear the cache."""
        self._computed.clear()

    @cached_property
    def _computed(self) -> dict[Any, Any]:
        return {}


@dataclass(frozen=True, eq=False)
class Ragged(Memo, Sequence[tuple[str, ...]]):
    """Lists of texts of any lengths, stored flat: list ``i`` is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Sequence[str]
    offsets: Ints

    @classmethod
    def of(cls, lists: Iterable[Sequence[str]]) -> Ragged:
        """Flatten lists of texts.

        >>> Ragged.of([["a dog", "dogs"], [], ["a cat"]]).offsets.tolist()
        [0, 2, 2, 3]
        """
        lists = list(lists)
        offsets = np.fromiter(accumulate(map(len, lists), initial=0), dtype=np.int64, count=len(lists) + 1)
        return cls(tuple(chain.from_iterable(lists)), offsets)

    @classmethod
    def joined(cls, parts: Sequence[Ragged]) -> Ragged:
        """Concatenate several objects list by list.

        >>> Ragged.joined([Ragged.of([["a dog", "dogs"]]), Ragged.of([[], ["a cat"]])]).offsets.tolist()
        [0, 2, 2, 3]
        """
        counts = np.concatenate([np.zeros(0, dtype=np.int64), *(part.counts for part in parts)])
        values = tuple(chain.from_iterable(part.values for part in parts))
        return cls(values, np.concatenate(([0], np.cumsum(counts))))

    def part(self, first: int, end: int) -> Ragged:
        """Return the lists from ``first`` up to ``end``, exclusive."""
        offsets = self.offsets[first : end + 1]
        return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    def take(self, indices: Sequence[int]) -> Ragged:
        """Return the lists at these indices, in this order.

        >>> Ragged.of([["a dog", "dogs"], [], ["a cat"]]).take([2, 0]).values
        ('a cat', 'a dog', 'dogs')
        """
        chosen = np.asarray(indices, dtype=np.int64)
        first, end = self.offsets.take(chosen), self.offsets.take(chosen + 1)
        bounds = zip(first.tolist(), end.tolist(), strict=True)
        values = tuple(chain.from_iterable([self.values[one:other] for one, other in bounds]))
        return Ragged(values, np.concatenate(([0], np.cumsum(end - first))))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> tuple[str, ...]:  # type: ignore[override]  # no slices
        return tuple(self.values[self.offsets[index] : self.offsets[index + 1]])

    @property
    def counts(self) -> Ints:
        """The number of texts in each list."""
        return self.offsets[1:] - self.offsets[:-1]

    @cached_property
    def owners(self) -> Ints:
        """The index of the list that each text belongs to.

        >>> Ragged.of([["a dog", "dogs"], [], ["a cat"]]).owners.tolist()
        [0, 0, 2]
        """
        return np.repeat(np.arange(len(self)), self.counts)

    @property
    def distinct(self) -> tuple[Sequence[str], Ints]:
        """Texts, and the index of each value in them: the distinct texts if they are cached, otherwise all."""
        return self.known("distinct") or (self.values, np.arange(len(self.values)))

    def scripts(self, step: int) -> Scripts:
        """Count the letters of each script in every ``step``-th text, once."""
        return self.once(("scripts", step), lambda: Scripts.of(self.values, step))

    @cached_property
    def types(self) -> set[type]:
        """The types of the texts; `CaptionSet` allows only strings."""
        return set(map(type, self.values))

    @cached_property
    def blank(self) -> Bools:
        """A mask of the texts that contain only white space and zero-width characters."""
        blank, first = np.zeros(len(self.values), dtype=np.bool_), {"", *_WIDTHLESS}
        # Fast path: no text begins with such a character, or is empty.
        if not first.isdisjoint(map(itemgetter(slice(1)), self.values)):
            blank[:] = [text[:1] in first and not text.strip(_WIDTHLESS) for text in self.values]
        return blank

    @cached_property
    def broken(self) -> Ints:
        """The indices of texts with a line break inside."""
        # Fast path: searching all texts at once is faster than each of them.
        joined = "".join(self.values)
        if "\n" not in joined and "\r" not in joined:
            return np.zeros(0, dtype=np.int64)
        indices = [index for index, text in enumerate(self.values) if "\n" in text or "\r" in text]
        inside = [index for index in indices if _BREAK.search(self.values[index].strip())]
        return np.array(inside, dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class CaptionSet(Memo):
    """An immutable table of items, keyed by item id.

    >>> captions = CaptionSet.of({"7": "a dog runs"}, {"7": ["a dog is running", "the dog runs"]})
    >>> captions["7"].references
    ('a dog is running', 'the dog runs')
    """

    ids: tuple[str, ...]
    candidates: Ragged
    references: Ragged
    columns: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    name: str = "captions"
    skipped: int = 0
    """Number of ids left out by reading because they had no candidate or no reference."""
    selection: str = ""
    """Name of the list of items selected by reading, such as the images of a paper."""
    language: str = ""
    """Code of the captions' language; empty if unknown, which metrics take for English."""
    origin: Origin = Origin()
    """The columns that were read, and what was changed."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Entries of every signature that follow from reading, such as ``events``: how dense captions became items."""
    tokenizer: str = ""
    """Name of the tokenizer that ``auto`` stands for, if reading chose another than that of the language."""
    frames: FrameRule = DEFAULT_FRAMES
    """Which frames of videos are looked at."""

    def __post_init__(self) -> None:
        if len(self._positions) != len(self.ids):
            raise InputError(f"{self.name}: {len(self.ids) - len(self._positions)} ids occur more than once")
        for part, texts in (("candidate", self.candidates), ("reference", self.references)):
            if len(texts) != len(self.ids):
                raise InputError(f"{self.name}: {len(texts)} {part} lists for {len(self.ids)} ids")
            if wrong_types := {kind.__name__ for kind in texts.types - {str}}:
                raise InputError(f"{self.name}: a {part} caption is of type {wrong_types.pop()}, expected a string")

        for column, values in self.columns.items():
            if len(values) != len(self.ids):
                raise InputError(f"{self.name}: column {column!r} has {len(values)} values for {len(self.ids)} ids")
        if set(map(type, self.columns.get("image", ()))) - {str, NoneType, ImageData}:
            images = tuple(map(_convert_image, self.columns["image"], self.ids))
            object.__setattr__(self, "columns", {**self.columns, "image": images})
        if set(map(type, self.columns.get(VIDEO, ()))) - {str, NoneType, VideoData}:
            videos = tuple(map(_convert_video, self.columns[VIDEO], self.ids))
            object.__setattr__(self, "columns", {**self.columns, VIDEO: videos})

    @classmethod
    def of(
        cls,
        candidates: Mapping[Any, str | Sequence[str]],
        references: Mapping[Any, str | Sequence[str]] | None = None,
        columns: Mapping[str, Sequence[Any]] | None = None,
        name: str = "captions",
    ) -> CaptionSet:
        """Build a set from dictionaries; ``captious.read`` also joins, checks and explains."""
        by_id = {str(key): value for key, value in (references or {}).items()}
        return cls(
            ids=tuple(str(key) for key in candidates),
            candidates=Ragged.of([_to_list(value) for value in candidates.values()]),
            references=Ragged.of([_to_list(by_id.get(str(key), ())) for key in candidates]),
            columns={column: tuple(values) for column, values in (columns or {}).items()},
            name=name,
        )

    def __repr__(self) -> str:
        numbers = f"{len(self.candidates.values)} candidates, {len(self.references.values)} references"
        return f"<CaptionSet {PurePath(self.name).name}: {len(self)} items, {numbers}>"

    def _repr_html_(self) -> str:
        from captious.render.notebook import render_notebook

        images = self.images
        entries = [make_gallery_entry(self.item(index), images[index]) for index in range(min(FIRST, len(self)))]
        columns = f"; columns: {', '.join(self.columns)}" if self.columns else ""
        about = f"{len(self.candidates.values):,} candidates, {len(self.references.values):,} references{columns}"
        first = f"the first {FIRST}" if len(self) > FIRST else ""
        title = f"{PurePath(self.name).name}: {len(self):,} items"
        return render_notebook(Document(title, about, [Gallery(first, entries, replaces="items")]))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Item]:
        return (self.item(index) for index in range(len(self)))

    def __getitem__(self, key: str | int) -> Item:
        return self.item(self.position(key))

    def position(self, key: str | int) -> int:
        """Return the index of the item with this id."""
        try:
            return self._positions[str(key)]
        except KeyError:
            raise UnknownKey(f"{self.name}: no item with id {str(key)!r}{self._hint(key)}") from None

    def _hint(self, key: object) -> str:
        """Return a hint for the message about an unknown id."""
        if key in range(len(self)):
            return f"; ids are such as {self.ids[0]!r}, and item({key}) is the item at that position"
        similar = format_suggestion(str(key), self.ids) if len(self) <= COMPARED else ""
        return similar or (f"; ids are such as {self.ids[0]!r}" if self.ids else "")

    def __contains__(self, key: object) -> bool:
        return str(key) in self._positions

    def item(self, index: int) -> Item:
        """Return the item at a position; negative positions count from the end. Prefer ids, as in ``captions[id]``."""
        if not -len(self) <= index < len(self):
            raise UnknownKey(f"{self.name}: no item at position {index}, there are {len(self)} items")
        index %= len(self)
        fields = {column: values[index] for column, values in self.columns.items()}
        return Item(self.ids[index], self.candidates[index], self.references[index], fields)

    def take(self, indices: Sequence[int]) -> CaptionSet:
        """Return the items at these positions, in this order: a shard, a filter, a reordering."""
        return replace(
            self,
            ids=tuple(self.ids[index] for index in indices),
            candidates=self.candidates.take(indices),
            references=self.references.take(indices),
            columns={name: tuple(values[index] for index in indices) for name, values in self.columns.items()},
        )

    def draw_items(self, items: int, seed: int) -> list[int]:
        """Draw the indices of this number of items with a caption, in the order of the set.

        They depend only on ids and seed.

        >>> captions = CaptionSet.of({"a": "a dog", "b": " ", "c": "a cat"})
        >>> captions.draw_items(9, 0), len(captions.draw_items(1, 0))
        ([0, 2], 1)
        """
        written = [index for index, own in enumerate(self.candidates) if own and own[0].strip()]
        order = np.argsort(make_keys([self.ids[index] for index in written], seed), kind="stable")
        return sorted(written[place] for place in order[:items].tolist())

    def part(self, first: int, end: int) -> CaptionSet:
        """Return the items from ``first`` up to ``end``, exclusive, without checking them again.

        >>> CaptionSet.of({"7": "a dog", "8": "a cat", "9": "a bird"}).part(1, 3).ids
        ('8', '9')
        """
        end = min(end, len(self))
        part = object.__new__(CaptionSet)  # skip __post_init__: the items were checked before
        part.__dict__.update(
            self.__getstate__(),
            ids=self.ids[first:end],
            candidates=self.candidates.part(first, end),
            references=self.references.part(first, end),
            columns={name: values[first:end] for name, values in self.columns.items()},
            _digests=self._digests[first:end],  # reused, because hashing takes a while
        )
        return part

    def split_candidates(self) -> CaptionSet:
        """Return a set with one item per candidate, with the references and columns of its original item.

        >>> captions = CaptionSet.of({"7": ["a dog", "dogs"]}, {"7": ["a dog runs"]})
        >>> captions.split_candidates().ids, captions.split_candidates()["7#1"].candidates
        (('7#0', '7#1'), ('dogs',))
        """
        owners, values = self.candidates.owners.tolist(), self.candidates.values
        numbers = (np.arange(len(values)) - self.candidates.offsets[self.candidates.owners]).tolist()
        split = replace(
            self,
            ids=tuple(f"{self.ids[owner]}#{number}" for owner, number in zip(owners, numbers, strict=True)),
            candidates=Ragged(values, np.arange(len(values) + 1)),
            references=self.references.take(owners),
            columns={name: tuple(column[owner] for owner in owners) for name, column in self.columns.items()},
        )
        split.keep("item ids", tuple(self.item_ids[owner] for owner in owners))
        return split

    @property
    def item_ids(self) -> tuple[str, ...]:
        """The ids to join other tables by: those of the items, or of the original items after `split_candidates`."""
        return self.once("item ids", lambda: self.ids)

    @property
    def scripts(self) -> Scripts:
        """The scripts of all captions, counted once."""
        step = Scripts.step(len(self.candidates.values) + len(self.references.values))
        return self.once("scripts", lambda: self.candidates.scripts(step) + self.references.scripts(step))

    def positions(self, ids: Iterable[str]) -> list[int]:
        """Return the indices of these ids."""
        return [self._positions[key] for key in ids]

    def find_positions(self, ids: Sequence[str]) -> Ints:
        """Return the indices of these ids as an array, with -1 for unknown ids."""
        return np.fromiter(map(self._positions.get, ids, repeat(-1)), np.int64, len(ids))

    @property
    def origin_line(self) -> str:
        """A summary of the columns that were read, for the end of a result; empty for a set that was built in memory.

        >>> from captious.io.read import read
        >>> read([{"id": 1, "caption": "a dog", "references": ["dogs", "the dog"]}]).origin_line
        'captions: `caption`; references: `references`, 2 per item'
        """
        return format_origin(self.origin_columns, self.reference_range)

    @property
    def origin_columns(self) -> dict[str, str]:
        """The columns and files of `origin_line`, by their role; empty for a set that was built in memory."""
        if not self.origin.candidates:
            return {}
        columns = {
            "captions": self.origin.candidates,
            "references": self.origin.references if self.reference_range[1] else "",
            "images": self.origin.images,
            "videos": self.origin.videos,
        }
        if columns["videos"] and not columns["videos"].startswith("file "):  # all vectors of a file of vectors count
            columns["frames"] = str(self.frames)
        return {name: column for name, column in columns.items() if column}

    @property
    def reference_range(self) -> tuple[int, int]:
        """The smallest and the largest number of references of an item; zeros without items."""
        counts = self.references.counts
        return (int(counts.min()), int(counts.max())) if len(counts) else (0, 0)

    @property
    def images(self) -> list[ImageSource | None]:
        """The image of each item, as a path or in memory; None if it has none."""
        images = self.columns.get("image", (None,) * len(self))
        return [image if isinstance(image, (str, ImageData)) and image else None for image in images]

    @cached_property
    def has_videos(self) -> bool:
        """Whether any item has a video."""
        return any(isinstance(video, (str, VideoData)) and video for video in self.columns.get(VIDEO, ()))

    @property
    def clips(self) -> list[Clip | None]:
        """The video of each item with its part from ``start`` to ``end``; None if it has none."""
        return [self.find_clip(index) for index in range(len(self))] if self.has_videos else [None] * len(self)

    def find_clip(self, index: int) -> Clip | None:
        """Return the video of an item with its part. Raise InputError if its ``start`` and ``end`` are no part."""
        video = self.columns[VIDEO][index] if self.has_videos else None
        if not isinstance(video, (str, VideoData)) or not video:
            return None
        part = tuple(self.columns[name][index] if name in self.columns else None for name in ("start", "end"))
        return Clip(video, *_parse_part(part, f"{self.name}: id {self.ids[index]!r}"))

    @cached_property
    def fingerprint(self) -> int:
        """A fingerprint of ids and references, independent of the order of items.

        Those of shards add up modulo 2**64.
        """
        return int(self._digests.sum(dtype=np.uint64))

    def copy_digests(self, other: CaptionSet) -> None:
        """Copy the digests of a set with the same ids and references."""
        self.__dict__["_digests"] = other._digests

    @cached_property
    def _digests(self) -> npt.NDArray[np.uint64]:
        """A 64-bit hash of the id and the references of each item."""
        values, bounds = self.references.values, self.references.offsets.tolist()
        return hash_texts(
            "\x1f".join((key, *values[first:end]))
            for key, first, end in zip(self.ids, bounds[:-1], bounds[1:], strict=True)
        )

    @cached_property
    def _positions(self) -> dict[str, int]:
        return dict(zip(self.ids, range(len(self.ids)), strict=True))


def _to_list(value: str | Sequence[str]) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value


def _convert_image(value: Any, key: str) -> Any:
    """Convert a value of the column ``image``: paths to text, pixels to `ImageData`; other values unchanged."""
    if value is None or isinstance(value, (str, ImageData)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping) and not value.get("bytes"):
        return value.get("path", value)
    return ImageData.of(value, f"image of {key}") or value


def _convert_video(value: Any, key: str) -> Any:
    """Convert a value of the column ``video``: paths to text, contents to `VideoData`; other values unchanged."""
    if value is None or isinstance(value, (str, VideoData)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping) and not value.get("bytes"):
        return value.get("path", value)
    if isinstance(value, (list, tuple)) and any(isinstance(one, (bool, int, float, NoneType)) for one in value):
        return value  # a column of that name with something else in it
    return VideoData.of(value, f"video of {key}") or value


def _parse_part(part: Sequence[Any], where: str) -> tuple[float | None, float | None]:
    """Return the start and the end of a part of a video, in seconds. Raise InputError if they are none."""
    start, end = (_parse_seconds(value, where, name) for value, name in zip(part, ("start", "end"), strict=True))
    if end is not None and end < (start or 0.0):
        raise InputError(f"{where}: ends ({end:g}) before it starts ({start or 0.0:g}), expected seconds in order")
    return start, end


def _parse_seconds(value: Any, where: str, name: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        written = isinstance(value, str)
        seconds = math.nan if isinstance(value, bool) else parse_number(value) if written else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(f"{where}: {name} is {str(value)[:40]!r}, expected seconds from 0")
    return seconds


def make_gallery_entry(item: Item, image: ImageSource | None, facts: Sequence[str] = ()) -> Entry:
    """Make the gallery entry of an item."""
    lines = [Line(text) for text in item.candidates]
    return Entry(item.id, lines, Picture(image) if image else None, facts, references=item.references)
