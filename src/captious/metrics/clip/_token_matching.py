"""Greedy matching of two sequences of unit vectors: each finds its nearest in the other, and the cosines are averaged.

Pairs of equal lengths are matched together, so that nothing is padded and a value does not depend on its batch::

    tokens (m × d)  ·  frames (k × d)   =   cosines (m × k)     P: mean of the m row maxima, with the tokens' weights
                                                                R: mean of the k column maxima
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._core.types import Bools, Floats, Ints

# Columns of a match.
PARTS = ("p", "r", "f", "coarse")
# Floats of the vectors that are copied at a time.
BLOCK = 1 << 23


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences of unit vectors, concatenated, with a weight for each vector and a vector for each whole sequence."""

    rows: npt.NDArray[Any]
    starts: Ints
    counts: Ints
    weights: Floats
    whole: npt.NDArray[Any]
    """One unit vector per sequence."""
    ids: Ints
    """Token id of each vector, or number of the frame in its video."""

    def keep(self, inside: Bools) -> Sequences:
        """Return the sequences without the vectors outside a mask of all vectors."""
        kept = np.concatenate(([0], np.cumsum(inside)))
        starts, counts = kept[self.starts], kept[self.starts + self.counts] - kept[self.starts]
        rows, weights, ids = self.rows[inside], self.weights[inside], self.ids[inside]
        return Sequences(rows, starts, counts, weights, self.whole, ids)


def find_padded(counts: Ints, batch: int) -> Bools:
    """Return True for each sequence that is shorter than the longest of its batch; with batch 0 nothing is padded.

    >>> find_padded(np.array([3, 5, 5, 2]), batch=2).tolist()
    [True, False, False, True]
    """
    if not batch or not len(counts):
        return np.zeros(len(counts), np.bool_)
    longest = np.maximum.reduceat(counts, np.arange(0, len(counts), batch))
    padded: Bools = counts < longest[np.arange(len(counts)) // batch]
    return padded


def match_pairs(
    left: Sequences, right: Sequences, pairs: tuple[Ints, Ints], batch: int = 0, positive: bool = True
) -> Floats:
    """Return P, R, F and the cosine of the wholes of each pair; NaN if all weights of a side are 0.

    ``pairs`` are indices of sequences of both sides. ``batch`` is that of the authors' code: sequences of a batch of
    pairs are padded by zeros, whose cosine is 0. ``positive`` takes F = 0 if P or R is not above 0.
    """
    result = np.full((len(pairs[0]), len(PARTS)), np.nan)
    counts = left.counts[pairs[0]], right.counts[pairs[1]]
    order = np.lexsort(counts)
    cuts = np.flatnonzero((np.diff(counts[0][order]) != 0) | (np.diff(counts[1][order]) != 0)) + 1
    # A vector that is matched against a padded side gets at least 0.
    floors = find_padded(counts[1], batch), find_padded(counts[0], batch)
    for group in np.split(order, cuts):
        m, k = (int(lengths[group[0]]) if len(group) else 0 for lengths in counts)
        step = max(1, BLOCK // ((m + k) * left.rows.shape[1] or 1))
        for first in range(0, len(group) if m and k else 0, step):
            block = group[first : first + step]
            # The indices of the vectors of each pair: pairs × m and pairs × k.
            left_at = left.starts[pairs[0][block], None] + np.arange(m)
            right_at = right.starts[pairs[1][block], None] + np.arange(k)
            cosines = left.rows[left_at] @ right.rows[right_at].transpose(0, 2, 1)
            result[block, 0] = _average_nearest(cosines.max(axis=2), left.weights[left_at], floors[0][block])
            result[block, 1] = _average_nearest(cosines.max(axis=1), right.weights[right_at], floors[1][block])
    result[:, 2] = compute_f(result[:, 0], result[:, 1], positive)
    result[:, 3] = np.einsum("ij,ij->i", left.whole[pairs[0]], right.whole[pairs[1]])
    return result


def _average_nearest(nearest: npt.NDArray[Any], weights: Floats, floor: Bools) -> Floats:
    """Return the weighted mean of each row, whose numbers are at least 0 in rows of the mask ``floor``."""
    nearest = np.where(floor[:, None], np.maximum(nearest, 0.0), nearest)
    total = weights.sum(axis=1)
    means: Floats = np.divide((nearest * weights).sum(axis=1), total, out=np.full(len(total), np.nan), where=total != 0)
    return means


def compute_f(p: Floats, r: Floats, positive: bool = True) -> Floats:
    """Return 2PR / (P + R); 0 with ``positive`` if either is not above 0, otherwise whatever the formula gives.

    >>> p, r = np.array([0.3]), np.array([-0.2])
    >>> compute_f(p, r).tolist(), compute_f(p, r, positive=False).round(6).tolist()
    ([0.0], [-1.2])
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        f: Floats = 2 * p * r / (p + r)
        return np.where((p <= 0) | (r <= 0), 0.0, f) if positive else f
