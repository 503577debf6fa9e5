"""Stated facts to a scene: what is left open is chosen by seed and kind, places so that stated relations hold."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np

from captious._core.files import digest
from captious._core.types import Bools
from captious.models.painters import NOTHING, PaintedBatch, PainterOptions, Prompt
from lab.toy.captions import NUMBERS, VAGUE, Fact, facts_in
from lab.toy.drawing import draw
from lab.toy.scenes import (
    COLUMNS,
    GROUND,
    GROUPS,
    KINDS,
    PERSON_WORDS,
    SETTINGS,
    SKY,
    UPON,
    Scene,
    Thing,
    colors_of,
    relations,
)
from lab.toy.scenes import SIZES as scenes_SIZES

SIZES = ("medium", "medium", "small", "large")
# How often a thing whose color nobody mentions has the usual one.
USUAL = 0.8
VERTICAL = ("above", "below", "on")
# Things in a scene: more would not fit into three columns.
MOST = 5
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

    if said[kind, "color"]:
        color = said[kind, "color"][0]
    elif known.usual and _draw(seed, kind, "usual").random() < USUAL:
        color = known.usual
    else:
        # The aspect seeds the draw: spelled otherwise, every picture would be another one.
        color = choose("colour", colors_of(known, setting) or known.colors)
    size = said[kind, "size"][0] if said[kind, "size"] else choose("size", SIZES)
    if said[kind, "count"]:
        count = int(said[kind, "count"][0])
    else:  # the grammar counts one thing always, so what is not counted is several
        count = int(choose("count", tuple(str(number) for number in range(2, max(known.most, 2) + 1))))
    group = ""
    if kind == "person":
        group = said[kind, "group"][0] if said[kind, "group"] else choose("group", GROUPS)
    return Thing(kind, color, size, count, group=group)


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


SIZE, BATCH = 160, 64
_PLURAL = {many for kind in KINDS.values() for _, many in kind.words}
_NOUNS = {word for kind in KINDS.values() for pair in kind.words for word in pair}
_NOUNS |= {word for words in PERSON_WORDS.values() for word in words}
_COLORS = {color for kind in KINDS.values() for color in kind.colors}
_SMALL_WORDS = {"in", "a", "on", "the", "at", "by", "under", "late", "inside", "sky", "ground", "day", "living"}
_SETTING_WORDS = {
    word: name
    for name, setting in SETTINGS.items()
    for phrase in setting.phrases
    for word in phrase.split()
    if word not in _SMALL_WORDS
}


def _any(words: set[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_COUNTS = {"a", "an", "the", *VAGUE, *(words for phrases in NUMBERS.values() for words in phrases)}
_COUNTED = re.compile(rf"\b({_any(_COUNTS)})$")
_THING = re.compile(
    rf"\b(?:(?:{_any({word for words in scenes_SIZES.values() for word in words})}) )?(?:(?:{_any(_COLORS)}) )?"
    rf"({_any(_NOUNS)})\b"
)


# As ``imagine(painter=...)`` writes it. Only captious-mini can judge its pictures.
NAME = "lab.toy.painter:drawn"


def drawn(options: PainterOptions) -> Drawn:
    """The painter with these options, of which it has the size."""
    options.refuse(NAME, "size")
    return Drawn.of(options.size)


@dataclass(frozen=True)
class Drawn:
    """Draws captions of the sample's grammar, ``size`` pixels square, offline.

    >>> painter = Drawn.of(32)
    >>> next(painter.paint([Prompt("a red ball in the snow", 0), Prompt("to be or not to be", 0)])).codes.tolist()
    [0, 3]
    """

    size: int
    fingerprint: str
    name: str = "drawn"
    cache_pictures: bool = False
    """A picture is drawn sooner than it is read from a disk."""

    @classmethod
    def of(cls, size: int | None = None) -> Drawn:
        """The painter of a size."""
        side = size or SIZE
        return cls(side, digest(_sources(), str(side).encode()))

    @property
    def settings(self) -> str:
        """Its size."""
        return f"size={self.size}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Square."""
        return (self.size, self.size, 3)

    def exceeds_limit(self, texts: Sequence[str]) -> Bools:
        """None: a caption is read whole."""
        return np.zeros(len(texts), np.bool_)

    def paint(self, prompts: Sequence[Prompt]) -> Iterator[PaintedBatch]:
        """Draw scenes; a text of which nothing is understood has none."""
        for start in range(0, len(prompts), BATCH):
            part = prompts[start : start + BATCH]
            pixels = np.zeros((len(part), *self.shape), np.uint8)
            codes = np.zeros(len(part), np.int32)
            for place, prompt in enumerate(part):
                scene = scene_of(prompt.text, prompt.seed)
                if scene is None:
                    codes[place] = NOTHING
                else:
                    pixels[place] = np.asarray(draw(scene, self.size))
            yield PaintedBatch(list(range(start, start + len(part))), pixels, codes)


def scene_of(text: str, seed: int = 0) -> Scene | None:
    """A scene in which everything holds that a caption states; None where it states nothing.

    A caption of a setting alone is that setting without things. Where statements exclude each other, such as a kite
    above and below the same tree, most of them hold.

    >>> scene_of("two red balls to the left of a tree").things[0].count
    2
    >>> scene_of("to be or not to be") is None
    True
    """
    facts = stated(text)
    return arranged(facts, seed) if facts else None


@lru_cache(maxsize=4096)
def stated(text: str) -> frozenset[Fact]:
    """The facts of a caption, read more freely than the grammar: a noun needs no article, a setting may be one word.

    >>> sorted(fact.value for fact in stated("red ball left of dog, street") if fact.value)
    ['1', '1', 'left of', 'red', 'street']
    """
    facts = facts_in(_with_articles(" ".join(text.lower().split())))
    if not any(fact.aspect == "setting" for fact in facts):
        known = (_SETTING_WORDS.get(word) for word in re.findall(r"[a-z]+", text.lower()))
        facts |= {Fact("setting", "", name) for name in list(filter(None, known))[:1]}
    return facts


def _with_articles(text: str) -> str:
    """Every noun counted: "red ball" to "a red ball", "dogs" to "some dogs".

    >>> _with_articles("red ball near two dogs and birds")
    'a red ball near two dogs and some birds'
    """

    def counted(match: re.Match[str]) -> str:
        if _COUNTED.search(text[: match.start()].rstrip()):
            return match[0]
        return f"{'some' if match[1] in _PLURAL else 'a'} {match[0]}"

    return _THING.sub(counted, text)


@lru_cache(maxsize=1)
def _sources() -> bytes:
    """The code that draws: when it changes, pictures do."""
    import PIL

    folder = Path(__file__).parent
    paths = [folder / f"{name}.py" for name in ("captions", "drawing", "painter", "scenes")]
    return PIL.__version__.encode() + b"".join(path.read_bytes() for path in paths)
