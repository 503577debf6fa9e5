"""The objects that texts name, of any kind: nouns by a tagger, or lists by a chat model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from captious.metrics.judges._facts import ask_each, list_tokens, read_bullets, whole
from captious.metrics.judges.judged import quoted
from captious.models.chat.judge import Judge
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.syntax.lemmas import singularize
from captious.syntax.parsing import common_nouns
from captious.syntax.tagging import tag_texts

_UNSURE = re.compile(r"\bpossibly\b", re.IGNORECASE)
_ALTERNATIVES = re.compile(r"\s*,\s*|\s+or\s+", re.IGNORECASE)
SHORTEST = 3
"""Characters of a listed line, with its hyphen and space; a shorter one says nothing."""


class NamedObject(NamedTuple):
    """An object that a text names: the words for it, more than one where the text leaves open which it is."""

    words: tuple[str, ...]
    unsure: bool = False
    """Whether the text is not sure that it is there."""

    def __str__(self) -> str:
        return " or ".join(self.words)


def nouns(texts: Sequence[str], tagger: str) -> list[list[NamedObject]]:
    """The common nouns of each text in the singular, each once. ``spacy`` also cuts the texts into its own tokens.

    >>> [str(one) for one in nouns(["Two dogs near a cat; the dogs are asleep."], "captious")[0]]
    ['dog', 'cat']
    """
    words = common_nouns(texts) if tagger == "spacy" else _tagged_nouns(texts, tagger)
    return [[NamedObject((word,)) for word in dict.fromkeys(map(singularize, own))] for own in words]


def _tagged_nouns(texts: Sequence[str], tagger: str) -> list[list[str]]:
    return [
        [
            token.lower()
            for sentence, tags in tagged
            for token, tag in zip(sentence.tokens, tags, strict=True)
            if tag in ("NN", "NNS")
        ]
        for tagged in tag_texts(texts, tagger)
    ]


def list_requests(texts: Sequence[str], prompt: str) -> list[Request]:
    """The question for the objects of each text."""
    return [
        Request((Turn("user", prompt.format(text=quoted(text))),), max_tokens=list_tokens(text, 4)) for text in texts
    ]


def listed_objects(judge: Judge, texts: Sequence[str], prompt: str, what: str) -> list[list[NamedObject] | Failure]:
    """The objects that a chat model lists for each text."""
    requests = list_requests(texts, prompt)
    return ask_each(judge, requests, [read_objects] * len(requests), what)


def read_objects(reply: Reply) -> list[NamedObject]:
    r"""The objects of a reply, each once: what stands before a parenthesis, with commas and *or* between alternatives.

    >>> objects = read_objects(Reply("- brown dog\n- cat (possibly)\n- red ball or frisbee\n- brown dog"))
    >>> [(one.words, one.unsure) for one in objects]
    [(('brown dog',), False), (('cat',), True), (('red ball', 'frisbee'), False)]
    """
    objects = []
    for line in read_bullets(whole(reply)):
        words = [word.strip(" .").lower() for word in _ALTERNATIVES.split(line.partition("(")[0].strip())]
        if named := tuple(word for word in words if len(word) + 2 >= SHORTEST):
            objects.append(NamedObject(named, bool(_UNSURE.search(line))))
    return list(dict.fromkeys(objects))


def with_head_nouns(objects: Sequence[NamedObject]) -> list[NamedObject]:
    """The objects, and the last word of each phrase as an object of its own.

    >>> [str(one) for one in with_head_nouns([NamedObject(("brown dog",)), NamedObject(("cat",))])]
    ['brown dog', 'cat', 'dog']
    """
    heads = [NamedObject((singularize(word.split()[-1]),)) for one in objects for word in one.words]
    return list(dict.fromkeys([*(one._replace(unsure=False) for one in objects), *heads]))
