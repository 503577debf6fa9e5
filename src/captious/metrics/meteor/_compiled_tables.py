"""METEOR's compiled tables of function words, synsets and paraphrases, memory-mapped.

Words and phrases are 64-bit numbers, so that the tables contain no strings.

A word is its 8-byte BLAKE2b digest; a phrase folds its words, `h <- ((h xor word) * MULTIPLIER) mod 2^64`, from h = 0.
With the 2.6 million phrases of METEOR's table the chance that an absent phrase is taken for a present one is 1.4e-13.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._core.files import digest, write_atomically
from captious._core.hashing import hash_texts
from captious._core.languages import ENGLISH
from captious._core.types import Ints, Ints32

UInt64 = npt.NDArray[np.uint64]

MULTIPLIER = 0x9E3779B97F4A7C15
LONGEST = 7  # no phrase of the table is longer


def hash_spans(words: UInt64) -> list[UInt64]:
    """Hash all spans of 1, 2, ... :data:`LONGEST` words: entry n - 1 has those of n words, by their start."""
    multiplier = np.uint64(MULTIPLIER)
    spans = [words * multiplier]
    for length in range(2, min(LONGEST, len(words)) + 1):
        spans.append((spans[-1][: len(words) - length + 1] ^ words[length - 1 :]) * multiplier)
    return spans


def expand_ranges(first: Ints, sizes: Ints) -> Ints:
    """Concatenate the indices of several ranges.

    >>> expand_ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    indices: Ints = np.repeat(first - (np.cumsum(sizes) - sizes), sizes)
    return indices + np.arange(len(indices))


FORMAT = 4
HASHED = ("words", "forms", "phrases")
_MAGIC = b"captious-meteor-tables\n"
_ALIGN = 64


class DamagedTables(ValueError):
    """A compiled file with damaged content."""


@dataclass(frozen=True, eq=False)
class HashTable:
    """Sorted hashes with a list of numbers for each, found through the bucket of their leading bits."""

    keys: UInt64
    starts: npt.NDArray[np.uint32]
    """The numbers of row ``r`` are ``values[starts[r]:starts[r + 1]]``."""
    values: Ints32
    index: npt.NDArray[np.uint32]
    filter: npt.NDArray[np.uint8]
    """A bit for each value of a hash's leading bits, five more than a bucket has: most absent hashes end here."""

    @classmethod
    def of(cls, lists: Mapping[int, Sequence[int]]) -> HashTable:
        """Build the table from a list of numbers for each hash."""
        keys = sorted(lists)
        starts = np.cumsum([0, *(len(lists[key]) for key in keys)])
        values = np.array([number for key in keys for number in lists[key]], dtype=np.int32)
        return cls.build(np.array(keys, dtype=np.uint64), starts, values)

    @classmethod
    def build(cls, keys: UInt64, starts: Ints, values: Ints32) -> HashTable:
        """Index sorted, distinct keys with about two per bucket."""
        bits = max(1, len(keys).bit_length() - 2)
        edges = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
        marks = np.zeros(1 << bits + 5, dtype=bool)
        marks[keys >> np.uint64(59 - bits)] = True
        index = np.append(np.searchsorted(keys, edges), len(keys)).astype(np.uint32)
        return cls(keys, starts.astype(np.uint32), values, index, np.packbits(marks, bitorder="little"))

    def find(self, hashes: UInt64) -> Ints:
        """Return the row of each hash, -1 if it is absent."""
        rows = np.full(len(hashes), -1, dtype=np.int64)
        bits = (len(self.index) - 1).bit_length() - 1
        lead = hashes >> np.uint64(59 - bits)
        marked = self.filter[lead >> np.uint64(3)] >> (lead & np.uint64(7)).astype(np.uint8) & 1
        asked = np.flatnonzero(marked)
        bucket = (lead[asked] >> np.uint64(5)).astype(np.int64)
        at, end = self.index[bucket].astype(np.int64), self.index[bucket + 1]
        wanted = hashes[asked]
        # All hashes step through their buckets together, one key per round; about two keys are in a bucket.
        while len(asked):
            hit = self.keys[at] == wanted
            rows[asked[hit]] = at[hit]
            left = np.flatnonzero(~hit & (at + 1 < end))
            asked, wanted, at, end = asked[left], wanted[left], at[left] + 1, end[left]
        return rows

    def row(self, row: int) -> list[int]:
        """Return the numbers of a row."""
        numbers: list[int] = self.values[self.starts[row] : self.starts[row + 1]].tolist()
        return numbers


