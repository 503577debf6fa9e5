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
    old_tone: Tone = "strong" if harmful else "bad"
    new_tone: Tone = "bad" if harmful else "good"
    for old, new in done.get("replaced", ()):
        before[old], after[new] = Span(old, old_tone), Span(new, new_tone)
    for old in done.get("deleted", ()):
        before[old] = Span(old, "struck")
    for new in done.get("inserted", ()):
        after[new] = Span(new, new_tone)
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
    similarity, old_ranges, new_ranges = _find_differences(caption, edited)
    for old_range, new_range in zip(old_ranges, new_ranges, strict=True):
        old, new = caption[slice(*old_range)], edited[slice(*new_range)]
        if old and new:
            record["replaced"].append([old, new])
        else:
            record["deleted" if old else "inserted"].append(old or new)
    changed = {name: parts for name, parts in record.items() if parts}
    return changed if changed and similarity >= ALIKE else {"rewritten": True}


def _find_differences(old: str, new: str) -> tuple[float, TextRanges, TextRanges]:
    """Return the similarity of two texts, from 0 to 1, and the ranges of each that differ, (0, 0) if one has none."""
    old_words, new_words = (list(re.finditer(r"\w+|[^\w\s]", text)) for text in (old, new))
    matcher = SequenceMatcher(None, [word[0] for word in old_words], [word[0] for word in new_words], autojunk=False)
    old_ranges, new_ranges = [], []
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            old_ranges.append(_find_range(old_words, old_start, old_end))
            new_ranges.append(_find_range(new_words, new_start, new_end))
    return matcher.ratio(), old_ranges, new_ranges


def _find_range(words: Sequence[re.Match[str]], start: int, end: int) -> tuple[int, int]:
    """Return the characters from word ``start`` to the word before ``end``."""
    return (words[start].start(), words[end - 1].end()) if end > start else (0, 0)


def _mark(text: str, words: Mapping[str, Span], ranges: TextRanges = ()) -> Phrase:
    """Mark these words in a text with their tones, where they are whole words that overlap one of the ranges.

    A word that overlaps no range is marked wherever it occurs.
    """
    if not words:
        return Phrase.of(text)
    longest_first = sorted(words, key=len, reverse=True)
    pattern = "|".join(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])" for word in longest_first)
    matches = list(re.finditer(pattern, text))
    changed = [
        match for match in matches if any(match.start() < stop and start < match.end() for start, stop in ranges)
    ]
    changed_words = {match[0] for match in changed}
    parts: list[Span | str] = []
    end = 0
    for match in matches:
        if match in changed or match[0] not in changed_words:
            parts += [text[end : match.start()], words[match[0]]]
            end = match.end()
    return Phrase.of(*(part for part in (*parts, text[end:]) if part))
