"""Part-of-speech tags of captions: by the small tagger in the package, or by spaCy.

The tagger of the package has been trained on captions tagged by spaCy (``benchmarks/train_tagger.py``), and
``docs/units.md`` says how well the two agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from captious.errors import InputError, nearest
from captious.extras import require
from captious.text.perceptron import Sentences, Tagger, read_tagger

SHIPPED = Path(__file__).parent / "data" / "tagger.captious"
Tagging = Callable[[Sentences], list[list[str]]]
"""Tokenised sentences to the Penn tags of their words."""


@lru_cache(maxsize=1)
def shipped() -> Tagger:
    """The tagger of the package."""
    return read_tagger(SHIPPED)


def tag(sentences: Sentences) -> list[list[str]]:
    """Penn tags of tokenised sentences, by the tagger of the package.

    >>> tag([["A", "dog", "runs", "."], []])
    [['DT', 'NN', 'VBZ', '.'], []]
    """
    return shipped().tag(sentences)


MARKS = {
    **dict.fromkeys(["(", "[", "{", "<"], "("),
    **dict.fromkeys([")", "]", "}", ">"], ")"),
    **dict.fromkeys([".", "!", "?"], "."),
    **dict.fromkeys([":", ";", "...", "--", "–", "—", "-", "*", "/", "|"], ":"),
    **dict.fromkeys(["``", "“", "‘", "«"], "``"),
    **dict.fromkeys(["''", "”", "»"], "''"),
    ",": ",",
    "$": "$",
    "&": "CC",
    "%": "NN",
}
"""Marks have one tag, whatever a model thinks of them."""

_OTHER_NAMES = {"-LRB-": "(", "-RRB-": ")", "HYPH": ":", "NFP": ":", "ADD": "NN", "AFX": "JJ", "XX": "FW", "_SP": ":"}


def penn(words: Sequence[str], tags: Sequence[str]) -> list[str]:
    """Tags of spaCy's English models as the original Penn Treebank would have them.

    Every *to* is TO; a word in small letters is no name; a hyphenated word before an adjective or noun is an adjective,
    for these models learnt from text in which hyphens are tokens of their own.

    >>> penn(["a", "close-up", "shot", "to", "show"], ["DT", "NNP", "NN", "IN", "VB"])
    ['DT', 'JJ', 'NN', 'TO', 'VB']
    """
    result = [MARKS.get(word) or _OTHER_NAMES.get(tag, tag) for word, tag in zip(words, tags, strict=True)]
    for number, word in enumerate(words):
        if word.lower() == "to":
            result[number] = "TO"
        elif word.islower() and result[number].startswith("NNP"):
            result[number] = "NN" + result[number][3:]
        if word.islower() and "-" in word[1:-1]:
            following = result[number + 1 : number + 2]
            if following and following[0][:2] in ("JJ", "NN") and result[number][:2] in ("NN", "CD", "VB"):
                result[number] = "JJ"
    return result


@lru_cache(maxsize=1)
def _spacy() -> Any:
    spacy = require("spacy", "spacy")
    try:
        return spacy.load("en_core_web_sm", exclude=["parser", "ner", "lemmatizer", "attribute_ruler"])
    except OSError:
        raise InputError(
            "tagger 'spacy' needs its model en_core_web_sm: python -m spacy download en_core_web_sm"
        ) from None


def spacy_tag(sentences: Sentences) -> list[list[str]]:
    """The same by spaCy's ``en_core_web_sm``, which must be installed."""
    model = _spacy()
    document = require("spacy.tokens", "spacy").Doc
    full = [words for words in sentences if words]
    tagged = iter(model.pipe(document(model.vocab, words=list(words)) for words in full))
    return [penn(words, [token.tag_ for token in next(tagged)]) if words else [] for words in sentences]


TAGGERS: dict[str, Tagging] = {"captious": tag, "spacy": spacy_tag}


def tagger_named(name: str) -> Tagging:
    """Look a tagger up, or say which there are."""
    try:
        return TAGGERS[name]
    except KeyError:
        raise InputError(f"unknown tagger {name!r}, expected {' or '.join(TAGGERS)}{nearest(name, TAGGERS)}") from None
