"""Which items' captions go on a page that cannot hold them all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

import numpy as np

from captious._typing import Floats

SEED = 0


def select(columns: Sequence[Floats], items: int, limit: int) -> list[int]:
    """Half the places to the worst, a quarter to the best, taking turns between columns, and the rest drawn.

    Columns hold one value per item, higher being better; NaN is neither good nor bad.

    >>> select([np.array([0.5, 0.1, np.nan, 0.9, 0.3, 0.7])], 6, 2)
    [1, 3]
    """
    if items <= limit:
        return list(range(items))
    worst = [np.argsort(column, kind="stable")[: np.count_nonzero(~np.isnan(column))] for column in columns]
    best = [order[::-1] for order in worst]
    drawn = [np.random.default_rng(SEED).permutation(items)]
    chosen: dict[int, None] = {}
    for orders, places in ((worst, limit // 2), (best, limit - limit // 4), (drawn, limit)):
        for index in chain.from_iterable(zip_longest(*(order.tolist() for order in orders))):
            if len(chosen) >= places:
                break
            if index is not None:
                chosen[index] = None
    return sorted(chosen)
