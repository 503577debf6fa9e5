"""Where things of a scene come to lie in the picture: boxes in picture widths, origin at the top left."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from captious.samples.kinds import COLUMNS, GROUND, KINDS, SKY, UPON
from captious.samples.scenes import Scene, Thing

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
        centres = [left + step * (index + 0.5) for index in range(thing.count)]
        placed.append(Placed(thing, tuple(_box(thing, x, floor, width, height, i) for i, x in enumerate(centres))))
    return placed


def _box(thing: Thing, centre: float, floor: float, width: float, height: float, index: int) -> Box:
    if thing.row == SKY:
        hanging = thing.kind == "lamp"
        top = 0.0 if hanging else _SKY_MIDDLE - height / 2 + (0.03 if index % 2 else -0.03) * (thing.count > 1)
    else:
        forward = 0.03 if thing.row == GROUND and index % 2 else 0.0
        top = floor - height + forward
    return Box(centre - width / 2, top, centre + width / 2, top + height)


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
