"""Words for things: noun phrases, numbers, relations, and the facts each of them states."""

from __future__ import annotations

import random
from typing import NamedTuple

from captious.samples.facts import Fact
from captious.samples.kinds import KINDS, PERSON_WORDS, SETTINGS, SIZES
from captious.samples.sampling import pick
from captious.samples.scenes import Thing

NUMBERS: dict[int, tuple[str, ...]] = {
    2: ("two", "two", "a pair of", "a couple of"),
    3: ("three",),
    4: ("four",),
    5: ("five",),
}
VAGUE = ("some", "several")  # more than one, without saying how many
RELATION_WORDS: dict[str, tuple[str, ...]] = {
    "left of": ("to the left of", "left of"),
    "right of": ("to the right of", "right of"),
    "above": ("above", "over", "high above"),
    "below": ("below", "under", "beneath"),
    "next to": ("next to", "beside", "near"),
    "on": ("on", "on top of"),
}
STILL = ("seen", "shown", "placed")  # what is said of things that do nothing
CLOTHING = ("in a {} shirt", "wearing {}", "in a {} top")

_COUNT = {(name, str(n)): Fact("count", name, str(n)) for name in KINDS for n in range(1, 6)}
_OBJECT = {name: Fact("object", name) for name in KINDS}


class Phrase(NamedTuple):
    """Words and the facts they state."""

    text: str
    facts: tuple[Fact, ...]
    plural: bool = False


def with_article(words: str) -> str:
    """`words` after "a" or "an".

    >>> with_article("orange ball"), with_article("cat")
    ('an orange ball', 'a cat')
    """
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"


def noun(kind: str, group: str, rng: random.Random, plural: bool = False) -> str:
    """One of the words for a kind; a person of a known group is called by the words of that group."""
    if group:
        return pick(rng, PERSON_WORDS[group])
    return pick(rng, KINDS[kind].words)[plural]


def noun_phrase(thing: Thing, rng: random.Random, detail: float = 0.6, plain: bool = False) -> Phrase:
    """`thing` in words, colour and size each mentioned with a chance that grows with `detail`.

    >>> noun_phrase(Thing("ball", "orange", "small", 3), random.Random(0), detail=1.0).text
    'three little orange balls'
    >>> noun_phrase(Thing("person", "red", group="a"), random.Random(0), detail=1.0).text
    'a lady in a red shirt'
    """
    kind = KINDS[thing.kind]
    many = thing.count > 1
    facts = [_OBJECT[thing.kind]]
    group = thing.group if rng.random() < 0.9 else ""
    words = kind.words[0][many] if plain and not group else noun(thing.kind, group, rng, many)
    if group:
        facts.append(Fact("group", thing.kind, group))
    tail = ""
    if rng.random() < (detail * 0.3 if thing.colour == kind.usual else detail):
        facts.append(Fact("colour", thing.kind, thing.colour))
        if thing.kind == "person":
            tail = " " + pick(rng, CLOTHING).format(thing.colour)
        else:
            words = f"{thing.colour} {words}"
    if thing.size != "medium" and rng.random() < detail * detail:
        facts.append(Fact("size", thing.kind, thing.size))
        words = f"{pick(rng, SIZES[thing.size])} {words}"
    if many and rng.random() > 0.4 + 0.6 * detail:
        return Phrase(f"{VAGUE[thing.count > 2]} {words}{tail}", tuple(facts), True)
    facts.append(_COUNT[thing.kind, str(thing.count)])
    if many:
        return Phrase(f"{pick(rng, NUMBERS[thing.count])} {words}{tail}", tuple(facts), True)
    return Phrase((f"{kind.article} {words}" if kind.article else with_article(words)) + tail, tuple(facts))


def setting_phrase(setting: str, rng: random.Random) -> Phrase:
    """Where the scene is, e.g. "on the beach"."""
    return Phrase(pick(rng, SETTINGS[setting].phrases), (Fact("setting", "", setting),))


def verb(thing: Thing, rng: random.Random) -> str:
    """Is or are, with what things of this kind do."""
    return f"{'are' if thing.count > 1 else 'is'} {pick(rng, KINDS[thing.kind].verbs or STILL)}"
