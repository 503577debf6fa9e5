"""A result as a document, and its writers: terminal, page, LaTeX, CSV, Parquet, JSON, notebook."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
