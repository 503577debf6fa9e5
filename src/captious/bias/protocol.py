"""Every choice of an audit that is not the classifier's, in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from captious.bias.masking import Style
from captious.bias.words import Mask
from captious.defaults import LEVEL

PUBLISHED_SEEDS = (0, 12, 456, 789, 100, 200, 300, 400, 500, 1234)
"""Those of both papers' scripts; an audit of n seeds takes the first n of them, then 2000, 2001, …"""


@dataclass(frozen=True)
class Protocol:
    """How captions are masked, aligned and split; the defaults are what we would do, presets what was published."""

    mask: Mask
    vocabulary: str = "model"
    """Which words human captions keep: model, human, human:N, none, or a file with {model} in its name."""
    style: Style = "plain"
    """The tokeniser; ``treebank`` is the originals' pair of tokenisers, which also cuts <unk> into three words."""
    spaces: bool = False
    """Count the human vocabulary between spaces, as RELIC's appendix C did, whatever the tokeniser."""
    paired: bool = True
    """One split per seed for model and people; the originals draw two."""
    seeds: tuple[int, ...] = PUBLISHED_SEEDS
    ddof: int = 0
    level: float = LEVEL
    preset: str = "none"

    def settings(self) -> Mapping[str, Any]:
        """For people and programs; the mask in full."""
        return {
            "preset": self.preset,
            "mask": self.mask.name,
            "masked_words": sorted(self.mask.words),
            "vocabulary": self.vocabulary,
            "vocabulary_counted": "between spaces" if self.spaces else "by the tokeniser",
            "tokeniser": self.style,
            "splits": "one per seed" if self.paired else "one for model, one for people per seed",
            "seeds": list(self.seeds),
            "sd_ddof": self.ddof,
            "level": self.level,
        }


def seeds(number: int) -> tuple[int, ...]:
    """The first so many seeds.

    >>> seeds(3), seeds(12)[-3:]
    ((0, 12, 456), (1234, 2000, 2001))
    """
    more = range(2000, 2000 + max(0, number - len(PUBLISHED_SEEDS)))
    return (*PUBLISHED_SEEDS[:number], *more)
