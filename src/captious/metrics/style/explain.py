"""Explanations of styles: the highest-scoring n-grams, scores of chosen n-grams (the paper's Figure 2), and of a
caption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from captious.errors import InputError
from captious.metrics.explanation import Explanation
from captious.metrics.style.fitting import strip_version
from captious.metrics.style.model import ORDERS, StyleModel
from captious.metrics.style.onlystyle import (
    LITERAL,
    ModelNgrams,
    OnlyReading,
    break_down_style,
    score_all_styles,
    score_own_styles,
)
from captious.render import Chart, Column, Document, Result, Series, Table
from captious.render.answers import join_names
from captious.render.document import Value
from captious.text.tokenizers import find_tokenizer

# Scores closer than this are equal: rounding must not decide which style is closest.
TIE = 1e-13


class StyleWord(NamedTuple):
    """An n-gram with its score under a style, the style's captions with it, and the number of styles it occurs in."""

    ngram: str
    n: int
    score: float
    captions: int
    styles: int


def find_top_words(model: StyleModel, style: str, n: int, top: int = 30) -> list[StyleWord]:
    """Find the n-grams with the highest score under a style; ties are sorted by frequency.

    >>> from captious.metrics.style.fitting import fit
    >>> model = fit([("gloomy", "a grey day"), ("happy", "a fine day"), ("happy", "fine and fine")])
    >>> [(word.ngram, round(word.score, 6), word.captions) for word in find_top_words(model, "happy", 1, 2)]
    [('fine', 0.5, 2), ('and', 0.375, 1)]
    """
    number, order, scores = model.find_style(style), model.orders[n - 1], model.scores[n - 1]
    entries = np.flatnonzero(order.style == number)
    gram = scores.gram[entries]
    value = scores.share[entries] - scores.base[gram]
    frequency = order.frequency[entries]
    # Round first: scores that differ only by rounding are ties, and ties are sorted by frequency.
    best = np.lexsort((gram, -frequency, -np.round(value, 12)))[:top]
    return [
        StyleWord(model.ngram(n, int(gram[i])), n, float(value[i]), int(frequency[i]), int(order.occurrences[gram[i]]))
        for i in best.tolist()
    ]


@dataclass(frozen=True, eq=False, repr=False)
class StyleWords(Result):
    """The n-grams that are typical of each style."""

    model: StyleModel
    words: Mapping[str, Sequence[StyleWord]]

    @classmethod
    def of(cls, model: StyleModel, styles: Sequence[str] = (), top: int = 30, n: int | None = None) -> StyleWords:
        """Find the top n-grams of every order, or of one, for some styles or for all."""
        orders = range(1, ORDERS + 1) if n is None else (n,)
        chosen = styles or model.styles
        return cls(
            model, {style: [word for n in orders for word in find_top_words(model, style, n, top)] for style in chosen}
        )

    def __repr__(self) -> str:
        return f"<StyleWords of {', '.join(self.words)}>"

    def document(self) -> Document:
        """Build a table of all n-grams, and for the page a chart of each style's shortest ones."""
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
        charts = [_draw_chart(style, words) for style, words in self.words.items()]
        return Document(
            "N-grams with the highest contrastive score",
            sections=[Table("words", "", columns, rows, note, breaks), *charts],
            signatures=[self.model.signature],
            data={"styles": {style: [word._asdict() for word in words] for style, words in self.words.items()}},
            answer=" ".join(
                f"{style} is marked most by {join_names([f'“{word.ngram}”' for word in words[:3]])}."
                for style, words in list(self.words.items())[:4]
                if words
            ),
        )


def _draw_chart(style: str, words: Sequence[StyleWord]) -> Chart:
    shown = [word for word in words if word.n == words[0].n]
    names = [f"{word.ngram} · {word.score:.3f}" for word in shown]
    return Chart("bars", [Series("captions", names, [float(word.captions) for word in shown])], style, decimals=0)


@dataclass(frozen=True, eq=False, repr=False)
class StyleTable(Result):
    """Scores of chosen n-grams under chosen styles."""

    model: StyleModel
    scores: Mapping[str, Mapping[str, float | None]]
    """Scores by n-gram and style; None where no style has the n-gram."""

    @classmethod
    def of(cls, model: StyleModel, ngrams: Sequence[str], styles: Sequence[str] = ()) -> StyleTable:
        """Compute the CNG of n-grams, tokenized as in the model, under some styles or all.

        >>> from captious.metrics.style.fitting import fit
        >>> model = fit([("gloomy", "a grey day"), ("happy", "a fine day")])
        >>> StyleTable.of(model, ["Fine!", "joy"], ["happy"]).scores
        {'fine': {'happy': 0.5}, 'joy': {'happy': None}}
        """
        tokenizer = find_tokenizer(strip_version(model.tokenizer))
        chosen = list(styles) or list(model.styles)
        for style in chosen:
            model.find_style(style)
        scores: dict[str, dict[str, float | None]] = {}
        for ngram in (" ".join(tokenizer.tokenize(text)) or text for text in ngrams):
            exists = model.number(ngram) >= 0
            scores[ngram] = {style: model.score(ngram, style) if exists else None for style in chosen}
        return cls(model, scores)

    def __repr__(self) -> str:
        return f"<StyleTable of {', '.join(self.scores)}>"

    def document(self) -> Document:
        """Build a table of styles by n-grams, as in the paper's Figure 2."""
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


