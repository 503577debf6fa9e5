"""The n-grams that make a style, and the scores of chosen words under chosen styles (the paper's Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from captious._typing import Floats
from captious.metrics.style.model import ORDERS, StyleModel, bare
from captious.metrics.style.onlystyle import LITERAL, OnlyReading, Placed, all_scores, own_scores
from captious.text.tokenizers import tokenizer_named


class StyleWord(NamedTuple):
    """An n-gram with its score under a style, the style's captions that hold it, and the styles it occurs in."""

    ngram: str
    n: int
    score: float
    captions: int
    styles: int


def top_words(model: StyleModel, style: str, n: int, top: int = 30) -> list[StyleWord]:
    """The n-grams with the highest score under a style, of equal ones the more frequent first.

    >>> from captious.metrics.style.model import fit
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

    >>> from captious.metrics.style.model import fit
    >>> score_table(fit([("gloomy", "a grey day"), ("happy", "a fine day")]), ["Fine!", "joy"], ["happy"])
    {'fine': {'happy': 0.5}, 'joy': {'happy': None}}
    """
    tool = tokenizer_named(bare(model.tokenizer))
    chosen = list(styles) or list(model.styles)
    for style in chosen:
        model.style_number(style)
    rows: dict[str, dict[str, float | None]] = {}
    for ngram in (" ".join(tool.tokenize(text)) or text for text in ngrams):
        known = model.number(ngram) >= 0
        rows[ngram] = {style: model.score(ngram, style) if known else None for style in chosen}
    return rows


def all_orders(model: StyleModel, style: str, top: int = 30) -> list[list[StyleWord]]:
    """The top n-grams of each order."""
    return [top_words(model, style, n, top) for n in range(1, ORDERS + 1)]


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

    >>> from captious.metrics.style.model import fit
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
