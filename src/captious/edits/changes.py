"""Records of what an edit changed, which are stored as JSON, summarized in a line and marked in both texts.

A record is a dictionary such as ``{"replaced": [["dog", "horse"]]}``, ``{"inserted": ["and a car"]}``,
``{"deleted": ["the"]}``, ``{"doubled": ["dog"]}``, ``{"shuffled": True}`` or ``{"from": "17"}``, the image that the
caption was taken from. ``rewritten`` is a change of the whole text, ``instead`` another text in place of the caption.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from captious.render import Phrase, Span
from captious.render.document import Tone


def summarize(done: Mapping[str, Any]) -> str:
    """Summarize a record in one line.

    >>> summarize({"replaced": [["dog", "horse"]], "deleted": ["the", "a"]})
    'replaced dog → horse; deleted the, a'
    """
    parts = []
    for name, value in done.items():
        if name == "replaced":
            value = [f"{old} → {new}" for old, new in value]
        parts.append(name if value is True else f"{name} {', '.join(value) if isinstance(value, list) else value}")
    return "; ".join(parts)


def mark(caption: str, edited: str, done: Mapping[str, Any], harmful: bool = False) -> tuple[Phrase, Phrase]:
    """Mark the changes in a caption and its edited text: removed words are struck or bad, inserted words are good.

    A word that occurs several times is marked where the texts differ. In a ``harmful`` edit, such as an invented
    object, the new words are the bad ones.

    >>> before, after = mark("a dog on a mat", "a dog on the mat", {"replaced": [["a", "the"]]})
    >>> before.spans[1], after.spans[1]
    (Span(text='a', tone='bad', weight=1.0, href=''), Span(text='the', tone='good', weight=1.0, href=''))
    >>> before.spans[0].text
    'a dog on '
    """
    before: dict[str, Span] = {}
    after: dict[str, Span] = {}
    former: Tone = "strong" if harmful else "bad"
    latter: Tone = "bad" if harmful else "good"
    for old, new in done.get("replaced", ()):
        before[old], after[new] = Span(old, former), Span(new, latter)
    for old in done.get("deleted", ()):
        before[old] = Span(old, "struck")
    for new in done.get("inserted", ()):
        after[new] = Span(new, latter)
    doubled = {old: Span(old, "strong") for old in done.get("doubled", ())}
    if doubled:
        return _mark(caption, doubled), _mark(edited, doubled)
    _, old_ranges, new_ranges = _find_differences(caption, edited)
    return _mark(caption, before, old_ranges), _mark(edited, after, new_ranges)


# (start, stop) of parts of a text, in characters.
TextRanges = Sequence[tuple[int, int]]
# Least similarity of two texts for a list of changes; less similar texts are recorded as rewritten.
ALIKE = 0.5


def find_changes(caption: str, edited: str) -> dict[str, Any]:
    """Find the record of a change, by comparing the words of both texts.

    >>> find_changes("a dog runs on grass", "a cat runs on grass fast")
    {'replaced': [['dog', 'cat']], 'inserted': ['fast']}
    >>> find_changes("a dog", "many people in a street")
    {'rewritten': True}
    """
    record: dict[str, list[Any]] = {"replaced": [], "deleted": [], "inserted": []}
    similarity, *ranges = _find_differences(caption, edited)
    for old, new in [(caption[slice(*one)], edited[slice(*two)]) for one, two in zip(*ranges, strict=True)]:
        if old and new:
            record["replaced"].append([old, new])
        else:
            record["deleted" if old else "inserted"].append(old or new)
    changed = {name: parts for name, parts in record.items() if parts}
    return changed if changed and similarity >= ALIKE else {"rewritten": True}


def _find_differences(one: str, two: str) -> tuple[float, TextRanges, TextRanges]:
    """Return the similarity of two texts, from 0 to 1, and the ranges of each that differ."""
    words = [list(re.finditer(r"\w+|[^\w\s]", text)) for text in (one, two)]
    first_words, second_words = ([word[0] for word in own] for own in words)
    matcher = SequenceMatcher(None, first_words, second_words, autojunk=False)
    changed = [ends for tag, *ends in matcher.get_opcodes() if tag != "equal"]
    first, second = (
        [(own[start].start(), own[end - 1].end()) if end > start else (0, 0) for start, end in parts]
        for own, parts in zip(words, ([ends[:2] for ends in changed], [ends[2:] for ends in changed]), strict=True)
    )
    return matcher.ratio(), first, second


def _mark(text: str, words: Mapping[str, Span], ranges: TextRanges = ()) -> Phrase:
    """Mark these words in a text with their tones, where they are whole words that overlap one of the ranges.

    A word that overlaps no range is marked wherever it occurs.
    """
    if not words:
        return Phrase.of(text)
    longest_first = sorted(words, key=len, reverse=True)
    pattern = "|".join(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])" for word in longest_first)
    matches = list(re.finditer(pattern, text))
    changed = [one for one in matches if any(one.start() < stop and start < one.end() for start, stop in ranges)]
    changed_words = {one[0] for one in changed}
    parts: list[Span | str] = []
    end = 0
    for one in matches:
        if one in changed or one[0] not in changed_words:
            parts += [text[end : one.start()], words[one[0]]]
            end = one.end()
    return Phrase.of(*(part for part in (*parts, text[end:]) if part))
