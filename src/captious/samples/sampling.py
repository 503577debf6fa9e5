"""Random scenes, each drawn from its own stream of numbers, so that any slice of a sample can be made alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from captious.samples.kinds import COLUMNS, GROUND, GROUPS, KINDS, SETTINGS, SKY, UPON, Kind, colours_of
from captious.samples.scenes import Scene, Thing

FIRST_ID = 1001
PERSON_SHARE = 0.45
STACK_SHARE = 0.6  # of the scenes with a support, those with something on it

_SIZES = ("medium", "medium", "small", "large")
_COUNTS = (1, 1, 1, 1, 2, 2, 3, 4)
_MOST_IN_ALL = 8  # more than this and single things become too small to see
_NAMES = tuple(SETTINGS)
_HERE = {name: tuple(kind for kind in KINDS.values() if name in kind.settings) for name in SETTINGS}
_ON_GROUND = {name: tuple(k for k in kinds if k.row == GROUND and k.name != "person") for name, kinds in _HERE.items()}
_IN_SKY = {name: tuple(k for k in kinds if k.row == SKY) for name, kinds in _HERE.items()}
_COLOURS = {(kind.name, name): colours_of(kind, name) for kind in KINDS.values() for name in SETTINGS}

T = TypeVar("T")


def pick(rng: random.Random, choices: Sequence[T]) -> T:
    """One of `choices`; `random.choice` would do the same at a third of the speed."""
    return choices[int(rng.random() * len(choices))]


def stream(seed: int, item: int, purpose: str) -> random.Random:
    """The random numbers that `purpose` alone may use for one item: seeds by text are the same on every machine.

    >>> stream(0, 1001, "scene").random() == stream(0, 1001, "scene").random()
    True
    """
    return random.Random(f"{seed}/{item}/{purpose}")


def scene(item: int, seed: int = 0) -> Scene:
    """Item number `item` (from 0) of the sample with this seed.

    >>> example = scene(0)
    >>> example.id, example == scene(0), example == scene(0, seed=1)
    (1001, True, False)
    """
    number = FIRST_ID + item
    return random_scene(number, stream(seed, number, "scene"))


def scenes(items: int, seed: int = 0, start: int = 0) -> Iterator[Scene]:
    """Items `start` to `items` - 1, one after another; item k depends on nothing but (seed, k).

    >>> list(scenes(5, seed=3, start=2)) == list(scenes(5, seed=3))[2:]
    True
    """
    return (scene(item, seed) for item in range(start, items))


def random_scene(number: int, rng: random.Random) -> Scene:
    """A scene with one to three things on the ground, none to two above, and sometimes something on a support."""
    setting = pick(rng, _NAMES)
    columns = list(range(COLUMNS))
    rng.shuffle(columns)
    chosen: list[Thing] = []
    if rng.random() < PERSON_SHARE:
        person = _thing(KINDS["person"], setting, columns[0], rng)
        chosen.append(replace(person, group=pick(rng, GROUPS)))
    kinds = rng.sample(_ON_GROUND[setting], pick(rng, (1, 1, 2, 2, 3)))
    for kind, column in zip(kinds, columns[len(chosen) :], strict=False):
        chosen.append(_thing(kind, setting, column, rng))
    support = next((thing for thing in chosen if KINDS[thing.kind].supports), None)
    if support is not None and rng.random() < STACK_SHARE:
        taken = {thing.kind for thing in chosen}
        resting = tuple(kind for kind in _ON_GROUND[setting] if kind.rests and kind.name not in taken)
        if resting:
            chosen[chosen.index(support)] = replace(support, count=1)
            small = _thing(pick(rng, resting), setting, support.column, rng)
            chosen.append(replace(small, row=UPON, count=min(small.count, 2)))
    above = rng.sample(_IN_SKY[setting], pick(rng, (0, 1, 1, 2) if len(chosen) > 1 else (1, 1, 2)))
    for kind, column in zip(above, rng.sample(range(COLUMNS), len(above)), strict=True):
        chosen.append(replace(_thing(kind, setting, column, rng), row=SKY))
    return Scene(number, setting, tuple(_thinned(chosen)))


def _thing(kind: Kind, setting: str, column: int, rng: random.Random) -> Thing:
    count = min(pick(rng, _COUNTS), kind.most)
    return Thing(kind.name, pick(rng, _COLOURS[kind.name, setting]), pick(rng, _SIZES), count, column)


def _thinned(things: Sequence[Thing]) -> Iterator[Thing]:
    room = _MOST_IN_ALL - len(things)
    for thing in things:
        count = 1 + min(thing.count - 1, room)
        room -= count - 1
        yield thing if count == thing.count else replace(thing, count=count)
