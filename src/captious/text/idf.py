"""Document frequencies of n-grams: of the references at hand, of shards merged, or of a corpus kept in a file."""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._files import Kind, data_folder, read_regular
from captious._typing import Ints, Ints32
from captious.captions import CaptionSet
from captious.errors import InputError, nearest
from captious.text.tables import TextTable
from captious.text.tokenizers import tokenizer_named

ORDERS = 4


@dataclass(frozen=True, eq=False)
class DocumentFrequency:
    """In how many items' references each n-gram of orders 1 to 4 occurs.

    An n-gram is its (n-1)-gram and one more token; per order the arrays are sorted by that pair. Frequencies of shards
    merge into those of the whole.
    """

    items: int
    tokenizer: str
    vocabulary: list[str]
    parents: tuple[Ints32, ...]
    lasts: tuple[Ints32, ...]
    counts: tuple[Ints, ...]
    fingerprint: int
    """Of the items counted, in any order."""
    name: str = "refs"
    complete: bool = False
    """Read from a file: the corpus of any shard is the whole of it."""
    table: TextTable | None = None

    @classmethod
    def of(cls, captions: CaptionSet, tokenizer: str = "ptb", name: str = "refs") -> DocumentFrequency:
        """Count the references of a set.

        >>> corpus = DocumentFrequency.of(CaptionSet.of({"1": "", "2": ""}, {"1": ["a dog"], "2": ["a cat", "a cat"]}))
        >>> dict(zip(corpus.vocabulary, corpus.counts[0].tolist()))
        {'a': 2, 'dog': 1, 'cat': 1}
        """
        table = TextTable.of(captions, tokenizer)
        orders = [table.ngrams(n) for n in range(1, ORDERS + 1)]
        return cls(
            items=int((captions.references.counts > 0).sum()),
            tokenizer=str(table.tokenizer),
            vocabulary=table.vocabulary,
            parents=tuple(order.parent for order in orders),
            lasts=tuple(order.last for order in orders),
            counts=tuple(order.document_frequency for order in orders),
            fingerprint=captions.fingerprint,
            name=name,
            table=table,
        )

    def __str__(self) -> str:
        return f"{self.name}:{self.items}:{f'{self.fingerprint:016x}'[:8]}"

    def for_tokenizer(self, name: str) -> DocumentFrequency:
        """The corpus itself, if it was tokenized the same way."""
        version = str(tokenizer_named(name))
        if version != self.tokenizer:
            raise InputError(f"idf corpus {self.name!r} was tokenized by {self.tokenizer}, the metric uses {version}")
        return self

    def frequencies(self, table: TextTable, n: int) -> Ints:
        """The document frequency of each n-gram of a table, 0 where the corpus lacks it."""
        if table is self.table:
            return self.counts[n - 1]
        numbers, counts = self._numbers(table, n), self.counts[n - 1]
        if not len(counts):
            return np.zeros(len(numbers), dtype=np.int64)
        return np.where(numbers >= 0, counts.take(numbers, mode="clip"), 0)

    def _numbers(self, table: TextTable, n: int) -> Ints:
        """The number here of each n-gram of a table, -1 where it is absent."""
        return table.once((self, n), lambda: self._locate(table, n)) if n else np.zeros(1, dtype=np.int64)

    def _locate(self, table: TextTable, n: int) -> Ints:
        grams = table.ngrams(n)
        words = table.once((self, "words"), lambda: self._words(table))
        parent, last = self._numbers(table, n - 1)[grams.parent], words[grams.last]
        keys, numbers = self._keys[n - 1], np.full(len(last), -1)
        asked = np.flatnonzero((parent >= 0) & (last >= 0))
        if len(keys) and len(asked):
            wanted = parent[asked] * len(self.vocabulary) + last[asked]
            index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            numbers[asked] = np.where(keys[index] == wanted, index, -1)
        return numbers

    @cached_property
    def _keys(self) -> tuple[Ints, ...]:
        """Of each order, every n-gram as one number; sorted."""
        width = len(self.vocabulary)
        return tuple(
            parents.astype(np.int64) * width + lasts for parents, lasts in zip(self.parents, self.lasts, strict=True)
        )

    def _words(self, table: TextTable) -> Ints:
        """The number here of each word of a table, -1 where it is absent."""
        index, base = self._word_index, table.base
        words = table.vocabulary if base is None else table.vocabulary[len(base.vocabulary) :]
        numbers = np.fromiter((index.get(word, -1) for word in words), np.int64, len(words))
        if base is None:
            return numbers
        return np.concatenate([base.once((self, "words"), lambda: self._words(base)), numbers])

    @cached_property
    def _word_index(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.vocabulary)}

    def merge(self, other: DocumentFrequency) -> DocumentFrequency:
        """The frequencies of two disjoint shards together; a complete corpus is its own merger."""
        if self.complete and other.complete and self.fingerprint == other.fingerprint:
            return self
        if self.complete or other.complete:
            raise InputError(f"cannot merge the idf corpora {self} and {other}: one of them is complete already")
        if self.tokenizer != other.tokenizer:
            raise InputError(f"cannot merge idf corpora tokenized by {self.tokenizer} and {other.tokenizer}")
        vocabulary = {word: index for index, word in enumerate(dict.fromkeys([*self.vocabulary, *other.vocabulary]))}
        width = len(vocabulary)
        words = [np.array([vocabulary[word] for word in part.vocabulary], dtype=np.int64) for part in (self, other)]
        numbers = [np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)]
        parents, lasts, counts = [], [], []
        for n in range(ORDERS):
            keys = [
                numbers[side][part.parents[n]] * width + words[side][part.lasts[n]]
                for side, part in enumerate((self, other))
            ]
            distinct, inverse = np.unique(np.concatenate(keys), return_inverse=True)
            numbers = [inverse[: len(keys[0])], inverse[len(keys[0]) :]]
            weights = np.concatenate([self.counts[n], other.counts[n]])
            parents.append((distinct // width).astype(np.int32))
            lasts.append((distinct % width).astype(np.int32))
            counts.append(np.bincount(inverse, weights=weights, minlength=len(distinct)).astype(np.int64))
        return replace(
            self,
            items=self.items + other.items,
            vocabulary=list(vocabulary),
            parents=tuple(parents),
            lasts=tuple(lasts),
            counts=tuple(counts),
            fingerprint=(self.fingerprint + other.fingerprint) % 2**64,
            table=None,
        )


KIND = Kind("captious-idf", 2, "idf corpus", "captious make idf")
SUFFIX = ".idf"
HEADER = ("items", "tokenizer", "fingerprint", "name")


def save(corpus: DocumentFrequency, path: str | Path) -> None:
    """Write a corpus whole."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for n in range(ORDERS):
        arrays |= {f"parent{n}": corpus.parents[n], f"last{n}": corpus.lasts[n], f"count{n}": corpus.counts[n]}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, words=np.array("\n".join(corpus.vocabulary)), **arrays)  # type: ignore[arg-type]
    header = {name: getattr(corpus, name) for name in HEADER}
    KIND.write(path, header, buffer.getvalue())


def load(path: str | Path) -> DocumentFrequency:
    """Read a file that `save` wrote; a damaged or foreign one is refused."""
    header, payload = KIND.read(path)
    with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
        return DocumentFrequency(
            **{name: header[name] for name in HEADER},
            vocabulary=str(arrays["words"]).split("\n"),
            parents=tuple(arrays[f"parent{n}"] for n in range(ORDERS)),
            lasts=tuple(arrays[f"last{n}"] for n in range(ORDERS)),
            counts=tuple(arrays[f"count{n}"] for n in range(ORDERS)),
            complete=True,
        )


def named_path(name: str) -> Path:
    """Where a named corpus is kept for this user."""
    return data_folder() / "idf" / f"{name}{SUFFIX}"


def named() -> list[str]:
    """The corpora this user has named."""
    return sorted(path.stem for path in (data_folder() / "idf").glob(f"*{SUFFIX}"))


def find(where: str) -> DocumentFrequency:
    """A corpus by path or by name."""
    path = Path(where)
    if not path.is_file():
        path = named_path(where)
    if not path.is_file():
        names = named()
        listed = f"named corpora: {', '.join(names)}" if names else "no corpus is named yet"
        raise InputError(
            f"no idf corpus {where!r}: neither a file nor a name ({listed}{nearest(where, names)}); "
            f"make one with: captious make idf captions.jsonl --name {path.stem}"
        )
    return _opened(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _opened(path: Path, changed: int) -> DocumentFrequency:
    return load(path)


def from_pickle(path: str | Path, name: str, items: int | None = None) -> DocumentFrequency:
    """A corpus from CIDEr's reference code, a pickled ``{ref_len, document_frequency}``, read without running it."""
    try:
        content = _Restricted(io.BytesIO(read_regular(path)), encoding="latin1").load()
        # Older files hold the table alone and leave the number of items to the code that reads them.
        counts: Mapping[tuple[str, ...], float] = content.get("document_frequency", content)
        number = items if items is not None else round(float(content["ref_len"]))
        return _from_counts(counts, number, name)
    except (pickle.UnpicklingError, KeyError, TypeError, ValueError, EOFError, AttributeError, OSError) as error:
        wanted = "with ref_len and document_frequency, or a bare table and items=..."
        raise InputError(f"{path}: not a pickled idf table {wanted} ({error})") from None


def _from_counts(counts: Mapping[tuple[str, ...], float], items: int, name: str) -> DocumentFrequency:
    """A corpus from n-grams written out.

    >>> corpus = _from_counts({("a",): 2, ("dog",): 1, ("a", "dog"): 1}, items=2, name="tiny")
    >>> corpus.vocabulary, corpus.parents[1].tolist(), corpus.lasts[1].tolist()
    (['a', 'dog'], [0], [1])
    """
    vocabulary = {word: index for index, word in enumerate(sorted({word for gram in counts for word in gram}))}
    numbers: dict[tuple[str, ...], int] = {(): 0}
    parents, lasts, values = [], [], []
    for n in range(1, ORDERS + 1):
        rows = sorted(
            (numbers[gram[:-1]], vocabulary[gram[-1]], int(count), gram)
            for gram, count in counts.items()
            if len(gram) == n and gram[:-1] in numbers
        )
        numbers = {gram: index for index, (*_, gram) in enumerate(rows)}
        parents.append(np.array([row[0] for row in rows], dtype=np.int32))
        lasts.append(np.array([row[1] for row in rows], dtype=np.int32))
        values.append(np.array([row[2] for row in rows], dtype=np.int64))
    mark = int.from_bytes(blake2b(repr(sorted(counts.items())).encode(), digest_size=8).digest(), "little")
    return DocumentFrequency(items, "ptb.1", list(vocabulary), tuple(parents), tuple(lasts), tuple(values), mark, name)


class _Restricted(pickle.Unpickler):
    """Reads dictionaries, tuples, strings and numbers, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {"defaultdict": defaultdict, "dict": dict, "float": float, "int": int}
        if module in ("collections", "builtins", "__builtin__") and name in allowed:
            return allowed[name]
        raise pickle.UnpicklingError(f"it would load {module}.{name}")
