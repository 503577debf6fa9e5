"""What makes a style: its highest-scoring n-grams, scores of chosen ones (the paper's Figure 2), why a caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from captious.errors import InputError
from captious.metrics.style.model import ORDERS, StyleModel, bare
from captious.metrics.style.onlystyle import LITERAL, ModelNgrams, OnlyReading, all_scores, amounts, own_scores
from captious.render import Chart, Column, Document, Phrase, Result, Series, Span, Table, Text
from captious.render.cells import number
from captious.render.document import Value
from captious.text.tokenizers import tokenizer_named

TIE = 1e-13
"""Scores closer than this are equal: rounding must not decide which style is closest."""


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


@dataclass(frozen=True, eq=False, repr=False)
class StyleWords(Result):
    """The n-grams that make each style."""

    model: StyleModel
    words: Mapping[str, Sequence[StyleWord]]

    @classmethod
    def of(cls, model: StyleModel, styles: Sequence[str] = (), top: int = 30, n: int | None = None) -> StyleWords:
        """The top n-grams of every order, or of one, of some styles or of all."""
        orders = range(1, ORDERS + 1) if n is None else (n,)
        chosen = styles or model.styles
        return cls(
            model, {style: [word for n in orders for word in top_words(model, style, n, top)] for style in chosen}
        )

    def __repr__(self) -> str:
        return f"<StyleWords of {', '.join(self.words)}>"

    def document(self) -> Document:
        """A table of all, and on the page a chart of each style's shortest n-grams."""
        rows: list[Sequence[Value]] = [
            (style, word.n, word.ngram, word.score, word.captions)
            for style, words in self.words.items()
            for word in words
        ]
        columns: list[Column | str] = [
            "style",
            Column("n"),
            Column("n-gram", "text", key="ngram"),
            Column("CNG", key="score"),
            Column("captions", bar=True),
        ]
        breaks = [index for index in range(1, len(rows)) if rows[index][:2] != rows[index - 1][:2]]
        note = "CNG is the contrastive score; captions: how many of the style's captions hold the n-gram."
        charts = [_chart(style, words) for style, words in self.words.items()]
        return Document(
            "N-grams with the highest contrastive score",
            sections=[Table("words", "", columns, rows, note, breaks), *charts],
            signatures=[self.model.signature],
            data={"styles": {style: [word._asdict() for word in words] for style, words in self.words.items()}},
        )


def _chart(style: str, words: Sequence[StyleWord]) -> Chart:
    shown = [word for word in words if word.n == words[0].n]
    names = [f"{word.ngram} · {word.score:.3f}" for word in shown]
    return Chart("bars", [Series("captions", names, [float(word.captions) for word in shown])], style, decimals=0)


@dataclass(frozen=True, eq=False, repr=False)
class StyleTable(Result):
    """Scores of chosen n-grams under chosen styles."""

    model: StyleModel
    scores: Mapping[str, Mapping[str, float | None]]
    """By n-gram and style; None where no style has the n-gram."""

    @classmethod
    def of(cls, model: StyleModel, ngrams: Sequence[str], styles: Sequence[str] = ()) -> StyleTable:
        """CNG of n-grams, cut into words as the model does, under some styles or all.

        >>> from captious.metrics.style.model import fit
        >>> model = fit([("gloomy", "a grey day"), ("happy", "a fine day")])
        >>> StyleTable.of(model, ["Fine!", "joy"], ["happy"]).scores
        {'fine': {'happy': 0.5}, 'joy': {'happy': None}}
        """
        tokenizer = tokenizer_named(bare(model.tokenizer))
        chosen = list(styles) or list(model.styles)
        for style in chosen:
            model.style_number(style)
        scores: dict[str, dict[str, float | None]] = {}
        for ngram in (" ".join(tokenizer.tokenize(text)) or text for text in ngrams):
            exists = model.number(ngram) >= 0
            scores[ngram] = {style: model.score(ngram, style) if exists else None for style in chosen}
        return cls(model, scores)

    def __repr__(self) -> str:
        return f"<StyleTable of {', '.join(self.scores)}>"

    def document(self) -> Document:
        """Styles by n-grams, as in the paper's Figure 2."""
        styles = next(iter(self.scores.values()), {})
        columns: list[Column | str] = ["style", *(Column(ngram, signed=True) for ngram in self.scores)]
        rows = [(style, *(by_style[style] for by_style in self.scores.values())) for style in styles]
        title = "CNG of n-grams (columns) under styles (rows)"
        unseen = [ngram for ngram, by_style in self.scores.items() if None in by_style.values()]
        note = f"unseen, no style has it: {', '.join(unseen)}" if unseen else ""
        return Document(
            title,
            sections=[Table("scores", title, columns, rows, note)],
            signatures=[self.model.signature],
            data={"scores": self.scores},
        )


