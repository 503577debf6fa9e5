"""Images: matching files to items, and decoding files of unknown content.

An image that cannot be used raises UnreadableImage with a one-line reason.

An image keeps its own mode (palette, CMYK, alpha …), because the reference implementations resize before they convert
to RGB. Only modes with more than eight bits per channel, which Pillow would turn white, are converted here.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from captious._core.files import is_file, is_folder, read_regular
from captious.captions import CaptionSet, ImageData, ImageSource
from captious.errors import InputError
from captious.io.columns import AUDIO_SUFFIXES, COCO_NAME, ID_COLUMNS, IMAGE_COLUMNS, NO_SUCH, parse_image_number
from captious.io.rows import Row

if TYPE_CHECKING:
    from PIL.Image import Image


# Images with more pixels are refused after reading the header, before decoding.
MAX_PIXELS = 100_000_000
# Largest aspect ratio: a narrow strip becomes huge when its shorter side is resized to a model's input.
MAX_RATIO = 1000


class UnreadableImage(InputError):
    """An image that cannot be used; the message names it and gives the reason."""


class CroppedImage(ImageData):
    """A box of an image file, cut out on each use: left, top, right and bottom in pixels."""

    def __init__(self, path: str, box: tuple[int, int, int, int]) -> None:
        self.path, self.box, self.channels_first = path, box, False
        self.name = f"{path} {box}"

    @property
    def value(self) -> Image:
        """The pixels of the box."""
        return open_image(Path(self.path)).crop(self.box)

    def __reduce__(self) -> tuple[type[CroppedImage], tuple[str, tuple[int, int, int, int]]]:
        return CroppedImage, (self.path, self.box)


def open_image(source: Path | ImageSource, upright: bool = False) -> Image:
    """Decode the first frame of an image; rotate it as its EXIF tag says if ``upright``."""
    return decode_image(read_image(source), source, upright)


def read_image(source: Path | ImageSource) -> bytes:
    """Return the bytes of an image file, or the content of an image in memory."""
    if isinstance(source, ImageData):
        try:
            return source.content()
        except (InputError, OSError) as error:
            raise UnreadableImage(f"{source}: {_format_error(error)}") from None
    path = source
    try:
        return read_regular(path)
    except InputError as error:
        raise UnreadableImage(str(error)) from None
    except IsADirectoryError:
        raise UnreadableImage(f"{path}: is a folder, expected an image") from None
    except FileNotFoundError:
        raise UnreadableImage(f"{path}: {NO_SUCH}") from None
    except OSError as error:
        raise UnreadableImage(f"{path}: cannot be read ({error.strerror or error})") from None


def decode_image(content: bytes, source: Path | ImageSource, upright: bool = False) -> Image:
    """Decode the first frame of an image from bytes or memory; ``source`` names it in errors."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    name = str(source)
    if not content:
        raise UnreadableImage(f"{name}: is empty, expected an image")
    _silence_pillow()
    try:
        image = source.picture() if isinstance(source, ImageData) else Image.open(io.BytesIO(content))
    except UnidentifiedImageError:
        raise UnreadableImage(f"{name}: is not an image, or of a kind that Pillow does not read") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UnreadableImage(
            f"{name}: is far larger than {_format_millions(MAX_PIXELS)} pixels; scale it down first"
        ) from None
    except Exception as error:  # a damaged header makes decoders raise almost anything
        raise UnreadableImage(f"{name}: has a damaged header ({_generalize_error(error)})") from None
    if image.width * image.height >= MAX_PIXELS:
        size = f"{image.width} x {image.height} = {_format_millions(image.width * image.height)}"
        raise UnreadableImage(
            f"{name}: has {size} pixels, expected fewer than {_format_millions(MAX_PIXELS)}; scale it down first"
        )
    if max(image.size) > MAX_RATIO * min(image.size):
        raise UnreadableImage(f"{name}: is {image.width} x {image.height} pixels, too narrow a strip to be resized")
    try:
        image.load()
        return _convert_to_eight_bits(ImageOps.exif_transpose(image) if upright else image)
    except Exception as error:  # as for the header
        raise UnreadableImage(f"{name}: is truncated or damaged ({_generalize_error(error)})") from None


def is_plain_jpeg(content: bytes, upright: bool = False) -> bool:
    """Return True if a file is a complete 8-bit, three-channel JPEG within the limits of this module.

    Its segments are parsed up to the one with the size, without Pillow, which takes ten times as long. With
    ``upright``, a file with EXIF data is not plain, because it may have to be rotated.
    """
    if not content.startswith(b"\xff\xd8") or not content.rstrip(b"\0").endswith(b"\xff\xd9"):
        return False
    if upright and b"Exif\0" in content[:65536]:
        return False
    at = 2
    while at + 9 < len(content) and content[at] == 0xFF:
        marker, length = content[at + 1], int.from_bytes(content[at + 2 : at + 4], "big")
        if marker in (0xC0, 0xC1, 0xC2):  # baseline, extended and progressive frames
            height, width = (int.from_bytes(content[at + first : at + first + 2], "big") for first in (5, 7))
            fits = 0 < height * width < MAX_PIXELS and max(height, width) <= MAX_RATIO * min(height, width)
            return content[at + 4] == 8 and content[at + 9] == 3 and fits
        at += 2 + length
    return False


