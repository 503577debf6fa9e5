"""The catalog: what can stand in a scene, where, in which colors, how many, and by which words it is called."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

SKY, UPON, GROUND = 0, 1, 2  # the three rows of a scene; UPON is on top of a support that stands on the ground
COLUMNS = 3

SIZES: dict[str, tuple[str, ...]] = {"small": ("small", "little", "tiny"), "medium": (), "large": ("large", "big")}
GROUPS = ("a", "b")

_TOYS = "red blue green yellow orange purple pink"
_WOOD = "brown white black red green"


@dataclass(frozen=True)
class Kind:
    """One kind of thing: `words` are (singular, plural) synonyms, `extent` its width and height in picture widths."""

    name: str
    words: tuple[tuple[str, str], ...]
    extent: tuple[float, float]
    colors: tuple[str, ...]
    settings: tuple[str, ...]
    row: int = GROUND
    most: int = 1
    verbs: tuple[str, ...] = ()
    supports: bool = False
    rests: bool = False
    article: str = ""
    usual: str = ""  # the color nobody bothers to mention


def _kind(
    words: str,
    extent: tuple[float, float],
    colors: str,
    settings: str,
    *,
    row: int = GROUND,
    most: int = 1,
    verbs: str = "",
    supports: bool = False,
    rests: bool = False,
    article: str = "",
    usual: str = "",
) -> Kind:
    pairs = tuple((one, many) for one, many in (pair.split("/") for pair in words.split()))
    lists = tuple(colors.split()), tuple(settings.split())
    return Kind(pairs[0][0], pairs, extent, *lists, row, most, tuple(verbs.split()), supports, rests, article, usual)


_FAIR = "field beach street snow"
_ANYWHERE = "field beach street night snow room"
_ALL = [
    _kind("ball/balls", (0.14, 0.14), _TOYS, "field beach street room snow", most=4, rests=True),
    _kind(
        "box/boxes crate/crates", (0.19, 0.17), "red blue green yellow brown", "street room snow", most=3, supports=True
    ),
    _kind("house/houses", (0.26, 0.32), "red blue yellow white pink", "field street night snow", most=2),
    _kind("tree/trees", (0.23, 0.37), "green orange pink", "field street night snow", most=3, usual="green"),
    _kind("car/cars", (0.26, 0.15), "red blue green yellow white", "street night", most=2, verbs="parked"),
    _kind("boat/boats sailboat/sailboats", (0.24, 0.3), "red blue white green yellow", "beach", most=2),
    _kind(
        "cat/cats",
        (0.17, 0.2),
        "black white brown gray orange",
        "field street room night snow",
        most=3,
        verbs="sitting resting",
        rests=True,
    ),
    _kind("dog/dogs", (0.23, 0.19), "black white brown gray", _FAIR + " room", most=3, verbs="standing waiting"),
    _kind("flower/flowers", (0.13, 0.22), "red yellow pink purple white", "field room", most=4, rests=True),
    _kind("umbrella/umbrellas parasol/parasols", (0.26, 0.34), _TOYS, "beach", most=2),
    _kind("table/tables", (0.27, 0.17), _WOOD, "room field", supports=True),
    _kind("bench/benches", (0.27, 0.14), _WOOD, "field street night snow", supports=True),
    _kind("chair/chairs", (0.16, 0.26), _WOOD, "room beach", most=3),
    _kind(
        "person/people", (0.18, 0.38), "red blue green yellow purple black white", _ANYWHERE, verbs="standing waiting"
    ),
    _kind(
        "sun/suns", (0.18, 0.18), "yellow orange red", _FAIR, row=SKY, verbs="shining", article="the", usual="yellow"
    ),
    _kind(
        "moon/moons",
        (0.17, 0.17),
        "white yellow orange",
        "night",
        row=SKY,
        verbs="shining",
        article="the",
        usual="white",
    ),
    _kind("star/stars", (0.14, 0.14), "yellow white pink", "night", row=SKY, most=4, verbs="shining"),
    _kind(
        "cloud/clouds",
        (0.25, 0.14),
        "white gray pink",
        "field beach street",
        row=SKY,
        most=3,
        verbs="floating",
        usual="white",
    ),
    _kind("bird/birds", (0.17, 0.13), "black blue red brown", _FAIR, row=SKY, most=4, verbs="flying"),
    _kind("kite/kites", (0.15, 0.24), _TOYS, "field beach", row=SKY, most=3, verbs="flying"),
    _kind("balloon/balloons", (0.13, 0.22), _TOYS, _ANYWHERE, row=SKY, most=4, verbs="floating"),
    _kind("clock/clocks", (0.18, 0.18), "red blue green black", "room", row=SKY, most=2, verbs="hanging"),
    _kind("lamp/lamps", (0.17, 0.2), "red blue green yellow orange", "room", row=SKY, most=3, verbs="hanging"),
]
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}

PERSON_WORDS: dict[str, tuple[str, ...]] = {"a": ("woman", "lady"), "b": ("man", "guy")}


@dataclass(frozen=True)
class Setting:
    """Where a scene is: the phrases that say so, its plain name, and the colors that would vanish in front of it."""

    phrases: tuple[str, ...]
    name: str
    hides: frozenset[str]


SETTINGS: dict[str, Setting] = {
    "field": Setting(
        ("in a field", "in a grassy field", "on the grass", "in a meadow"), "a grassy field", frozenset({"green"})
    ),
    "beach": Setting(
        ("on the beach", "at the beach", "on a sandy beach", "by the sea"), "a sandy beach", frozenset({"yellow"})
    ),
    "street": Setting(
        ("on the street", "on a city street", "in the street", "in town"), "a city street", frozenset({"gray", "black"})
    ),
    "room": Setting(
        ("in a room", "in a living room", "inside a room", "indoors"), "a living room", frozenset({"brown", "white"})
    ),
    "night": Setting(
        ("at night", "under a night sky", "in the dark", "late at night"),
        "a quiet place at night",
        frozenset({"black", "blue", "purple"}),
    ),
    "snow": Setting(
        ("in the snow", "on a snowy day", "on snowy ground", "in winter"), "a snowy place", frozenset({"white"})
    ),
}


def colors_of(kind: Kind, setting: str) -> tuple[str, ...]:
    """The colors in which `kind` can be told from the background of `setting`.

    >>> colors_of(KINDS["tree"], "field")  # a tree is a darker green than the grass
    ('green', 'orange', 'pink')
    >>> colors_of(KINDS["cat"], "snow")
    ('black', 'brown', 'gray', 'orange')
    """
    hidden = SETTINGS[setting].hides - {kind.usual}
    return tuple(color for color in kind.colors if color not in hidden)


RELATIONS = ("left of", "right of", "above", "below", "next to", "on")


@dataclass(frozen=True, slots=True)
class Thing:
    """One kind of thing in a scene, `count` times side by side; `group` is the attribute label of a person."""

    kind: str
    color: str
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

    >>> from lab.toy.scenes import SKY
    >>> record(Scene(1, "beach", (Thing("kite", "red", row=SKY),)))["things"][0]["color"]
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
_COLORS = {(kind.name, name): colors_of(kind, name) for kind in KINDS.values() for name in SETTINGS}

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
    return Thing(kind.name, pick(rng, _COLORS[kind.name, setting]), pick(rng, _SIZES), count, column)


def _thinned(things: Sequence[Thing]) -> Iterator[Thing]:
    room = _MOST_IN_ALL - len(things)
    for thing in things:
        count = 1 + min(thing.count - 1, room)
        room -= count - 1
        yield thing if count == thing.count else replace(thing, count=count)


HORIZON = 0.62
_FLOOR = 0.93
_SKY_MIDDLE = 0.2
_MARGIN = 0.02
_SCALES = {"small": 0.65, "medium": 0.95, "large": 1.3}
_EMPTY_COLUMN = 0.45  # as wide as this share of a column with one thing


class Box(NamedTuple):
    """Left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float


