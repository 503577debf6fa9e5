"""Published numbers computed again from released outputs: a registry of papers, compared with their tables."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
