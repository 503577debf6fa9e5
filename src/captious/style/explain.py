"""Why a caption has the OnlyStyle it has: every n-gram with what it adds, and every word with its share of that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from captious.measurement import Floats
from captious.style.cng import ORDERS, StyleModel
from captious.style.only import LITERAL, OnlyReading, all_scores, own_scores
from captious.style.placed import Placed


@dataclass(frozen=True)
class Contribution:
    """One n-gram of a caption: its score, what it adds to OnlyStyle, and in how many styles it occurs (0: unseen)."""

    ngram: str
    n: int
    score: float
    adds: float
    styles: int


@dataclass(frozen=True, eq=False)
class Why:
    """A caption under a style; the contributions add up to its OnlyStyle, and so do the words' parts."""

    caption: str
    style: str
    value: float
    contributions: tuple[Contribution, ...]
    words: tuple[tuple[str, float], ...]
    """Each word with its part: what an n-gram adds is split evenly over its places and its words."""


def explain(model: StyleModel, caption: str, style: str, reading: OnlyReading = LITERAL) -> Why:
    """Every n-gram of a caption, the weightiest first.

    >>> from captious.style.count import fit
    >>> why = explain(fit([("gloomy", "a grey day"), ("happy", "a fine day")]), "Fine day", "happy")
    >>> [(part.ngram, part.adds) for part in why.contributions], why.words
    ([('fine day', 0.125), ('fine', 0.0625), ('day', 0.0)], (('fine', 0.125), ('day', 0.0625)))
    """
    number = model.style_number(style)
    placed = Placed.of(model, [caption])
    value = float(own_scores(placed, np.array([number]), reading)[0])
    tokens, table = placed.table.words(0), placed.table
    parts, shares = [], np.zeros(len(tokens))
    sizes = [_size(placed, n, reading) for n in range(1, ORDERS + 1)]
    defined = sum(size > 0 for size in sizes) if reading.short == "skip" else ORDERS
    for rows, size in zip(placed.orders, sizes, strict=True):
        scores = model.scores_under(rows.n, rows.located, np.full(len(rows.located), number))
        styles = np.append(model.orders[rows.n - 1].occurrences, 0)[rows.located]
        places = [np.flatnonzero(rows.grams.at == gram) for gram in range(rows.grams.size)]
        for gram, at in enumerate(places):
            amount = len(at) if reading.grams == "multiset" else 1
            adds = float(scores[gram]) * amount / (size * defined) if size else 0.0
            words = " ".join(table.vocabulary[token] for token in table.tokens[at[0] : at[0] + rows.n])
            parts.append(Contribution(words, rows.n, float(scores[gram]), adds, int(styles[gram])))
            for start in at.tolist():
                shares[start : start + rows.n] += adds / len(at) / rows.n
    parts.sort(key=lambda part: -abs(part.adds))
    return Why(caption, style, value, tuple(parts), tuple(zip(tokens, shares.tolist(), strict=True)))


def ranking(model: StyleModel, caption: str, reading: OnlyReading = LITERAL) -> list[tuple[str, float]]:
    """All styles with the caption's OnlyStyle, the closest first."""
    scores: Floats = all_scores(Placed.of(model, [caption]), reading)[0]
    order = np.argsort(-scores, kind="stable").tolist()
    return [(model.styles[index], float(scores[index])) for index in order]


def unseen_words(why: Why) -> list[str]:
    """Words of the caption that no style has."""
    return [part.ngram for part in why.contributions if part.n == 1 and not part.styles]


def _size(placed: Placed, n: int, reading: OnlyReading) -> int:
    rows = placed.orders[n - 1]
    amount = rows.grams.count if reading.grams == "multiset" else np.ones(len(rows.grams.count), dtype=np.int64)
    counted = amount * (rows.located[rows.grams.gram] >= 0) if reading.unseen == "skip" else amount
    return int(counted.sum())
