"""Edits that make a caption worse as text: words shuffled, cut, repeated or left out."""

from __future__ import annotations

from captious.edits._words import FUNCTION_TAGS
from captious.edits.edit import Draw, Edit, EditedCaption, EditSubject
from captious.edits.lexicon import split_chunk
from captious.edits.masks import AUXILIARIES

TRIES = 20
"""Orders that are drawn for one that is new."""
PHRASE = 3
"""The words that are repeated where the caption has no phrase to repeat."""


def shuffle(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """All words in another order; punctuation stays in its place, separate from the words.

    *A.* at the end would be read as an abbreviation.
    """
    parts = [split_chunk(chunk) for chunk in subject.text.split()]
    words = [word for _, word, _ in parts if word]
    for _ in range(TRIES):
        order = draw.order(len(words))
        if [words[place] for place in order] != words:
            moved = iter([words[place] for place in order])
            text = " ".join(
                before + (next(moved) if word else "") + (f" {after}" if after else "") for before, word, after in parts
            )
            return EditedCaption(text, {"shuffled": True})
    return None


def cut(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """The first half of the words."""
    words = subject.words
    if len(words) < 2:
        return None
    stop = words[len(words) // 2 - 1].stop
    return EditedCaption(subject.text[:stop], {"deleted": [subject.text[stop : subject.end].strip()]})


def repeat(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """The last phrase, from the last preposition or verb on, once more for each dose."""
    words = subject.words
    if not words:
        return None
    starts = [place for place, word in enumerate(words[:-1]) if word.tag in ("IN", "TO") or word.tag.startswith("VB")]
    first = starts[-1] if starts else max(0, len(words) - PHRASE)
    phrase = subject.text[words[first].start : words[-1].stop]
    return EditedCaption(subject.append(f" {phrase}" * dose), {"doubled": [phrase]})


def drop_function_words(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """The caption without articles, prepositions, conjunctions, pronouns and auxiliaries."""
    dropped = [
        word
        for word in subject.words
        if word.tag in FUNCTION_TAGS or (word.low in AUXILIARIES and word.tag.startswith("VB"))
    ]
    if not dropped or len(dropped) == len(subject.words):
        return None
    text = subject.text
    for word in reversed(dropped):
        text = text[: word.start] + text[word.stop :].lstrip(" ")
    return EditedCaption(text.strip(), {"deleted": [word.text for word in dropped]})


EDITS = (
    Edit("shuffle", "damage", "all words in another order", shuffle, "two words"),
    Edit("cut", "damage", "the first half of the words", cut, "two words"),
    Edit("repeat", "damage", "the last phrase once more, and again", repeat, "a word", (1, 2, 4)),
    Edit(
        "drop-function-words",
        "damage",
        "articles, prepositions and auxiliaries are deleted",
        drop_function_words,
        "function words and others",
    ),
)
