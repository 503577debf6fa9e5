"""Region features as UNITER and UMIC publish them: an LMDB of msgpack records, read without further packages.

An LMDB file is a B+ tree of pages. Of the first two pages, the meta pages, the one with the later transaction counts::

    0 meta   1 meta   2 leaf   3 branch (root)   4 leaf   5 overflow   6 …
                         ▲        │ │               ▲ │       ▲
                         └────────┘ └───────────────┘ └───────┘  a value that is longer than a page

A branch page has a page number for each key, a leaf page has values, or the number of the first overflow page of a long
value. Numbers are little-endian, as on every machine that writes such files today.
"""

from __future__ import annotations

import io
import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from captious._core.files import load_json, whole_folder
from captious.errors import InputError

MAGIC, HEADER = 0xBEEFC0DE, 16
BRANCH, LEAF = 0x01, 0x02
BIG = 0x01  # flag of a node whose value is on overflow pages
# Deepest tree that is read: with 4 kB pages, three levels have millions of entries.
DEEPEST = 32
# Key of the list of all names, which UNITER stores among the records.
NAMES = "__keys__"


class Meta(NamedTuple):
    """The content of a meta page: the page size, the root page of the main tree, and the number of the transaction."""

    page_size: int
    root: int
    entries: int
    transaction: int


