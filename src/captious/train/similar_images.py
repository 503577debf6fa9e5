"""Similar images of a corpus, by captions and by image vectors: the source of hard negatives.

The nearest images are found exactly, in blocks, without a matrix of all pairs. Vectors are compared by cosine. Captions
are compared as in CIDEr: all captions of an image form one bag of n-grams, weighted by tf-idf; the similarity is the
mean over n = 1 to 4 of the cosine of two bags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from captious._core.types import Floats, Floats32, Ints
from captious.captions import CaptionSet
from captious.edits.lexicon import CaptionCorpus
from captious.errors import InputError
from captious.models.features import read_features
from captious.options import get_runtime
from captious.text.ngram_tables import TextTable

# Number of similar images per image.
NEAREST = 3


@dataclass(frozen=True, eq=False)
class SimilarImages:
    """The most similar images of each image in a corpus, by captions and, if there are vectors, by image."""

    captions: Neighbors
    pictures: Neighbors | None = None

    @classmethod
    def of(
        cls, corpus: CaptionCorpus, features: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any] | None = None
    ) -> SimilarImages:
        """Search a corpus. Features are vectors by id, or rows in the order of ``corpus.ids`` (NaN if missing)."""
        report = get_runtime().progress
        texts = {key: corpus.texts[corpus.offsets[i] : corpus.offsets[i + 1]] for i, key in enumerate(corpus.ids)}
        captions = CaptionSet.of(dict.fromkeys(corpus.ids, ()), texts)
        words = find_nearest_captions(captions, NEAREST, lambda done, total: report("captions alike", done, total))
        if features is None:
            return cls(words)
        rows = _convert_features(corpus, features)
        return cls(
            words, find_nearest_vectors(rows, NEAREST, lambda done, total: report("pictures alike", done, total))
        )


def _convert_features(
    corpus: CaptionCorpus, features: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any]
) -> npt.NDArray[Any]:
    if isinstance(features, Mapping):
        with_vector = [key for key in corpus.ids if key in features]
        if not with_vector:
            raise InputError(f"{corpus.name}: no image has a vector among the {len(features)} given")
        rows = np.full((len(corpus.ids), len(features[with_vector[0]])), np.nan, dtype=np.float32)
        for number, key in enumerate(corpus.ids):
            if key in features:
                rows[number] = features[key]
        return rows
    if len(features) != len(corpus.ids):
        raise InputError(f"{corpus.name}: {len(features)} rows of features for {len(corpus.ids)} images")
    return features


def compute_image_vectors(
    corpus: CaptionCorpus,
    images: str | Path | None = None,
    encoder: str = "",
    image_features: str | Path | None = None,
) -> tuple[Floats32 | None, tuple[str, ...]]:
    """Return image vectors in the order of ``corpus.ids``, from a file or an encoder, and warnings.

    A row is NaN if there is no vector; without a source the vectors are None.
    """
    if image_features is not None and (images is not None or encoder):
        raise InputError("image_features=... as well as images=... or encoder=..., expected one source of vectors")
    if (images is None) != (not encoder):
        raise InputError("images=... and encoder=... find images that look alike together; expected both or neither")
    if image_features is not None:
        rows, reasons = _read_vectors(corpus, Path(image_features))
    elif images is not None:
        rows, reasons = _encode_images(corpus, images, encoder)
    else:
        more = "images=... with encoder=..., or image_features=..., adds images that look alike"
        return None, (f"hard negatives only by captions: {more}",)
    if not reasons:
        return rows, ()
    key, why = next(iter(reasons.items()))
    return rows, (f"{len(reasons)} images without a vector are compared only by captions, such as {key} ({why})",)


def _read_vectors(corpus: CaptionCorpus, path: Path) -> tuple[Floats32, dict[str, str]]:
    """Read vectors from a file of :mod:`captious.models.features`; missing ones are NaN, with a reason."""
    ids, rows = read_features(path)
    row_of = {key: number for number, key in enumerate(ids)}
    index = np.array([row_of.get(key, -1) for key in corpus.ids], dtype=np.int64)
    if (index < 0).all():
        raise InputError(f"{path}: contains no vector of any image of {corpus.name}, such as {corpus.ids[0]}")
    missing = [corpus.ids[number] for number in np.flatnonzero(index < 0)]
    return spread_vectors(rows, index), dict.fromkeys(missing, f"not in {path.name}")


def _encode_images(corpus: CaptionCorpus, images: str | Path, encoder: str) -> tuple[Floats32, dict[str, str]]:
    """Encode image files; unusable ones are NaN, with a reason."""
    from captious.io.images import find_images
    from captious.models.features import image_features
    from captious.models.loading import load

    encoded = image_features(load(encoder), find_images(images, corpus.ids))
    reasons = {corpus.ids[number]: why for number, why in encoded.faults.items()}
    return spread_vectors(encoded.rows, np.asarray(encoded.index)), reasons


def spread_vectors(rows: Floats32, index: Ints) -> Floats32:
    """Return rows by index, NaN for -1."""
    spread = np.full((len(index), rows.shape[1]), np.nan, dtype=np.float32)
    spread[index >= 0] = rows[index[index >= 0]]
    return spread


BLOCK = 2048
ORDERS = 4
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The nearest other images of each image, nearest first."""

    index: Ints
    """Row numbers; -1 if there are fewer neighbors."""
    similarity: Floats
    """Similarities, computed in single precision; 0 if there is no neighbor."""


