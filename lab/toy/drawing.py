"""How each kind of thing is drawn: a few filled shapes inside its box."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from lab.toy.scenes import GROUND, HORIZON, Box, Scene, Thing, places

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw


RGB = tuple[int, int, int]
PALETTE: dict[str, RGB] = {
    "red": (214, 48, 49),
    "orange": (240, 136, 32),
    "yellow": (250, 208, 44),
    "green": (52, 148, 72),
    "blue": (44, 104, 208),
    "purple": (130, 70, 180),
    "pink": (242, 128, 176),
    "brown": (132, 84, 48),
    "black": (38, 38, 44),
    "white": (252, 252, 252),
    "gray": (138, 142, 150),
}
SKIN: RGB = (236, 190, 152)
HAIR: RGB = (84, 54, 36)
WOOD: RGB = (116, 78, 48)
INK: RGB = (44, 40, 48)


def shaded(color: RGB, factor: float) -> RGB:
    """Darker below 1, lighter above.

    >>> shaded((100, 200, 40), 0.5), shaded((100, 200, 40), 1.5)
    ((50, 100, 20), (178, 228, 148))
    """
    if factor <= 1:
        red, green, blue = (round(value * factor) for value in color)
    else:
        red, green, blue = (round(value + (255 - value) * (factor - 1)) for value in color)
    return red, green, blue


@dataclass(frozen=True)
class Brush:
    """Draws in coordinates of a box: (0, 0) is its top left corner, (1, 1) its bottom right one."""

    canvas: ImageDraw
    box: Box
    pixels: int

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A point of the box in pixels."""
        left, top, right, bottom = self.box
        return (left + x * (right - left)) * self.pixels, (top + y * (bottom - top)) * self.pixels

    @property
    def pen(self) -> int:
        """The width of an outline: thinner on small things, whose color it would otherwise cover."""
        shorter = min(self.box.right - self.box.left, self.box.bottom - self.box.top)
        return max(1, round(min(0.008, 0.04 * shorter) * self.pixels))

    def oval(self, x0: float, y0: float, x1: float, y1: float, fill: RGB, edge: bool = True) -> None:
        """An ellipse between two corners."""
        ink = shaded(fill, 0.62) if edge else None
        self.canvas.ellipse([self.at(x0, y0), self.at(x1, y1)], fill=fill, outline=ink, width=self.pen if edge else 0)

    def area(self, points: Sequence[tuple[float, float]], fill: RGB, edge: bool = True) -> None:
        """A polygon."""
        corners = [self.at(x, y) for x, y in points]
        self.canvas.polygon(corners, fill=fill)
        if edge:
            self.canvas.line([*corners, *corners[:2]], fill=shaded(fill, 0.62), width=self.pen, joint="curve")

    def block(self, x0: float, y0: float, x1: float, y1: float, fill: RGB, edge: bool = True) -> None:
        """A rectangle between two corners."""
        self.area([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], fill, edge)

    def stroke(self, points: Sequence[tuple[float, float]], fill: RGB, thick: float = 1.0) -> None:
        """A line through points, `thick` outlines wide."""
        self.canvas.line(
            [self.at(x, y) for x, y in points], fill=fill, width=max(1, round(thick * self.pen)), joint="curve"
        )


Shape = Callable[[Brush, RGB], None]


def star_points(tips: int, inner: float) -> list[tuple[float, float]]:
    """The corners of a star that fills the unit box."""
    return [
        (0.5 + radius * math.sin(math.pi * i / tips), 0.5 - radius * math.cos(math.pi * i / tips))
        for i in range(2 * tips)
        for radius in (0.5 if i % 2 == 0 else 0.5 * inner,)
    ]


_TROUSERS: RGB = (70, 82, 110)


def _eye_for(color: RGB) -> RGB:
    return PALETTE["white"] if color == PALETTE["black"] else INK


