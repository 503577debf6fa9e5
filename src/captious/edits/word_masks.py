"""Captions without one of their words, grouped by its part of speech.

Tags are Universal ones, made from Penn tags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from captious.syntax.tagging import tag_texts

# Universal tags of Penn tags; punctuation and other tags have none.
UNIVERSAL = {
    **dict.fromkeys(("NN", "NNS"), "NOUN"),
    **dict.fromkeys(("NNP", "NNPS"), "PROPN"),
    **dict.fromkeys(("JJ", "JJR", "JJS"), "ADJ"),
    **dict.fromkeys(("RB", "RBR", "RBS", "WRB"), "ADV"),
    **dict.fromkeys(("VB", "VBD", "VBG", "VBN", "VBP", "VBZ"), "VERB"),
    **dict.fromkeys(("DT", "PDT", "WDT"), "DET"),
    **dict.fromkeys(("PRP", "PRP$", "WP", "WP$", "EX"), "PRON"),
    **dict.fromkeys(("IN", "RP"), "ADP"),
    **dict.fromkeys(("TO", "POS"), "PART"),
    "MD": "AUX",
    "CC": "CCONJ",
    "CD": "NUM",
    "UH": "INTJ",
}
_AUXILIARIES = "am is are was were be been being has have had having do does did 's 're"
AUXILIARIES = frozenset(_AUXILIARIES.split())
# A function from a token and its Penn tag to the name of its group; empty to skip the token.
Grouping = Callable[[str, str], str]


class Masked(NamedTuple):
    """A text without one of its tokens."""

    text: int
    """Index of the text."""
    group: str
    token: str
    rest: str


def get_universal_tag(token: str, tag: str) -> str:
    """Return the Universal tag of a token; an empty text for tokens that are not masked.

    >>> [get_universal_tag(*word) for word in (("dog", "NN"), ("is", "VBZ"), ("runs", "VBZ"), (".", "."))]
    ['NOUN', 'AUX', 'VERB', '']
    """
    return "AUX" if token.lower() in AUXILIARIES and tag.startswith("VB") else UNIVERSAL.get(tag, "")


def mask(texts: Sequence[str], grouping: Grouping = get_universal_tag, tagger: str = "captious") -> list[Masked]:
    """Remove each token of every text, one at a time.

    >>> [(one.group, one.rest) for one in mask(["A dog runs."])]
    [('DET', 'dog runs.'), ('NOUN', 'A runs.'), ('VERB', 'A dog.')]
    """
    masked = []
    for index, (text, tagged) in enumerate(zip(texts, tag_texts(texts, tagger), strict=True)):
        tokens = [token for sentence, tags in tagged for token in zip(*sentence, tags, strict=True)]
        for token, start, stop, tag in tokens:
            group = grouping(token, tag)
            before, after = text[:start].rstrip(), text[stop:].lstrip()
            gap = " " if before and after[:1].isalnum() else ""
            if group and (rest := before + gap + after).strip(" .,!?"):
                masked.append(Masked(index, group, token, rest))
    return masked
