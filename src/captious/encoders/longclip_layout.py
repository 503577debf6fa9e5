"""LongCLIP and SPECS: 248 text positions, made of CLIP's 77 by stretching all but the well-trained first 20."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.errors import InputError
from captious.extras import require

KEPT = 20
"""Positions that stay as they are: most captions CLIP saw were shorter."""
FACTOR = 4
RESIDUAL = "positional_embedding_res"


def stretch(table: npt.NDArray[np.floating[Any]], kept: int = KEPT, factor: int = FACTOR) -> npt.NDArray[np.float64]:
    """Positions stretched: the first ``kept`` copied, then three new ones between each and the next (``factor`` 4).

    After the last row the line through the last two goes on, so 77 rows become 4 · 77 − 3 · 20 = 248.

    >>> stretch(np.arange(77.0)[:, None])[[19, 20, 21, 24, 243, 244, 247], 0].tolist()
    [19.0, 20.0, 20.25, 21.0, 75.75, 76.0, 76.75]
    """
    old = np.asarray(table, np.float64)
    if old.ndim != 2 or len(old) < max(kept, 1) + 1:
        raise InputError(f"a positional table of shape {old.shape} cannot be stretched: expected over {kept} rows")
    steps = np.diff(old[kept:], axis=0, append=old[-1:] * 2 - old[-2:-1])
    parts = np.arange(factor)[None, :, None] / factor
    later = old[kept:, None, :] + parts * steps[:, None, :]
    return np.concatenate((old[:kept], later.reshape(-1, old.shape[1])))


def merged_positions(state: Mapping[str, Any], where: str) -> dict[str, Any]:
    """One positional table where a checkpoint has two: the frozen one for 20 positions, then the trained one."""
    merged = dict(state)
    trained = merged.pop(RESIDUAL, None)
    if trained is None:
        return merged
    frozen = merged.get("positional_embedding")
    if frozen is None or frozen.shape != trained.shape or len(frozen) <= KEPT:
        found = None if frozen is None else tuple(frozen.shape)
        raise InputError(
            f"{where}: positional_embedding is {found} and {RESIDUAL} {tuple(trained.shape)}, "
            "expected two tables of 248 rows"
        )
    merged["positional_embedding"] = require("torch", "clip").cat((frozen[:KEPT], trained[KEPT:]))
    return merged
