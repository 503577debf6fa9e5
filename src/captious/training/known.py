"""Features of a locked image tower that were computed before, so that training its head opens no image at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.encoders.given import read_given
from captious.errors import InputError
from captious.extras import require

TRIED = 4
NEAR = 0.8
"""Least mean cosine with what the tower itself makes of a few of the images; resized copies may differ."""


def read_features(path: str | Path) -> dict[str, npt.NDArray[np.float32]]:
    """Vectors of a file by the image's name without its ending."""
    return {Path(name).stem: row for name, row in zip(*read_given(path), strict=True)}


def learn_features(towers: Any, path: str | Path) -> str:
    """Give a locked image tower its features from a file; those that are missing are computed. A remark on how many."""
    torch = require("torch", "clip")
    if "image" not in towers.locked:
        raise InputError("--image-features are those of a locked image tower: add --lock image")
    given = read_features(path)
    paths: Sequence[Path] = towers.album.paths
    there = [row for row, image in enumerate(paths) if image.stem in given]
    if not there:
        raise InputError(f"{path}: has no features of the images, such as {paths[0].name}")
    table = np.stack([given[paths[row].stem] for row in there])
    tried = np.array(there[:: max(1, len(there) // TRIED)][:TRIED], dtype=np.int64)
    own = towers.below(tried).cpu().numpy()
    if own.ndim != 2 or own.shape[1] != table.shape[1]:
        raise InputError(f"{path}: {table.shape[1]} numbers an image, the image tower gives {own.shape[1]}")
    near = _cosine(own, np.stack([given[paths[row].stem] for row in tried]))
    if near < NEAR:
        raise InputError(f"{path}: features are not this tower's: mean cosine {near:.2f} on {len(tried)} images")
    towers.learn(there, torch.from_numpy(table))
    return f"{len(there)} of {len(paths)} images have features in {Path(path).name}: cosine {near:.3f}"


def _cosine(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> float:
    product = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    return float(product.mean())