def find_nearest_vectors(vectors: npt.NDArray[Any], count: int = 3, progress: Progress | None = None) -> Neighbors:
    """Find the ``count`` other rows with the highest cosine; rows with NaN or only 0 are excluded.

    >>> find_nearest_vectors(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.0, 0.0]]), count=1).index.ravel().tolist()
    [1, 0, 1, -1]
    """
    single = np.asarray(vectors, dtype=np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", single, single, dtype=np.float64))
    usable = np.flatnonzero(np.isfinite(norms) & (norms > 0))
    rows = (single[usable] / norms[usable, None]).astype(np.float32)
    nearest = _find_nearest(len(rows), lambda ours, theirs: rows[ours] @ rows[theirs].T, count, progress)
    index, similarity = np.full((len(vectors), count), -1, dtype=np.int64), np.zeros((len(vectors), count))
    index[usable] = np.where(nearest.index >= 0, np.append(usable, -1)[nearest.index], -1)
    similarity[usable] = nearest.similarity
    return Neighbors(index, similarity)


def find_nearest_captions(captions: CaptionSet, count: int = 3, progress: Progress | None = None) -> Neighbors:
    """Find the ``count`` most similar other images of each, by their references; those without common n-grams are
    excluded.

    >>> nearest = find_nearest_captions(CaptionSet.of(
    ...     {"1": "", "2": "", "3": ""}, {"1": ["a red dog"], "2": ["a red cat"], "3": ["some old boat"]}))
    >>> nearest.index[:, 0].tolist()
    [1, 0, -1]
    """
    bags = compute_ngram_weights(captions)
    blocks = {first: bags[first : first + BLOCK] for first in range(0, len(captions), BLOCK)}
    columns = {first: block.T.tocsr() for first, block in blocks.items()}

    def product(left: slice, right: slice) -> Floats32:
        cosines = (blocks[left.start] @ columns[right.start]).toarray().astype(np.float32)
        positive: Floats32 = np.where(cosines > 0, cosines, np.float32(-np.inf))
        return positive

    return _find_nearest(len(captions), product, count, progress)


def compute_ngram_weights(captions: CaptionSet) -> Any:
    """Return sparse rows of n-grams shared by at least two images; their dot products are the similarities."""
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


def _find_nearest(
    size: int, product: Callable[[slice, slice], Floats32], count: int, progress: Progress | None
) -> Neighbors:
    """Find the nearest rows from blocks of products; each product is used for both of its blocks."""
    best = np.full((size, count), -np.inf, dtype=np.float32)
    index = np.full((size, count), -1, dtype=np.int64)
    for first in range(0, size, BLOCK):
        left = slice(first, first + BLOCK)
        for second in range(first, size, BLOCK):
            right = slice(second, second + BLOCK)
            values = product(left, right)
            if first == second:
                np.fill_diagonal(values, -np.inf)
            else:
                _merge(best[right], index[right], values.T, first)
            _merge(best[left], index[left], values, second)
        if progress is not None:
            progress(min(first + BLOCK, size), size)
    return Neighbors(index, np.where(index >= 0, best, 0.0).astype(np.float64))


def _merge(best: Floats32, index: Ints, values: Floats32, first: int) -> None:
    """Merge a block of values into the running best, in place; ties are ordered by index.

    After the first block only values that reach a row's current worst are considered.
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
