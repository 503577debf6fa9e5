"""Protocols: all choices of an audit except the classifier's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from captious.bias.masks import LISTS, Mask, Style
from captious.errors import InputError, format_suggestion
from captious.options import Resampling

# The seeds in both papers' scripts; an audit of n seeds uses the first n of them, then 2000, 2001, …
PUBLISHED_SEEDS = (0, 12, 456, 789, 100, 200, 300, 400, 500, 1234)


@dataclass(frozen=True)
class Protocol:
    """How captions are masked, aligned and split. The defaults are our recommendation; presets follow a paper."""

    mask: Mask
    vocabulary: str = "model"
    """Which words human captions keep; the others become <unk>: model, human, human:N, none, or a file of words."""
    style: Style = "plain"
    """The tokenizer that splits captions.

    ``treebank`` is what the papers' scripts do: NLTK's tokenizer, then spaCy's, which cuts <unk> into three words.
    """
    spaces: bool = False
    """Whether the words of a human vocabulary are split at spaces, as in RELIC's appendix C, not by the tokenizer."""
    paired: bool = True
    """Whether model and human captions share one split per seed; the papers' scripts draw two."""
    seeds: tuple[int, ...] = PUBLISHED_SEEDS
    ddof: int = 0
    """Delta degrees of freedom of the standard deviation over seeds; 1 gives that of a sample."""
    level: float = Resampling.level
    preset: str = "none"
    quirks: tuple[str, ...] = ()
    """Sentences about peculiarities of a preset that affect its numbers."""
    frozen: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the frozen BERT classifier that a preset changes."""
    warnings: tuple[str, ...] = ()

    def settings(self) -> Mapping[str, Any]:
        """Return the settings for reports and files, with all masked words."""
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


def protocol_for(
    label: str,
    *,
    mask: str | None = None,
    vocabulary: str | None = None,
    preset: str | None = None,
    seeds: int = len(PUBLISHED_SEEDS),
    level: float = Resampling.level,
) -> Protocol:
    """Return the protocol of an audit: a preset or the default one, with the given choices.

    Parameters
    ----------
    label
        The column with the attribute, such as ``gender``.
    mask
        The words to hide: ``gender``, ``race``, ``age``, or a file with one word per line.
    vocabulary
        Which words human captions keep: those of the ``model``, the most common ``human`` ones, or a file of words. In
        its path ``{model}`` is replaced by the name of the captioner.
    preset
        A published protocol, such as ``relic-age``.
    seeds
        Number of random seeds: the first of the published ones, then 2000, 2001, …
    level
        Confidence level of the intervals.
    """
    warnings: tuple[str, ...] = ()
    if preset is not None:
        protocol = find_preset(preset, mask or label)
        if vocabulary is None and protocol.vocabulary == "model":
            warnings = (
                f"preset {protocol.preset}: the vocabularies are made from this run's captions; for the published ones "
                "pass vocabulary='FOLDER/{model}.txt'",
            )
    else:
        protocol = Protocol(Mask.from_name(label if label in LISTS else "none"))
        if mask is None and label not in LISTS:
            warnings = (
                f"no mask: words that name the {label} outright are not hidden, and classifiers will learn them",
            )
    return replace(
        protocol,
        mask=Mask.from_name(mask) if mask else protocol.mask,
        vocabulary=vocabulary or protocol.vocabulary,
        seeds=get_published_seeds(seeds),
        level=level,
        warnings=warnings,
    )


def get_published_seeds(number: int) -> tuple[int, ...]:
    """Return the first ``number`` published seeds, followed by 2000, 2001, … if more are needed.

    >>> get_published_seeds(3), get_published_seeds(12)[-3:]
    ((0, 12, 456), (1234, 2000, 2001))
    """
    more = range(2000, 2000 + max(0, number - len(PUBLISHED_SEEDS)))
    return (*PUBLISHED_SEEDS[:number], *more)


# The quirks of presets, as reports print them.
_TOKENS = "NLTK's tokens are masked and aligned, then cut again as by spaCy: <unk> becomes three ordinary words"
_SPLITS = "LIC_M and LIC_D are measured on different splits of the images"
_VOCABULARY = (
    "one gender-masked vocabulary per model for every attribute: pass its file as vocabulary='FOLDER/{model}.txt'"
)
_RACE = "race words are not masked: the scripts' switch for it was off"
_BERT = "the frozen BERT's head is trained for 5 epochs at 1e-5, not 20 at 5e-5"
_HUMAN = "human captions keep the n most common human words, counted between spaces: 'field.' and 'field' are two"
# What RELIC's scripts did. Our default is that of the README: 20 epochs at 5e-5.
_FROZEN = {"epochs": 5, "rate": 1e-5}


def _make_preset(name: str, mask: str, *quirks: str, **changed: Any) -> Protocol:
    """Make a preset: the settings that all published protocols share, with the quirks and settings of this one."""
    frozen = _FROZEN if name.startswith("relic") else {}
    quirks = (_TOKENS, _SPLITS, *quirks, *([_BERT] if frozen else []))
    return Protocol(
        Mask.from_name(mask), style="treebank", paired=False, preset=name, quirks=quirks, frozen=frozen, **changed
    )


PRESETS = {
    protocol.preset: protocol
    for protocol in (
        _make_preset("hirota-gender", "gender", _VOCABULARY),
        _make_preset("hirota-race", "none", _VOCABULARY, _RACE),
        _make_preset("relic-gender", "gender", _VOCABULARY),
        _make_preset("relic-race", "none", _VOCABULARY, _RACE),
        _make_preset("relic-age", "age", _VOCABULARY),
        _make_preset("relic-age-human", "age", _HUMAN, vocabulary="human", spaces=True),
    )
}


def find_preset(name: str, attribute: str = "") -> Protocol:
    """Return a preset by its name, or by a paper's name and the attribute; raise InputError if there is none.

    >>> find_preset("relic", "age").preset, find_preset("hirota-race").mask.words
    ('relic-age', frozenset())
    """
    for preset in (name, f"{name}-{attribute}"):
        if preset in PRESETS:
            return PRESETS[preset]
    raise InputError(f"no preset {name!r}, expected one of {', '.join(PRESETS)}{format_suggestion(name, PRESETS)}")
