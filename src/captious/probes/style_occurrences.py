"""Occurrences of a sentence in a styled corpus: the styles that have it as a whole caption or as part of one.

With the rank of a style by OnlyStyle, this is how the OnlyStyle paper explains disagreements with people: a sentence
that people find happy is also a caption of other styles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from captious._core.types import Bools
from captious.errors import InputError
from captious.metrics.style.fitting import build_sorted_table
from captious.metrics.style.onlystyle import ModelNgrams, score_all_styles
from captious.probes.style_check import TIE, StyledCaptions, StyledCorpus
from captious.render import Column, Document, Result, Table
from captious.render.answers import join_names
from captious.text.ngram_tables import TextTable


class StyleOccurrences(NamedTuple):
    """The number of a style's captions in which a sentence occurs, and its OnlyStyle there."""

    style: str
    whole: int
    """Captions that are the sentence."""
    part: int
    """Longer captions that contain it."""
    score: float
    rank: int
    """The rank of the style among all by OnlyStyle; equal scores share the better rank."""


@dataclass(frozen=True, eq=False, repr=False)
class SentenceOccurrences(Result):
    """The styles of a corpus in which a sentence occurs."""

    sentence: str
    styles: tuple[StyleOccurrences, ...]
    """All styles, the closest by OnlyStyle first."""
    named: str | None
    """The style that is asked about."""
    top: int
    signature: str
    blank: int = 0
    """Empty captions of the corpus."""

    def __repr__(self) -> str:
        return f"<SentenceOccurrences {self.sentence!r}: whole in {len(self.whole)}, part in {len(self.part)} styles>"

    @property
    def whole(self) -> list[str]:
        """The styles that have the sentence as a caption."""
        return [row.style for row in self.styles if row.whole]

    @property
    def part(self) -> list[str]:
        """The styles that have it as part of a longer caption."""
        return [row.style for row in self.styles if row.part]

    def document(self) -> Document:
        """Build a table of the styles that have the sentence, the closest ones and the named one."""
        shown = [
            row
            for number, row in enumerate(self.styles)
            if row.whole or row.part or number < self.top or row.style == self.named
        ]
        columns: list[Column | str] = [
            "style",
            Column("whole caption", decimals=0, key="whole"),
            Column("part of one", decimals=0, key="part"),
            Column("OnlyStyle", signed=True, key="score"),
            Column("rank", decimals=0),
        ]
        left = len(self.styles) - len(shown)
        note = f"{left} more styles do not have it; their scores are in the JSON." if left else ""
        return Document(
            f"Where “{self.sentence}” occurs",
            sections=[Table("styles", "", columns, shown, note)],
            warnings=[f"{self.blank:,} empty captions: no sentence occurs in them"] if self.blank else [],
            signatures=[self.signature],
            answer=self._answer(),
            data={
                "sentence": self.sentence,
                "whole": self.whole,
                "part": self.part,
                "style": self.named,
                "styles": {row.style: row._asdict() for row in self.styles},
            },
        )

    def _answer(self) -> str:
        number = len(self.styles)
        whole = f"It is a whole caption of {join_names(self.whole, 6)}" if self.whole else "It is a caption of no style"
        part = f"part of a longer one of {join_names(self.part, 6)}" if self.part else "part of a longer one of none"
        text = f"{whole}, and {part}."
        if self.named:
            row = next(row for row in self.styles if row.style == self.named)
            text += f" {self.named} is rank {row.rank} of {number} by OnlyStyle (top {row.rank / number:.0%})."
        return text


def find_sentence(corpus: StyledCorpus, sentence: str, style: str | None = None, top: int = 10) -> SentenceOccurrences:
    """Find the styles whose captions are a sentence or contain it, and rank all styles by OnlyStyle.

    Words are compared as in a style model: lower case, without punctuation. The ranks are those of a model that is
    fitted to the corpus.

    >>> texts = ("A fine day!", "what a fine day", "a day")
    >>> corpus = StyledCorpus("moods", ("happy", "happy", "calm"), texts, ("1", "2", "3"))
    >>> found = find_sentence(corpus, "a fine day", "happy")
    >>> found.whole, found.part, found.styles[0].rank
    (['happy'], ['happy'], 1)
    """
    captions = StyledCaptions.of(None, corpus)
    model, table = captions.model, captions.ngrams.table
    if style is not None:
        model.find_style(style, corpus.name)
    tested = ModelNgrams(model, build_sorted_table([sentence], model.tokenizer))
    words = tested.table.words(0)
    if not words:
        raise InputError(f"sentence {sentence!r} has no words, expected at least one")
    scores = score_all_styles(tested)[0]
    inside = _find_captions(table, words)
    is_whole = inside & (table.lengths == len(words))
    wholes, parts = (
        np.bincount(captions.style[chosen], minlength=len(model.styles)).tolist()
        for chosen in (is_whole, inside & ~is_whole)
    )
    ranks = [1 + int((scores > score + TIE).sum()) for score in scores]
    rows = [StyleOccurrences(*row) for row in zip(model.styles, wholes, parts, scores.tolist(), ranks, strict=True)]
    rows.sort(key=lambda row: row.rank)
    return SentenceOccurrences(sentence, tuple(rows), style, top, model.signature, corpus.count_blank())


def _find_captions(table: TextTable, words: Sequence[str]) -> Bools:
    """Find the captions that have the words one after the other, as a mask."""
    numbers = {word: number for number, word in enumerate(table.vocabulary)}
    has_words = np.zeros(len(table.lengths), dtype=np.bool_)
    if any(word not in numbers for word in words) or len(words) > len(table.tokens):
        return has_words
    # The tokens of all captions are one array: mark where the words start in it.
    starts = len(table.tokens) - len(words) + 1
    is_start = np.ones(starts, dtype=np.bool_)
    for position, word in enumerate(words):
        is_start &= table.tokens[position : position + starts] == numbers[word]
    # A match must end in the caption in which it starts.
    caption = np.repeat(np.arange(len(table.lengths)), table.lengths)
    first = np.flatnonzero(is_start)
    is_inside = caption[first] == caption[first + len(words) - 1]
    has_words[caption[first[is_inside]]] = True
    return has_words
