"""The map in CONTRIBUTING.md is that of the linter, which is that of the tree."""

from lab import layers


def test_the_map_of_contributing_is_the_layers_of_the_linter():
    text = layers.PAGE.read_text(encoding="utf-8")
    assert layers.MARKS[0] in text
    assert text == layers.page(text), "run: python -m lab.layers"


def test_every_packages_has_a_sentence():
    assert not [package for layer in layers.layers() for package in layer if not layers.sentence(package).endswith(".")]
