"""N-gram counts of every caption as one sorted table per order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from captious.text.tables import TextTable

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class NgramTable:
    """Rows (n-gram, item, caption, count), sorted in that order.

    The rows of one n-gram in one item stand together, the candidates' before the references': clipping against
    references, document frequency and dot products are reductions over such groups.
    """

    n: int
    size: int
    """Distinct n-grams in the whole set."""
    order: Small
    """The tokens at which an n-gram starts, sorted by n-gram."""
    at: Small
    """The n-gram that starts at each token; -1 where the caption ends too soon."""
    parent: Small
    """Of each n-gram, the (n-1)-gram it starts with."""
    last: Small
    """Of each n-gram, its last token."""
    gram: Small
    caption: Small
    count: Small
    group: Small
    """Number of the (n-gram, item) group of each row."""
    heads: Ints
    """First row of each group."""
    reference_row: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, table: TextTable, n: int) -> NgramTable:
        """Count the n-grams of all captions: each is an (n-1)-gram followed by one more token."""
        shorter = table.ngrams(n - 1) if n > 1 else None
        if shorter is None:
            order = _sorted_by(table.tokens, len(table.vocabulary), np.arange(len(table.tokens), dtype=np.int32))
            parents = np.zeros(len(order), dtype=np.int32)
        else:
            # Tokens in the order of the token n-1 places on, then stably by the (n-1)-gram that starts there.
            order = table.ngrams(1).order - np.int32(n - 1)
            fits = (table.room.take(order, mode="clip") >= n) & (order >= 0)
            order = order.take(np.flatnonzero(fits))
            order = _sorted_by(shorter.at, shorter.size, order)
            parents = shorter.at.take(order)
        lasts = table.tokens.take(order + (n - 1))
        caption = table.caption_at.take(order)
        new_gram = _changes(parents) | _changes(lasts)
        new_row = new_gram | _changes(caption)
        rows = np.flatnonzero(new_row)
        number = _numbered(new_gram)
        at = np.full(len(table.tokens), -1, dtype=np.int32)
        at[order] = number
        firsts = np.flatnonzero(new_gram)
        gram, caption = number.take(rows), caption.take(rows)
        new_group = new_gram.take(rows) | _changes(table.item.take(caption))
        return cls(
            n=n,
            size=len(firsts),
            order=order,
            at=at,
            parent=parents[firsts],
            last=lasts[firsts],
            gram=gram,
            caption=caption,
            count=_lengths(rows, len(order)),
            group=_numbered(new_group),
            heads=np.flatnonzero(new_group),
            reference_row=~table.is_candidate.take(caption),
        )

    @cached_property
    def group_at(self) -> Small:
        """The group of the n-gram that starts at each token; -1 where none does."""
        result = np.full(len(self.at), -1, dtype=np.int32)
        result[self.order] = np.repeat(self.group, self.count)
        return result

    @cached_property
    def candidate_rows(self) -> Ints:
        """The rows of candidates."""
        return np.flatnonzero(~self.reference_row)

    @cached_property
    def reference_max(self) -> Small:
        """Of each group, the highest count in one reference; 0 where no reference has the n-gram."""
        if not len(self.heads):
            return np.zeros(0, dtype=np.int32)
        return np.maximum.reduceat(self.count * self.reference_row, self.heads)

    @cached_property
    def document_frequency(self) -> Ints:
        """Of each n-gram, in how many items' references it occurs."""
        return np.bincount(self.gram[self.heads][self.reference_max > 0], minlength=self.size)


def _sorted_by(keys: Small, bound: int, order: Small) -> Small:
    """Sort indices stably by small keys: sixteen bits at a time, for which NumPy has a radix sort."""
    bits = max(bound - 1, 1).bit_length()
    for shift in range(0, bits, 16):
        digit = (keys.take(order) >> shift).astype(np.uint16 if bits - shift > 8 else np.uint8)
        order = order.take(np.argsort(digit, kind="stable"))
    return order


def _numbered(new: npt.NDArray[np.bool_]) -> Small:
    """The number of the run each place belongs to, where runs begin at the marked places."""
    number = np.cumsum(new, dtype=np.int32)
    number -= 1
    return number


def _lengths(starts: Ints, end: int) -> Small:
    """Lengths of runs that begin at these places, the last one ending at the end."""
    lengths = np.empty(len(starts), dtype=np.int32)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1], casting="unsafe")
    if len(starts):
        lengths[-1] = end - starts[-1]
    return lengths


def _changes(values: Small) -> npt.NDArray[np.bool_]:
    """Where a value differs from the one before it; the first always does."""
    changed = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed
