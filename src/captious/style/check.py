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
from captious.style.only import LITERAL, OnlyReading, all_scores
from captious.style.pairs import Pairs
from captious.style.placed import Placed, blocks
from captious.style.pooled import Pooled
from captious.style.reading import DEFAULT, Reading
from captious.text.tables import Ints

TIE = 1e-13
"""Scores closer than this are equal: rounding must not decide a tie, and a tie fails."""
BLOCK = 65_536


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

    model: StyleModel
    corpus: StyledCorpus
    tested: npt.NDArray[np.bool_]
    """Which captions are under test, in the order of styles; all of them serve as references."""

    @classmethod
    def of(cls, model: StyleModel, corpus: StyledCorpus, sample: int = 0, seed: int = 0) -> StyleCheck:
        """Check all captions, or a random sample of them."""
        found = set(corpus.styles)
        if len(found) < 2:
            raise InputError(f"{corpus.name}: holds one style ({found.pop()!r}), expected at least two to tell apart")
        for style in sorted(found):
            model.style_number(style, corpus.name)
        tested = np.ones(len(corpus.texts), dtype=np.bool_)
        if 0 < sample < len(tested):
            tested[:] = False
            tested[np.random.default_rng(seed).choice(len(tested), sample, replace=False)] = True
        return cls(model.contrasting(), corpus, tested)

    @cached_property
    def order(self) -> Ints:
        """Where each caption, in the order of styles, stands in the corpus."""
        return np.argsort(self._numbers, kind="stable")

    @cached_property
    def style(self) -> Ints:
        """The style of each caption, sorted."""
        return self._numbers[self.order]

    @cached_property
    def _numbers(self) -> Ints:
        number = {style: index for index, style in enumerate(self.model.styles)}
        return np.array([number[style] for style in self.corpus.styles], dtype=np.int64)

    @cached_property
    def placed(self) -> Placed:
        """All captions in the order of styles."""
        return Placed.of(self.model, [self.corpus.texts[index] for index in self.order.tolist()])

    @cached_property
    def copy_of(self) -> Ints:
        """The first row with the same id, style and text as each row."""
        rows = zip(self.corpus.ids, self.corpus.styles, self.corpus.texts, strict=True)
        listed, first = list(rows), dict[tuple[str, str, str], int]()
        found = np.array([first.setdefault(row, index) for index, row in enumerate(listed)], dtype=np.int64)
        return found[self.order]

    def retrieval(self, reading: OnlyReading = LITERAL, progress: Callable[[int], None] | None = None) -> Retrieval:
        """OnlyStyle of every caption under test under every style."""
        wins, ranks = [], []
        captions = np.flatnonzero(self.tested)
        whole = len(captions) == len(self.style) <= BLOCK
        for start, end in blocks(len(captions), BLOCK):
            part = captions[start:end]
            texts = [self.corpus.texts[index] for index in self.order[part].tolist()]
            scores = all_scores(self.placed if whole else Placed.of(self.model, texts), reading)
            if progress:
                progress(end)
            own = scores[np.arange(len(part)), self.style[part]][:, None]
            above = (scores < own - TIE).sum(axis=1)
            wins.append(above / (scores.shape[1] - 1))
            ranks.append(scores.shape[1] - above)
        return Retrieval(np.concatenate(wins), np.concatenate(ranks), len(self.model.styles))

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
