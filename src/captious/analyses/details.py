"""Captions that grow detail by detail, each step once with the right detail and once with a wrong one.

A row gives its units in one of these forms: ``units`` with ``wrong_units``; ``captions`` that grow with ``negatives``
(the layout of the SPECS repository, where they are called ``neg_captions``); a ``caption`` with ``negatives``, wrong
details; or only a ``caption``, which is cut into units. Wrong details that are not given come from other images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from captious.analyses.reading import image_of, paths_of, text_of, texts_of
from captious.captions import CaptionSet
from captious.defaults import SEED
from captious.encoders.encoder import Encoder
from captious.encoders.similarity import tokens_of
from captious.errors import InputError
from captious.readers.columns import (
    CAPTION_COLUMNS,
    CAPTION_LIST_COLUMNS,
    REFERENCE_COLUMNS,
    UNIT_COLUMNS,
    WRONG_UNIT_COLUMNS,
)
from captious.readers.gather import Columns, gather_references
from captious.readers.rows import Row, name_of, rows_of

NEGATIVES = ("negatives", "neg_captions")


@dataclass(frozen=True)
class Chain:
    """One caption as it grows: ``captions[k]`` has k + 1 units, ``negatives[k]`` is it with a wrong unit added."""

    image: str
    captions: tuple[str, ...]
    negatives: tuple[str, ...]
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class Details:
    """Chains of a file, where their images lie, and what had to be left out."""

    name: str
    chains: tuple[Chain, ...]
    paths: dict[str, str]
    dropped: dict[str, int]
    drawn: int = 0
    """Wrong units that come from other images."""
    made: tuple[str, ...] = ()
    """What moved the texts, for signatures: the grammar that cut them, the seed that drew, the limits they fit."""

    def captions(self) -> CaptionSet:
        """Every text of every chain as an item of its own: the growing captions of a chain, then its negatives."""
        texts = [(text, chain) for chain in self.chains for text in (*chain.captions, *chain.negatives)]
        return CaptionSet.of(
            {str(place): text for place, (text, _) in enumerate(texts)},
            {str(place): chain.references for place, (_, chain) in enumerate(texts)},
            {"image": [self.paths[chain.image] for _, chain in texts]},
            self.name,
        )

    def misplaced(self, seed: int = SEED) -> Details:
        """The same texts against another image: what a score still tells apart there, it reads off the words."""
        if len(self.paths) < 2:
            raise InputError(f"{self.name}: a control against wrong images needs at least 2 images, found 1")
        order = np.random.default_rng(seed).permutation(len(self.paths))
        keys, paths = list(self.paths), list(self.paths.values())
        # One cycle through all images, so that none keeps its own.
        moved = {keys[one]: paths[other] for one, other in zip(order, np.roll(order, 1), strict=True)}
        return replace(self, paths=moved)

    def within(self, encoder: Encoder, prefix: str = "") -> Details:
        """The chains as far as every text fits the encoder: what stands behind its limit could change no score."""
        kept = []
        sizes = iter(tokens_of(encoder, [prefix + text for text in self.captions().candidates.values]).tolist())
        for chain in self.chains:
            grown, wrong = list(islice(sizes, len(chain.captions))), list(islice(sizes, len(chain.negatives)))
            fits = [max(grown[step + 1], size) <= encoder.limit for step, size in enumerate(wrong)]
            steps = fits.index(False) if False in fits else len(fits)
            if steps:
                kept.append(replace(chain, captions=chain.captions[: steps + 1], negatives=chain.negatives[:steps]))
        lost = len(self.chains) - len(kept)
        reason = f"nothing fits the {encoder.limit} tokens of {encoder.name}"
        if not kept:
            raise InputError(f"{self.name}: {reason}")
        dropped = {**self.dropped, **({reason: lost} if lost else {})}
        made = (*self.made, f"fitting:{encoder.name}({encoder.limit})")
        return replace(self, chains=tuple(kept), dropped=dropped, made=made)


@dataclass
class _Draft:
    image: str
    references: tuple[str, ...]
    units: list[str]
    wrong: list[str] | None = None
    grown: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    whole: bool = False
    """``units`` is one text that is yet to be cut."""


def read_details(
    source: Any,
    images: str | Path | None = None,
    references: Any = None,
    *,
    seed: int = SEED,
    grammar: str = "code",
    legacy: bool = False,
) -> Details:
    """Chains from a file; ``seed`` draws wrong units from other images, ``grammar`` and ``legacy`` cut captions.

    ``references`` by image are for metrics that need them; they win over those of the rows.
    """
    drafts = [draft for row in rows_of(source) for draft in _drafts(row)]
    if references is not None:
        given = gather_references(rows_of(references), Columns()).references
        for draft in drafts:
            draft.references = tuple(given.get(draft.image) or given.get(Path(draft.image).stem) or ())
    name = name_of(source)
    if not drafts:
        raise InputError(f"{name}: holds no captions")
    made: tuple[str, ...] = (f"units:{grammar}{',legacy' * legacy}",) if any(draft.whole for draft in drafts) else ()
    _cut(drafts, grammar, legacy)
    dropped: Counter[str] = Counter()
    drawn = _draw(drafts, seed, dropped)
    chains = []
    for draft in drafts:
        captions, negatives = draft.grown or _grow(draft.units, draft.wrong or [])
        if not negatives:
            dropped["fewer than two detail units"] += draft.wrong is not None or draft.grown is not None
            continue
        chains.append(Chain(draft.image, captions, negatives, draft.references))
    if not chains:
        raise InputError(f"{name}: no caption has two detail units to compare")
    paths = paths_of([chain.image for chain in chains], images, name)
    made += (f"wrong:drawn(seed={seed})",) if drawn else ()
    return Details(name, tuple(chains), paths, dict(dropped), drawn, made)


def _drafts(row: Row) -> list[_Draft]:
    """What a row holds: one chain, or one for each of several captions."""
    image, references = image_of(row), tuple(texts_of(row, REFERENCE_COLUMNS) or ())
    units, wrong, negatives = texts_of(row, UNIT_COLUMNS), texts_of(row, WRONG_UNIT_COLUMNS), texts_of(row, NEGATIVES)
    if units is not None:
        if wrong is not None and len(wrong) not in (len(units), len(units) - 1):
            raise InputError(f"{row.where}: {len(units)} units and {len(wrong)} wrong units, expected as many")
        # The first unit has nothing before it to be wrong after; a list that leaves it out is one shorter.
        steps = None if wrong is None else wrong[len(wrong) - len(units) + 1 :]
        return [_Draft(image, references, units, steps)]
    several = texts_of(row, CAPTION_LIST_COLUMNS)
    if several is not None and negatives is not None:
        if len(negatives) not in (len(several), len(several) - 1):
            raise InputError(f"{row.where}: {len(several)} captions and {len(negatives)} negatives, expected one fewer")
        return [_Draft(image, references, [], grown=(tuple(several), tuple(negatives[: len(several) - 1])))]
    caption = text_of(row, (*CAPTION_COLUMNS, "description"))
    found = several if several is not None else [] if caption is None else [caption]
    if not found:
        raise InputError(f"{row.where}: has no units, no caption and no captions: found {', '.join(row.fields)}")
    return [_Draft(image, references, [one], negatives, whole=True) for one in found]


def _cut(drafts: Sequence[_Draft], grammar: str, legacy: bool) -> None:
    """Whole captions into units; given wrong details are taken in turn, the last one again where they run out."""
    whole = [draft for draft in drafts if draft.whole]
    if not whole:
        return
    from captious.text.units import units

    for draft, found in zip(
        whole, units([draft.units[0] for draft in whole], grammar=grammar, legacy=legacy), strict=True
    ):
        draft.units = found
        if draft.wrong:
            draft.wrong = [draft.wrong[min(step, len(draft.wrong) - 1)] for step in range(len(found) - 1)]


def _draw(drafts: Sequence[_Draft], seed: int, dropped: Counter[str]) -> int:
    """Wrong units where none are given: of a random caption of another image, the unit at the place of the base.

    This is the rule of the SPECS repository: the unit with the base's own number, the last one where there are fewer.
    """
    generator, drawn = np.random.default_rng(seed), 0
    pool = [draft for draft in drafts if draft.units]
    for draft in drafts:
        if draft.wrong is not None or draft.grown is not None:
            continue
        wrong = []
        for step in range(len(draft.units) - 1):
            other = _other(pool, draft.image, generator)
            if other is None:
                break
            wrong.append(other.units[min(step, len(other.units) - 1)])
        if len(wrong) < len(draft.units) - 1:
            dropped["no other image to draw a wrong detail from"] += 1
            continue
        drawn += len(wrong)
        draft.wrong = wrong
    return drawn


def _other(pool: Sequence[_Draft], image: str, generator: np.random.Generator) -> _Draft | None:
    for _ in range(100):
        found = pool[int(generator.integers(len(pool)))]
        if found.image != image:
            return found
    return next((one for one in pool if one.image != image), None)


def _grow(units: Sequence[str], wrong: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    captions = tuple(" ".join(units[: number + 1]) for number in range(len(units)))
    return captions, tuple(f"{base} {unit}" for base, unit in zip(captions, wrong, strict=False))
