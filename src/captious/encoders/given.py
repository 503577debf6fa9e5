"""Vectors of images that were computed elsewhere: an ``.npz`` file with ``ids`` and ``features``, perhaps ``scale``."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from captious.encoders.encoder import Features
from captious.errors import InputError


def read_given(path: str | Path) -> tuple[list[str], Features]:
    """The ids, and for each its row of numbers, times ``scale`` where the file has one."""
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays: dict[str, npt.NDArray[Any]] = {name: held[name] for name in held.files}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError, EOFError, TypeError, AttributeError, BadZipFile) as error:
        raise InputError(
            f"{path}: expected an .npz file with ids and features, but it is not an .npz file ({str(error)[:80]})"
        ) from None
    if not {"ids", "features"} <= arrays.keys():
        raise InputError(f"{path}: holds {', '.join(arrays) or 'nothing'}, expected the arrays ids and features")
    ids, features = arrays["ids"], arrays["features"]
    if features.ndim != 2 or ids.shape != features.shape[:1] or not np.issubdtype(features.dtype, np.number):
        raise InputError(
            f"{path}: {ids.size} ids for features of shape {features.shape} and type {features.dtype}, "
            "expected one row of numbers for each id"
        )
    rows = features.astype(np.float32)
    if "scale" in arrays:
        if arrays["scale"].shape not in ((), (rows.shape[1],)):
            raise InputError(f"{path}: scale of shape {arrays['scale'].shape}, expected one number for each dimension")
        rows = rows * arrays["scale"].astype(np.float32)
    return [str(key) for key in ids.tolist()], rows