def cat(brush: Brush, color: RGB) -> None:
    brush.stroke([(0.74, 0.94), (0.94, 0.86), (0.96, 0.62), (0.86, 0.5)], shaded(color, 0.62), 4)
    brush.stroke([(0.74, 0.93), (0.93, 0.85), (0.95, 0.62), (0.87, 0.52)], color, 2.4)
    brush.oval(0.16, 0.42, 0.8, 1, color)
    for x in (0.1, 0.54):
        brush.area([(x, 0.3), (x + 0.04, 0), (x + 0.3, 0.16)] if x < 0.3 else
                   [(x, 0.16), (x + 0.26, 0), (x + 0.3, 0.3)], color)  # fmt: skip
    brush.oval(0.06, 0.1, 0.88, 0.6, color)
    for x in (0.26, 0.58):
        brush.oval(x, 0.27, x + 0.1, 0.38, _eye_for(color), edge=False)
    brush.area([(0.42, 0.42), (0.52, 0.42), (0.47, 0.48)], PALETTE["pink"], edge=False)


def dog(brush: Brush, color: RGB) -> None:
    brush.stroke([(0.1, 0.46), (0.0, 0.2)], shaded(color, 0.62), 3.6)
    brush.stroke([(0.1, 0.46), (0.01, 0.22)], color, 2)
    for x in (0.12, 0.27, 0.5, 0.64):
        brush.block(x, 0.62, x + 0.11, 1, color)
    brush.oval(0.06, 0.36, 0.8, 0.8, color)
    brush.oval(0.56, 0.04, 0.94, 0.56, color)
    brush.oval(0.76, 0.26, 1, 0.54, shaded(color, 1.15))
    brush.oval(0.92, 0.28, 1, 0.38, INK, edge=False)
    brush.oval(0.56, 0.06, 0.7, 0.46, shaded(color, 0.72))
    brush.oval(0.76, 0.17, 0.82, 0.25, _eye_for(color), edge=False)


def bird(brush: Brush, color: RGB) -> None:
    brush.area([(0.2, 0.56), (0, 0.36), (0.02, 0.74)], color)
    brush.oval(0.12, 0.34, 0.76, 0.9, color)
    brush.area([(0.9, 0.38), (1, 0.5), (0.88, 0.56)], PALETTE["orange"], edge=False)
    brush.oval(0.6, 0.2, 0.93, 0.66, color)
    brush.area([(0.3, 0.6), (0.24, 0), (0.6, 0.5)], shaded(color, 1.25))
    brush.oval(0.75, 0.32, 0.82, 0.42, PALETTE["white"], edge=False)


def person(brush: Brush, color: RGB) -> None:
    """A person of group "b": short hair."""
    brush.oval(0.28, 0.0, 0.72, 0.2, HAIR)
    _body(brush, color)


def person_a(brush: Brush, color: RGB) -> None:
    """A person of group "a": long hair, and nothing else that differs."""
    brush.oval(0.24, 0.0, 0.76, 0.24, HAIR)
    brush.block(0.24, 0.12, 0.76, 0.37, HAIR)
    _body(brush, color)


def _body(brush: Brush, color: RGB) -> None:
    for x in (0.3, 0.52):
        brush.block(x, 0.62, x + 0.18, 0.97, _TROUSERS)
        brush.oval(x - 0.03, 0.93, x + 0.21, 1, INK)
    for shoulder, hand in ((0.28, 0.06), (0.72, 0.94)):
        brush.stroke([(shoulder, 0.38), (hand, 0.58)], shaded(color, 0.62), 5.4)
        brush.stroke([(shoulder, 0.38), (hand, 0.58)], color, 3.6)
        brush.oval(hand - 0.08, 0.55, hand + 0.08, 0.63, SKIN)
    brush.area([(0.24, 0.34), (0.76, 0.34), (0.72, 0.68), (0.28, 0.68)], color)
    brush.oval(0.3, 0.04, 0.7, 0.3, SKIN)
    brush.area([(0.32, 0.13), (0.38, 0.05), (0.62, 0.05), (0.68, 0.13)], HAIR, edge=False)
    for x in (0.4, 0.54):
        brush.oval(x, 0.16, x + 0.06, 0.19, INK, edge=False)
    brush.stroke([(0.44, 0.235), (0.5, 0.25), (0.56, 0.235)], INK)


