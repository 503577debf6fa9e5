"""Vectors of a corpus' images, from a file or an encoder, in the order of the corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from captious.encoders.given import read_given
from captious.errors import InputError
from captious.umic.corpus import Corpus

Rows = npt.NDArray[np.float32]


def read_vectors(corpus: Corpus, path: Path) -> tuple[Rows, dict[str, str]]:
    """Vectors from a file of :mod:`captious.encoders.given`; NaN and a reason where there is none."""
    ids, rows = read_given(path)
    place = {key: number for number, key in enumerate(ids)}
    index = np.array([place.get(key, -1) for key in corpus.ids], dtype=np.int64)
    if (index < 0).all():
        raise InputError(f"{path}: holds no vector of any image of {corpus.name}, such as {corpus.ids[0]}")
    found = np.full((len(corpus.ids), rows.shape[1]), np.nan, dtype=np.float32)
    found[index >= 0] = rows[index[index >= 0]]
    return found, {
        key: f"not in {path.name}" for key, number in zip(corpus.ids, index.tolist(), strict=True) if number < 0
    }


def encoded(corpus: Corpus, images: Path, encoder: str) -> tuple[Rows, dict[str, str]]:
    """Vectors of image files by an encoder; NaN and why where a file cannot be used."""
    from captious.captions import CaptionSet
    from captious.encoders.features import image_features
    from captious.encoders.loading import load
    from captious.readers.images import with_images

    paths = with_images(CaptionSet.of(dict.fromkeys(corpus.ids, ()), name=corpus.name), images).columns["image"]
    found = image_features(load(encoder), paths)
    index = np.asarray(found.index)
    rows = np.full((len(corpus.ids), found.rows.shape[1]), np.nan, dtype=np.float32)
    rows[index >= 0] = found.rows[index[index >= 0]]
    return rows, {corpus.ids[number]: why for number, why in found.faults.items()}
