"""What a picture shows, as plain values: things on a grid of three columns and three rows, and how they relate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from captious.samples.kinds import GROUND, UPON

RELATIONS = ("left of", "right of", "above", "below", "next to", "on")


@dataclass(frozen=True, slots=True)
class Thing:
    """One kind of thing in a scene, `count` times side by side; `group` is the attribute label of a person."""

    kind: str
    colour: str
    size: str = "medium"
    count: int = 1
    column: int = 1
    row: int = GROUND
    group: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """One item of the sample: every kind occurs at most once, so a kind names its thing without doubt."""

    id: int
    setting: str
    things: tuple[Thing, ...]

    @property
    def person(self) -> Thing | None:
        """The person of the scene, where there is one."""
        return next((thing for thing in self.things if thing.kind == "person"), None)


def relations(subject: Thing, other: Thing) -> tuple[str, ...]:
    """Every relation that `subject` has to `other`, read off their cells.

    >>> ball, tree = Thing("ball", "red", column=0), Thing("tree", "green", column=1)
    >>> relations(ball, tree), relations(tree, ball)
    (('left of', 'next to'), ('right of', 'next to'))
    >>> cat, table = Thing("cat", "black", row=UPON), Thing("table", "brown")
    >>> relations(cat, table), relations(table, cat)
    (('on',), ('below',))
    """
    if subject.column != other.column:
        side = "left of" if subject.column < other.column else "right of"
        beside = subject.row == other.row and abs(subject.column - other.column) == 1
        return (side, "next to") if beside else (side,)
    if subject.row == UPON and other.row == GROUND:
        return ("on",)
    return ("above",) if subject.row < other.row else ("below",)


def record(scene: Scene) -> dict[str, Any]:
    """The scene as plain JSON values.

    >>> from captious.samples.kinds import SKY
    >>> record(Scene(1, "beach", (Thing("kite", "red", row=SKY),)))["things"][0]["colour"]
    'red'
    """
    return asdict(scene)


def from_record(values: Mapping[str, Any]) -> Scene:
    """The scene that `record` wrote.

    >>> scene = Scene(1, "beach", (Thing("kite", "red"),))
    >>> from_record(record(scene)) == scene
    True
    """
    return Scene(int(values["id"]), str(values["setting"]), tuple(Thing(**thing) for thing in values["things"]))