@dataclass(frozen=True, eq=False, repr=False)
class ClosestStyles(Result):
    """The styles closest to a caption, and the explanation of one of them."""

    model: StyleModel
    style: str
    """The one that is explained."""
    ranking: tuple[tuple[str, float], ...]
    """All styles with the caption's OnlyStyle, the closest first."""
    why: Explanation
    """The explanation of the OnlyStyle under that style."""
    top: int = 10
    """Styles and n-grams that the tables show."""

    @property
    def caption(self) -> str:
        """What is explained."""
        return self.why.id

    @property
    def tied(self) -> list[str]:
        """The closest styles where several tie; scores that differ by rounding alone are equal."""
        closest = [style for style, score in self.ranking if abs(score - self.ranking[0][1]) < TIE]
        return closest if len(closest) > 1 else []

    def __repr__(self) -> str:
        return f"<ClosestStyles {self.style} {self.why.value:+.4f}: {self.caption!r}>"

    def document(self) -> Document:
        """Build the tables of closest styles and of the n-grams that contribute most, and the colored caption."""
        notes = []
        if self.tied:
            names = ", ".join(self.tied[: self.top]) + (", …" if len(self.tied) > self.top else "")
            notes.append(f"no style is closest, for {len(self.tied)} tie: {names}; {self.style} is explained")
        styles: list[Column | str] = ["style", Column("OnlyStyle", signed=True)]
        return Document(
            self.caption if self.style in self.tied else f"{self.style}: {self.caption}",
            "Each word is colored by its part of the score: green speaks for the style, orange against it.",
            [Table("styles", "Closest styles", styles, self.ranking[: self.top]), *self.why.sections()],
            notes=notes,
            signatures=[self.model.signature],
            data={"caption": self.caption, "styles": dict(self.ranking), "style": self.style, "why": self.why.data()},
            answer=self._answer(),
        )

    def _answer(self) -> str:
        """Return the plain answer: the closest style, how far the next one is, and what speaks for it."""
        if self.tied:
            return f"No style is closest: {join_names(self.tied)} tie."
        (closest, score), *others = self.ranking
        text = f"The caption is closest to {closest} (OnlyStyle {score:+.4f})"
        if others:
            text += f"; the next is {others[0][0]} ({others[0][1]:+.4f})"
        parts = sorted(self.why.breakdown.parts, key=lambda part: -part.adds)
        words = join_names([f"“{part.name}”" for part in parts if part.adds > 0], 3)
        return f"{text}. {f'What speaks for {self.style}: {words}.' if words else f'Nothing speaks for {self.style}.'}"


def explain(
    model: StyleModel, caption: str, style: str | None = None, reading: OnlyReading = LITERAL, top: int = 10
) -> ClosestStyles:
    """Rank the styles by closeness to a caption, and list the contribution of every n-gram to OnlyStyle under one of
    them.

    Without a style, the one that the caption is closest to.

    >>> from captious.metrics.style.fitting import fit
    >>> closest = explain(fit([("gloomy", "a grey day"), ("happy", "a fine day")]), "Fine day")
    >>> closest.style, [(part.name, part.adds) for part in closest.why.parts]
    ('happy', [('fine day', 0.125), ('fine', 0.0625), ('day', 0.0)])
    """
    ngrams = ModelNgrams.of(model, [caption])
    if not ngrams.table.words(0):
        raise InputError(f"caption {caption!r} has no words, expected at least one")
    scores = score_all_styles(ngrams, reading)[0]
    ranking = [(model.styles[index], float(scores[index])) for index in np.argsort(-scores, kind="stable").tolist()]
    style = style or ranking[0][0]
    value = float(score_own_styles(ngrams, np.array([model.find_style(style)]), reading)[0])
    breakdown = break_down_style(model, caption, style, reading)
    label = f"why {style} ({value:+.4f})"
    texts = [text._replace(label=label) for text in breakdown.texts]
    why = Explanation("onlystyle", "OnlyStyle", caption, value, replace(breakdown, texts=texts, shown=top))
    return ClosestStyles(model, style, tuple(ranking), why, top)
