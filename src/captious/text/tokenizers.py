"""Tokenizers by name. The name and version of the one used stand in every signature."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from captious.errors import InputError, nearest
from captious.text import ptb


def _never(chunk: str) -> None:
    return None


@dataclass(frozen=True)
class Tokenizer:
    """A text to tokens, and which whitespace-delimited chunks may be tokenized on their own.

    A caption made of such *local* chunks only is the concatenation of its chunks' tokens, so every distinct chunk is
    tokenized once. ``is_local`` says no when in doubt; the caption is then tokenized as a whole.
    """

    name: str
    version: int
    tokenize: Callable[[str], list[str]]
    is_local: Callable[[str], bool]
    plain_word: Callable[[str], str | None] = _never
    """A quicker answer for most chunks: the only token of a local chunk, or None to ask the other two."""

    def __str__(self) -> str:
        return f"{self.name}.{self.version}"


_SEPARATE = (
    (re.compile(r"([\{-\~\[-\` -\&\(-\+\:-\@\/])"), r" \1 "),
    (re.compile(r"([^0-9])([\.,])"), r"\1 \2 "),
    (re.compile(r"([\.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))


def thirteen_a(text: str, lowercase: bool = True) -> list[str]:
    """The tokens of mteval's 13a, lower-cased, as sacrebleu has them with ``lowercase``.

    >>> thirteen_a("A dog's ball, isn't it?")
    ['a', "dog's", 'ball', ',', "isn't", 'it', '?']
    """
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    text = f" {text.lower() if lowercase else text} "
    for pattern, replacement in _SEPARATE:
        text = pattern.sub(replacement, text)
    return text.split()


def whitespace(text: str) -> list[str]:
    """What stands between spaces, as it is: for text that is tokenized already.

    >>> whitespace("A dog 's ball .")
    ['A', 'dog', "'s", 'ball', '.']
    """
    return text.split()


def plain(text: str) -> list[str]:
    """Lower-cased runs of letters and digits; every other character separates.

    >>> plain("A dog doesn't fall.")
    ['a', 'dog', 'doesn', 't', 'fall']
    """
    return re.findall(r"[^\W_]+", text.lower())


def _always(chunk: str) -> bool:
    return True


def _alphanumeric(chunk: str) -> str | None:
    return chunk if chunk.isalnum() else None


@lru_cache(maxsize=1 << 17)
def _ptb_word(text: str) -> str | None:
    """The same as `ptb.plain_word`; pickle finds the cache here."""
    return ptb.plain_word(text)


TOKENIZERS = {
    tokenizer.name: tokenizer
    for tokenizer in (
        Tokenizer("ptb", 1, ptb.tokenize, ptb.is_local, _ptb_word),
        Tokenizer("13a", 1, thirteen_a, str.isalnum),
        Tokenizer("whitespace", 1, whitespace, _always, _alphanumeric),
        Tokenizer("plain", 1, plain, _always),
    )
}


def tokenizer_named(name: str) -> Tokenizer:
    """Look a tokenizer up, or say which there are."""
    try:
        return TOKENIZERS[name]
    except KeyError:
        raise InputError(
            f"unknown tokenizer {name!r}, expected one of {', '.join(TOKENIZERS)}{nearest(name, TOKENIZERS)}"
        ) from None
