"""Explanations of styles: the highest-scoring n-grams, scores of chosen n-grams (the paper's Figure 2), and of a
caption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from captious._core.types import Floats
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
        note = "CNG is the contrastive score; captions: how many of the style's captions contain the n-gram."
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


# Weights that n-grams can have beside CNG.
Weighting = Literal["tfidf", "delta"]
WEIGHTINGS: Mapping[Weighting, str] = {"tfidf": "tf-idf", "delta": "Delta tf-idf"}


def weigh_ngram(model: StyleModel, ngram: str, weighting: Weighting) -> Floats:
    """Return the weight of an n-gram under every style, as other schemes than CNG have it; 0 if no style has it.

    A caption counts once however often it repeats the n-gram, for a model keeps numbers of captions. With f_p(t) the
    captions of style p that have t::

        tfidf   f_p(t) / Σ over t' of f_p(t')  ·  ln(|S| / occur(t)), the documents being the styles
        delta   log2((f_p(t) + ½) / |D_p|)  −  log2((Σ over q ≠ p of f_q(t) + ½) / Σ over q ≠ p of |D_q|)

    Delta tf-idf is that of Martineau and Finin (2009) with the sign changed: above 0 the n-gram speaks for the style.

    >>> from captious.metrics.style.fitting import fit
    >>> model = fit([("gloomy", "a grey day"), ("happy", "a fine day")])
    >>> weigh_ngram(model, "a", "tfidf").tolist(), weigh_ngram(model, "fine", "tfidf").round(3).tolist()
    ([0.0, 0.0], [0.0, 0.231])
    >>> weigh_ngram(model, "fine", "delta").round(3).tolist()  # log2 of 1.5 over 0.5
    [-1.585, 1.585]
    """
    number, order = model.number(ngram), model.orders[len(ngram.split()) - 1]
    frequency = np.zeros(len(model.styles))
    if number < 0:
        return frequency
    entries = slice(order.starts[number], order.starts[number + 1])
    frequency[order.style[entries]] = order.frequency[entries]
    if weighting == "tfidf":
        sizes = np.bincount(order.style, order.frequency, len(model.styles))
        tfidf: Floats = frequency / np.maximum(sizes, 1) * np.log(len(model.styles) / order.occurrences[number])
        return tfidf
    captions = model.captions
    others = np.log2((frequency.sum() - frequency + 0.5) / (captions.sum() - captions))
    delta: Floats = np.log2((frequency + 0.5) / captions) - others
    return delta


@dataclass(frozen=True, eq=False, repr=False)
class StyleTable(Result):
    """Scores of chosen n-grams under chosen styles."""

    model: StyleModel
    scores: Mapping[str, Mapping[str, float | None]]
    """Scores by n-gram and style; None if no style has the n-gram."""
    contrast: Mapping[Weighting, Mapping[str, Mapping[str, float | None]]] = field(default_factory=dict)
    """The same under other weights than CNG."""

    @classmethod
    def of(
        cls,
        model: StyleModel,
        ngrams: Sequence[str],
        styles: Sequence[str] = (),
        contrast: Sequence[Weighting] = (),
    ) -> StyleTable:
        """Compute the CNG of n-grams, tokenized as in the model, under some styles or all, and other weights.

        >>> from captious.metrics.style.fitting import fit
        >>> model = fit([("gloomy", "a grey day"), ("happy", "a fine day")])
        >>> StyleTable.of(model, ["Fine!", "joy"], ["happy"]).scores
        {'fine': {'happy': 0.5}, 'joy': {'happy': None}}
        """
        tokenizer = find_tokenizer(strip_version(model.tokenizer))
        chosen = list(styles) or list(model.styles)
        numbers = [model.find_style(style) for style in chosen]
        scores: dict[str, dict[str, float | None]] = {}
        weights: dict[Weighting, dict[str, dict[str, float | None]]] = {name: {} for name in contrast}
        for ngram in (" ".join(tokenizer.tokenize(text)) or text for text in ngrams):
            exists = model.number(ngram) >= 0
            scores[ngram] = {style: model.score(ngram, style) if exists else None for style in chosen}
            for name, by_ngram in weights.items():
                values = weigh_ngram(model, ngram, name)[numbers].tolist()
                by_ngram[ngram] = dict(zip(chosen, values if exists else [None] * len(chosen), strict=True))
        return cls(model, scores, weights)

    def __repr__(self) -> str:
        return f"<StyleTable of {', '.join(self.scores)}>"

    def document(self) -> Document:
        """Build a table of styles by n-grams, as in the paper's Figure 2, or with each weight as a column."""
        title = "CNG of n-grams (columns) under styles (rows)"
        unseen = [ngram for ngram, by_style in self.scores.items() if None in by_style.values()]
        note = f"unseen, no style has it: {', '.join(unseen)}" if unseen else ""
        styles = next(iter(self.scores.values()), {})
        columns: list[Column | str] = ["style", *(Column(ngram, signed=True) for ngram in self.scores)]
        rows: list[Sequence[Value]] = [
            (style, *(by_style[style] for by_style in self.scores.values())) for style in styles
        ]
        if self.contrast:
            title = "Weights of n-grams under styles"
            names = [WEIGHTINGS[name] for name in self.contrast]
            columns = ["n-gram", "style", *(Column(name, signed=True) for name in ("CNG", *names))]
            rows = [
                (ngram, style, score, *(weights[ngram][style] for weights in self.contrast.values()))
                for ngram, by_style in self.scores.items()
                for style, score in by_style.items()
            ]
        breaks = [index for index in range(1, len(rows)) if self.contrast and rows[index][0] != rows[index - 1][0]]
        contrast = {"contrast": self.contrast} if self.contrast else {}
        return Document(
            title,
            sections=[Table("scores", title, columns, rows, note, breaks)],
            signatures=[self.model.signature],
            data={"scores": self.scores, **contrast},
            answer=self._answer(),
        )

    def _answer(self) -> str:
        """Return the plain answer: where each n-gram is highest, and for which of them tf-idf is 0 everywhere."""
        parts = []
        for ngram, by_style in list(self.scores.items())[:4]:
            values = {style: score for style, score in by_style.items() if score is not None}
            if len(values) > 1:
                best, worst = max(values, key=values.__getitem__), min(values, key=values.__getitem__)
                shown = [f"{style} ({values[style]:+.3f})" for style in (best, worst)]
                differ = values[best] - values[worst] > TIE
                text = f"highest in {shown[0]}, lowest in {shown[1]}" if differ else "the same in all styles"
                parts.append(f"CNG of “{ngram}” is {text}")
        zero = [ngram for ngram, by_style in self.contrast.get("tfidf", {}).items() if not any(by_style.values())]
        zero = [ngram for ngram in zero if None not in self.scores[ngram].values()]
        if zero:
            names = join_names([f"“{ngram}”" for ngram in zero], 4)
            parts.append(f"tf-idf is 0 under every style for {names}")
        return "; ".join(parts) + "." if parts else ""


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
        """The item that is explained."""
        return self.why.id

    @property
    def tied(self) -> list[str]:
        """The closest styles where several tie; scores that differ only by rounding are equal."""
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
