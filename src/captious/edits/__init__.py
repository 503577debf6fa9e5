"""Edits that make captions wrong, damaged, harmless or padded, each with a record of its changes."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
