from __future__ import annotations

import numpy as np
import pytest
from lab.toy.drawing import PALETTE, draw
from lab.toy.scenes import KINDS, SKY, UPON, Scene, Thing, places, relations, scenes


def near(scene: Scene, color: str, size: int = 160, tolerance: int = 20) -> np.ndarray:
    """Where the picture has (almost exactly) a color of the palette."""
    pixels = np.asarray(draw(scene, size), dtype=int)
    return np.abs(pixels - np.array(PALETTE[color])).max(axis=2) <= tolerance


def blobs(mask: np.ndarray, least: int = 6) -> int:
    """How many 8-connected areas of at least `least` pixels there are."""
    left = {(int(y), int(x)) for y, x in zip(*np.nonzero(mask), strict=True)}
    found = 0
    while left:
        front, size = [left.pop()], 0
        while front:
            y, x = front.pop()
            size += 1
            around = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= around
            front.extend(around)
        found += size >= least
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_the_color_of_every_thing_is_in_its_boxes(seed: int) -> None:
    for scene in scenes(60, seed):
        for thing, boxes in places(scene):
            mask = near(scene, thing.color)
            for box in boxes:
                left, top, right, bottom = (max(0, round(edge * 160)) for edge in box)
                assert mask[top : bottom + 1, left : right + 1].mean() > 0.08, (scene.id, thing)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize(("kind", "row"), [("ball", 2), ("balloon", SKY), ("flower", 2)])
def test_as_many_blobs_as_counted(kind: str, row: int, count: int) -> None:
    scene = Scene(1, "room", (Thing(kind, "purple", count=count, row=row),))
    assert blobs(near(scene, "purple", tolerance=40)) == count


def test_nothing_leaves_the_picture() -> None:
    for scene in scenes(200):
        for thing, boxes in places(scene):
            assert len(boxes) == thing.count
            for box in boxes:
                assert 0 <= box.left < box.right <= 1
                assert 0 <= box.top < box.bottom <= 1


def test_relations_said_are_relations_seen() -> None:
    for scene in scenes(300):
        placed = places(scene)
        for thing, boxes in placed:
            for other, others in placed:
                if thing is other:
                    continue
                said = relations(thing, other)
                if "left of" in said:
                    assert max(box.right for box in boxes) <= min(box.left for box in others)
                if "above" in said:
                    assert max(box.bottom for box in boxes) <= min(box.top for box in others)


def test_what_is_on_a_support_touches_its_top() -> None:
    on, under = Thing("cat", "black", row=UPON), Thing("table", "red")
    (cat,), (table,) = (boxes for _, boxes in places(Scene(1, "room", (on, under))))
    assert cat.bottom == pytest.approx(table.top)
    assert table.left < (cat.left + cat.right) / 2 < table.right


def test_larger_is_larger() -> None:
    areas = [
        near(Scene(1, "field", (Thing("ball", "red", size),)), "red").sum() for size in ("small", "medium", "large")
    ]
    assert areas == sorted(areas)
    assert areas[0] * 2 < areas[2]


def test_groups_look_different() -> None:
    first, second = (np.asarray(draw(Scene(1, "field", (Thing("person", "red", group=g),)))) for g in ("a", "b"))
    assert (first != second).any()


def test_every_kind_is_drawn_differently() -> None:
    pictures = {draw(Scene(1, "field", (Thing(kind, "red", row=2),))).tobytes() for kind in KINDS}
    assert len(pictures) == len(KINDS)


def test_size_is_respected() -> None:
    assert draw(next(scenes(1)), size=64).size == (64, 64)
