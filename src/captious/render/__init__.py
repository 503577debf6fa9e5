"""A result as a document, and its writers: terminal, page, LaTeX, CSV, Parquet, JSON, notebook."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
