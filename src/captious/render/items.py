"""The items of a document as the page's explorer reads them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from captious._typing import Floats
from captious.render.document import Items
from captious.render.pictures import thumbnails

DECIMALS = 6
"""Of the values on the page; files hold them in full."""
FIELD = 200
"""Letters of a further column that are shown."""
SEED = 0


def explorer(items: Items) -> tuple[dict[str, Any], list[str]]:
    """Plain data for the scripts, and the thumbnails as data URIs: scores of all items, texts of those selected."""
    signs = [1 if metric.higher_is_better else -1 for metric in items.metrics]
    columns = [sign * column for system in items.values for sign, column in zip(signs, system, strict=True)]
    shown = select(columns, len(items.ids), items.limit)
    paths = [items.images[index] for index in shown] if items.images else [None] * len(shown)
    images, pictures = thumbnails(paths)
    data = {
        "ids": items.ids,
        "systems": [{"name": name} for name in items.systems],
        "metrics": [
            {"key": one.key, "label": one.label, "higher": one.higher_is_better, "range": one.range}
            for one in items.metrics
        ],
        "values": [[np.round(column, DECIMALS) for column in system] for system in items.values],
        "lengths": [[_words(texts[index]) for index in range(len(items.ids))] for texts in items.texts],
        "reasons": items.reasons or [[{} for _ in items.metrics] for _ in items.systems],
        "shown": shown,
        "candidates": [[texts[index] for index in shown] for texts in items.texts],
        "references": [items.references[index] if len(items.references) else () for index in shown],
        "fields": [
            {name: str(column[index])[:FIELD] for name, column in items.fields.items() if column[index] is not None}
            for index in shown
        ],
        "pictures": pictures,
        "unreadable": sum(bool(path) and number is None for path, number in zip(paths, pictures, strict=True)),
    }
    return data, images


def select(columns: Sequence[Floats], items: int, limit: int) -> list[int]:
    """Indices of the items on the page: half are the worst, a quarter the best, in turns by column; the rest are drawn.

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
    for orders, total in ((worst, limit // 2), (best, limit - limit // 4), (drawn, limit)):
        for index in chain.from_iterable(zip_longest(*(order.tolist() for order in orders))):
            if len(chosen) >= total:
                break
            if index is not None:
                chosen[index] = None
    return sorted(chosen)


def _words(texts: Sequence[str]) -> float | None:
    """Mean length of the texts in words."""
    return round(sum(len(text.split()) for text in texts) / len(texts), 2) if len(texts) else None