SHAPES: dict[str, Shape] = {"cat": cat, "dog": dog, "bird": bird, "person": person, "person a": person_a}


_WINDOW: RGB = (172, 216, 240)
_PAPER: RGB = (252, 250, 240)


def ball(brush: Brush, color: RGB) -> None:
    brush.oval(0, 0, 1, 1, color)
    brush.oval(0.22, 0.16, 0.46, 0.4, shaded(color, 1.55), edge=False)


def box(brush: Brush, color: RGB) -> None:
    brush.block(0, 0, 1, 1, color)
    brush.block(0, 0, 1, 0.2, shaded(color, 1.2))
    brush.block(0.42, 0, 0.58, 0.45, shaded(color, 0.8), edge=False)


def house(brush: Brush, color: RGB) -> None:
    brush.block(0.72, 0.05, 0.84, 0.35, shaded(WOOD, 0.8))
    brush.block(0.08, 0.42, 0.92, 1, color)
    brush.area([(0, 0.45), (0.5, 0), (1, 0.45)], shaded(WOOD, 0.95))
    brush.block(0.4, 0.66, 0.6, 1, shaded(WOOD, 0.7))
    for x in (0.17, 0.67):
        brush.block(x, 0.54, x + 0.17, 0.7, _WINDOW)


def tree(brush: Brush, color: RGB) -> None:
    brush.area([(0.42, 0.55), (0.58, 0.55), (0.63, 1), (0.37, 1)], WOOD)
    for x0, y0, x1, y1 in ((0, 0.25, 0.58, 0.66), (0.42, 0.25, 1, 0.66), (0.16, 0, 0.84, 0.48)):
        brush.oval(x0, y0, x1, y1, color)
    brush.oval(0.14, 0.3, 0.86, 0.6, color, edge=False)
    brush.oval(0.3, 0.1, 0.52, 0.24, shaded(color, 1.3), edge=False)


def car(brush: Brush, color: RGB) -> None:
    brush.area([(0.2, 0.45), (0.32, 0.02), (0.7, 0.02), (0.84, 0.45)], color)
    brush.area([(0.3, 0.4), (0.37, 0.12), (0.49, 0.12), (0.49, 0.4)], _WINDOW)
    brush.area([(0.54, 0.4), (0.54, 0.12), (0.66, 0.12), (0.74, 0.4)], _WINDOW)
    brush.area([(0, 0.5), (0.1, 0.4), (0.92, 0.4), (1, 0.52), (1, 0.82), (0, 0.82)], color)
    for x in (0.13, 0.64):
        brush.oval(x, 0.58, x + 0.24, 1, INK)
        brush.oval(x + 0.08, 0.72, x + 0.16, 0.86, PALETTE["gray"], edge=False)


def boat(brush: Brush, color: RGB) -> None:
    brush.stroke([(0.48, 0), (0.48, 0.72)], WOOD, 2)
    brush.area([(0.53, 0.02), (0.53, 0.64), (0.95, 0.64)], _PAPER)
    brush.area([(0.43, 0.14), (0.43, 0.64), (0.12, 0.64)], _PAPER)
    brush.area([(0, 0.7), (1, 0.7), (0.82, 1), (0.18, 1)], color)


