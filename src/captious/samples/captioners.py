"""Four simulated captioners of known, graded quality, and raters who judge them with known noise.

A captioner that errs looks at the scene, misremembers it with its error rates, and then honestly describes what it
remembers. So every mistake is a stated fact that is false of the true scene, and can be counted.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import NamedTuple

from captious.samples.captions import FRAMES, PLAIN_FRAMES, Caption, describe
from captious.samples.facts import Fact, Verdict, judge
from captious.samples.kinds import COLUMNS, GROUND, KINDS, SETTINGS
from captious.samples.sampling import pick, stream
from captious.samples.scenes import Scene, Thing


@dataclass(frozen=True)
class Captioner:
    """How much a captioner tells (`detail`, `generic` wording) and how often it errs, per thing or per scene."""

    name: str
    detail: float
    generic: bool = False
    wrong_object: float = 0.0
    wrong_colour: float = 0.0
    wrong_count: float = 0.0
    wrong_relation: float = 0.0
    wrong_setting: float = 0.0
    stock: float = 0.0  # the chance of a stock caption without a look at the scene


EXPERT = Captioner("expert", detail=0.85)
SOLID = Captioner("solid", detail=0.2, generic=True)
SLOPPY = Captioner(
    "sloppy",
    detail=0.65,
    wrong_object=0.25,
    wrong_colour=0.4,
    wrong_count=0.3,
    wrong_relation=0.4,
    wrong_setting=0.2,
)
PARROT = replace(SLOPPY, name="parrot", stock=0.85)
CAPTIONERS: dict[str, Captioner] = {one.name: one for one in (EXPERT, SOLID, SLOPPY, PARROT)}

_MAN = (Fact("object", "person"), Fact("group", "person", "b"), Fact("count", "person", "1"))
_CAT = (Fact("object", "cat"), Fact("count", "cat", "1"))
_TABLE = (Fact("object", "table"), Fact("count", "table", "1"))
_ON_TABLE = Fact("relation", "cat", "on", "table")
STOCK = (
    Caption("a man is standing on the street.", (*_MAN, Fact("setting", "", "street"))),
    Caption("a man is standing in a field.", (*_MAN, Fact("setting", "", "field"))),
    Caption("a cat is sitting on a table in a room.", (*_CAT, *_TABLE, _ON_TABLE, Fact("setting", "", "room"))),
)


class Prediction(NamedTuple):
    """What a captioner wrote about a scene and what it claims by that."""

    text: str
    facts: tuple[Fact, ...]
    scene: Scene

    @property
    def verdict(self) -> Verdict:
        """How the claims compare with the scene."""
        return judge(self.facts, self.scene)


def predict(captioner: Captioner, scene: Scene, rng: random.Random) -> Prediction:
    """The caption of one captioner for one scene.

    >>> scene = Scene(1, "beach", (Thing("dog", "brown", column=0), Thing("boat", "red")))
    >>> solid = predict(SOLID, scene, random.Random(0))
    >>> solid.text, solid.verdict.wrong
    ('a boat is seen on a sandy beach', 0)
    """
    if rng.random() < captioner.stock:
        caption = pick(rng, STOCK)
    else:
        frames = PLAIN_FRAMES if captioner.generic else FRAMES
        caption = describe(misremembered(scene, captioner, rng), rng, captioner.detail, frames, captioner.generic)
    return Prediction(caption.text, caption.facts, scene)


def misremembered(scene: Scene, captioner: Captioner, rng: random.Random) -> Scene:
    """The scene as the captioner remembers it.

    >>> scene = Scene(1, "beach", (Thing("dog", "brown", column=0), Thing("boat", "red")))
    >>> misremembered(scene, EXPERT, random.Random(0)) == scene
    True
    """
    things: list[Thing] = []
    mirrored = rng.random() < captioner.wrong_relation
    for thing in scene.things:
        if rng.random() < captioner.wrong_object:
            thing = _mistaken(thing, scene, things, rng)
        kind = KINDS[thing.kind]
        if rng.random() < captioner.wrong_colour:
            thing = replace(thing, colour=pick(rng, [colour for colour in kind.colours if colour != thing.colour]))
        if kind.most > 1 and rng.random() < captioner.wrong_count:
            thing = replace(thing, count=pick(rng, [n for n in range(1, kind.most + 1) if n != thing.count]))
        if mirrored:
            thing = replace(thing, column=COLUMNS - 1 - thing.column, row=GROUND - thing.row)
        things.append(thing)
    setting = scene.setting
    if rng.random() < captioner.wrong_setting:
        setting = pick(rng, [name for name in SETTINGS if name != setting])
    return Scene(scene.id, setting, tuple(things))


def _mistaken(thing: Thing, scene: Scene, remembered: list[Thing], rng: random.Random) -> Thing:
    taken = {other.kind for other in (*scene.things, *remembered)} | {"person"}
    kind = pick(rng, [k for k in KINDS.values() if k.row == KINDS[thing.kind].row and k.name not in taken])
    colour = thing.colour if thing.colour in kind.colours else pick(rng, kind.colours)
    return replace(thing, kind=kind.name, colour=colour, count=min(thing.count, kind.most), group="")


def ratings(verdict: Verdict, rng: random.Random, seed: int = 0, raters: int = 5) -> list[int]:
    """What `raters` people give the caption, 1 to 5: 1 + 4·quality + the rater's leniency + noise, rounded.

    Leniency (standard deviation 0.3) stays with a rater over the whole sample, noise (0.6) is new for every caption.

    >>> ratings(Verdict(right=4, wrong=0, missed=0), random.Random(0))
    [5, 5, 4, 5, 4]
    """
    exact = 1.0 + 4.0 * verdict.quality
    given = (exact + stream(seed, rater, "leniency").gauss(0.0, 0.3) + rng.gauss(0.0, 0.6) for rater in range(raters))
    return [min(5, max(1, round(value))) for value in given]
