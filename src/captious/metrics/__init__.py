"""Metrics: their contract, the registry, a file per metric, and a folder per family."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
