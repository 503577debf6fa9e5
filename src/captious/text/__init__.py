"""Captions become tokens, n-gram counts and document frequencies."""

from captious._lazy import exports

__getattr__, __dir__ = exports(__name__)
