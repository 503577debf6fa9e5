"""Scene graphs as SVG: objects in a row, attributes as chips beneath them, relations as labelled arrows above.

The layout is computed once, here. The page's script draws the same shapes for the items of its explorer, where words
must be written as text and never as markup.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

from captious.render._charts import cut_name
from captious.render.document import Graph, Statement

# ("rect", class, x, y, width, height, radius), ("text", class, x, y, words), ("path" or "polygon", class, points).
Shape = tuple[Any, ...]
# Heights of an object and of a chip, the distance of arrows one above another, and of their ends on an object.
NODE, CHIP, LEVEL, PORT = 30, 22, 30, 15
GAP, CORNER, MARGIN = 26, 9, 4
NODE_FONT, FONT = 14.0, 12.0
# Longest label, in letters.
LETTERS = 28
# Largest number of objects, attributes per object and relations that are drawn; the lists of tuples have all of them.
OBJECTS, CHIPS, ARROWS = 30, 8, 60


class Drawing(NamedTuple):
    """Shapes and the size of the area they cover."""

    width: float
    height: float
    shapes: list[Shape]


class _Arrow(NamedTuple):
    source: int
    target: int
    label: str
    tone: str

    @property
    def ends(self) -> tuple[int, int]:
        return min(self.source, self.target), max(self.source, self.target)


def draw_graph(graph: Graph) -> str:
    """Return the graph as an SVG element."""
    width, height, shapes = lay_out_graph(graph)
    label = escape("; ".join(format_tuple(one.parts) for one in graph.statements) or "no tuples")
    body = "".join(map(_format_element, shapes))
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    return f'<svg class="scene" {size} role="img" aria-label="{label}">{body}</svg>'


def _format_element(shape: Shape) -> str:
    tag, name, *rest = shape
    if tag == "text":
        x, y, text = rest
        return f'<text class="{name}" x="{x:g}" y="{y:g}" text-anchor="middle">{escape(text)}</text>'
    if tag == "rect":
        x, y, width, height, radius = rest
        return f'<rect class="{name}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"/>'
    attribute = "d" if tag == "path" else "points"
    return f'<{tag} class="{name}" {attribute}="{rest[0]}"/>'


def format_tuple(parts: Sequence[str]) -> str:
    """Format a tuple as papers do.

    >>> format_tuple(("man", "ride", "horse"))
    '(man, ride, horse)'
    """
    return f"({', '.join(parts)})"


def group_tuples(graph: Graph) -> dict[str, list[str]]:
    """Group the tuples into matched, wrong and missed; without a comparison, all of them are ``said``."""
    by_mark = {mark: [format_tuple(one.parts) for one in graph.statements if one.matched is mark] for mark in MARKS}
    groups = {MARKS[mark]: tuples for mark, tuples in by_mark.items() if tuples}
    return {**groups, "missed": [format_tuple(parts) for parts in graph.missed]} if graph.missed else groups


MARKS = {True: "matched", False: "wrong", None: "said"}


def lay_out_graph(graph: Graph) -> Drawing:
    """Compute the position of every object, attribute and arrow."""
    names, hidden = _order_objects(graph.statements)
    tones = {one.parts[0]: MARKS[one.matched] for one in graph.statements if len(one.parts) == 1}
    chips: list[list[tuple[str, str]]] = [[] for _ in names]
    arrows: list[_Arrow] = []
    positions = {name: position for position, name in enumerate(names)}
    for parts, mark in graph.statements:
        if len(parts) == 2 and parts[0] in positions:
            chips[positions[parts[0]]].append((cut_name(parts[1], LETTERS), MARKS[mark]))
        elif len(parts) == 3 and parts[0] in positions and parts[2] in positions and len(arrows) < ARROWS:
            label = cut_name(parts[1], LETTERS)
            arrows.append(_Arrow(positions[parts[0]], positions[parts[2]], label, MARKS[mark]))
    chips = [
        labels[:CHIPS] + ([(f"+{len(labels) - CHIPS}", "said")] if len(labels) > CHIPS else []) for labels in chips
    ]
    shown = [cut_name(name, LETTERS) for name in names]
    ends = _order_ports(len(names), arrows, levels := _compute_levels(arrows))
    boxes = [
        max(_measure_text(name, NODE_FONT) + 24, PORT * (len(ports) + 1))
        for name, ports in zip(shown, ends, strict=True)
    ]
    centers = _compute_centers(boxes, chips, arrows)
    top = MARGIN + (LEVEL * (max(levels) + 1) + 4 if levels else 0)
    shapes: list[Shape] = []
    feet = [
        [
            centers[position] + PORT * (ends[position].index((number, side)) - (len(ends[position]) - 1) / 2)
            for side, position in enumerate((arrow.source, arrow.target))
        ]
        for number, arrow in enumerate(arrows)
    ]
    for arrow, level, (start, end) in zip(arrows, levels, feet, strict=True):
        above = [x for pair, other in zip(feet, levels, strict=True) if other > level for x in pair]
        shapes += _draw_arrow(arrow, start, end, above, top - LEVEL * (level + 0.7) - 3, top)
    for name, center, box, labels in zip(names, centers, boxes, chips, strict=True):
        tone = tones.get(name, "said")
        shapes.append(("rect", f"node {tone}", _round(center - box / 2), _round(top), _round(box), NODE, 8))
        shapes.append(("text", f"node {tone}", _round(center), _round(top + 20), cut_name(name, LETTERS)))
        for row, (label, kind) in enumerate(labels):
            y, width = top + NODE + 6 + row * (CHIP + 4), _measure_text(label, FONT) + 18
            shapes.append(
                ("rect", f"chip {kind}", _round(center - width / 2), _round(y), _round(width), CHIP, CHIP / 2)
            )
            shapes.append(("text", f"chip {kind}", _round(center), _round(y + 15), label))
    width = max(
        (center + _compute_half_width(box, labels) for center, box, labels in zip(centers, boxes, chips, strict=True)),
        default=0,
    )
    if hidden:
        text = f"and {hidden} more objects"
        shapes.append(
            ("text", "chip more", _round(width + GAP + _measure_text(text, FONT) / 2), _round(top + 20), text)
        )
        width += GAP + _measure_text(text, FONT)
    height = top + NODE + max((6 + len(labels) * (CHIP + 4) for labels in chips if labels), default=0)
    return Drawing(_round(width + MARGIN), _round(height + MARGIN), shapes)


def _order_objects(statements: Sequence[Statement]) -> tuple[list[str], int]:
    """Order objects from left to right, each followed by its relations' targets; return also how many are not drawn."""
    after: dict[str, list[str]] = {}
    targets = set()
    for parts, _ in statements:
        following = after.setdefault(parts[0], [])
        if len(parts) == 3:
            after.setdefault(parts[2], [])
            following.append(parts[2])
            targets.add(parts[2])
    order: dict[str, None] = {}
    isolated = [name for name, following in after.items() if not following and name not in targets]
    roots = [name for name, following in after.items() if following and name not in targets]
    for root in (*roots, *(name for name in after if name not in isolated), *isolated):
        stack = [root]
        while stack:
            name = stack.pop()
            if name not in order:
                order[name] = None
                # Targets without relations of their own come first, which keeps arrows short.
                stack += sorted(after[name], key=lambda one: len(after[one]))[::-1]
    names = list(order)[:OBJECTS]
    links = {frozenset((parts[0], parts[2])) for parts, _ in statements if len(parts) == 3 and parts[0] != parts[2]}
    return _swap_neighbors(names, [(one, other) for one, other in map(sorted, links)]), len(order) - len(names)


