"""Captions to words for leakage: the default, and the two tokenisers that the originals ran one after the other.

The originals mask and align with NLTK's ``word_tokenize`` and re-tokenise the joined result with spaCy before the LSTM
sees it. Neither is needed to see their effect on captions, so their rules for English captions are written out here.
"""

from __future__ import annotations

import re

_QUOTES = re.compile(r"([\"“”«»])")
_FINAL_STOP = re.compile(r"(?<!\.)(\.)(?=[\])}>\"' ]*(?:\s|$))")
_SINGLE = re.compile(r"(\.\.\.|--|[;@#$%&?!\[\](){}<>])")
_COMMA = re.compile(r"([:,])(?=\D|$)")
_CLITIC = re.compile(r"(?<=\w)(n't|'(?:s|m|d|ll|re|ve))(?=\W|$)")
_QUOTED = re.compile(r"(?<=\w)'(?=\s|$)")
_INFIX = re.compile(r"(?<=[^\W\d_])(-|/|~|–|—)(?=[^\W\d_])")
_ANGLE = re.compile(r"([<>])")


def treebank(text: str) -> list[str]:
    """The lower-cased tokens of NLTK's ``word_tokenize``; hyphens stay.

    >>> treebank("A man's t-shirt, isn't it?  Yes.")
    ['a', 'man', "'s", 't-shirt', ',', 'is', "n't", 'it', '?', 'yes', '.']
    """
    text = _QUOTES.sub(r" \1 ", text.lower())
    for pattern in (_SINGLE, _COMMA, _FINAL_STOP, _CLITIC):
        text = pattern.sub(r" \1 ", text)
    return _QUOTED.sub(" ' ", text).split()


def spacy_like(tokens: list[str]) -> list[str]:
    """What spaCy's English tokeniser makes of tokens joined by spaces: hyphens, slashes, angle brackets split off.

    >>> spacy_like(["a", "t-shirt", "<unk>"])
    ['a', 't', '-', 'shirt', '<', 'unk', '>']
    """
    return _ANGLE.sub(r" \1 ", _INFIX.sub(r" \1 ", " ".join(tokens))).split()
