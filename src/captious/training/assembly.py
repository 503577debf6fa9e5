"""From examples and an encoder to an objective and its validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from captious.errors import InputError
from captious.training.album import Album
from captious.training.data import Example
from captious.training.losses import Margin
from captious.training.objectives import Contrast, LongShort, Objective
from captious.training.settings import Settings
from captious.training.specs import Specificity
from captious.training.texts import Ints, TokenLists, tokenised
from captious.training.towers import Towers
from captious.training.triplets import Negatives, Source, chains
from captious.training.validation import Rates, Recall

Name = Literal["clip", "longclip", "specs"]
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Choices:
    """What only some objectives ask for; every default is the published code's, except the coin per unit."""

    weights: tuple[float, float, float] = (1.0, 8.0, 0.8)
    margin: str = "code"
    negatives: Source = "dataset"
    shuffle: float = 0.9
    shuffle_rows: bool = False
    contrast: str = "text-to-image"
    grammar: str = "code"
    components: int = 32
    smoothing: float = 0.1
    per_image: int = 1
    """Captions of an image that ``clip`` takes in one step."""
    soften: float = 0.0
    """Share of its target that follows how near captions are to each other."""
    image_features: str | None = None
    """A file with the features of a locked image tower."""
    scale: float | None = None
    """Logarithm of the factor on cosines to start with; None keeps the model's."""


def objective(
    name: Name,
    examples: Sequence[Example],
    encoder: Any,
    settings: Settings,
    choices: Choices,
    report: Report | None = None,
) -> tuple[Objective, list[str]]:
    """What to learn from the examples, and what a user should know."""
    notes: list[str] = []
    if name == "specs":
        return _specificity(examples, encoder, settings, choices, report)
    towers, images = _towers(examples, encoder, settings, report, notes, choices.image_features)
    made: Objective
    if name == "clip":
        captions, first = _captions(examples, encoder)
        made = Contrast(towers, captions, first, images, settings.seed, settings.gather)
        if choices.per_image > 1 or choices.soften:
            from captious.training.soft import SoftContrast

            made = SoftContrast(
                *(towers, captions, first, images, settings.seed, settings.gather),
                per_image=choices.per_image,
                soften=choices.soften,
            )
        return made, [*notes, *_cut(captions, encoder)]
    long = tokenised(encoder, [example.captions[0] for example in examples])
    short = tokenised(encoder, [first_sentence(example.captions[0]) for example in examples])
    made = LongShort(towers, long, short, images, settings.gather, choices.components, choices.smoothing)
    return made, [*notes, *_cut(long, encoder)]


def _specificity(
    examples: Sequence[Example], encoder: Any, settings: Settings, choices: Choices, report: Report | None
) -> tuple[Objective, list[str]]:
    if choices.contrast not in ("text-to-image", "both"):
        raise InputError(f"contrast {choices.contrast!r}, expected text-to-image or both")
    negatives = Negatives(choices.negatives, choices.shuffle, choices.shuffle_rows, settings.seed)
    whole = with_units(examples, choices.grammar)
    found, rows = chains(whole, _numbered(whole)[1], negatives, encoder)
    kept = [whole[row] for row in rows]
    notes = []
    if len(kept) < len(whole):
        notes.append(f"{len(whole) - len(kept)} of {len(whole)} captions have no two detail units that fit: left out")
    if choices.negatives != "given" and any(example.wrong_units for example in whole):
        notes.append("the data have wrong_units; --negatives given would use them")
    towers, images = _towers(kept, encoder, settings, report, notes, choices.image_features)
    full = tokenised(encoder, [example.captions[0] for example in kept])
    made = Specificity(
        towers,
        full,
        replace(found, images=images),
        choices.weights,
        Margin.named(choices.margin),
        choices.contrast == "both",
        settings.gather,
    )
    return made, [*notes, *_cut(full, encoder)]


def validation(
    name: Name, examples: Sequence[Example], encoder: Any, settings: Settings, choices: Choices
) -> Recall | Rates:
    """How to tell how good the model is: Specificity Rate for ``specs``, retrieval for the others."""
    if name != "specs":
        towers, images = _towers(examples, encoder, settings, None, [], choices.image_features)
        captions, first = _captions(examples, encoder, only_first=name == "longclip")
        return Recall(towers, captions, first, images)
    source: Source = "given" if choices.negatives == "given" else "dataset"
    whole = with_units(examples, choices.grammar)
    found, rows = chains(whole, _numbered(whole)[1], Negatives(source, shuffle=0, seed=settings.seed), encoder)
    towers, images = _towers([whole[row] for row in rows], encoder, settings, None, [], choices.image_features)
    return Rates(towers, replace(found, images=images))


def with_units(examples: Sequence[Example], grammar: str = "code") -> list[Example]:
    """The examples with detail units: their own, or those the segmentation finds in their long caption."""
    bare = [number for number, example in enumerate(examples) if not example.units]
    made = list(examples)
    if bare:
        from captious.text.units import units

        found = units([examples[number].captions[0] for number in bare], grammar=grammar)
        for number, parts in zip(bare, found, strict=True):
            made[number] = replace(examples[number], units=tuple(parts))
    return made


def first_sentence(caption: str) -> str:
    """The caption up to its first full stop and space, as LongCLIP cuts it.

    >>> first_sentence("A dog runs. It is brown.")
    'A dog runs'
    """
    return caption.split(". ", 1)[0]


def _numbered(examples: Sequence[Example]) -> tuple[list[Any], Ints]:
    """The distinct images, and which of them each example has."""
    numbers: dict[Any, int] = {}
    images = [numbers.setdefault(example.image, len(numbers)) for example in examples]
    return list(numbers), np.array(images, dtype=np.int64)


def _towers(
    examples: Sequence[Example],
    encoder: Any,
    settings: Settings,
    report: Report | None,
    notes: list[str],
    features: str | None = None,
) -> tuple[Towers, Ints]:
    paths, images = _numbered(examples)
    album = Album(paths, encoder, settings.workers, keep=False if features else None, report=report)
    towers = Towers(encoder, album, settings.lock, augment=settings.augment, seed=settings.seed)
    if features:
        from captious.training.known import learn_features

        notes.append(learn_features(towers, features))
    elif album.kept:
        notes.append(f"{len(album)} images kept in memory ({album.nbytes / 2**30:.2g} GiB)")
    else:
        notes.append(f"{len(album)} images do not fit into memory: each is opened when its turn comes")
    return towers, images


def _captions(examples: Sequence[Example], encoder: Any, only_first: bool = False) -> tuple[TokenLists, Ints]:
    lists = [example.captions[:1] if only_first else example.captions for example in examples]
    first = np.concatenate([[0], np.cumsum([len(texts) for texts in lists])]).astype(np.int64)
    return tokenised(encoder, [text for texts in lists for text in texts]), first


def _cut(texts: TokenLists, encoder: Any) -> list[str]:
    """A remark on texts that are longer than the encoder reads."""
    kept = np.diff(texts.offsets)
    cut = int((texts.lengths > kept).sum())
    return [f"{cut} of {len(texts)} captions are longer than {encoder.limit} tokens and are cut"] if cut else []
