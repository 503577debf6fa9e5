"""Detail units: captions split into phrases that each add a detail, as SPECS is trained and tested on.

A sentence is chunked (``chunking``); words outside chunks are added to the next noun phrase, verb phrase, prepositional
phrase or clause, which ends a segment. Then cuts that would leave a segment without new content are removed
(``CutRules``), and every end of a sentence is a cut. ``legacy=True`` does all this on one string, as the original does,
including its errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, overload

from captious.errors import InputError
from captious.syntax.chunking import outline
from captious.syntax.sentences import Sentence
from captious.syntax.tagging import Tagging, tag_texts

# The original's list: *with*, *at* and *from* are missing, *is* and *'s* are in it.
PREPOSITIONS = frozenset(
    ["behind", "in", "under", "on", "to", "above", "left", "right", "next", "up", "down", "out", "of", "'s", "is"]
)

AUXILIARIES = frozenset(["is", "are", "was", "were", "be", "been", "being", "has", "have", "had"])

_SEGMENT = re.compile("[^nvpc]*[nvpc]_*|[^nvpc]+")


@dataclass(frozen=True)
class CutRules:
    """Rules for removing cuts inside a sentence, applied from left to right."""

    subjects: bool = True
    """No cut after at most ``longest_subject`` words that start with *The*: they probably repeat something."""
    attached: bool = True
    """No cut before a word of ``prepositions``."""
    locations: bool = True
    """No cut before the first *is* or *are* of a sentence that starts with a word of ``prepositions``."""
    first_sentence: bool = False
    """Whether ``subjects`` and ``locations`` apply to the first sentence too; in the original they do not."""
    auxiliaries: bool = False
    """No cut after a form of *be* or *have*, so that no unit ends in *A cat is*. Not in the original."""
    longest_subject: int = 3
    prepositions: frozenset[str] = PREPOSITIONS

    def should_remove_cut(self, tokens: Sequence[str], end: int, verb: int, first: bool) -> bool:
        """Return True to remove the cut before token ``end``; ``verb`` is the index of the first *is* or *are*."""
        if self.attached and tokens[end] in self.prepositions:
            return True
        if self.auxiliaries and tokens[end - 1] in AUXILIARIES:
            return True
        if first and not self.first_sentence:
            return False
        if self.subjects and tokens[0] == "The" and end <= self.longest_subject:
            return True
        return self.locations and end <= verb and tokens[0].lower() in self.prepositions


RULES = CutRules()
Text = Literal["tokens", "surface"]
# The sentences of a caption, each with its outline (see `outline`).
Outlined = list[tuple[Sentence, str]]


@overload
def units(
    caption: str,
    *,
    grammar: str = ...,
    legacy: bool = ...,
    tagger: str | Tagging = ...,
    text: Text = ...,
    rules: CutRules = ...,
) -> list[str]: ...
@overload
def units(
    caption: list[str] | tuple[str, ...],
    *,
    grammar: str = ...,
    legacy: bool = ...,
    tagger: str | Tagging = ...,
    text: Text = ...,
    rules: CutRules = ...,
) -> list[list[str]]: ...
def units(
    caption: str | list[str] | tuple[str, ...],
    *,
    grammar: str = "code",
    legacy: bool = False,
    tagger: str | Tagging = "captious",
    text: Text = "tokens",
    rules: CutRules = RULES,
) -> list[str] | list[list[str]]:
    """Split a caption, or each of many captions, into detail units; many at once are much faster than one by one.

    ``text`` selects how a unit is written: its ``tokens`` joined by spaces, on which SPECS's models have been trained,
    or its ``surface``, the substring of the caption. ``tagger`` is ``captious``, ``spacy``, ``nltk``, or any function
    from tokenized sentences to Penn tags.

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
    parts: list[list[str]] = []
    for one, outlined in zip(captions, _outline_captions(captions, grammar, tagger), strict=True):
        if legacy:
            parts.append(_split_legacy(outlined))
        elif text == "tokens":
            tokens = [token for sentence, _ in outlined for token in sentence.tokens]
            parts.append([" ".join(tokens[start:end]) for start, end in pairwise([0, *_find_ends(outlined, rules)])])
        else:
            parts.append([one[start:stop] for start, stop in _find_spans(outlined, rules)])
    return parts[0] if isinstance(caption, str) else parts


def unit_spans(
    captions: Sequence[str], *, grammar: str = "code", tagger: str | Tagging = "captious", rules: CutRules = RULES
) -> list[list[tuple[int, int]]]:
    """Find the start and stop of each unit in its caption; ``caption[:stop]`` is the caption up to a unit.

    >>> unit_spans(["A dog, with a ball."])
    [[(0, 5), (5, 19)]]
    """
    return [_find_spans(outlined, rules) for outlined in _outline_captions(captions, grammar, tagger)]


def _outline_captions(captions: Sequence[str], grammar: str, tagger: str | Tagging) -> Iterator[Outlined]:
    """Yield the sentences of every caption with their outlines; all captions are tagged at once."""
    tagged = tag_texts(captions, tagger)
    outlines = iter(outline([tags for one in tagged for _, tags in one], grammar))
    return ([(sentence, next(outlines)) for sentence, _ in one] for one in tagged)


def _find_ends(outlined: Outlined, rules: CutRules) -> list[int]:
    """Find the tokens after which a unit ends, counted over all sentences of a caption."""
    ends: list[int] = []
    offset = 0
    for (tokens, _, _), shape in outlined:
        words = len(tokens)
        while words and not any(map(str.isalnum, tokens[words - 1])):
            words -= 1
        if not words and ends:
            ends.pop()  # a sentence of punctuation only belongs to the unit before it
        verb = next((index for index, token in enumerate(tokens) if token in ("is", "are")), len(tokens))
        for segment in _SEGMENT.finditer(shape):
            end = segment.end()
            if end < words and not rules.should_remove_cut(tokens, end, verb, offset == 0):
                ends.append(offset + end)
        offset += len(tokens)
        ends.append(offset)
    return ends


def _find_spans(outlined: Outlined, rules: CutRules) -> list[tuple[int, int]]:
    """Find the start and stop of each unit of a caption."""
    starts = [start for sentence, _ in outlined for start in sentence.starts]
    stops = [stop for sentence, _ in outlined for stop in sentence.stops]
    return [(starts[first], stops[end - 1]) for first, end in pairwise([0, *_find_ends(outlined, rules)])]


def _split_legacy(outlined: Outlined) -> list[str]:
    """Split a caption into units as the original does, which edits one string with bars between the segments.

    Every period in the text ends a sentence, also that of ``3.5``, and no other mark does.
    """
    segments = (
        " ".join(tokens[segment.start() : segment.end()])
        for (tokens, _, _), shape in outlined
        for segment in _SEGMENT.finditer(shape)
    )
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
