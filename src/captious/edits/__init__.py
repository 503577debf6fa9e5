"""Captions changed on purpose: wrong, damaged, harmless or padded, each with a record of what was changed."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
