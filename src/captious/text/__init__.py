"""Tokenizers, n-gram tables and document frequencies of captions."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
