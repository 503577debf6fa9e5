"""Token ids of many texts, made once: flat arrays without start and end, which are added as a text is put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
CHUNK = 4096


@dataclass(frozen=True, eq=False)
class TokenLists:
    """The tokens between start and end of each text; ``lengths`` counts all of them, also those that were cut off."""

    values: npt.NDArray[np.int32]
    offsets: Ints
    lengths: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> npt.NDArray[np.int32]:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def span(self, first: int, stop: int) -> npt.NDArray[np.int32]:
        """The tokens of consecutive texts, one after the other."""
        return self.values[self.offsets[first] : self.offsets[stop]]


@dataclass(frozen=True)
class Frame:
    """What surrounds a text: start (−1 for none) and end token, the limit, and what fills rows."""

    start: int
    end: int
    pad: int
    limit: int

    @classmethod
    def of(cls, encoder: Any) -> Frame:
        """The frame of an encoder."""
        return cls(encoder.start, encoder.end, encoder.pad, encoder.limit)

    @property
    def size(self) -> int:
        """Tokens of an empty text."""
        return 1 + (self.start >= 0)

    def around(self, *parts: npt.NDArray[np.int32]) -> Ints:
        """The parts as one text, cut at the limit with the end kept.

        >>> Frame(8, 9, 0, 5).around(np.array([1, 2]), np.array([3, 4])).tolist()
        [8, 1, 2, 3, 9]
        """
        body = (np.concatenate(parts) if len(parts) > 1 else parts[0])[: self.limit - self.size]
        text = np.empty(len(body) + self.size, dtype=np.int64)
        text[0], text[-1] = self.start, self.end
        text[self.size - 1 : -1] = body
        return text

    def stacked(self, texts: Sequence[Ints]) -> Ints:
        """Texts in one array, padded to the longest."""
        table = np.full((len(texts), max(map(len, texts))), self.pad, dtype=np.int64)
        for row, text in zip(table, texts, strict=True):
            row[: len(text)] = text
        return table


def tokenised(encoder: Any, texts: Sequence[str]) -> TokenLists:
    """Tokens of texts by the encoder's tokeniser, without their frame."""
    front = int(encoder.start >= 0)
    frame = front + 1
    parts, kept, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for first in range(0, len(texts), CHUNK):
        found = encoder.tokenise(list(texts[first : first + CHUNK]))
        sizes = np.minimum(found.lengths, encoder.limit) - frame
        column = np.arange(found.ids.shape[1])
        parts.append(found.ids[(column >= front) & (column < front + sizes[:, None])].astype(np.int32))
        kept.append(sizes)
        lengths.append(found.lengths - frame)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(kept))]).astype(np.int64)
    return TokenLists(np.concatenate(parts), offsets, np.concatenate(lengths))
