"""The paper's Table 1 on any styled corpus: does each caption score higher under its own style than under others?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from captious.errors import InputError
from captious.measurement import Floats
from captious.style.cng import StyleModel
from captious.style.corpus import StyledCorpus
from captious.style.cosine import Cosines
from captious.style.count import fingerprint_of, model_of, sorted_table
from captious.style.only import LITERAL, OnlyReading, columns, own_scores
from captious.style.pairs import Pairs
from captious.style.placed import Placed
from captious.style.pooled import Pooled
from captious.style.reading import DEFAULT, Reading
from captious.text.tables import Ints

TIE = 1e-13
"""Scores closer than this are equal: rounding must not decide a tie, and a tie fails."""


@dataclass(frozen=True, eq=False)
class Retrieval:
    """Equation 9 and the rank of the true style, caption by caption."""

    wins: Floats
    """Of each caption, the share of other styles under which it scores lower than under its own."""
    ranks: Ints
    """Of each caption, the rank of its own style among all; a tie counts against it."""
    styles: int

    @property
    def value(self) -> float:
        """Table 1's OnlyStyle column."""
        return float(self.wins.mean())

    def within(self, share: float) -> float:
        """How many captions have their own style among this share of the styles, at least one."""
        return float((self.ranks <= max(1, int(share * self.styles))).mean())


@dataclass(frozen=True, eq=False)
class StyleCheck:
    """A styled corpus, its captions in the order of styles, against a model."""

    corpus: StyledCorpus
    order: Ints
    """Where each caption stands in the corpus."""
    style: Ints
    placed: Placed
    tested: npt.NDArray[np.bool_]
    """Which captions are under test; all of them serve as references."""

    @classmethod
    def of(cls, model: StyleModel | None, corpus: StyledCorpus, sample: int = 0, seed: int = 0) -> StyleCheck:
        """Check all captions, or a random sample of them; without a model, under one fitted to the corpus itself."""
        found = sorted(set(corpus.styles))
        if len(found) < 2:
            raise InputError(f"{corpus.name}: holds one style ({found[0]!r}), expected at least two to tell apart")
        if model is not None:
            for style in found:
                model.style_number(style, corpus.name)
        numbers = {style: index for index, style in enumerate(found if model is None else model.styles)}
        styles = np.array([numbers[style] for style in corpus.styles], dtype=np.int64)
        order = np.argsort(styles, kind="stable")
        table = sorted_table([corpus.texts[i] for i in order.tolist()], model.tokeniser if model else "plain")
        if model is None:
            captions = list(zip(corpus.styles, corpus.texts, strict=True))
            model = model_of(table, styles[order], found, fingerprint_of(captions), corpus.name)
        tested = np.ones(len(order), dtype=np.bool_)
        if 0 < sample < len(order):
            tested[:] = False
            tested[np.random.default_rng(seed).choice(len(order), sample, replace=False)] = True
        return cls(corpus, order, styles[order], Placed(model.contrasting(), table), tested)

    @cached_property
    def copy_of(self) -> Ints:
        """The first row with the same id, style and text as each row."""
        first: dict[tuple[str, str, str], int] = {}
        rows = zip(self.corpus.ids, self.corpus.styles, self.corpus.texts, strict=True)
        found = np.array([first.setdefault(row, index) for index, row in enumerate(rows)], dtype=np.int64)
        return found[self.order]

    def retrieval(self, reading: OnlyReading = LITERAL, progress: Callable[[int], None] | None = None) -> Retrieval:
        """OnlyStyle of every caption under test under every style."""
        style, placed, model = self.style[self.tested], self.placed, self.placed.model
        if not self.tested.all():
            texts = [self.corpus.texts[index] for index in self.order[self.tested].tolist()]
            placed = Placed.of(model, texts)
        own = own_scores(placed, style, reading)
        below = np.zeros(len(own), dtype=np.int64)
        for number, column in enumerate(columns(placed, reading), start=1):
            below += column < own - TIE
            if progress:
                progress(number)
        return Retrieval(below / (len(model.styles) - 1), len(model.styles) - below, len(model.styles))

    def stylecider(
        self, reading: Reading = DEFAULT, seed: int = 0, progress: Callable[[int], None] | None = None
    ) -> Floats:
        """Equation 10 for every caption under test: the share of other styles whose captions it resembles less.

        NaN where a caption's style holds no caption but itself.
        """
        copies = np.bincount(self.copy_of, minlength=len(self.style))[self.copy_of]
        given = (self.placed, self.style, copies, reading.checked())
        if not reading.is_linear:
            cosines: Cosines = Pairs(*given, copy_of=self.copy_of, seed=seed)
        else:
            cosines = (Pooled if reading.references == "pooled" else Cosines)(*given)
        wins = np.full(len(self.style), np.nan)
        done = 0
        for captions, scores in cosines.scores(self.tested):
            own = scores[np.arange(len(captions)), self.style[captions]]
            others = np.isfinite(scores).sum(axis=1) - 1
            below = (scores < own[:, None] - TIE).sum(axis=1)
            wins[captions] = np.where(np.isnan(own), np.nan, below / np.maximum(others, 1))
            done += len(captions)
            if progress:
                progress(done)
        return wins[self.tested]
