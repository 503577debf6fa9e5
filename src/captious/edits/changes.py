"""What an edit changed: a record in words, which is stored as JSON, summarized in a line and marked in both texts.

A record is a dictionary such as ``{"replaced": [["dog", "horse"]]}``, ``{"inserted": ["and a car"]}``,
``{"deleted": ["the"]}``, ``{"doubled": ["dog"]}``, ``{"shuffled": True}`` or ``{"from": "17"}``, the image that the
caption was taken from. ``rewritten`` is a change all over the text, ``instead`` another text in place of the caption.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from captious.render import Phrase, Span


def summarize(done: Mapping[str, Any]) -> str:
    """A record in one line.

    >>> summarize({"replaced": [["dog", "horse"]], "deleted": ["the", "a"]})
    'replaced dog → horse; deleted the, a'
    """
    parts = []
    for name, value in done.items():
        if name == "replaced":
            value = [f"{old} → {new}" for old, new in value]
        parts.append(name if value is True else f"{name} {', '.join(value) if isinstance(value, list) else value}")
    return "; ".join(parts)


def mark(caption: str, edited: str, done: Mapping[str, Any]) -> tuple[Phrase, Phrase]:
    """A caption and what it became: what was taken away is struck out or bad, what was put in is good.

    >>> before, after = mark("a dog", "a cat", {"replaced": [["dog", "cat"]]})
    >>> after.spans[-1]
    Span(text='cat', tone='good', weight=1.0, href='')
    """
    before: dict[str, Span] = {}
    after: dict[str, Span] = {}
    for old, new in done.get("replaced", ()):
        before[old], after[new] = Span(old, "bad"), Span(new, "good")
    for old in done.get("deleted", ()):
        before[old] = Span(old, "struck")
    for new in done.get("inserted", ()):
        after[new] = Span(new, "good")
    for old in done.get("doubled", ()):
        before[old] = after[old] = Span(old, "strong")
    return _mark(caption, before), _mark(edited, after)


def _mark(text: str, words: Mapping[str, Span]) -> Phrase:
    """The text with these words in their tones, wherever they stand as a whole."""
    if not words:
        return Phrase.of(text)
    longest_first = sorted(words, key=len, reverse=True)
    pattern = "|".join(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])" for word in longest_first)
    return Phrase.of(*(words.get(part, part) for part in re.split(f"({pattern})", text) if part))