@dataclass(frozen=True, eq=False)
class Tables:
    """METEOR's tables of a language; other languages than English have only function words and abbreviations."""

    function_words: frozenset[str]
    prefixes: Mapping[str, bool]
    words: HashTable
    """The synsets of each word."""
    forms: HashTable
    """The rows of ``words``, or -1, that an irregular form is of."""
    phrases: HashTable
    """The rows of a phrase's paraphrases."""
    sources: Mapping[str, str]
    """The SHA-256 of each source file, by its name in the original."""
    language: str = ENGLISH

    @property
    def has_paraphrases(self) -> bool:
        """Whether a paraphrase table was among the sources."""
        return len(self.phrases.keys) > 0

    def hash(self, modules: Sequence[str]) -> str:
        """Return twelve hex digits that identify the sources of these modules in a signature."""
        unused = {"synonym": "synonym/", "paraphrase": "paraphrase-en.gz"}
        left_out = tuple(name for module, name in unused.items() if module not in modules)
        used = [f"{name}={value}" for name, value in sorted(self.sources.items()) if not name.startswith(left_out)]
        return digest(*(line.encode() for line in used))

    def write(self, path: Path) -> None:
        """Write the compiled file atomically; two processes may do so at once."""
        sections: dict[str, list[Any]] = {}
        blocks, offset = [], 0
        for name in HASHED:
            sections[name] = []
            for part in fields(HashTable):
                array = getattr(getattr(self, name), part.name)
                kind = array.dtype.newbyteorder("<")
                data = np.ascontiguousarray(array, dtype=kind).tobytes()
                sections[name].append([kind.str, offset, len(array)])
                blocks.append(data + bytes(-len(data) % _ALIGN))
                offset += len(blocks[-1])
        payload = b"".join(blocks)
        header = json.dumps(
            {
                "format": FORMAT,
                "sources": dict(self.sources),
                "function_words": sorted(self.function_words),
                "prefixes": dict(self.prefixes),
                "sections": sections,
                "payload": {"bytes": len(payload), "crc32": zlib.crc32(payload)},
            }
        ).encode()
        # magic | length of the header (8 bytes) | its CRC (4) | header (JSON) | zeros up to a multiple of 64 | arrays
        start = len(_MAGIC) + 12 + len(header)
        with write_atomically(path) as draft, draft.open("wb") as file:
            file.write(_MAGIC + len(header).to_bytes(8, "little") + zlib.crc32(header).to_bytes(4, "little"))
            file.write(header + bytes(-start % _ALIGN) + payload)

    @classmethod
    def open(cls, path: Path) -> Tables:
        """Memory-map a compiled file.

        Raises:
            DamagedTables: the content does not match its checksums, or another version wrote it.
        """
        raw = np.memmap(path, dtype=np.uint8, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
        start = len(_MAGIC) + 12
        lead = raw[:start].tobytes()
        size = int.from_bytes(lead[-12:-4], "little")
        text = raw[start : start + size].tobytes()
        if not lead.startswith(_MAGIC) or zlib.crc32(text) != int.from_bytes(lead[-4:], "little"):
            raise DamagedTables(f"{path}: not a compiled METEOR table, or damaged")
        header = json.loads(text)
        if header["format"] != FORMAT:
            raise DamagedTables(f"{path}: compiled by another version")
        payload = raw[-(-(start + size) // _ALIGN) * _ALIGN :]
        expected = header["payload"]
        if len(payload) != expected["bytes"] or zlib.crc32(payload.data) != expected["crc32"]:
            raise DamagedTables(f"{path}: damaged (checksum differs)")

        def view_array(kind: str, offset: int, count: int) -> npt.NDArray[Any]:
            dtype = np.dtype(kind)
            return payload[offset : offset + count * dtype.itemsize].view(np.ndarray).view(dtype)

        words, forms, phrases = (
            HashTable(*(view_array(*section) for section in header["sections"][name])) for name in HASHED
        )
        return cls(frozenset(header["function_words"]), header["prefixes"], words, forms, phrases, header["sources"])


# The detachment rules of WordNet's morphy: nouns, verbs, adjectives, in the order they are tried.
_RULES = (
    ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y"),
    ("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""),
    ("er", ""), ("est", ""), ("er", "e"), ("est", "e"),
)  # fmt: skip
_ENDINGS = tuple({ending for ending, _ in _RULES})


def find_synsets(words: list[str], tables: Tables) -> list[set[int]]:
    """Return the synsets of each word: its own, and those of the words that it may be a form of."""
    members: list[set[int]] = [set() for _ in words]
    for number, synset in zip(*(column.tolist() for column in find_synset_members(words, tables)), strict=True):
        members[number].add(synset)
    return members


def find_synset_members(words: list[str], tables: Tables) -> tuple[Ints, Ints]:
    """Return the same as two arrays: indices of words, and synsets; pairs may recur."""
    own = _find_rows(words, tables)
    irregular = tables.forms.find(hash_texts(words)).tolist()
    rows = [(number, row) for number, row in enumerate(own) if row >= 0]
    asked: list[tuple[int, str]] = []
    for number, (word, form) in enumerate(zip(words, irregular, strict=True)):
        if form >= 0:
            rows += [(number, base) for base in tables.forms.row(form) if base >= 0]
        elif len(word) > 2 and word.endswith(_ENDINGS) and not word.endswith("ss"):
            asked += [(number, word[: -len(ending)] + by) for ending, by in _RULES if word.endswith(ending)]
    bases: dict[int, int] = {}
    for (number, _), row in zip(asked, _find_rows([base for _, base in asked], tables), strict=True):
        if row >= 0:
            bases.setdefault(number, row)
    numbers, row_numbers = np.array([*rows, *bases.items()], np.int64).reshape(-1, 2).T
    first = tables.words.starts[row_numbers].astype(np.int64)
    sizes = tables.words.starts[row_numbers + 1].astype(np.int64) - first
    return np.repeat(numbers, sizes), tables.words.values[expand_ranges(first, sizes)].astype(np.int64)


def _find_rows(words: list[str], tables: Tables) -> list[int]:
    rows: list[int] = tables.words.find(hash_texts(words)).tolist()
    return rows
