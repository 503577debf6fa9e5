"""The images nearest to each image by feature vectors: exact, in blocks, without a matrix of all pairs."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._typing import Floats, Floats32, Ints, Ints32
from captious.captions import CaptionSet
from captious.text.tables import TextTable

BLOCK = 2048


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Of each image the nearest others, nearest first."""

    index: Ints
    """-1 where there are fewer."""
    similarity: Floats


def nearest_vectors(
    vectors: npt.NDArray[Any], count: int = 3, progress: Callable[[int, int], None] | None = None
) -> Neighbors:
    """The ``count`` other rows of the highest cosine; rows that hold NaN or nothing but 0 have and are no neighbors.

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
    return Neighbors(nearest, similarity)


def _unit(vectors: npt.NDArray[Any]) -> tuple[Floats32, Ints]:
    """The usable rows at unit length, and which they are."""
    single = np.asarray(vectors, dtype=np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", single, single, dtype=np.float64))
    numbers = np.flatnonzero(np.isfinite(norms) & (norms > 0))
    return (single[numbers] / norms[numbers, None]).astype(np.float32), numbers


def _take(best: Floats32, index: Ints, product: Floats32, first: int) -> None:
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


ORDERS = 4
COMMON = 128
"""So many of the most frequent n-grams are held apart."""
AXES = 16
_RUN = 256
"""The best of a run of so many scores is looked at before the scores themselves."""
_ROUNDING = 1e-6
"""More than single precision loses, so that no neighbor is lost to rounding."""
_ROWS = 256
_PAIR = np.dtype([("image", np.int32), ("weight", np.float32)])


def nearest_captions(
    captions: CaptionSet, count: int = 3, progress: Callable[[int, int], None] | None = None
) -> Neighbors:
    """The ``count`` most similar other images of each, by their references; images that share nothing do not count.

    Similarities have single precision.

    >>> found = nearest_captions(CaptionSet.of(
    ...     {"1": "", "2": "", "3": ""}, {"1": ["a red dog"], "2": ["a red cat"], "3": ["some old boat"]}))
    >>> found.index[:, 0].tolist()
    [1, 0, -1]
    """
    gram, image, weight, grams = _entries(captions)
    index = _Index.of(gram, image, weight, grams, len(captions))
    blocks = range(0, len(captions), _ROWS)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = []
        for first, part in zip(blocks, pool.map(lambda first: index.block(first, count), blocks), strict=True):
            found.append(part)
            if progress is not None:
                progress(min(first + _ROWS, len(captions)), len(captions))
    if not found:
        return Neighbors(np.zeros((0, count), dtype=np.int64), np.zeros((0, count)))
    nearest, similarity = (np.concatenate(column) for column in zip(*found, strict=True))
    back = np.argsort(index.images)
    return Neighbors(nearest[back], similarity[back])


def _entries(captions: CaptionSet) -> tuple[Ints, Ints, Floats, int]:
    """N-gram, image and weight of every entry that another image shares, sorted by n-gram; and how many n-grams."""
    table = TextTable.of(captions, "ptb")
    images, grams = len(captions), 0
    parts = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))]
    for n in range(1, ORDERS + 1):
        rows = table.ngrams(n)
        if not rows.size:
            break
        image = table.item.take(rows.caption.take(rows.heads))
        gram = rows.gram.take(rows.heads)
        document = np.bincount(gram, minlength=rows.size)
        weight = np.add.reduceat(rows.count, rows.heads) * np.log(images / document).take(gram)
        norm = np.sqrt(np.bincount(image, weights=np.square(weight), minlength=images)).take(image)
        weight = np.divide(weight, norm * np.sqrt(ORDERS), out=np.zeros(len(weight)), where=norm > 0)
        kept = np.flatnonzero((document.take(gram) > 1) & (weight > 0))
        parts.append((gram.take(kept).astype(np.int64) + grams, image.take(kept).astype(np.int64), weight.take(kept)))
        grams += rows.size
    grams_, images_, weights = zip(*parts, strict=True)
    return np.concatenate(grams_), np.concatenate(images_), np.concatenate(weights), grams


@dataclass(frozen=True, eq=False)
class _Index:
    """Images by n-gram and n-grams by image; images renumbered, those with the heaviest common n-grams first."""

    images: Ints
    """The number each image had."""
    postings: Ints
    """(image, weight) pairs of four bytes each, sorted by n-gram."""
    ends: Ints
    sizes: Ints
    bounds: list[int]
    gram: Ints32
    weight: Floats32
    """N-grams and weights of image i: from ``bounds[i]`` to ``bounds[i + 1]``."""
    common: Floats32
    norms: Floats32
    run_norms: Floats32
    axes: Floats32
    beyond: Floats32

    @classmethod
    def of(cls, gram: Ints, image: Ints, weight: Floats, grams: int, images: int) -> _Index:
        """Hold the most frequent n-grams apart and index the others."""
        document = np.bincount(gram, minlength=grams)
        column = np.full(grams, -1)
        frequent = np.argsort(-document, kind="stable")[:COMMON]
        column[frequent] = np.arange(len(frequent))
        place = column.take(gram)
        apart, rest = np.flatnonzero(place >= 0), np.flatnonzero(place < 0)
        common = np.zeros((images, max(len(frequent), 1)), dtype=np.float32)
        common[image.take(apart), place.take(apart)] = weight.take(apart)
        order = np.argsort(-np.square(common).sum(axis=1), kind="stable")
        number = np.empty(images, dtype=np.int64)
        number[order] = np.arange(images)
        common = common[order]
        norms = np.sqrt(np.square(common).sum(axis=1))
        axes = common @ np.linalg.eigh(common.T @ common)[1][:, ::-1][:, :AXES]
        beyond = np.sqrt(np.maximum(np.square(norms) - np.square(axes).sum(axis=1), 0))
        gram, image = gram.take(rest), number.take(image.take(rest))
        pairs = np.empty(len(rest), dtype=_PAIR)
        pairs["image"], pairs["weight"] = image, weight.take(rest)
        sizes = np.bincount(gram, minlength=grams)
        by_image = np.argsort(image, kind="stable")
        return cls(
            images=order,
            postings=pairs.view(np.int64),
            ends=np.cumsum(sizes),
            sizes=sizes,
            bounds=np.searchsorted(image.take(by_image), np.arange(images + 1)).tolist(),
            gram=gram.take(by_image).astype(np.int32),
            weight=pairs["weight"].take(by_image),
            common=common,
            norms=norms,
            run_norms=norms[::_RUN],
            axes=axes,
            beyond=beyond,
        )

    def block(self, first: int, count: int) -> tuple[Ints, Floats]:
        """The nearest of a block of images, by the numbers they had, and how similar they are."""
        rows = range(first, min(first + _ROWS, len(self.images)))
        nearest, similarity = np.full((len(rows), count), -1, dtype=np.int64), np.zeros((len(rows), count))
        for row, number in enumerate(rows):
            scores = self._rare(number)
            near, value = self._candidates(scores, number, count)
            near = self.images[near]
            order = np.lexsort((near, -value))[:count]
            nearest[row, : len(order)], similarity[row, : len(order)] = near[order], value[order]
        return nearest, similarity

    def _rare(self, number: int) -> Floats:
        """The similarity of one image to all, as far as the rarer n-grams make it; below 0 for itself."""
        own = slice(self.bounds[number], self.bounds[number + 1])
        grams = self.gram[own]
        sizes, ends = self.sizes[grams], self.ends[grams]
        padded = -(-len(self.images) // _RUN) * _RUN
        scores: Any = np.zeros(padded)
        if len(grams):
            starts = (ends - sizes).tolist()
            runs = [self.postings[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]
            pairs = np.concatenate(runs).view(_PAIR)
            scores = np.bincount(pairs["image"], pairs["weight"] * np.repeat(self.weight[own], sizes), padded)
        scores[number] = scores[len(self.images) :] = -1.0
        result: Floats = scores
        return result

    def _candidates(self, scores: Floats, number: int, count: int) -> tuple[Ints, Floats]:
        """Images that may be among the nearest, with their similarities: all that are, and a few more."""
        best = scores.reshape(-1, _RUN).max(axis=1)
        floor = _kth(best, count)
        # What the common n-grams add is never negative, so the best without them bound the nearest from below.
        sure = _members(np.flatnonzero(best >= floor))
        sure = sure[scores[sure] >= max(floor, 0.0)]
        floor = _kth(scores[sure] + self.common[sure] @ self.common[number], count) - _ROUNDING
        near = _members(np.flatnonzero(best + self.norms[number] * self.run_norms >= floor))
        part = scores[near]
        kept = np.flatnonzero((part >= 0) & (part + self.norms[number] * self.norms.take(near, mode="clip") >= floor))
        near, part = near[kept], part[kept]
        bound = part + self.axes[near] @ self.axes[number] + self.beyond[number] * self.beyond[near]
        kept = np.flatnonzero(bound >= floor)
        near = near[kept]
        value = part[kept] + self.common[near] @ self.common[number]
        return near[value > 0], value[value > 0]


def _members(runs: Ints) -> Ints:
    return (runs[:, None] * _RUN + np.arange(_RUN)).ravel()


def _kth(values: npt.NDArray[np.floating], count: int) -> float:
    """The k-th greatest of some values; minus infinity where there are fewer."""
    return float(np.partition(values, -count)[-count]) if len(values) >= count else -np.inf
