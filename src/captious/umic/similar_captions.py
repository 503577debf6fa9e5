"""The images whose captions are nearest by CIDEr: exact, without a matrix of all pairs.

An image is one vector per order n = 1 to 4: the counts of its captions' n-grams, summed over the captions, times
log(N / df) as in CIDEr. The similarity of two images is the mean over n of the cosines: what CIDEr (without D's length
penalty and clipping, and without its factor 10) gives when the captions of an image are read as one text. With each
order scaled to length 1/2 and the four joined, it is one dot product.

A few n-grams ("a", "on", "of a") stand in most images and would cost most of the work, though idf makes them light.
They are held apart: the dot product over all others comes from an inverted index, and bounds on what the common ones
can add (Cauchy-Schwarz, then the same beyond sixteen principal axes) leave a handful of images to score in full.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.captions import CaptionSet
from captious.umic.neighbours import Neighbours

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

ORDERS = 4
COMMON = 128
"""So many of the most frequent n-grams are held apart."""
AXES = 16
_RUN = 256
"""The best of a run of so many scores is looked at before the scores themselves."""
_ROUNDING = 1e-6
"""More than single precision loses, so that no neighbour is lost to rounding."""
_ROWS = 256
_PAIR = np.dtype([("image", np.int32), ("weight", np.float32)])


def nearest_captions(
    captions: CaptionSet, count: int = 3, progress: Callable[[int, int], None] | None = None
) -> Neighbours:
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
        return Neighbours(np.zeros((0, count), dtype=np.int64), np.zeros((0, count)))
    nearest, similarity = (np.concatenate(column) for column in zip(*found, strict=True))
    back = np.argsort(index.images)
    return Neighbours(nearest[back], similarity[back])


def _entries(captions: CaptionSet) -> tuple[Ints, Ints, Floats, int]:
    """N-gram, image and weight of every entry that another image shares, sorted by n-gram; and how many n-grams."""
    table = captions.table("ptb")
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
    gram: npt.NDArray[np.int32]
    weight: Singles
    """N-grams and weights of image i: from ``bounds[i]`` to ``bounds[i + 1]``."""
    common: Singles
    norms: Singles
    run_norms: Singles
    axes: Singles
    beyond: Singles

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
