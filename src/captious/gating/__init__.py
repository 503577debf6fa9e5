"""The gate: whether a new system is no worse than a base by more than a margin, for scripts and CI."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