def _swap_neighbors(names: list[str], links: Sequence[tuple[str, str]]) -> list[str]:
    """Swap neighbors in the order as long as that makes the arrows shorter."""
    position = {name: number for number, name in enumerate(names)}
    neighbors: dict[str, list[str]] = {name: [] for name in names}
    for one, other in links:
        if one in position and other in position:
            neighbors[one].append(other)
            neighbors[other].append(one)

    def pull(name: str) -> int:
        """Return how many more arrows lead right than left."""
        return sum(1 if position[other] > position[name] else -1 for other in neighbors[name])

    for _ in names:
        swapped = False
        for number in range(1, len(names)):
            left, right = names[number - 1], names[number]
            # The arrow between the two does not change, and counts for both.
            if pull(left) - pull(right) > 2 * (right in neighbors[left]):
                names[number - 1], names[number] = right, left
                position[left], position[right] = number, number - 1
                swapped = True
        if not swapped:
            break
    return names


def _compute_levels(arrows: Sequence[_Arrow]) -> list[int]:
    """Compute the height level of each arrow: shorter ones below, and no two that overlap on one level."""
    levels = [0] * len(arrows)
    placed: list[int] = []
    for number in sorted(range(len(arrows)), key=lambda one: arrows[one].ends[1] - arrows[one].ends[0]):
        low, high = arrows[number].ends
        for other in placed:
            start, end = arrows[other].ends
            loop = start == end or low == high
            if (low <= end and start <= high) if loop else (max(low, start) < min(high, end)):
                levels[number] = max(levels[number], levels[other] + 1)
        placed.append(number)
    return levels


