"""The gate: whether a new system is no worse than a base by more than a margin, for scripts and CI."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
