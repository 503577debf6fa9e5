"""Captions changed on purpose: wrong, damaged, harmless or padded, each with a record of what was changed."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
