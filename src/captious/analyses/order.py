"""Word order tests from any captions, after ARO: the caption against itself with its words in another order.

Four perturbations, each drawn with a seed: nouns change places with nouns and adjectives with adjectives
(``nouns-adjectives``); everything else changes places (``others``); words change places within every three
(``within-trigrams``); groups of three words change places (``trigrams``). A fifth, ``words``, mixes all words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from captious.errors import InputError, nearest
from captious.text.tagging import Tagging

ARO = ("nouns-adjectives", "others", "within-trigrams", "trigrams")
PERTURBATIONS = (*ARO, "words")
TRIES = 20
"""Draws before a perturbation is given up that always gives the words in their old order."""


def tagged(captions: Sequence[str], tagger: Tagging | None = None) -> list[list[tuple[str, str]]]:
    """Words with Penn tags, in lower case and without marks, as ARO compares them."""
    from captious.text.sentences import sentences
    from captious.text.tagging import tagger_named

    tag = tagger or tagger_named("captious")
    parsed = [[list(sentence.tokens) for sentence in sentences(caption)] for caption in captions]
    tags = iter(tag([tokens for one in parsed for tokens in one]))
    found = []
    for one in parsed:
        pairs = [pair for tokens in one for pair in zip(tokens, next(tags), strict=True)]
        found.append([(word.lower(), name) for word, name in pairs if any(map(str.isalnum, word))])
    return found


def perturbed(
    words: Sequence[tuple[str, str]], generator: np.random.Generator, kinds: Sequence[str] = ARO
) -> dict[str, str]:
    """The perturbed captions by kind; a kind that cannot change this caption is left out.

    >>> words = [("a", "DT"), ("red", "JJ"), ("dog", "NN"), ("and", "CC"), ("a", "DT"), ("blue", "JJ"), ("cat", "NN")]
    >>> perturbed(words, np.random.default_rng(0), ["nouns-adjectives"])
    {'nouns-adjectives': 'a blue dog and a red cat'}
    """
    text = np.array([word for word, _ in words], dtype=object)
    found = {}
    for kind in kinds:
        if kind not in PERTURBATIONS:
            known = ", ".join(PERTURBATIONS)
            raise InputError(f"unknown perturbation {kind!r}, expected one of {known}{nearest(kind, PERTURBATIONS)}")
        for _ in range(TRIES):
            order = _order(kind, [tag for _, tag in words], generator)
            if (text[order] != text).any():
                found[kind] = " ".join(text[order])
                break
    return found


def _order(kind: str, tags: Sequence[str], generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """A new order of words."""
    number = len(tags)
    order = np.arange(number)
    if kind == "words":
        return generator.permutation(number)
    groups = [np.arange(first, min(first + 3, number)) for first in range(0, number, 3)]
    if kind == "trigrams":
        return np.concatenate([groups[place] for place in generator.permutation(len(groups))] or [order])
    if kind == "nouns-adjectives":
        groups = [_having(tags, "NN"), _having(tags, "JJ")]
    elif kind == "others":
        named = np.union1d(_having(tags, "NN"), _having(tags, "JJ"))
        groups = [np.setdiff1d(order, named)]
    for group in groups:
        order[group] = generator.permutation(group)
    return order


def _having(tags: Sequence[str], start: str) -> npt.NDArray[np.int64]:
    return np.array([place for place, tag in enumerate(tags) if tag.startswith(start)], dtype=np.int64)
