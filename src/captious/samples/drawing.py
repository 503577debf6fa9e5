"""Pictures of scenes: a background, a shadow under what stands on the ground, and the things in their boxes."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import TYPE_CHECKING

from captious.samples import creatures, objects
from captious.samples.brush import PALETTE, RGB, Brush, Shape, shaded
from captious.samples.kinds import GROUND
from captious.samples.layout import HORIZON, Box, places
from captious.samples.scenes import Scene, Thing

if TYPE_CHECKING:
    from PIL.Image import Image

_OVERSAMPLING = 3
_SHAPES = objects.SHAPES | creatures.SHAPES
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


def draw(scene: Scene, size: int = 160) -> Image:
    """The picture of a scene, `size` pixels square.

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
    for thing, boxes in standing_first:
        if thing.row == GROUND:
            for box in boxes:
                _shadow(whole, box, scene.setting)
        for box in sorted(boxes, key=lambda box: box.bottom):
            _shape(thing)(Brush(canvas, box, pixels), PALETTE[thing.colour])
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
