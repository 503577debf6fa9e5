"""Encoders, cross-encoders and text-to-image models, and the cache of their features."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
