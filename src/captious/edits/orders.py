"""Captions with their words in another order: the four perturbations of ARO, and all words mixed.

Nouns change places with nouns and adjectives with adjectives (``nouns-adjectives``); everything else changes places
(``others``); words change places within every three (``within-trigrams``); groups of three words change places
(``trigrams``); ``words`` mixes all words. All orders of a file come from one generator, one after another, as ARO draws
them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from captious._core.types import Ints
from captious.errors import InputError, nearest
from captious.syntax.tagging import tag_texts

ARO = ("nouns-adjectives", "others", "within-trigrams", "trigrams")
PERTURBATIONS = (*ARO, "words")
TRIES = 20
"""Draws before a perturbation is given up that always gives the words in their old order."""
Tagged = Sequence[tuple[str, str]]
"""Words with their Penn tags."""


def tag_words(captions: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Words with Penn tags, in lower case and without marks, as ARO compares them."""
    return [
        [
            (word.lower(), tag)
            for sentence, tags in tagged
            for word, tag in zip(sentence.tokens, tags, strict=True)
            if any(map(str.isalnum, word))
        ]
        for tagged in tag_texts(captions)
    ]


def perturb(words: Tagged, generator: np.random.Generator, perturbations: Sequence[str] = ARO) -> dict[str, str]:
    """The perturbed captions by perturbation; one that cannot change this caption is left out.

    >>> words = [("a", "DT"), ("red", "JJ"), ("dog", "NN"), ("and", "CC"), ("a", "DT"), ("blue", "JJ"), ("cat", "NN")]
    >>> perturb(words, np.random.default_rng(0), ["nouns-adjectives"])
    {'nouns-adjectives': 'a blue dog and a red cat'}
    """
    text = np.array([word for word, _ in words], dtype=object)
    perturbed = {}
    for name in perturbations:
        if name not in PERTURBATIONS:
            names = ", ".join(PERTURBATIONS)
            raise InputError(f"unknown perturbation {name!r}, expected one of {names}{nearest(name, PERTURBATIONS)}")
        for _ in range(TRIES):
            order = _order(name, [tag for _, tag in words], generator)
            if (text[order] != text).any():
                perturbed[name] = " ".join(text[order])
                break
    return perturbed


def _order(perturbation: str, tags: Sequence[str], generator: np.random.Generator) -> Ints:
    """A new order of words."""
    number = len(tags)
    order = np.arange(number)
    if perturbation == "words":
        return generator.permutation(number)
    groups = [np.arange(first, min(first + 3, number)) for first in range(0, number, 3)]
    if perturbation == "trigrams":
        return np.concatenate([groups[group] for group in generator.permutation(len(groups))] or [order])
    start = np.array([tag[:2] for tag in tags], dtype=np.str_)
    if perturbation == "nouns-adjectives":
        groups = [order[start == "NN"], order[start == "JJ"]]
    elif perturbation == "others":
        groups = [order[(start != "NN") & (start != "JJ")]]
    for group in groups:
        order[group] = generator.permutation(group)
    return order
