"""Token and n-gram tables: one tokenisation per set, integer ids, flat arrays.

Captions are numbered item by item, an item's candidates before its references, so that a run of items is a run of
captions and a run of tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from captious.text.tokenisers import Tokeniser, tokeniser_named

if TYPE_CHECKING:
    from captious.captions import CaptionSet
    from captious.text.ngrams import NgramTable

Ints = npt.NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class TextTable:
    """All captions of a set as token ids."""

    tokeniser: Tokeniser
    vocabulary: list[str]
    tokens: npt.NDArray[np.int32]
    starts: Ints
    """Caption ``c`` is ``tokens[starts[c]:starts[c + 1]]``."""
    item: npt.NDArray[np.int32]
    """The item each caption belongs to."""
    is_candidate: npt.NDArray[np.bool_]
    items: int

    @classmethod
    def of(cls, captions: CaptionSet, tokeniser: str = "ptb") -> TextTable:
        """Tokenise every caption of a set once."""
        tool = tokeniser_named(tokeniser)
        candidates, references = captions.candidates, captions.references
        vocabulary, tokens, lengths = tokenise((*candidates.values, *references.values), tool)
        numbers = np.arange(len(captions), dtype=np.int32)
        item = np.concatenate([np.repeat(numbers, candidates.counts), np.repeat(numbers, references.counts)])
        order = np.argsort(item, kind="stable")
        starts = np.cumsum(lengths) - lengths
        return cls(
            tokeniser=tool,
            vocabulary=vocabulary,
            tokens=take_runs(tokens, starts[order], lengths[order]),
            starts=np.concatenate(([0], np.cumsum(lengths[order]))),
            item=item[order],
            is_candidate=order < len(candidates.values),
            items=len(captions),
        )

    @cached_property
    def lengths(self) -> Ints:
        """Tokens per caption."""
        return np.diff(self.starts)

    @cached_property
    def caption_at(self) -> npt.NDArray[np.int32]:
        """The caption each token belongs to."""
        return np.repeat(np.arange(len(self.lengths), dtype=np.int32), self.lengths)

    @cached_property
    def room(self) -> npt.NDArray[np.int32]:
        """Tokens from each token to the end of its caption, itself included."""
        ends: npt.NDArray[np.int32] = np.repeat(self.starts[1:].astype(np.int32), self.lengths)
        return np.subtract(ends, np.arange(len(self.tokens)), dtype=np.int32, casting="unsafe")

    @cached_property
    def candidates(self) -> Ints:
        """The numbers of the candidate captions."""
        return np.flatnonzero(self.is_candidate)

    @cached_property
    def first_caption(self) -> Ints:
        """Item ``i`` has the captions ``first_caption[i]`` up to ``first_caption[i + 1]``."""
        return np.searchsorted(self.item, np.arange(self.items + 1))

    @cached_property
    def rank(self) -> Ints:
        """Of each candidate, its place among the candidates of its item: 0 for the first."""
        return self.candidates - self.first_caption[self.item[self.candidates]]

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """Every candidate with every reference of its item, as two arrays of caption numbers."""
        first, end = self.first_caption[:-1], self.first_caption[1:]
        item = self.item[self.candidates]
        own = np.bincount(item, minlength=self.items)
        references = (end - first - own)[item]
        within = np.arange(int(references.sum())) - np.repeat(np.cumsum(references) - references, references)
        return np.repeat(self.candidates, references), np.repeat((first + own)[item], references) + within

    def per_item(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum rows of candidates into rows of items."""
        item = self.item[self.candidates]
        if len(item) == self.items and (item == np.arange(self.items)).all():
            return rows
        return np.stack([np.bincount(item, weights=column, minlength=self.items) for column in rows.T], axis=1)

    def mean_rows(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Values of candidates as (sum, number) of items: the statistics of a mean."""
        return self.per_item(np.stack([values, np.ones(len(values))], axis=1))

    def words(self, caption: int) -> list[str]:
        """The tokens of a caption as text."""
        return [self.vocabulary[token] for token in self.tokens[self.starts[caption] : self.starts[caption + 1]]]

    def ngrams(self, n: int) -> NgramTable:
        """The n-gram counts of all captions, made once and shared by all metrics."""
        from captious.text.ngrams import NgramTable

        for order in range(1, n):
            self.once(("ngrams", order), partial(NgramTable.of, self, order))
        return self.once(("ngrams", n), lambda: NgramTable.of(self, n))

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """What several metrics need of this table is computed by the first that asks."""
        if key not in self._made:
            self._made[key] = make()
        result: T = self._made[key]
        return result

    @cached_property
    def _made(self) -> dict[Any, Any]:
        return {}


def tokenise(texts: Sequence[str], tool: Tokeniser) -> tuple[list[str], npt.NDArray[np.int32], Ints]:
    """Vocabulary, flat token ids, and tokens per text.

    Texts are cut at spaces; a distinct chunk is tokenised once where that is safe, a text with an unsafe chunk as a
    whole.

    >>> from captious.text.tokenisers import TOKENISERS
    >>> vocabulary, tokens, lengths = tokenise(["a dog", "the dog"], TOKENISERS["ptb"])
    >>> vocabulary, tokens.tolist(), lengths.tolist()
    (['a', 'dog', 'the'], [0, 1, 2, 1], [2, 2])
    """
    if not texts:
        return [], np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    chunks, chunk, bounds = _chunks(texts)
    plain = list(map(tool.plain_word, chunks))
    rest = [number for number, word in enumerate(plain) if word is None]
    unsafe = np.zeros(len(chunks), dtype=np.bool_)
    unsafe[rest] = [not tool.is_local(chunks[number]) for number in rest]
    for text in sorted(set((np.searchsorted(bounds, np.flatnonzero(unsafe.take(chunk)), side="right") - 1).tolist())):
        chunk[bounds[text] : bounds[text + 1]] = 0
        chunk[bounds[text]] = len(chunks)
        rest.append(len(chunks))
        chunks.append(texts[text])
    words = [word for word in plain if word is not None]
    start = np.zeros(len(chunks), dtype=np.int64)
    size = np.ones(len(chunks), dtype=np.int64)
    size[rest] = 0
    start[size > 0] = np.arange(len(words))
    for number in rest:
        if number >= len(unsafe) or not unsafe[number]:
            start[number] = len(words)
            words += _words(tool.tokenise(chunks[number]), chunks[number])
            size[number] = len(words) - start[number]
    vocabulary: defaultdict[str, int] = defaultdict(int)
    vocabulary.default_factory = vocabulary.__len__
    flat = np.fromiter(map(vocabulary.__getitem__, words), dtype=np.int32, count=len(words))
    sizes = size.take(chunk)
    tokens = take_runs(flat, start.take(chunk), sizes)
    ends = np.concatenate(([0], np.cumsum(sizes)))[bounds]
    return list(vocabulary), tokens, np.diff(ends)


_END = "\x1e"
_TEXTS = 512
"""Texts cut at a time: their chunks stay in the processor's cache until they are numbered."""


def _chunks(texts: Sequence[str]) -> tuple[list[str], npt.NDArray[np.int32], Ints]:
    """The distinct space-delimited chunks of all texts, the chunk at each place, and the first place of each text.

    Chunk 0 is empty and stands for nothing at all. Every text has a place, if only for an empty chunk.
    """
    numbering: defaultdict[str, int] = defaultdict(int, {_END: 0})
    numbering.default_factory = numbering.__len__
    parts = []
    for first in range(0, len(texts), _TEXTS):
        block = texts[first : first + _TEXTS]
        joined = f" {_END} ".join(block)
        if joined.count(_END) != len(block) - 1:
            joined = f" {_END} ".join(text.replace(_END, " ") for text in block)
        pieces = joined.split(" ")
        pieces.append(_END)
        parts.append(np.fromiter(map(numbering.__getitem__, pieces), dtype=np.int32, count=len(pieces)))
    chunk = np.concatenate(parts)
    ends = np.flatnonzero(chunk == 0)
    bounds = np.concatenate(([0], ends - np.arange(len(ends))))
    return ["", *list(numbering)[1:]], chunk.take(np.flatnonzero(chunk != 0)), bounds


def take_runs(values: npt.NDArray[Any], starts: Ints, lengths: Ints) -> npt.NDArray[Any]:
    """Concatenate runs of an array.

    >>> take_runs(np.array([5, 6, 7, 8]), np.array([2, 0]), np.array([2, 1])).tolist()
    [7, 8, 5]
    """
    if len(lengths) and lengths.min() == 1 and lengths.max() == 1:
        return values[starts]
    shift = starts - (np.cumsum(lengths) - lengths)
    return values.take(np.repeat(shift, lengths) + np.arange(int(lengths.sum())))


def _words(tokens: list[str], text: str) -> list[str]:
    # coco-caption joins tokens with spaces and splits again on any whitespace, which cuts "1\u00a01/2" in two.
    return " ".join(tokens).split() if " " in text or "\xa0" in text else tokens