def flower(brush: Brush, color: RGB) -> None:
    stem = shaded(PALETTE["green"], 0.8)
    brush.stroke([(0.5, 0.4), (0.5, 1)], stem, 2.2)
    brush.area([(0.5, 0.9), (0.18, 0.66), (0.26, 0.9)], stem, edge=False)
    brush.area([(0.5, 0.95), (0.84, 0.7), (0.76, 0.94)], stem, edge=False)
    petals = ((0.32, 0.0), (0.62, 0.1), (0.54, 0.28), (0.1, 0.28), (0.02, 0.1))
    for outline, fill in ((0.03, shaded(color, 0.62)), (0.0, color)):
        for x, y in petals:
            brush.oval(x - outline, y - outline / 2, x + 0.36 + outline, y + 0.22 + outline / 2, fill, edge=False)
    brush.oval(0.35, 0.17, 0.65, 0.34, PALETTE["orange"] if color == PALETTE["yellow"] else PALETTE["yellow"])


def umbrella(brush: Brush, color: RGB) -> None:
    brush.stroke([(0.5, 0.02), (0.5, 1)], WOOD, 2.2)
    brush.area([(0, 0.42), (0.1, 0.2), (0.28, 0.07), (0.5, 0.02), (0.72, 0.07), (0.9, 0.2), (1, 0.42)], color)
    brush.area([(0.34, 0.42), (0.42, 0.14), (0.5, 0.02), (0.58, 0.14), (0.66, 0.42)], _PAPER)


def table(brush: Brush, color: RGB) -> None:
    for x in (0.08, 0.82):
        brush.block(x, 0.15, x + 0.1, 1, color)
    brush.block(0, 0, 1, 0.2, color)


def bench(brush: Brush, color: RGB) -> None:
    for x in (0.1, 0.76):
        brush.block(x, 0.3, x + 0.14, 1, shaded(color, 0.8))
    brush.block(0, 0, 1, 0.5, color)
    brush.stroke([(0, 0.25), (1, 0.25)], shaded(color, 0.62))


def chair(brush: Brush, color: RGB) -> None:
    brush.block(0.02, 0, 0.18, 1, color)
    brush.block(0.8, 0.6, 0.96, 1, color)
    brush.block(0.02, 0.5, 1, 0.66, color)
    brush.block(0.02, 0, 0.3, 0.3, color)


def sun(brush: Brush, color: RGB) -> None:
    brush.area(star_points(12, 0.74), shaded(color, 1.25), edge=False)
    brush.oval(0.16, 0.16, 0.84, 0.84, color)


def moon(brush: Brush, color: RGB) -> None:
    brush.oval(0, 0, 1, 1, color)
    for x, y, r in ((0.24, 0.3, 0.18), (0.58, 0.52, 0.22), (0.5, 0.16, 0.12), (0.3, 0.66, 0.13)):
        brush.oval(x, y, x + r, y + r, shaded(color, 0.88), edge=False)


def star(brush: Brush, color: RGB) -> None:
    brush.area(star_points(5, 0.45), color)


def cloud(brush: Brush, color: RGB) -> None:
    puffs = ((0, 0.35, 0.42, 1), (0.22, 0, 0.66, 0.9), (0.5, 0.22, 1, 1), (0.18, 0.45, 0.78, 1))
    for x0, y0, x1, y1 in puffs:
        brush.oval(x0, y0, x1, y1, shaded(color, 0.86), edge=False)
    for x0, y0, x1, y1 in puffs:
        brush.oval(x0 + 0.02, y0 + 0.02, x1 - 0.02, y1 - 0.07, color, edge=False)


def kite(brush: Brush, color: RGB) -> None:
    brush.stroke([(0.5, 0.66), (0.4, 0.76), (0.58, 0.86), (0.46, 1)], INK)
    brush.area([(0.5, 0), (1, 0.28), (0.5, 0.68), (0, 0.28)], color)
    brush.stroke([(0.5, 0), (0.5, 0.68)], shaded(color, 0.62))
    brush.stroke([(0, 0.28), (1, 0.28)], shaded(color, 0.62))


