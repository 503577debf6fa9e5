"""Metrics: their contract, the registry, a file per metric, and a folder per family."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
