"""How animals and people are drawn."""

from __future__ import annotations

from captious.samples.brush import HAIR, INK, PALETTE, RGB, SKIN, Brush, Shape, shaded

_TROUSERS: RGB = (70, 82, 110)


def _eye_for(colour: RGB) -> RGB:
    return PALETTE["white"] if colour == PALETTE["black"] else INK


def cat(brush: Brush, colour: RGB) -> None:
    brush.stroke([(0.74, 0.94), (0.94, 0.86), (0.96, 0.62), (0.86, 0.5)], shaded(colour, 0.62), 4)
    brush.stroke([(0.74, 0.93), (0.93, 0.85), (0.95, 0.62), (0.87, 0.52)], colour, 2.4)
    brush.oval(0.16, 0.42, 0.8, 1, colour)
    for x in (0.1, 0.54):
        brush.area([(x, 0.3), (x + 0.04, 0), (x + 0.3, 0.16)] if x < 0.3 else
                   [(x, 0.16), (x + 0.26, 0), (x + 0.3, 0.3)], colour)  # fmt: skip
    brush.oval(0.06, 0.1, 0.88, 0.6, colour)
    for x in (0.26, 0.58):
        brush.oval(x, 0.27, x + 0.1, 0.38, _eye_for(colour), edge=False)
    brush.area([(0.42, 0.42), (0.52, 0.42), (0.47, 0.48)], PALETTE["pink"], edge=False)


def dog(brush: Brush, colour: RGB) -> None:
    brush.stroke([(0.1, 0.46), (0.0, 0.2)], shaded(colour, 0.62), 3.6)
    brush.stroke([(0.1, 0.46), (0.01, 0.22)], colour, 2)
    for x in (0.12, 0.27, 0.5, 0.64):
        brush.block(x, 0.62, x + 0.11, 1, colour)
    brush.oval(0.06, 0.36, 0.8, 0.8, colour)
    brush.oval(0.56, 0.04, 0.94, 0.56, colour)
    brush.oval(0.76, 0.26, 1, 0.54, shaded(colour, 1.15))
    brush.oval(0.92, 0.28, 1, 0.38, INK, edge=False)
    brush.oval(0.56, 0.06, 0.7, 0.46, shaded(colour, 0.72))
    brush.oval(0.76, 0.17, 0.82, 0.25, _eye_for(colour), edge=False)


def bird(brush: Brush, colour: RGB) -> None:
    brush.area([(0.2, 0.56), (0, 0.36), (0.02, 0.74)], colour)
    brush.oval(0.12, 0.34, 0.76, 0.9, colour)
    brush.area([(0.9, 0.38), (1, 0.5), (0.88, 0.56)], PALETTE["orange"], edge=False)
    brush.oval(0.6, 0.2, 0.93, 0.66, colour)
    brush.area([(0.3, 0.6), (0.24, 0), (0.6, 0.5)], shaded(colour, 1.25))
    brush.oval(0.75, 0.32, 0.82, 0.42, PALETTE["white"], edge=False)


def person(brush: Brush, colour: RGB) -> None:
    """A person of group "b": short hair."""
    brush.oval(0.28, 0.0, 0.72, 0.2, HAIR)
    _body(brush, colour)


def person_a(brush: Brush, colour: RGB) -> None:
    """A person of group "a": long hair, and nothing else that differs."""
    brush.oval(0.24, 0.0, 0.76, 0.24, HAIR)
    brush.block(0.24, 0.12, 0.76, 0.37, HAIR)
    _body(brush, colour)


def _body(brush: Brush, colour: RGB) -> None:
    for x in (0.3, 0.52):
        brush.block(x, 0.62, x + 0.18, 0.97, _TROUSERS)
        brush.oval(x - 0.03, 0.93, x + 0.21, 1, INK)
    for shoulder, hand in ((0.28, 0.06), (0.72, 0.94)):
        brush.stroke([(shoulder, 0.38), (hand, 0.58)], shaded(colour, 0.62), 5.4)
        brush.stroke([(shoulder, 0.38), (hand, 0.58)], colour, 3.6)
        brush.oval(hand - 0.08, 0.55, hand + 0.08, 0.63, SKIN)
    brush.area([(0.24, 0.34), (0.76, 0.34), (0.72, 0.68), (0.28, 0.68)], colour)
    brush.oval(0.3, 0.04, 0.7, 0.3, SKIN)
    brush.area([(0.32, 0.13), (0.38, 0.05), (0.62, 0.05), (0.68, 0.13)], HAIR, edge=False)
    for x in (0.4, 0.54):
        brush.oval(x, 0.16, x + 0.06, 0.19, INK, edge=False)
    brush.stroke([(0.44, 0.235), (0.5, 0.25), (0.56, 0.235)], INK)


SHAPES: dict[str, Shape] = {"cat": cat, "dog": dog, "bird": bird, "person": person, "person a": person_a}