def balloon(brush: Brush, color: RGB) -> None:
    brush.stroke([(0.5, 0.68), (0.42, 0.78), (0.56, 0.88), (0.5, 1)], INK)
    brush.area([(0.5, 0.62), (0.6, 0.73), (0.4, 0.73)], color)
    brush.oval(0, 0, 1, 0.68, color)
    brush.oval(0.24, 0.1, 0.44, 0.28, shaded(color, 1.55), edge=False)


def clock(brush: Brush, color: RGB) -> None:
    brush.oval(0, 0, 1, 1, color)
    brush.oval(0.17, 0.17, 0.83, 0.83, _PAPER)
    brush.stroke([(0.5, 0.25), (0.5, 0.5), (0.68, 0.6)], INK, 1.6)


def lamp(brush: Brush, color: RGB) -> None:
    brush.stroke([(0.5, 0), (0.5, 0.5)], INK, 1.4)
    brush.oval(0.36, 0.76, 0.64, 1, (255, 240, 170))
    brush.area([(0.34, 0.4), (0.66, 0.4), (1, 0.86), (0, 0.86)], color)


_STANDING = (ball, box, house, tree, car, boat, flower, umbrella, table, bench, chair)
_OVERHEAD = (sun, moon, star, cloud, kite, balloon, clock, lamp)
OBJECTS_SHAPES: dict[str, Shape] = {shape.__name__: shape for shape in (*_STANDING, *_OVERHEAD)}


_OVERSAMPLING = 3
_SHAPES = OBJECTS_SHAPES | SHAPES
_ABOVE: dict[str, tuple[RGB, RGB]] = {  # from the top of the picture to the horizon
    "field": ((150, 206, 244), (222, 240, 250)),
    "beach": ((140, 208, 246), (226, 244, 250)),
    "street": ((186, 204, 224), (232, 236, 240)),
    "room": ((248, 234, 214), (240, 222, 198)),
    "night": ((18, 22, 58), (52, 56, 108)),
    "snow": ((176, 200, 224), (222, 232, 242)),
}
_BELOW: dict[str, tuple[RGB, RGB]] = {
    "field": ((176, 214, 130), (140, 190, 100)),
    "beach": ((246, 228, 184), (236, 212, 160)),
    "street": ((124, 126, 134), (100, 102, 110)),
    "room": ((214, 176, 134), (196, 154, 112)),
    "night": ((44, 66, 66), (32, 48, 52)),
    "snow": ((246, 250, 253), (228, 238, 246)),
}


def draw(scene: Scene, size: int = 160, shifts: Mapping[str, tuple[float, float]] = {}) -> Image:
    """The picture of a scene, `size` pixels square; `shifts` moves things by kind, in picture widths.

    >>> picture = draw(Scene(1, "snow", (Thing("ball", "red", "large"),)))
    >>> picture.size, picture.getpixel((80, 140)) == PALETTE["red"]
    ((160, 160), True)
    """
    from PIL import Image, ImageDraw

    pixels = size * _OVERSAMPLING
    picture = _empty(scene.setting, pixels).copy()
    canvas = ImageDraw.Draw(picture)
    whole = Brush(canvas, Box(0.0, 0.0, 1.0, 1.0), pixels)
    standing_first = sorted(places(scene), key=lambda placed: -placed.thing.row)
    for thing, still in standing_first:
        right, down = shifts.get(thing.kind, (0.0, 0.0))
        boxes = [Box(box.left + right, box.top + down, box.right + right, box.bottom + down) for box in still]
        if thing.row == GROUND:
            for box in boxes:
                _shadow(whole, box, scene.setting)
        for box in sorted(boxes, key=lambda box: box.bottom):
            _shape(thing)(Brush(canvas, box, pixels), PALETTE[thing.color])
    return picture.resize((size, size), Image.Resampling.LANCZOS)


@lru_cache(maxsize=16)
def _empty(setting: str, pixels: int) -> Image:
    """The setting without things, the same for every scene: drawing it is most of the work."""
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", (pixels, pixels))
    _background(Brush(ImageDraw.Draw(picture), Box(0.0, 0.0, 1.0, 1.0), pixels), setting)
    return picture