def _order_ports(objects: int, arrows: Sequence[_Arrow], levels: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Order the ends of arrows on each object from left to right so that they do not cross.

    An end is the number of its arrow, and 0 for the source or 1 for the target.
    """
    ends: list[list[tuple[int, int, int, int]]] = [[] for _ in range(objects)]
    for number, arrow in enumerate(arrows):
        for side, (position, other) in enumerate(((arrow.source, arrow.target), (arrow.target, arrow.source))):
            # First those that leave to the left, the highest last; then those to the right, the highest first.
            direction = (other > position) - (other < position)
            height = -levels[number] if direction > 0 else levels[number]
            ends[position].append((direction, height, side if direction == 0 else 0, 2 * number + side))
    return [[divmod(end[3], 2) for end in sorted(own)] for own in ends]


def _compute_centers(
    boxes: Sequence[float], chips: Sequence[Sequence[tuple[str, str]]], arrows: Sequence[_Arrow]
) -> list[float]:
    """Compute the x center of each object: no two touch, and each arrow's label fits between its ends."""
    loops = [
        max(
            (_measure_text(arrow.label, FONT) / 2 + 12 for arrow in arrows if arrow.ends == (position, position)),
            default=0.0,
        )
        for position in range(len(boxes))
    ]
    halves = [max(_compute_half_width(box, own), loop) for box, own, loop in zip(boxes, chips, loops, strict=True)]
    centers: list[float] = []
    for position, half in enumerate(halves):
        center = MARGIN + half if not centers else centers[-1] + halves[position - 1] + half + GAP
        for arrow in arrows:
            low, high = arrow.ends
            if high == position and low < position:
                distance = _measure_text(arrow.label, FONT) + 4 * CORNER + (boxes[low] + boxes[high]) / 2
                center = max(center, centers[low] + distance)
        centers.append(center)
    return centers


def _compute_half_width(box: float, chips: Sequence[tuple[str, str]]) -> float:
    return max([box, *(_measure_text(label, FONT) + 18 for label, _ in chips)]) / 2


def _draw_arrow(
    arrow: _Arrow, start: float, end: float, above: Sequence[float], y: float, bottom: float
) -> Iterator[Shape]:
    """Yield the shapes of an arrow: up from its source, along, and down to its target, with a gap for the label."""
    way = 1 if end > start else -1
    half = _measure_text(arrow.label, FONT) / 2 + 3
    turn, tip, tone = way * CORNER, bottom - 2, arrow.tone
    gap = min(half, abs(end - start) / 2 - CORNER)
    middle = _place_label(min(start, end) + CORNER, max(start, end) - CORNER, above, half)
    #      ╭── label ──╮
    # rise │           │ fall
    #    start         end
    left, right, level, below = _round(start), _round(end), _round(y), _round(y + CORNER)
    rise = f"M{left} {_round(bottom)}V{below}Q{left} {level} {_round(start + turn)} {level}"
    fall = f"H{_round(end - turn)}Q{right} {level} {right} {below}V{_round(tip - 6)}"
    # The label of a loop is wider than the loop and is written above it.
    if gap < half:
        yield "path", tone, f"{rise}{fall}"
        yield "text", f"label {tone}", _round(middle), _round(y - 4), arrow.label
    else:
        yield "path", tone, f"{rise}H{_round(middle - way * gap)}M{_round(middle + way * gap)} {level}{fall}"
        yield "text", f"label {tone}", _round(middle), _round(y + 4), arrow.label
    yield (
        "polygon",
        tone,
        f"{_round(end - 4)},{_round(tip - 7)} {_round(end + 4)},{_round(tip - 7)} {right},{_round(tip)}",
    )


def _place_label(low: float, high: float, crossings: Sequence[float], half: float) -> float:
    """Return the x position of a label: near the middle, and not on a line that comes down from above."""
    middle = (low + high) / 2
    edges = [low, *sorted(x for x in crossings if low < x < high), high]
    spaces = [(a, b) for a, b in pairwise(edges) if b - a >= 2 * half]
    spots = [min(max(middle, a + half), b - half) for a, b in spaces]
    return min(spots, key=lambda spot: abs(spot - middle), default=middle)


def _measure_text(text: str, size: float) -> float:
    """Estimate the width of a text in pixels, rather too wide than too narrow: fonts differ."""
    return size * sum(_measure_letter(character) for character in text)


def _measure_letter(character: str) -> float:
    if character in "fijlrt.,'|/ ()-":
        return 0.4
    if character in "mwMW@%" or character.isupper():
        return 0.9
    return 1.05 if unicodedata.east_asian_width(character) in "WF" else 0.62


def _round(value: float) -> float:
    return round(value, 1)
