"""The map in CONTRIBUTING.md is that of the linter, which is that of the tree."""

from lab import rooms


def test_the_map_of_contributing_is_the_layers_of_the_linter():
    text = rooms.PAGE.read_text(encoding="utf-8")
    assert rooms.MARKS[0] in text
    assert text == rooms.page(text), "run: python -m lab.rooms"


def test_every_room_has_a_sentence():
    assert not [room for layer in rooms.layers() for room in layer if not rooms.sentence(room).endswith(".")]