def read_entries(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the entries of an LMDB, in the order of keys; the list of all names is left out."""
    path = folder / "data.mdb" if folder.is_dir() else folder
    try:
        file = path.open("rb")
    except OSError:
        raise InputError(f"{folder}: no data.mdb here, expected the folder of an LMDB of region features") from None
    with file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (ValueError, OSError):
            raise InputError(f"{path}: is empty, expected an LMDB") from None
        with data:
            try:
                meta = _read_meta(data)
                for key, value in _walk_tree(data, meta.page_size, meta.root, 0):
                    name = key.decode()
                    if name != NAMES:
                        yield name, value
            except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
                raise InputError(f"{path}: not an LMDB that can be read ({str(error)[:80]})") from None


def convert_regions(
    database: str | Path, out: str | Path, names: Literal["keep", "number"] = "keep", overwrite: bool = False
) -> int:
    """Write an ``.npz`` file for each image of a database; return the number of images.

    The numbers of regions are those of the file ``nbb_….json`` next to the database, if there is one; otherwise the
    metric counts the regions by their confidence. ``number`` names a file by the number at the end of the image's name,
    as COCO's ids are.
    """
    database = Path(database)
    folder = database if database.is_dir() else database.parent
    counts = _read_counts(folder)
    written: set[str] = set()
    with whole_folder(out, overwrite) as draft:
        for name, value in read_entries(database):
            arrays = read_feature_record(value, f"{database}: {name}")
            stem = Path(name).stem
            file = re.sub(r"^.*?0*(\d+)$", r"\1", stem) if names == "number" else stem
            if file in written or not file or "/" in file or file.startswith("."):
                raise InputError(f"{database}: {name!r} cannot be the name of a file, or names one twice")
            written.add(file)
            stored: dict[str, Any] = {
                key: arrays[key][: counts.get(name)] for key in ("features", "norm_bb", "conf") if key in arrays
            }
            np.savez(draft / f"{file}.npz", **stored)
        if not written:
            raise InputError(f"{database}: contains no image")
    return len(written)


def _read_counts(folder: Path) -> dict[str, int]:
    """Read the number of regions of each image, which UNITER stores next to a database."""
    path = folder.with_name(folder.name.replace("feat_", "nbb_").replace("_compressed", "") + ".json")
    if not path.is_file():
        return {}
    try:
        counts = load_json(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a JSON file that can be read ({str(error)[:80]})") from None
    if not isinstance(counts, dict) or not all(type(one) is int and one > 0 for one in counts.values()):
        raise InputError(f"{path}: expected a number of regions for each image")
    return counts


def _read_meta(data: mmap.mmap) -> Meta:
    first = _parse_meta(data, 0)
    second = _parse_meta(data, first.page_size)
    return max(first, second, key=lambda meta: meta.transaction)


def _parse_meta(data: mmap.mmap, start: int) -> Meta:
    magic, version = struct.unpack_from("<II", data, start + HEADER)
    if magic != MAGIC or version != 1:
        raise ValueError(f"its first number is {magic:#x}, expected {MAGIC:#x}")
    # After magic, version, address and map size come two trees of 48 bytes; the first is the list of free pages.
    (page_size,) = struct.unpack_from("<I", data, start + HEADER + 24)
    entries, root = struct.unpack_from("<QQ", data, start + HEADER + 24 + 48 + 32)
    (transaction,) = struct.unpack_from("<Q", data, start + HEADER + 24 + 96 + 8)
    if not 256 <= page_size <= 65536:
        raise ValueError(f"its pages have {page_size} bytes")
    return Meta(page_size, root, entries, transaction)


def _walk_tree(data: mmap.mmap, page_size: int, page: int, depth: int) -> Iterator[tuple[bytes, bytes]]:
    if page == 2**64 - 1:  # an empty tree
        return
    if depth > DEEPEST:
        raise ValueError("its tree is too deep")
    start = page * page_size
    flags, lower = struct.unpack_from("<HH", data, start + 10)
    if not flags & (BRANCH | LEAF):
        raise ValueError(f"page {page} is neither a branch nor a leaf")
    offsets = struct.unpack_from(f"<{(lower - HEADER) // 2}H", data, start + HEADER)
    for offset in offsets:
        low, high, node_flags, key_size = struct.unpack_from("<HHHH", data, start + offset)
        key_start = start + offset + 8
        if flags & BRANCH:  # a page number of 48 bits
            yield from _walk_tree(data, page_size, low | high << 16 | node_flags << 32, depth + 1)
            continue
        size, value_start = low | high << 16, key_start + key_size
        if node_flags & BIG:
            (overflow,) = struct.unpack_from("<Q", data, value_start)
            value_start = overflow * page_size + HEADER
        if value_start + size > len(data):
            raise ValueError("it ends in the middle of a record")
        yield data[key_start : key_start + key_size], data[value_start : value_start + size]


def read_feature_record(value: bytes, where: str) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a record: an ``.npz`` file, or msgpack with arrays as `msgpack-numpy` writes them."""
    try:
        if value[:2] == b"PK":
            with np.load(io.BytesIO(value), allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        content, end = _unpack(value, 0)
        if not isinstance(content, dict) or end != len(value):
            raise ValueError("it is no table of arrays")
        return {str(_decode_text(name)): _make_array(one) for name, one in content.items()}
    except (ValueError, IndexError, KeyError, TypeError, struct.error, OSError, RecursionError) as error:
        raise InputError(f"{where}: not a record of region features ({str(error)[:80]})") from None


def _make_array(value: Any) -> npt.NDArray[Any]:
    if not isinstance(value, dict):
        return np.asarray(value)
    fields = {_decode_text(name): one for name, one in value.items()}
    kind = np.dtype(_decode_text(fields["type"]))
    if kind.hasobject:
        raise ValueError("an array of objects")
    array = np.frombuffer(fields["data"], kind)
    return array.reshape(fields["shape"]) if fields.get("nd") else array


def _decode_text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


# Format characters of struct for msgpack's numbers, by their first byte.
_NUMBERS = {
    0xCA: "f",
    0xCB: "d",
    0xCC: "B",
    0xCD: "H",
    0xCE: "I",
    0xCF: "Q",
    0xD0: "b",
    0xD1: "h",
    0xD2: "i",
    0xD3: "q",
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
# Format characters of the length of bytes, texts, lists and tables, by their first byte.
_BYTES = {0xC4: "B", 0xC5: "H", 0xC6: "I"}
_TEXTS = {0xD9: "B", 0xDA: "H", 0xDB: "I"}
_LISTS, _TABLES = {0xDC: "H", 0xDD: "I"}, {0xDE: "H", 0xDF: "I"}


def _unpack(data: bytes, offset: int) -> tuple[Any, int]:
    """Unpack the msgpack value at an offset; return it and the offset after it.

    >>> _unpack(bytes([0x82, 0xA1, 0x61, 0x01, 0xA1, 0x62, 0x92, 0xC3, 0xFF]), 0)
    ({'a': 1, 'b': [True, -1]}, 9)
    """
    first, offset = data[offset], offset + 1
    if first < 0x80 or first >= 0xE0:
        return first if first < 0x80 else first - 256, offset
    if first in _CONSTANTS:
        return _CONSTANTS[first], offset
    if first in _NUMBERS:
        letter = _NUMBERS[first]
        return struct.unpack_from(f">{letter}", data, offset)[0], offset + struct.calcsize(letter)
    for kinds, low, mask in ((_TABLES, 0x80, 0x0F), (_LISTS, 0x90, 0x0F), (_TEXTS, 0xA0, 0x1F), (_BYTES, None, 0)):
        if first in kinds:
            (size,) = struct.unpack_from(f">{kinds[first]}", data, offset)
            offset += struct.calcsize(kinds[first])
        elif low is not None and first & ~mask & 0xFF == low:
            size = first & mask
        else:
            continue
        if kinds is _TABLES:
            return _unpack_table(data, offset, size)
        if kinds is _LISTS:
            return _unpack_list(data, offset, size)
        if offset + size > len(data):
            raise ValueError("it ends in the middle of a text")
        raw = data[offset : offset + size]
        return raw.decode() if kinds is _TEXTS else raw, offset + size
    raise ValueError(f"a value of kind {first:#x}")


def _unpack_table(data: bytes, offset: int, size: int) -> tuple[dict[Any, Any], int]:
    table = {}
    for _ in range(size):
        key, offset = _unpack(data, offset)
        table[key], offset = _unpack(data, offset)
    return table, offset


def _unpack_list(data: bytes, offset: int, size: int) -> tuple[list[Any], int]:
    items = []
    for _ in range(size):
        item, offset = _unpack(data, offset)
        items.append(item)
    return items, offset
