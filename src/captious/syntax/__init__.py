"""Words of captions with their parts of speech, phrases, and detail units."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