def _shape(thing: Thing) -> Shape:
    return _SHAPES["person a" if thing.group == "a" else thing.kind]


def _background(whole: Brush, setting: str) -> None:
    _gradient(whole, 0.0, HORIZON, *_ABOVE[setting])
    _gradient(whole, HORIZON, 1.0, *_BELOW[setting])
    specks = random.Random(setting)  # the same tufts, stars or flakes in every picture of a setting
    if setting == "field":
        whole.oval(-0.3, HORIZON - 0.08, 0.6, HORIZON + 0.1, (186, 220, 142), edge=False)
        whole.oval(0.4, HORIZON - 0.05, 1.4, HORIZON + 0.1, (176, 214, 130), edge=False)
        for _ in range(26):
            x, y = specks.random(), HORIZON + 0.06 + 0.32 * specks.random()
            whole.stroke([(x - 0.008, y - 0.02), (x, y), (x + 0.008, y - 0.02)], (118, 172, 84))
    elif setting == "beach":
        _gradient(whole, HORIZON - 0.1, HORIZON + 0.08, (92, 176, 206), (146, 212, 224))
        for i in range(10):
            x, y = specks.random(), HORIZON - 0.08 + 0.014 * i
            whole.stroke([(x - 0.04, y), (x + 0.04, y)], (190, 230, 238))
        whole.stroke([(0.0, HORIZON + 0.08), (1.0, HORIZON + 0.08)], (244, 248, 248), 2)
    elif setting == "street":
        for i in range(7):
            left, top = i / 7, HORIZON - 0.14 - 0.2 * specks.random()
            whole.block(left, top, left + 1 / 7, HORIZON, (208, 212, 222), edge=False)
            whole.block(left, top, left + 1 / 70, HORIZON, (198, 202, 214), edge=False)
        whole.block(0.0, HORIZON, 1.0, HORIZON + 0.08, (206, 202, 196), edge=False)
        for i in range(5):
            whole.block(0.04 + 0.2 * i, 0.8, 0.16 + 0.2 * i, 0.815, (226, 222, 206), edge=False)
    elif setting == "room":
        for i in range(1, 5):
            y = HORIZON + 0.1 * i - 0.02
            whole.stroke([(0.0, y), (1.0, y)], (186, 144, 104))
        whole.block(0.0, HORIZON - 0.025, 1.0, HORIZON, (226, 200, 170), edge=False)
    elif setting == "night":
        for _ in range(40):
            x, y = specks.random(), 0.55 * specks.random()
            whole.oval(x, y, x + 0.006, y + 0.006, (150, 156, 200), edge=False)
        whole.oval(-0.2, HORIZON - 0.06, 0.7, HORIZON + 0.12, (38, 56, 62), edge=False)
    elif setting == "snow":
        whole.oval(-0.2, HORIZON - 0.08, 0.7, HORIZON + 0.12, (238, 244, 250), edge=False)
        for _ in range(46):
            x, y = specks.random(), 0.9 * specks.random()
            whole.oval(x, y, x + 0.011, y + 0.011, (246, 250, 254), edge=False)


def _gradient(whole: Brush, top: float, bottom: float, first: RGB, last: RGB) -> None:
    start, stop = round(top * whole.pixels), round(bottom * whole.pixels)
    for row in range(start, stop):
        share = (row - start) / (stop - start)
        red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, last, strict=True))
        whole.canvas.line([(0, row), (whole.pixels, row)], fill=(red, green, blue))


def _shadow(whole: Brush, box: Box, setting: str) -> None:
    low, lean = box.bottom, 0.04 * (box.right - box.left)
    whole.oval(
        box.left - lean, low - 0.022, box.right + lean, low + 0.018, shaded(_BELOW[setting][1], 0.84), edge=False
    )
