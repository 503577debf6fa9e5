"""The n-grams that make a style, and the scores of chosen words under chosen styles (the paper's Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from captious.style.cng import ORDERS, StyleModel
from captious.style.count import bare
from captious.text.tokenisers import tokeniser_named


class StyleWord(NamedTuple):
    """An n-gram with its score under a style, the style's captions that hold it, and the styles it occurs in."""

    ngram: str
    n: int
    score: float
    captions: int
    styles: int


def top_words(model: StyleModel, style: str, n: int, top: int = 30) -> list[StyleWord]:
    """The n-grams with the highest score under a style, of equal ones the more frequent first.

    >>> from captious.style.count import fit
    >>> model = fit([("gloomy", "a grey day"), ("happy", "a fine day"), ("happy", "fine and fine")])
    >>> [(word.ngram, round(word.score, 6), word.captions) for word in top_words(model, "happy", 1, 2)]
    [('fine', 0.5, 2), ('and', 0.375, 1)]
    """
    number, order, scores = model.style_number(style), model.orders[n - 1], model.scores[n - 1]
    entries = np.flatnonzero(order.style == number)
    gram = scores.gram[entries]
    value = scores.share[entries] - scores.base[gram]
    frequency = order.frequency[entries]
    # Scores that differ by rounding alone are equal, or the more frequent word would not come first.
    best = np.lexsort((gram, -frequency, -np.round(value, 12)))[:top]
    return [
        StyleWord(model.ngram(n, int(gram[i])), n, float(value[i]), int(frequency[i]), int(order.occurrences[gram[i]]))
        for i in best.tolist()
    ]


def score_table(model: StyleModel, ngrams: Sequence[str], styles: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """CNG of n-grams (keys) under styles (keys of the values); None where no style has the n-gram.

    >>> from captious.style.count import fit
    >>> score_table(fit([("gloomy", "a grey day"), ("happy", "a fine day")]), ["Fine!", "joy"], ["happy"])
    {'fine': {'happy': 0.5}, 'joy': {'happy': None}}
    """
    tool = tokeniser_named(bare(model.tokeniser))
    chosen = list(styles) or list(model.styles)
    for style in chosen:
        model.style_number(style)
    rows: dict[str, dict[str, float | None]] = {}
    for ngram in (" ".join(tool.tokenise(text)) or text for text in ngrams):
        known = model.number(ngram) >= 0
        rows[ngram] = {style: model.score(ngram, style) if known else None for style in chosen}
    return rows


def all_orders(model: StyleModel, style: str, top: int = 30) -> list[list[StyleWord]]:
    """The top n-grams of each order."""
    return [top_words(model, style, n, top) for n in range(1, ORDERS + 1)]
