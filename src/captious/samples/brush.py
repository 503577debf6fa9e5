"""How each kind of thing is drawn: a few filled shapes inside its box."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from captious.samples.layout import Box

if TYPE_CHECKING:
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


def shaded(colour: RGB, factor: float) -> RGB:
    """Darker below 1, lighter above.

    >>> shaded((100, 200, 40), 0.5), shaded((100, 200, 40), 1.5)
    ((50, 100, 20), (178, 228, 148))
    """
    if factor <= 1:
        red, green, blue = (round(value * factor) for value in colour)
    else:
        red, green, blue = (round(value + (255 - value) * (factor - 1)) for value in colour)
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
        """The width of an outline: thinner on small things, whose colour it would otherwise cover."""
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
