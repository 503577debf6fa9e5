"""Facts: what a caption can state about a scene, one detail each, so that captions can be checked exactly."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from captious.samples.scenes import Scene, relations

ASPECTS = ("object", "count", "colour", "size", "group", "relation", "setting")


class Fact(NamedTuple):
    """One detail. `Fact("colour", "ball", "red")`, `Fact("relation", "ball", "left of", "tree")`, …"""

    aspect: str
    kind: str
    value: str = ""
    other: str = ""


def salient_facts(scene: Scene) -> frozenset[Fact]:
    """What a careful description mentions: all about every thing, the setting, how the first thing relates to the rest.

    >>> from captious.samples.scenes import Thing
    >>> ball = Scene(1, "field", (Thing("ball", "red", count=2),))
    >>> sorted((fact.aspect, fact.value) for fact in salient_facts(ball))
    [('colour', 'red'), ('count', '2'), ('object', ''), ('setting', 'field')]
    """
    first = scene.things[0]
    facts = {Fact("setting", "", scene.setting)}
    for thing in scene.things:
        facts |= {Fact("object", thing.kind), Fact("count", thing.kind, str(thing.count))}
        facts.add(Fact("colour", thing.kind, thing.colour))
        if thing.size != "medium":
            facts.add(Fact("size", thing.kind, thing.size))
        if thing.group:
            facts.add(Fact("group", thing.kind, thing.group))
        if thing is not first:
            facts.add(Fact("relation", first.kind, relations(first, thing)[0], thing.kind))
    return frozenset(facts)


def all_facts(scene: Scene) -> frozenset[Fact]:
    """Everything true of a scene that the grammar can say: the salient facts and every relation of every pair."""
    related = {
        Fact("relation", thing.kind, relation, other.kind)
        for thing in scene.things
        for other in scene.things
        if other is not thing
        for relation in relations(thing, other)
    }
    return salient_facts(scene) | related


class Verdict(NamedTuple):
    """How the stated facts compare with a scene: counts of right and wrong ones, and of salient ones left out."""

    right: int
    wrong: int
    missed: int

    @property
    def share_right(self) -> float:
        """The share of the stated details that are true (1 where nothing is stated: silence tells no lie)."""
        stated = self.right + self.wrong
        return self.right / stated if stated else 1.0

    @property
    def quality(self) -> float:
        """F½ of truth and coverage: both count, a falsehood weighs more than an omission.

        With P = right / stated and R = right / (right + missed), F½ = 1.25·P·R / (0.25·P + R).

        >>> Verdict(right=4, wrong=0, missed=4).quality  # P = 1, R = 1/2: 0.625 / 0.75
        0.8333333333333334
        """
        # The same formula with the counts multiplied out, which is also defined where nothing is right.
        return 1.25 * self.right / (1.25 * self.right + self.wrong + 0.25 * self.missed or 1.0)


def judge(stated: Collection[Fact], scene: Scene) -> Verdict:
    """Compares stated facts with the scene.

    >>> from captious.samples.scenes import Thing
    >>> scene = Scene(1, "field", (Thing("ball", "red"),))
    >>> judge([Fact("object", "ball"), Fact("colour", "ball", "blue")], scene)
    Verdict(right=1, wrong=1, missed=3)
    """
    said = frozenset(stated)
    right = said & all_facts(scene)
    return Verdict(len(right), len(said - right), len(salient_facts(scene) - said))
