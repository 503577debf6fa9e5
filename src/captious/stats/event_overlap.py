"""The temporal overlap of events of videos."""

from __future__ import annotations

import numpy as np

from captious._core.types import Floats

# Keeps two instants from dividing by 0. It counts: [0, 9] and [0, 10] overlap by .8999999991, which is not .9.
EPSILON = 1e-8


def compute_iou(starts: Floats, ends: Floats, other_starts: Floats, other_ends: Floats) -> Floats:
    """Compute the intersection over union of pairs of events, as densevid_eval does.

    Its denominator never exceeds the sum of both lengths, also of events that do not touch.

    >>> compute_iou(*(np.array([one]) for one in (0.0, 9.0, 0.0, 10.0))).round(10).tolist()
    [0.8999999991]
    """
    shared = np.maximum(0.0, np.minimum(ends, other_ends) - np.maximum(starts, other_starts))
    span = np.maximum(ends, other_ends) - np.minimum(starts, other_starts)
    result: Floats = shared / (np.minimum(span, (ends - starts) + (other_ends - other_starts)) + EPSILON)
    return result
