"""The studio: a web app that collects people's judgments of captions, and one that explores captions and scores."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
