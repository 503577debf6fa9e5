"""Captions with their words in another order: the four perturbations of ARO, and all words shuffled.

``nouns-adjectives`` shuffles nouns among nouns and adjectives among adjectives; ``others`` shuffles all other words;
``within-trigrams`` shuffles words within each group of three; ``trigrams`` shuffles groups of three words; ``words``
shuffles all words. All orders of a file come from one generator, one after another, as in ARO.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from captious._core.types import Ints
from captious.errors import InputError, format_suggestion
from captious.syntax.tagging import tag_texts

ARO = ("nouns-adjectives", "others", "within-trigrams", "trigrams")
PERTURBATIONS = (*ARO, "words")
# Number of draws in which an order must be found that differs from the original.
TRIES = 20
# Words with their Penn tags.
Tagged = Sequence[tuple[str, str]]


def tag_words(captions: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Tag the words of captions with Penn tags, in lower case and without punctuation, as ARO compares them."""
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
    """Return the perturbed captions by perturbation, without those that cannot change this caption.

    >>> words = [("a", "DT"), ("red", "JJ"), ("dog", "NN"), ("and", "CC"), ("a", "DT"), ("blue", "JJ"), ("cat", "NN")]
    >>> perturb(words, np.random.default_rng(0), ["nouns-adjectives"])
    {'nouns-adjectives': 'a blue dog and a red cat'}
    """
    text = np.array([word for word, _ in words], dtype=object)
    perturbed = {}
    for name in perturbations:
        if name not in PERTURBATIONS:
            names = ", ".join(PERTURBATIONS)
            raise InputError(
                f"unknown perturbation {name!r}, expected one of {names}{format_suggestion(name, PERTURBATIONS)}"
            )
        for _ in range(TRIES):
            order = _draw_order(name, [tag for _, tag in words], generator)
            if (text[order] != text).any():
                perturbed[name] = " ".join(text[order])
                break
    return perturbed


def _draw_order(perturbation: str, tags: Sequence[str], generator: np.random.Generator) -> Ints:
    """Draw a new order of the words; return the index of the word at each position."""
    number = len(tags)
    order = np.arange(number)
    if perturbation == "words":
        return generator.permutation(number)
    groups = [np.arange(first, min(first + 3, number)) for first in range(0, number, 3)]
    if perturbation == "trigrams":
        return np.concatenate([groups[group] for group in generator.permutation(len(groups))] or [order])
    tag_class = np.array([tag[:2] for tag in tags], dtype=np.str_)  # NN of NNS and NNP, JJ of JJR and JJS
    if perturbation == "nouns-adjectives":
        groups = [order[tag_class == "NN"], order[tag_class == "JJ"]]
    elif perturbation == "others":
        groups = [order[(tag_class != "NN") & (tag_class != "JJ")]]
    for group in groups:
        order[group] = generator.permutation(group)
    return order
