"""Edits that make a caption wrong: other objects, colors, numbers, sizes, places, negation, roles exchanged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from captious.edits._words import (
    COLLECTIVES,
    COLOR_NAMES,
    COLORS,
    NUMBERS,
    PLACES,
    PLURALS,
    SIZES,
    SYMMETRIC,
    WITHOUT_ARTICLE,
)
from captious.edits.edit import Draw, Edit, EditedCaption, EditSubject, TaggedWord, an
from captious.edits.wrong_words import draw_any

TRIES = 24
"""Captions of other images that are looked at for one in other words."""


def other_caption(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """The caption of another image."""
    surroundings, own = subject.surroundings, subject.surroundings.corpus_rows[subject.item.id]
    for _ in range(TRIES):
        (source,) = draw_any(surroundings.corpus, np.array([own]), draw.keys).tolist()
        if source < 0:
            return None
        id, text = surroundings.corpus.ids[source], surroundings.corpus.texts[source]
        image = surroundings.images[surroundings.captions.position(id)]
        if image != surroundings.images[subject.index] and _letters(text) != _letters(subject.text):
            return EditedCaption(text, {"from": id})
    return None


def _letters(text: str) -> str:
    """The letters and digits of a text, in lower case."""
    return "".join(filter(str.isalnum, text.lower()))


def replace_object(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """One object replaced by an absent one of the same kind, or a noun by one that is about as frequent."""
    surroundings, index = subject.surroundings, subject.index
    tags = {word.stop: word.tag for word in subject.words}
    options = [
        (mention.start, mention.stop, [_in_number(other, tags.get(mention.stop) == "NNS") for other in others])
        for mention in surroundings.mentions[index]
        if (others := surroundings.siblings(mention.category, index))
    ]
    options = options or [
        (word.start, word.stop, others)
        for word in subject.words
        if word.is_noun and (others := surroundings.similar_nouns(word.low, word.tag, index))
    ]
    if not options:
        return None
    start, stop, others = draw.choice(options)
    return subject.replace(start, stop, draw.choice(others))


def _in_number(noun: str, plural: bool) -> str:
    """A noun in the singular or in the plural.

    >>> _in_number("knife", True), _in_number("tennis racket", True), _in_number("cat", False)
    ('knives', 'tennis rackets', 'cat')
    """
    return PLURALS.get(noun, noun + "s") if plural else noun


def inject(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """The caption with absent objects added; a larger dose adds to a smaller one."""
    absent = subject.surroundings.absent(subject.index)
    if len(absent) < dose or not subject.words:
        return None
    chosen = [absent[place] for place in draw.order(len(absent))[:dose]]
    added = [f"and {name}" if name in WITHOUT_ARTICLE else f"and {an(name)} {name}" for name in chosen]
    return EditedCaption(subject.append("".join(f" {words}" for words in added)), {"inserted": added})


def _among(subject: EditSubject, words: Iterable[str]) -> list[TaggedWord]:
    names = frozenset(words)
    return [word for word in subject.words if word.low in names]


def _other_word(
    subject: EditSubject, draw: Draw, found: Sequence[TaggedWord], others: Sequence[str]
) -> EditedCaption | None:
    """One of the words that were found, replaced by one that no text of the item has."""
    own = subject.surroundings.own_words[subject.index]
    free = [other for other in others if other not in own]
    if not found or not free:
        return None
    word = draw.choice(found)
    return subject.replace(word.start, word.stop, draw.choice(free))


def color(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """One color replaced by another that no text of the item has."""
    colors = [word for word in _among(subject, COLOR_NAMES) if not word.is_noun or word.low != "orange"]
    return _other_word(subject, draw, colors, COLORS)


def number(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """One number from two on replaced by another, written the same way."""
    words = _among(subject, NUMBERS[1:])
    digits = [word for word in subject.words if word.text.isdigit() and 2 <= int(word.text[:4]) <= len(NUMBERS)]
    if words:
        return _other_word(subject, draw, words, NUMBERS[1:])
    return _other_word(subject, draw, digits, [str(number) for number in range(2, len(NUMBERS) + 1)])


def size(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """One size replaced by its opposite."""
    own = subject.surroundings.own_words[subject.index]
    found = [word for word in _among(subject, SIZES) if SIZES[word.low] not in own]
    if not found:
        return None
    word = draw.choice(found)
    return subject.replace(word.start, word.stop, SIZES[word.low])


def place(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """One place replaced by its opposite: left by right, on by under."""
    for words, opposite in PLACES.items():
        found = list(re.finditer(rf"\b{words}\b", subject.text, re.IGNORECASE))
        if found:
            match = draw.choice(found)
            return subject.replace(match.start(), match.end(), opposite)
    return None


def negate(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """One more sentence, which says that an object of the caption is not there."""
    mentions = subject.surroundings.mentions[subject.index]
    stops = {mention.stop for mention in mentions}
    nouns = [word for word in subject.words if word.is_noun]
    nouns = [word for word in nouns if word.stop in stops] or nouns
    if not nouns:
        return None
    noun = draw.choice(nouns)
    sentence = f"There {'are' if noun.tag == 'NNS' else 'is'} no {noun.low}."
    return EditedCaption(subject.append_sentence(sentence), {"inserted": [sentence.rstrip(".")]})


def exchange(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """Two things that stand on both sides of a verb or a place, exchanged."""
    pairs = [pair for pair in pairwise(_noun_phrases(subject.words)) if _exchangeable(subject, *pair)]
    if not pairs:
        return None
    (first, end), (second, last) = draw.choice(pairs)
    words, text = subject.words, subject.text
    one, two = text[words[first].start : words[end - 1].stop], text[words[second].start : words[last - 1].stop]
    front, back = (two[:1].upper() + two[1:], one[:1].lower() + one[1:]) if one[:1].isupper() else (two, one)
    middle = text[words[end - 1].stop : words[second].start]
    edited = text[: words[first].start] + front + middle + back + text[words[last - 1].stop :]
    return EditedCaption(edited, {"replaced": [[one, front], [two, back]]})


def _exchangeable(subject: EditSubject, one: tuple[int, int], two: tuple[int, int]) -> bool:
    """Whether two things that follow each other have a relation with a direction, and the verb fits both."""
    words, between = subject.words, subject.words[one[1] : two[0]]
    marks = subject.text[words[one[1] - 1].stop : words[two[0]].start]
    heads = words[one[1] - 1], words[two[1] - 1]
    before = [word.low for word in words[max(0, one[0] - 2) : one[0]]]
    same_number = heads[0].tag == heads[1].tag or not any(word.tag in ("VBZ", "VBP") for word in between)
    return (
        any(word.tag.startswith("VB") or word.low in PLACES for word in between)
        and not SYMMETRIC & {word.low for word in between}
        and not set(",;.") & set(marks)
        and [word.low for word in words[slice(*one)]] != [word.low for word in words[slice(*two)]]
        and same_number
        and not (before[-1:] == ["of"] and before[0] in COLLECTIVES)
        and heads[0].low not in COLLECTIVES
    )


def _noun_phrases(words: Sequence[TaggedWord]) -> list[tuple[int, int]]:
    """The first word of each run of articles, numbers, adjectives and nouns that ends in a noun, and the word behind.

    Words of place such as *left* and *top* name no thing.
    """
    phrases, first = [], 0
    while first < len(words):
        end = first
        while end < len(words) and words[end].tag in ("DT", "CD", "JJ", "NN", "NNS", "VBG", "PRP$"):
            end += 1
        stop = end
        while stop > first and not words[stop - 1].is_noun:
            stop -= 1
        if stop > first and words[stop - 1].low not in PLACES and words[first].tag != "VBG":
            phrases.append((first, stop))
        first = max(end, first + 1)
    return phrases


EDITS = (
    Edit("other-caption", "harm", "the caption of another image", other_caption, "another image"),
    Edit("replace-object", "harm", "an object is replaced by an absent one of its kind", replace_object, "an object"),
    Edit("inject", "harm", "absent objects are added: and a car", inject, "absent objects", (1, 2, 3, 5)),
    Edit("color", "harm", "a color is replaced by another", color, "a color"),
    Edit("number", "harm", "a number is replaced by another", number, "a number"),
    Edit("size", "harm", "a size is replaced by its opposite", size, "a size"),
    Edit("place", "harm", "left becomes right, on becomes under", place, "a place"),
    Edit("negate", "harm", "a caption with a dog becomes: there is no dog", negate, "a noun"),
    Edit("exchange", "harm", "two things change roles: a dog chases a man", exchange, "two things with a relation"),
)
