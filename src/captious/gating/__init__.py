"""The gate: a test for scripts and CI that a new system is not worse than a base by more than a margin."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
