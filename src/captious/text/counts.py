"""Counts by 64-bit key in sorted arrays, with lookup, merging over shards, and memory-mapped files.

A key is a hash of the words (`TextTable.hash_ngrams`), not an index into a vocabulary, so shards merge without a shared
vocabulary. Keys are uniformly distributed and sorted: a range of keys is a partition by hash prefix and a slice of
every file. Merging reads one range at a time.

64 bits suffice. The 2.3e8 distinct n-grams of 100 million captions have n²/2⁶⁵ = 1.4e-3 expected collisions, and a
collision adds the count of one n-gram to that of another. An n-gram that is not in the corpus matches a key by chance
with probability n/2⁶⁴ = 1.2e-11. Keys of 128 bits would make a file two thirds larger and sorting three times as slow.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache, reduce
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from captious._core.files import Kind, digest, refuse_irregular, write_atomically
from captious._core.hashing import hash_text
from captious._core.types import Ints
from captious.errors import InputError
from captious.text.corpus_states import State

Keys = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.unsignedinteger[Any]]
Arrays = tuple[Keys, Counts]
C = TypeVar("C", bound="CountsState")
T = TypeVar("T")
KEY, COUNT = np.dtype("<u8"), np.dtype("<u4")
NONE: Arrays = (np.zeros(0, KEY), np.zeros(0, COUNT))
# Entries of all files that a merge keeps in memory at a time.
BLOCK = 1 << 22
# Largest number of entries that are indexed by buckets. Building the buckets reads every page of a memory-mapped file.
INDEXED = 1 << 22
# Bytes of a file that are hashed at a time.
READ = 1 << 24
LONGEST_HEADER = 1 << 16


def mix(parents: Keys, words: Keys) -> Keys:
    """Compute the keys of n-grams from the keys of their first n-1 words (``parents``) and of their last word.

    The last steps are those of SplitMix64, after which every bit of the key depends on every bit of both.
    """
    from captious._core.random import GAMMA
    from captious._core.random import mix as splitmix

    keys: Keys = splitmix(parents * np.uint64(GAMMA) + words)
    return keys


_word_key = lru_cache(maxsize=1 << 17)(hash_text)


def hash_words(words: Iterable[str]) -> Keys:
    """Hash each word to a 64-bit key."""
    return np.fromiter(map(_word_key, words), dtype=np.uint64)


def sort_by_first_bits(keys: Keys) -> Ints:
    """Return the indices that sort keys by their first 16 bits, for which NumPy has a radix sort."""
    return np.argsort((keys >> np.uint64(48)).astype(np.uint16), kind="stable")


class KeyCounts:
    """Distinct sorted keys, each with its count, which is at most 2³² − 1."""

    def __init__(self, arrays: Arrays = NONE) -> None:
        self._arrays = arrays

    @property
    def arrays(self) -> Arrays:
        """The keys, and their counts."""
        return self._arrays

    @property
    def keys(self) -> Keys:
        """The keys, sorted."""
        return self.arrays[0]

    @property
    def counts(self) -> Counts:
        """The count of each key."""
        return self.arrays[1]

    def release(self) -> None:
        """Compute the counts now, so that the tables they are made from can be freed."""
        _ = self.arrays

    def __reduce__(self) -> tuple[type[KeyCounts], tuple[Arrays]]:
        return KeyCounts, (self.arrays,)

    @classmethod
    def of(cls, keys: Keys, counts: npt.NDArray[Any]) -> KeyCounts:
        """Sort keys, and add up the counts of equal ones.

        >>> counts = KeyCounts.of(np.array([7, 2, 7], dtype=np.uint64), np.array([1, 1, 2]))
        >>> counts.keys.tolist(), counts.counts.tolist()
        ([2, 7], [1, 3])
        """
        if not len(keys):
            return cls()
        order = np.argsort(keys, kind="stable")  # timsort merges sorted runs in nearly linear time
        keys = keys.take(order)
        heads = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        sums = np.add.reduceat(counts.astype(COUNT, copy=False).take(order), heads, dtype=COUNT)
        return cls((keys.take(heads), sums))

    @classmethod
    def sum(cls, parts: Sequence[KeyCounts]) -> KeyCounts:
        """Add up the counts of all parts."""
        return cls.of(*_concatenate_arrays(parts))

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: slice) -> KeyCounts:
        return KeyCounts((self.keys[index], self.counts[index]))

    def lookup(self, keys: Keys) -> Ints:
        """Return the count of each key, 0 for a key that is not here.

        >>> KeyCounts.of(np.array([2, 7], np.uint64), np.array([1, 3])).lookup(np.array([7, 3], np.uint64)).tolist()
        [3, 0]
        """
        if len(self) <= INDEXED:
            return self._get_counts_at(self._find_lower_bounds(keys), keys)
        # Sorted by their first bits, neighboring keys are on the same pages of the file: up to ten times as fast.
        counts = np.zeros(len(keys), dtype=np.int64)
        order = sort_by_first_bits(keys)
        counts[order] = self.lookup_sorted(keys.take(order))
        return counts

    def lookup_sorted(self, keys: Keys) -> Ints:
        """Return the count of each key, for keys that are sorted or nearly so."""
        return self._get_counts_at(np.searchsorted(self.keys, keys), keys)

    def _get_counts_at(self, index: Ints, keys: Keys) -> Ints:
        """Return the counts at these indices, 0 where the key at the index is another one."""
        if not len(self):
            return np.zeros(len(keys), dtype=np.int64)
        counts = self.counts.take(index, mode="clip").astype(np.int64)
        counts *= self.keys.take(index, mode="clip") == keys
        return counts

    def _find_lower_bounds(self, keys: Keys) -> Ints:
        """Return the same as ``searchsorted`` in a third of the time: each step of the binary search is one array
        operation over all keys.
        """
        first, steps = self._buckets
        bucket = (keys >> np.uint64(48)).astype(np.int64)
        index: Ints = first.take(bucket).astype(np.int64)
        size = 1 << steps
        while size := size >> 1:
            # A step past the bucket reaches a key of a higher bucket, which is larger, so the step is not taken.
            index += size * (self.keys.take(index + (size - 1), mode="clip") < keys)
        return index

    @cached_property
    def _buckets(self) -> tuple[Counts, int]:
        """The first key of each bucket of keys with the same first sixteen bits, and the steps of a search in one."""
        sizes = np.bincount((self.keys >> np.uint64(48)).astype(np.int64), minlength=1 << 16)
        return (np.cumsum(sizes) - sizes).astype(COUNT), int(sizes.max()).bit_length()


class Once(Generic[T]):
    """A value that is computed at the first call; the function is released afterwards."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._made: tuple[T] | None = None

    def __call__(self) -> T:
        """Return the value. Threads that race for the first call each compute it, and the last one's is kept."""
        make, made = self._make, self._made  # in this order: the function is released after the value is set
        if made is None:
            assert make is not None
            self._made = made = (make(),)
            self._make = None
        return made[0]


