"""The catalogue: what can stand in a scene, where, in which colours, how many, and by which words it is called."""

from __future__ import annotations

from dataclasses import dataclass

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
    colours: tuple[str, ...]
    settings: tuple[str, ...]
    row: int = GROUND
    most: int = 1
    verbs: tuple[str, ...] = ()
    supports: bool = False
    rests: bool = False
    article: str = ""
    usual: str = ""  # the colour nobody bothers to mention


def _kind(
    words: str,
    extent: tuple[float, float],
    colours: str,
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
    lists = tuple(colours.split()), tuple(settings.split())
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
    """Where a scene is: the phrases that say so, its plain name, and the colours that would vanish in front of it."""

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


def colours_of(kind: Kind, setting: str) -> tuple[str, ...]:
    """The colours in which `kind` can be told from the background of `setting`.

    >>> colours_of(KINDS["tree"], "field")  # a tree is a darker green than the grass
    ('green', 'orange', 'pink')
    >>> colours_of(KINDS["cat"], "snow")
    ('black', 'brown', 'gray', 'orange')
    """
    hidden = SETTINGS[setting].hides - {kind.usual}
    return tuple(colour for colour in kind.colours if colour not in hidden)
