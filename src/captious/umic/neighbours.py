"""The images nearest to each image by feature vectors: exact, in blocks, without a matrix of all pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

BLOCK = 2048


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Of each image the nearest others, nearest first."""

    index: Ints
    """-1 where there are fewer."""
    similarity: Floats


def nearest_vectors(
    vectors: npt.NDArray[Any], count: int = 3, progress: Callable[[int, int], None] | None = None
) -> Neighbours:
    """The ``count`` other rows of the highest cosine; rows that hold NaN or nothing but 0 have and are no neighbours.

    The product of two blocks is made once and serves both; after its first block a row takes only what beats its worst.

    >>> nearest_vectors(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.0, 0.0]]), count=1).index.ravel().tolist()
    [1, 0, 1, -1]
    """
    rows, numbers = _unit(vectors)
    best = np.full((len(rows), count), -np.inf, dtype=np.float32)
    index = np.full((len(rows), count), -1, dtype=np.int64)
    blocks = range(0, len(rows), BLOCK)
    for first in blocks:
        ours = slice(first, first + BLOCK)
        for second in range(first, len(rows), BLOCK):
            theirs = slice(second, second + BLOCK)
            product = rows[ours] @ rows[theirs].T
            if first == second:
                np.fill_diagonal(product, -np.inf)
            else:
                _take(best[theirs], index[theirs], product.T, first)
            _take(best[ours], index[ours], product, second)
        if progress is not None:
            progress(min(first + BLOCK, len(rows)), len(rows))
    nearest, similarity = np.full((len(vectors), count), -1, dtype=np.int64), np.zeros((len(vectors), count))
    known = index >= 0
    nearest[numbers] = np.where(known, np.append(numbers, -1)[index], -1)
    similarity[numbers] = np.where(known, best, 0.0)
    return Neighbours(nearest, similarity)


def _unit(vectors: npt.NDArray[Any]) -> tuple[Singles, Ints]:
    """The usable rows at unit length, and which they are."""
    single = np.asarray(vectors, dtype=np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", single, single, dtype=np.float64))
    numbers = np.flatnonzero(np.isfinite(norms) & (norms > 0))
    return (single[numbers] / norms[numbers, None]).astype(np.float32), numbers


def _take(best: Singles, index: Ints, product: Singles, first: int) -> None:
    """Merge a block of products into the running best, in place; of equals the lower number comes first."""
    count = best.shape[1]
    floor = best[:, -1:]
    if product.shape[1] > count and np.isneginf(floor).any():
        floor = np.maximum(floor, np.partition(product, -count, axis=1)[:, -count, None])
    row, column = np.nonzero((product >= floor) & (product > -np.inf))
    touched = np.unique(row)
    if not len(touched):
        return
    value = np.concatenate([best[touched].ravel(), product[row, column]])
    column = np.concatenate([index[touched].ravel(), column + first])
    row = np.concatenate([np.repeat(touched, count), row])
    order = np.lexsort((column, -value, row))
    heads = np.searchsorted(row[order], touched)
    chosen = order[heads[:, None] + np.arange(count)]
    best[touched], index[touched] = value[chosen], column[chosen]
