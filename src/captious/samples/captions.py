"""Short captions of a scene, as several people would write them, each with the facts it states."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from captious.samples.facts import Fact
from captious.samples.sampling import pick
from captious.samples.scenes import Scene, Thing, relations
from captious.samples.words import RELATION_WORDS, Phrase, noun_phrase, setting_phrase, verb


class Caption(NamedTuple):
    """A caption and what it claims."""

    text: str
    facts: tuple[Fact, ...]


Say = Callable[[Thing], Phrase]
Frame = Callable[[Scene, "list[Thing]", random.Random, Say], Caption]


def _relation(subject: Thing, other: Thing, rng: random.Random) -> Phrase:
    relation = pick(rng, relations(subject, other))
    return Phrase(pick(rng, RELATION_WORDS[relation]), (Fact("relation", subject.kind, relation, other.kind),))


def _be(phrase: Phrase) -> str:
    return "are" if phrase.plural else "is"


def alone(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """A red ball in a field"""
    one, where = say(things[0]), setting_phrase(scene.setting, rng)
    return Caption(f"{one.text} {where.text}", one.facts + where.facts)


def doing(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """Two birds are flying at the beach"""
    one, where = say(things[0]), setting_phrase(scene.setting, rng)
    return Caption(f"{one.text} {verb(things[0], rng)} {where.text}", one.facts + where.facts)


def existing(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """There is a red ball to the left of a tree"""
    one, two, how = say(things[0]), say(things[1]), _relation(things[0], things[1], rng)
    opening = "there are" if one.plural else pick(rng, ("there is", "there's"))
    return Caption(f"{opening} {one.text} {how.text} {two.text}", one.facts + how.facts + two.facts)


def related(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """A cat is sitting on a brown table in a room"""
    one, two, how = say(things[0]), say(things[1]), _relation(things[0], things[1], rng)
    text = f"{one.text} {verb(things[0], rng) if rng.random() < 0.7 else _be(one)} {how.text} {two.text}"
    if rng.random() < 0.5:
        return Caption(text, one.facts + how.facts + two.facts)
    where = setting_phrase(scene.setting, rng)
    return Caption(f"{text} {where.text}", one.facts + how.facts + two.facts + where.facts)


def photo(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """A photo of a dog next to two trees"""
    opening = pick(rng, ("a photo of", "a picture of", "an image of", "it's a picture of", "you can see"))
    one, two, how = say(things[0]), say(things[1]), _relation(things[0], things[1], rng)
    text = f"{opening} {one.text} {how.text} {two.text}"
    return Caption(text, one.facts + how.facts + two.facts)


def pair(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """A dog and a yellow car on a city street"""
    one, two, where = say(things[0]), say(things[1]), setting_phrase(scene.setting, rng)
    return Caption(f"{one.text} and {two.text} {where.text}", one.facts + two.facts + where.facts)


def place_first(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """On the beach there are two kites and a dog"""
    one, two, where = say(things[0]), say(things[1]), setting_phrase(scene.setting, rng)
    text = f"{where.text}{pick(rng, ('', ','))} there {_be(one)} {one.text} and {two.text}"
    return Caption(text, one.facts + two.facts + where.facts)


def trio(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """A dog, a tree and the sun in a field"""
    said, where = [say(thing) for thing in things[:3]], setting_phrase(scene.setting, rng)
    words = f"{', '.join(phrase.text for phrase in said[:-1])} and {said[-1].text} {where.text}"
    return Caption(words, sum((phrase.facts for phrase in said), ()) + where.facts)


def accompanied(scene: Scene, things: list[Thing], rng: random.Random, say: Say) -> Caption:
    """A house with a tree next to it"""
    one, two, how = say(things[0]), say(things[1]), _relation(things[1], things[0], rng)
    it = "them" if one.plural else "it"
    return Caption(f"{one.text} with {two.text} {how.text} {it}", one.facts + two.facts + how.facts)


FRAMES: tuple[Frame, ...] = (
    doing,
    *(existing, existing, related, related, related),
    *(photo, photo, pair, place_first, trio, trio, accompanied),
)
PLAIN_FRAMES: tuple[Frame, ...] = (alone, doing, pair)


def describe(
    scene: Scene, rng: random.Random, detail: float = 0.65, frames: tuple[Frame, ...] = FRAMES, plain: bool = False
) -> Caption:
    """One caption: a frame, two or three things in some order, and a surface (capital, full stop) as people vary it.

    >>> ball = Scene(1, "field", (Thing("ball", "red", column=0), Thing("house", "blue")))
    >>> describe(ball, random.Random(6)).text
    'a red ball and a house in a grassy field.'
    """
    things = list(scene.things)
    if rng.random() < 0.6:  # else what comes first in the scene, mostly a person, comes first in the caption
        rng.shuffle(things)
    frame = pick(rng, frames)
    if len(things) < 2:
        frame = pick(rng, (alone, doing))
    elif frame is accompanied and things[0].kind == "person":
        frame = related  # "a woman with a dog next to it" is not English
    caption = frame(scene, things, rng, lambda thing: noun_phrase(thing, rng, detail, plain))
    text = caption.text
    if rng.random() < 0.6:
        text = text[0].upper() + text[1:]
    return Caption(text + "." if rng.random() < 0.7 else text, caption.facts)


def references(scene: Scene, rng: random.Random, n: int = 5) -> list[Caption]:
    """`n` captions that differ in more than capitals and full stops.

    >>> two = Scene(1, "beach", (Thing("boat", "red", column=0), Thing("dog", "brown")))
    >>> len({caption.text.lower() for caption in references(two, random.Random(0))})
    5
    """
    found: dict[str, Caption] = {}
    for _ in range(50 * n):
        if len(found) == n:
            break
        caption = describe(scene, rng)
        found.setdefault(caption.text.lower().rstrip("."), caption)
    else:
        raise ValueError(f"scene {scene.id}: the grammar has fewer than {n} different captions for it")
    return list(found.values())