class LazyCounts(KeyCounts):
    """Counts that are computed when they are first used."""

    def __init__(self, count: Callable[[], KeyCounts]) -> None:
        self._count = Once(count)

    @property
    def arrays(self) -> Arrays:
        """The keys, and their counts."""
        return self._count().arrays


def _concatenate_arrays(parts: Sequence[KeyCounts]) -> Arrays:
    keys, counts = [NONE[0], *(part.keys for part in parts)], [NONE[1], *(part.counts for part in parts)]
    return np.concatenate(keys), np.concatenate(counts)


@dataclass(frozen=True)
class CountsKind(Kind):
    """A file format for counts: a line of JSON, then the keys, then the counts."""

    def write_counts(self, path: str | Path, header: Mapping[str, Any], blocks: Iterable[KeyCounts]) -> None:
        """Write a file atomically, from blocks of counts whose keys ascend from block to block."""
        content, entries = hashlib.sha256(), 0
        with (
            write_atomically(path) as draft,
            draft.open("wb") as file,
            tempfile.TemporaryFile(dir=draft.parent) as counts,
        ):
            # The header is written last, when entries are counted and hashed; its space is a multiple of 64 bytes.
            size = -(-len(self._format_header(header, 2**63, "0" * 64)) // 64) * 64
            file.write(b" " * size)
            for block in blocks:
                keys = np.ascontiguousarray(block.keys, KEY).data
                content.update(keys)
                file.write(keys)
                counts.write(np.ascontiguousarray(block.counts, COUNT).data)
                entries += len(block)
            counts.seek(0)
            while part := counts.read(READ):
                content.update(part)
                file.write(part)
            file.seek(0)
            file.write(self._format_header(header, entries, content.hexdigest())[:-1].ljust(size - 1) + b"\n")

    def _format_header(self, header: Mapping[str, Any], entries: int, content: str) -> bytes:
        """Format the first line of a file, with its own digest, so that changes to it are detected."""
        facts = {self.key: self.version, **header, "entries": entries, "content": content}
        return json.dumps({**facts, "digest": digest(json.dumps(facts).encode())}).encode() + b"\n"

    def open_counts(self, path: str | Path) -> CountsFile:
        """Open a file that `write_counts` wrote; raise InputError if it is of another format or version, truncated or
        damaged.
        """
        again = f"make it again with: {self.maker}"
        refuse_irregular(path)
        try:
            with Path(path).open("rb") as file:
                facts = self.facts(path, file.readline(LONGEST_HEADER))
                start, size = file.tell(), Path(path).stat().st_size
                entries, content = facts.get("entries", 0), facts.get("content")
                if facts.pop("digest", None) != digest(json.dumps(facts).encode()):
                    raise InputError(f"{path}: damaged {self.what} (checksum of the header differs); {again}")
                if size != start + entries * (KEY.itemsize + COUNT.itemsize):
                    raise InputError(f"{path}: {self.what} cut short ({size} bytes, {entries} entries); {again}")
                checked = hashlib.sha256()
                while part := file.read(READ):
                    checked.update(part)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); make it with: {self.maker}") from None
        if checked.hexdigest() != content:
            raise InputError(f"{path}: damaged {self.what} (checksum differs); {again}")
        header = {name: value for name, value in facts.items() if name not in (self.key, "entries", "content")}
        return CountsFile(Path(path), header, start, entries)


