"""Document frequencies of n-grams: of the references at hand, of shards merged, or of a corpus kept in a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.text.tables import Ints, TextTable
from captious.text.tokenisers import tokeniser_named

ORDERS = 4


@dataclass(frozen=True, eq=False)
class DocumentFrequency:
    """In how many items' references each n-gram of orders 1 to 4 occurs.

    An n-gram is its (n-1)-gram and one more token; per order the arrays are sorted by that pair. Frequencies of shards
    merge into those of the whole.
    """

    items: int
    tokeniser: str
    vocabulary: list[str]
    parents: tuple[npt.NDArray[np.int32], ...]
    lasts: tuple[npt.NDArray[np.int32], ...]
    counts: tuple[Ints, ...]
    fingerprint: int
    """Of the items counted, in any order."""
    name: str = "refs"
    complete: bool = False
    """Read from a file: the corpus of any shard is the whole of it."""
    table: TextTable | None = None

    @classmethod
    def of(cls, captions: CaptionSet, tokeniser: str = "ptb", name: str = "refs") -> DocumentFrequency:
        """Count the references of a set.

        >>> corpus = DocumentFrequency.of(CaptionSet.of({"1": "", "2": ""}, {"1": ["a dog"], "2": ["a cat", "a cat"]}))
        >>> dict(zip(corpus.vocabulary, corpus.counts[0].tolist()))
        {'a': 2, 'dog': 1, 'cat': 1}
        """
        table = captions.table(tokeniser)
        orders = [table.ngrams(n) for n in range(1, ORDERS + 1)]
        return cls(
            items=int((captions.references.counts > 0).sum()),
            tokeniser=str(table.tokeniser),
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

    def for_tokeniser(self, name: str) -> DocumentFrequency:
        """The corpus itself, if it was tokenised the same way."""
        version = str(tokeniser_named(name))
        if version != self.tokeniser:
            raise InputError(f"idf corpus {self.name!r} was tokenised by {self.tokeniser}, the metric uses {version}")
        return self

    def frequencies(self, table: TextTable, n: int) -> Ints:
        """The document frequency of each n-gram of a table, 0 where the corpus lacks it."""
        if table is self.table:
            return self.counts[n - 1]
        found = self._locate(table, n)
        counts = np.append(self.counts[n - 1], 0)
        result: Ints = counts[found]
        return result

    def _locate(self, table: TextTable, n: int) -> Ints:
        """The number here of each n-gram of a table, -1 where it is absent."""
        if n == 1:
            position = self._first_order
            return np.fromiter((position.get(word, -1) for word in table.vocabulary), np.int64, len(table.vocabulary))
        grams = table.ngrams(n)
        words = self._words(table)
        parent, last = self._locate(table, n - 1)[grams.parent], words[grams.last]
        known = (parent >= 0) & (last >= 0)
        width = len(self.vocabulary)
        keys = self.parents[n - 1].astype(np.int64) * width + self.lasts[n - 1]
        wanted = np.where(known, parent * width + last, -1)
        if not len(keys):
            return np.full(len(wanted), -1)
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(known & (keys[place] == wanted), place, -1)

    def _words(self, table: TextTable) -> Ints:
        position = self._position
        return np.fromiter((position.get(word, -1) for word in table.vocabulary), np.int64, len(table.vocabulary))

    @cached_property
    def _position(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.vocabulary)}

    @cached_property
    def _first_order(self) -> dict[str, int]:
        return {self.vocabulary[last]: index for index, last in enumerate(self.lasts[0].tolist())}

    def merge(self, other: DocumentFrequency) -> DocumentFrequency:
        """The frequencies of two disjoint shards together; a complete corpus is its own merger."""
        if self.complete and other.complete and self.fingerprint == other.fingerprint:
            return self
        if self.complete or other.complete:
            raise InputError(f"cannot merge the idf corpora {self} and {other}: one of them is complete already")
        if self.tokeniser != other.tokeniser:
            raise InputError(f"cannot merge idf corpora tokenised by {self.tokeniser} and {other.tokeniser}")
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
