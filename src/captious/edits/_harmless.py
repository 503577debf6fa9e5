"""Edits that a reader does not mind: case, stops, spaces, openings, synonyms, spellings, articles, verb forms."""

from __future__ import annotations

from itertools import pairwise

from captious.edits._words import NUMBERS, PROGRESSIVES, SPELLINGS, SYNONYMS, UNCOUNTED, VERBS
from captious.edits.edit import Draw, Edit, EditedCaption, EditSubject, an

_OPENINGS = ("a photo of", "a picture of", "an image of", "there is", "there are", "this is")
_FINITE = ("VBZ", "VBP", "VBD", "MD")
"""Tags of verbs that make a sentence, before which *a photo of* is no English."""


def capitals(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """The caption in capital letters."""
    return _rewritten(subject, subject.text.upper())


def stop(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """The final stop removed, or one added."""
    text = subject.text.rstrip()
    if not text or (not text[-1].isalnum() and text[-1] != ".") or text.endswith(".."):
        return None
    return (
        EditedCaption(text[:-1], {"deleted": ["."]}) if text[-1] == "." else EditedCaption(f"{text}.", {"added": "."})
    )


def spaces(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """Every space doubled."""
    return _rewritten(subject, "  ".join(subject.text.split()))


def quotes(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """Typographic quotation marks and apostrophes for those of a typewriter."""
    pieces = subject.text.split('"')
    marked = "".join(piece + mark for piece, mark in zip(pieces, ["“", "”"] * len(pieces), strict=False))[:-1]
    return _rewritten(subject, (marked if len(pieces) % 2 else subject.text).replace("'", "’"))


def _rewritten(subject: EditSubject, text: str) -> EditedCaption | None:
    return None if text == subject.text else EditedCaption(text, {"rewritten": True})


def _opened(subject: EditSubject, opening: str) -> EditedCaption | None:
    """The caption with words in front of it; its own first letter becomes small, unless it begins a name."""
    text = subject.text.lstrip()
    finite = any(word.tag in _FINITE for word in subject.words)
    if not subject.words or finite or text.lower().startswith(_OPENINGS):
        return None
    first = subject.words[0]
    name = first.tag.startswith("NNP") or first.text == "I" or (len(first.text) > 1 and first.text.isupper())
    rest = text if name else text[:1].lower() + text[1:]
    opening = opening.capitalize() if text[:1].isupper() else opening
    return EditedCaption(f"{opening} {rest}", {"inserted": [opening]})


def photo_of(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """*A photo of* in front."""
    return _opened(subject, "a photo of")


def there_is(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """*There is* in front of *a*, *there are* in front of a number."""
    first = subject.words[0].low if subject.words else ""
    many = first in (*NUMBERS[1:], "some", "several", "many")
    if first not in ("a", "an", "one") and not many:
        return None
    return _opened(subject, "there are" if many else "there is")


def synonym(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """One noun, verb or adjective replaced by a synonym in the same form."""
    found = [word for word in subject.words if (word.tag[:1], word.low) in SYNONYMS]
    if not found:
        return None
    word = draw.choice(found)
    return subject.replace(word.start, word.stop, SYNONYMS[word.tag[:1], word.low])


def digits(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """A number word as a digit, or a digit as a word."""
    table = {name: str(value) for value, name in enumerate(NUMBERS[1:], 2)}
    table |= {digit: name for name, digit in table.items()}
    return _by_table(subject, draw, table)


def spelling(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """One word in British instead of American spelling, or back."""
    return _by_table(subject, draw, SPELLINGS)


def _by_table(subject: EditSubject, draw: Draw, table: dict[str, str]) -> EditedCaption | None:
    found = [word for word in subject.words if word.low in table]
    if not found:
        return None
    word = draw.choice(found)
    return subject.replace(word.start, word.stop, table[word.low])


def article(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """One *a* as *the*; where there is none, one *the* before a singular noun that can be counted as *a*."""
    words = subject.words
    found = [word for word in words if word.low in ("a", "an") and word.tag == "DT"]
    if found:
        word = draw.choice(found)
        return subject.replace(word.start, word.stop, "the")
    pairs = pairwise(words)
    definite = [
        (word, after) for word, after in pairs if word.low == "the" and after.tag == "NN" and after.low not in UNCOUNTED
    ]
    if not definite:
        return None
    word, after = draw.choice(definite)
    return subject.replace(word.start, word.stop, an(after.text))


def progressive(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
    """*Is running* as *runs*, *are running* as *run*, or *runs* as *is running*."""
    words, found = subject.words, []
    for before, word in pairwise(words):
        if before.low in ("is", "are") and word.low in VERBS:
            third, base = VERBS[word.low]
            found.append((before.start, word.stop, third if before.low == "is" else base))
    found += [
        (word.start, word.stop, f"is {PROGRESSIVES[word.low]}")
        for word in words
        if word.low in PROGRESSIVES and word.tag == "VBZ"
    ]
    return subject.replace(*draw.choice(found)) if found else None


EDITS = (
    Edit("capitals", "harmless", "the caption in capital letters", capitals, "a small letter"),
    Edit("stop", "harmless", "a final stop is added or removed", stop, "a word at the end"),
    Edit("spaces", "harmless", "every space is doubled", spaces, "two words"),
    Edit("quotes", "harmless", "typographic quotation marks", quotes, "a quotation mark"),
    Edit("photo-of", "harmless", '"a photo of" is put in front', photo_of, "a phrase without a finite verb"),
    Edit(
        "there-is", "harmless", '"there is" is put in front', there_is, "a phrase that begins with an article or number"
    ),
    Edit("synonym", "harmless", "a word is replaced by a synonym", synonym, "a word with a synonym"),
    Edit("digits", "harmless", "two becomes 2, or 2 two", digits, "a number"),
    Edit("spelling", "harmless", "American becomes British spelling, or back", spelling, "such a word"),
    Edit("article", "harmless", "a becomes the, or the a", article, "an article"),
    Edit("progressive", "harmless", "is running becomes runs, or back", progressive, "such a verb"),
)
