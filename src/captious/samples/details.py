"""Long captions made of ordered detail units, and for every unit a wrong version in which one fact is changed."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import NamedTuple

from captious.samples.facts import Fact
from captious.samples.kinds import KINDS, PERSON_WORDS, SETTINGS
from captious.samples.sampling import pick
from captious.samples.scenes import Scene, Thing, relations
from captious.samples.words import NUMBERS, RELATION_WORDS, with_article


class Change(NamedTuple):
    """One changed fact: its aspect, and the words that were replaced by others."""

    aspect: str
    was: str
    now: str


class Unit(NamedTuple):
    """A detail unit: the right words, the facts they state, and the same with one of them changed."""

    text: str
    facts: tuple[Fact, ...]
    wrong_text: str
    wrong_facts: tuple[Fact, ...]
    change: Change


# Not any relation that fails to hold: what is up and to the left may well be called "above".
_OPPOSITES: dict[str, tuple[str, ...]] = {
    "left of": ("right of",),
    "right of": ("left of",),
    "above": ("below",),
    "below": ("above",),
    "next to": ("above", "below"),
    "on": ("below",),
}


def units(scene: Scene, rng: random.Random) -> list[Unit]:
    """The scene in detail units; joined by spaces they are the long caption.

    >>> scene = Scene(1, "beach", (Thing("dog", "brown", count=2, column=0), Thing("boat", "red")))
    >>> for unit in units(scene, random.Random(0)):
    ...     print(f"{unit.text:31} {unit.change.was} -> {unit.change.now}")
    The setting is a sandy beach.   a sandy beach -> a snowy place
    There are two dogs to be seen.  two -> three
    The dogs are brown.             brown -> white
    There is a boat                 a boat -> a car
    to the right of the dogs.       to the right of -> to the left of
    The boat is red.                red -> green
    """
    made = [_setting_unit(scene, rng)]
    for index, thing in enumerate(scene.things):
        before = scene.things[:index]
        made.append(_thing_unit(scene, thing, rng, ends=not before))
        if before:
            made.append(_relation_unit(thing, pick(rng, before), rng))
        made.append(_colour_unit(thing, rng))
        if thing.size != "medium":
            made.append(_size_unit(thing))
    return made


def long_caption(made: list[Unit]) -> str:
    """The units as one text."""
    return " ".join(unit.text for unit in made)


def _unit(text: str, facts: tuple[Fact, ...], wrong_facts: tuple[Fact, ...], change: Change) -> Unit:
    head, found, tail = text.rpartition(change.was)
    if not found:
        raise ValueError(f"cannot change {change.was!r}: it is not in {text!r}")
    return Unit(text, facts, head + change.now + tail, wrong_facts, change)


def _setting_unit(scene: Scene, rng: random.Random) -> Unit:
    other = pick(rng, [name for name in SETTINGS if name != scene.setting])
    change = Change("setting", SETTINGS[scene.setting].name, SETTINGS[other].name)
    opening = pick(rng, ("The picture shows", "This is a view of", "The setting is"))
    right, wrong = Fact("setting", "", scene.setting), Fact("setting", "", other)
    return _unit(f"{opening} {change.was}.", (right,), (wrong,), change)


def _named(thing: Thing) -> str:
    return PERSON_WORDS[thing.group][0] if thing.group else KINDS[thing.kind].words[0][thing.count > 1]


def _counted(thing: Thing) -> str:
    words = _named(thing)
    if thing.count > 1:
        return f"{NUMBERS[thing.count][0]} {words}"
    article = KINDS[thing.kind].article
    return f"{article} {words}" if article else with_article(words)


def _thing_facts(thing: Thing) -> tuple[Fact, ...]:
    facts = (Fact("object", thing.kind), Fact("count", thing.kind, str(thing.count)))
    return (*facts, Fact("group", thing.kind, thing.group)) if thing.group else facts


def _thing_unit(scene: Scene, thing: Thing, rng: random.Random, ends: bool) -> Unit:
    be = "are" if thing.count > 1 else "is"
    text = f"There {be} {_counted(thing)}" + (" to be seen." if ends else "")
    if thing.count > 1 and rng.random() < 0.5:
        other = replace(thing, count=pick(rng, [n for n in (2, 3, 4) if n != thing.count]))
        change = Change("count", NUMBERS[thing.count][0], NUMBERS[other.count][0])
    else:
        taken = {one.kind for one in scene.things} | {"person", "sun", "moon"}
        row = KINDS[thing.kind].row
        kinds = [kind.name for kind in KINDS.values() if kind.row == row and kind.name not in taken]
        other = replace(thing, kind=pick(rng, kinds), group="")
        change = Change("object", _counted(thing), _counted(other))
    return _unit(text, _thing_facts(thing), _thing_facts(other), change)


def _relation_unit(thing: Thing, other: Thing, rng: random.Random) -> Unit:
    relation = pick(rng, relations(thing, other))
    wrong = pick(rng, _OPPOSITES[relation])
    change = Change("relation", RELATION_WORDS[relation][0], RELATION_WORDS[wrong][0])
    text = f"{change.was} the {_named(other)}."
    right_fact, wrong_fact = (Fact("relation", thing.kind, name, other.kind) for name in (relation, wrong))
    return _unit(text, (right_fact,), (wrong_fact,), change)


def _colour_unit(thing: Thing, rng: random.Random) -> Unit:
    colour = pick(rng, [colour for colour in KINDS[thing.kind].colours if colour != thing.colour])
    if thing.kind == "person":
        text = f"The {_named(thing)} is wearing a {thing.colour} shirt."
    else:
        text = f"The {_named(thing)} {'are' if thing.count > 1 else 'is'} {thing.colour}."
    right, wrong = Fact("colour", thing.kind, thing.colour), Fact("colour", thing.kind, colour)
    return _unit(text, (right,), (wrong,), Change("colour", thing.colour, colour))


def _size_unit(thing: Thing) -> Unit:
    other = "large" if thing.size == "small" else "small"
    text = f"{'They are' if thing.count > 1 else 'It is'} {thing.size} in the picture."
    if thing.group:
        text = text.replace("It", f"The {_named(thing)}")
    right, wrong = Fact("size", thing.kind, thing.size), Fact("size", thing.kind, other)
    return _unit(text, (right,), (wrong,), Change("size", thing.size, other))
