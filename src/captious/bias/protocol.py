"""Every choice of an audit that is not the classifier's, in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from captious.bias.masking import Mask, Style
from captious.errors import InputError, nearest
from captious.options import LEVEL

PUBLISHED_SEEDS = (0, 12, 456, 789, 100, 200, 300, 400, 500, 1234)
"""Those of both papers' scripts; an audit of n seeds takes the first n of them, then 2000, 2001, …"""


@dataclass(frozen=True)
class Protocol:
    """How captions are masked, aligned and split; the defaults are what we would do, presets what was published."""

    mask: Mask
    vocabulary: str = "model"
    """Which words human captions keep: model, human, human:N, none, or a file with {model} in its name."""
    style: Style = "plain"
    """The tokenizer; ``treebank`` is the originals' pair of tokenizers, which also cuts <unk> into three words."""
    spaces: bool = False
    """Count the human vocabulary between spaces, as RELIC's appendix C did, whatever the tokenizer."""
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
            "vocabulary_counted": "between spaces" if self.spaces else "by the tokenizer",
            "tokenizer": self.style,
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


RELIC_FROZEN: Mapping[str, Any] = {"epochs": 5, "rate": 1e-5}
"""RELIC's scripts froze BERT without the README's 20 epochs at 5e-5."""


@dataclass(frozen=True)
class Preset:
    """A protocol, what it changes in the frozen BERT, and what one should know of it."""

    name: str
    protocol: Protocol
    quirks: tuple[str, ...]
    frozen: Mapping[str, Any] = field(default_factory=dict)


_QUIRKS = (
    "NLTK's tokens are masked and aligned, then cut again as by spaCy: <unk> becomes three ordinary words",
    "LIC_M and LIC_D are measured on different splits of the images",
    "one gender-masked vocabulary per model for every attribute: give its file with --vocabulary 'FOLDER/{model}.txt'",
)
_RACE = "race words are not masked: the scripts' switch for it was off"
_BERT = "the frozen BERT's head is trained for 5 epochs at 1e-5, not 20 at 5e-5"
_HUMAN = "human captions keep the n most common human words, counted between spaces: 'field.' and 'field' are two"


def _legacy(name: str, mask: str, quirks: tuple[str, ...], frozen: Mapping[str, Any], **changed: Any) -> Preset:
    protocol = Protocol(Mask.named(mask), style="treebank", paired=False, preset=name)
    return Preset(name, replace(protocol, **changed), quirks, frozen)


PRESETS = {
    preset.name: preset
    for preset in (
        _legacy("hirota-gender", "gender", _QUIRKS, {}),
        _legacy("hirota-race", "none", (*_QUIRKS, _RACE), {}),
        _legacy("relic-gender", "gender", (*_QUIRKS, _BERT), RELIC_FROZEN),
        _legacy("relic-race", "none", (*_QUIRKS, _RACE, _BERT), RELIC_FROZEN),
        _legacy("relic-age", "age", (*_QUIRKS, _BERT), RELIC_FROZEN),
        _legacy("relic-age-human", "age", (*_QUIRKS[:2], _HUMAN, _BERT), RELIC_FROZEN, vocabulary="human", spaces=True),
    )
}


def preset(name: str, attribute: str = "") -> Preset:
    """A preset by its name, or by a paper's name and the attribute.

    >>> preset("relic", "age").name, preset("hirota-race").protocol.mask.words
    ('relic-age', frozenset())
    """
    for known in (name, f"{name}-{attribute}"):
        if known in PRESETS:
            return PRESETS[known]
    raise InputError(f"no preset {name!r}, expected one of {', '.join(PRESETS)}{nearest(name, PRESETS)}")
