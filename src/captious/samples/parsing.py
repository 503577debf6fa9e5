"""Back from words to facts: reads any short caption of the grammar, which is what proves the captions honest."""

from __future__ import annotations

import re

from captious.samples.facts import Fact
from captious.samples.kinds import KINDS, PERSON_WORDS, SETTINGS, SIZES
from captious.samples.words import CLOTHING, NUMBERS, RELATION_WORDS, VAGUE

_SETTING_OF = {phrase: name for name, setting in SETTINGS.items() for phrase in setting.phrases}
_RELATION_OF = {words: name for name, phrases in RELATION_WORDS.items() for words in phrases}
_COUNT_OF = {"a": 1, "an": 1, "the": 1} | {words: n for n, phrases in NUMBERS.items() for words in phrases}
_SIZE_OF = {word: size for size, words in SIZES.items() for word in words}
_KIND_OF = {word: kind.name for kind in KINDS.values() for pair in kind.words for word in pair}
_GROUP_OF = {word: group for group, words in PERSON_WORDS.items() for word in words}
_COLOURS = {colour for kind in KINDS.values() for colour in kind.colours}


def _any(words: object) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))  # type: ignore[call-overload]


_COLOUR = _any(_COLOURS)
_PLACE = re.compile(rf"\b({_any(_SETTING_OF)})\b")
_HOW = re.compile(rf"\b({_any(_RELATION_OF)})\b")
_NOUN_PHRASE = re.compile(
    rf"\b(?P<count>{_any([*_COUNT_OF, *VAGUE])}) (?:(?P<size>{_any(_SIZE_OF)}) )?(?:(?P<colour>{_COLOUR}) )?"
    rf"(?P<noun>{_any([*_KIND_OF, *_GROUP_OF])})\b"
    rf"(?: (?:{'|'.join(form.format(f'(?P<worn{i}>{_COLOUR})') for i, form in enumerate(CLOTHING))}))?"
)
_RELATED = re.compile(r"<(\w+)>(?: (?:is|are)(?: \w+)?)? #([a-z_]+)# <(\w+)>")
_ACCOMPANIED = re.compile(r"<(\w+)> with <(\w+)> #([a-z_]+)# (?:it|them)\b")


def facts_in(caption: str) -> frozenset[Fact]:
    """The facts that a caption states.

    >>> sorted(facts_in("There's a small red ball to the left of two dogs."))
    ... # doctest: +NORMALIZE_WHITESPACE
    [Fact(aspect='colour', kind='ball', value='red', other=''),
     Fact(aspect='count', kind='ball', value='1', other=''),
     Fact(aspect='count', kind='dog', value='2', other=''),
     Fact(aspect='object', kind='ball', value='', other=''),
     Fact(aspect='object', kind='dog', value='', other=''),
     Fact(aspect='relation', kind='ball', value='left of', other='dog'),
     Fact(aspect='size', kind='ball', value='small', other='')]
    """
    facts: set[Fact] = set()

    def place(match: re.Match[str]) -> str:
        facts.add(Fact("setting", "", _SETTING_OF[match[1]]))
        return "@"

    def thing(match: re.Match[str]) -> str:
        facts.update(_facts_of(match))
        return f"<{_kind_of(match['noun'])}>"

    text = _PLACE.sub(place, caption.lower())
    text = _NOUN_PHRASE.sub(thing, text)
    text = _HOW.sub(lambda match: f"#{_RELATION_OF[match[1]].replace(' ', '_')}#", text)
    for subject, how, other in _RELATED.findall(text):
        facts.add(Fact("relation", subject, how.replace("_", " "), other))
    for other, subject, how in _ACCOMPANIED.findall(text):
        facts.add(Fact("relation", subject, how.replace("_", " "), other))
    return frozenset(facts)


def _kind_of(noun: str) -> str:
    return "person" if noun in _GROUP_OF else _KIND_OF[noun]


def _facts_of(match: re.Match[str]) -> set[Fact]:
    kind = _kind_of(match["noun"])
    facts = {Fact("object", kind)}
    if match["noun"] in _GROUP_OF:
        facts.add(Fact("group", kind, _GROUP_OF[match["noun"]]))
    if match["count"] in _COUNT_OF:
        facts.add(Fact("count", kind, str(_COUNT_OF[match["count"]])))
    if match["size"]:
        facts.add(Fact("size", kind, _SIZE_OF[match["size"]]))
    colour = match["colour"] or next((match[f"worn{i}"] for i in range(len(CLOTHING)) if match[f"worn{i}"]), None)
    if colour:
        facts.add(Fact("colour", kind, colour))
    return facts