@dataclass(frozen=True)
class CountsFile:
    """Counts in a file, not yet in memory."""

    path: Path
    header: Mapping[str, Any]
    start: int
    """Offset of the keys in bytes."""
    entries: int

    def map_counts(self) -> KeyCounts:
        """Map all counts into memory: pages are read when a lookup touches them, and processes share them."""
        if not self.entries:
            return KeyCounts()
        columns = ((KEY, self.start), (COUNT, self._first_count))
        keys, counts = (np.asarray(np.memmap(self.path, kind, "r", at, (self.entries,))) for kind, at in columns)
        return KeyCounts((keys, counts))

    def read(self, first: int, end: int) -> KeyCounts:
        """Read the entries from ``first`` up to ``end`` into memory."""
        number = min(end, self.entries) - first
        keys = np.fromfile(self.path, KEY, number, offset=self.start + first * KEY.itemsize)
        counts = np.fromfile(self.path, COUNT, number, offset=self._first_count + first * COUNT.itemsize)
        return KeyCounts((keys, counts))

    @property
    def _first_count(self) -> int:
        return self.start + self.entries * KEY.itemsize


def merge_counts(files: Sequence[CountsFile], block: int = BLOCK) -> Iterator[KeyCounts]:
    """Sum the counts of all files, in blocks with ascending keys; about ``block`` entries are in memory at a time."""
    share = max(block // max(len(files), 1), 1024)
    position, window = [0] * len(files), [KeyCounts()] * len(files)
    unread = list(range(len(files)))
    while unread:
        for number, file in enumerate(files):
            if len(window[number]) < share // 2 and position[number] < file.entries:
                more = file.read(position[number], position[number] + share)
                position[number] += len(more)
                window[number] = KeyCounts(_concatenate_arrays([window[number], more]))
        unread = [number for number, file in enumerate(files) if position[number] < file.entries]
        # Every key up to the smallest last key of the unfinished windows is in memory.
        bound = min((window[number].keys[-1] for number in unread), default=None)
        ends = [len(one) if bound is None else int(np.searchsorted(one.keys, bound, "right")) for one in window]
        yield KeyCounts.sum([one[:end] for one, end in zip(window, ends, strict=True)])
        window = [one[end:] for one, end in zip(window, ends, strict=True)]


@dataclass(frozen=True, eq=False)
class CountsState(State):
    """A corpus state of a few JSON values and of counts by key, which may be too large for memory.

    A subclass is a frozen dataclass whose fields are ``counts`` and facts that JSON can store.
    """

    kind: ClassVar[CountsKind]
    counts: KeyCounts

    def release(self) -> None:
        """Compute the counts now, so that the n-gram tables can be freed."""
        self.counts.release()

    def save(self, path: str | Path) -> None:
        """Write a line of JSON and two arrays, never a pickle."""
        self.kind.write_counts(path, self._facts, [self.counts])

    @classmethod
    def load(cls: type[C], path: str | Path) -> C:
        """Read a state from its file, with its counts memory-mapped."""
        file = cls.kind.open_counts(path)
        return cls(**file.header, counts=file.map_counts())

    @classmethod
    def merge_files(cls, paths: Sequence[str | Path], out: str | Path) -> None:
        """Write the merged state of all files, equal to that of `merge`, in constant memory."""
        if not paths:
            raise InputError(f"no file to merge, expected files of one kind: {cls.kind.what}")
        files = [cls.kind.open_counts(path) for path in paths]
        facts = reduce(lambda a, b: a.merge(b), (cls(**file.header, counts=KeyCounts()) for file in files))
        cls.kind.write_counts(out, facts._facts, merge_counts(files))

    @property
    def _facts(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "counts"}
