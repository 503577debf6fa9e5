"""Captions become tokens, n-gram counts and document frequencies."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
