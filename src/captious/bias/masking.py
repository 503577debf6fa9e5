"""Masked captions: words that name the attribute, and human words that the model does not know, become symbols."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

from captious.bias.tokens import spacy_like, treebank
from captious.bias.words import Mask
from captious.text.tokenisers import plain

Tokens = tuple[str, ...]
Style = Literal["plain", "treebank"]

MASKED, UNKNOWN = "<mask>", "<unk>"
"""Symbols in masked captions; what a classifier sees for them is its own matter."""

STYLES: dict[str, Callable[[str], list[str]]] = {"plain": plain, "treebank": treebank}


def tokenised(captions: Iterable[str], style: Style = "plain") -> list[Tokens]:
    """Lower-cased words of each caption; one tokeniser for masking, alignment and vocabulary."""
    tokenise = STYLES[style]
    return [tuple(tokenise(caption)) for caption in captions]


def masked(captions: Sequence[Tokens], mask: Mask, known: Collection[str] | None = None) -> list[Tokens]:
    """Hide the mask's words; where ``known`` is given, so that only human captions need it, hide all others too.

    Masking goes first: a hidden word is never also unknown.

    >>> masked([("a", "woman", "rides", "a", "unicycle")], Mask.named("gender"), {"a", "rides"})
    [('a', '<mask>', 'rides', 'a', '<unk>')]
    """
    hidden = mask.words
    if known is None:
        return [tuple(MASKED if word in hidden else word for word in caption) for caption in captions]
    return [
        tuple(MASKED if word in hidden else word if word in known else UNKNOWN for word in caption)
        for caption in captions
    ]


def as_words(caption: Tokens, token: str, style: Style = "plain") -> list[str]:
    """What the LSTM and the linear classifier read.

    In the originals' style spaCy cuts ``<unk>`` into three ordinary words; in ours it is one.

    >>> as_words(("a", "<mask>", "<unk>"), "ageword"), as_words(("a", "<unk>"), "ageword", "treebank")
    (['a', 'ageword', '<unk>'], ['a', '<', 'unk', '>'])
    """
    words = [token if word == MASKED else word for word in caption]
    return spacy_like(words) if style == "treebank" else words


def as_text(caption: Tokens, mask: str = "[MASK]", unknown: str = "[UNK]") -> str:
    """What a BERT reads.

    >>> as_text(("a", "<mask>", "rides", "a", "<unk>"))
    'a [MASK] rides a [UNK]'
    """
    return " ".join(mask if word == MASKED else unknown if word == UNKNOWN else word for word in caption)


def only_symbols(captions: Iterable[Tokens]) -> int:
    """How many captions say nothing once masked.

    >>> only_symbols([("<mask>",), ("a", "<mask>"), ()])
    2
    """
    return sum(all(word in (MASKED, UNKNOWN) for word in caption) for caption in captions)