class Contribution(NamedTuple):
    """One n-gram of a caption: its score, what it adds to OnlyStyle, and in how many styles it occurs (0: unseen)."""

    ngram: str
    n: int
    score: float
    adds: float
    styles: int


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Result):
    """A caption under a style; the contributions add up to its OnlyStyle, and so do the words' parts."""

    model: StyleModel
    caption: str
    style: str
    value: float
    contributions: tuple[Contribution, ...]
    words: tuple[tuple[str, float], ...]
    """Each word with its part: what an n-gram adds is split evenly over its occurrences and its words."""
    ranking: tuple[tuple[str, float], ...]
    """All styles with the caption's OnlyStyle, the closest first."""
    top: int = 10
    """Styles and n-grams that the tables show."""

    @property
    def tied(self) -> list[str]:
        """The closest styles where several tie; scores that differ by rounding alone are equal."""
        closest = [style for style, score in self.ranking if abs(score - self.ranking[0][1]) < TIE]
        return closest if len(closest) > 1 else []

    @property
    def unseen(self) -> list[str]:
        """Words of the caption that no style has."""
        return [part.ngram for part in self.contributions if part.n == 1 and not part.styles]

    def __repr__(self) -> str:
        return f"<Explanation {self.style} {self.value:+.4f}: {self.caption!r}>"

    def document(self) -> Document:
        """Closest styles, the caption colored by what its words add, and the n-grams that add most."""
        most = max((abs(part) for _, part in self.words), default=0.0) or 1.0
        spans = [Span(f"{word} ", "good" if part >= 0 else "bad", abs(part) / most) for word, part in self.words]
        ngrams: list[Sequence[Value]] = [
            (part.ngram, part.adds, part.score, part.styles or "unseen") for part in self.contributions[: self.top]
        ]
        adds = Column("adds", signed=True, bar=True)
        columns: list[Column | str] = [
            Column("n-gram", "text", key="ngram"),
            adds,
            Column("CNG", signed=True, key="score"),
            Column("styles with it", key="styles"),
        ]
        notes = []
        if self.tied:
            names = ", ".join(self.tied[: self.top]) + (", …" if len(self.tied) > self.top else "")
            notes.append(f"no style is closest, for {len(self.tied)} tie: {names}; {self.style} is explained")
        if rest := self.contributions[self.top :]:
            notes.append(f"{len(rest)} more n-grams add {number(sum(part.adds for part in rest), adds)}")
        if self.unseen:
            notes.append(f"no style has: {', '.join(self.unseen)}; they score 0 and still count")
        return Document(
            self.caption if self.style in self.tied else f"{self.style}: {self.caption}",
            "Each word is colored by its part of the score: green speaks for the style, orange against it.",
            [
                Table(
                    "styles", "closest styles", ["style", Column("OnlyStyle", signed=True)], self.ranking[: self.top]
                ),
                Text([Phrase.of(f"why {self.style} ({self.value:+.4f}): ", *spans)]),
                Table("ngrams", "what each n-gram adds", columns, ngrams),
            ],
            notes=notes,
            signatures=[self.model.signature],
            data={
                "caption": self.caption,
                "styles": dict(self.ranking),
                "why": {
                    "style": self.style,
                    "value": self.value,
                    "words": self.words,
                    "ngrams": [part._asdict() for part in self.contributions],
                },
            },
        )


def explain(
    model: StyleModel, caption: str, style: str | None = None, reading: OnlyReading = LITERAL, top: int = 10
) -> Explanation:
    """Every n-gram of a caption with what it adds to OnlyStyle under a style, the weightiest first.

    Without a style, the one that the caption is closest to.

    >>> from captious.metrics.style.model import fit
    >>> why = explain(fit([("gloomy", "a grey day"), ("happy", "a fine day")]), "Fine day")
    >>> [(part.ngram, part.adds) for part in why.contributions], why.words
    ([('fine day', 0.125), ('fine', 0.0625), ('day', 0.0)], (('fine', 0.125), ('day', 0.0625)))
    """
    ngrams = ModelNgrams.of(model, [caption])
    table, tokens = ngrams.table, ngrams.table.words(0)
    if not tokens:
        raise InputError(f"caption {caption!r} has no words, expected at least one")
    scores = all_scores(ngrams, reading)[0]
    ranking = [(model.styles[index], float(scores[index])) for index in np.argsort(-scores, kind="stable").tolist()]
    style = style or ranking[0][0]
    number = model.style_number(style)
    parts, shares = [], np.zeros(len(tokens))
    sizes = [int(size[0]) for size in ngrams.sizes(amounts(ngrams, reading))]
    defined = sum(size > 0 for size in sizes) if reading.short == "skip" else ORDERS
    for rows, size in zip(ngrams.orders, sizes, strict=True):
        cng = model.scores_under(rows.n, rows.located, np.full(len(rows.located), number))
        styles = np.append(model.orders[rows.n - 1].occurrences, 0)[rows.located]
        for gram in range(rows.grams.size):
            starts = np.flatnonzero(rows.grams.at == gram)
            amount = len(starts) if reading.grams == "multiset" else 1
            adds = float(cng[gram]) * amount / (size * defined) if size else 0.0
            ngram = " ".join(table.vocabulary[token] for token in table.tokens[starts[0] : starts[0] + rows.n])
            parts.append(Contribution(ngram, rows.n, float(cng[gram]), adds, int(styles[gram])))
            for start in starts.tolist():
                shares[start : start + rows.n] += adds / len(starts) / rows.n
    parts.sort(key=lambda part: -abs(part.adds))
    value = float(own_scores(ngrams, np.array([number]), reading)[0])
    words = tuple(zip(tokens, shares.tolist(), strict=True))
    return Explanation(model, caption, style, value, tuple(parts), words, tuple(ranking), top)