@cache
def _silence_pillow() -> None:
    """Ignore Pillow's warnings about large images, because `MAX_PIXELS` decides here.

    Done once for the whole process: `warnings.catch_warnings` is not thread-safe.
    """
    from PIL import Image

    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def _convert_to_eight_bits(image: Image) -> Image:
    """Scale deeper modes to eight bits; Pillow's own conversion would clip all values above 255."""
    from PIL import Image

    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        most = int(values.max(initial=0))
        # Assume 16 bits unless values are larger: a 32-bit TIFF may use any part of its range.
        shift = 0 if image.mode == "I" and most <= 255 else max(8, most.bit_length() - 8)
        return Image.fromarray((values >> shift).clip(0, 255).astype(np.uint8))
    if image.mode == "F":
        real = np.nan_to_num(np.asarray(image))
        return Image.fromarray((real * 255 if real.max(initial=0) <= 1 else real).clip(0, 255).round().astype(np.uint8))
    if image.mode in ("PA", "La", "RGBa"):
        return image.convert("RGBA")
    return image


def _format_error(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__


def _generalize_error(error: Exception) -> str:
    """Return a decoder's message without numbers, bytes and addresses, so that equal faults are grouped."""
    return re.sub(r"b'[^']*'|0x[0-9a-f]+|\b\d+\b", "…", _format_error(error))


def _format_millions(count: int) -> str:
    return f"{count / 1e6:.6g} million"


SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"})


def add_images(captions: CaptionSet, images: Any) -> CaptionSet:
    """Return the set with the column ``image``; ``images`` as in ``captious.read``."""
    column = match_images(images, captions.ids, captions.columns.get("image"))
    return replace(captions, columns={**captions.columns, "image": column})


def match_images(
    images: Any, ids: Sequence[str], names: Sequence[Any] | None = None, listed: Sequence[str] | None = None
) -> tuple[ImageSource | None, ...]:
    """Return the image of each item: from a folder, from a dictionary by id, or from a list in the order of the
    captions.

    ``listed`` are the ids that a list follows, if they differ from those of the items.
    """
    if isinstance(images, (str, os.PathLike)):
        return find_images(Path(images), ids, names)
    by_id = index_by_id(images, "images", _list_images, ids, listed)
    return tuple(_check_image(by_id.get(key), key) for key in ids)


def index_by_id(
    values: Any,
    what: str,
    list_values: Callable[[Any], Sequence[Any]],
    ids: Sequence[str],
    listed: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return images or videos by id: from a dictionary by id, or from a list in the order of ``listed`` or ``ids``.

    ``what`` names them in messages; ``list_values`` checks what is no dictionary and returns it as a list.
    """
    if hasattr(values, "index") and hasattr(values, "to_dict"):  # a pandas series
        values = values.to_dict()
    if isinstance(values, Mapping):
        by_id = {str(key): value for key, value in values.items()}
        if ids and by_id.keys().isdisjoint(ids):
            raise InputError(f"{what}: no id is also one of the captions', such as {', '.join(list(by_id)[:3])}")
        return by_id
    entries = list_values(values)
    listed = ids if listed is None else listed
    if len(entries) != len(listed):
        raise InputError(f"{what}: {len(entries)} for {len(listed)} captions, expected one for each, in their order")
    return dict(zip(listed, entries, strict=True))


def _list_images(images: Any) -> Sequence[Any]:
    one = ImageData.of(images, "images") if len(getattr(images, "shape", (0, 0, 0))) < 4 else None
    if one is not None or not isinstance(images, Iterable):
        kind = "one image" if one is not None else type(images).__name__
        raise InputError(f"images: {kind}, expected a folder, a list in the order of the captions, or a dict by id")
    return images if isinstance(images, Sequence) else list(images)


def _check_image(value: Any, key: str) -> ImageSource | None:
    if value is None or isinstance(value, (str, os.PathLike)):
        return None if value is None else os.fspath(value)
    image = ImageData.of(value, f"image of {key}")
    if image is None:
        raise InputError(
            f"images: that of {key} is {type(value).__name__}, expected a path, a PIL image, an array or a tensor"
        )
    return image


class ImageFolder:
    """A folder of images, or of sounds, with lookup by the names in rows.

    An image is searched by its file name, by the same name with another suffix, by the item's id, and by the id with
    COCO's twelve digits, with or without a prefix such as ``COCO_val2014_``.
    """

    suffixes: ClassVar[frozenset[str]] = SUFFIXES
    what: ClassVar[str] = "image"

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder)
        if not self.path.is_dir():
            raise InputError(f"{self.path}: no such folder of {self.what}s")
        with os.scandir(self.path) as entries:  # creating 50,000 Path objects takes longer than listing the names
            self._entries = sorted(entry.name for entry in entries)
        self._names = {name: None for name in self._entries if _get_suffix(name) in self.suffixes}

    @cached_property
    def _stems(self) -> dict[str, str]:
        """File names by stem; computed only if rows do not contain the file names."""
        return {Path(name).stem: name for name in self._names}

    @cached_property
    def _numbers(self) -> dict[str, str]:
        return {match[1]: name for stem, name in self._stems.items() if (match := COCO_NAME.fullmatch(stem))}

    @property
    def names(self) -> list[str]:
        """The sorted names of the images directly in the folder."""
        return list(self._names)

    def find(self, name: str, key: str) -> Path | None:
        """Return the image of an item with this id; ``name`` is the image in its row, which may be a relative path."""
        wanted = Path(name).name or key
        if wanted in self._names:
            return self.path / wanted
        if "/" in name and is_file(self.path / name):
            return self.path / name
        by_stem = (self._stems.get(stem) for stem in (Path(wanted).stem, Path(key).stem))
        by_number = (self._numbers.get(number.zfill(12)) for number in (Path(wanted).stem, key) if number.isdecimal())
        image = next(filter(None, (*by_stem, *by_number)), None)
        return None if image is None else self.path / image

    def find_all(self, ids: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
        """Return the path of each item's file, or the expected path if there is none; ``names`` may be empty.

        Raise InputError if no item has one.
        """
        pairs = list(zip(ids, names or ("",) * len(ids), strict=True))
        files = [self.find(name, key) for key, name in pairs]
        paths = tuple(
            str(file or self.path / (Path(name).name or key)) for file, (key, name) in zip(files, pairs, strict=True)
        )
        if ids and not any(files):
            raise InputError(self.without(Path(paths[0]).name))
        return paths

    def without(self, wanted: str) -> str:
        """Return the message for a folder without any matching image: the names tried and the files found."""
        stem = Path(wanted).stem
        tried = [Path(wanted).name if Path(wanted).suffix.lower() in SUFFIXES else f"{stem}.jpg (.png, .webp, …)"]
        if stem.isdecimal():
            tried += [f"{stem.zfill(12)}.jpg", f"COCO_…_{stem.zfill(12)}.jpg"]
        folders = [name for name in self._entries if is_folder(self.path / name)]
        if self._names:
            content = f"{_format_number(self._names, 'image')}, such as {next(iter(self._names))}"
        elif folders:
            content = (
                f"no image itself, but {_format_number(folders, 'folder')}, such as {folders[0]}: name one of them"
            )
        elif self._entries:
            content = f"no image, but {_format_number(self._entries, 'other file')}, such as {self._entries[0]}"
        else:
            content = "nothing"
        return f"{self.path}: contains no image of any item: looked for {', '.join(tried)}, found {content}"


class SoundFolder(ImageFolder):
    """A folder of sounds."""

    suffixes: ClassVar[frozenset[str]] = frozenset(AUDIO_SUFFIXES)
    what: ClassVar[str] = "sound"


def _get_suffix(name: str) -> str:
    """Return the suffix of a name in lower case, like ``Path.suffix``."""
    stem, dot, ending = name.rpartition(".")
    return f"{dot}{ending}".lower() if stem else ""


def _format_number(things: Sized, what: str) -> str:
    return f"{len(things):,} {what}{'s' * (len(things) != 1)}"


def find_images(folder: str | Path, ids: Sequence[str], names: Sequence[Any] | None = None) -> tuple[str, ...]:
    """Return the path of each item's image as `ImageFolder` finds it, or the expected path if there is none."""
    texts = [str(value) if value and not isinstance(value, ImageData) else "" for value in names or ()]
    return ImageFolder(folder).find_all(ids, texts)


def index_images(folder: str | Path) -> dict[str, str]:
    """Map each possible name of an image in a folder to its path: stem, file name, and COCO number."""
    images = ImageFolder(folder)
    paths: dict[str, str] = {}
    for name in images.names:
        for key in (Path(name).stem, name, parse_image_number(name)):
            paths.setdefault(key, str(images.path / name))
    if not paths:
        raise InputError(f"{images.path}: contains no image")
    return paths


def get_image_name(row: Row) -> str:
    """Return the name of the image in a row."""
    for column in (*IMAGE_COLUMNS, *ID_COLUMNS):
        value = row.fields.get(column)
        if value is not None and value != "" and isinstance(value, (str, int)) and not isinstance(value, bool):
            return str(value)
    raise InputError(f"{row.where}: names no image, expected a column {', '.join(IMAGE_COLUMNS)} or id")
