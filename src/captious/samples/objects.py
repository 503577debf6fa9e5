"""How toys, buildings, furniture and what hangs or floats above are drawn."""

from __future__ import annotations

from captious.samples.brush import INK, PALETTE, RGB, WOOD, Brush, Shape, shaded, star_points

_WINDOW: RGB = (172, 216, 240)
_PAPER: RGB = (252, 250, 240)


def ball(brush: Brush, colour: RGB) -> None:
    brush.oval(0, 0, 1, 1, colour)
    brush.oval(0.22, 0.16, 0.46, 0.4, shaded(colour, 1.55), edge=False)


def box(brush: Brush, colour: RGB) -> None:
    brush.block(0, 0, 1, 1, colour)
    brush.block(0, 0, 1, 0.2, shaded(colour, 1.2))
    brush.block(0.42, 0, 0.58, 0.45, shaded(colour, 0.8), edge=False)


def house(brush: Brush, colour: RGB) -> None:
    brush.block(0.72, 0.05, 0.84, 0.35, shaded(WOOD, 0.8))
    brush.block(0.08, 0.42, 0.92, 1, colour)
    brush.area([(0, 0.45), (0.5, 0), (1, 0.45)], shaded(WOOD, 0.95))
    brush.block(0.4, 0.66, 0.6, 1, shaded(WOOD, 0.7))
    for x in (0.17, 0.67):
        brush.block(x, 0.54, x + 0.17, 0.7, _WINDOW)


def tree(brush: Brush, colour: RGB) -> None:
    brush.area([(0.42, 0.55), (0.58, 0.55), (0.63, 1), (0.37, 1)], WOOD)
    for x0, y0, x1, y1 in ((0, 0.25, 0.58, 0.66), (0.42, 0.25, 1, 0.66), (0.16, 0, 0.84, 0.48)):
        brush.oval(x0, y0, x1, y1, colour)
    brush.oval(0.14, 0.3, 0.86, 0.6, colour, edge=False)
    brush.oval(0.3, 0.1, 0.52, 0.24, shaded(colour, 1.3), edge=False)


def car(brush: Brush, colour: RGB) -> None:
    brush.area([(0.2, 0.45), (0.32, 0.02), (0.7, 0.02), (0.84, 0.45)], colour)
    brush.area([(0.3, 0.4), (0.37, 0.12), (0.49, 0.12), (0.49, 0.4)], _WINDOW)
    brush.area([(0.54, 0.4), (0.54, 0.12), (0.66, 0.12), (0.74, 0.4)], _WINDOW)
    brush.area([(0, 0.5), (0.1, 0.4), (0.92, 0.4), (1, 0.52), (1, 0.82), (0, 0.82)], colour)
    for x in (0.13, 0.64):
        brush.oval(x, 0.58, x + 0.24, 1, INK)
        brush.oval(x + 0.08, 0.72, x + 0.16, 0.86, PALETTE["gray"], edge=False)


def boat(brush: Brush, colour: RGB) -> None:
    brush.stroke([(0.48, 0), (0.48, 0.72)], WOOD, 2)
    brush.area([(0.53, 0.02), (0.53, 0.64), (0.95, 0.64)], _PAPER)
    brush.area([(0.43, 0.14), (0.43, 0.64), (0.12, 0.64)], _PAPER)
    brush.area([(0, 0.7), (1, 0.7), (0.82, 1), (0.18, 1)], colour)


def flower(brush: Brush, colour: RGB) -> None:
    stem = shaded(PALETTE["green"], 0.8)
    brush.stroke([(0.5, 0.4), (0.5, 1)], stem, 2.2)
    brush.area([(0.5, 0.9), (0.18, 0.66), (0.26, 0.9)], stem, edge=False)
    brush.area([(0.5, 0.95), (0.84, 0.7), (0.76, 0.94)], stem, edge=False)
    petals = ((0.32, 0.0), (0.62, 0.1), (0.54, 0.28), (0.1, 0.28), (0.02, 0.1))
    for outline, fill in ((0.03, shaded(colour, 0.62)), (0.0, colour)):
        for x, y in petals:
            brush.oval(x - outline, y - outline / 2, x + 0.36 + outline, y + 0.22 + outline / 2, fill, edge=False)
    brush.oval(0.35, 0.17, 0.65, 0.34, PALETTE["orange"] if colour == PALETTE["yellow"] else PALETTE["yellow"])


