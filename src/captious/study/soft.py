"""Soft pairwise accuracy: is the metric as sure as people are that one system beats another?"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from captious._typing import Floats, Ints
from captious.errors import InputError
from captious.options import SEED


def soft_pairwise_accuracy(
    values: Floats, human: Floats, cluster: Ints, system: Ints, permutations: int = 1000, seed: int = SEED
) -> float:
    """1 − mean |p_human − p_metric| over pairs of systems (Thompson et al. 2024).

    p is that of a one-sided sign-flip test: over the images both systems captioned, the share of random flips of the
    differences whose sum is at least the observed one. People and metric share the flips.

    >>> rng = np.random.default_rng(0)
    >>> x, group, system = rng.normal(size=60), np.repeat(np.arange(20), 3), np.tile(np.arange(3), 20)
    >>> soft_pairwise_accuracy(x, x, group, system)
    1.0
    """
    number, images = int(system.max()) + 1, int(cluster.max()) + 1
    if number < 2:
        raise InputError("soft pairwise accuracy needs at least two systems")
    key = system * images + cluster
    counts = np.bincount(key, minlength=number * images).reshape(number, images)
    with np.errstate(invalid="ignore", divide="ignore"):
        tables = [
            np.bincount(key, part, minlength=number * images).reshape(number, images) / counts
            for part in (human, values)
        ]
    generator = np.random.default_rng(seed)
    gaps = []
    for one, other in combinations(range(number), 2):
        both = (counts[one] > 0) & (counts[other] > 0)
        if not both.any():
            raise InputError(f"systems {one + 1} and {other + 1} captioned no image in common")
        signs = generator.integers(0, 2, size=(permutations, int(both.sum()))) * 2.0 - 1.0
        p = []
        for table in tables:
            gap = (table[one] - table[other])[both]
            p.append(float((signs @ gap >= gap.sum() - 1e-9).mean()))
        gaps.append(abs(p[0] - p[1]))
    return 1.0 - float(np.mean(gaps))
