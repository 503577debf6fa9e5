"""Matching of a caption's elements with a reference's: equal elements, then synonyms, then nearest vectors.

The elements of a caption are its objects, the attributes of objects, and the relations between them, as tuples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from captious._core.types import Floats
from captious.metrics.meteor._synsets import Synsets
from captious.syntax.scenegraph import Fact

Kind = Literal["object", "attribute", "relation"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# The weight of each kind's F-score in CAPTURE.
WEIGHTS: Mapping[Kind, float] = {"object": 0.5, "attribute": 0.5, "relation": 0.2}
Elements = Mapping[Kind, Sequence[Fact]]
Way = Literal["equal", "synonym"]
# A function from phrases to their unit vectors, one row each.
Vectors = Callable[[Sequence[str]], Floats]
_NUMBER = re.compile(r"\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten")


def collect_elements(facts: Iterable[Fact], stop_nouns: Collection[str] = ()) -> Elements:
    """Return the elements of a caption, sorted. Objects of the stop list are left out; facts about them are not.

    A quantity (*two*, the *a* of *a pair of*) is no attribute, nor is one with *of*.

    >>> collect_elements([("dog", "brown"), ("dog", "two"), ("dog", "in", "scene")], ["scene"])
    {'object': [('dog',)], 'attribute': [('dog', 'brown')], 'relation': [('dog', 'in', 'scene')]}
    """
    facts = set(facts)
    nouns = {fact[0] for fact in facts} | {fact[2] for fact in facts if len(fact) == 3}
    attributes = [fact for fact in facts if len(fact) == 2 and " of" not in fact[1] and not _NUMBER.fullmatch(fact[1])]
    return {
        "object": sorted((noun,) for noun in nouns.difference(stop_nouns)),
        "attribute": sorted(attributes),
        "relation": sorted(fact for fact in facts if len(fact) == 3),
    }


def get_compared_words(fact: Fact) -> Fact:
    """Return the words of an element that are compared: an attribute without its object, all parts of a relation."""
    return fact[1:] if len(fact) == 2 else fact


class Synonyms:
    """A test of whether two phrases mean the same: one contains the other, or they have a synonym in common.

    The synonyms of a word are all words of all its synsets, in METEOR's tables or a folder of WordNet.
    """

    def __init__(self, source: str | None = None) -> None:
        self._source, self._synsets_of = source, Synsets(source)
        words = self._synsets_of.tables.words
        order = np.argsort(words.values, kind="stable")
        self._synsets = words.values[order]
        self._members = np.repeat(np.arange(len(words.keys)), words.starts[1:] - words.starts[:-1])[order]
        self._looked_up: dict[str, frozenset[int]] = {}

    def __call__(self, one: str, other: str, whole_words: bool = False) -> bool:
        """Return True if they mean the same; with ``whole_words``, *man* is no part of *woman*."""
        first, second = (f" {one} ", f" {other} ") if whole_words else (one, other)
        return first in second or second in first or not self._find_names(one).isdisjoint(self._find_names(other))

    def _find_names(self, label: str) -> frozenset[int]:
        """Return the words of all synsets of a label, as their rows in the table."""
        if label not in self._looked_up:
            numbers = sorted(self._synsets_of(label))
            starts, stops = (np.searchsorted(self._synsets, numbers, side).tolist() for side in ("left", "right"))
            spans = [self._members[start:stop].tolist() for start, stop in zip(starts, stops, strict=True)]
            self._looked_up[label] = frozenset(row for span in spans for row in span)
        return self._looked_up[label]

    def __reduce__(self) -> tuple[type[Synonyms], tuple[str | None]]:
        return Synonyms, (self._source,)

    @property
    def mark(self) -> str:
        """A digest of the tables' content."""
        return self._synsets_of.mark


Alike = Callable[[str, str], bool]


@dataclass(frozen=True)
class Pairing:
    """The elements of one kind of a caption and of a reference, and the pairs among them; each is in one at most."""

    candidate: Sequence[Fact]
    reference: Sequence[Fact]
    partners: Mapping[int, tuple[int, Way]]
    """The partner of each matched element: its index among the other side's elements, and how the two match."""

    @classmethod
    def of(cls, candidate: Sequence[Fact], reference: Sequence[Fact], synonymous: Alike | None) -> Pairing:
        """Pair equal elements first, then synonyms; of several candidates take the first in alphabetical order."""

        def are_synonyms(one: Fact, other: Fact) -> bool:
            return synonymous is not None and all(map(synonymous, one, other))

        partners: dict[int, tuple[int, Way]] = {}
        left = dict(enumerate(map(get_compared_words, reference)))
        ways: list[tuple[Way, Callable[[Fact, Fact], bool]]] = [
            ("equal", lambda a, b: a == b),
            ("synonym", are_synonyms),
        ]
        for way, same in ways:
            for index, one in enumerate(map(get_compared_words, candidate)):
                if index not in partners:
                    match = next((number for number, other in left.items() if same(one, other)), None)
                    if match is not None:
                        partners[index] = (match, way)
                        del left[match]
        return cls(candidate, reference, partners)

    def list_phrases(self) -> list[str]:
        """List the elements without a partner as phrases to encode; an empty list if one side has none left."""
        candidate, reference = self._list_unpaired()
        if not candidate or not reference:
            return []
        return [
            *(_format_phrase(self.candidate[index]) for index in candidate),
            *(_format_phrase(self.reference[index]) for index in reference),
        ]

    def compute_credits(self, vectors: Vectors | None) -> Credits:
        """Compute the credit of each element: 1 with a partner, else its largest cosine with the other side, or 0."""
        candidate, reference = np.zeros(len(self.candidate)), np.zeros(len(self.reference))
        nearest: dict[int, Fact] = {}
        for index, (match, _) in self.partners.items():
            candidate[index] = reference[match] = 1.0
            nearest[index] = self.reference[match]
        phrases = self.list_phrases() if vectors else []
        if vectors and phrases:
            rows, columns = self._list_unpaired()
            encoded = vectors(phrases)
            cosines = np.clip(encoded[: len(rows)] @ encoded[len(rows) :].T, 0.0, 1.0)
            candidate[rows], reference[columns] = cosines.max(axis=1), cosines.max(axis=0)
            best = cosines.argmax(axis=1).tolist()
            nearest |= {row: self.reference[columns[column]] for row, column in zip(rows, best, strict=True)}
        return Credits(candidate, reference, nearest)

    def _list_unpaired(self) -> tuple[list[int], list[int]]:
        matched = {match for match, _ in self.partners.values()}
        return (
            [index for index in range(len(self.candidate)) if index not in self.partners],
            [index for index in range(len(self.reference)) if index not in matched],
        )


@dataclass(frozen=True, eq=False)
class Credits:
    """The credit of each element of a caption and of a reference, from 0 to 1."""

    candidate: Floats
    reference: Floats
    nearest: Mapping[int, Fact]
    """The partner of an element of the candidate, or the one with the largest cosine."""

    @property
    def precision(self) -> float:
        """The mean credit of the caption's elements; 0 without any."""
        return float(self.candidate.mean()) if len(self.candidate) else 0.0

    @property
    def recall(self) -> float:
        """The mean credit of the reference's elements; 0 without any."""
        return float(self.reference.mean()) if len(self.reference) else 0.0

    @property
    def f(self) -> float:
        """The harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def _format_phrase(fact: Fact) -> str:
    return " ".join(get_compared_words(fact))
