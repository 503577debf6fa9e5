"""The images nearest to each image, by feature vectors or by captions: exact, in blocks, without a matrix of all pairs.

Vectors are compared by cosine. Captions are compared in the manner of CIDEr: all captions of an image are one bag of
n-grams, weighted by tf-idf; the similarity is the mean over n = 1 to 4 of the cosine of two bags.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from captious._core.types import Floats, Floats32, Ints
from captious.captions import CaptionSet
from captious.text.tables import TextTable

BLOCK = 2048
ORDERS = 4
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The nearest other images of each image, nearest first."""

    index: Ints
    """-1 where there are fewer."""
    similarity: Floats
    """The similarity in single precision; 0 where there is no neighbor."""


def nearest_vectors(vectors: npt.NDArray[Any], count: int = 3, progress: Progress | None = None) -> Neighbors:
    """The ``count`` other rows of the highest cosine; rows that hold NaN or nothing but 0 have and are no neighbors.

    >>> nearest_vectors(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.0, 0.0]]), count=1).index.ravel().tolist()
    [1, 0, 1, -1]
    """
    single = np.asarray(vectors, dtype=np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", single, single, dtype=np.float64))
    usable = np.flatnonzero(np.isfinite(norms) & (norms > 0))
    rows = (single[usable] / norms[usable, None]).astype(np.float32)
    nearest = _nearest(len(rows), lambda ours, theirs: rows[ours] @ rows[theirs].T, count, progress)
    index, similarity = np.full((len(vectors), count), -1, dtype=np.int64), np.zeros((len(vectors), count))
    index[usable] = np.where(nearest.index >= 0, np.append(usable, -1)[nearest.index], -1)
    similarity[usable] = nearest.similarity
    return Neighbors(index, similarity)


def nearest_captions(captions: CaptionSet, count: int = 3, progress: Progress | None = None) -> Neighbors:
    """The ``count`` most similar other images of each, by their references; images that share nothing do not count.

    >>> nearest = nearest_captions(CaptionSet.of(
    ...     {"1": "", "2": "", "3": ""}, {"1": ["a red dog"], "2": ["a red cat"], "3": ["some old boat"]}))
    >>> nearest.index[:, 0].tolist()
    [1, 0, -1]
    """
    bags = weighted_ngrams(captions)
    blocks = {first: bags[first : first + BLOCK] for first in range(0, len(captions), BLOCK)}
    columns = {first: block.T.tocsr() for first, block in blocks.items()}

    def product(ours: slice, theirs: slice) -> Floats32:
        cosines = (blocks[ours.start] @ columns[theirs.start]).toarray().astype(np.float32)
        positive: Floats32 = np.where(cosines > 0, cosines, np.float32(-np.inf))
        return positive

    return _nearest(len(captions), product, count, progress)


def weighted_ngrams(captions: CaptionSet) -> Any:
    """Images × n-grams that two images or more share: weights whose dot product is the similarity."""
    table = TextTable.of(captions, "ptb")
    images, grams = len(captions), 0
    rows, columns, weights = ([np.zeros(0, dtype=kind)] for kind in (np.int64, np.int64, np.float64))
    for n in range(1, ORDERS + 1):
        ngrams = table.ngrams(n)
        if not ngrams.size:
            break
        image = table.item.take(ngrams.caption.take(ngrams.heads))
        gram = ngrams.gram.take(ngrams.heads)
        document = np.bincount(gram, minlength=ngrams.size)
        weight = np.add.reduceat(ngrams.count, ngrams.heads) * np.log(images / document).take(gram)
        norm = np.sqrt(np.bincount(image, weights=np.square(weight), minlength=images)).take(image)
        weight = np.divide(weight, norm * np.sqrt(ORDERS), out=np.zeros(len(weight)), where=norm > 0)
        shared = np.flatnonzero((document.take(gram) > 1) & (weight > 0))
        rows.append(image.take(shared).astype(np.int64))
        columns.append(gram.take(shared).astype(np.int64) + grams)
        weights.append(weight.take(shared))
        grams += ngrams.size
    entries = (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns)))
    return csr_matrix(entries, shape=(images, max(grams, 1)))


def _nearest(
    size: int, product: Callable[[slice, slice], Floats32], count: int, progress: Progress | None
) -> Neighbors:
    """The nearest by blocks of products. Each product serves both of its blocks."""
    best = np.full((size, count), -np.inf, dtype=np.float32)
    index = np.full((size, count), -1, dtype=np.int64)
    for first in range(0, size, BLOCK):
        ours = slice(first, first + BLOCK)
        for second in range(first, size, BLOCK):
            theirs = slice(second, second + BLOCK)
            values = product(ours, theirs)
            if first == second:
                np.fill_diagonal(values, -np.inf)
            else:
                _merge(best[theirs], index[theirs], values.T, first)
            _merge(best[ours], index[ours], values, second)
        if progress is not None:
            progress(min(first + BLOCK, size), size)
    return Neighbors(index, np.where(index >= 0, best, 0.0).astype(np.float64))


def _merge(best: Floats32, index: Ints, values: Floats32, first: int) -> None:
    """Merge a block of values into the running best, in place; of equals the lower number comes first.

    After its first block a row takes only what reaches its worst.
    """
    count = best.shape[1]
    floor = best[:, -1:]
    if values.shape[1] > count and np.isneginf(floor).any():
        floor = np.maximum(floor, np.partition(values, -count, axis=1)[:, -count, None])
    row, column = np.nonzero((values >= floor) & (values > -np.inf))
    touched = np.unique(row)
    if not len(touched):
        return
    value = np.concatenate([best[touched].ravel(), values[row, column]])
    column = np.concatenate([index[touched].ravel(), column + first])
    row = np.concatenate([np.repeat(touched, count), row])
    order = np.lexsort((column, -value, row))
    heads = np.searchsorted(row[order], touched)
    chosen = order[heads[:, None] + np.arange(count)]
    best[touched], index[touched] = value[chosen], column[chosen]
