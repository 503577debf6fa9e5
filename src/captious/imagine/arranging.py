"""Stated facts to a scene: what is left open is chosen by seed and kind, places so that stated relations hold."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from itertools import product

from captious.samples.facts import Fact
from captious.samples.kinds import COLUMNS, GROUND, GROUPS, KINDS, SETTINGS, SKY, UPON, colours_of
from captious.samples.scenes import Scene, Thing, relations

SIZES = ("medium", "medium", "small", "large")
USUAL = 0.8
"""How often a thing whose colour nobody mentions has the usual one."""
VERTICAL = ("above", "below", "on")
MOST = 5
"""Things in a scene: more would not fit into three columns."""
Cell = tuple[int, int]


def arranged(facts: frozenset[Fact], seed: int) -> Scene:
    """The scene of a seed in which the facts hold.

    >>> facts = frozenset({Fact("object", "cat"), Fact("object", "table"), Fact("relation", "cat", "on", "table")})
    >>> cat, table = arranged(facts, 0).things
    >>> relations(cat, table)
    ('on',)
    """
    said: dict[tuple[str, str], list[str]] = defaultdict(list)
    for fact in sorted(facts):
        said[fact.kind, fact.aspect].append(fact.value)
    kinds = tuple(sorted(fact.kind for fact in facts if fact.aspect == "object"))[:MOST]
    setting = said["", "setting"][0] if said["", "setting"] else _setting(kinds, seed)
    stated = tuple(
        sorted((f.kind, f.value, f.other) for f in facts if f.aspect == "relation" and {f.kind, f.other} <= {*kinds})
    )
    likings = {(kind, column): _draw(seed, kind, f"column {column}").random() for kind in kinds for column in range(3)}
    options = _cells(kinds, stated)
    best = min(
        options, key=lambda cells: sum(likings[kind, column] for kind, (column, _) in zip(kinds, cells, strict=True))
    )
    things = [_thing(kind, setting, said, seed) for kind in kinds]
    placed = (replace(thing, column=cell[0], row=cell[1]) for thing, cell in zip(things, best, strict=True))
    return Scene(0, setting, tuple(placed))


def _draw(seed: int, kind: str, aspect: str) -> random.Random:
    return random.Random(f"{seed}/{kind}/{aspect}")


def _setting(kinds: tuple[str, ...], seed: int) -> str:
    """A setting in which all kinds occur, if there is one."""
    order = sorted(SETTINGS)
    _draw(seed, "", "setting").shuffle(order)
    return max(order, key=lambda name: sum(name in KINDS[kind].settings for kind in kinds))


def _thing(kind: str, setting: str, said: dict[tuple[str, str], list[str]], seed: int) -> Thing:
    """One kind of thing as it is stated, the rest by seed."""
    known = KINDS[kind]

    def choose(aspect: str, choices: tuple[str, ...]) -> str:
        return _draw(seed, kind, aspect).choice(choices)

    if said[kind, "colour"]:
        colour = said[kind, "colour"][0]
    elif known.usual and _draw(seed, kind, "usual").random() < USUAL:
        colour = known.usual
    else:
        colour = choose("colour", colours_of(known, setting) or known.colours)
    size = said[kind, "size"][0] if said[kind, "size"] else choose("size", SIZES)
    if said[kind, "count"]:
        count = int(said[kind, "count"][0])
    else:  # the grammar counts one thing always, so what is not counted is several
        count = int(choose("count", tuple(str(number) for number in range(2, max(known.most, 2) + 1))))
    group = ""
    if kind == "person":
        group = said[kind, "group"][0] if said[kind, "group"] else choose("group", GROUPS)
    return Thing(kind, colour, size, count, group=group)


@lru_cache(maxsize=4096)
def _cells(kinds: tuple[str, ...], stated: tuple[tuple[str, str, str], ...]) -> tuple[tuple[Cell, ...], ...]:
    """All ways of placing kinds that break as few relations as can be, then share as few cells, then fly as little."""
    moved = {kind for subject, how, other in stated if how in VERTICAL for kind in (subject, other)}
    rows = [(SKY, UPON, GROUND) if kind in moved else (KINDS[kind].row,) for kind in kinds]
    found: dict[tuple[int, int, int], list[tuple[Cell, ...]]] = defaultdict(list)
    places = [[(column, row) for column in range(COLUMNS) for row in row_of] for row_of in rows]
    for cells in product(*places):
        things = {kind: Thing(kind, "", column=c, row=r) for kind, (c, r) in zip(kinds, cells, strict=True)}
        broken = sum(how not in relations(things[subject], things[other]) for subject, how, other in stated)
        shared = len(cells) - len({*cells}) + sum(_floats(cell, cells) for cell in cells)
        strange = sum(row != KINDS[kind].row for kind, (_, row) in zip(kinds, cells, strict=True))
        found[broken, shared, strange].append(cells)
    return tuple(found[min(found)])


def _floats(cell: Cell, cells: tuple[Cell, ...]) -> bool:
    """Whether something lies on nothing."""
    return cell[1] == UPON and (cell[0], GROUND) not in cells
