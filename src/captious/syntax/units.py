"""Detail units: a caption cut into the phrases that each add something, as SPECS is trained and tested on.

A sentence is chunked (``chunking``); words outside chunks wait for the next noun phrase, verb phrase, prepositional
phrase or clause, which closes a segment. Then cuts are taken back where a segment would say nothing new (``Rules``),
and every end of a sentence is a cut. ``legacy=True`` does all this on one string, as the original does, accidents too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, overload

from captious.errors import InputError
from captious.syntax.chunking import outline
from captious.syntax.sentences import Sentence, sentences
from captious.syntax.tagging import Tagging, tagger_named

PREPOSITIONS = frozenset(
    ["behind", "in", "under", "on", "to", "above", "left", "right", "next", "up", "down", "out", "of", "'s", "is"]
)
"""The original's list: *with*, *at*, *from* are absent, *is* and *'s* are in it."""

AUXILIARIES = frozenset(["is", "are", "was", "were", "be", "been", "being", "has", "have", "had"])

_SEGMENT = re.compile("[^nvpc]*[nvpc]_*|[^nvpc]+")


@dataclass(frozen=True)
class Rules:
    """Which cuts are taken back, inside a sentence, from left to right."""

    subjects: bool = True
    """After at most ``longest_subject`` words of which the first is *The*: it most likely repeats what was said."""
    attached: bool = True
    """Before a word of ``prepositions``."""
    locations: bool = True
    """In a sentence that starts with a word of ``prepositions``, before its first *is* or *are*."""
    first_sentence: bool = False
    """Whether ``subjects`` and ``locations`` act in the first sentence too; in the original they do not."""
    auxiliaries: bool = False
    """After a form of *be* or *have*, so that no unit ends in *A cat is*. Not in the original."""
    longest_subject: int = 3
    prepositions: frozenset[str] = PREPOSITIONS

    def takes_back(self, tokens: Sequence[str], end: int, verb: int, first: bool) -> bool:
        """Whether the cut goes that stands before token ``end``; ``verb`` is where the first *is* or *are* stands."""
        if self.attached and tokens[end] in self.prepositions:
            return True
        if self.auxiliaries and tokens[end - 1] in AUXILIARIES:
            return True
        if first and not self.first_sentence:
            return False
        if self.subjects and tokens[0] == "The" and end <= self.longest_subject:
            return True
        return self.locations and end <= verb and tokens[0].lower() in self.prepositions


RULES = Rules()
Text = Literal["tokens", "surface"]


@overload
def units(
    caption: str,
    *,
    grammar: str = ...,
    legacy: bool = ...,
    tagger: str | Tagging = ...,
    text: Text = ...,
    rules: Rules = ...,
) -> list[str]: ...
@overload
def units(
    caption: list[str] | tuple[str, ...],
    *,
    grammar: str = ...,
    legacy: bool = ...,
    tagger: str | Tagging = ...,
    text: Text = ...,
    rules: Rules = ...,
) -> list[list[str]]: ...
def units(
    caption: str | list[str] | tuple[str, ...],
    *,
    grammar: str = "code",
    legacy: bool = False,
    tagger: str | Tagging = "captious",
    text: Text = "tokens",
    rules: Rules = RULES,
) -> list[str] | list[list[str]]:
    """The detail units of a caption, or of each of many, which is much faster than one by one.

    ``text`` is what a unit is written as: its ``tokens`` with spaces between them, as SPECS's models have been trained
    on, or the ``surface``, the very part of the caption. ``tagger`` is ``captious``, ``spacy``, ``nltk``, or any
    function from tokenized sentences to Penn tags.

    >>> units("A cat sleeps on a sofa. The cat is under a blanket with fringed edges.")
    ['A cat sleeps on a sofa .', 'The cat is under a blanket', 'with fringed edges .']
    """
    captions = [caption] if isinstance(caption, str) else caption
    if text not in ("tokens", "surface"):
        raise InputError(f"unknown text {text!r} for detail units, expected tokens or surface")
    if legacy and text == "surface":
        raise InputError("legacy units are cut out of tokenized text and have no surface; leave out legacy or surface")
    if legacy and rules != RULES:
        raise InputError("legacy units have the original's rules; leave out legacy or rules")
    parsed = [sentences(one) for one in captions]
    parts: list[list[str]]
    if legacy:
        parts = [_legacy(segments) for segments in _segments(parsed, grammar, tagger)]
    elif text == "tokens":
        parts = [[" ".join(words) for words in one] for one in _token_units(parsed, grammar, tagger, rules)]
    else:
        spans = _spans(parsed, grammar, tagger, rules)
        parts = [[one[start:stop] for start, stop in own] for one, own in zip(captions, spans, strict=True)]
    return parts[0] if isinstance(caption, str) else parts


def unit_spans(
    captions: Sequence[str], *, grammar: str = "code", tagger: str | Tagging = "captious", rules: Rules = RULES
) -> list[list[tuple[int, int]]]:
    """Where the units of each caption start and stop in it; ``caption[:stop]`` is the caption up to a unit.

    >>> unit_spans(["A dog, with a ball."])
    [[(0, 5), (5, 19)]]
    """
    return list(_spans([sentences(one) for one in captions], grammar, tagger, rules))


def _shapes(parsed: Sequence[list[Sentence]], grammar: str, tagger: str | Tagging) -> Iterator[list[str]]:
    """The outlines of the sentences of every caption, tagged all at once."""
    shapes = iter(outline(tagger_named(tagger)([sentence.tokens for one in parsed for sentence in one]), grammar))
    return (list(islice(shapes, len(one))) for one in parsed)


def _ends(parsed: Sequence[list[Sentence]], grammar: str, tagger: str | Tagging, rules: Rules) -> Iterator[list[int]]:
    """After which tokens of each caption, counted through all its sentences, a unit ends."""
    for one, shapes in zip(parsed, _shapes(parsed, grammar, tagger), strict=True):
        ends: list[int] = []
        offset = 0
        for (tokens, _, _), shape in zip(one, shapes, strict=True):
            words = len(tokens)
            while words and not _is_word(tokens[words - 1]):
                words -= 1
            if not words and ends:
                ends.pop()  # marks alone belong to what stands before them
            verb = next((at for at, token in enumerate(tokens) if token in ("is", "are")), len(tokens))
            for segment in _SEGMENT.finditer(shape):
                end = segment.end()
                if end < words and not rules.takes_back(tokens, end, verb, offset == 0):
                    ends.append(offset + end)
            offset += len(tokens)
            ends.append(offset)
        yield ends


def _is_word(token: str) -> bool:
    return token.isalpha() or any(map(str.isalnum, token))


def _token_units(
    parsed: Sequence[list[Sentence]], grammar: str, tagger: str | Tagging, rules: Rules
) -> Iterator[Iterator[list[str]]]:
    for one, ends in zip(parsed, _ends(parsed, grammar, tagger, rules), strict=True):
        tokens = [token for sentence in one for token in sentence.tokens]
        yield (tokens[start:end] for start, end in zip([0, *ends], ends, strict=False))


def _spans(
    parsed: Sequence[list[Sentence]], grammar: str, tagger: str | Tagging, rules: Rules
) -> Iterator[list[tuple[int, int]]]:
    for one, ends in zip(parsed, _ends(parsed, grammar, tagger, rules), strict=True):
        starts = [start for sentence in one for start in sentence.starts]
        stops = [stop for sentence in one for stop in sentence.stops]
        yield [(starts[start], stops[end - 1]) for start, end in zip([0, *ends], ends, strict=False)]


def _segments(parsed: Sequence[list[Sentence]], grammar: str, tagger: str | Tagging) -> Iterator[list[str]]:
    """The segments of each caption before any cut is taken back."""
    for one, shapes in zip(parsed, _shapes(parsed, grammar, tagger), strict=True):
        yield [
            " ".join(tokens[segment.start() : segment.end()])
            for (tokens, _, _), shape in zip(one, shapes, strict=True)
            for segment in _SEGMENT.finditer(shape)
        ]


def _legacy(segments: Sequence[str]) -> list[str]:
    """The units of the original, which edits one string with bars between the segments.

    Every period in the text counts as the end of a sentence, also in ``3.5``, and no other mark does.
    """
    text = " | ".join(segments) + " |"
    for ending in ("| . |", "| .", ". |"):
        text = text.replace(ending, ".")
    at = text.find("|")
    while at != -1:
        period = text.rfind(".", 0, at)
        words = text[period + 1 : max(at - 1, 0)].split() if -1 < period < at - 2 else []
        following, space, _ = text[at + 2 :].partition(" ")
        if (
            (words and words[0] == "The" and len(words) <= 3)
            or (space and following in PREPOSITIONS)
            or (words and words[0].lower() in PREPOSITIONS and "is" not in words and "are" not in words)
        ):
            text = text[:at] + text[at + 2 :]
        at = text.find("|", at + 1)
    return [part for piece in text.replace(".", ".|").split("|") if (part := piece.strip())]
