"""Images and texts to vectors: encoders, cross-encoders and painters, and the store of what they computed."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