def umbrella(brush: Brush, colour: RGB) -> None:
    brush.stroke([(0.5, 0.02), (0.5, 1)], WOOD, 2.2)
    brush.area([(0, 0.42), (0.1, 0.2), (0.28, 0.07), (0.5, 0.02), (0.72, 0.07), (0.9, 0.2), (1, 0.42)], colour)
    brush.area([(0.34, 0.42), (0.42, 0.14), (0.5, 0.02), (0.58, 0.14), (0.66, 0.42)], _PAPER)


def table(brush: Brush, colour: RGB) -> None:
    for x in (0.08, 0.82):
        brush.block(x, 0.15, x + 0.1, 1, colour)
    brush.block(0, 0, 1, 0.2, colour)


def bench(brush: Brush, colour: RGB) -> None:
    for x in (0.1, 0.76):
        brush.block(x, 0.3, x + 0.14, 1, shaded(colour, 0.8))
    brush.block(0, 0, 1, 0.5, colour)
    brush.stroke([(0, 0.25), (1, 0.25)], shaded(colour, 0.62))


def chair(brush: Brush, colour: RGB) -> None:
    brush.block(0.02, 0, 0.18, 1, colour)
    brush.block(0.8, 0.6, 0.96, 1, colour)
    brush.block(0.02, 0.5, 1, 0.66, colour)
    brush.block(0.02, 0, 0.3, 0.3, colour)


def sun(brush: Brush, colour: RGB) -> None:
    brush.area(star_points(12, 0.74), shaded(colour, 1.25), edge=False)
    brush.oval(0.16, 0.16, 0.84, 0.84, colour)


def moon(brush: Brush, colour: RGB) -> None:
    brush.oval(0, 0, 1, 1, colour)
    for x, y, r in ((0.24, 0.3, 0.18), (0.58, 0.52, 0.22), (0.5, 0.16, 0.12), (0.3, 0.66, 0.13)):
        brush.oval(x, y, x + r, y + r, shaded(colour, 0.88), edge=False)


def star(brush: Brush, colour: RGB) -> None:
    brush.area(star_points(5, 0.45), colour)


def cloud(brush: Brush, colour: RGB) -> None:
    puffs = ((0, 0.35, 0.42, 1), (0.22, 0, 0.66, 0.9), (0.5, 0.22, 1, 1), (0.18, 0.45, 0.78, 1))
    for x0, y0, x1, y1 in puffs:
        brush.oval(x0, y0, x1, y1, shaded(colour, 0.86), edge=False)
    for x0, y0, x1, y1 in puffs:
        brush.oval(x0 + 0.02, y0 + 0.02, x1 - 0.02, y1 - 0.07, colour, edge=False)


def kite(brush: Brush, colour: RGB) -> None:
    brush.stroke([(0.5, 0.66), (0.4, 0.76), (0.58, 0.86), (0.46, 1)], INK)
    brush.area([(0.5, 0), (1, 0.28), (0.5, 0.68), (0, 0.28)], colour)
    brush.stroke([(0.5, 0), (0.5, 0.68)], shaded(colour, 0.62))
    brush.stroke([(0, 0.28), (1, 0.28)], shaded(colour, 0.62))


def balloon(brush: Brush, colour: RGB) -> None:
    brush.stroke([(0.5, 0.68), (0.42, 0.78), (0.56, 0.88), (0.5, 1)], INK)
    brush.area([(0.5, 0.62), (0.6, 0.73), (0.4, 0.73)], colour)
    brush.oval(0, 0, 1, 0.68, colour)
    brush.oval(0.24, 0.1, 0.44, 0.28, shaded(colour, 1.55), edge=False)


def clock(brush: Brush, colour: RGB) -> None:
    brush.oval(0, 0, 1, 1, colour)
    brush.oval(0.17, 0.17, 0.83, 0.83, _PAPER)
    brush.stroke([(0.5, 0.25), (0.5, 0.5), (0.68, 0.6)], INK, 1.6)


def lamp(brush: Brush, colour: RGB) -> None:
    brush.stroke([(0.5, 0), (0.5, 0.5)], INK, 1.4)
    brush.oval(0.36, 0.76, 0.64, 1, (255, 240, 170))
    brush.area([(0.34, 0.4), (0.66, 0.4), (1, 0.86), (0, 0.86)], colour)


_STANDING = (ball, box, house, tree, car, boat, flower, umbrella, table, bench, chair)
_OVERHEAD = (sun, moon, star, cloud, kite, balloon, clock, lamp)
SHAPES: dict[str, Shape] = {shape.__name__: shape for shape in (*_STANDING, *_OVERHEAD)}
