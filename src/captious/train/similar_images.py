"""Which images of a corpus are alike, by their captions and by their pictures: where hard negatives come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._core.types import Floats32, Ints
from captious.captions import CaptionSet
from captious.edits.lexicon import CaptionCorpus
from captious.errors import InputError
from captious.models.features import read_features
from captious.options import current
from captious.train._neighbors import Neighbors, nearest_captions, nearest_vectors

NEAREST = 3
"""Images that count as alike."""


@dataclass(frozen=True, eq=False)
class SimilarImages:
    """The images most alike to each image of a corpus, by captions and, where there are vectors, by picture."""

    captions: Neighbors
    pictures: Neighbors | None = None

    @classmethod
    def of(
        cls, corpus: CaptionCorpus, features: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any] | None = None
    ) -> SimilarImages:
        """Search a corpus. Features are vectors by id, or rows in the order of ``corpus.ids`` (NaN: none)."""
        report = current().progress
        texts = {key: corpus.texts[corpus.offsets[i] : corpus.offsets[i + 1]] for i, key in enumerate(corpus.ids)}
        captions = CaptionSet.of(dict.fromkeys(corpus.ids, ()), texts)
        words = nearest_captions(captions, NEAREST, lambda done, total: report("captions alike", done, total))
        if features is None:
            return cls(words)
        rows = _feature_rows(corpus, features)
        return cls(words, nearest_vectors(rows, NEAREST, lambda done, total: report("pictures alike", done, total)))


def _feature_rows(
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


def image_vectors(
    corpus: CaptionCorpus,
    images: str | Path | None = None,
    encoder: str = "",
    image_features: str | Path | None = None,
) -> tuple[Floats32 | None, tuple[str, ...]]:
    """Vectors of the images in the order of ``corpus.ids``, from a file or by an encoder, and warnings.

    A row is NaN where there is no vector; without a source the vectors are None.
    """
    if image_features is not None and (images is not None or encoder):
        raise InputError("image_features=... as well as images=... or encoder=..., expected one source of vectors")
    if (images is None) != (not encoder):
        raise InputError("images=... and encoder=... find images that look alike together; expected both or neither")
    if image_features is not None:
        rows, reasons = _read_vectors(corpus, Path(image_features))
    elif images is not None:
        rows, reasons = _encoded(corpus, images, encoder)
    else:
        more = "images=... with encoder=..., or image_features=..., adds images that look alike"
        return None, (f"hard negatives by captions alone: {more}",)
    if not reasons:
        return rows, ()
    key, why = next(iter(reasons.items()))
    return rows, (f"{len(reasons)} images without a vector are alike by captions alone, such as {key} ({why})",)


def _read_vectors(corpus: CaptionCorpus, path: Path) -> tuple[Floats32, dict[str, str]]:
    """Vectors from a file of :mod:`captious.models.features`; NaN and a reason where there is none."""
    ids, rows = read_features(path)
    row_of = {key: number for number, key in enumerate(ids)}
    index = np.array([row_of.get(key, -1) for key in corpus.ids], dtype=np.int64)
    if (index < 0).all():
        raise InputError(f"{path}: contains no vector of any image of {corpus.name}, such as {corpus.ids[0]}")
    missing = [corpus.ids[number] for number in np.flatnonzero(index < 0)]
    return spread_vectors(rows, index), dict.fromkeys(missing, f"not in {path.name}")


def _encoded(corpus: CaptionCorpus, images: str | Path, encoder: str) -> tuple[Floats32, dict[str, str]]:
    """Vectors of image files by an encoder; NaN and a reason where a file cannot be used."""
    from captious.io.images import find_images
    from captious.models.features import image_features
    from captious.models.loading import load

    encoded = image_features(load(encoder), find_images(images, corpus.ids))
    reasons = {corpus.ids[number]: why for number, why in encoded.faults.items()}
    return spread_vectors(encoded.rows, np.asarray(encoded.index)), reasons


def spread_vectors(rows: Floats32, index: Ints) -> Floats32:
    """Rows by index, NaN where it is -1."""
    spread = np.full((len(index), rows.shape[1]), np.nan, dtype=np.float32)
    spread[index >= 0] = rows[index[index >= 0]]
    return spread