class Placed(NamedTuple):
    """One thing with a box for each time it is drawn."""

    thing: Thing
    boxes: tuple[Box, ...]


def places(scene: Scene) -> list[Placed]:
    """A box for every single thing; columns are as wide as their fullest row needs, so that counts stay visible.

    >>> scene = Scene(1, "field", (Thing("ball", "red", count=2, column=0), Thing("tree", "green")))
    >>> for thing, boxes in places(scene):
    ...     print(thing.kind, [round(box.left, 2) for box in boxes])
    ball [0.08, 0.32]
    tree [0.56]
    """
    spans = _column_spans(scene)
    on_ground = {thing.column: thing for thing in scene.things if thing.row == GROUND}
    placed = []
    for thing in scene.things:
        width, height = _extent(thing, spans[thing.column])
        left, right = spans[thing.column]
        floor, middle = _FLOOR, (left + right) / 2
        if thing.row == UPON and thing.column in on_ground:
            support_width, support_height = _extent(on_ground[thing.column], spans[thing.column])
            floor -= support_height
            shrink = min(1.0, 0.95 * support_width / thing.count / width)
            width, height = width * shrink, height * shrink
            left, right = middle - support_width / 2, middle + support_width / 2
        step = (right - left) / thing.count
        centers = [left + step * (index + 0.5) for index in range(thing.count)]
        placed.append(Placed(thing, tuple(_box(thing, x, floor, width, height, i) for i, x in enumerate(centers))))
    return placed


def _box(thing: Thing, center: float, floor: float, width: float, height: float, index: int) -> Box:
    if thing.row == SKY:
        hanging = thing.kind == "lamp"
        top = 0.0 if hanging else _SKY_MIDDLE - height / 2 + (0.03 if index % 2 else -0.03) * (thing.count > 1)
    else:
        forward = 0.03 if thing.row == GROUND and index % 2 else 0.0
        top = floor - height + forward
    return Box(center - width / 2, top, center + width / 2, top + height)


def _column_spans(scene: Scene) -> list[tuple[float, float]]:
    fullest = [max((t.count for t in scene.things if t.column == column), default=0) for column in range(COLUMNS)]
    weights = [_EMPTY_COLUMN if count == 0 else (1 + count) / 2 for count in fullest]
    unit = (1 - 2 * _MARGIN) / sum(weights)
    edges = [_MARGIN + unit * sum(weights[:column]) for column in range(COLUMNS + 1)]
    return list(pairwise(edges))


def _extent(thing: Thing, span: tuple[float, float]) -> tuple[float, float]:
    width, height = (side * _SCALES[thing.size] for side in KINDS[thing.kind].extent)
    shrink = min(1.0, 0.84 * (span[1] - span[0]) / thing.count / width)
    return width * shrink, height * shrink
