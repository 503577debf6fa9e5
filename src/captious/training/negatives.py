"""Examples to captions with negatives: images numbered, texts numbered, each distinct text once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.errors import InputError
from captious.training.data import Example
from captious.training.ranking import Table
from captious.umic import Alike, Corpus, Lexicon, negatives
from captious.umic.negatives import KINDS, Negatives


@dataclass(frozen=True, eq=False)
class Prepared:
    """A corpus with its negatives: what a backbone has to lay out, and how the captions refer to it."""

    corpus: Corpus
    paths: list[Path]
    """In the order of ``corpus.ids``."""
    texts: list[str]
    table: Table
    notes: list[str]


def keyed(examples: Sequence[Example]) -> dict[str, Example]:
    """Examples by id, or by the image's path where an id stands for several images; sorted."""
    ids = [example.id for example in examples]
    names = ids if len(set(ids)) == len(ids) else [str(example.image) for example in examples]
    return dict(sorted(zip(names, examples, strict=True)))


def prepared(
    examples: dict[str, Example],
    kinds: Sequence[str],
    draws: int,
    seed: int,
    features: npt.NDArray[Any] | None = None,
    name: str = "captions",
) -> Prepared:
    """Make ``draws`` sets of negatives; ``features`` are vectors of the images, for those that look alike."""
    corpus = Corpus.of({key: example.captions for key, example in examples.items()}, name)
    lexicon = Lexicon.of(corpus)
    near = Alike.of(corpus, features) if "hard" in kinds else None
    sets = [negatives(corpus, kinds, seed=seed + 1000003 * draw, lexicon=lexicon, near=near) for draw in range(draws)]
    numbers: dict[str, int] = {}
    own = np.array([numbers.setdefault(text, len(numbers)) for text in corpus.texts], np.int64)
    tables = [np.concatenate([own[:, None], _numbered(made, numbers)], axis=1) for made in sets]
    if not any((table[:, 1:] >= 0).any() for table in tables):
        raise InputError(f"{name}: no negative can be made from {len(corpus)} captions of {len(corpus.ids)} images")
    table = Table(sets[0].kinds, corpus.image, tables)
    return Prepared(corpus, [one.image for one in examples.values()], list(numbers), table, _notes(sets[0]))


def _numbered(made: Negatives, numbers: dict[str, int]) -> npt.NDArray[np.int64]:
    """Captions × kinds: the numbers of texts, new ones added; −1 where none could be made."""
    found = [
        numbers.setdefault(text, len(numbers)) if kind >= 0 else -1
        for text, kind in zip(made.texts, made.made.tolist(), strict=True)
    ]
    return np.array(found, np.int64).reshape(len(made.corpus), len(made.kinds))


def _notes(made: Negatives) -> list[str]:
    """What became of kinds that could not be made for every caption."""
    notes = []
    for kind, counts in made.counts().items():
        instead = {name: number for name, number in counts.items() if name != kind and number}
        if instead:
            total = sum(counts.values())
            told = ", ".join(
                f"nothing for {one}" if name == "none" else f"{one} {name}" for name, one in instead.items()
            )
            notes.append(f"{kind} negatives: {sum(instead.values())} of {total} could not be made; instead: {told}")
    return notes


def held_out(examples: dict[str, Example], share: float, seed: int) -> tuple[dict[str, Example], dict[str, Example]]:
    """Examples to learn from and a share of them, of at most 1,000 images, to validate on."""
    count = min(1000, int(len(examples) * share))
    if count < 2:
        return examples, {}
    chosen = set(np.random.default_rng([seed, 4]).permutation(len(examples))[:count].tolist())
    parts: tuple[dict[str, Example], dict[str, Example]] = ({}, {})
    for number, (key, example) in enumerate(examples.items()):
        parts[number in chosen][key] = example
    return parts


__all__ = ["KINDS", "Prepared", "held_out", "keyed", "prepared"]
