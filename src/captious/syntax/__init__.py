"""Words of captions with their parts of speech, phrases, and detail units."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
