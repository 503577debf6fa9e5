"""Vectors of a corpus' images, from a file or an encoder, in the order of the corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.errors import InputError
from captious.umic.corpus import Corpus

Rows = npt.NDArray[np.float32]


def read_vectors(corpus: Corpus, path: Path) -> tuple[Rows, dict[str, str]]:
    """Vectors from an .npz with ``ids``, ``features`` and perhaps ``scale``; NaN and a reason where there is none."""
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays: dict[str, npt.NDArray[Any]] = {name: held[name] for name in held.files}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError, EOFError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not an .npz file of arrays ({str(error)[:80]})") from None
    if not {"ids", "features"} <= arrays.keys():
        raise InputError(f"{path}: holds {', '.join(arrays) or 'nothing'}, expected the arrays ids and features")
    ids, features = arrays["ids"], arrays["features"]
    if features.ndim != 2 or len(ids) != len(features) or not np.issubdtype(features.dtype, np.number):
        raise InputError(
            f"{path}: ids of shape {ids.shape}, features of shape {features.shape} and type {features.dtype}, "
            "expected one row of numbers for each id"
        )
    rows = features.astype(np.float32)
    if "scale" in arrays:
        if arrays["scale"].shape not in ((), (rows.shape[1],)):
            raise InputError(f"{path}: scale of shape {arrays['scale'].shape}, expected one number for each dimension")
        rows = rows * arrays["scale"].astype(np.float32)
    place = {str(key): number for number, key in enumerate(ids.tolist())}
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
